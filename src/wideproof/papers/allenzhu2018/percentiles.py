"""Appendix A, third part: how the coordinates of Gaussian vectors are spread, in the middle and in the tail."""

from __future__ import annotations

import numpy as np

from wideproof.monitors.recurrent import good
from wideproof.papers.allenzhu2018.distributions import good_probability
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.check import Check, at_least, at_most, conclude, frequency
from wideproof.papers.statement import Section, misprint

statement = Section("tool", "none")

ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.49)


def spread_grid() -> list[tuple[int, float]]:
    r"""Return pairs of a size and an $\alpha$ with $\alpha m \ge 1$, even and odd sizes."""
    sizes = (2, 3, 4, 5, 10, 11, 25, 50, 101, 300, 1001, 3000)
    return [(m, alpha) for m in sizes for alpha in ALPHAS if alpha * m >= 1]


def _goodness(share: float) -> tuple[list[float], list[float]]:
    """Return the exact and the claimed probability for thresholds of this share of alpha sigma."""
    grid = spread_grid()
    exact = [good_probability(m, alpha, share * alpha) for m, alpha in grid]
    return exact, [-np.expm1(-(alpha**2) * m / 100) for m, alpha in grid]


@statement("Nearly half of a Gaussian vector lies beyond 5ασ/16, and as much below the negative", "bound")
@misprint("false for odd m and α < 1/m, where more than m coordinates would be needed")
def lemma_a_13(lab: Lab) -> Check:
    r"""With probability $1 - e^{-\alpha^2 m/100}$, $(1-\alpha)/2$ of the coordinates are $\ge 5\alpha\sigma/16$, as
    many $\le -5\alpha\sigma/16$.

    For $x \sim N(0, \sigma^2 I_m)$, $\alpha \in (0, 1/2)$ and $\alpha m \ge 1$.
    """
    exact, claimed = lab.keep("spread", lambda: _goodness(5 / 16))
    return conclude(
        at_least("exact probability, against the claim", exact, claimed),
        assumptions=("alpha m >= 1: for odd m below that, more than m coordinates would be needed",),
    )


@statement("A Gaussian vector with deviation σ is (α, σ/4)-good, up to a small probability", "bound")
@misprint("false for odd m and α < 1/m, as Lemma A.13")
def corollary_a_15(lab: Lab) -> Check:
    r"""$x \sim N(0, \sigma^2 I_m)$ is $(\alpha, \sigma/4)$-good with probability $1 - e^{-\alpha^2 m/100}$."""
    exact, claimed = lab.keep("goodness", lambda: _goodness(1 / 4))
    x = lab.rng("good").standard_normal((lab.pick(400, 4000, 40000), 500))
    parts = [
        frequency(
            f"drawn vectors that are good, alpha = {alpha}, m = 500", sum(good(row, alpha, 0.25) for row in x), len(x),
            -np.expm1(-(alpha**2) * 5),
        )
        for alpha in (0.1, 0.3, 0.49)
    ]  # fmt: skip
    return conclude(
        at_least("exact probability, against the claim", exact, claimed),
        *parts,
        assumptions=("alpha m >= 1: for odd m below that, more than m coordinates would be needed",),
    )


@statement("Gaussian images of fixed blocks are (α,σ/4)-good", "bound")
@misprint("false for odd m and α < 1/m, as Lemma A.13")
def corollary_a_16(lab: Lab) -> Check:
    r"""$\sum_j A_j x_j$ with variances $\sigma_j^2$ is $(\alpha, \sigma/4)$-good,
    $\sigma^2 = \sum_j \sigma_j^2\|x_j\|^2$, same probability.

    Checked on drawn blocks, and on pre-activations $g_{i,1} = A x_{i,1}$ of the network, where it is used.
    """
    rng, m, draws = lab.rng("good blocks"), 500, lab.pick(300, 2000, 20000)
    vectors, sigmas = [rng.standard_normal(k) for k in (2, 4)], (0.5, 2.0)
    sigma = float(np.sqrt(sum(s**2 * (x @ x) for s, x in zip(sigmas, vectors, strict=True))))
    images = np.zeros((draws, m))
    for s, x in zip(sigmas, vectors, strict=True):
        images += s * rng.standard_normal((draws, m, x.size)) @ x
    parts = [
        frequency(
            f"drawn images that are good, alpha = {alpha}", sum(good(row, alpha, sigma / 4) for row in images), draws,
            -np.expm1(-(alpha**2) * m / 100),
        )
        for alpha in (0.1, 0.3, 0.49)
    ]  # fmt: skip
    states = [lab.start(width, seed=seed).seen.g[:, 0] for width in lab.widths for seed in lab.seeds]
    found = [good(g, 0.4, np.sqrt(2 / g.size) / 4) for block in states for g in block]
    claimed = -np.expm1(-(0.4**2) * min(lab.widths) / 100)
    parts.append(frequency("first pre-activations that are good, alpha = 0.4", sum(found), len(found), claimed))
    return conclude(*parts)


def split_excess(w: np.ndarray, starts: int, steps: int = 30) -> float:
    r"""Return the largest $\|y_1\|$ found, $y = Wx$ for unit $x$, $y_1$ what exceeds $\log m/\sqrt m$ in each entry.

    Ascent of $\|y_1\|^2$ over the sphere from the directions of the longest rows: a lower estimate of the supremum.
    """
    m = w.shape[0]
    level = np.log(m) / np.sqrt(m)
    x = w[np.argsort(-np.linalg.norm(w, axis=1))[:starts]].T
    x = x / np.linalg.norm(x, axis=0)
    best = 0.0
    for _ in range(steps):
        y = w @ x
        rest = y - np.clip(y, -level, level)
        best = max(best, float(np.linalg.norm(rest, axis=0).max()))
        x = w.T @ rest
        norms = np.linalg.norm(x, axis=0)
        if not norms.all():
            break
        x = x / norms
    return best


@statement("Images of all vectors split into a short part and one with small entries", "bound")
@misprint("n ≤ s, printed d ≤ s; the constants need log m ≥ 8")
def lemma_a_17(lab: Lab) -> Check:
    r"""Every $y = Wx$ is $y_1 + y_2$, $\|y_1\| \le \sqrt{s}\log^2 m/\sqrt m\,\|x\|$ and
    $\|y_2\|_\infty \le \log m/\sqrt m\,\|x\|$.

    $W$ is $m \times n$ with entries $N(0, 2/m)$ and $n \le s \le m$. The best split clips $y$; the worst $x$ is sought
    by ascent from the longest rows.
    """
    m = lab.pick(4096, 8192, 16384)
    columns = (64, 128, 256)
    found = []
    for n in columns:
        w = np.sqrt(2 / m) * lab.rng("split", n).standard_normal((m, n))
        found.append(split_excess(w, starts=4))
    return conclude(
        at_most("largest ||y_1|| found, s = n", found, np.sqrt(columns) * np.log(m) ** 2 / np.sqrt(m)),
        hypotheses=[at_least("m, against e^8: the proof needs log m >= 8", m, np.exp(8))],
        assumptions=(
            "n <= s (the printed d <= s is a misprint)",
            "the supremum over x is sought by ascent, from below",
        ),
    )
