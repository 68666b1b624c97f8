r"""Definition 2.2, and Section 6 after the split: large rows of the fake gradient at the random start itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wideproof.monitors.recurrent import backward, unroll
from wideproof.papers.allenzhu2018.gradients import selected
from wideproof.papers.allenzhu2018.lab import Lab, rho
from wideproof.papers.allenzhu2018.printed import WIDTH
from wideproof.papers.allenzhu2018.randomness import SAMPLE, TIME, Split, masked, split
from wideproof.papers.check import Check, at_least, conclude, identity, often
from wideproof.papers.printed import elman, outputs_agree
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("gradient", "rnn")

THETA, SMALL, LARGE = 0.3, 0.2, 0.05
CHOSEN = (
    "θ = 0.3, β_- = 0.2, β_+ = 0.05: the paper's select no unit", "fixed random losses, the largest at (i*, l* + 1)",
)  # fmt: skip


@Section("setting", "rnn")("Activation masks D, with zero counted as active", "exact")
@misprint("the consequence h = DWh omits the input Ax")
def definition_2_2(lab: Lab) -> Check:
    r"""$D_{i,\ell}$ is diagonal with $(D_{i,\ell})_{kk} = 1\{(Wh_{i,\ell-1} + Ax_{i,\ell})_k \ge 0\}$, so that
    $h_{i,\ell} = D_{i,\ell}(Wh_{i,\ell-1} + Ax_{i,\ell})$.
    """
    start = lab.start(WIDTH)
    seen, x = start.seen, start.data.x
    before = np.concatenate([np.zeros_like(seen.h[:, :1]), seen.h[:, :-1]], axis=1)
    inside = before @ seen.W.T + x @ seen.A.T
    still = unroll({"W": seen.W, "A": np.zeros_like(seen.A), "B": seen.B}, x)  # every pre-activation is 0
    return conclude(
        identity("D = 1{Wh + Ax >= 0}", seen.mask, inside >= 0),
        identity("h = D(Wh + Ax)", seen.h, seen.mask * inside),
        identity("zero counts as active", still.mask, 1.0),
        outputs_agree(seen.outputs, elman(seen.W, seen.A, seen.B, x), "unrolled"),
    )


class Piece(NamedTuple):
    r"""One split of a start: the units that are near zero at $W_2$, and the squared rows at $W$ itself."""

    split: Split
    units: np.ndarray
    rows: np.ndarray
    size: float
    losses: np.ndarray


@kept
def pieces(lab: Lab) -> list[Piece]:
    """Split several starts, choose units without looking at what is split off, and take the gradient's rows."""
    found = []
    for seed in range(lab.pick(12, 24, 48)):
        start = lab.start(256, seed=200 + seed)
        losses = lab.rng("split losses").standard_normal((*start.data.x.shape[:2], 1))
        losses[SAMPLE, TIME] = 1.5 * np.abs(losses[:, 1:]).max()
        piece = split(start.seen, THETA, lab.rng("split rows", seed))
        without = {**start.params, "W": masked(piece, slice(None))}
        units = np.flatnonzero(selected(unroll(without, start.data.x), SAMPLE, TIME, SMALL, LARGE))
        rows = backward(start.seen, losses).row_squares()
        found.append(Piece(piece, units, rows, float(losses[SAMPLE, TIME, 0]), losses))
    return found


@statement("The same large row at the start itself, after splitting one unit's randomness off", "bound")
def eq_6_5(lab: Lab) -> Check:
    r"""$W = W_0 + u_ke_kv^\top$: where $k$ is near zero at $W_0$, $\|\widehat\nabla_kf(W)\| \ge
    \Omega(\|\mathrm{loss}\|/\rho)$ with constant probability over $u_k$.
    """
    good = []
    for piece in pieces(lab):
        seen = piece.split.seen
        for k in piece.units[:4]:
            params = {"W": masked(piece.split, [k]), "A": seen.A, "B": seen.B}
            if selected(unroll(params, seen.x), SAMPLE, TIME, SMALL, LARGE)[k]:
                good.append(np.sqrt(piece.rows[k]) >= piece.size / rho(seen))
    return conclude(often("rows of at least loss/ρ", good, 0.25), assumptions=(*CHOSEN, "1/4 for a constant"))


@statement("Large rows after splitting off the randomness of a set of units", "bound")
def eq_6_6(lab: Lab) -> Check:
    r"""$W = W_1 + W'_N$: of the units in $N$, near zero before the split part is added, a constant share has
    $\|\widehat\nabla_kf(W)\| \ge \Omega(\|\mathrm{loss}\|/\rho)$.
    """
    good = [
        row >= (piece.size / rho(piece.split.seen)) ** 2 for piece in pieces(lab) for row in piece.rows[piece.units]
    ]
    return conclude(often("rows of N of at least loss/ρ", good, 0.25), assumptions=(*CHOSEN, "1/4 for a constant"))


@statement("Squared rows summed over a set N are at least |N|/poly(ρ) times the squared loss", "bound")
def eq_6_8(lab: Lab) -> Check:
    r"""$\sum_{k\in N}\|\widehat\nabla_kf(W)\|^2 \ge \Omega(\|\mathrm{loss}\|^2|N|/\rho^2)$, by (6.6) with the share
    1/4.
    """
    sums = [piece.rows[piece.units].sum() for piece in pieces(lab) if piece.units.size]
    sizes = [
        piece.size**2 * piece.units.size / (4 * rho(piece.split.seen) ** 2) for piece in pieces(lab) if piece.units.size
    ]
    return conclude(at_least("Σ_N ‖∇̂_k‖² >= |N| loss²/(4ρ²)", sums, sizes), assumptions=CHOSEN)
