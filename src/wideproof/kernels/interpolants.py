r"""Functions of the correlation as short polynomials, for use inside compiled loops.

A kernel of an infinitely wide network is a function of $\rho \in [-1, 1]$ that may cost a quadrature. It has
its singularities at $\rho = \pm 1$, where ReLU's is analytic in $\sqrt{1 \mp \rho}$; so with
$s = \sqrt{(1 - |\rho|)/2} \in [0, 1/\sqrt{2}]$, for each sign of $\rho$, a few pieces $[l, h]$ that shrink towards
$s = 0$ are polynomials

$$ f(\rho) = \sum_k c_k t^k, \qquad t = \frac{2s - l - h}{h - l} \in [-1, 1], $$

of moderate degree with coefficients of the size of $f$, which Horner's rule evaluates to the last digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from numpy.polynomial import chebyshev

from wideproof.errors import InputError
from wideproof.precision import double_to_numpy

AngleFunction = Callable[[np.ndarray], Mapping[str, np.ndarray]]
Breaks = tuple[float, ...]
Leaves = dict[str, Any]  # arrays or numbers by name; JAX puts tracers and shapes in their places
Blended = Array | Sequence[Sequence[Array]]  # (2, pieces, ...)

TOP = math.sqrt(0.5)  # s at correlation 0
TERMS = 33
GROWTH = 64.0  # largest sum of |coefficients|, relative to the function: it multiplies the rounding
TESTS = 16
# Borders of the pieces from s = TOP down to 0.
LAYOUTS: tuple[Breaks, ...] = tuple(
    (TOP, *(TOP * ratio**k for k in range(1, pieces)), 0.0)
    for pieces, ratio in ((1, 0.5), (2, 0.5), (2, 0.25), (3, 0.5), (3, 0.25), (4, 0.5), (4, 0.25), (4, 0.125))
)


@partial(jax.tree_util.register_dataclass, data_fields=["coefficients", "error"], meta_fields=["breaks"])
@dataclass(frozen=True, eq=False)
class Interpolant:
    r"""Named functions of the correlation, each a piecewise polynomial in $s = \sqrt{(1 - |\rho|)/2}$.

    A pytree: the coefficients are its leaves, so a compiled function that takes one serves all of the same degrees.

    Attributes
    ----------
    coefficients
        For each name an array (terms, 2, pieces): powers of $t$, $\rho \ge 0$ or $\rho < 0$, pieces.
    error
        For each name the largest error measured, relative to the function's largest value.
    breaks
        Borders of the pieces in $s$, from $1/\sqrt{2}$ down to 0.
    """

    coefficients: Leaves
    error: Leaves
    breaks: Breaks

    @double_to_numpy
    def __call__(self, rho: ArrayLike, gap: ArrayLike | None = None) -> dict[str, Array]:
        r"""Return name -> values at the correlations `rho`, in its dtype; rounding beyond [-1, 1] is clipped.

        `gap` is $1 - |\rho|$ where it is known to more digits than `rho` tells.
        """
        return _horner(self, jnp.asarray(rho), None if gap is None else jnp.asarray(gap))

    @property
    def pieces(self) -> int:
        """Number of pieces for each sign of the correlation."""
        return len(self.breaks) - 1

    @property
    def degrees(self) -> dict[str, int]:
        """Degree of each polynomial."""
        return {name: len(coefficients) - 1 for name, coefficients in self.coefficients.items()}


@jax.jit
def _horner(fitted: Interpolant, rho: Array, gap: Array | None) -> dict[str, Array]:
    t, choose = locate(fitted.breaks, rho, gap)
    out = {}
    for name, coefficients in fitted.coefficients.items():
        columns = jnp.asarray(coefficients, rho.dtype)
        value = choose(columns[-1])
        for k in range(columns.shape[0] - 2, -1, -1):
            value = value * t + choose(columns[k])
        out[name] = jnp.broadcast_to(value, rho.shape)
    return out


def locate(
    breaks: Breaks, rho: Float[Array, "*shape"], gap: Float[Array, "*shape"] | None = None
) -> tuple[Float[Array, "*shape"], Callable[[Blended], Array]]:
    """Return the local variable `t`, and the function that blends an array (2, pieces, ...) by half and piece."""
    s = jnp.sqrt(jnp.maximum((1 - jnp.abs(rho) if gap is None else gap) * 0.5, 0))
    positive = rho >= 0
    inside = [s < border for border in breaks[1:-1]]

    def pick(candidates: Sequence[Array]) -> Array:
        chosen = candidates[0]
        for mask, candidate in zip(inside, candidates[1:], strict=True):
            chosen = jnp.where(mask, candidate, chosen)
        return chosen

    def choose(table: Blended) -> Array:
        return jnp.where(positive, pick(list(table[0])), pick(list(table[1])))

    scales = [2 / (high - low) for high, low in pairwise(breaks)]
    shifts = [-(high + low) / (high - low) for high, low in pairwise(breaks)]
    kind = rho.dtype
    return s * pick([jnp.asarray(x, kind) for x in scales]) + pick([jnp.asarray(x, kind) for x in shifts]), choose


def interpolate(f: AngleFunction, count: int = 400, tolerance: float = 1e-13) -> Interpolant:
    r"""Return an interpolant of `f`, with the fewest pieces and terms that reach `tolerance`.

    Parameters
    ----------
    f
        Takes angles $\theta = \arccos \rho \in [0, \pi]$ and returns name -> values of the same length. It is called
        once, or a few times where the first angles do not determine it.
    count
        How many angles `f` may be asked for in all.
    tolerance
        Largest error, relative to the largest value of each function.

    Examples
    --------
    >>> fitted = interpolate(lambda theta: {"angle": theta})
    >>> bool(abs(fitted(0.3)["angle"] - np.arccos(0.3)) < 1e-12), fitted.pieces
    (True, 1)
    """
    x = np.cos(np.pi * (np.arange(TESTS) + 0.37) / TESTS)
    test = angles_of(TOP * (1 + x) / 2)
    size, spent = 65, test.size
    nodes = angles_of(nested_points(size))
    sampled = {name: np.asarray(v, float) for name, v in f(np.concatenate([test.ravel(), nodes.ravel()])).items()}
    wanted = {name: v[: test.size].reshape(test.shape) for name, v in sampled.items()}
    values = {name: v[test.size :].reshape(nodes.shape) for name, v in sampled.items()}
    spent += nodes.size
    while True:
        scale = {name: max(np.abs(v).max(), np.finfo(float).tiny) for name, v in values.items()}
        expansions = {name: expand(v) for name, v in values.items()}
        rough = {
            name: max(np.abs(chebyshev.chebval(x, e[h]) - wanted[name][h]).max() for h in (0, 1)) / scale[name]
            for name, e in expansions.items()
        }
        if max(rough.values()) <= tolerance / 2:
            break
        if spent + 2 * (size - 1) > count:
            worst = max(rough, key=rough.__getitem__)
            raise InputError(
                f"{worst} is wanted to {tolerance:g}, but {size} angles for each sign of the correlation leave an "
                f"error of {rough[worst]:.1e}: raise the tolerance, or `count` above {count}"
            )
        finer = angles_of(nested_points(2 * size - 1))
        new = f(finer[:, 1::2].ravel())
        spent += 2 * (size - 1)
        for name, old in values.items():
            merged = np.empty(finer.shape)
            merged[:, ::2], merged[:, 1::2] = old, np.reshape(new[name], (2, size - 1))
            values[name] = merged
        size = 2 * size - 1
    fit = piecewise({name: e[:, :, None] for name, e in expansions.items()}, scale, tolerance)
    fitted = Interpolant({name: c[..., 0] for name, c in fit.coefficients.items()}, fit.error, fit.breaks)
    # Against f itself too, between the nodes.
    direct = measured_error(fitted, lambda _: {name: v.ravel() for name, v in wanted.items()}, test.ravel())
    error = {name: np.maximum(fit.error[name], direct[name]) for name in direct}
    return Interpolant(fitted.coefficients, error, fit.breaks)


def measured_error(fitted: Interpolant, f: AngleFunction, theta: np.ndarray) -> dict[str, float]:
    r"""Return each function's largest error at the angles `theta`, relative to its largest value there.

    Examples
    --------
    >>> fitted = interpolate(lambda theta: {"sine": np.sin(theta)})
    >>> measured_error(fitted, lambda theta: {"sine": np.sin(theta)}, np.linspace(0, np.pi, 50))["sine"] < 1e-13
    True
    """
    wanted = f(theta)
    s = np.sin(np.minimum(theta, np.pi - theta) / 2)
    half = (theta > np.pi / 2).astype(int)
    out = {}
    for name, coefficients in fitted.coefficients.items():
        got = evaluate(np.asarray(coefficients)[..., None], fitted.breaks, s, half)[:, 0]
        scale = max(np.abs(wanted[name]).max(), np.finfo(float).tiny)
        out[name] = float(np.abs(got - wanted[name]).max() / scale)
    return out


class Fit(NamedTuple):
    """Coefficients (terms, 2, pieces, values) of each name, their measured error, and the borders of the pieces."""

    coefficients: dict[str, np.ndarray]
    error: dict[str, float]
    breaks: Breaks


def nested_points(size: int) -> np.ndarray:
    """Chebyshev points of the second kind for s in [0, TOP], descending; those of 2 size - 1 contain those of size."""
    s = TOP * np.cos(np.pi * np.arange(size) / (2 * (size - 1))) ** 2
    s[-1] = 0.0
    return s


def angles_of(s: np.ndarray) -> np.ndarray:
    """Angles (2, len(s)) for both signs of the correlation."""
    angle = 2 * np.arcsin(s)
    return np.stack([angle, np.pi - angle])


def expand(values: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients along axis 1 of values (2, size, ...) at `nested_points(size)`."""
    size = values.shape[1]
    j = np.arange(size)
    transform = np.cos(np.pi * np.outer(j, j) / (size - 1)) * (2 / (size - 1))
    transform[:, [0, -1]] /= 2
    transform[[0, -1]] /= 2
    return np.moveaxis(np.tensordot(transform, values, (1, 1)), 0, 1)


