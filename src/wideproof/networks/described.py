"""Anybody's network: a graph, and the laws that its weights start from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, final

from wideproof.errors import InputError
from wideproof.networks.activations import IDENTITY, Activation, get_activation
from wideproof.networks.base import Balanced, Constant, Diagonal, Gaussian, Law, Network, Opposed, Paired, Zeros
from wideproof.networks.graph import Graph, Node, Term, bias, graph_from_dict
from wideproof.networks.maps import FLAT, IDENTITY_MAP, Average, Flat, Identity, Patches, Select
from wideproof.networks.mirrored import Mirrored, OpposedRows
from wideproof.networks.starts import DOUBLED, NORMAL, ZERO, require_even, require_scale

LAWS: dict[str, Any] = {
    "gaussian": Gaussian, "balanced": Balanced, "zeros": Zeros, "constant": Constant, "diagonal": Diagonal,
    "paired": Paired, "opposed": Opposed, "mirrored": Mirrored, "opposed_rows": OpposedRows,
}  # fmt: skip


@final
@dataclass(frozen=True)
class Described(Network):
    """A network given by its graph.

    Attributes
    ----------
    description
        The layers of the network.
    starts
        For each weight, its name and the law of its initial values, which has the shape of the weight.

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
        """Return the group of a parameter, which is the parameter itself.

        Parameters
        ----------
        name
            Name of a parameter.

        Returns
        -------
        str
            The same name.
        """
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
        """Return whether the network accepts examples of a shape; images may come as vectors.

        Parameters
        ----------
        shape
            The shape of one example.

        Returns
        -------
        bool
            Whether such examples are accepted.
        """
        return math.prod(shape) == math.prod(self.input_shape)

    def training(self, names: Sequence[str]) -> Described:
        """Return the same network with other weights trained.

        Parameters
        ----------
        names
            The weights to train; all others are fixed.

        Returns
        -------
        Described
            The network.
        """
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
        """Rebuild the network that `to_config` described.

        Parameters
        ----------
        config
            The result of `to_config`.

        Returns
        -------
        Described
            The network.
        """
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
            if isinstance(t.map, Select):
                if t.map.inputs != fan_in:
                    raise InputError(f"layer {k + 1} selects from {t.map.inputs} features of a value that has {fan_in}")
                fan_in = t.map.features
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
    """Builds a network layer by layer: each method adds a layer and returns its number, which later layers can read.

    Weights start as independent normal numbers of variance 1 / fan-in, biases at zero.

    Parameters
    ----------
    shape
        The number of inputs, or the shape of an image: `(channels, height, width)` or `(channels, pixels)`.
    nodes
        The layers so far; empty at the beginning.
    starts
        The law of each weight so far; empty at the beginning.
    sizes
        The grid and the number of features of each layer so far.
    input
        The number under which layers read the input.

    Examples
    --------
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
        """Add a fully-connected layer.

        Parameters
        ----------
        source
            The layer to read, or `sketch.input`.
        units
            Number of units.
        activation
            The activation; the identity by default.
        bias
            Whether the layer has a bias.
        skip
            A layer whose value is added behind the activation; it needs the same shape.
        scale
            Factor behind the activation, before `skip` is added.

        Returns
        -------
        int
            The number of the new layer.
        """
        grid, features = self._size(source)
        phi = FLAT if grid else IDENTITY_MAP
        fan_in = features * math.prod(grid)
        return self._layer(source, phi, (), (units, fan_in), activation, bias, skip, scale)

    def conv(
        self, source: int, channels: int, size: int, activation: str | Activation = IDENTITY, *, stride: int = 1,
        padding: int | None = None, bias: bool = True, skip: int | None = None, scale: float = 1.0,
    ) -> int:  # fmt: skip
        """Add a convolution, with as many dimensions as the input has.

        Parameters
        ----------
        source
            The layer to read, or `sketch.input`.
        channels
            Number of channels of the new layer.
        size
            Size of the filters in each dimension.
        activation
            The activation; the identity by default.
        stride
            Distance between the positions of the filter.
        padding
            Zeros on each side; by default `size // 2`, which keeps an odd filter's grid at stride 1.
        bias
            Whether the layer has a bias.
        skip
            A layer whose value is added behind the activation; it needs the same shape.
        scale
            Factor behind the activation, before `skip` is added.

        Returns
        -------
        int
            The number of the new layer.
        """
        grid, features = self._size(source)
        pad = size // 2 if padding is None else padding
        phi = Patches(grid, (size,) * len(grid), (stride,) * len(grid), ((pad, pad),) * len(grid))
        shape = (channels, features, *phi.size)
        return self._layer(source, phi, phi.out, shape, activation, bias, skip, scale)

    def average(self, source: int, size: int, *, stride: int | None = None) -> int:
        """Add average pooling.

        Parameters
        ----------
        source
            The layer to read.
        size
            Size of the windows in each dimension.
        stride
            Distance between windows; by default `size`, so that they do not overlap.

        Returns
        -------
        int
            The number of the new layer.
        """
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

    def read_out(
        self, source: int, outputs: int, *, bias: bool = True, start: str = NORMAL, alpha: float = 1.0
    ) -> Described:
        """Return the network whose outputs are a linear function of one layer; all its weights are trained.

        Parameters
        ----------
        source
            The layer to read.
        outputs
            Number of outputs.
        bias
            Whether the read-out has a bias.
        start
            How the initial weights are drawn: `"normal"`, or `"doubled"` or `"zero"`, with which the outputs are 0
            before the first step (`mirrored`).
        alpha
            Factor of the outputs; other than 1 only without a bias.

        Returns
        -------
        Described
            The network.

        Examples
        --------
        >>> sketch = Sketch(2)
        >>> pairs = sketch.dense(sketch.input, 4, "tanh")
        >>> network = sketch.read_out(pairs, 1, bias=False, start="doubled", alpha=10.0)
        >>> network.init(0)["W2"].tolist(), network.graph.layers[0].scale
        ([[0.5, 0.5, -0.5, -0.5]], 10.0)
        """
        grid, features = self._size(source)
        fan_in = features * math.prod(grid)
        alpha = require_scale(alpha)
        if bias and alpha != 1:
            raise InputError(f"alpha = {alpha:g} multiplies a read-out without a bias: use bias=False")
        weight, shift = self._weights((outputs, fan_in), bias)
        assert isinstance(self.shape, tuple)
        graph = Graph(
            self.shape, tuple(self.nodes), weight, (source,), outputs, tuple(self.starts), shift, alpha=alpha
        ).unrolled
        return Described(graph, tuple(self._begun(start, source, weight).items()))

    def _begun(self, start: str, source: int, read_out: str) -> dict[str, Law]:
        """Return the laws of a start: pairs of units as in `mirrored`, wherever a weight is."""
        laws, drawn = dict(self.starts), self.starts[read_out]
        assert isinstance(drawn, Gaussian)
        if start == ZERO:
            return laws | {read_out: Zeros(drawn.shape)}
        if start == NORMAL:
            return laws
        if start != DOUBLED:
            raise InputError(f"the start of a network of your own must be normal, doubled or zero, got {start!r}")
        paired = {self.input: False}
        for k, node in enumerate(self.nodes):
            (term,) = (term for term in node.terms if term.moves)
            paired[k] = paired[term.source]
            if term.weight is not None:
                law = laws[term.weight]
                assert isinstance(law, Gaussian)
                require_even(law.shape[0])
                laws[term.weight] = (Mirrored if paired[k] else Paired)(law.shape, law.variance)
                paired[k] = True
            if node.skip is not None and not paired[node.skip]:
                raise InputError(
                    f"the doubled start has pairs of units, and layer {k + 1} adds an input: that has none"
                )
        if not paired[source]:
            raise InputError("the doubled start has pairs of units, and the read-out reads an input: that has none")
        return laws | {read_out: Opposed(drawn.shape, drawn.variance)}
