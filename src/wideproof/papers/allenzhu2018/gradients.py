"""Theorems 3 and 5 and Section 6: the gradient is large wherever the loss is, near the start."""

from __future__ import annotations

import numpy as np
from scipy import stats

from wideproof.monitors.recurrent import Unrolled, backward, tangent_kernel, unroll
from wideproof.papers.allenzhu2018 import printed
from wideproof.papers.allenzhu2018.attacked import perturbation
from wideproof.papers.allenzhu2018.distributions import fits
from wideproof.papers.allenzhu2018.fake_gradient import backward_coordinates
from wideproof.papers.allenzhu2018.lab import Lab, rho
from wideproof.papers.allenzhu2018.oracles import limit_kernel
from wideproof.papers.check import Check, agrees, at_least, at_most, conclude, identity, law, often, scales, sides
from wideproof.papers.statement import Section, misprint, tool
from wideproof.papers.study import kept

statement = Section("gradient", "rnn")

ATTACKS = ("flips", "outputs", "random")
SMALL_DELTAS = (1e-2, 3e-3, 1e-3, 3e-4)
AT_LIMIT = "the power of delta at infinite width: at finite width it asks for m much larger than 1/delta"


@kept
def eigenvalues(lab: Lab, width: int, seed: int, outputs: int = 4) -> np.ndarray:
    r"""Return the least and largest eigenvalue of $K$, each the worst over the start and attacked points."""
    start = lab.start(width, seed=seed, outputs=outputs)
    points = [start.seen] + [start.at(perturbation(lab, k, start, 1.0, seed)).seen for k in ATTACKS]
    spectra = np.array([np.linalg.eigvalsh(tangent_kernel(seen))[[0, -1]] for seen in points])
    return np.array([spectra[:, 0].min(), spectra[:, 1].max()])


def delta_eigenvalues(lab: Lab) -> list[float]:
    r"""Return the least eigenvalue of $K d/m$ at infinite width, two sequences with equal later tokens, by $\delta$."""
    return [
        float(np.linalg.eigvalsh(limit_kernel(lab.data(n=2, tail="shared", separation=delta).x))[0])
        for delta in SMALL_DELTAS
    ]


@statement("Squared gradient between δm/poly(ρ) and poly(ρ)m times the largest loss, near the start", "scale")
def theorem_3(lab: Lab) -> Check:
    r"""Near the start, $\|\nabla f(W)\|_F^2 \ge \Omega(\delta m/\rho^{14}) \max\|\mathrm{loss}\|^2$ and
    $\le O(\rho^{12} m)\max\|\mathrm{loss}\|^2$.

    For all losses at once: the best constants are the extreme eigenvalues of the tangent kernel $K(W)$, since
    $2\lambda_{\min} f \le \|\nabla f\|_F^2 \le 2\lambda_{\max} f$. Each $\|\nabla f_i\|_F^2$ has the upper bound too.
    """
    found = np.array([[eigenvalues(lab, m, seed) for m in lab.widths] for seed in lab.many])
    parts = []
    for seed in lab.seeds:
        start = lab.start(lab.width, seed=seed)
        low, high = 2 * np.linalg.eigvalsh(lab.kernel(lab.width, seed=seed))[[0, -1]] * start.loss
        own = max(start.gradient.of(i).square() for i in range(start.seen.n))
        parts.append((start.gradient.square(), low, high, own))
    squares, low, high, own = sides(parts)
    widest = np.mean([lab.kernel(lab.widths[-1], seed=seed) for seed in lab.many], axis=0) / lab.widths[-1]
    return conclude(
        scales("least eigenvalue of K, start and attacked", "m", lab.widths, found[..., 0], 1.0, sense="at least"),
        scales("largest eigenvalue of K, start and attacked", "m", lab.widths, found[..., 1], 1.0),
        scales("least eigenvalue at infinite width", "delta", SMALL_DELTAS, delta_eigenvalues(lab), 1.0, lower=True),
        at_least("squared gradient, against 2 lambda_min f", squares, low),
        at_most("squared gradient, against 2 lambda_max f", squares, high),
        at_most("squared gradient of one sequence's part", own, high),
        agrees("K/m, mean over starts, against its limit", widest, limit_kernel(lab.data().x), tolerance=0.1),
        *printed.start(lab),
        hypotheses=[at_least("separation of the first tokens", _separation(lab), 1e-9)],
        assumptions=("tau0 = 1; 'all W' by three attacks; d = 4", AT_LIMIT),
    )


