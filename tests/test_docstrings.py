"""Docstrings of public names are complete: every argument has a row, every returned value a section."""

from __future__ import annotations

import enum
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]


def _names() -> ModuleType:
    """The module that decides what stands in the API reference."""
    spec = importlib.util.spec_from_file_location("names", ROOT / "docs" / "_ext" / "names.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = _names()


def section(doc: str, title: str) -> str:
    """Return the text below a title, up to the next one.

    >>> section("Add.\\n\\nReturns\\n-------\\nint\\n    The sum.\\n\\nExamples\\n--------\\n>>> 1\\n", "Returns")
    'int\\n    The sum.\\n\\n'
    """
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n---+$|\Z)", doc, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def rows(doc: str, title: str) -> dict[str, str]:
    """Return what a section says of each name.

    >>> rows("Parameters\\n----------\\nx, y\\n    Numbers.\\n*rest\\n    More.\\n", "Parameters")
    {'x': 'Numbers.', 'y': 'Numbers.', 'rest': 'More.'}
    """
    found = {}
    for row in re.finditer(r"^(\S.*)\n((?:[ \t]+.*\n?|\s*\n)*)", section(doc, title), re.MULTILINE):
        for name in row[1].partition(" : ")[0].split(","):
            found[name.strip("* ")] = " ".join(row[2].split())
    return found


def arguments(value: Callable[..., object]) -> list[str]:
    """Return the arguments that a caller gives."""
    if isinstance(value, enum.EnumType):
        return []
    try:
        found = list(inspect.signature(value).parameters)
    except ValueError:  # an exception of Python's own kind
        return []
    return [name for name in found if name not in ("self", "cls") and not name.startswith("_")]


def has(value: object, name: str) -> bool:
    """Return whether objects of a class have an attribute, which a method may set (`ridge_` of a fitted estimator)."""
    bases = [base for base in getattr(value, "__mro__", ()) if base.__module__.startswith("wideproof")]
    return hasattr(value, name) or any(f"self.{name}" in inspect.getsource(base) for base in bases)


def faults(value: Callable[..., object]) -> list[str]:
    """Return what is wrong with a docstring.

    >>> faults(lambda x: x)
    ['x: no row']
    """
    doc = inspect.getdoc(value) or ""
    given = rows(doc, "Parameters")
    attributes = rows(doc, "Attributes") if isinstance(value, type) else {}
    names = arguments(value)
    wrong = [f"{name}: no row" for name in names if not (given | attributes).get(name)]
    wrong += [f"{name}: no argument" for name in given if name not in names]
    wrong += [f"{name}: no attribute" for name in attributes if name not in names and not has(value, name)]
    wrong += [f"{name}: opens with Of" for name, text in (given | attributes).items() if text.startswith("Of ")]
    if inspect.isclass(value):
        return wrong
    returned = getattr(value, "__annotations__", {}).get("return")
    if returned not in (None, "None") and not any(section(doc, title) for title in ("Returns", "Yields")):
        wrong.append("no Returns")
    return wrong


class Public(NamedTuple):
    package: str
    name: str
    value: Callable[..., object]


def public() -> Iterator[Public]:
    """Yield every public function and class once, with the package that describes it."""
    seen = set()
    for package in [*NAMES.PACKAGES[1:], "wideproof"]:  # most names of `wideproof` itself are those of others
        for name in NAMES.names_of(package):
            value = getattr(importlib.import_module(package), name)
            if (inspect.isclass(value) or inspect.isroutine(value)) and id(value) not in seen:
                seen.add(id(value))
                yield Public(package, name, value)


@pytest.mark.parametrize("package", NAMES.PACKAGES)
def test_every_argument_has_a_row_and_every_value_a_section(package: str):
    found = {one.name: faults(one.value) for one in public() if one.package == package}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def methods(value: type) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the public methods that a class defines itself."""
    for name, one in vars(value).items():
        inner = one.__func__ if isinstance(one, classmethod | staticmethod) else one
        if not name.startswith("_") and inspect.isfunction(inner):
            yield name, inner


def test_every_argument_of_a_public_method_has_a_row():
    missing = []
    for one in public():
        for name, method in methods(one.value) if isinstance(one.value, type) else ():
            given = rows(inspect.getdoc(getattr(one.value, name)) or "", "Parameters")
            missing += [f"{one.name}.{name}: {key}" for key in arguments(method) if not given.get(key)]
    assert missing == []


def test_faults_are_found():
    def function(here, there, where) -> int:  # pyright: ignore[reportReturnType]
        """Do it there.

        Parameters
        ----------
        here, nowhere
            A place.
        where

        Notes
        -----
        `there` is a place as well.
        """

    assert faults(function) == ["there: no row", "where: no row", "nowhere: no argument", "no Returns"]

    class Thing:
        """A thing.

        Attributes
        ----------
        size
            Of the thing.
        colour
            Red or blue.
        """

        def __init__(self, size: int, weight: float) -> None:
            self.size, self.weight = size, weight

    assert faults(Thing) == ["weight: no row", "colour: no attribute", "size: opens with Of"]