def piecewise(expansions: Mapping[str, np.ndarray], scale: Mapping[str, float], tolerance: float) -> Fit:
    """Cut Chebyshev expansions (2, size, values) into the pieces whose polynomials are cheapest.

    The values of one name share their pieces and degree; `scale` is their size, to which errors relate.
    """
    best, cost = None, math.inf
    for breaks in LAYOUTS:
        pieces = len(breaks) - 1
        local = {name: _localize(expansion, breaks) for name, expansion in expansions.items()}
        terms = {name: _terms(c, tolerance / 3 * scale[name]) for name, c in local.items()}
        if max(terms.values()) > TERMS:
            continue
        # One step of Horner's rule is a product and the choice of one of 2 * pieces coefficients.
        price = sum(terms.values()) * (1 + 0.5 * (2 * pieces - 1))
        if price >= cost:
            continue
        coefficients = {name: _monomials(c[: terms[name]]) for name, c in local.items()}
        if any(np.abs(c).sum(axis=0).max() > GROWTH * scale[name] for name, c in coefficients.items()):
            continue
        error = {name: _off_nodes(c, expansions[name], breaks) / scale[name] for name, c in coefficients.items()}
        if max(error.values()) <= tolerance:
            best, cost = Fit(coefficients, error, breaks), price
    if best is None:
        raise InputError(
            f"no {len(LAYOUTS[-1]) - 1} pieces of degree {TERMS - 1} reach {tolerance:g} of {', '.join(expansions)}: "
            "raise the tolerance, or keep the variances smaller"
        )
    return best