def _separation(lab: Lab) -> float:
    first = lab.data().x[:, 0]
    return float(np.linalg.norm(first[:, None] - first[None], axis=-1)[np.triu_indices(len(first), 1)].min())


def fixed_losses(lab: Lab) -> list[np.ndarray]:
    """Return losses drawn without looking at the weights: random, one-hot, and the worst of the limit kernel."""
    n, length = lab.data().x.shape[:2]
    random = [lab.rng("losses", k).standard_normal((n, length, 1)) for k in range(3)]
    hot = []
    for i in range(n):
        for time in range(1, length):
            one = np.zeros((n, length, 1))
            one[i, time] = 1.0
            hot.append(one)
    worst = np.zeros((n, length, 1))
    worst[:, 1:, 0] = np.linalg.eigh(limit_kernel(lab.data().x))[1][:, 0].reshape(n, length - 1)
    return [*random, *hot, worst]


@statement("At the start, fixed losses give a fake gradient of at least δm/poly(ρ)·loss², squared", "scale")
@misprint("the proof gives ρ^15 where L exceeds d·log²m")
def theorem_5(lab: Lab) -> Check:
    r"""For losses fixed before the weights:
    $\|\widehat\nabla f(W)\|_F^2 \ge \tilde\Omega(\delta m/\mathrm{poly}(\rho)) \max\|\mathrm{loss}_{i,\ell}\|^2$.
    """
    losses = fixed_losses(lab)
    sizes = [np.square(loss[:, 1:]).sum(axis=-1).max() for loss in losses]

    def ratios(width: int, seed: int) -> list[float]:
        seen = lab.start(width, seed=seed).seen
        return [backward(seen, loss).square() / size for loss, size in zip(losses, sizes, strict=True)]

    found = np.array([[ratios(m, seed) for m in lab.widths] for seed in lab.many])
    limit = limit_kernel(lab.data().x)
    scored = np.array([loss[:, 1:].ravel() for loss in losses])
    expected = np.einsum("ka,ab,kb->k", scored, limit, scored) / sizes
    return conclude(
        scales("least squared fake gradient over max loss^2", "m", lab.widths, found.min(axis=2), 1.0,
               sense="at least"),
        scales("least eigenvalue at infinite width", "delta", SMALL_DELTAS, delta_eigenvalues(lab), 1.0, lower=True),
        agrees("mean over starts over m, against its limit", found[:, -1].mean(axis=0) / lab.widths[-1], expected,
               tolerance=0.1),
        *printed.start(lab),
        assumptions=("random losses, every one-hot loss, and the limit kernel's least eigenvector", AT_LIMIT),
    )  # fmt: skip


def largest_loss(losses: np.ndarray) -> tuple[int, int, float]:
    r"""Return $(i^*, \ell^*)$ with $(i^*, \ell^* + 1)$ the place of the largest loss, and its norm."""
    norms = np.linalg.norm(losses[:, 1:], axis=-1)
    i, time = np.unravel_index(int(norms.argmax()), norms.shape)
    return int(i), int(time) + 1, float(norms.max())


@statement("Nearly all units have a backward coordinate of at least loss/ρ", "scale")
def eq_6_2(lab: Lab) -> Check:
    r"""$|(u_{i^*,\ell^*})_k| \ge \|\mathrm{loss}_{i^*,\ell^*}\|/\rho$ for a fraction $1 - o(1)$ of the units $k$."""
    divisors = np.array([5.0, 10.0, 20.0, 40.0])
    losses = lab.rng("losses", 0).standard_normal((*lab.data().x.shape[:2], 1))
    i, time, size = largest_loss(losses)
    short, at_rho = [], []
    for seed in lab.many:
        seen = lab.start(lab.widths[-1], seed=seed).seen
        u = np.abs(backward_coordinates(seen, losses)[i, time - 1]) / size
        short.append([(u < 1 / r).mean() for r in divisors])
        at_rho.append((u >= 1 / rho(seen)).mean())
    return conclude(
        scales("share of units below loss/r", "r", divisors, short, -1.0),
        at_least("share of units above loss/rho", at_rho, 1 - 1 / np.sqrt(rho(lab.start(lab.widths[-1]).seen))),
        assumptions=("one random loss", "1 - 1/sqrt(rho) for 1 - o(1)"),
    )


