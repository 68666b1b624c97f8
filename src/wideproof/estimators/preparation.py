r"""What is done to inputs before a network sees them: gaps filled, columns scaled, a constant coordinate, norm 1.

`"sphere"` is $x \mapsto (z, \beta) / \|(z, \beta)\|$ with $z = (x - \text{mean}) / (\text{std} \sqrt d)$: it keeps
different inputs different (and not parallel), works for an input of zeros, and has the norm 1 that the theorems ask
for. `"standardize"` leaves the last step out, so that ReLU networks grow linearly far away; `None` leaves the inputs as
they are. `"codes"` and `"ranks"` are `"sphere"` with columns rewritten first: columns of a few repeated values become
indicators, scaled to a total variance of 1, or every column becomes its normal scores
$\Phi^{-1}((\text{midrank} - \tfrac12)/n)$. $\beta$ is `bias`; 0 adds no coordinate.

A missing value (NaN) becomes the median of its column, and a column that marks the gaps is added. Where only new rows
have gaps, the mean is filled in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

from wideproof.errors import InputError

PREPARATIONS = ("sphere", "standardize", "codes", "ranks", None)
LEAST_CODES, MOST_CODES = 3, 12  # different values of a column that becomes indicators, each found twice on average
Columns = Float[np.ndarray, "n d"]


@dataclass(frozen=True)
class Gaps:
    """How missing values are filled, and which columns get one that marks the gaps: those that had any."""

    fill: Float[np.ndarray, "d"]
    marked: Bool[np.ndarray, "d"]

    def __call__(self, x: Columns) -> Columns:
        """Fill the gaps and append the marks."""
        gaps = np.isnan(x)
        if not (self.marked.any() or gaps.any()):
            return x
        filled = np.where(gaps, self.fill, x)
        return np.concatenate([filled, gaps[:, self.marked].astype(float)], axis=1)


@dataclass(frozen=True)
class Indicators:
    """A column of codes as indicators, divided by the root of their total variance."""

    values: Float[np.ndarray, "k"]
    scale: float

    def __call__(self, column: Float[np.ndarray, "n"]) -> Columns:
        """Return one column for each value; an unknown value has none that is not 0."""
        return (column[:, None] == self.values) / self.scale


@dataclass(frozen=True)
class Scores:
    """A column as normal scores of its ranks; between training values they are interpolated."""

    values: Float[np.ndarray, "k"]
    scores: Float[np.ndarray, "k"]

    def __call__(self, column: Float[np.ndarray, "n"]) -> Columns:
        """Return the column of scores."""
        return np.interp(column, self.values, self.scores)[:, None]


Rewriting = Indicators | Scores | None


@dataclass(frozen=True)
class Preparation:
    """A fitted preparation: gaps, rewritten columns, means, factors, the constant coordinate, whether norms become 1.

    `groups` has the number of prepared columns that each column becomes.
    """

    gaps: Gaps
    rewritings: tuple[Rewriting, ...]
    mean: Float[np.ndarray, "p"]
    factor: Float[np.ndarray, "p"]
    bias: float | int
    unit: bool
    groups: tuple[int, ...] = ()

    def __call__(self, x: Columns) -> Float[np.ndarray, "n q"]:
        """Prepare inputs, training inputs and new ones alike."""
        x = _rewritten(self.gaps(x), self.rewritings)
        as_given = not self.mean.any() and (self.factor == 1).all()
        z = x if as_given else (x - self.mean) * self.factor  # copies of many images take time
        return with_constant(z, self.bias, self.unit)

    def names(self, given: Sequence[str]) -> list[str]:
        """Return a name for each prepared column."""
        marks = [f"{given[j]} missing" for j in np.flatnonzero(self.gaps.marked).tolist()]
        found: list[str] = []
        for j, name in enumerate([*given, *marks]):
            rewriting = self.rewritings[j] if self.rewritings else None
            codes = isinstance(rewriting, Indicators)
            found += [f"{name}={value:g}" for value in rewriting.values] if codes else [name]
        return found + ["constant"] * bool(self.bias)


def _rewritten(x: Columns, rewritings: tuple[Rewriting, ...]) -> Columns:
    if not any(one is not None for one in rewritings):
        return x
    return np.concatenate([x[:, [j]] if one is None else one(x[:, j]) for j, one in enumerate(rewritings)], axis=1)


def check_preparation(kind: str | None, bias: float | int) -> None:
    """Refuse a preparation or a constant coordinate that there is not."""
    if kind not in PREPARATIONS:
        raise InputError(f"preparation must be 'sphere', 'standardize', 'codes', 'ranks' or None, got {kind!r}")
    if isinstance(bias, str) or not (math.isfinite(bias) and bias >= 0):
        raise InputError(f"bias must be a number >= 0, got {bias!r}")


def fit_preparation(
    kind: str | None, bias: float | int, x: Columns, weight: Float[np.ndarray, "n"], blocks: tuple[int, ...] = ()
) -> Preparation:
    """Take means, deviations, codes and ranks from the training inputs, with weights; constant columns become 0.

    `blocks` has the numbers of neighbouring columns, the last ones, that are indicators of one column of texts: each
    block is scaled to a total variance of 1.

    >>> ready = fit_preparation("sphere", 1.0, np.array([[1.0], [3.0]]), np.ones(2))
    >>> ready(np.array([[2.0], [3.0]])).round(4)
    array([[0.    , 1.    ],
           [0.7071, 0.7071]])
    >>> ready = fit_preparation("standardize", 0.0, np.array([[1.0], [np.nan], [3.0]]), np.ones(3))
    >>> ready(np.array([[np.nan], [5.0]])).round(4)
    array([[-0.5,  1. ],
           [ 2.5, -0.5]])
    """
    check_preparation(kind, bias)
    gaps = _fit_gaps(x, weight)
    x = gaps(x)
    if kind is None:
        return Preparation(gaps, (), np.zeros(x.shape[1]), np.ones(x.shape[1]), bias, False)
    plain = len(gaps.fill) - sum(blocks)
    rewritings: list[Rewriting] = []
    if kind in ("codes", "ranks"):
        rewritings = [_rewriting(kind, x[:, j], weight) for j in range(plain)] + [None] * (x.shape[1] - plain)
    sizes = [len(one.values) if isinstance(one, Indicators) else 1 for one in rewritings] or [1] * x.shape[1]
    x = _rewritten(x, tuple(rewritings))
    mean = np.average(x, axis=0, weights=weight)
    variance = np.average(np.square(x - mean), axis=0, weights=weight)
    groups = [*sizes[:plain], *blocks, *[1] * (len(sizes) - len(gaps.fill))]
    total = np.repeat(np.add.reduceat(variance, np.cumsum([0, *groups[:-1]])), groups) if groups else variance
    deviation = np.sqrt(total)
    varies = deviation > 1e-13 * np.abs(mean)
    factor = np.where(varies, 1 / np.where(varies, deviation * math.sqrt(max(1, len(groups))), 1), 0.0)
    return Preparation(gaps, tuple(rewritings), mean, factor, bias, kind != "standardize", tuple(groups))


def _fit_gaps(x: Columns, weight: Float[np.ndarray, "n"]) -> Gaps:
    """Return what fills gaps: weighted medians, and means of columns that have none; an empty column becomes 0."""
    marked = np.asarray(np.isnan(x).any(axis=0))
    fill = np.zeros(x.shape[1])
    fill[~marked] = np.average(x[:, ~marked] if marked.any() else x, axis=0, weights=weight)
    for j in np.flatnonzero(marked):
        there = ~np.isnan(x[:, j])
        if there.any():
            fill[j] = np.quantile(x[there, j], 0.5, weights=weight[there], method="inverted_cdf")
    return Gaps(fill, marked)


def has_codes(x: Columns, weight: Float[np.ndarray, "n"]) -> bool:
    """Return whether a column looks like codes: few different values, each found twice or more on average.

    >>> has_codes(np.array([[1.0], [2.0], [3.0], [1.0], [2.0], [3.0]]), np.ones(6)), has_codes(np.eye(6), np.ones(6))
    (True, False)
    """
    return any(isinstance(_rewriting("codes", column, weight), Indicators) for column in x.T)


def _rewriting(kind: str, column: Float[np.ndarray, "n"], weight: Float[np.ndarray, "n"]) -> Rewriting:
    values, place = np.unique(column, return_inverse=True)
    total = np.bincount(place, weight)
    if kind == "ranks":
        return Scores(values, ndtri((np.cumsum(total) - total / 2) / total.sum())) if len(values) > 1 else None
    if not LEAST_CODES <= len(values) <= min(MOST_CODES, len(column) // 2):
        return None
    shares = total / total.sum()
    return Indicators(values, math.sqrt(float(np.sum(shares * (1 - shares)))))


def with_constant(z: Float[np.ndarray, "n d"], bias: float | int, unit: bool) -> Float[np.ndarray, "n p"]:
    """Append a constant coordinate (unless 0) and divide by the norm (if asked); zeros stay zeros."""
    if bias:
        z = np.concatenate([z, np.full((len(z), 1), float(bias))], axis=1)
    if not unit:
        return z
    norms = np.sqrt(np.einsum("ij,ij->i", z, z))
    return z / np.where(norms > 0, norms, 1)[:, None]
