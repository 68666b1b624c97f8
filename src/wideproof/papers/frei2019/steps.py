"""Steps of the proofs of Theorem 3.5 and Lemma 4.2 that carry an equation's number, each measured by itself."""

from __future__ import annotations

import numpy as np

from wideproof.monitors import flips, top_norms
from wideproof.monitors.residual import Pass, interlayer
from wideproof.monitors.residual_moves import remainder_parts
from wideproof.papers.check import Check, at_most, conclude, sides
from wideproof.papers.frei2019.joint import STRETCH
from wideproof.papers.frei2019.lab import Lab
from wideproof.papers.frei2019.perturbation import RADII
from wideproof.papers.statement import Section, misprint

smoothness = Section("smoothness", "resnet_relu")


@Section("convergence", "resnet_relu")("Proof of Theorem 3.5: one more step does not leave the τ-ball", "bound")
@misprint("the radius is now τ/2, now τ")
def eq_4(lab: Lab) -> Check:
    r"""$W^{(k)}$ within $\tau/2$ of the start gives $\|W_l^{(k+1)} - W_l^{(0)}\|_F \le \tau/2 +
    \eta\|\nabla_{W_l}L_S\|_F \le \tau$.

    The step is at most $\eta\sqrt m\,E_S$ times a constant by (5), $\tau/2$ the distance of the $k$th iterate.
    """
    after, room, lengths = [], [], []
    for width in lab.widths:
        for seed in lab.draws:
            start = lab.trained(width, seed, 0)
            for steps in lab.snapshots:
                now, then = lab.trained(width, seed, steps), lab.stepped(width, seed, steps)
                before, later = (
                    np.array([np.linalg.norm(a - b) for a, b in zip(seen.weights, start.weights, strict=True)])
                    for seen in (now, then)
                )
                moved = [np.linalg.norm(a - b) for a, b in zip(then.weights, now.weights, strict=True)]
                after.append(later.max())
                room.append(2 * before.max())
                lengths.append((moved, lab.rate / np.sqrt(width) * lab.surrogates(width, seed)[steps]))
    return conclude(
        at_most("distance after one more step <= twice the distance before", after, room),
        at_most("‖W_l(k+1) - W_l(k)‖ <= η √m E_S", *sides(lengths)),
        assumptions=["C = 1 in (5)", f"steps {', '.join(map(str, lab.snapshots))}"],
    )


def _cases(lab: Lab) -> list[tuple[Pass, Pass]]:
    """Return perturbed passes and their starts: random and attacked, several radii."""
    return [
        (lab.moved(64, seed, family, radius), lab.at_start(64, seed))
        for radius in RADII
        for seed in lab.draws
        for family in ("random", "attack", "last")
    ]


