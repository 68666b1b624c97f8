"""Measure the standard study with the seeds 0, 1 and 2; write what comes with the package, and the page of statements.

    python tools/statements.py FOLDER    # measure what FOLDER does not have yet, an hour on one core for each seed
    python tools/statements.py           # only write the page, from what comes with the package

A seed is a file `seed-N.json` in the folder, as `wideproof check --study standard --seed N --json` prints it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from wideproof.papers import Measured, examine, joined, save_study, statements, stored
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


def measure(folder: Path, seed: int) -> None:
    """Measure all statements with one seed, unless the folder has it."""
    path = folder / f"seed-{seed}.json"
    if path.exists():
        return

    def say(now: Progress) -> None:
        one: Measured = now.latest
        print(f"seed {seed}: {one.check.outcome} {one.statement.name}, {one.seconds:.1f} s", flush=True)

    found = examine(statements(), "standard", seed, say)
    write_bytes(path, json.dumps(found.to_dict()).encode())


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where the studies are kept, one file for each seed")
    folder = parser.parse_args().folder
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for seed in SEEDS:
            measure(folder, seed)
        studies = [json.loads((folder / f"seed-{seed}.json").read_text(encoding="utf-8")) for seed in SEEDS]
        save_study(joined(studies), KEPT)
        stored.cache_clear()
    write_bytes(PAGE, page().encode())


if __name__ == "__main__":
    main()
