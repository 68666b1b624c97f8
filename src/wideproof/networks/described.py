"""Anybody's network: a graph, and the laws that its weights start from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, final

from wideproof.errors import InputError
from wideproof.networks.activations import IDENTITY, Activation, get_activation
from wideproof.networks.base import Balanced, Constant, Diagonal, Gaussian, Law, Network, Zeros
from wideproof.networks.graph import Graph, Node, Term, bias, graph_from_dict
from wideproof.networks.maps import FLAT, IDENTITY_MAP, Average, Flat, Identity, Patches

LAWS: dict[str, Any] = {
    "gaussian": Gaussian, "balanced": Balanced, "zeros": Zeros, "constant": Constant, "diagonal": Diagonal,
}  # fmt: skip


@final
@dataclass(frozen=True)
class Described(Network):
    """A network that is given by its graph.

    Attributes
    ----------
    description
        The graph.
    starts
        For each weight its name and the law of its start, which has its shape.

    Examples
    --------
    >>> sketch = Sketch(2)
    >>> hidden = sketch.dense(sketch.input, 8, "tanh")
    >>> network = sketch.read_out(sketch.dense(hidden, 8, "tanh", skip=hidden), 1)
    >>> {name: weight.shape for name, weight in network.init(0).items()}
    {'W1': (8, 2), 'b1': (8,), 'W2': (8, 8), 'b2': (8,), 'W3': (1, 8), 'b3': (1,)}
    """

    name: ClassVar[str] = "graph"
    paper: ClassVar[str] = ""
    equation: ClassVar[str] = ""

    description: Graph
    starts: tuple[tuple[str, Law], ...]

    def __post_init__(self) -> None:
        if self.description.columns or self.description.times:
            raise InputError("a network of your own needs one row per unit in its weights, and cannot read sequences")
        shapes = {name: law.shape for name, law in self.starts}
        missing = set(self.description.weights) ^ set(shapes)
        if missing:
            raise InputError(f"the weights {', '.join(sorted(missing))} are not in both the graph and the laws")
        _require_shapes(self.description, shapes)

    @property
    def data_kind(self) -> Literal["vectors", "images"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Images where an example has positions."""
        return "images" if self.description.images else "vectors"

    def describe(self) -> Graph:
        """Return the graph."""
        return self.description

    def laws(self) -> dict[str, Law]:
        """Return the law of each parameter at the start."""
        return dict(self.starts)

    def group(self, name: str) -> str:
        """Return the part of the network that parameter `name` belongs to: itself."""
        return name

    @property
    def trained_names(self) -> tuple[str, ...]:
        """Names of the parameters that gradient descent moves."""
        return self.description.trained

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one example: features by grid."""
        return self.description.shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the outputs for one example; `()` for a single number."""
        return () if self.description.outputs == 1 else (self.description.outputs,)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether examples of this shape are what the network takes: images may come as vectors."""
        return math.prod(shape) == math.prod(self.input_shape)

    def training(self, names: Sequence[str]) -> Described:
        """Return the same network with these weights trained, the others fixed."""
        chosen = tuple(name for name in self.description.weights if name in names)
        unknown = sorted(set(names) - set(chosen))
        if unknown or not chosen:
            there = ", ".join(self.description.weights)
            raise InputError(f"there is no weight {', '.join(unknown) or 'to train'}: the network has {there}")
        return replace(self, description=replace(self.description, trained=chosen))

    def to_config(self) -> dict[str, Any]:
        """Return the network as a dictionary that JSON can hold."""
        kinds = {law: kind for kind, law in LAWS.items()}
        starts = [
            [name, kinds[type(law)], list(law.shape), getattr(law, "variance", getattr(law, "value", None))]
            for name, law in self.starts
        ]
        return {"network": self.name, "graph": self.description.to_dict(), "starts": starts}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Described:
        """Rebuild the network that `to_config` described."""
        laws = [
            (name, LAWS[kind](tuple(shape), *([] if variance is None else [variance])))
            for name, kind, shape, variance in config["starts"]
        ]
        return cls(graph_from_dict(config["graph"]), tuple(laws))

    def __str__(self) -> str:
        layers, total = len(self.description.nodes), sum(math.prod(law.shape) for _, law in self.starts)
        plural = "" if layers == 1 else "s"
        return f"network of {layers} hidden layer{plural}, {total} numbers in {', '.join(self.description.weights)}"


def _require_shapes(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that every weight has the numbers that its place in the graph needs."""
    units, grids = {-1: graph.shape[0]}, graph.grids  # which refuses values on different grids

    def require(name: str, rows: int, fan_in: int) -> None:
        shape = shapes[name]
        if not shape or min(shape) < 1 or math.prod(shape) != rows * fan_in:
            raise InputError(
                f"the weight {name} has the shape {shape}: it needs {fan_in} numbers for each of its units"
            )

    for k, node in enumerate(graph.layers):
        sizes = set() if node.skip is None else {units[node.skip]}
        for t in node.terms:
            fan_in = units[t.source] if t.moves else 1
            fan_in *= math.prod(grids[t.source]) if isinstance(t.map, Flat) else 1
            fan_in *= t.map.count if type(t.map) is Patches else 1
            if t.weight is not None:
                require(t.weight, rows := next(iter(shapes[t.weight]), 0), fan_in)
            sizes.add(fan_in if t.weight is None else rows)
        if len(sizes) > 1:
            raise InputError(f"layer {k + 1} adds values with different numbers of features: {sorted(sizes)}")
        units[k] = sizes.pop()
    (site,) = graph.sites
    require(graph.read_out, graph.outputs, units[site] * math.prod(grids[site]))
    if graph.bias is not None:
        require(graph.bias, graph.outputs, 1)


