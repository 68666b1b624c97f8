"""`python -m wideproof.lab.measurer STUDY SEED NAME...`: measure statements of the papers, a line of JSON for each."""

from __future__ import annotations

import json
import sys
from typing import Any


def main(arguments: list[str]) -> None:
    """Measure, and say so line by line."""
    from wideproof.papers import Findings, measure_here, shortened, statements
    from wideproof.storage import plain

    def say(**fields: Any) -> None:
        print(json.dumps(plain(fields, odd=repr), ensure_ascii=True), flush=True)

    study, seed, *names = arguments
    wanted = sorted((statements(name)[0] for name in names), key=lambda one: one.paper)
    say(state="measuring", name=wanted[0].name, done=0)
    for done, one in enumerate(measure_here(wanted, study, int(seed)), 1):
        found = Findings(study, int(seed), (one,), one.seconds).to_dict()["statements"][0]
        say(state="found", name=one.statement.name, done=done, broken=one.broken, found=shortened(found))
        if done < len(wanted):
            say(state="measuring", name=wanted[done].name, done=done)


if __name__ == "__main__":
    main(sys.argv[1:])
