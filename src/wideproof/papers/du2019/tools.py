r"""The tools of Appendix G: products of matrices, Gaussian matrices, Lipschitz constants of Gaussian expectations."""

from __future__ import annotations

import functools
import math

import numpy as np

from wideproof.networks import get_activation
from wideproof.papers.check import Check, at_most, conclude, often, sides
from wideproof.papers.du2019.functions import FUNCTIONS
from wideproof.papers.du2019.lab import Lab
from wideproof.papers.du2019.recursion import averages, expectations
from wideproof.papers.statement import Section, misprint

statement = Section("tool", "none")

SMOOTH = ("softplus", "sigmoid", "tanh", "gelu")
SPREAD = 2.0  # the constant c: standard deviations lie in [1/c, c]


@statement("Products of close matrices are close", "bound")
def lemma_g_1(lab: Lab) -> Check:
    r"""Products of close factors are close: $\|A_i\|_2, \|B_i\|_2 \le M_i$ and $\|A_i - B_i\|_F \le \alpha_i M_i$ give

    $$ \Big\|\prod_i A_i - \prod_i B_i\Big\|_F \le \Big(\sum_i \alpha_i\Big) \prod_i M_i . $$
    """
    rng = lab.rng("products")
    found = []
    for trial in range(lab.pick(200, 2000, 20000)):
        factors = int(rng.integers(2, 6))
        size = int(rng.integers(1, 6))
        spread = 10.0 ** rng.uniform(-3, 1)
        a = [_matrix(rng, size, trial % 2 == 0) for _ in range(factors)]
        b = [m + spread * _matrix(rng, size, trial % 2 == 0) for m in a]
        top = [max(np.linalg.norm(p, 2), np.linalg.norm(q, 2)) for p, q in zip(a, b, strict=True)]
        alpha = [np.linalg.norm(p - q) / t for p, q, t in zip(a, b, top, strict=True)]
        found.append((np.linalg.norm(_product(a) - _product(b)), sum(alpha) * math.prod(top)))
    check = at_most("difference of products", *sides(found))
    return conclude(check, assumptions=["2 to 5 factors, half of them symmetric"])


@statement("A Gaussian matrix has spectral norm below c_(w,0)√m", "bound")
@misprint("the tail in the proof is e^(-t²/2)")
def lemma_g_2(lab: Lab) -> Check:
    r"""A Gaussian matrix of size $m \times cm$ has $\|W\|_2 \le c_{w,0}\sqrt m$ with probability at least
    $1 - \exp(-(c_{w,0} - \sqrt c - 1)^2 m/2)$, for $c_{w,0} > \sqrt c + 1$.
    """
    m, trials = lab.pick(40, 64, 128), lab.pick(80, 400, 2000)
    parts = []
    for c in (1, 2, 3):
        rng = lab.rng("Gaussian matrices", c)
        norms = np.linalg.norm(rng.standard_normal((trials, m, c * m)), 2, axis=(1, 2)) / math.sqrt(m)
        for t in (0.5, 1.0, 1.5, 2.0):
            c_w = math.sqrt(c) + 1 + t / math.sqrt(m)
            parts.append(often(f"c = {c}, c_w,0 = {c_w:.3f}", norms <= c_w, 1 - math.exp(-(t**2) / 2)))
    return conclude(*parts, assumptions=[f"m = {m}, {trials} draws"])


@statement("The Gaussian mean of an activation is Lipschitz in the variance", "bound")
@misprint("the proof takes the variance for the standard deviation")
def lemma_g_3(lab: Lab) -> Check:
    r"""A Gaussian mean is Lipschitz in the variance: for $a, b \in (1/c, c)$,
    $|\mathbb{E}_{N(0,a)}\sigma - \mathbb{E}_{N(0,b)}\sigma| \le C|a - b|$; here $C = L\sqrt{c/2\pi}$, since the
    derivative is $\mathbb{E}[z\sigma'(\sqrt a z)]/(2\sqrt a)$.
    """
    rng, parts = lab.rng("variances"), []
    for name in SMOOTH:
        a, b = rng.uniform(1 / SPREAD, SPREAD, size=(2, 400))
        change = np.abs(averages(FUNCTIONS[name][0], a) - averages(FUNCTIONS[name][0], b))
        parts.append(at_most(f"{name}: change of the mean", change, mean_constant(name) * np.abs(a - b)))
    return conclude(*parts, assumptions=[f"variances between 1/{SPREAD:g} and {SPREAD:g}"])


