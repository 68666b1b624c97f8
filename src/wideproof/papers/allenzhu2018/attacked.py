r"""Networks moved from their start by a perturbation $W'$, and what moves with it.

"For every $W'$" is sampled by attacks, each made for one quantity; a bound is compared with the worst of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from wideproof.monitors import attacks, operator_norm
from wideproof.monitors.recurrent import Factors, Unrolled, backward
from wideproof.papers.allenzhu2018.lab import Lab, Start
from wideproof.papers.study import kept

KINDS = ("flips", "push", "drift", "outputs", "random")
RADIUS = 1.0
RADII = (0.25, 0.5, 1.0, 2.0, 4.0)
CHOICES = (
    "every W' means the worst of five: flipping the smallest units, pushing one unit, the largest drift of the last "
    "state, the direction the outputs see best, and Gaussian entries",
    "τ0 = 1 where the width or the length varies",
)


def draws(lab: Lab) -> tuple[int, ...]:
    """Return the seeds of the starts over which exponents are fitted."""
    return tuple(range(lab.pick(8, 8, 10)))


def perturbation(lab: Lab, kind: str, start: Start, radius: float, seed: int) -> np.ndarray:
    r"""Return one $W'$ with $\|W'\|_2 \le \tau_0 / \sqrt m$."""
    seen = start.seen
    middle = max(seen.length - 1, 2)
    if kind == "flips":
        return attacks.flip_attack(seen, radius, time=middle)
    if kind == "push":
        return attacks.push_attack(seen, radius, time=middle)
    if kind == "drift":
        return attacks.polar_attack(seen, radius)
    if kind == "outputs":
        return attacks.backward_attack(seen, radius)
    return attacks.gaussian_attack(seen.width, radius, lab.rng("perturbation", seen.width, seed))


class Shift(NamedTuple):
    r"""The largest changes over all samples and times under one $W'$.

    `values` is $\|g'\|$, `hidden` $\|h'\|$, `flips` $\|D'\|_0$, `flipped` $\|D' g\|$; `excess` the largest $|(D' g)_k|
    - |g'_k|$; `first` the largest $\|W' D g\|$ against $\tfrac{\tau_0}{\sqrt m}$ times its factor in Claim C.3, both by
    time. `backward` are the four differences of Lemma C.9. `gradient` holds norms of the fake gradient: after the
    change, of its largest part $\hat\nabla f_i$, and of what the change did to it.
    """

    values: float
    hidden: float
    flips: int
    flipped: float
    excess: float
    first: np.ndarray
    backward: np.ndarray
    gradient: np.ndarray


@kept
def shift(lab: Lab, kind: str, width: int, length: int, seed: int, radius: float) -> Shift:
    """Attack one start and measure what changed; each combination is computed once."""
    start = lab.start(width, length, seed)
    change = perturbation(lab, kind, start, radius, seed)
    before, after = start.seen, start.at(change).seen
    values = after.g - before.g
    flipped = (after.mask != before.mask) * after.g
    fresh_term = np.linalg.norm(after.h[:, :-1] @ change.T, axis=-1).max(axis=0)
    moved = np.linalg.norm(values, axis=-1).max(axis=0)[:-1]
    times = np.arange(2, length + 1)
    factor = radius / np.sqrt(width) * (4 * times + 8 + moved)
    return Shift(
        float(np.linalg.norm(values, axis=-1).max()),
        float(np.linalg.norm(after.h - before.h, axis=-1).max()),
        int((after.mask != before.mask).sum(axis=-1).max()),
        float(np.linalg.norm(flipped, axis=-1).max()),
        float((np.abs(flipped) - np.abs(values)).max()),
        np.stack([fresh_term, factor]),
        backward_differences(before, after),
        gradient_norms(before, after, fixed_losses(lab, before)),
    )


def backward_differences(before: Unrolled, after: Unrolled, samples: Sequence[int] = (0,)) -> np.ndarray:
    r"""Return the largest of each of the four differences of Lemma C.9, over $\ell_1 \le \ell_2$ and the samples.

    With $P(D, W) = B \prod_{\ell=\ell_2}^{\ell_1} D_\ell W$: $\|P(\tilde D, \tilde W) - P(D, \tilde W)\|$,
    $\|P(D, \tilde W) - P(D, W)\|$, $\|P(\tilde D, \tilde W) - P(\tilde D, W)\|$, $\|P(\tilde D, W) - P(D, W)\|$.
    """
    worst = np.zeros(4)
    for i in samples:
        for end in range(1, before.length + 1):
            old_old = new_old = new_new = old_new = before.B
            for time in range(end, 0, -1):
                old, new = before.mask[i, time - 1], after.mask[i, time - 1]
                old_old, new_old = (old_old * old) @ before.W, (new_old * new) @ before.W
                new_new, old_new = (new_new * new) @ after.W, (old_new * old) @ after.W
                gaps = (old_old - new_old, new_old - new_new, old_old - old_new, old_new - new_new)
                worst = np.maximum(worst, [np.linalg.norm(gap, 2) for gap in gaps])
    return worst


def fixed_losses(lab: Lab, seen: Unrolled) -> np.ndarray:
    r"""Return vectors $\mathrm{loss}_{i,\ell}$ of norm 1 that do not depend on the weights, `(n, L, d)`."""
    shape = (seen.n, seen.length, len(seen.B))
    drawn = lab.rng("losses", *shape).standard_normal(shape)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def gradient_norms(before: Unrolled, after: Unrolled, losses: np.ndarray) -> np.ndarray:
    r"""Return $\|\hat\nabla f\|_F$ and $\max_i \|\hat\nabla f_i\|_F$ after the change, and $\|\hat\nabla f - \hat\nabla
    \tilde f\|_F$.
    """
    old, new = backward(before, losses), backward(after, losses)
    gap = Factors(np.concatenate([new.e, -old.e]), np.concatenate([new.h, old.h]))
    parts = max(new.of(i).square() for i in range(after.n))
    return np.sqrt([new.square(), parts, max(gap.square(), 0.0)])


def largest(
    lab: Lab, measure: Callable[[Shift], float], kinds: Sequence[str] = KINDS, variables: Sequence[str] = ("m",),
    worst: Callable[[Iterable[float]], float] = max,
) -> dict[str, tuple[Sequence[float], np.ndarray]]:  # fmt: skip
    """Return, by variable (`m`, `τ0`, `L`), the grid and the worst attack's values, one row per start."""
    small = lab.pick(128, 256, 512)
    cells: dict[str, list[tuple[int, int, float]]] = {
        "m": [(m, lab.length, RADIUS) for m in lab.widths],
        "τ0": [(lab.width, lab.length, radius) for radius in RADII],
        "L": [(small, length, RADIUS) for length in lab.lengths[:4]],
    }
    grids: dict[str, Sequence[float]] = {"m": lab.widths, "τ0": RADII, "L": lab.lengths[:4]}

    def of_all(cell: tuple[int, int, float], seed: int) -> float:
        width, length, radius = cell
        return worst(measure(shift(lab, kind, width, length, seed, radius)) for kind in kinds)

    return {name: (grids[name], lab.over(cells[name], draws(lab), of_all)) for name in variables}


def every_shift(lab: Lab) -> list[Shift]:
    """Return the shifts of all attacks and starts over the widths."""
    return [shift(lab, kind, m, lab.length, seed, RADIUS) for kind in KINDS for m in lab.widths for seed in draws(lab)]


def product_norm(weight: np.ndarray, masks: np.ndarray) -> float:
    r"""Return $\|D_L W \cdots D_1 W\|_2$ for the diagonals `masks`, `(L, m)`, with any entries."""

    def apply(v: np.ndarray) -> np.ndarray:
        for mask in masks:
            v = mask * (weight @ v)
        return v

    def adjoint(v: np.ndarray) -> np.ndarray:
        for mask in masks[::-1]:
            v = weight.T @ (mask * v)
        return v

    return operator_norm(weight.shape, apply, adjoint)
