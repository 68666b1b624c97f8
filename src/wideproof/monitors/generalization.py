r"""The generalization bound of Frei et al. (2019), Theorem 3.6: its Rademacher term and its right-hand side.

For the networks within $\tau$ of the start in every layer, $\hat{\mathfrak R}_S \le I_1 + I_2$: $I_2$ belongs to the
linearized network and is computed exactly, $I_1$ to the remainder and is estimated from below by an attack or bounded
from above by propagation.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from wideproof.monitors.residual import Pass

ENUMERATED = 12  # up to 2^12 sign vectors are enumerated


def layer_grams(seen: Pass) -> Float[np.ndarray, "layers n n"]:
    r"""Return $K_l[i, j] = \langle \nabla_{W_l} f(x_i), \nabla_{W_l} f(x_j) \rangle$, `(L + 1, n, n)`."""
    parts = [(seen.x(k - 1) @ seen.x(k - 1).T) * (seen.b(k) @ seen.b(k).T) for k in seen.steps]
    return np.stack([seen.scale(k) ** 2 * part for k, part in zip(seen.steps, parts, strict=True)])


class LinearTerm(NamedTuple):
    r"""$I_2$: its value, the standard error (0 when all signs were enumerated), and the bound by traces."""

    value: float
    error: float
    trace_bound: float


def linear_term(grams: Float[np.ndarray, "layers n n"], radius: float, draws: int = 4096, seed: int = 0) -> LinearTerm:
    r"""Return $I_2 = \frac\tau n \sum_l \mathbb E_\xi \sqrt{\xi^\top K_l \xi}$: the supremum over the product of balls.

    A linear function is largest on each ball by itself, so this is no estimate but the value; the mean over signs is
    enumerated up to twelve examples and drawn beyond. The trace bound $\frac\tau n \sum_l \sqrt{\mathrm{tr} K_l}$ is
    at most $\sqrt2$ times as large.

    Examples
    --------
    >>> found = linear_term(np.eye(3)[None], radius=0.5)
    >>> round(found.value, 4), found.error
    (0.2887, 0.0)
    """
    n = grams.shape[-1]
    if n <= ENUMERATED:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=n)))
    else:
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(draws, n))
    norms = np.sqrt(np.maximum(np.einsum("ki,lij,kj->kl", signs, grams, signs, optimize=True), 0)).sum(axis=1)
    error = 0.0 if n <= ENUMERATED else float(norms.std(ddof=1) / np.sqrt(len(signs)))
    traces = np.sqrt(np.trace(grams, axis1=1, axis2=2)).sum()
    return LinearTerm(*(float(radius / n * value) for value in (norms.mean(), error, traces)))


def rounded_radius(radius: float, largest: float = 1.0, failure_prob: float = 0.1) -> tuple[float, float]:
    r"""Return the radius rounded up on the grid $2^{-j} \tau_{max}$, and the failure probability that it may use.

    A radius measured after training depends on the sample; a union over the grid, $\delta_j = \delta/((j+1)(j+2))$,
    makes the bound hold for it.

    >>> rounded_radius(0.2, failure_prob=0.12)
    (0.25, 0.01)
    """
    if not 0 < radius <= largest:
        raise ValueError(f"the radius must be above 0 and at most the largest of the grid, {largest:g}; got {radius:g}")
    j = int(np.floor(np.log2(largest / radius)))
    return largest * 2.0**-j, failure_prob / ((j + 1) * (j + 2))


@dataclass(frozen=True)
class GeneralizationBound:
    r"""The right-hand side of Theorem 3.6, in the four ways in which its constants can be filled in.

    Attributes
    ----------
    surrogate
        $\mathcal E_S$ on the training sample.
    radius, width, n, failure_prob
        $\tau$, $m$, $n$, $\delta$.
    linear
        $I_2$, exactly.
    attacked
        A value that $I_1$'s supremum reaches, by an attack: from below, so no bound.
    certified
        A bound on $I_1$ from above.
    """

    surrogate: float
    radius: float
    width: int
    n: int
    failure_prob: float
    linear: float
    attacked: float
    certified: float

    @property
    def paper(self) -> float:
        r"""$2\mathcal E_S + \tau^{4/3}\sqrt{m\log m} + \tau\sqrt{m/n} + \sqrt{\log(1/\delta)/n}$: every constant 1."""
        remainder = self.radius ** (4 / 3) * np.sqrt(self.width * np.log(self.width))
        return self._total(remainder + self.radius * np.sqrt(self.width / self.n), self._deviation)

    @property
    def calibrated(self) -> float:
        r"""The same with the measured constants: $I_2$, and the attack in place of $\tau^{4/3}\sqrt{m \log m}$."""
        return self._total(self.attacked + self.linear, self._deviation)

    @property
    def explicit(self) -> float:
        r"""$2\mathcal E_S + I_1 + I_2 + 6\sqrt{\log(2/\delta)/2n}$ (contraction by $\frac14$), $I_1$ by the attack."""
        return self._total(self.attacked + self.linear, self._explicit_deviation)

    @property
    def proved(self) -> float:
        """`explicit` with the certified remainder: a bound without any unknown."""
        return self._total(self.certified + self.linear, self._explicit_deviation)

    @property
    def linearized(self) -> float:
        """`explicit` without the remainder: the bound for the linearized network."""
        return self._total(self.linear, self._explicit_deviation)

    def variants(self) -> dict[str, float]:
        """Return the four right-hand sides by name."""
        return {name: getattr(self, name) for name in ("paper", "calibrated", "explicit", "proved")}

    @property
    def _deviation(self) -> float:
        return float(np.sqrt(np.log(1 / self.failure_prob) / self.n))

    @property
    def _explicit_deviation(self) -> float:
        return float(6 * np.sqrt(np.log(2 / self.failure_prob) / (2 * self.n)))

    def _total(self, complexity: float, deviation: float) -> float:
        return float(2 * self.surrogate + complexity + deviation)