def selected(seen: Unrolled, i: int, time: int, small: float, large: float) -> np.ndarray:
    r"""Return the units of (6.3): $|g_{i^*,\ell^*+1}|$ below $\beta_-/\sqrt m$, later and other samples' above
    $\beta_+/\sqrt m$.
    """
    size = np.abs(seen.g) * np.sqrt(seen.width)
    others = np.delete(size[:, time], i, axis=0)
    later = size[:, time + 1 :].reshape(-1, seen.width)
    return (size[i, time] <= small) & (others >= large).all(axis=0) & (later >= large).all(axis=0)


@statement(
    "A share of units is near zero for the chosen sequence and time, away from zero for others and later", "scale"
)
def eq_6_3(lab: Lab) -> Check:
    r"""A fraction $\delta/\mathrm{poly}(\rho)$ of units has $|(g_{i^*,\ell^*+1})_k| \le \beta_-/\sqrt m$ but all
    others $\ge \beta_+/\sqrt m$.

    Others are the other samples at the same time and all samples at later times. The paper's
    $\beta_- = \delta/\rho^{10}$
    selects no unit at any width that fits a machine, so that the fraction is followed as $\beta_-$ falls.
    """
    smalls, large = np.array([0.05, 0.1, 0.2, 0.4]), 0.05

    def share(small: float, seed: int) -> float:
        seen = lab.start(lab.widths[-1], seed=seed).seen
        return float(np.mean([selected(seen, i, 2, small, large).mean() for i in range(4)]))

    found = lab.over(smalls, lab.many, share)
    return conclude(
        scales("share of selected units", "beta_-", smalls, found, 1.0, lower=True),
        at_least("share of selected units, against beta_-/(64 L)", found, smalls / (64 * lab.length)),
        assumptions=("beta_+ = 0.05, beta_- from 0.05 to 0.4", "l* = 2, every sample as i*"),
    )


def nudged_rows(lab: Lab, width: int, seed: int, draws: int, units: int) -> np.ndarray:
    r"""Return $\|\widehat\nabla_k f(W + g e_k v^\top)\|\,\rho/\|\mathrm{loss}\|$, $g \sim N(0, \theta^2)$, for
    selected units $k$.
    """
    start = lab.start(width, seed=seed)
    losses = lab.rng("losses", 0).standard_normal((*lab.data().x.shape[:2], 1))
    i, time, size = largest_loss(losses)
    v = lab.fresh(width, seed=seed).directions()[i, time - 1]
    chosen = np.flatnonzero(selected(start.seen, i, time, 0.2, 0.05))[:units]
    rng = lab.rng("nudges", width, seed)
    found = np.empty((len(chosen), draws))
    for a, k in enumerate(chosen):
        for b in range(draws):
            w = start.params["W"].copy()
            w[k] += 0.4 / np.sqrt(width) * rng.standard_normal() * v
            rows = backward(unroll({**start.params, "W": w}, start.data.x), losses).row_squares()
            found[a, b] = np.sqrt(rows[k]) * rho(start.seen) / size
    return found