def _flip_sides(moved: Pass, base: Pass, layer: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Return $|q_l^\top(\hat\Sigma - \tilde\Sigma)\hat u_l|$ and the $s$ largest entries of $q_l$ times the flipped
    values, with $s$ the number of flips.
    """
    changed = moved.mask(layer).astype(float) - base.mask(layer)
    count = flips(moved.mask(layer), base.mask(layer))
    largest = np.concatenate([np.zeros((len(count), 1)), top_norms(base.q(layer))], axis=1)
    limit = largest[np.arange(len(count)), count] * np.linalg.norm(changed * moved.u(layer), axis=1)
    return np.abs(np.sum(base.q(layer) * changed * moved.u(layer), axis=1)), limit


@smoothness("Proof of Lemma 4.2: few flips keep the last layer's first part small", "bound")
@misprint("the inequality quoted for vectors is false; it is meant for diagonals")
def eq_19(lab: Lab) -> Check:
    r"""$|v^\top(\hat\Sigma_{L+1} - \tilde\Sigma_{L+1})\hat W^\top\hat x_L| \le
    \sqrt{\|\hat\Sigma - \tilde\Sigma\|_0}\,\|(\hat\Sigma - \tilde\Sigma)\hat W^\top\hat x_L\|$.
    """
    found = []
    for moved, base in _cases(lab):
        last = base.depth + 1
        changed = moved.mask(last).astype(float) - base.mask(last)
        values, count = changed * moved.u(last), flips(moved.mask(last), base.mask(last))
        found.append((np.abs(values @ base.signs), np.sqrt(count) * np.linalg.norm(values, axis=1) * (1 + 1e-12)))
    return conclude(at_most("|v'(Σ̂ - Σ̃)û| <= √flips ‖(Σ̂ - Σ̃)û‖", *sides(found), counts=True))


@smoothness("Proof of Lemma 4.2: what residual layers add to the remainder", "bound")
@misprint("limits of the sums are garbled")
def eq_23(lab: Lab) -> Check:
    r"""For $2 \le l \le L$: $\theta|q_l^\top(\hat\Sigma_l - \tilde\Sigma_l)\hat u_l|$ is at most $\theta$ times the
    largest entries of $q_l$ on as many units as flip, times the flipped values; and
    $\theta|q_l^\top\tilde\Sigma_l\Delta W_l^\top(\hat x_{l-1} - \tilde x_{l-1})| \le
    \theta\|\tilde\Sigma_lq_l\|\|\Delta W_l\|\|\hat x_{l-1} - \tilde x_{l-1}\|$.
    """
    first, second = [], []
    for moved, base in _cases(lab):
        parts = remainder_parts(moved, base)
        for layer in range(2, base.depth + 1):
            _, limit = _flip_sides(moved, base, layer)
            change = np.linalg.norm(moved.weights[layer - 1] - base.weights[layer - 1], 2)
            below = np.linalg.norm(moved.x(layer - 1) - base.x(layer - 1), axis=1)
            first.append((np.abs(parts.flips[:, layer - 1]), base.theta * limit * (1 + 1e-12)))
            product = np.linalg.norm(base.b(layer), axis=1) * change * below
            second.append((np.abs(parts.cross[:, layer - 1]), base.theta * product))
    return conclude(
        at_most("flipped part <= θ · largest entries of q · flipped values", *sides(first), counts=True),
        at_most("cross part <= θ ‖Σq‖ ‖ΔW‖ ‖Δx‖", *sides(second), counts=True),
    )


@smoothness("Proof of Lemma 4.2: what the first layer adds to the remainder", "bound")
@misprint("a transpose is missing")
def eq_24(lab: Lab) -> Check:
    r"""The first layer has a flipped part only, $|q_1^\top(\hat\Sigma_1 - \tilde\Sigma_1)\hat W_1^\top x|$, bounded as
    in (23): its input does not move.
    """
    found, cross = [], []
    for moved, base in _cases(lab):
        left, limit = _flip_sides(moved, base, 1)
        found.append((left, limit * (1 + 1e-12)))
        cross.append(np.abs(remainder_parts(moved, base).cross[:, 0]).max())
    return conclude(
        at_most("|q_1'(Σ̂ - Σ̃)û| <= largest entries of q · flipped values", *sides(found), counts=True),
        at_most("the first layer's cross part", cross, 0.0),
    )


@Section("perturbation", "resnet_relu")("Proof of Lemma B.5: moved residual products stay bounded", "bound")
@misprint("covers the layers up to L only")
def eq_38(lab: Lab) -> Check:
    r"""$\|\prod_{r=2}^L(I + \theta\tilde\Sigma_r\tilde W_r^\top)\|_2 \le \exp(\theta L(C + \tau))$ within $\tau$ of the
    start, $C = 2\sqrt2\cdot1.1$ as in Lemma B.2.
    """
    found = []
    for radius in RADII:
        for seed in lab.draws:
            for family in ("random", "attack"):
                moved = lab.moved(64, seed, family, radius)
                norm = interlayer(moved, 2, moved.depth).norm()
                found.append((np.log(norm), moved.theta * moved.depth * (STRETCH + radius)))
    return conclude(at_most("log ‖∏(I + θΣW̃')‖ <= θL(2√2·1.1 + τ)", *sides(found)))
