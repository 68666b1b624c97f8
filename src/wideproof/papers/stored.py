"""What the standard study found, as it comes with this package, and the short form in which it is kept.

`wideproof check --study standard --json > found.json` makes it anew, and then `python -m wideproof.papers.stored
found.json` writes `standard.json`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

import numpy as np

from wideproof.answers import Answer
from wideproof.papers.check import Check
from wideproof.papers.slopes import Slope

FILE = "standard.json"
DIGITS = 3  # of measured values


@cache
def stored() -> dict[str, Any]:
    """Return the study, its seed, and for each statement what was found, in the short form.

    >>> stored()["statements"]["zou2018.lemma_a_12"]["outcome"]
    'fails'
    """
    return json.loads(resources.files("wideproof.papers").joinpath(FILE).read_text(encoding="utf-8"))


def shortened(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a check as `Findings.to_dict` has it in a form for display: its numbers as a line, its parts alike.

    A check that joins several shows the one that decides: its slope stands with that part.
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
    kept = {key: found[key] for key in ("note", "assumptions", "seconds", "as_expected") if found.get(key)}
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


def main(arguments: list[str]) -> None:
    """Write the study that `wideproof check --json` printed next to this module."""
    found = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    rows = {f"{one['paper']}.{one['id']}": shortened(one) for one in found["statements"]}
    for row in rows.values():  # statements share what they measure, so that the seconds of one say little
        row.pop("seconds", None)
    kept = {"study": found["study"], "seed": found["seed"], "statements": rows}
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":")).replace('"compared"', '\n"compared"')
    (Path(__file__).parent / FILE).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
