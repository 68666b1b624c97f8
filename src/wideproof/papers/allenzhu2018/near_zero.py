r"""Appendix D.1: units whose pre-activation is near zero at one place, and away from it for other samples and times."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wideproof.monitors.recurrent import Unrolled, unroll
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.check import Check, at_least, conclude, identity
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("gradient", "rnn")

BETA_MINUS, BETA_PLUS = 0.03, 0.04
NEAR = (
    f"β− = {BETA_MINUS}, β+ = {BETA_PLUS}: with δ/ρ^10 and δ/ρ² no unit is near zero at any width within reach",
    "n = 2, L = 3, (i*, l*) = (1, 1); N1 is all units, or a random half of them",
)


class Near(NamedTuple):
    r"""Sizes of the sets $N_1 \supseteq N_2 \supseteq N_3 \supseteq N_4$."""

    one: int
    two: int
    three: int
    four: int


@statement(
    "Units within β− of zero at (i*, l*+1) and beyond β+ at every other sample and later time: at least β−|N1|/(64L)",
    "bound",
)
@misprint("at l* = L there is no time l*+1; measured for l* < L")
def lemma_d_2(lab: Lab) -> Check:
    r"""Many units are near zero at $(i^*, \ell^*+1)$ and away from it elsewhere: $|N_4| \ge \beta_- |N_1| / (64 L)$."""
    return _share_of_all(lab, "|N4| >= β−|N1|/(64 L)", lambda c: c.four, 64)


@statement("Units of N1 within β− of zero at (i*, l*+1): at least β−|N1|/(16L)", "bound")
@misprint("also needs |N1| >= n²L²/β−, which only Lemma D.2 states")
def lemma_d_3(lab: Lab) -> Check:
    r"""Units near zero: $|N_2| \ge \beta_- |N_1| / (16 L)$, $N_2 = \{k \in N_1 : |(g_{i^*,\ell^*+1})_k| \le
    \beta_-/\sqrt m\}$.
    """
    return _share_of_all(lab, "|N2| >= β−|N1|/(16 L)", lambda c: c.two, 16)


@statement("At least half of these are beyond β+ for all other samples", "bound")
@misprint("printed with β−, where Lemma D.2 needs β+")
def lemma_d_4(lab: Lab) -> Check:
    r"""Half of $N_2$ is at least $\beta_+/\sqrt m$ from zero for all other samples, whatever $N_2$ was made from.

    $A$, $W U_{\ell^*-1}$ and $W h_{i^*,\ell^*}$ are kept and the rest of $W$ is drawn again: $N_2$ stays the same set.
    """
    counts, same = near_zero_again(lab, others=True)
    return conclude(
        at_least("|N3| >= |N2|/2", [c.three for c in counts], [c.two / 2 for c in counts], counts=True),
        identity("N2 after drawing the rest of W again", same, 0.0),
        assumptions=NEAR,
        title="half of the units near zero are away from zero for the other samples",
    )


@statement("At least half of what remains is beyond β+ for all samples at all later times", "bound")
@misprint("printed with β−, where Lemma D.2 needs β+")
def lemma_d_5(lab: Lab) -> Check:
    r"""Half of $N_3$ is at least $\beta_+/\sqrt m$ from zero for all samples at all later times, given $A$ and $W
    U_{\ell^*}$.
    """
    counts, same = near_zero_again(lab, others=False)
    return conclude(
        at_least("|N4| >= |N3|/2", [c.four for c in counts], [c.three / 2 for c in counts], counts=True),
        identity("N3 after drawing the rest of W again", same, 0.0),
        assumptions=NEAR,
        title="half of those are away from zero at all later times",
    )


def near_masks(seen: Unrolled) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return the three conditions as masks over units, for $i^* = 1$, $\ell^* = 1$."""
    size = np.abs(seen.g) * np.sqrt(seen.width)
    return size[0, 1] <= BETA_MINUS, (size[1:, 1] >= BETA_PLUS).all(axis=0), (size[:, 2:] >= BETA_PLUS).all(axis=(0, 1))


def _count(seen: Unrolled, chosen: np.ndarray) -> Near:
    near, others, later = near_masks(seen)
    two = chosen & near
    return Near(int(chosen.sum()), int(two.sum()), int((two & others).sum()), int((two & others & later).sum()))


def near_start(lab: Lab, seed: int = 0) -> Unrolled:
    """Return the network in which units near zero are counted."""
    return lab.start(lab.pick(2048, 4096, 8192), 3, seed, n=2).seen


@kept
def near_zero(lab: Lab) -> list[Near]:
    """Count the sets in several starts, from all units and from half of them."""
    found = []
    for seed in range(3):
        seen = near_start(lab, seed)
        half = lab.rng("half", seed).permutation(seen.width) < 0.75 * seen.width
        found += [_count(seen, np.ones(seen.width, bool)), _count(seen, half)]
    return found


@kept
def near_zero_again(lab: Lab, others: bool) -> tuple[list[Near], list[float]]:
    """Draw the part of `W` again that the given set does not depend on; return the counts and how the set changed."""
    seen = near_start(lab)
    states = seen.h[:1, 0] if others else seen.h[:, 0]
    basis = np.linalg.qr(states.T)[0]
    near, away, _ = near_masks(seen)
    given = near if others else near & away
    counts, changed = [], []
    for k in range(lab.pick(2, 5, 10)):
        noise = np.sqrt(2 / seen.width) * lab.rng("again", others, k).standard_normal(seen.W.shape)
        weight = noise + (seen.W - noise) @ basis @ basis.T
        again = unroll({"W": weight, "A": seen.A, "B": seen.B}, seen.x)
        counts.append(_count(again, np.ones(seen.width, bool)))
        near, away, _ = near_masks(again)
        changed.append(float((given != (near if others else near & away)).sum()))
    return counts, changed


def _share_of_all(lab: Lab, title: str, size: Callable[[Near], int], part: int) -> Check:
    counts = near_zero(lab)
    needed = (2 * 3) ** 2 / BETA_MINUS
    return conclude(
        at_least(title, [size(c) for c in counts], [BETA_MINUS * c.one / (part * 3) for c in counts]),
        hypotheses=(at_least("|N1| >= n²L²/β−", [c.one for c in counts], needed),),
        assumptions=NEAR,
    )
