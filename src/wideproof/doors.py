"""Doors that open when somebody asks: names that a package gives without importing their modules first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str], modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package whose names are imported on first use.

    Parameters
    ----------
    package
        The package's `__name__`.
    homes
        The names that each module gives, between blanks. A name must not be a submodule's too: once that is imported
        it stands in the name's place.
    modules
        Packages and modules below this one that are given as they are.

    Examples
    --------
    >>> get, names = lazily("wideproof", {"wideproof.errors": "InputError"}, ("data",))
    >>> get("InputError").__name__, get("data").__name__
    ('InputError', 'wideproof.data')
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module '{package}' has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    def names() -> list[str]:
        found = vars(sys.modules[package]).items()
        here = [name for name, value in found if not (name.startswith("_") or isinstance(value, ModuleType))]
        return sorted({*here, *home, *modules})

    return get, names
