"""Measure the standard study with the seeds 0, 1 and 2; write what comes with the package, and the page of statements.

    python tools/statements.py FOLDER                  # measure what FOLDER does not have yet, for hours
    python tools/statements.py FOLDER --only NAME ...  # measure these, and keep the rest as it comes with the package
    python tools/statements.py                         # only write the page, from what comes with the package

A seed is a file `seed-N.json` in the folder, as `wideproof check --study standard --seed N --json` prints it. A
statement may change only itself: no number depends on which statements are measured together.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wideproof.papers import Measured, Statement, examine, joined, save_study, statements, stored
from wideproof.progress import Progress
from wideproof.report import study_markdown
from wideproof.storage import write_bytes

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "src/wideproof/papers/standard.json"
PAGE = ROOT / "docs/theory/statements.md"
SEEDS = (0, 1, 2)


def page() -> str:
    """Return the page of what comes with the package."""
    return study_markdown(stored(), "python tools/statements.py FOLDER", errata="[Errata](errata.md)")


def measure(folder: Path, seed: int, wanted: Sequence[Statement]) -> None:
    """Measure statements with one seed, unless the folder has it."""
    path = folder / f"seed-{seed}.json"
    if path.exists():
        return

    def say(now: Progress) -> None:
        one: Measured = now.latest
        print(f"seed {seed}: {one.check.outcome} {one.statement.name}, {one.seconds:.1f} s", flush=True)

    found = examine(wanted, "standard", seed, say)
    write_bytes(path, json.dumps(found.to_dict()).encode())


def merged(new: dict[str, Any]) -> dict[str, Any]:
    """Return the study that comes with the package with newly measured statements in place of the old ones."""
    old, found = stored(), new["statements"]
    kept = {one.name: found.get(one.name, old["statements"].get(one.name)) for one in statements()}
    missing = [name for name, row in kept.items() if row is None]
    if missing:
        raise SystemExit(f"never measured: {', '.join(missing)}; name them after --only")
    return {**old, "statements": kept}


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where the studies are kept, one file for each seed")
    parser.add_argument("--only", nargs="+", default=[], help="names of statements, such as zou2018.theorem_5_1")
    arguments = parser.parse_args()
    folder, only = arguments.folder, set(arguments.only)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [one for one in statements() if not only or one.name in only]
        for seed in SEEDS:
            measure(folder, seed, wanted)
        studies = [json.loads((folder / f"seed-{seed}.json").read_text(encoding="utf-8")) for seed in SEEDS]
        save_study(merged(joined(studies)) if only else joined(studies), KEPT)
        stored.cache_clear()
    write_bytes(PAGE, page().encode())


if __name__ == "__main__":
    main()
