"""Ridge regression beyond one matrix: tiles stream through the device into preconditioned conjugate gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
import numpy as np
from jaxtyping import Float, Int
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from wideproof.estimators.checkpoint import Checkpoint
from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.nystrom import Nystrom, StreamedNystrom
from wideproof.estimators.solvers import Approximation, ConjugateGradients, Iterate, Solved, require_ridge
from wideproof.kernels import Streamed

# Below this, float32 steps save less than the products in float64 that check them.
FEWEST_FOR_ROUGH = 8192


def default_rank(n: int, gpu: bool = False) -> int:
    r"""Return how many columns the preconditioner has: 1,000, on a GPU $20 \sqrt n$ if that is more.

    >>> default_rank(20_000), default_rank(1_000_000, gpu=True)
    (1000, 20000)
    """
    return max(1000, 20 * math.isqrt(n)) if gpu else 1000


def solve_streamed(
    kernel: LimitKernel,
    x: Float[np.ndarray, "n d"],
    root: Float[np.ndarray, "n"],
    y: Float[np.ndarray, "n c"],
    marks: Int[np.ndarray, "m"],
    ridge: float,
    tolerance: float,
    most: int,
    memory: int,
    checkpoint: Checkpoint | None = None,
    verbose: int = 0,
) -> Solved:
    r"""Solve $(W^{1/2} K W^{1/2} + r I) \beta = y$ without the matrix.

    Parameters
    ----------
    kernel, x
        The kernel and the prepared examples.
    root, y
        Roots of the weights, and targets multiplied by them.
    marks
        Examples whose columns make the preconditioner.
    ridge, tolerance, most
        As for `ConjugateGradients`.
    memory
        Bytes on the host that the columns may take; beyond, and on a GPU, they are made anew in each step.
    checkpoint, verbose
        Where the solve is kept; whether its course is shown.
    """
    require_ridge(ridge)
    wide = root[:, None]
    whole = kernel.streamed(x)
    rough = kernel.streamed(x, "float32") if len(x) >= FEWEST_FOR_ROUGH and most else None
    if jax.default_backend() == "cpu" and 8 * len(x) * len(marks) <= memory // 4:
        columns = wide * kernel(x, x[marks]) * root[marks]
        approximation: Approximation = Nystrom.build(columns, marks)
    else:
        approximation = StreamedNystrom.build(whole.columns(marks), marks, root, ridge)
    with _shown(tolerance * float(np.linalg.norm(y)), verbose) as (say, share):

        def through(matrix: Streamed, v: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
            return wide * matrix.product(wide * v, share)

        solver = ConjugateGradients(
            lambda v: through(whole, v), approximation, ridge, tolerance, most,
            None if rough is None else lambda v: through(rough, v),
        )  # fmt: skip
        here = checkpoint.load() if checkpoint is not None else None
        last = None
        for last in solver.iterates(y, here):
            say(last)
            if checkpoint is not None:
                checkpoint.save(last)
    assert last is not None
    error = solver.error(last.residual)
    if checkpoint is not None:
        checkpoint.clear()
    return Solved(last.beta, last.step, error)


@contextmanager
def _shown(wanted: float, verbose: int) -> Iterator[tuple[Callable[[Iterate], None], Callable[[float], None] | None]]:
    """Give what is told of every step and of the share of a product that is done, and draw it on the error stream."""
    if not verbose:
        yield lambda here: None, None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} % of a product")
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("the preconditioner's answer", total=1.0)

        def say(here: Iterate) -> None:
            left = float(np.linalg.norm(here.inner))
            kind = "float32" if here.rough else "float64"
            bar.update(task, description=f"step {here.step} ({kind}): residual {left:.2e}, wanted {wanted:.2e}")

        yield say, lambda share: bar.update(task, completed=share)
