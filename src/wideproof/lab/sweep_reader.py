"""`python -m wideproof.lab.sweep_reader FOLDER OUT`: draw the results of a sweep, light and dark, with its exponents.

Writes OUT/0-light.svg and so on, and prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# The figures' colours on a dark page.
DARK = {
    "#3d434b": "#c3c9d1", "#0072b2": "#6db9ee", "#d55e00": "#f0a266", "#009e73": "#5fcf95", "#a0468c": "#dd97cf",
    "#8a6d00": "#d9b64a", "#3a3a3a": "#c3c9d1",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Read, draw, and say what was found; a sentence where that cannot be done."""
    from wideproof.errors import InputError

    try:
        found = read(Path(arguments[0]), Path(arguments[1]))
    except InputError as error:
        found = {"error": str(error)}
    print(json.dumps(found), flush=True)
    return 0


def read(folder: Path, out: Path) -> dict[str, Any]:
    """Return titles, exponents and measures of a sweep's results, and write its figures to `out`."""
    import xarray as xr

    from wideproof.errors import InputError
    from wideproof.report import sweep_figure
    from wideproof.storage import plain
    from wideproof.sweeps import summary
    from wideproof.sweeps.store import RESULTS

    study = study_of(folder)
    try:
        results = xr.open_zarr(folder / RESULTS, consolidated=False).load()
        drawn = [one for wanted in study.figures if (one := sweep_figure(results, wanted)) is not None]
        measures = summary(results)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"the results of this sweep cannot be read ({type(error).__name__})") from error
    figures = []
    for k, one in enumerate(drawn):
        _write(one.figure, out, k)
        rows = [
            {"where": fit.label, "value": fit.value, "low": fit.low, "high": fit.high, "left_out": list(fit.left_out),
             "predicted": one.predicted[i] if one.predicted else ""}
            for i, fit in enumerate(one.exponents)
        ]  # fmt: skip
        figures.append({"title": one.title, "factor": one.factor, "exponents": rows})
    return plain({"figures": figures, "measures": measures}, odd=repr)


def study_of(folder: Path) -> Any:
    """Return the study of a sweep's folder: as it is written there, or the bundled one of its name."""
    from pydantic import ValidationError

    from wideproof.errors import InputError
    from wideproof.storage import read_json
    from wideproof.sweeps import Study, bundled, read_study
    from wideproof.sweeps.store import ABOUT

    try:
        about = read_json(folder / ABOUT)
        if "study" in about:
            return Study.model_validate(about["study"])
    except (ValidationError, RecursionError):
        raise InputError("the study of this sweep is damaged: run the sweep again, what is done is kept") from None
    if about.get("name") in bundled():
        return read_study(about["name"])
    raise InputError("this folder does not say what was swept: run the sweep again, what is done is kept")


def _write(figure: Any, out: Path, k: int) -> None:
    from wideproof.report import svg_text

    light = svg_text(figure, f"sweep-{k}")
    dark = light
    for colour, instead in DARK.items():
        dark = dark.replace(colour, instead)
    for name, text in (("light", light), ("dark", dark)):
        (out / f"{k}-{name}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