@statement("Nudging a selected unit makes its row of the gradient large with constant probability", "scale")
def eq_6_4(lab: Lab) -> Check:
    r"""$\|\widehat\nabla_k f(W + W'_k)\| \ge \Omega(\|\mathrm{loss}_{i^*,\ell^*}\|/\rho)$ with constant probability
    over $W'_k$.

    $W'_k = g e_k v_{i^*,\ell^*}^\top$, $g \sim N(0, \theta^2)$, at units $k$ selected by (6.3).
    """
    widths = lab.some(lab.widths, stop=3)
    found = [[nudged_rows(lab, m, seed, draws=5, units=4) for m in widths] for seed in lab.many]
    shares = np.array([[(rows >= 1).mean() for rows in line] for line in found])
    pooled = np.concatenate([rows.ravel() for line in found for rows in line])
    return conclude(
        often("nudged rows of at least loss/rho", pooled >= 1, 0.25),
        scales("share of nudged rows of at least loss/rho", "m", widths, shares, 0.0, sense="at least"),
        assumptions=(
            "beta_- = 0.2, beta_+ = 0.05, theta = 0.4/sqrt(m): the paper's select no unit",
            "1/4 for 'constant probability'",
        ),
    )


@tool("A Gaussian vector is one of the same law plus a small Gaussian that depends on it", "exact")
def proposition_6_1(lab: Lab) -> Check:
    r"""$g \sim N(0, I/m)$ is $g_1 + g_3$ with $g_1 \sim N(0, I/m)$ and $g_3$ close to $N(0, \theta^2 I/m)$, correlated
    with $g_1$.

    Exactly, $g_3$ has variance $2(1 - \sqrt{1-\theta^2})/m$ and covariance $-(1 - \sqrt{1-\theta^2})/m$ with $g_1$.
    """
    m, parts = lab.pick(20000, 100000, 1000000), []
    for theta in (0.1, 0.5):
        rng = lab.rng("decomposition", theta)
        g, other = rng.standard_normal((2, m)) / np.sqrt(m)
        root = np.sqrt(1 - theta**2)
        first, second = root * g + theta * other, theta * g - root * other
        third = theta * second - (1 - root) * first
        spread = np.sqrt(2 * (1 - root))
        parts += [
            identity(f"g = g1 + g3, theta = {theta}", first + third, g),
            fits(f"g1, theta = {theta}", first * np.sqrt(m), stats.norm.cdf),
            fits(f"g3 over its exact spread, theta = {theta}", third * np.sqrt(m) / spread, stats.norm.cdf),
            law(f"covariance of g1 and g3, theta = {theta}", m * first * third, root - 1),
            at_most(f"variance of g3 over theta^2, theta = {theta}", abs(spread**2 / theta**2 - 1), theta**2 / 2),
        ]
    return conclude(*parts, assumptions=("theta^2/2 for 'very close'",))


@statement("One nudge changes the squared rows of a set N, summed, by O(ρ⁸ + |N|/m^(1/6))", "scale")
@misprint("the sum runs over the set N, printed [N]")
def eq_6_7(lab: Lab) -> Check:
    r"""$\sum_{k\in N} |\,\|\widehat\nabla_k(W)\|^2 - \|\widehat\nabla_k(W + W''_j)\|^2| \le O(\rho^8 + |N|/m^{1/6})$
    for one nudge $W''_j$.

    $W''_j = u_j e_j v_{i^*,\ell^*}^\top$; checked with $N = [m]$, where the right side over the sum of all squared
    rows falls like
    $m^{-1/6}$.
    """
    losses = lab.rng("losses", 0).standard_normal((*lab.data().x.shape[:2], 1))
    i, time, _ = largest_loss(losses)

    def change(width: int, seed: int) -> float:
        start = lab.start(width, seed=seed)
        v = lab.fresh(width, seed=seed).directions()[i, time - 1]
        rows = backward(start.seen, losses).row_squares()
        near = np.argsort(np.abs(start.seen.g[i, time]))[:8]
        found = []
        for j in near:
            w = start.params["W"].copy()
            w[j] += 1 / np.sqrt(width) * v
            found.append(np.abs(backward(unroll({**start.params, "W": w}, start.data.x), losses).row_squares() - rows))
        return float(np.sum(found, axis=1).mean() / rows.sum())

    values = np.array([[change(m, seed) for m in lab.widths] for seed in lab.many])
    return conclude(
        scales("summed change of squared rows over their sum, all units", "m", lab.widths, values, -1 / 6),
        assumptions=(
            "u_j = 1/sqrt(m)",
            "mean over the eight units j closest to zero at (i*, l* + 1)",
            "losses of norm at most 1",
        ),
    )
