"""Calibrate the constants of the bounds that leave theirs open, and write `constants.json`.

    python tools/constants.py                          # all of them, some minutes on one core
    python tools/constants.py zou2018.theorem_5_1      # some of them

Calibrated is at the small sizes of each statement with the seeds 10 to 14; what is judged has other sizes and seeds.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from wideproof.papers import PAPERS, frozen, laboratory
from wideproof.papers.catalogue import registered
from wideproof.storage import write_bytes

KEPT = Path(__file__).parents[1] / "src/wideproof/papers" / frozen.FILE


def main() -> None:
    """Calibrate what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="statements, such as zou2018.theorem_5_1; by default all")
    names = parser.parse_args().names
    for paper in PAPERS:
        registered(paper)
    found = dict(frozen.constants())
    for name in names or sorted(frozen.REGISTERED):
        start, trials, paper = time.perf_counter(), frozen.REGISTERED[name], name.partition(".")[0]
        found[name] = trials.calibrate([laboratory(paper, "quick", seed) for seed in frozen.SEEDS])
        print(f"{name}: {found[name]}, {time.perf_counter() - start:.0f} s", flush=True)
    kept = {name: found[name] for name in sorted(found) if name in frozen.REGISTERED and found[name]}
    write_bytes(KEPT, (json.dumps(kept, indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    main()
