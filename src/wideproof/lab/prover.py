"""`python -m wideproof.lab.prover FOLDER`: prove the run in FOLDER/run, and write certificate and report beside it.

Every line of output is a JSON object: what is being done, and at the end what came of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> int:
    """Prove, and say so line by line."""
    from wideproof.proving import prove_run
    from wideproof.training import Run

    folder, from_start = Path(arguments[0]), "--from-start" in arguments

    def say(**fields: Any) -> None:
        print(json.dumps(fields), flush=True)

    proof = prove_run(
        Run.load(folder / "run"),
        folder,
        from_start=from_start,
        progress=lambda now: say(state="proving", text=now.text),
    )
    proof.save_report()
    state = "proved" if proof.proved else "impossible" if proof.impossible else "open"
    obstacle = "" if proof.attempt.obstacle is None else str(proof.attempt.obstacle)
    say(
        state=state, text=proof.headline, obstacle=obstacle, notes=list(proof.notes), h=proof.attempt.h,
        begun=proof.start is not None, seconds=sum(proof.seconds.values()), certificate=proof.certificate is not None,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
