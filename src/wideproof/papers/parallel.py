"""The papers of a study side by side, a process each: a laboratory keeps what its own statements share."""

from __future__ import annotations

import multiprocessing
import queue
import signal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from wideproof.errors import JobError
from wideproof.interrupts import raising_interrupts
from wideproof.papers.statement import PAPERS, Measured, Statement, laboratory
from wideproof.threads import one_blas_thread

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

LONGEST_FIRST = ("allenzhu2018", "zou2018", "du2019", "frei2019")
assert set(LONGEST_FIRST) == set(PAPERS)


def measure_here(wanted: Sequence[Statement], study: str, seed: int) -> Iterator[Measured]:
    """Measure statements of any papers in this process, one laboratory for each paper.

    The matrices are small: a second thread inside one product costs more than it brings, three times more on two cores.

    Parameters
    ----------
    wanted
        What `statements` returned, or a part of it.
    study
        `"quick"`, `"standard"` or `"deep"`.
    seed
        Of all draws.
    """
    labs = {paper: laboratory(paper, study, seed) for paper in dict.fromkeys(one.paper for one in wanted)}
    with one_blas_thread(), raising_interrupts():
        for one in wanted:
            yield one.measure(labs[one.paper])


def measure_beside(wanted: Sequence[Statement], study: str, seed: int, workers: int) -> Iterator[Measured]:
    """Measure statements in processes, a paper each and at most `workers` at a time; results come in any order."""
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    papers = [paper for paper in LONGEST_FIRST if any(one.paper == paper for one in wanted)]
    running: dict[str, SpawnProcess] = {}
    left = len(wanted)
    try:
        while left:
            while papers and len(running) < workers:
                paper = papers.pop(0)
                own = [one for one in wanted if one.paper == paper]
                running[paper] = context.Process(target=_serve, args=(own, study, seed, results), daemon=True)
                running[paper].start()
            try:
                found = results.get(timeout=1.0)
            except queue.Empty:
                _require_alive(running)
                continue
            if isinstance(found, str):
                running.pop(found).join()
            else:
                left -= 1
                yield found
    finally:
        for process in running.values():
            process.kill()


def _serve(wanted: Sequence[Statement], study: str, seed: int, results: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the process that waits for this one answers it
    for measured in measure_here(wanted, study, seed):
        results.put(measured)
    results.put(wanted[0].paper)


def _require_alive(running: dict[str, SpawnProcess]) -> None:
    for paper, process in running.items():
        if process.exitcode is not None and process.exitcode != 0:
            raise JobError(f"the process that measured {paper} ended with code {process.exitcode}: out of memory?")