@statement("E[σ(u)σ(v)] is Lipschitz in the covariance", "bound")
@misprint("|∂ρ/∂A_12| <= c², not 1/c²; a term of ∂/∂A_11 is missing")
def lemma_g_4(lab: Lab) -> Check:
    r"""$F(A) = \mathbb{E}_{N(0,A)}[\sigma(u)\sigma(v)]$ is Lipschitz in the covariance: with standard deviations in
    $[1/c, c]$, $|F(A) - F(B)| \le C\|A - B\|_F \le 2C\|A - B\|_\infty$.

    By Price's identity $C^2 = L^4/2 + \beta^2 (|\sigma(0)| + Lc)^2/2$ is enough.
    """
    rng, parts = lab.rng("covariances"), []
    for name in SMOOTH:
        a, b = (np.stack([_covariance(rng, 2) for _ in range(lab.pick(30, 400, 2000))]) for _ in range(2))
        values = [np.array([expectations(FUNCTIONS[name][0], k, 32)[0, 1] for k in ks]) for ks in (a, b)]
        frobenius = np.linalg.norm(a - b, axis=(1, 2))
        constant = product_constant(name)
        parts.append(at_most(f"{name}: change of F", np.abs(values[0] - values[1]), constant * frobenius))
        parts.append(at_most("‖·‖_F <= 2‖·‖_∞", frobenius, 2 * np.abs(a - b).max(axis=(1, 2))))
    return conclude(*parts, assumptions=[f"standard deviations between 1/{SPREAD:g} and {SPREAD:g}"])


@statement("The same for Gaussian vectors", "bound")
def lemma_g_5(lab: Lab) -> Check:
    r"""The same for vectors: $A \mapsto \mathbb{E}[\sigma(u)\sigma(u)^\top]$ and $A \mapsto \mathbb{E}\sigma(u)$,
    $u \sim N(0, A)$ in $2p$ dimensions, are Lipschitz in the largest entry.
    """
    rng, parts = lab.rng("vectors"), []
    for name in SMOOTH:
        sigma = FUNCTIONS[name][0]
        found = []
        for _ in range(lab.pick(10, 100, 500)):
            a, b = _covariance(rng, 6), _covariance(rng, 6)
            second = np.abs(expectations(sigma, a, 32) - expectations(sigma, b, 32)).max()
            mean = np.abs(averages(sigma, np.diagonal(a)) - averages(sigma, np.diagonal(b))).max()
            found.append((second, mean, np.abs(a - b).max()))
        seconds, means, gaps = sides(found)
        parts.append(at_most(f"{name}: second moments", seconds, 2 * product_constant(name) * gaps))
        parts.append(at_most(f"{name}: means", means, mean_constant(name, SPREAD**2) * gaps))
    return conclude(*parts, assumptions=[f"p = 3, standard deviations between 1/{SPREAD:g} and {SPREAD:g}"])


def mean_constant(name: str, spread: float = SPREAD) -> float:
    r"""Return $L\sqrt{c/2\pi}$, the constant of Lemma G.3 for variances above $1/c$."""
    return get_activation(name).lipschitz * math.sqrt(spread / (2 * math.pi))


def product_constant(name: str) -> float:
    r"""Return the constant of Lemma G.4: $|\partial F/\partial A_{12}| \le L^2$ and
    $|\partial F/\partial A_{11}| \le \tfrac\beta2\,\mathbb{E}|\sigma(v)|$.
    """
    activation = get_activation(name)
    assert activation.smoothness is not None
    size = abs(activation.at_zero) + activation.lipschitz * SPREAD
    return math.sqrt(activation.lipschitz**4 / 2 + (activation.smoothness * size) ** 2 / 2)


def _covariance(rng: np.random.Generator, size: int) -> np.ndarray:
    """Draw a correlation matrix and standard deviations between 1/c and c."""
    v = rng.normal(size=(size, size))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    s = rng.uniform(1 / SPREAD, SPREAD, size=size)
    return np.outer(s, s) * (v @ v.T)


def _matrix(rng: np.random.Generator, size: int, symmetric: bool) -> np.ndarray:
    m = rng.normal(size=(size, size))
    return m + m.T if symmetric else m


def _product(factors: list[np.ndarray]) -> np.ndarray:
    return functools.reduce(np.matmul, factors)
