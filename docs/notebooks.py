"""Make notebooks of the tutorials, each code cell with what it printed.

    python docs/notebooks.py [--check] [NAME ...]

Every page of docs/start that `TUTORIALS` names is run, or those that are given, and becomes docs/notebooks/NAME.ipynb.
Jupyter and Colab open them; nothing but Python makes them. With `--check` nothing is run: the exit code says whether
every notebook has the prose and the code of its page.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
PAGES = HERE / "start"
NOTEBOOKS = HERE / "notebooks"
TUTORIALS = {
    "first-proof": "",
    "will-it-train": "",
    "pytorch": "[onnx]",
    "infinitely-wide": "",
    "reading-a-theorem": "",
}
"""The tutorials, with the extra of Wideproof that each needs."""

LONGEST = 6000  # characters of what a cell printed; of more, the beginning is kept
INSTALL = """\
# Where Wideproof is not installed, as on Colab: a checkout, a wheel that you uploaded, or an address that pip takes.
SOURCE = "../.."

import importlib.util

if importlib.util.find_spec("wideproof") is None:
    %pip install --quiet {{SOURCE}}{extra}
"""
_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BESIDE = re.compile(r"\]\((?!https?:|mailto:|#|\.\./)([^)\s]+)\)")


class Cell(NamedTuple):
    """A piece of a page: prose or code, with the line it begins on."""

    code: bool
    text: str
    line: int


def cells(page: str) -> list[Cell]:
    r"""Return the cells of a page; links to pages beside it lead there from the notebooks' folder, too.

    >>> [cell.text for cell in cells("# A\n\n```python\nx = 1\n```\n\n[b](b.md)\n")]
    ['# A', 'x = 1', '[b](../start/b.md)']
    """
    found, end = [], 0
    for block in [*_CODE.finditer(page), None]:
        prose = page[end : block.start() if block else None].strip("\n")
        if prose:
            text = prose.replace("```{code-block} python", "```python")
            found.append(Cell(False, _BESIDE.sub(r"](../start/\1)", text), 0))
        if block:
            found.append(Cell(True, block[1].strip("\n"), page[: block.start(1)].count("\n") + 1))
            end = block.end()
    return found


def notebook(name: str, page: str, printed: list[str] | None = None) -> dict[str, Any]:
    """Return the notebook of a page, given what each cell printed."""
    found = cells(page)
    said = printed or [""] * len(found)
    made = [_cell(f"{name}-{k}", cell, text) for k, (cell, text) in enumerate(zip(found, said, strict=True), 1)]
    install = _cell(f"{name}-0", Cell(True, INSTALL.format(extra=TUTORIALS[name]).strip("\n"), 0), "")
    return {
        "cells": [made[0], install, *made[1:]],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(name: str, cell: Cell, printed: str) -> dict[str, Any]:
    source = cell.text.splitlines(keepends=True)
    if not cell.code:
        return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}
    if len(printed) > LONGEST:
        printed = printed[:LONGEST].rpartition("\n")[0] + "\n… (cut here)\n"
    lines = printed.splitlines(keepends=True)
    outputs = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": {},
        "outputs": outputs,
        "source": source,
    }


def run(path: Path) -> None:
    """Run the code of a page in the working folder, and print as JSON what its cells printed."""
    printed, namespace = [], {"__name__": "__main__"}
    for cell in cells(path.read_text(encoding="utf-8")):
        said = io.StringIO()
        if cell.code:
            program = compile("\n" * (cell.line - 1) + cell.text, str(path), "exec")
            with contextlib.redirect_stdout(said):
                exec(program, namespace)
        printed.append(said.getvalue())
    print(json.dumps(printed))


def make(name: str) -> None:
    """Run a tutorial, and write its notebook."""
    path = PAGES / f"{name}.md"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(HERE / "notebooks.py"), "--run", str(path)], cwd=folder, check=True, encoding="utf-8",
            stdout=subprocess.PIPE, env=os.environ | {"PYTHONWARNINGS": "error"},
        )  # fmt: skip
    made = notebook(name, path.read_text(encoding="utf-8"), json.loads(done.stdout.splitlines()[-1]))
    half = NOTEBOOKS / f"{name}.ipynb.half"
    half.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    half.replace(NOTEBOOKS / f"{name}.ipynb")


def differences() -> list[str]:
    """Return what is wrong with the stored notebooks: prose or code that is not the page's."""
    wrong = [f"{one.name} has no page" for one in NOTEBOOKS.glob("*.ipynb") if one.stem not in TUTORIALS]
    for name in TUTORIALS:
        stored = NOTEBOOKS / f"{name}.ipynb"
        if not stored.exists():
            wrong.append(f"{name} has no notebook")
            continue
        found = json.loads(stored.read_text(encoding="utf-8"))
        for cell in found["cells"]:
            if "outputs" in cell:
                cell["outputs"] = []
        if found != notebook(name, (PAGES / f"{name}.md").read_text(encoding="utf-8")):
            wrong.append(f"{stored.name} is not the notebook of its page")
    return wrong


def main() -> int:
    """Make the notebooks, or compare them with the pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="the tutorials to run (default: all)")
    parser.add_argument("--check", action="store_true", help="run nothing; compare notebooks and pages")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run(given.run)
        return 0
    for name in [] if given.check else given.names or TUTORIALS:
        print(name, flush=True)
        make(name)
    wrong = differences()
    for one in wrong:
        print(f"{one}; run `make notebooks`", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
