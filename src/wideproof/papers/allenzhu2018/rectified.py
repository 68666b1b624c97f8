"""Appendix A, second part: chi-square tails, and norms of rectified Gaussian vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from wideproof.papers.allenzhu2018.distributions import fits, rectified_cdf, rectified_tail
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.check import Check, at_most, conclude, frequency, identity, law
from wideproof.papers.statement import Section, misprint

statement = Section("tool", "none")

ORDERS = (1, 2, 3, 5, 10, 30, 100, 1000, 10000)
SIZES = (1, 2, 3, 5, 10, 30, 100, 300, 1000)
EPSILONS = np.array([0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0])


@statement("Tails of the chi-square distribution", "bound")
def lemma_a_3(lab: Lab) -> Check:
    r"""$X \sim \sigma^2 \chi^2_k$: $\Pr[X - k\sigma^2 \ge (2\sqrt{kt} + 2t)\sigma^2] \le e^{-t}$,
    $\Pr[k\sigma^2 - X \ge 2\sqrt{kt}\sigma^2] \le e^{-t}$.
    """
    t = np.geomspace(0.01, 50, lab.pick(60, 200, 1000))
    orders = np.array(ORDERS)[:, None]
    root = 2 * np.sqrt(orders * t)
    bound = np.broadcast_to(np.exp(-t), root.shape)
    return conclude(
        at_most("upper tail", stats.chi2.sf(orders + root + 2 * t, orders), bound),
        at_most("lower tail", stats.chi2.cdf(orders - root, orders), bound),
        assumptions=("sigma = 1; the claim is invariant",),
    )


@statement("A Gaussian vector's squared norm is off by n/b with probability 2exp(-n/8b²) at most", "bound")
def lemma_a_4(lab: Lab) -> Check:
    r"""$\Pr[|\,\|x\|^2 - n\sigma^2| \ge \tfrac nb \sigma^2] \le 2 e^{-n/(8b^2)}$ for $x \sim N(0, \sigma^2 I_n)$,
    $b \ge 1$.
    """
    b = np.geomspace(1, 100, lab.pick(60, 200, 1000))
    n = np.array(ORDERS)[:, None]
    outside = stats.chi2.sf(n + n / b, n) + stats.chi2.cdf(n - n / b, n)
    return conclude(
        at_most("probability to be off by n/b", outside, 2 * np.exp(-n / (8 * b**2))),
        assumptions=("sigma = 1; the claim is invariant",),
    )


def _tails() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the upper tail, the lower tail and the printed bound on the grid of sizes and deviations."""
    upper = np.array([rectified_tail((1 + EPSILONS) ** 2 * n / 2, n) for n in SIZES])
    lower = np.array([rectified_cdf((1 - EPSILONS) ** 2 * n / 2, n) for n in SIZES])
    return upper, lower, np.exp(-(EPSILONS**2) * np.array(SIZES)[:, None] / 100)


@statement("The norm of φ(g) for Gaussian g rarely exceeds its mean by much", "bound")
@misprint("the proof takes the norm for its square")
def lemma_a_6(lab: Lab) -> Check:
    r"""$\Pr[\|\phi(x)\| < (1+\varepsilon)\sqrt{n/2}\,\sigma] \ge 1 - e^{-\varepsilon^2 n/100}$ for
    $x \sim N(0, \sigma^2 I_n)$.
    """
    upper, _, bound = lab.keep("rectified tails", _tails)
    return conclude(
        at_most("upper tail of the norm", upper, bound),
        assumptions=("exact: the squared norm is chi-square with a binomial number of degrees of freedom",),
    )


@statement("The norm of φ(g) for Gaussian g rarely falls much below its mean", "bound")
@misprint("the proof takes the norm for its square")
def lemma_a_7(lab: Lab) -> Check:
    r"""$\Pr[\|\phi(x)\| > (1-\varepsilon)\sqrt{n/2}\,\sigma] \ge 1 - e^{-\varepsilon^2 n/100}$ for
    $x \sim N(0, \sigma^2 I_n)$.
    """
    _, lower, bound = lab.keep("rectified tails", _tails)
    return conclude(
        at_most("lower tail of the norm", lower, bound),
        assumptions=("exact: the squared norm is chi-square with a binomial number of degrees of freedom",),
    )


@statement("Both tails of the norm of a rectified Gaussian vector", "bound")
@misprint("φ is the ReLU, printed as its square")
def lemma_a_8(lab: Lab) -> Check:
    r"""$\|\phi(x)\| \in (1 \pm \varepsilon)\sqrt{n/2}\,\sigma$ with probability $1 - 2e^{-\varepsilon^2 n/100}$,
    $\phi(a) = \max(a, 0)$.
    """
    upper, lower, bound = lab.keep("rectified tails", _tails)
    n = 200
    drawn = np.square(np.maximum(lab.rng("rectified").standard_normal((lab.pick(2000, 10000, 100000), n)), 0)).sum(1)
    return conclude(
        at_most("both tails of the norm", upper + lower, 2 * bound),
        fits(f"drawn squared norms, n = {n}, against the exact law", drawn, lambda t: rectified_cdf(t, n)),
        assumptions=("phi is the ReLU, not its square as printed: the bound is for max(a, 0)",),
    )


