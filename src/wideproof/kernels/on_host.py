r"""Infinite-width Gram matrices in plain NumPy, for activations in closed form: nothing is compiled.

The recursion is that of `limits`. For vectors of one norm (and any vectors where the network is homogeneous) it is a
function of the angle $\theta$ alone, and smooth in $s = \sin(\theta / 2)$, or $\cos(\theta/2)$ for angles beyond 90
degrees: many pairs go through a cubic spline of it, which is compared with the recursion when it is made. For some
hundred examples this takes milliseconds, where a compilation takes a second for each new shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline

from wideproof.kernels import duals
from wideproof.kernels.contraction import AnyArray
from wideproof.kernels.correlations import correlation_and_gap, directions, leading_bits
from wideproof.kernels.finite import check_names
from wideproof.kernels.recursion import COVARIANCE, Groups, Moments, moments, node_recursion, pair_recursion
from wideproof.networks import LayeredLimit, Network

SAME_NORM = 1e-13  # squared norms that agree to this are one norm
CHUNK = 1 << 14  # pairs at a time: what they need stays in the cache
MANY = 20_000  # pairs from which a spline is quicker than the recursion for each
KNOTS, MOST_KNOTS = 1 << 11, 1 << 14
AGREEMENT = 1e-13  # of the spline with the recursion, as a share of the largest value


def is_on_host(network: Network) -> bool:
    """Return whether `gram_on_host` supports a network: it takes vectors, and its activation has a closed form.

    Parameters
    ----------
    network
        Any network.

    Returns
    -------
    bool
        Whether it does.

    Examples
    --------
    >>> from wideproof.networks import FullyConnected
    >>> is_on_host(FullyConnected(2, 8, 1, "relu")), is_on_host(FullyConnected(2, 8, 1, "tanh"))
    (True, False)
    """
    limit = network.limit()
    if not isinstance(limit, LayeredLimit) or limit.window is not None:
        return False
    return duals.closed_form(limit.activation) is not None


def gram_on_host(
    network: Network,
    x: Float[np.ndarray, "n d"],
    other: Float[np.ndarray, "m d"] | None = None,
    *,
    names: Sequence[str] | None = None,
    covariance: bool = False,
) -> Float[np.ndarray, "n _"]:
    """Return the matrix of `limit_gram` (with `covariance`, of `nngp`) for closed-form activations, in plain NumPy.

    Parameters
    ----------
    network
        A network for which `is_on_host` is true.
    x
        Inputs, one example in each row.
    other
        Other inputs, for the matrix between both; by default `x`.
    names
        The weights to sum over; by default the trained ones.
    covariance
        Return the covariance of the outputs instead of the Gram matrix.

    Returns
    -------
    array
        The matrix.

    Examples
    --------
    >>> from wideproof.kernels import limit_gram
    >>> from wideproof.networks import FullyConnected
    >>> network, x = FullyConnected(3, 8, 2, "relu"), np.random.default_rng(0).normal(size=(5, 3))
    >>> bool(np.allclose(gram_on_host(network, x), limit_gram(network, x).matrix, rtol=1e-12))
    True
    """
    limit = network.limit()
    assert isinstance(limit, LayeredLimit)
    groups: Groups = ((COVARIANCE, ()),) if covariance else (("total", check_names(network, names)),)
    sides = [np.asarray(side, np.float64) for side in (x, other) if side is not None]
    squares = [np.einsum("ij,ij->i", side, side) for side in sides]
    everything = np.concatenate(squares)
    low, high = everything.min(initial=np.inf), everything.max(initial=0.0)
    if limit.homogeneous or high - low <= SAME_NORM * high:
        level = 1.0 if limit.homogeneous else float(everything.mean()) if len(everything) else 1.0
        return _by_angles(limit, groups, sides, level)
    return _by_layers(limit, groups, sides, squares)


def _by_angles(limit: LayeredLimit, groups: Groups, sides: list[np.ndarray], level: float) -> Float[np.ndarray, "n m"]:
    """Return the matrix of vectors of one squared norm `level`, or times their norms: a function of the angle."""
    found = [directions(side) for side in sides]
    records = [{**one, **leading_bits(one["x"])} for one in found]
    left, right = records[0], records[-1]
    cosine, gap = correlation_and_gap(left, right)
    half = None if len(sides) == 2 else np.tril_indices(len(cosine))
    if half is not None:
        cosine, gap = cosine[half], gap[half]
    exact = partial(_at_angles, limit, groups, level)
    spline = _spline(limit, groups, level) if cosine.size >= MANY else None
    flat, far, out = np.sqrt(gap / 2).ravel(), cosine.ravel() < 0, np.empty(cosine.size)
    for start in range(0, len(flat), CHUNK):
        some = slice(start, start + CHUNK)
        out[some] = exact(_angle(flat[some], far[some])) if spline is None else spline(flat[some], far[some])
    out = out.reshape(cosine.shape)
    if half is not None:
        matrix = np.empty((len(left["x"]), len(left["x"])))
        matrix[half] = out
        matrix.T[half] = out
        out = matrix
    if not limit.homogeneous:
        return out
    return out * np.outer(left["norm"], right["norm"])


def _at_angles(limit: LayeredLimit, groups: Groups, level: float, angle: np.ndarray) -> np.ndarray:
    """Return the recursion at some angles."""
    known, (key, _) = moments(limit, np.full((1, 1), level)), groups[0]
    last = float(known.last_offset.ravel()[0])
    found = node_recursion(limit, groups, known, angle)
    return np.broadcast_to(_wanted(limit, found[key], key, last * last), angle.shape)


def _angle(s: np.ndarray, far: np.ndarray) -> np.ndarray:
    near = 2 * np.arcsin(s)
    return np.where(far, np.pi - near, near)


@lru_cache(maxsize=64)
def _spline(limit: LayeredLimit, groups: Groups, level: float) -> Spline | None:
    """Fit the recursion, on both sides of a right angle; `None` where no number of knots is enough."""
    top, count = np.sqrt(0.5), KNOTS
    while count <= MOST_KNOTS:
        s = np.linspace(0, top, count + 1)
        sides = [_at_angles(limit, groups, level, _angle(s, np.full(s.shape, far))) for far in (False, True)]
        found = Spline(np.concatenate([CubicSpline(s * (count / top), side).c.T for side in sides]), count, top)
        between = (s[:-1] + s[1:]) / 2
        for far in (np.zeros(count, bool), np.ones(count, bool)):
            off = np.abs(found(between, far) - _at_angles(limit, groups, level, _angle(between, far))).max()
            if not off <= AGREEMENT * np.abs(sides[0]).max():
                break
        else:
            return found
        count *= 2
    return None


@dataclass(frozen=True, eq=False)
class Spline:
    """Cubic polynomials on equal pieces of [0, top], for near angles and then for far ones."""

    coefficients: Float[np.ndarray, "pieces 4"]
    count: int
    top: float

    def __call__(self, s: np.ndarray, far: np.ndarray) -> np.ndarray:
        """Evaluate."""
        place = s * (self.count / self.top)
        piece = np.minimum(place.astype(np.int64), self.count - 1)
        place -= piece
        c = self.coefficients[piece + far * self.count]
        return ((c[:, 0] * place + c[:, 1]) * place + c[:, 2]) * place + c[:, 3]


def _by_layers(
    limit: LayeredLimit, groups: Groups, sides: list[np.ndarray], squares: list[np.ndarray]
) -> Float[np.ndarray, "n m"]:
    """Return the matrix of vectors of different norms, all layers for some rows after others."""
    forms = duals.closed_form(limit.activation)
    assert forms is not None
    known = [moments(limit, square[:, None]) for square in squares]
    right = known[-1]
    out = np.empty((len(sides[0]), len(sides[-1])))
    step = max(1, CHUNK // max(1, out.shape[1]))
    for start in range(0, len(out), step):
        rows = slice(start, start + step)
        left = _some(known[0], rows)

        def dual(which: int, h: int, p: AnyArray, left: Moments = left) -> AnyArray:
            a, b = left.variances[h], right.variances[h].T
            return forms[which](np.broadcast_to(a, p.shape), np.broadcast_to(b, p.shape), p)

        def cross(h: int, left: Moments = left) -> np.ndarray:
            return left.offsets[h] * right.means[h].T + left.means[h] * right.offsets[h].T

        found = pair_recursion(
            limit, groups, sides[0][rows] @ sides[-1].T,
            lambda h, p, dual=dual: dual(0, h, p), lambda h, p, dual=dual: dual(1, h, p), cross,
        )  # fmt: skip
        key = groups[0][0]
        out[rows] = _wanted(limit, found[key], key, left.last_offset * right.last_offset.T)
    if len(sides) == 1:
        out = np.tril(out) + np.tril(out, -1).T  # the last digits of a product of matrices need not be symmetric
    return out


def _some(known: Moments, rows: slice) -> Moments:
    variances, means, offsets = (
        [values[rows] for values in column] for column in (known.variances, known.means, known.offsets)
    )
    return Moments(variances, means, offsets, known.last_variance[rows], known.last_offset[rows])


def _wanted(limit: LayeredLimit, values: AnyArray | None, key: str, means: AnyArray | float) -> AnyArray | float:
    if values is None:
        return 0.0
    return values - means if key == COVARIANCE and limit.signs else values
