"""Make the gallery from the examples: a page for each script, with what it printed and what it drew.

    python docs/gallery.py [--check] [BEGINNING_OF_A_NAME ...]

Every script of examples/ is run, or those that are named. Its code and prose become docs/gallery/NAME.md, each cell
followed by what it printed; the SVG files that it wrote are kept in docs/_static/gallery. With `--check` nothing is
run: the exit code says whether every page has the code, the prose and the pictures of its script.
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
from typing import NamedTuple

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
PAGES = HERE / "gallery"
PICTURES = HERE / "_static" / "gallery"
INTRODUCTION = """# Gallery

Every script in `examples/`, with its code, what it printed and the picture it drew. The seeds are fixed, so your own
run gives the same numbers, up to the last digits on another machine.

"""
_CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
_PICTURE = re.compile(r"^:::\{figure\} \.\./_static/gallery/(\S+)$", re.MULTILINE)
_OUTPUT = re.compile(r"^```text\n.*?^```\n\n", re.MULTILINE | re.DOTALL)
_FIGURE = re.compile(r"^:::\{figure\}.*?^:::\n\n", re.MULTILINE | re.DOTALL)


class Cell(NamedTuple):
    """A piece of a script: prose or code."""

    prose: bool
    text: str
    line: int


def summary(script: str) -> str:
    """Return the sentence a script begins with."""
    return script.split('"""')[1].strip()


def cells(script: str) -> list[Cell]:
    """Return the cells of a script in the percent format, without its docstring."""
    parts = _CELL.split(script)[1:]
    line, found = script[: script.index("# %%")].count("\n") + 2, []
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        own = re.sub(r"^# ?", "", text, flags=re.MULTILINE) if kind else text
        found.append(Cell(bool(kind), own.strip("\n"), line))
        line += text.count("\n") + 1
    return found


def title(script: str) -> str:
    """Return the heading of a script's first cell."""
    return cells(script)[0].text.splitlines()[0].removeprefix("# ")


def page(path: Path, script: str, printed: list[str], drawn: list[list[str]]) -> str:
    """Return the page of a script, given what each cell printed and drew."""
    head, *rest = cells(script)
    heading, _, opening = head.text.partition("\n")
    parts = [f"# {heading.removeprefix('# ')}\n\n{summary(script)}\n"]
    parts += [f"{{download}}`Download {path.name} <../../examples/{path.name}>`\n", opening.strip() + "\n"]
    for cell, text, figures in zip(rest, printed[1:], drawn[1:], strict=True):
        parts.append(cell.text + "\n" if cell.prose else f"```{{code-block}} python\n{cell.text}\n```\n")
        if text.strip():
            parts.append(f"```text\n{text.strip()}\n```\n")
        parts += [f":::{{figure}} ../_static/gallery/{name}\n:alt: {alt(name, script)}\n:::\n" for name in figures]
    return "\n".join(part for part in parts if part.strip()) + "\n"


def alt(name: str, script: str) -> str:
    """Return what a picture is called where it cannot be seen."""
    return f"{title(script)}: {Path(name).stem.split('-', 1)[1].replace('_', ' ')}"


def index(scripts: dict[str, str]) -> str:
    """Return the gallery's first page: a card for each script."""
    cards = "".join(card(stem, script) for stem, script in scripts.items())
    names = "\n".join(scripts)
    return f"{INTRODUCTION}:::::{{container}} gallery\n{cards}:::::\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def card(stem: str, script: str) -> str:
    """Return a script's card: its first picture, its title, its sentence."""
    first = min(PICTURES.glob(f"{stem[:2]}-*.svg")).name
    return (
        f"::::{{container}} card\n[![{title(script)}](../_static/gallery/{first})]({stem}.md)\n\n"
        f"**[{title(script)}]({stem}.md)**\n\n{summary(script)}\n::::\n"
    )


def run(path: Path) -> None:
    """Run a script in the working folder, and print as JSON what its cells printed and drew."""
    import matplotlib

    matplotlib.rcParams.update({"svg.hashsalt": path.stem, "savefig.transparent": True})
    printed, drawn, seen = [], [], set()
    namespace: dict[str, object] = {"__name__": "__main__"}
    for cell in cells(path.read_text(encoding="utf-8")):
        said = io.StringIO()
        if not cell.prose:
            program = compile("\n" * (cell.line - 1) + cell.text, str(path), "exec")
            with contextlib.redirect_stdout(said):
                exec(program, namespace)
        new = sorted(set(Path().glob("*.svg")) - seen)
        seen |= set(new)
        printed.append(said.getvalue())
        drawn.append([str(one) for one in new])
    print(json.dumps([printed, drawn]))


def make(path: Path) -> None:
    """Run a script, and write its page and pictures."""
    script, number = path.read_text(encoding="utf-8"), path.stem[:2]
    with tempfile.TemporaryDirectory() as folder:
        # Without a date in the pictures, the same example gives the same file.
        done = subprocess.run(
            [sys.executable, str(HERE / "gallery.py"), "--run", str(path)], cwd=folder, check=True, encoding="utf-8",
            stdout=subprocess.PIPE, env=os.environ | {"SOURCE_DATE_EPOCH": "0", "PYTHONWARNINGS": "error"},
        )  # fmt: skip
        printed, drawn = json.loads(done.stdout.splitlines()[-1])
        for old in PICTURES.glob(f"{number}-*.svg"):
            old.unlink()
        for name in (name for figures in drawn for name in figures):
            text = (Path(folder) / name).read_text(encoding="utf-8")
            kept = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
            (PICTURES / f"{number}-{name}").write_text(kept, encoding="utf-8")
    named = [[f"{number}-{name}" for name in figures] for figures in drawn]
    (PAGES / f"{path.stem}.md").write_text(page(path, script, printed, named), encoding="utf-8")


def differences(scripts: dict[str, str]) -> list[str]:
    """Return what is wrong with the stored pages: code that is not the script's, pictures that are not there."""
    wrong = [f"{one.name} has no script" for one in PAGES.glob("*.md") if one.stem not in {"index", *scripts}]
    for stem, script in scripts.items():
        stored = PAGES / f"{stem}.md"
        if not stored.exists():
            wrong.append(f"{stem} has no page")
            continue
        text = stored.read_text(encoding="utf-8")
        bare = _OUTPUT.sub("", _FIGURE.sub("", text + "\n"))
        silent = page(EXAMPLES / f"{stem}.py", script, [""] * len(cells(script)), [[]] * len(cells(script)))
        if bare.strip() != silent.strip():
            wrong.append(f"{stored.name} is not the page of its script")
        pictures = _PICTURE.findall(text)
        if not pictures:
            wrong.append(f"{stored.name} has no picture")
        wrong += [f"{name} is missing" for name in pictures if not (PICTURES / name).exists()]
    if not wrong and (PAGES / "index.md").read_text(encoding="utf-8") != index(scripts):
        wrong.append("index.md is not that of the examples")
    return wrong


def main() -> int:
    """Make the pages, or compare them with the scripts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="beginnings of the names of the examples to run (default: all)")
    parser.add_argument("--check", action="store_true", help="run nothing; compare pages and scripts")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run(given.run)
        return 0
    scripts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.py"))}
    if not given.check:
        for stem in scripts:
            if not given.names or any(stem.startswith(name) for name in given.names):
                print(stem, flush=True)
                make(EXAMPLES / f"{stem}.py")
        (PAGES / "index.md").write_text(index(scripts), encoding="utf-8")
    wrong = differences(scripts)
    for one in wrong:
        print(f"{one}; run `make gallery`", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
