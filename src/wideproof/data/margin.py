r"""The margin of Frei et al. (2019), Assumption 3.2, on a sample: an estimate, and a bracket around it.

With $u \sim N(0, I)$ and $\sigma$ the ReLU, the margin of a sample is the saddle value

$$ \gamma = \max_{|c| \le 1} \min_i\, y_i\, \mathbb E[c(u)\, \sigma(u^\top x_i)]
          = \min_{p \in \Delta_n} \mathbb E\Big|\sum_i p_i y_i\, \sigma(u^\top x_i)\Big|. $$

Any $p$ bounds it from above, any $c$ from below, and fresh draws of $u$ turn both bounds into numbers with a
confidence interval. The margin of a sample is at least the margin of the distribution it came from.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from wideproof.answers import Answer
from wideproof.cards import Told
from wideproof.data.dataset import as_floats
from wideproof.data.geometry import pairs
from wideproof.errors import InputError

LARGEST = float(1 / np.sqrt(2 * np.pi))  # E[σ(u·x)] on the sphere: no margin is larger
UNIT_TOLERANCE = 1e-8
CONFIDENCE = 0.999
_RIDGES = (1.0, 0.2, 0.04)  # as parts of the estimate
_SOLVER_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Margin(Told):
    """The margin of a sample.

    Attributes
    ----------
    estimate
        The value of the linear program on random features.
    lower
        A lower bound with 99.9 % confidence; 0 with `bracket=False`.
    upper
        An upper bound with 99.9 % confidence; `pair_bound` with `bracket=False`.
    pair_bound
        An upper bound without randomness: half the least distance between opposite labels, over √(2π).
    features
        Number of random features.
    n
        Number of examples.
    """

    estimate: float
    lower: float
    upper: float
    pair_bound: float
    features: int
    n: int

    @property
    def separable(self) -> Answer:
        """Whether the bracket decides it; undecided where a positive margin is seen but not certain."""
        if self.lower > 0:
            return Answer.HOLDS
        return Answer.FAILS if self.upper <= 0 else Answer.UNDECIDED

    def __str__(self) -> str:
        return f"{self.estimate:.4g} in [{self.lower:.4g}, {self.upper:.4g}] (pair bound {self.pair_bound:.4g})"


def margin(x: Any, y: Any, *, features: int = 4000, seed: int = 0, bracket: bool = True) -> Margin:
    """Estimate the margin of labelled unit vectors.

    The linear program on random features is solved with HiGHS. The upper bound takes its dual; the lower bound takes
    the coefficient function `clip(g(u) / ε, -1, 1)` of the dual, with `|g|` rounded off below ε.

    Parameters
    ----------
    x
        Unit vectors, one in each row.
    y
        Labels, -1 or +1.
    features
        Number of random features.
    seed
        Seed of the features.
    bracket
        Whether to compute the bounds as well.

    Returns
    -------
    Margin
        The estimate and its bounds.

    Examples
    --------
    >>> square = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> found = margin(square, [1, 1, -1, -1])
    >>> found.lower < 0.16525 < found.upper
    True
    """
    x, y = as_floats(x, "the inputs"), as_floats(y, "the labels")
    _require_sphere(x, y, features)
    pair = pairs(x, y).opposite
    pair_bound = LARGEST if pair is None else float(min(1.0, pair.distance / 2) * LARGEST)
    rng = np.random.default_rng(seed)
    u = _antithetic(rng, features, x.shape[1])
    signed = y[:, None] * np.maximum(x @ u.T, 0)
    estimate, weights = _program(signed)
    if not bracket or min(estimate, pair_bound) == 0:
        return Margin(estimate, 0.0, pair_bound, pair_bound, len(u), len(x))
    largest = float(np.linalg.eigvalsh(signed @ signed.T)[-1])
    single = signed.astype(np.float32)  # any weights give a valid bound, so half the digits will do
    candidates = [(ridge, _smoothed(single, ridge, weights, largest)) for ridge in estimate * np.array(_RIDGES)]
    fresh = int(np.clip(1e7 / len(x), 1e5, 1e6))
    trial = np.random.default_rng([seed, 1])
    scores = [_lower(x, y, p, ridge, trial, fresh // 4) for ridge, p in candidates]
    ridge, best = candidates[int(np.argmax(scores))]
    lower = _lower(x, y, best, ridge, np.random.default_rng([seed, 2]), fresh)
    upper = _upper(x, y, weights, np.random.default_rng([seed, 3]), fresh)
    return Margin(estimate, max(0.0, lower), min(upper, pair_bound), pair_bound, len(u), len(x))


def _require_sphere(x: np.ndarray, y: np.ndarray, features: int) -> None:
    if x.ndim != 2 or y.shape != x.shape[:1] or len(x) == 0:
        raise InputError(f"the margin needs x of shape (n, d) and y of shape (n,), got {x.shape} and {y.shape}")
    if not np.isin(y, (-1.0, 1.0)).all():
        raise InputError("the margin needs labels -1 and +1: choose two classes, or `binarize`")
    off = np.abs(np.linalg.norm(x, axis=1) - 1)
    if not off.max() <= UNIT_TOLERANCE:
        raise InputError(f"the margin needs unit inputs, row {int(off.argmax())} has another norm: prepare with `unit`")
    if features < 2:
        raise InputError(f"the margin needs at least 2 random features, got {features}: use several thousand")


def _antithetic(rng: np.random.Generator, count: int, d: int) -> np.ndarray:
    half = rng.standard_normal(((count + 1) // 2, d))
    return np.concatenate([half, -half])


def _program(signed: np.ndarray) -> tuple[float, np.ndarray]:
    """Solve `max g, signed @ c / M >= g, |c| <= 1`; return `g` and the dual weights on the examples."""
    from scipy.optimize import linprog

    n, m = signed.shape
    table = np.hstack([-signed / m, np.ones((n, 1))])
    bounds = [(-1, 1)] * m + [(None, None)]
    method = "highs-ds" if n <= 200 else "highs-ipm"  # interior points win once many examples are tight
    solved = linprog(np.r_[np.zeros(m), -1.0], A_ub=table, b_ub=np.zeros(n), bounds=bounds, method=method)
    if solved.status != 0:
        raise RuntimeError(f"the margin program was not solved: {solved.message}")
    weights = np.maximum(-solved.ineqlin.marginals, 0)
    value = float(-solved.fun)
    return (value if value > _SOLVER_TOLERANCE else 0.0), weights / weights.sum()


def _smoothed(signed: np.ndarray, ridge: float, start: np.ndarray, largest: float, steps: int = 300) -> np.ndarray:
    r"""Minimize $\frac1M \sum_j h_\epsilon(g_j)$, $g = $ `p @ signed`, over the simplex (FISTA)."""
    m = signed.shape[1]
    curvature = largest / (m * ridge)
    p = ahead = start
    momentum = 1.0
    for _ in range(steps):
        seen = ahead.astype(np.float32) @ signed
        slope = (signed @ np.clip(seen / np.float32(ridge), -1, 1)).astype(np.float64) / m
        new = _onto_simplex(ahead - slope / curvature)
        if (ahead - new) @ (new - p) > 0:  # the momentum points uphill: start it again
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * (new - p)
        p, momentum = new, following
    return p


def _onto_simplex(p: np.ndarray) -> np.ndarray:
    """Return the nearest point with non-negative entries and sum 1."""
    falling = np.sort(p)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(p) + 1)
    shift = excess[np.flatnonzero(falling > excess)[-1]]
    return np.maximum(p - shift, 0)


def _fresh(x: np.ndarray, y: np.ndarray, rng: np.random.Generator, count: int) -> Iterator[np.ndarray]:
    """Yield `y σ(u·x)` for fresh directions, shape `(2, n, block)`: u and -u side by side."""
    block = max(256, 2_000_000 // len(x))
    for start in range(0, count // 2, block):
        z = x @ rng.standard_normal((min(block, count // 2 - start), x.shape[1])).T
        yield y[:, None] * np.maximum(np.stack([z, -z]), 0)


def _lower(x: np.ndarray, y: np.ndarray, p: np.ndarray, ridge: float, rng: np.random.Generator, count: int) -> float:
    """The least mean of `y_i c(u) σ(u·x_i)` over the examples, less its simultaneous confidence radius."""
    total, square, pairs_seen = np.zeros(len(x)), np.zeros(len(x)), 0
    for signed in _fresh(x, y, rng, count):
        weight = np.clip(np.einsum("i,sij->sj", p, signed) / ridge, -1, 1)
        value = 0.5 * np.einsum("sj,sij->ij", weight, signed)
        total += value.sum(axis=1)
        square += np.square(value).sum(axis=1)
        pairs_seen += value.shape[1]
    mean = total / pairs_seen
    spread = np.sqrt(np.maximum(square / pairs_seen - mean**2, 0) / pairs_seen)
    return float((mean - _deviations((1 - CONFIDENCE) / len(x)) * spread).min())


def _upper(x: np.ndarray, y: np.ndarray, p: np.ndarray, rng: np.random.Generator, count: int) -> float:
    """The mean of `|Σ p_i y_i σ(u·x_i)|`, plus its confidence radius."""
    values = [0.5 * np.abs(np.einsum("i,sij->sj", p, signed)).sum(axis=0) for signed in _fresh(x, y, rng, count)]
    value = np.concatenate(values)
    return float(value.mean() + _deviations(1 - CONFIDENCE) * value.std(ddof=1) / np.sqrt(len(value)))


def _deviations(probability: float) -> float:
    """Return the number of standard deviations that a normal variable exceeds with this probability."""
    from scipy.stats import norm

    return float(norm.isf(probability))
