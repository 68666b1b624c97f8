"""The kernel of an infinitely wide network as a function of two arrays of vectors.

Small matrices are computed in NumPy where the activation has a closed form. Otherwise every number of rows and of
columns is a compilation of its own, so rows are filled up to one of few sizes with copies of the first one, and columns
with zeros: cross-validation over many slightly different sizes compiles a few times. Large matrices are made of tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from wideproof.errors import InputError
from wideproof.kernels import (
    Angular,
    Pairs,
    Streamed,
    angular,
    gram_on_host,
    is_on_host,
    limit_gram,
    limit_pairs,
    nngp,
    product_between,
    stream,
)
from wideproof.networks import Network, build
from wideproof.precision import double

NETWORKS = ("fully-connected", "residual", "deep-relu", "residual-relu")
ON_IMAGES = "conv-residual"
KERNELS = ("ntk", "nngp")
TILE = 2048
SMALLEST = 32
FEW = 2000  # examples below which nothing is compiled where NumPy can do it
# A block of rows against all examples, while a product with the matrix is formed.
BLOCK_BYTES = 256 << 20
Tile = tuple[slice, Float[np.ndarray, "_ d"]]


@dataclass(frozen=True)
class LimitKernel:
    r"""The tangent kernel (`"ntk"`) or the covariance of the outputs (`"nngp"`) of an infinitely wide network.

    Attributes
    ----------
    network
        The network: `"fully-connected"`, `"residual"`, `"deep-relu"`, `"residual-relu"` or `"conv-residual"`. The
        kernel of `"deep-relu"` and `"residual-relu"` is that of width 2, where the factor $m/2$ of `limit_gram` is 1.
    depth
        Number of hidden layers.
    activation
        Name of the activation; networks of ReLU units ignore it.
    kernel
        `"ntk"`, the tangent kernel, or `"nngp"`, the covariance of the outputs.
    fixed_layers
        Number of first layers that are drawn and not trained; their part is left out of the tangent kernel.
    jobs
        Number of tiles (2048 x 2048) that are computed in parallel; the matrix is the same, bit for bit.
    image_shape
        Channels and pixels of a row, for `"conv-residual"`, whose filters move along the pixels.

    Examples
    --------
    >>> LimitKernel(depth=1)(np.eye(2)).round(6)
    array([[2.     , 0.31831],
           [0.31831, 2.     ]])
    """

    network: str = "fully-connected"
    depth: int = 2
    activation: str = "relu"
    kernel: str = "ntk"
    fixed_layers: int = 0
    jobs: int = field(default=1, compare=False)
    image_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.network not in (*NETWORKS, ON_IMAGES):
            raise InputError(f"network must be one of {', '.join((*NETWORKS, ON_IMAGES))}; got {self.network!r}")
        shape = self.image_shape
        if (self.network == ON_IMAGES) != (shape is not None):
            raise InputError(
                f"image_shape, channels and pixels of a row, belongs to {ON_IMAGES}; got network={self.network!r} with "
                f"image_shape={shape!r}"
            )
        if shape is not None and not (len(shape) == 2 and all(int(size) == size > 0 for size in shape)):
            raise InputError(f"image_shape must be two positive whole numbers, channels and pixels; got {shape!r}")
        if self.kernel not in KERNELS:
            raise InputError(f"kernel must be 'ntk' or 'nngp', got {self.kernel!r}")
        if self.kernel == "nngp" and self.fixed_layers:
            raise InputError(
                f"in the covariance nothing is trained: fixed_layers must be 0 there, got {self.fixed_layers}"
            )
        _ = self.names  # an unknown activation, a depth of 0 or too many fixed layers are found here

    def built(self, input_dim: int) -> Network:
        """Return the network for the given length of the inputs.

        Parameters
        ----------
        input_dim
            Length of an input vector; images are vectors too.

        Returns
        -------
        Network
            The network.
        """
        options: dict[str, object] = {"width": 2, "depth": self.depth}
        if self.image_shape is not None:
            if input_dim != math.prod(self.image_shape):
                raise InputError(
                    f"rows of {input_dim} entries are not images of {self.image_shape[0]} x {self.image_shape[1]}: set "
                    "image_shape to channels and pixels, and bias=0, which adds no entry"
                )
            return build(self.network, self.image_shape, (), activation=self.activation, **options)
        if self.network in ("fully-connected", "residual"):
            options["activation"] = self.activation
        elif self.activation != "relu":
            raise InputError(f"{self.network} has ReLU units: use activation='relu', or another network")
        return build(self.network, (input_dim,), (), **options)

    @property
    def names(self) -> tuple[str, ...]:
        """The weights that are trained."""
        network = self.built(1 if self.image_shape is None else math.prod(self.image_shape))
        hidden = [name for name in network.laws() if network.group(name) == "hidden"]
        whole = isinstance(self.fixed_layers, int | np.integer) and self.fixed_layers >= 0
        fixed = hidden[: self.fixed_layers] if whole else []
        left = tuple(name for name in network.trained_names if name not in fixed)
        if not whole or self.fixed_layers > len(hidden) or not left:
            raise InputError(
                f"fixed_layers of a {self.network} of depth {self.depth} is a whole number from 0 that leaves "
                f"something to train, got {self.fixed_layers!r}"
            )
        return left

    @property
    def homogeneous(self) -> bool:
        """Whether the kernel grows with the norms of both inputs, as that of ReLU networks does."""
        shape = self.image_shape
        return bool(self.built(1 if shape is None else math.prod(shape)).limit().homogeneous)  # pyright: ignore[reportAttributeAccessIssue]

    def __call__(
        self, x: Float[np.ndarray, "n d"], other: Float[np.ndarray, "m d"] | None = None
    ) -> Float[np.ndarray, "n _"]:
        """Return the matrix of `x` with itself or with `other`, writable and in Fortran order."""
        if other is None:
            result = self.lower(x)
            for rows, _ in _tiles(x):
                result[: rows.start, rows] = result[rows, : rows.start].T
            return result
        if self._is_small(len(x), len(other)):
            return np.asfortranarray(self._on_host(x, other))
        result = np.empty((len(x), len(other)), order="F")
        self._fill(result, [(left, right) for left in _tiles(x) for right in _tiles(other)])
        return result

    @double
    def there(self, x: Any, other: Any = None) -> Any:
        """Return the kernel matrix as a JAX array on the device.

        Parameters
        ----------
        x
            Inputs, one example in each row.
        other
            Other inputs; by default `x`.

        Returns
        -------
        Any
            The matrix.
        """
        network = self.built(x.shape[1])
        sides = [self._shaped(side) for side in (x, other) if side is not None]
        if self.kernel == "nngp":
            return jnp.asarray(nngp(network, *sides, on_device=True).matrix)
        return jnp.asarray(limit_gram(network, *sides, names=self.names, on_device=True).matrix)

    @double
    def pairs(self, *sides: Any, precision: str = "float64") -> Pairs:
        """Return a kernel that computes blocks of the matrix, with the examples on the device.

        Parameters
        ----------
        *sides
            Sets of inputs.
        precision
            `"float64"` or `"float32"`.

        Returns
        -------
        Pairs
            The kernel, its state and the arrays of each side.
        """
        covariance = self.kernel == "nngp"
        return limit_pairs(
            self.built(sides[0].shape[1]), *map(self._shaped, sides), names=None if covariance else self.names,
            covariance=covariance, precision=precision, on_device=True,
        )  # fmt: skip

    @double
    def streamed(self, x: Float[np.ndarray, "n d"], precision: str = "float64") -> Streamed:
        """Return the kernel matrix, known by its products with vectors and never stored whole.

        Parameters
        ----------
        x
            Inputs, one example in each row.
        precision
            `"float64"` or `"float32"`.

        Returns
        -------
        Streamed
            The matrix.
        """
        kernel, state, (side,), _ = self.pairs(x, precision=precision)
        return stream(kernel, state, side)

    def angular(self) -> Angular:
        """Return the kernel of inputs of norm 1 as a function of the angle between them.

        Returns
        -------
        Angular
            The function, a Chebyshev series.

        Examples
        --------
        >>> LimitKernel(depth=1).angular()(np.array([0.0, np.pi / 2])).round(6).tolist()
        [2.0, 0.31831]
        """
        covariance = self.kernel == "nngp"
        return angular(self.built(2), names=None if covariance else self.names, covariance=covariance)

    def lower(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
        """Return the lower half of the kernel matrix, at half the cost; entries above its tiles are not valid.

        Parameters
        ----------
        x
            Inputs, one example in each row.

        Returns
        -------
        array
            The matrix.
        """
        if self._is_small(len(x), len(x)):
            return np.asfortranarray(self._on_host(x, None))
        result = np.zeros((len(x), len(x)), order="F")
        tiles = list(_tiles(x))
        self._fill(result, [(left, right) for k, left in enumerate(tiles) for right in tiles[: k + 1]])
        return result

    def product(
        self, x: Float[np.ndarray, "n d"], other: Float[np.ndarray, "m d"], vectors: Float[np.ndarray, "m c"]
    ) -> Float[np.ndarray, "n c"]:
        """Return the kernel matrix between `x` and `other` times `vectors`, without storing the matrix.

        Parameters
        ----------
        x
            Inputs of the rows.
        other
            Inputs of the columns.
        vectors
            One row for each example of `other`.

        Returns
        -------
        array
            One row for each example of `x`.
        """
        step = max(SMALLEST, min(len(x), BLOCK_BYTES // (8 * len(other))))
        if self._is_small(1, len(other)):
            step = min(step, FEW * FEW // len(other))
        elif jax.default_backend() != "cpu":
            kernel, state, (left, right), _ = self.pairs(x, other)
            return product_between(kernel, state, left, right, vectors)
        step = -(-len(x) // max(1, -(-len(x) // step)))  # equal parts: one program for all
        blocks = [self(x[start : start + step], other) @ vectors for start in range(0, len(x), max(1, step))]
        return np.concatenate(blocks) if blocks else np.zeros((0, *vectors.shape[1:]))

    def diagonal(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """Return the kernel of every example with itself, which depends on its norm alone.

        Parameters
        ----------
        x
            Inputs, one example in each row.

        Returns
        -------
        array
            One number for each example.
        """
        if self.image_shape is not None:
            return np.concatenate([np.zeros(0), *(np.diag(self._block(part, None)) for _, part in _tiles(x))])
        squares = np.einsum("ij,ij->i", x, x)
        if self.homogeneous:
            return squares * self._block(np.ones((1, 1)), None)[0, 0]
        if len(x) and np.ptp(squares) <= 1e-13 * squares.max():
            return np.full(len(x), self._block(x[:1], None)[0, 0])
        return np.concatenate([np.zeros(0), *(np.diag(self._block(part, None)) for _, part in _tiles(x))])

    def _is_small(self, rows: int, columns: int) -> bool:
        """Return whether a matrix of this size is computed in NumPy."""
        small = max(1, rows) * max(1, columns) <= FEW * FEW and min(rows, columns) < FEW
        return small and self.image_shape is None and is_on_host(self.built(1))

    def _on_host(self, x: Float[np.ndarray, "n d"], other: Float[np.ndarray, "m d"] | None) -> np.ndarray:
        network, covariance = self.built(x.shape[1]), self.kernel == "nngp"
        return gram_on_host(network, x, other, names=None if covariance else self.names, covariance=covariance)

    def _shaped(self, x: Any) -> Any:
        """Return rows as the images that they are, if they are."""
        return x if self.image_shape is None else x.reshape(len(x), *self.image_shape)

    def _fill(self, result: Float[np.ndarray, "n m"], pairs: Sequence[tuple[Tile, Tile]]) -> None:
        """Compute the tiles of a matrix, `jobs` side by side; the first one of all alone, since it compiles."""

        def fill(pair: tuple[Tile, Tile]) -> None:
            (rows, left), (columns, right) = pair
            result[rows, columns] = self._block(left, None if right is left else right)

        if self.jobs == 1 or len(pairs) < 3:
            for pair in pairs:
                fill(pair)
            return
        fill(pairs[0])
        with ThreadPoolExecutor(self.jobs) as pool:
            for _ in pool.map(fill, pairs[1:]):  # raises what went wrong
                pass

    def _block(self, x: Float[np.ndarray, "n d"], other: Float[np.ndarray, "m d"] | None) -> Float[np.ndarray, "n _"]:
        if self._is_small(len(x), len(x if other is None else other)):
            return self._on_host(x, other)
        images = self.image_shape is not None
        filled = [_filled(side, images) for side in (x, other) if side is not None]
        network, sides = self.built(filled[0].shape[1]), [self._shaped(side) for side in filled]
        found = nngp(network, *sides) if self.kernel == "nngp" else limit_gram(network, *sides, names=self.names)
        return np.asarray(found.matrix)[: len(x), : len(x if other is None else other)]


def _tiles(x: Float[np.ndarray, "n d"]) -> Iterator[Tile]:
    for start in range(0, len(x), TILE):
        rows = slice(start, min(start + TILE, len(x)))
        yield rows, x[rows]


def _filled(x: Float[np.ndarray, "n d"], images: bool) -> Float[np.ndarray, "_ _"]:
    rows, columns = _size(len(x), SMALLEST), x.shape[1] if images else _size(x.shape[1], 8)
    wide = np.pad(x, ((0, 0), (0, columns - x.shape[1])))
    return np.concatenate([wide, np.broadcast_to(wide[:1], (rows - len(x), columns))])


def _size(n: int, least: int) -> int:
    """Return the next of few sizes, at most a quarter more.

    >>> [_size(n, 32) for n in (3, 32, 33, 100, 129)]
    [32, 32, 40, 112, 160]
    """
    if n <= least:
        return least
    unit = 2 ** max(0, math.floor(math.log2(n - 1)) - 2)
    return -(-n // unit) * unit
