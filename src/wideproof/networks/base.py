r"""What all networks share: parameters as a value, the law of the start, one way in for weights.

A network is sizes and scalings, frozen and hashable. It states the laws of its start and its graph (`graph`);
everything else is derived. Its parameters are a plain dictionary `{"W1": ..., "W2": ..., "a": ...}` with the papers'
letters as names. A weight meets data only through `linear(name, u)`, which returns $W u$; so the inputs $u$ of every
use of a weight and the cotangents $b$ of what came out can be recorded for any network, and

$$ \nabla_W f = \sum_{\text{uses}} b\, u^\top, \qquad
   \langle \nabla_W f(x_i), \nabla_W f(x_j) \rangle
   = \sum_{\text{uses}, \text{uses}'} \langle u_i, u_j' \rangle \langle b_i, b_j' \rangle . $$
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from wideproof.cards import Told
from wideproof.errors import InputError
from wideproof.networks.activations import Activation, get_activation
from wideproof.networks.graph import Graph, Linear, Recurrent
from wideproof.networks.limit import Limit, limit_of
from wideproof.precision import as_dtype, double_to_numpy

Outputs = TypeVar("Outputs", jax.Array, np.ndarray)
Params = dict[str, Array]

LONGEST_SHARED = 1 << 16
LAST = ("last_width", "start", "alpha")  # options that a network's name ends with, where they are not the paper's


@dataclass(frozen=True)
class Gaussian:
    """Independent entries N(0, `variance`).

    Attributes
    ----------
    shape
        The shape of the weight.
    variance
        The variance of each entry.
    """

    shape: tuple[int, ...]
    variance: float

    def sample(self, key: Array, dtype: np.dtype) -> Any:
        """Draw in float64 and round, so that float32 starts next to the float64 start of the same seed.

        Parameters
        ----------
        key
            A JAX random key.
        dtype
            The dtype of the result.

        Returns
        -------
        Any
            The weight.
        """
        draw = _normal(key, math.prod(self.shape)).reshape(self.shape)
        return (np.sqrt(self.variance) * draw).astype(dtype)


@dataclass(frozen=True)
class Paired(Gaussian):
    """Independent rows N(0, `variance`), each of them twice: row j and row j + m/2 are equal."""

    def sample(self, key: Array, dtype: np.dtype) -> Any:
        """Draw the first half, and repeat it."""
        half = Gaussian((self.shape[0] // 2, *self.shape[1:]), self.variance).sample(key, dtype)
        return np.concatenate([half, half])


@dataclass(frozen=True)
class Opposed(Gaussian):
    """Random signs, times the root of `variance`; the second half along the last axis is minus the first."""

    def sample(self, key: Array, dtype: np.dtype) -> Any:
        """Draw the first half, and turn it round."""
        half = Gaussian((*self.shape[:-1], self.shape[-1] // 2), self.variance).sample(key, dtype)
        signs = np.where(half < 0, -1, 1).astype(dtype) * np.sqrt(self.variance).astype(dtype)
        return np.concatenate([signs, -signs], axis=-1)


@dataclass(frozen=True)
class Balanced:
    """The fixed output signs: the first half +1, the second half -1."""

    shape: tuple[int]

    def sample(self, key: Array, dtype: np.dtype) -> Any:
        """Return the signs; nothing is random."""
        return np.repeat(np.array([1, -1], dtype), self.shape[0] // 2)


@dataclass(frozen=True)
class Zeros:
    """Zeros: what biases start from."""

    shape: tuple[int, ...]

    def sample(self, key: Array, dtype: np.dtype) -> Any:
        """Return zeros."""
        return np.zeros(self.shape, dtype)


@dataclass(frozen=True)
class Constant:
    """Every entry the same number."""

    shape: tuple[int, ...]
    value: float

    def sample(self, key: Array, dtype: np.dtype) -> Any:
        """Return the numbers; nothing is random."""
        return np.full(self.shape, self.value, dtype)


@dataclass(frozen=True)
class Diagonal:
    """A multiple of the identity matrix."""

    shape: tuple[int, int]
    value: float

    def sample(self, key: Array, dtype: np.dtype) -> Any:
        """Return the matrix; nothing is random."""
        return (self.value * np.eye(*self.shape)).astype(dtype)


Law = Gaussian | Balanced | Zeros | Constant | Diagonal


class Forward(NamedTuple):
    """What one pass computes: the outputs and every layer on the way."""

    outputs: Float[Array, "n *out"]
    features: list[Array]


@dataclass(frozen=True)
class Network(Told, ABC):
    """Sizes and scalings of a network; subclasses are final."""

    name: ClassVar[str]
    paper: ClassVar[str]
    equation: ClassVar[str]
    data_kind: ClassVar[Literal["vectors", "images", "sequences"]] = "vectors"
    units: ClassVar[Literal["rows", "columns"]] = "rows"
    groups: ClassVar[tuple[str, ...]] = ("hidden", "output")

    def __post_init__(self) -> None:
        if "activation" in (f.name for f in fields(self)):
            named = get_activation(self.activation)  # pyright: ignore[reportAttributeAccessIssue]
            object.__setattr__(self, "activation", named)

    @abstractmethod
    def describe(self) -> Graph:
        """Return the network's layers; `graph` keeps them."""

    @cached_property
    def graph(self) -> Graph:
        """The layers of the network: its one description, from which the rest follows."""
        return self.describe()

    @abstractmethod
    def laws(self) -> dict[str, Law]:
        """Return the law of each parameter at the start, in the order of the forward pass."""

    @abstractmethod
    def group(self, name: str) -> str:
        """Return the part of the network that parameter `name` belongs to.

        Parameters
        ----------
        name
            Name of a parameter.

        Returns
        -------
        str
            Name of the group, such as `"hidden"`.
        """

    def forward(self, linear: Linear, x: Array) -> Forward:
        """Compute outputs and features of a batch.

        Features of images have positions behind channels, as the inputs do.

        Parameters
        ----------
        linear
            Applies a weight to an array; weights enter in no other way.
        x
            A batch of inputs.

        Returns
        -------
        Forward
            The outputs, and the features of every layer.
        """
        outputs, values = self.graph.run(linear, x)
        layers = zip(self.graph.nodes, values, strict=True)
        features = [v.swapaxes(-1, -2) if v.ndim > 2 and not isinstance(node, Recurrent) else v for node, v in layers]
        return Forward(outputs if self.output_shape else outputs[..., 0], features)

    def limit(self) -> Limit:
        """Return the layers of this network at infinite width."""
        return limit_of(self.graph, self.laws())

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one example."""

    @property
    @abstractmethod
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the outputs for one example; `()` for a single number."""

    @property
    def trained_names(self) -> tuple[str, ...]:
        """Names of the parameters that gradient descent moves."""
        trained: tuple[str, ...] = self.trained  # pyright: ignore[reportAttributeAccessIssue]
        return tuple(name for name in self.laws() if self.group(name) in trained)

    def scored(self, outputs: Outputs) -> Outputs:
        """Return the part of the outputs (or of the targets) that enters the loss.

        Parameters
        ----------
        outputs
            Outputs of a batch.

        Returns
        -------
        Outputs
            All of them, except for recurrent networks whose first output never moves.
        """
        return outputs

    @property
    def number_of_weights(self) -> int:
        """How many numbers its parameters hold, trained or not."""
        return sum(math.prod(law.shape) for law in self.laws().values())

    @double_to_numpy
    def init(self, seed: int | Array = 0, precision: str = "float64") -> Params:
        """Draw the parameters from the paper's law.

        Parameters
        ----------
        seed
            An integer, or a JAX key.
        precision
            `"float64"` or `"float32"`; both round the same draw.

        Returns
        -------
        Params
            The parameters by name.
        """
        key = jax.random.key(seed) if isinstance(seed, int | np.integer) else seed
        laws = enumerate(self.laws().items())
        drawn = {name: law.sample(jax.random.fold_in(key, i), as_dtype(precision)) for i, (name, law) in laws}
        return {name: jax.device_put(weight) for name, weight in drawn.items()}

    @double_to_numpy
    def __call__(self, params: Mapping[str, ArrayLike], x: ArrayLike) -> Float[Array, "n *out"]:
        """Return the outputs for a batch `x` of shape `(n, *input_shape)`."""
        return _forward(self, self.as_params(params), self.as_batch(params, x)).outputs

    @double_to_numpy
    def features(self, params: Mapping[str, ArrayLike], x: ArrayLike) -> list[Array]:
        """Return the features of every layer, in order.

        Parameters
        ----------
        params
            Weights by name.
        x
            A batch of inputs.

        Returns
        -------
        list[Array]
            One array for each layer.
        """
        return _forward(self, self.as_params(params), self.as_batch(params, x)).features

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether the network accepts examples of a shape.

        Parameters
        ----------
        shape
            The shape of one example.

        Returns
        -------
        bool
            Whether such examples are accepted.
        """
        return shape == self.input_shape

    def as_params(self, params: Mapping[str, ArrayLike]) -> Params:
        """Return the parameters as JAX arrays of their own dtype.

        Parameters
        ----------
        params
            Weights by name.

        Returns
        -------
        Params
            The same weights.
        """
        return {name: _placed(weight) for name, weight in params.items()}

    def as_batch(self, params: Mapping[str, ArrayLike], x: ArrayLike) -> Array:
        """Check the shape of a batch and give it the dtype of the parameters.

        Parameters
        ----------
        params
            Weights by name.
        x
            A batch of inputs.

        Returns
        -------
        Array
            The batch as a JAX array.
        """
        shape = np.shape(x)
        if not shape or not self.takes(shape[1:]):
            raise InputError(
                f"{self.name} takes examples of shape {self.input_shape}, got a batch of shape {shape}: "
                "the first axis counts the examples"
            )
        return jnp.asarray(x, _placed(next(iter(params.values()))).dtype)

    def matrix(self, weight: Array, fan_in: int) -> Array:
        """Return `weight` as the matrix `(fan_in, fan_out)` that multiplies rows of inputs.

        Parameters
        ----------
        weight
            One weight of the network.
        fan_in
            Number of inputs of a unit.

        Returns
        -------
        Array
            The matrix.
        """
        return weight.reshape(-1, fan_in).T if self.units == "rows" else weight.reshape(fan_in, -1)

    def linear(self, params: Mapping[str, Array]) -> Linear:
        """Return the contraction `(name, u) -> W u`, over the last axis of `u`.

        Parameters
        ----------
        params
            Weights by name.

        Returns
        -------
        Linear
            The function `linear(name, u)`.
        """
        return lambda name, u: u @ self.matrix(params[name], u.shape[-1])

    def __str__(self) -> str:
        shown = []
        for f in sorted(fields(self), key=lambda f: LAST.index(f.name) if f.name in LAST else -1):
            value = getattr(self, f.name)
            if f.name in LAST and value == f.default:  # the paper's own goes without saying
                continue
            shown.append(f"{f.name}={value.name if isinstance(value, Activation) else value}")
        return f"{self.name}({', '.join(shown)})"


def _placed(array: ArrayLike) -> Array:
    """Return an array of JAX with the same entries: `jnp.asarray` may compile a program for every shape it meets."""
    return array if isinstance(array, jax.Array) else jax.device_put(np.array(array))


# Operation by operation a pass compiles many small programs, and takes longer each time.
@partial(jax.jit, static_argnums=0)
def _forward(network: Network, params: Params, x: Array) -> Forward:
    return network.forward(network.linear(params), x)


def _normal(key: Array, count: int) -> Array | np.ndarray:
    """Draw `count` standard normal numbers, as a NumPy array unless inside a trace.

    The first numbers of a key do not depend on how many are drawn.
    """
    # A program for each length takes a quarter of a second to compile: short lengths share those of powers of two.
    length = 1 << (count - 1).bit_length() if count <= LONGEST_SHARED else count
    draw = _normals(key, length)
    return (draw if isinstance(draw, Tracer) else np.asarray(draw))[:count]


@partial(jax.jit, static_argnums=1)
def _normals(key: Array, length: int) -> Array:
    # The barrier keeps XLA from folding a law's scale into the draw inside a larger program: the same bits everywhere.
    return lax.optimization_barrier(jax.random.normal(key, (length,), jnp.float64))


class Linearization(NamedTuple):
    """A forward pass, recorded so that gradients and Gram matrices can be computed from it.

    Parameters
    ----------
    outputs : Array
        The outputs of the batch.
    inputs
        For each weight, what it multiplies at each of its uses.
    pullback
        Maps a cotangent of the outputs to the cotangents of all uses of each weight.
    """

    outputs: Float[Array, "n *out"]
    inputs: dict[str, tuple[Array, ...]]
    pullback: Callable[[Array], dict[str, tuple[Array, ...]]]


def linearize(
    network: Network, params: Mapping[str, Array], x: Array, names: Sequence[str] | None = None
) -> Linearization:
    r"""Run the network and record, for each use of some of its weights, its input $u$.

    For an output cotangent $c$, `pullback(c)` returns the cotangents $b$ of the same uses, so that $\sum b u^\top$ over
    uses and examples is the gradient of $\langle c, f \rangle$.

    Parameters
    ----------
    network
        The network.
    params
        Weights by name.
    x
        Inputs, one example in each row.
    names
        The weights to record; by default the trained ones.

    Returns
    -------
    Linearization
        Outputs, inputs of all uses, and the pullback.
    """
    names = network.trained_names if names is None else tuple(names)
    plain = network.linear(params)
    shapes: dict[str, list[tuple[int, ...]]] = {name: [] for name in names}

    def shape_only(x: Array) -> Array:
        def linear(name: str, u: Array) -> Array:
            out = plain(name, u)
            if name in shapes:
                shapes[name].append(out.shape)
            return out

        return network.forward(linear, x).outputs

    jax.eval_shape(shape_only, x)

    def tapped(taps: dict[str, tuple[Array, ...]]) -> tuple[Array, dict[str, tuple[Array, ...]]]:
        inputs: dict[str, list[Array]] = {name: [] for name in names}

        def linear(name: str, u: Array) -> Array:
            out = plain(name, u)
            if name not in inputs:
                return out
            inputs[name].append(u)
            return out + taps[name][len(inputs[name]) - 1]

        outputs = network.forward(linear, x).outputs
        return outputs, {name: tuple(us) for name, us in inputs.items()}

    # The taps are zeros that XLA folds away; only their cotangents are wanted.
    taps = {name: tuple(jnp.zeros(s, x.dtype) for s in shapes[name]) for name in names}
    outputs, vjp, inputs = jax.vjp(tapped, taps, has_aux=True)
    return Linearization(outputs, inputs, lambda cotangent: vjp(cotangent)[0])


def contract(network: Network, weight: Array, inputs: Sequence[Array], cotangents: Sequence[Array]) -> Array:
    r"""Return the gradient $\sum b u^\top$ over all uses, in the shape of `weight`.

    Parameters
    ----------
    network
        The network to which the weight belongs.
    weight
        The weight.
    inputs
        What the weight multiplies, one array for each use.
    cotangents
        The cotangents of the same uses.

    Returns
    -------
    Array
        The gradient.
    """
    u = jnp.concatenate([u.reshape(-1, u.shape[-1]) for u in inputs])
    b = jnp.concatenate([b.reshape(-1, b.shape[-1]) for b in cotangents])
    left, right = (b, u) if network.units == "rows" else (u, b)
    return _transposed_product(left, right).reshape(weight.shape)


def _transposed_product(a: Array, b: Array) -> Array:
    """`a.T @ b`; on a CPU in float64 the smaller transpose is written out first, which doubles the product's speed."""
    if a.dtype != jnp.float64 or jax.default_backend() != "cpu" or min(a.shape[1], b.shape[1]) == 1:
        return a.T @ b
    if b.shape[1] < a.shape[1]:
        return lax.optimization_barrier(lax.optimization_barrier(b.T) @ a).T
    return lax.optimization_barrier(a.T) @ b


def gradient(network: Network, params: Mapping[str, Array], line: Linearization, cotangent: Array) -> dict[str, Array]:
    r"""Return the gradient of $\langle c, f \rangle$ with respect to the recorded weights.

    Parameters
    ----------
    network
        The network.
    params
        Its weights, by name.
    line
        The result of `linearize`.
    cotangent
        $c$, in the shape of the outputs.

    Returns
    -------
    dict[str, Array]
        The gradient of each recorded weight.
    """
    cotangents = line.pullback(cotangent)
    return {name: contract(network, params[name], line.inputs[name], cotangents[name]) for name in cotangents}


def require_positive(network: Network, **sizes: int) -> None:
    """Check that the named sizes are whole numbers of at least 1."""
    for key, size in sizes.items():
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
            raise InputError(f"{network.name} needs {key} to be a whole number of at least 1, got {size!r}")


def require_groups(network: Network, trained: Sequence[str]) -> None:
    """Check that `trained` names parts of the network, and at least one."""
    unknown = [g for g in trained if g not in network.groups]
    if unknown or not trained:
        raise InputError(f"{network.name} can train {', '.join(network.groups)}; got {', '.join(trained) or 'nothing'}")