def image_norms(lab: Lab, m: int, blocks: Sequence[tuple[int, float]], draws: int) -> np.ndarray:
    r"""Draw $\|\phi(\sum A_j x_j)\|$ over its limit, $A_j$ with variance $2\sigma_j^2/m$, blocks `(size, sigma_j)`."""
    rng = lab.rng("images", m, tuple(blocks))
    vectors = [rng.standard_normal(size) for size, _ in blocks]
    scale = np.sqrt(sum(sigma**2 * (x @ x) for x, (_, sigma) in zip(vectors, blocks, strict=True)))
    found = np.empty(draws)
    for k in range(draws):
        image = sum(
            sigma * np.sqrt(2 / m) * rng.standard_normal((m, size)) @ x
            for x, (size, sigma) in zip(vectors, blocks, strict=True)
        )
        found[k] = np.linalg.norm(np.maximum(image, 0)) / scale
    return found


def _image_check(lab: Lab, blocks: Sequence[tuple[int, float]]) -> Check:
    draws, parts = lab.pick(200, 1000, 10000), []
    for m, epsilon in ((256, 0.3), (256, 0.9), (1024, 0.2), (1024, 0.5)):
        ratios = lab.keep(("images", m, tuple(blocks)), lambda m=m: image_norms(lab, m, blocks, draws))
        inside = int((np.abs(ratios - 1) < epsilon).sum())
        claimed = 1 - 2 * np.exp(-(epsilon**2) * m / 100)
        parts.append(frequency(f"norm within {epsilon} of its limit, m = {m}", inside, draws, claimed))
    ratios = lab.keep(("images", 1024, tuple(blocks)), lambda: image_norms(lab, 1024, blocks, draws))
    exact = fits("squared norms against the exact law, m = 1024", ratios**2 * 512, lambda t: rectified_cdf(t, 1024))
    return conclude(*parts, exact, law("mean squared norm over its limit", ratios**2, 1.0))


@statement("A random ReLU layer keeps the norm of a fixed vector", "bound")
def corollary_a_9(lab: Lab) -> Check:
    r"""$\|\phi(Ax)\| \in (1 \pm \varepsilon)\,\sigma\|x\|$ with probability $1 - 2e^{-\varepsilon^2 m/100}$,
    $A_{ij} \sim N(0, 2\sigma^2/m)$.
    """
    return _image_check(lab, ((6, 1.5),))


@statement("The same for blocks of different variances", "bound")
def corollary_a_10(lab: Lab) -> Check:
    r"""Blocks $A_j$ of variances $2\sigma_j^2/m$:
    $\|\phi(Ax)\| \in (1 \pm \varepsilon)(\sum_j \sigma_j^2\|x_j\|^2)^{1/2}$, same probability.
    """
    return _image_check(lab, ((4, 0.5), (2, 1.0), (3, 2.0)))


def masked(lab: Lab, angle: float, m: int = 100, draws: int = 400, p: int = 3) -> np.ndarray:
    r"""Draw $v_i = 1\{\langle W_i, h + q\rangle \ge 0\} \langle W_i, h\rangle$ for a unit $h$ and $h + q$ at this
    angle.
    """
    h, other = np.eye(p)[0], np.cos(angle) * np.eye(p)[0] + np.sin(angle) * np.eye(p)[1]
    w = np.sqrt(2 / m) * lab.rng("masked", round(angle, 6)).standard_normal((draws, m, p))
    return (w @ (0.1 * other) >= 0) * (w @ h)


@statement(
    "A masked Gaussian image has half its entries zero, and a known norm, whatever the mask's direction", "exact"
)
def fact_a_11(lab: Lab) -> Check:
    r"""$|v_i| = |1\{\langle W_i, h+q\rangle \ge 0\}\langle W_i, h\rangle|$ is 0 or $|N(0, 2\|h\|^2/m)|$, half each,
    independent.

    Hence $m\|v\|^2 / (2\|h\|^2)$ is chi-square with a binomial number of degrees of freedom, whatever $q \ne -h$.
    """
    m, parts = 100, []
    for angle in (0.0, 0.7, np.pi / 2, 2.5, np.pi - 1e-6):
        v = masked(lab, angle, m, lab.pick(400, 2000, 20000))
        scaled = np.abs(v) * np.sqrt(m / 2)
        name = f"angle {angle:.3g}"
        parts += [
            law(f"{name}: share of zeros", (v == 0).mean(axis=1), 0.5),
            fits(f"{name}: nonzero entries are half-normal", scaled[scaled > 0][:20000], stats.halfnorm.cdf),
            fits(f"{name}: squared norm", (scaled**2).sum(axis=1), lambda t: rectified_cdf(t, m)),
            law(f"{name}: neighbours are uncorrelated", ((v[:, 1:] != 0) * (v[:, :-1] != 0)).mean(axis=1), 0.25),
        ]
    one = masked(lab, 0.0, m, 3)
    parts.append(identity("q = 0 gives the ReLU", one, np.maximum(one, 0)))
    return conclude(*parts, assumptions=("h + q is not 0: at 0 the indicator is always 1",))