def _localize(expansion: np.ndarray, breaks: Breaks) -> np.ndarray:
    """Chebyshev coefficients (terms, 2, pieces, values) on each piece."""
    size = TERMS + 12
    x = chebyshev.chebpts1(size)
    transform = np.linalg.inv(chebyshev.chebvander(x, size - 1))
    out = np.empty((size, 2, len(breaks) - 1, expansion.shape[2]))
    for p, (high, low) in enumerate(pairwise(breaks)):
        s = low + (high - low) * (1 + x) / 2
        moved = transform @ chebyshev.chebvander(2 * s / TOP - 1, expansion.shape[1] - 1)
        for h in (0, 1):
            out[:, h, p] = moved @ expansion[h]
    return out


def _terms(local: np.ndarray, allowed: float) -> int:
    """Number of terms whose tail stays within `allowed` on every piece."""
    tails = np.cumsum(np.abs(local[::-1]), axis=0)[::-1].max(axis=(1, 2, 3))
    return max(1, int(np.count_nonzero(tails > allowed)))


def _monomials(local: np.ndarray) -> np.ndarray:
    matrix = np.zeros((len(local), len(local)))
    for k in range(len(local)):
        matrix[: k + 1, k] = chebyshev.cheb2poly(np.eye(len(local))[k, : k + 1])
    # Smallest terms first.
    out = np.zeros_like(local)
    for k in range(len(local) - 1, -1, -1):
        out += matrix[:, k, None, None, None] * local[k]
    return out


def evaluate(coefficients: np.ndarray, breaks: Breaks, s: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Horner's rule in NumPy, (len(s), values)."""
    piece = np.sum(s[:, None] < np.asarray(breaks[1:-1]), axis=1)
    high, low = np.asarray(breaks)[piece], np.asarray(breaks)[piece + 1]
    t = s * (2 / (high - low)) - (high + low) / (high - low)
    value = coefficients[-1, half, piece]
    for k in range(len(coefficients) - 2, -1, -1):
        value = value * t[:, None] + coefficients[k, half, piece]
    return value


def _off_nodes(coefficients: np.ndarray, expansion: np.ndarray, breaks: Breaks) -> float:
    """Largest difference of pieces and expansion, at points between the nodes and at the ends."""
    s = TOP * np.sin(np.linspace(0, np.pi / 2, 151)) ** 2
    worst = 0.0
    for h in (0, 1):
        wanted = chebyshev.chebvander(2 * s / TOP - 1, expansion.shape[1] - 1) @ expansion[h]
        got = evaluate(coefficients, breaks, s, np.full(s.size, h))
        worst = max(worst, float(np.abs(got - wanted).max()))
    return worst
