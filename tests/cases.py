"""Every network once, small: contract tests run over this table."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from wideproof.networks import (
    ConvResidual,
    DeepReLU,
    DeepRNN,
    Described,
    ElmanRNN,
    FullyConnected,
    Graph,
    Network,
    Residual,
    ResidualReLU,
    Sketch,
    get_activation,
)
from wideproof.networks.base import Gaussian, Zeros
from wideproof.networks.graph import Node, Term, bias
from wideproof.networks.maps import Average, Patches, Select

NETWORKS: dict[str, Network] = {
    "fully-connected": FullyConnected(input_dim=5, width=7, depth=3),
    "fully-connected-tanh-outputs": FullyConnected(5, 7, 2, get_activation("tanh"), outputs=3),
    "residual": Residual(input_dim=5, width=7, depth=4, c_res=0.7),
    "residual-one-layer": Residual(input_dim=5, width=7, depth=1, activation=get_activation("swish")),
    "conv-residual": ConvResidual(channels=2, pixels=6, width=5, depth=3),
    "conv-residual-outputs": ConvResidual(channels=2, pixels=6, width=5, depth=2, filter_size=5, outputs=2),
    "deep-relu": DeepReLU(input_dim=5, width=8, depth=3),
    "deep-relu-widths": DeepReLU(input_dim=5, width=(7, 9, 8), depth=3, trained=("hidden", "output")),
    "elman-rnn": ElmanRNN(input_dim=4, width=8, length=5, outputs=2),
    "elman-rnn-all": ElmanRNN(4, 8, 5, outputs=1, trained=("recurrent", "input", "output")),
    "deep-rnn": DeepRNN(input_dim=4, width=8, length=4, depth=3, outputs=2),
    "deep-rnn-all": DeepRNN(4, 8, 4, depth=2, trained=("recurrent", "input", "between", "output")),
    "residual-relu": ResidualReLU(input_dim=5, width=8, depth=3, residual_scale=0.4),
}

# Second members of a family, which take as long to compile as the first.
VARIANTS = ("residual-one-layer", "conv-residual-outputs", "deep-relu-widths", "elman-rnn-all", "deep-rnn-all")


def each(table: Mapping[str, Any] | Iterable[str], slow: Collection[str] = ()) -> list:
    """Return a table's values, or a list's names, as parameters with their names; those in `slow` are slow tests.

    >>> [(row.id, row.values, len(row.marks)) for row in each({"a": 1, "b": 2}, slow=["b"])]
    [('a', (1,), 0), ('b', (2,), 1)]
    """
    rows = dict(table) if isinstance(table, Mapping) else {name: name for name in table}
    assert set(slow) <= set(rows), f"no such rows: {set(slow) - set(rows)}"
    return [pytest.param(row, id=name, marks=pytest.mark.slow if name in slow else ()) for name, row in rows.items()]


def each_network(values: str = "networks", slow: Collection[str] = ()) -> list:
    """Return every network (or its name) as a parameter, with the variants, and those in `slow`, as slow tests."""
    return each(NETWORKS if values == "networks" else list(NETWORKS), slow={*VARIANTS, *slow})


def _dense() -> Described:
    """Biases, a skip, two activations."""
    sketch = Sketch(4)
    first = sketch.dense(sketch.input, 5, "tanh")
    return sketch.read_out(sketch.dense(first, 5, "gelu", skip=first, scale=0.8), 1)


def _image() -> Described:
    """Convolutions in two dimensions with a skip, average pooling, a dense layer behind."""
    sketch = Sketch((1, 4, 4))
    first = sketch.conv(sketch.input, 2, 3, "softplus")
    second = sketch.conv(first, 2, 3, "tanh", skip=first)
    return sketch.read_out(sketch.dense(sketch.average(second, 2), 3, "sigmoid"), 1)


def _strided() -> Described:
    """A convolution in one dimension with stride 2 and no padding; several outputs."""
    sketch = Sketch((2, 7))
    return sketch.read_out(sketch.conv(sketch.input, 3, 3, "erf", stride=2, padding=0), 2)


def _relu() -> Described:
    sketch = Sketch(4)
    first = sketch.dense(sketch.input, 7, "relu")
    return sketch.read_out(sketch.dense(first, 6, "relu"), 1)


def _fixed() -> Described:
    """One weight in the middle and one bias are not trained."""
    sketch = Sketch(4)
    first = sketch.dense(sketch.input, 5, "arctan")
    network = sketch.read_out(sketch.dense(first, 4, "softplus", bias=False), 2)
    return network.training(["W1", "W3", "b3"])


def _branching() -> Described:
    """A skip from the input, and a node that two later nodes read."""
    sketch = Sketch(4)
    first = sketch.dense(sketch.input, 4, "tanh", skip=sketch.input)
    second = sketch.dense(first, 4, "sin", bias=False)
    return sketch.read_out(sketch.dense(first, 4, "swish", skip=second), 1)


def _tied() -> Described:
    """What no sketch draws: a weight used twice, two weights in a node, a sum of values, a node that leads nowhere.

    Paddings differ before and behind, and averages overlap.
    """
    odd = Patches((5,), (2,), (1,), ((1, 0),))
    pooled = Average((5,), (3,), (1,), ((0, 1),))
    nodes = (
        Node((Term("U", -1, odd), bias("b")), get_activation("tanh"), 0.9),
        Node((Term("V", 0, odd), Term("U", -1, odd)), get_activation("softplus"), 0.7, 0),
        Node((Term(None, 1, pooled), Term(None, 0, pooled)), get_activation("mish")),
        Node((Term("V", 1, odd), Term(None, 0)), scale=0.5),
        Node((Term("T", 2), Term(None, 2))),
    )
    shapes = {"U": (2, 2, 2), "V": (2, 2, 2), "T": (2, 2), "C": (1, 8)}
    laws = {name: Gaussian(shape, 0.5) for name, shape in shapes.items()} | {"b": Zeros((2,)), "c": Zeros((1,))}
    graph = Graph((2, 5), nodes, "C", (4,), 1, ("V", "C", "b", "U", "c", "T"), "c")
    return Described(graph, tuple(laws.items()))


def selected(last: str = "sigmoid") -> Described:
    """Selections before weights and without: repeated and dropped entries, zeros, factors; a dilated convolution.

    The last node is a difference of two entries, as in max pooling.
    """
    order = np.random.default_rng(4).permutation(6)
    wide = Patches((5,), (2,), (1,), ((1, 1),), (2,))
    mixed = Select((5,), 2, (3,), 2, np.array([9, 0, 0, 3, -1, 6]), (0.5, -1.5))
    later = Select((5,), 3, (), 4, np.array([14, 2, 2, -1]))
    first, second = (Select((3,), 2, (), 3, part, scale) for part, scale in ((order[:3], ()), (order[3:], (-1.0,))))
    nodes = (
        Node((Term("U", -1, wide), bias("b")), get_activation("tanh"), 0.9),
        Node((Term("V", -1, mixed), bias("d")), get_activation("softplus")),
        Node((Term("T", 0, later), Term(None, 1, first)), get_activation("gelu_tanh")),
        Node((Term(None, 1, first), Term(None, 1, second)), get_activation(last), 0.8, 2),
    )
    shapes = {"U": (3, 2, 2), "V": (2, 2), "T": (3, 4), "C": (1, 3)}
    laws = {name: Gaussian(shape, 0.5) for name, shape in shapes.items()}
    laws |= {"b": Zeros((3,)), "d": Zeros((2,)), "c": Zeros((1,))}
    graph = Graph((2, 5), nodes, "C", (3,), 1, ("U", "V", "T", "C", "b", "d", "c"), "c")
    return Described(graph, tuple((name, laws[name]) for name in graph.weights))


# Networks of a user's own; in the tests of certificates each is a row like the papers'.
OWN: dict[str, Network] = {
    "own-dense": _dense(),
    "own-image": _image(),
    "own-strided": _strided(),
    "own-relu": _relu(),
    "own-fixed": _fixed(),
    "own-branching": _branching(),
    "own-tied": _tied(),
}