@dataclass
class Sketch:
    """A network drawn layer by layer: each method adds a layer and returns its number, which later layers read.

    `shape` is the number of inputs, or the shape of an image `(channels, height, width)` or `(channels, pixels)`.
    Weights start as independent normal numbers of variance 1 / fan-in, biases at zero.

    >>> sketch = Sketch((1, 8, 8))
    >>> seen = sketch.conv(sketch.input, 4, 3, "softplus")
    >>> str(sketch.read_out(sketch.average(seen, 2), 10))
    'network of 2 hidden layers, 690 numbers in W1, b1, W2, b2'
    """

    shape: int | tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)
    starts: dict[str, Law] = field(default_factory=dict)
    sizes: dict[int, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    input: int = -1

    def __post_init__(self) -> None:
        self.shape = (self.shape,) if isinstance(self.shape, int) else tuple(self.shape)
        if not 0 < len(self.shape) < 4 or min(self.shape) < 1:
            raise InputError(f"examples have features and at most two dimensions of positions, got {self.shape}")
        features, *grid = self.shape
        self.sizes[-1] = (tuple(grid), features)

    def dense(
        self, source: int, units: int, activation: str | Activation = IDENTITY, *, bias: bool = True,
        skip: int | None = None, scale: float = 1.0,
    ) -> int:  # fmt: skip
        """Add a fully-connected layer that reads everything in `source`; `skip` is a value added behind it."""
        grid, features = self._size(source)
        phi = FLAT if grid else IDENTITY_MAP
        fan_in = features * math.prod(grid)
        return self._layer(source, phi, (), (units, fan_in), activation, bias, skip, scale)

    def conv(
        self, source: int, channels: int, size: int, activation: str | Activation = IDENTITY, *, stride: int = 1,
        padding: int | None = None, bias: bool = True, skip: int | None = None, scale: float = 1.0,
    ) -> int:  # fmt: skip
        """Add a convolution in as many dimensions as the input has; `padding` keeps the size where it is left out."""
        grid, features = self._size(source)
        pad = size // 2 if padding is None else padding
        phi = Patches(grid, (size,) * len(grid), (stride,) * len(grid), ((pad, pad),) * len(grid))
        shape = (channels, features, *phi.size)
        return self._layer(source, phi, phi.out, shape, activation, bias, skip, scale)

    def average(self, source: int, size: int, *, stride: int | None = None) -> int:
        """Add average pooling over windows that do not overlap, unless a stride is given."""
        grid, features = self._size(source)
        step = size if stride is None else stride
        phi = Average(grid, (size,) * len(grid), (step,) * len(grid), ((0, 0),) * len(grid))
        return self._add(Node((Term(None, source, phi),)), phi.out, features)

    def _size(self, source: int) -> tuple[tuple[int, ...], int]:
        if source not in self.sizes:
            raise InputError(
                f"there is no layer {source}: there are the input, {self.input}, and 0..{len(self.nodes) - 1}"
            )
        return self.sizes[source]

    def _layer(
        self, source: int, phi: Identity, grid: tuple[int, ...], shape: tuple[int, ...],
        activation: str | Activation, with_bias: bool, skip: int | None, scale: float,
    ) -> int:  # fmt: skip
        weight, shift = self._weights(shape, with_bias)
        terms = (Term(weight, source, phi), *([] if shift is None else [bias(shift)]))
        return self._add(Node(terms, get_activation(activation), scale, skip), grid, shape[0])

    def _weights(self, shape: tuple[int, ...], with_bias: bool) -> tuple[str, str | None]:
        if min(shape) < 1:
            raise InputError(f"a layer has one unit or more, got {shape[0]}")
        k = 1 + sum(name[0] == "W" for name in self.starts)
        self.starts[f"W{k}"] = Gaussian(shape, 1 / math.prod(shape[1:]))
        if with_bias:
            self.starts[f"b{k}"] = Zeros(shape[:1])
        return f"W{k}", f"b{k}" if with_bias else None

    def _add(self, node: Node, grid: tuple[int, ...], features: int) -> int:
        if node.skip is not None and self.sizes.get(node.skip) != (grid, features):
            raise InputError(
                f"a skip adds values of one shape: {self.sizes.get(node.skip)} is added to {(grid, features)}"
            )
        self.nodes.append(node)
        self.sizes[len(self.nodes) - 1] = (grid, features)
        return len(self.nodes) - 1

    def read_out(self, source: int, outputs: int, *, bias: bool = True) -> Described:
        """Return the network whose outputs are linear in everything in `source`; all its weights are trained."""
        grid, features = self._size(source)
        fan_in = features * math.prod(grid)
        weight, shift = self._weights((outputs, fan_in), bias)
        assert isinstance(self.shape, tuple)
        graph = Graph(self.shape, tuple(self.nodes), weight, (source,), outputs, tuple(self.starts), shift)
        return Described(graph, tuple(self.starts.items()))
