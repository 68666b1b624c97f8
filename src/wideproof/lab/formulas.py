"""What statements say, for a page: text as text, and TeX as MathML, which browsers draw themselves."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert

from wideproof.papers import Statement

RELATIONS = frozenset("=≤≥<>∼→∈≲≳⇒⪰≠↦")
LONG = 14  # elements of a formula that may be broken before a relation
SPACE = "http://www.w3.org/1998/Math/MathML"
PRIME = '<mo lspace="0" rspace="0">&#x02032;</mo>'
# Delimiters that the converter leaves as they are written after \big.
DELIMITERS = {r">\|<": ">‖<", r">\{<": ">{<", r">\}<": ">}<", r">\langle<": ">⟨<", r">\rangle<": ">⟩<"}


def pieces(text: str) -> list[dict[str, Any]]:
    r"""Return a text with formulas between dollars, paragraph by paragraph, as pieces for a page.

    >>> [sorted(piece) for piece in pieces("All of $x$.")]
    [['text'], ['math'], ['text']]
    """
    found: list[dict[str, Any]] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if found:
            found.append({"break": True})
        for piece in re.split(r"(\$\$.+?\$\$|\$.+?\$)", " ".join(paragraph.split())):
            if piece.startswith("$$"):
                found.append({"math": mathml(piece[2:-2], True), "display": True})
            elif piece.startswith("$"):
                found += [{"math": part} for part in broken(mathml(piece[1:-1]))]
            else:
                found += _spoken(piece)
    return found


def _spoken(text: str) -> list[dict[str, Any]]:
    """Return plain text, with what stands between backticks as code."""
    parts = re.split(r"`([^`]+)`", text)
    return [{"code" if k % 2 else "text": part} for k, part in enumerate(parts) if part]


@functools.lru_cache(maxsize=4096)
def mathml(tex: str, display: bool = False) -> str:
    r"""Return a formula as MathML.

    >>> "<msqrt>" in mathml(r"\sqrt m")
    True
    """
    found = convert(tex.strip(), display="block" if display else "inline")
    for written, meant in DELIMITERS.items():
        found = found.replace(written, meant)
    # A prime is drawn raised in every font: as an exponent it would be raised twice, and tiny.
    return re.sub(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>", rf"<mrow>\1{PRIME}</mrow>", found)


def broken(formula: str) -> list[str]:
    r"""Return a formula in the line as pieces between which a line may end: before relations, if it is long.

    >>> len(broken(mathml("a = b"))), len(broken(mathml("a+b+c+d+e+f+g+h = b")))
    (1, 2)
    """
    whole = ElementTree.fromstring(formula)
    rows = list(whole)
    inner = list(rows[0]) if len(rows) == 1 and rows[0].tag == f"{{{SPACE}}}mrow" else []
    if sum(1 for _ in whole.iter()) < LONG:
        return [formula]
    starts = [k for k, part in enumerate(inner) if k and part.tag == f"{{{SPACE}}}mo" and part.text in RELATIONS]
    if not starts:
        return [formula]
    ElementTree.register_namespace("", SPACE)
    found = []
    for begin, end in zip([0, *starts], [*starts, len(inner)], strict=True):
        piece = copy.copy(whole)
        row = ElementTree.Element(f"{{{SPACE}}}mrow")
        row.extend(inner[begin:end])
        piece[:] = [row]
        found.append(ElementTree.tostring(piece, encoding="unicode"))
    return found


def said(statement: Statement) -> list[dict[str, Any]]:
    """Return what a statement says, as its function states it; nothing where there is none."""
    function = getattr(import_module(f"wideproof.papers.{statement.paper}"), statement.id, None)
    return pieces(function.__doc__) if function is not None and function.__doc__ else []
