"""How much room a statement's comparisons leave: what a reader needs to see which ones could have failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

IDLE = 0.01  # a bound that holds with so small a constant could hardly have failed
WIDE = 1.0  # powers of room


def leaves(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the comparisons that a stored check joins, itself if it is one.

    Parameters
    ----------
    found
        A check in the short form of `wideproof.papers.shortened`.

    Yields
    ------
    Mapping
        The comparisons.

    Examples
    --------
    >>> [leaf["numbers"] for leaf in leaves({"numbers": "", "parts": [{"numbers": "a"}, {"numbers": "b"}]})]
    ['a', 'b']
    """
    parts = found.get("parts", ())
    if not parts:
        yield found
    for part in parts:
        yield from leaves(part)


def exponent_room(leaf: Mapping[str, Any]) -> float | None:
    """Return by how many powers a fitted exponent is better than the printed one; None if it has to be equal.

    Parameters
    ----------
    leaf
        One comparison.

    Returns
    -------
    float | None
        The room.

    Examples
    --------
    >>> exponent_room({"slope": {"value": 0.45, "printed": 7.0, "sense": "at most"}})
    6.55
    """
    slope = leaf.get("slope")
    if not slope or slope["sense"] == "equal":
        return None
    sign = 1 if slope["sense"] == "at most" else -1
    return sign * (slope["printed"] - slope["value"])


def least_constant(leaf: Mapping[str, Any]) -> float | None:
    """Return the least constant with which a bound holds; None for what is no bound with a factor.

    Parameters
    ----------
    leaf
        One comparison.

    Returns
    -------
    float | None
        The constant.

    Examples
    --------
    >>> least_constant({"numbers": "0.1 against 9, holds for C >= 0.0111"})
    0.0111
    """
    found = re.search(r"holds for C >= ([-+.\de]+)", leaf["numbers"])
    return float(found.group(1)) if found else None


def room(found: Mapping[str, Any]) -> str:
    """Return what is left between the measured and the printed side of a statement, in a few words.

    Parameters
    ----------
    found
        A check in the short form.

    Returns
    -------
    str
        The exponent with the most room where that is a power or more, the smallest constant below 0.01, and of a bound
        whose constant was fixed before how much of it is used.

    Examples
    --------
    >>> room({"numbers": "", "slope": {"variable": "L", "value": 0.45, "printed": 7.0, "sense": "at most"}})
    'L: 0.45, printed 7'
    >>> room({"numbers": "1 against 0.9, holds for C >= 0.8", "frozen": True})
    '0.8 of C'
    """
    parts, every = [], list(leaves(found))
    wide = [(left, leaf["slope"]) for leaf in every if (left := exponent_room(leaf)) is not None and left >= WIDE]
    if wide:
        _, slope = max(wide, key=lambda one: one[0])
        parts.append(f"{slope['variable']}: {slope['value']:.2g}, printed {slope['printed']:.3g}")
    used = [c for leaf in every if leaf.get("frozen") and (c := least_constant(leaf)) is not None]
    if used:
        parts.append(f"{max(used):.2g} of C")
    idle = [c for leaf in every if not leaf.get("frozen") and (c := least_constant(leaf)) is not None and c < IDLE]
    if idle:
        parts.append(f"C < 0.01: {min(idle):.2g}")
    if any(leaf.get("vacuous") for leaf in every):
        parts.append("vacuous here")
    return "; ".join(parts)


def totals(every: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence that counts bounds and exponents by what they leave.

    Parameters
    ----------
    every
        The checks of all statements, in the short form.

    Returns
    -------
    str
        The sentence.

    Examples
    --------
    >>> totals([{"numbers": "1 against 9, holds for C >= 0.001"}])[:53]
    '1 bound has a constant. 0 of them were fixed before, '
    """
    checks = [leaf for found in every for leaf in leaves(found)]
    bounds = [leaf for leaf in checks if least_constant(leaf) is not None and not leaf.get("slope")]
    frozen, vacuous = (sum(bool(leaf.get(key)) for leaf in checks) for key in ("frozen", "vacuous"))
    idle = sum((least_constant(leaf) or 0.0) < IDLE for leaf in bounds if not leaf.get("frozen"))
    rooms = [left for leaf in checks if (left := exponent_room(leaf)) is not None]
    wide = sum(left >= WIDE for left in rooms)
    have = f"{len(bounds)} bounds have a constant" if len(bounds) != 1 else "1 bound has a constant"
    return (
        f"{have}. {frozen} of them were fixed before, at smaller sizes and with other seeds; of the others {idle} hold "
        f"with a constant below 0.01. {vacuous} bounds say nothing at the sizes that were measured and count as "
        f"undecided. Of {len(rooms)} exponents with a limit on one side {wide} leave a power of room or more."
    )
