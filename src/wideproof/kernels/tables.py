r"""Duals of activations for unequal variances as tensors of polynomials, for use inside compiled loops.

For standard deviations $r, r' \in [l, h]$ and a correlation $\rho$, with $t$ the local variable of
`wideproof.kernels.interpolants` and $\Phi(r) = (T_0(x), \dots, T_{N-1}(x))$ the Chebyshev polynomials of
$x \in [-1, 1]$, an affine function of $\log(r + 1/2)$ (which needs a quarter fewer of them than one of $r$),

$$ \mathbb{E}[\sigma(u)\sigma(v)] = \sum_k t^k\, \Phi(r)\, C_k\, \Phi(r')^\top , $$

and likewise for $\sigma'$. For all pairs of examples each $k$ is one small matrix product.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from numpy.polynomial import chebyshev

from wideproof.errors import InputError
from wideproof.kernels import interpolants
from wideproof.kernels.duals import covariance, covariance_grid, slope_covariance
from wideproof.kernels.interpolants import Breaks, Leaves
from wideproof.networks import Activation, get_activation
from wideproof.precision import double_to_numpy

OFFSET = 0.5
SIZES = ((14, 33), (24, 41), (36, 65), (56, 97))  # nodes in r, and in s for each sign of the correlation
NARROW = 1.5  # ratio of high + OFFSET to low + OFFSET from which the smallest size is not worth a try
TESTS = 48


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["coefficients", "error"],
    meta_fields=["activation", "low", "high", "breaks"],
)
@dataclass(frozen=True, eq=False)
class DualTable:
    r"""$\mathbb{E}[\sigma(u)\sigma(v)]$ and $\mathbb{E}[\sigma'(u)\sigma'(v)]$ for standard deviations in [low, high].

    A pytree like `Interpolant`: build it outside, then close over it or pass it into a compiled function.

    Attributes
    ----------
    activation, low, high
        The activation's name, and the range it was built for.
    coefficients
        For `"value"` and `"slope"` an array (terms, 2, pieces, N, N).
    error
        For both the error measured at random points, relative to the largest value in the range.
    breaks
        Borders of the pieces in $s$.

    Examples
    --------
    >>> table = DualTable.build("softplus", 1.0, 1.0)
    >>> phi = table.features(np.ones(1))
    >>> bool(abs(table.value(phi, phi, np.zeros((1, 1)))[0, 0] - covariance("softplus", 1, 1, np.pi / 2)) < 1e-12)
    True
    """

    activation: str
    low: float
    high: float
    coefficients: Leaves
    error: Leaves
    breaks: Breaks

    @staticmethod
    def build(activation: Activation | str, low: float, high: float, tolerance: float = 1e-12) -> DualTable:
        """Return a table for standard deviations in [low, high] and a little beyond, built once per range.

        Parameters
        ----------
        tolerance
            Largest error, relative to the largest value in the range.
        """
        name, low, high = get_activation(activation).name, float(low), float(high)
        if not (0 <= low <= high < math.inf):
            raise InputError(f"a table of duals needs standard deviations 0 <= low <= high, got [{low:g}, {high:g}]")
        if low < high:
            step = 2.0 ** (math.floor(math.log2(high)) - 5)
            low, high = step * math.floor(low / step), step * math.ceil(high / step)
        return _build(name, low, high, float(tolerance))

    @property
    def columns(self) -> int:
        """The number N of Chebyshev polynomials in r."""
        return self.coefficients["value"].shape[-1]

    @property
    def pieces(self) -> int:
        """Number of pieces for each sign of the correlation."""
        return len(self.breaks) - 1

    @property
    def degrees(self) -> dict[str, int]:
        """Degree in t of value and slope."""
        return {name: len(coefficients) - 1 for name, coefficients in self.coefficients.items()}

    @double_to_numpy
    def features(self, r: ArrayLike) -> Float[Array, "... N"]:
        r"""Return $\Phi(r)$ along a new last axis; `r` outside the range is clipped to it."""
        r = jnp.asarray(r)
        scale, shift = _affine(self.low, self.high)
        x = jnp.clip(jnp.log(r + OFFSET) * scale + shift, -1, 1)
        basis = [jnp.ones_like(x), x]
        while len(basis) < self.columns:
            basis.append(2 * x * basis[-1] - basis[-2])
        return jnp.stack(basis[: self.columns], axis=-1)

    @double_to_numpy
    def value(self, phi: ArrayLike, phi_prime: ArrayLike, rho: ArrayLike) -> Float[Array, "... n m"]:
        r"""Return $\mathbb{E}[\sigma(u)\sigma(v)]$ for features (..., n, N) and (..., m, N) and `rho` (..., n, m)."""
        return _horner(self, "value", phi, phi_prime, rho)

    @double_to_numpy
    def slope(self, phi: ArrayLike, phi_prime: ArrayLike, rho: ArrayLike) -> Float[Array, "... n m"]:
        r"""Return $\mathbb{E}[\sigma'(u)\sigma'(v)]$, with the arguments of `value`."""
        return _horner(self, "slope", phi, phi_prime, rho)


@functools.partial(jax.jit, static_argnums=1)
def _horner(table: DualTable, name: str, phi: ArrayLike, phi_prime: ArrayLike, rho: ArrayLike) -> Array:
    rho = jnp.asarray(rho)
    left, right = jnp.asarray(phi, rho.dtype), jnp.swapaxes(jnp.asarray(phi_prime, rho.dtype), -1, -2)
    coefficients = jnp.asarray(table.coefficients[name], rho.dtype)
    t, choose = interpolants.locate(table.breaks, rho)

    def step(out: Array, matrices: Array) -> tuple[Array, None]:
        with jax.default_matmul_precision("highest"):  # a GPU's short products would spoil the table
            terms = [[jnp.tensordot(left, matrix, 1) @ right for matrix in half] for half in matrices]
        return out * t + choose(terms), None

    return lax.scan(step, jnp.zeros_like(rho), coefficients[::-1])[0]


@functools.lru_cache(maxsize=64)
def _build(name: str, low: float, high: float, tolerance: float) -> DualTable:
    error = {"value": math.inf}
    for columns, size in SIZES[int((high + OFFSET) > NARROW * (low + OFFSET)) :]:
        nodes = _nodes(low, high, columns)
        angles = interpolants.angles_of(interpolants.nested_points(size))
        transform = np.linalg.inv(chebyshev.chebvander(chebyshev.chebpts1(len(nodes)), len(nodes) - 1))
        upper = np.triu_indices(len(nodes))
        samples, scale, kept, tail = {}, {}, 1, 0.0
        for factor in ("value", "slope"):
            grid = covariance_grid(name, nodes, angles.ravel(), factor)
            scale[factor] = max(float(np.abs(grid).max()), np.finfo(float).tiny)
            kept = max(kept, _columns(grid, transform, tolerance / 4 * scale[factor]))
            samples[factor] = interpolants.expand(grid[:, *upper].reshape(2, size, -1))
            tail = max(tail, np.abs(samples[factor][:, -3:]).max() / scale[factor])
        if tail > tolerance / 8 or 1 < kept > len(nodes) - 2:
            continue
        fit = interpolants.piecewise(samples, scale, tolerance / 2)
        coefficients = {f: _in_columns(c, transform[:kept], upper) for f, c in fit.coefficients.items()}
        error = _measure(DualTable(name, low, high, coefficients, {}, fit.breaks), scale)
        if max(error.values()) <= tolerance:
            return DualTable(name, low, high, coefficients, error, fit.breaks)
    raise InputError(
        f"a table of {name} for standard deviations in [{low:g}, {high:g}] is wanted to {tolerance:g}, but "
        f"{SIZES[-1][0]} columns reach {max(error.values()):.1e}: narrow the range, or raise the tolerance"
    )


def _columns(grid: np.ndarray, transform: np.ndarray, allowed: float) -> int:
    """Number of Chebyshev columns that leave out at most `allowed` at the nodes."""
    size = len(transform)
    basis = chebyshev.chebvander(chebyshev.chebpts1(size), size - 1)
    for kept in range(1, size):
        onto = basis[:, :kept] @ transform[:kept]
        if np.abs(grid - onto @ grid @ onto.T).max() <= allowed:
            return kept
    return size


def _in_columns(fitted: np.ndarray, transform: np.ndarray, upper: tuple[np.ndarray, ...]) -> np.ndarray:
    """Turn coefficients (..., pairs of nodes) into symmetric matrices over Chebyshev columns."""
    size = transform.shape[1]
    matrices = np.empty((*fitted.shape[:-1], size, size))
    matrices[..., upper[0], upper[1]] = fitted
    matrices[..., upper[1], upper[0]] = fitted
    return transform @ matrices @ transform.T


def _measure(table: DualTable, scale: dict[str, float]) -> dict[str, float]:
    """Largest error at random points and at the ends, against the quadrature of `duals`."""
    rng = np.random.default_rng(0)
    r, r_prime = rng.uniform(table.low, table.high, (2, TESTS))
    theta = rng.uniform(0, np.pi, TESTS)
    theta[:4], r[:2], r_prime[1:3] = (0, np.pi, 1e-4, np.pi - 1e-4), table.low, table.high
    exact = {"value": covariance, "slope": slope_covariance}
    left, right = (table.features(x) for x in (r, r_prime))
    s, half = np.sin(np.minimum(theta, np.pi - theta) / 2), (theta > np.pi / 2).astype(int)
    out = {}
    for name, coefficients in table.coefficients.items():
        flat = coefficients.reshape(*coefficients.shape[:3], -1)
        matrices = interpolants.evaluate(flat, table.breaks, s, half).reshape(TESTS, table.columns, table.columns)
        got = np.einsum("ip,ipq,iq->i", left, matrices, right)
        wanted = exact[name](table.activation, r**2, r_prime**2, theta)
        out[name] = float(np.abs(got - wanted).max() / scale[name])
    return out


def _affine(low: float, high: float) -> tuple[float, float]:
    """Scale and shift that take log(r + OFFSET) to [-1, 1]."""
    first, last = math.log(low + OFFSET), math.log(high + OFFSET)
    width = (last - first) or 2.0
    return 2 / width, -(first + last) / width


def _nodes(low: float, high: float, columns: int) -> np.ndarray:
    if low == high:
        return np.array([low])
    scale, shift = _affine(low, high)
    return np.clip(np.exp((chebyshev.chebpts1(columns) - shift) / scale) - OFFSET, low, high)
