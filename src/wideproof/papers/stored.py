"""What the standard study found with several seeds, as it comes with this package, and the short form of it.

`tools/statements.py` measures it anew and writes `standard.json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

import numpy as np

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.papers.check import Check
from wideproof.papers.slopes import Slope
from wideproof.storage import write_bytes

FILE = "standard.json"
DIGITS = 3  # of measured values


@cache
def stored() -> dict[str, Any]:
    """Return the stored study: its seeds, and the findings for each statement, as `joined` returns them.

    Returns
    -------
    dict[str, Any]
        The study.

    Examples
    --------
    >>> stored()["statements"]["zou2018.lemma_a_12"]["outcome"]
    'fails'
    """
    return json.loads(resources.files("wideproof.papers").joinpath(FILE).read_text(encoding="utf-8"))


def shortened(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a check of `Findings.to_dict` in a form for display: its numbers as a line, its parts likewise.

    A check that joins several shows the one that decides, with its slope.

    Parameters
    ----------
    found
        One check.

    Returns
    -------
    dict[str, Any]
        The short form.
    """
    parts = [shortened(part) for part in found.get("parts", ())]
    short: dict[str, Any] = {
        "compared": found["compared"], "outcome": found["outcome"], "numbers": _numbers(found),
        "samples": found["samples"],
    }  # fmt: skip
    if found.get("slope") and not parts:
        short["slope"] = _slope(found["slope"])
    if parts:
        short["parts"] = parts
    if found.get("hypotheses"):
        short["hypotheses"] = [shortened(part) for part in found["hypotheses"]]
    kept = {
        key: found[key]
        for key in ("note", "assumptions", "frozen", "vacuous", "seconds", "as_expected")
        if found.get(key)
    }
    return short | kept


def _numbers(found: Mapping[str, Any]) -> str:
    slope = found.get("slope")
    fitted = None
    if slope:
        low, high = slope["interval"]
        fitted = Slope(
            slope["variable"], np.array(slope["x"]), np.array(slope["y"]), slope["value"], low, high,
            slope["printed"], slope["sense"], slope["allowance"],
        )  # fmt: skip
    sides = {key: found.get(key) for key in ("left", "right", "constant")}
    return Check(found["compared"], "bound", Answer(found["outcome"]), slope=fitted, **cast("Any", sides)).numbers()


def _slope(slope: Mapping[str, Any]) -> dict[str, Any]:
    rounded = {"x": [_short(x) for x in slope["x"]], "y": [[_short(y) for y in row] for row in slope["y"]]}
    return {**slope, "value": _short(slope["value"]), "interval": [_short(x) for x in slope["interval"]], **rounded}


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else value


def joined(studies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join studies that differ only in the seed.

    The result has the first study in the short form, for every statement the outcomes `by_seed`, and under `others` the
    findings of the seeds with another outcome.

    Parameters
    ----------
    studies
        Results of `Findings.to_dict`.

    Returns
    -------
    dict[str, Any]
        The joined study.
    """
    first = studies[0]
    names = [f"{one['paper']}.{one['id']}" for one in first["statements"]]
    for study in studies:
        if study["study"] != first["study"] or [f"{o['paper']}.{o['id']}" for o in study["statements"]] != names:
            raise InputError("studies are joined where they have the same size and the same statements")
    rows = {}
    for name, *found in zip(names, *(study["statements"] for study in studies), strict=True):
        kept = [shortened(one) for one in found]
        for row in kept:  # statements share what they measure, so that the seconds of one say little
            row.pop("seconds", None)
        others = {
            str(study["seed"]): {key: row.get(key, "") for key in ("outcome", "numbers", "note")}
            for study, row in zip(studies, kept, strict=True)
            if row["outcome"] != kept[0]["outcome"]
        }
        rows[name] = {**kept[0], "by_seed": [row["outcome"] for row in kept], **({"others": others} if others else {})}
        rows[name]["as_expected"] = all(row.get("as_expected", False) for row in kept)
    seeds, seconds = ([study[key] for study in studies] for key in ("seed", "seconds"))
    return {"study": first["study"], "seeds": seeds, "seconds": seconds, "statements": rows}


def save_study(kept: Mapping[str, Any], path: Path) -> None:
    """Write a joined study to a file, one line for every comparison.

    Parameters
    ----------
    kept
        The result of `joined`.
    path
        The file.
    """
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":")).replace('"compared"', '\n"compared"')
    write_bytes(path, (text + "\n").encode())
