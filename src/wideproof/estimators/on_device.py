r"""Ridge regression where the kernel matrix is: one array on the device, factored in place, tile by tile.

The matrix of n examples is the only thing of size $n^2$: $8 n^2$ bytes in float64, 29 GB for 60,000 examples. It is
cut into tiles of $b \times b$; for row $k$ of tiles

$$ U_{kj} = U_{kk}^{-\top} \Big(A_{kj} - \sum_{i<k} U_{ik}^\top U_{ij}\Big), \qquad
   U_{kk}^\top U_{kk} = A_{kk} - \sum_{i<k} U_{ik}^\top U_{ik}, $$

which is one program for all n with the same number of tiles. Examples that fill up the last tile have an identity of
their own. Nothing passes through the host but the inputs, the coefficients and the predictions.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from wideproof.errors import InputError
from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.precision import double

TILE = 4096
LEAST = 2048  # examples below which the host is as quick
DEVICES = ("auto", "cpu", "gpu")
SPARE = 0.9  # of the device's memory: the rest is for tiles and for programs
Matrix = Float[Array, "n n"]


def device_memory() -> int:
    """Return the bytes of the first device, or 0 where that is the host."""
    if jax.default_backend() == "cpu":
        return 0
    return int((jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0))


def largest_matrix(memory: int) -> int:
    """Return how many examples have a matrix that fits into `memory` bytes, with the tiles beside it.

    >>> largest_matrix(139 << 30)
    129024
    """
    room = SPARE * memory - 8 * 8 * TILE * TILE
    return max(0, 64 * (math.isqrt(int(max(room, 0) / 8)) // 64))


def is_there(device: str) -> bool:
    """Return whether large work goes to a GPU.

    >>> is_there("cpu")
    False
    """
    return device != "cpu" and device_memory() > 0


def is_wanted(device: str, n: int) -> bool:
    """Return whether the matrix of n examples belongs on the device; `"gpu"` insists on one that is there and fits."""
    if device not in DEVICES:
        raise InputError(f"device must be one of {', '.join(DEVICES)}; got {device!r}")
    memory = device_memory()
    if device == "gpu" and not memory:
        raise InputError("device='gpu' needs a JAX that sees one, and this one sees none: use device='auto'")
    fits = n <= largest_matrix(memory)
    if device == "gpu" and not fits:
        raise InputError(
            f"the matrix of {n:,} examples takes {8 * n * n / 1e9:.0f} GB, and this device has room for that of "
            f"{largest_matrix(memory):,}: use fewer examples, or solver='cg'"
        )
    return device != "cpu" and memory > 0 and fits and (device == "gpu" or n >= LEAST)


class Layout(NamedTuple):
    """How many tiles, and of which size, hold a matrix."""

    tiles: int
    size: int

    @property
    def rows(self) -> int:
        """Rows with those that fill up the last tile."""
        return self.tiles * self.size


def layout(n: int, tile: int = TILE) -> Layout:
    """Cut n rows into equal tiles of at most `tile`, a multiple of 64.

    >>> layout(60000)
    Layout(tiles=15, size=4032)
    """
    tiles = -(-n // tile)
    return Layout(tiles, 64 * -(-n // (64 * tiles)))


def _block(a: Matrix, i: Array | int, j: Array | int, b: int) -> Array:
    return lax.dynamic_slice(a, (i * b, j * b), (b, b))


def _put(a: Matrix, tile: Array, i: Array | int, j: Array | int, b: int) -> Matrix:
    return lax.dynamic_update_slice(a, tile, (i * b, j * b))


@partial(jax.jit, static_argnums=(3,), donate_argnums=(0,))
def _dress(a: Matrix, root: Array, ridge: Array, b: int) -> Matrix:
    """Multiply rows and columns by the roots of the weights and add the ridge; fill up with an identity."""
    n = len(root)
    rows = a.shape[0]
    scale = jnp.zeros(rows, a.dtype).at[:n].set(root)
    add = jnp.where(jnp.arange(rows) < n, ridge, 1.0)

    def strip(i: Array, a: Matrix) -> Matrix:
        part = lax.dynamic_slice(a, (i * b, 0), (b, rows))
        own = lax.dynamic_slice(scale, (i * b,), (b,))
        part = part * own[:, None] * scale[None, :]
        diagonal = lax.dynamic_slice(add, (i * b,), (b,))
        columns = i * b + jnp.arange(b)
        part = part.at[jnp.arange(b), columns].add(diagonal)
        return lax.dynamic_update_slice(a, part, (i * b, 0))

    return lax.fori_loop(0, rows // b, strip, a)


def _triangular(corner: Array, b: Array, transposed: bool) -> Array:
    """Return U⁻ᵀ b, or U⁻¹ b where not `transposed`, by solving for the transpose."""
    return lax.linalg.triangular_solve(corner.T, b.T, lower=True, transpose_a=transposed).T


@partial(jax.jit, static_argnums=(1,), donate_argnums=(0,))
def _factor(a: Matrix, b: int) -> Matrix:
    """Replace the upper tiles by U with UᵀU = A; NaN where the matrix is not positive definite.

    Library routines want columns side by side in memory. Tiles go there as transposes, which cost nothing: otherwise
    the compiler turns the whole matrix round, and needs a second one.
    """
    tiles = a.shape[0] // b

    def row(k: Array, a: Matrix) -> Matrix:
        def reduced(j: Array, a: Matrix) -> Matrix:
            def minus(i: Array, sum_: Array) -> Array:
                return sum_ - lax.dot_general(_block(a, i, k, b), _block(a, i, j, b), (((0,), (0,)), ((), ())))

            return _put(a, lax.fori_loop(0, k, minus, _block(a, k, j, b)), k, j, b)

        a = lax.fori_loop(k, tiles, reduced, a)
        corner = jnp.triu(lax.linalg.cholesky(_block(a, k, k, b).T, symmetrize_input=False).T)
        a = _put(a, corner, k, k, b)

        def divided(j: Array, a: Matrix) -> Matrix:
            return _put(a, _triangular(corner, _block(a, k, j, b), transposed=True), k, j, b)

        return lax.fori_loop(k + 1, tiles, divided, a)

    return lax.fori_loop(0, tiles, row, a)


@partial(jax.jit, static_argnums=(2,))
def _solve(factor: Matrix, y: Float[Array, "n c"], b: int) -> Float[Array, "n c"]:
    """Return the solution of UᵀU x = y."""
    tiles = factor.shape[0] // b

    def part(v: Array, i: Array) -> Array:
        return lax.dynamic_slice(v, (i * b, 0), (b, v.shape[1]))

    def forward(i: Array, v: Array) -> Array:
        rest = lax.fori_loop(0, i, lambda j, s: s - _block(factor, j, i, b).T @ part(v, j), part(v, i))
        return lax.dynamic_update_slice(v, _triangular(_block(factor, i, i, b), rest, transposed=True), (i * b, 0))

    def backward(t: Array, v: Array) -> Array:
        i = tiles - 1 - t
        rest = lax.fori_loop(i + 1, tiles, lambda j, s: s - _block(factor, i, j, b) @ part(v, j), part(v, i))
        return lax.dynamic_update_slice(v, _triangular(_block(factor, i, i, b), rest, transposed=False), (i * b, 0))

    return lax.fori_loop(0, tiles, backward, lax.fori_loop(0, tiles, forward, y))


class Factored(NamedTuple):
    """A factor on the device, and how it is cut."""

    factor: Matrix
    layout: Layout
    n: int

    @double
    def solve(self, y: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Return the solution for the columns of `y`."""
        return np.asarray(self.solve_there(jnp.asarray(y)))

    def solve_there(self, y: Array) -> Array:
        """Return the solution where the factor is."""
        filled = jnp.zeros((self.layout.rows, y.shape[1]), y.dtype).at[: self.n].set(y)
        return _solve(self.factor, filled, self.layout.size)[: self.n]


