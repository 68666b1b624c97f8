"""The papers of a study side by side, a process each: a laboratory keeps what its own statements share."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache

from wideproof.errors import JobError
from wideproof.interrupts import raising_interrupts
from wideproof.papers.statement import PAPERS, Measured, Statement, laboratory
from wideproof.threads import one_blas_thread

LONGEST_FIRST = ("allenzhu2018", "zou2018", "du2019", "frei2019")
assert set(LONGEST_FIRST) == set(PAPERS)


def measure_here(
    wanted: Sequence[Statement], study: str, seed: int, widths: Sequence[int] | None = None
) -> Iterator[Measured]:
    """Measure statements of any papers in this process, with one laboratory for each paper.

    Products use one thread: the matrices are small, and with a second thread they took three times as long on two
    cores.

    Parameters
    ----------
    wanted
        The result of `statements`, or a part of it.
    study
        `"quick"`, `"standard"` or `"deep"`.
    seed
        Seed of all draws.
    widths
        Widths over which exponents in the width are fitted, instead of those of the study.

    Returns
    -------
    Iterator[Measured]
        The results, one after another.
    """
    labs = {paper: laboratory(paper, study, seed, widths) for paper in dict.fromkeys(one.paper for one in wanted)}
    with one_blas_thread(), raising_interrupts():
        for one in wanted:
            yield one.measure(labs[one.paper])


def measure_beside(
    wanted: Sequence[Statement], study: str, seed: int, workers: int, widths: Sequence[int] | None = None
) -> Generator[Measured]:
    """Measure statements in at most `workers` processes, each with one paper at a time; results come in any order."""
    chosen = None if widths is None else tuple(widths)
    waiting = [own for paper in LONGEST_FIRST if (own := [one for one in wanted if one.paper == paper])]
    spawn = multiprocessing.get_context("spawn")
    lanes = [ProcessPoolExecutor(1, spawn, _ignore_interrupts) for _ in waiting[:workers]]
    running: dict[Future[Measured], ProcessPoolExecutor] = {}
    try:
        while waiting or running:
            for lane in lanes:
                if waiting and lane not in running.values():
                    running |= {lane.submit(_measure, one, study, seed, chosen): lane for one in waiting.pop(0)}
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                del running[future]
                yield future.result()
    except BrokenProcessPool:
        raise JobError("a process that measured statements ended before it was done: is there enough memory?") from None
    finally:
        for lane in lanes:  # nobody waits for a measurement that is not needed; `kill_workers` from Python 3.14 on
            for process in list((lane._processes or {}).values()):
                process.kill()
            lane.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the process that waits for this one answers it


@lru_cache(maxsize=1)  # a laboratory of the next paper takes the place of the last one, which can be gigabytes
def _laboratory(paper: str, study: str, seed: int, widths: tuple[int, ...] | None):
    return laboratory(paper, study, seed, widths)


def _measure(one: Statement, study: str, seed: int, widths: tuple[int, ...] | None) -> Measured:
    with one_blas_thread(), raising_interrupts():
        return one.measure(_laboratory(one.paper, study, seed, widths))
