"""Arguments of earlier versions, which still work and say what they are called now."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def renamed(convert: Callable[[Any], Any] = lambda value: value, /, **former: str) -> Callable[[F], F]:
    """Return a decorator by which a function takes arguments under former names, too, with a warning.

    Parameters
    ----------
    convert
        Makes what is meant now of a value of the former argument.
    former
        The former names, each with the present one.

    Examples
    --------
    >>> @renamed(step="step_size")
    ... def half(step_size):
    ...     return step_size / 2
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     half(step=3.0), str(seen[0].message)
    (1.5, 'half() takes step_size= in place of step=')
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **given: Any) -> Any:
            for old in former.keys() & given.keys():
                new = former[old]
                warnings.warn(
                    f"{function.__name__}() takes {new}= in place of {old}=", DeprecationWarning, stacklevel=2
                )
                if new in given:
                    raise TypeError(f"{function.__name__}() got {new}= and {old}=, which are the same: give {new}=")
                given[new] = convert(given.pop(old))
            return function(*args, **given)

        return cast("F", call)

    return decorate