def filled_up(x: Array, rows: int) -> Array:
    """Return the inputs with copies of the first one behind them."""
    return jnp.concatenate([x, jnp.broadcast_to(x[:1], (rows - len(x), x.shape[1]))])


@double
def factor(
    kernel: LimitKernel, x: Float[np.ndarray, "n d"], root: Float[np.ndarray, "n"], ridge: float, tile: int = TILE
) -> Factored:
    """Factor $W^{1/2} K W^{1/2} + r I$ where JAX's default device is.

    >>> x = np.random.default_rng(0).standard_normal((70, 3))
    >>> found = factor(LimitKernel(depth=1), x, np.ones(70), 0.1, tile=64)
    >>> matrix = LimitKernel(depth=1)(x) + 0.1 * np.eye(70)
    >>> bool(np.allclose(matrix @ found.solve(np.eye(70)), np.eye(70)))
    True
    """
    cut = layout(len(x), tile)
    matrix = kernel.there(filled_up(jnp.asarray(x), cut.rows))
    matrix = _dress(matrix, jnp.asarray(root), jnp.asarray(float(ridge)), cut.size)
    found = _factor(matrix, cut.size)
    if not bool(jnp.isfinite(found[-1, -1])):
        raise InputError(
            f"the kernel matrix plus ridge {ridge:.3g} is singular to working precision (inputs that nearly agree): "
            "use a larger ridge, or ridge='loo'"
        )
    return Factored(found, cut, len(x))


@jax.jit
def _left_out(matrix: Matrix, y: Array, ridge: Array) -> tuple[Array, Array]:
    """Return C y and the diagonal of C, the inverse of the matrix plus the ridge, by one factor and its inverse."""
    one = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    low = lax.linalg.cholesky(matrix + ridge * one, symmetrize_input=False)
    inverse = lax.linalg.triangular_solve(low, one, left_side=True, lower=True)
    return inverse.T @ (inverse @ y), jnp.square(inverse).sum(axis=0)


@double
def left_out(
    matrix: Array,
    y: Float[np.ndarray, "n c"],
    weight: Float[np.ndarray, "n"],
    others: Float[np.ndarray, "n c"],
    ridge: float,
) -> Float[np.ndarray, "n c"]:
    r"""Return the error of each example when it is left out, times $\sqrt{w}$: $[C W^{1/2} (y - \mu)]_i / C_{ii}$.

    `matrix` is $W^{1/2} K W^{1/2}$ on the device, `others` the mean $\mu_{-i}$ that is left out with the example. NaN
    where the matrix is singular with this ridge.
    """
    root = np.sqrt(weight)[:, None]
    both = np.concatenate([root * y, root], axis=1)
    found, diagonal = _left_out(matrix, jnp.asarray(both), jnp.asarray(float(ridge)))
    solved = np.asarray(found)
    return (solved[:, :-1] - others * solved[:, -1:]) / np.asarray(diagonal)[:, None]


@double
def dressed(kernel: LimitKernel, x: Float[np.ndarray, "n d"], weight: Float[np.ndarray, "n"]) -> tuple[Array, float]:
    """Return $W^{1/2} K W^{1/2}$ where JAX computes, and the mean of the diagonal of $K$."""
    matrix = kernel.there(x)
    level = float(jnp.trace(matrix)) / len(x)
    if (weight != 1).any():
        root = jnp.sqrt(jnp.asarray(weight))
        matrix = matrix * root[None, :] * root[:, None]
    return matrix, level
