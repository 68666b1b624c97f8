"""One description of a network: forward passes by hand, what is written and read again, refusals, limits."""

import dataclasses
import itertools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import correlate
from scipy.special import erf, expit, ndtr

from tests.cases import NETWORKS, OWN
from tests.certificates.making import Reference, at, start
from tests.networks.test_forward_and_gradient import by_reference
from tests.verify.making import config, read
from wideproof.certificates import Problem, certify
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.kernels import gram
from wideproof.networks import (
    Activation,
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
    from_config,
    get_activation,
    gradient,
    linearize,
    to_config,
)
from wideproof.networks.base import Balanced, Gaussian, Zeros
from wideproof.networks.graph import Node, Term, bias, graph_from_dict
from wideproof.networks.limit import LayeredLimit, Limit, LimitLayer, RecurrentLimit, limit_of
from wideproof.networks.maps import FLAT, IDENTITY_MAP, Average, same
from wideproof.training import Recipe, train
from wideproof_verify.arithmetic import BALLS
from wideproof_verify.passes import Anchor

N = 3
SMALL = ["fully-connected", "residual", "conv-residual", "deep-relu", "elman-rnn", "deep-rnn", "residual-relu"]


def drawn(network: Network, seed: int = 3):
    rng = np.random.default_rng(seed)
    return start(network, rng), rng.standard_normal((N, *network.input_shape))


# forward passes by hand


def softplus(z):
    return np.logaddexp(0, z)


def dense(p, x):
    h = np.tanh(p["W1"] @ x + p["b1"])
    z = p["W2"] @ h + p["b2"]
    return p["W3"] @ (h + 0.8 * z * ndtr(z)) + p["b3"]


def image(p, x):
    """Convolutions by SciPy, pooling by loops; an image is flattened channel by channel."""

    def conv(weight, level, maps):
        return np.array(
            [
                sum(correlate(maps[c], weight[o, c], mode="same", method="direct") for c in range(len(maps))) + level[o]
                for o in range(len(weight))
            ]
        )

    first = softplus(conv(p["W1"], p["b1"], x))
    second = first + np.tanh(conv(p["W2"], p["b2"], first))
    pooled = np.zeros((2, 2, 2))
    for c, i, j in itertools.product(range(2), repeat=3):
        pooled[c, i, j] = second[c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean()
    return p["W4"] @ expit(p["W3"] @ pooled.ravel() + p["b3"]) + p["b4"]


def strided(p, x):
    out = np.zeros((3, 3))
    for o, j in itertools.product(range(3), repeat=2):
        out[o, j] = p["b1"][o] + sum(p["W1"][o, c, i] * x[c, 2 * j + i] for c in range(2) for i in range(3))
    return p["W2"] @ erf(out).ravel() + p["b2"]


def relu(p, x):
    first = np.maximum(p["W1"] @ x + p["b1"], 0)
    return p["W3"] @ np.maximum(p["W2"] @ first + p["b2"], 0) + p["b3"]


def fixed(p, x):
    return p["W3"] @ softplus(p["W2"] @ np.arctan(p["W1"] @ x + p["b1"])) + p["b3"]


def branching(p, x):
    first = x + np.tanh(p["W1"] @ x + p["b1"])
    z = p["W3"] @ first + p["b3"]
    return p["W4"] @ (np.sin(p["W2"] @ first) + z * expit(z)) + p["b4"]


def tied(p, x):
    def windows(weight, maps):
        """Two places, the first before the position; zero outside."""
        out = np.zeros((2, 5))
        for o, j, c in itertools.product(range(2), range(5), range(2)):
            out[o, j] += weight[o, c, 0] * (maps[c, j - 1] if j else 0.0) + weight[o, c, 1] * maps[c, j]
        return out

    first = 0.9 * np.tanh(windows(p["U"], x) + p["b"][:, None])
    second = first + 0.7 * softplus(windows(p["V"], first) + windows(p["U"], x))
    both = np.concatenate([first + second, np.zeros((2, 1))], axis=1)
    pooled = np.array([[both[c, j : j + 3].sum() / 3 for j in range(4)] for c in range(2)])
    third = pooled * np.tanh(softplus(pooled))
    return p["C"] @ (p["T"] @ third + third).ravel() + p["c"]


BY_HAND = {
    "own-dense": dense,
    "own-image": image,
    "own-strided": strided,
    "own-relu": relu,
    "own-fixed": fixed,
    "own-branching": branching,
    "own-tied": tied,
}


@pytest.mark.parametrize("name", OWN)
def test_a_network_of_ones_own_by_hand(name):
    """In JAX, in the verifier's balls, and given as vectors where it takes images."""
    network = OWN[name]
    params, x = drawn(network)
    truth = np.array([BY_HAND[name](params, one) for one in x])
    found = np.asarray(network(params, x)).reshape(N, -1)
    np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.asarray(network(params, x.reshape(N, -1))).reshape(N, -1), truth, rtol=1e-12)
    anchor = Anchor(*read(config(network), params), x, ops=BALLS)
    np.testing.assert_allclose(BALLS.middle(anchor.outputs).T, truth, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", SMALL)
def test_the_papers_networks_by_hand(name):
    """The graph as it is, and unrolled as a certificate states it."""
    network = NETWORKS[name]
    params, x = drawn(network)
    c = np.zeros((N, *network.output_shape))
    truth, _, _ = by_reference(network, params, x, c)
    outputs, _ = network.graph.run(network.linear(network.as_params(params)), jnp.asarray(x))
    np.testing.assert_allclose(np.asarray(outputs).reshape(truth.shape), truth, rtol=1e-12, atol=1e-13)
    anchor = Anchor(*read(config(network), params), x, ops=BALLS)
    scored = truth[:, 1:] if network.graph.times else truth
    np.testing.assert_allclose(BALLS.middle(anchor.outputs).T, scored.reshape(N, -1), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ("own-image", "own-tied") else pytest.mark.slow) for name in OWN]
)
def test_gradients_and_gram_matrices_of_ones_own(name):
    """By the recorded uses of weights, by backward passes in NumPy, and by the prover's enclosure."""
    network = OWN[name]
    params, x = drawn(network)
    c = np.random.default_rng(1).standard_normal((N, *network.output_shape))
    reference = Reference(network, params, x)
    jacobian = reference.jacobian(reference.theta)
    expected = reference.unflat(c.ravel() @ jacobian)

    def by_uses(state):
        return gradient(network, state, linearize(network, state, jnp.asarray(x)), jnp.asarray(c))

    found = jax.jit(by_uses, compiler_options={"xla_backend_optimization_level": 0})(network.as_params(params))
    assert set(found) == set(network.trained_names)
    for key, value in found.items():
        np.testing.assert_allclose(value, expected[key], rtol=1e-11, atol=1e-12)
    matrix = jacobian @ jacobian.T
    np.testing.assert_allclose(np.asarray(gram(network, params, x)), matrix, rtol=1e-10, atol=1e-11)
    y = np.zeros((N, *network.output_shape))
    np.testing.assert_allclose(at(network, params, x, y).gram.mid, matrix, rtol=1e-10, atol=1e-11)


def test_examples_of_another_size():
    network = OWN["own-image"]
    params, _ = drawn(network)
    with pytest.raises(InputError, match=r"examples of shape \(1, 4, 4\), got a batch of shape \(3, 15\)"):
        network(params, np.zeros((3, 15)))


# written and read again


@pytest.mark.parametrize("name", [*SMALL, *OWN])
def test_a_graph_comes_back(name):
    graph = (NETWORKS | OWN)[name].graph
    text = json.dumps(graph.to_dict())
    again = graph_from_dict(json.loads(text))
    assert json.dumps(again.to_dict()) == text
    assert again.grids == graph.unrolled.grids
    if not graph.kinked:
        assert again == graph
        assert hash(again) == hash(graph)


@pytest.mark.parametrize("name", OWN)
def test_a_network_comes_back(name):
    network = OWN[name]
    again = from_config(json.loads(json.dumps(to_config(network))))
    assert again == network
    assert str(again) == str(network)
    for key, weight in network.init(5).items():
        np.testing.assert_array_equal(weight, again.init(5)[key])


def test_a_balanced_start_comes_back():
    dense = OWN["own-dense"]
    network = Described(dense.graph, tuple((dense.laws() | {"W3": Balanced((5,))}).items()))
    assert from_config(json.loads(json.dumps(to_config(network)))) == network


def test_unrolled_networks_have_the_layers_of_all_times():
    graph = DeepRNN(4, 8, 3, depth=2).graph
    assert len(graph.nodes) == 2
    assert len(graph.layers) == 6
    assert graph.unrolled.sites == (4, 5)
    assert graph.unrolled.unrolled is graph.unrolled
    read = [[(t.weight, t.source) for t in node.terms] for node in graph.layers]
    assert read == [
        [("A1", -1)], [("W1", 0), ("A1", -2)], [("W1", 1), ("A1", -3)],
        [("A2", 0)], [("W2", 3), ("A2", 1)], [("W2", 4), ("A2", 2)],
    ]  # fmt: skip


def test_sketches_draw_biases_at_zero_and_weights_by_fan_in():
    network = OWN["own-image"]
    laws = network.laws()
    assert laws["W1"] == Gaussian((2, 1, 3, 3), 1 / 9)
    assert laws["W3"] == Gaussian((3, 8), 1 / 8)
    assert laws["b3"] == Zeros((3,))
    params = network.init(1)
    assert not params["b1"].any()
    assert params["W2"].std() == pytest.approx(math.sqrt(1 / 18), rel=0.4)


# refusals


def one(*nodes: Node, **more) -> Graph:
    given = {"shape": (3,), "read_out": "a", "sites": (len(nodes) - 1,), "outputs": 1, "trained": ("a",)}
    return Graph(nodes=nodes, **{**given, **more})


W1, W2 = Node((Term("W1", -1),)), Node((Term("W2", 0),))
REFUSED = {
    "nothing": (lambda: one(), "at least one layer"),
    "no site": (lambda: one(W1, sites=()), "at least one layer"),
    "no output": (lambda: one(W1, outputs=0), "and an output"),
    "itself": (lambda: one(Node((Term("W1", 0),))), "layer 1 reads a value that does not come before it"),
    "later": (lambda: one(W1, Node((Term("W2", 2),)), W1), "layer 2 reads a value that does not come before it"),
    "a second input": (lambda: one(Node((Term("W1", -2),))), "layer 1 reads a value that does not come before it"),
    "a later skip": (lambda: one(W1, dataclasses.replace(W2, skip=1)), "layer 2 reads a value that does not come"),
    "a skip to itself": (lambda: one(dataclasses.replace(W1, skip=0)), "layer 1 reads a value that does not come"),
    "a skip from nowhere": (lambda: one(W1, dataclasses.replace(W2, skip=-2)), "layer 2 reads a value that does not"),
    "a bias alone": (lambda: one(Node((bias("b"),))), "layer 1 reads no earlier value"),
    "no terms": (lambda: one(Node(())), "layer 1 reads no earlier value"),
    "a negative scale": (lambda: one(Node((Term("W1", -1),), scale=-1.0)), "a number of at least 0, got -1"),
    "no scale": (lambda: one(Node((Term("W1", -1),), scale=math.nan)), "a number of at least 0, got nan"),
    "an endless scale": (lambda: one(Node((Term("W1", -1),), scale=math.inf)), "a number of at least 0, got inf"),
    "a site that is not there": (lambda: one(W1, sites=(1,)), "one layer that is there"),
    "the input as a site": (lambda: one(W1, sites=(-1,)), "one layer that is there"),
    "two sites": (lambda: one(W1, W2, sites=(0, 1)), "one layer that is there"),
    "trained twice": (lambda: one(W1, trained=("W1", "W1")), "trained are"),
    "a sketch of nothing": (lambda: Sketch(0), "examples have features"),
    "a sketch of three dimensions": (lambda: Sketch((1, 2, 2, 2)), "at most two dimensions"),
    "no units": (lambda: Sketch(3).dense(-1, 0), "one unit or more, got 0"),
    "fewer channels than none": (lambda: Sketch((1, 4)).conv(-1, -2, 3), "one unit or more, got -2"),
    "a layer that is not there": (lambda: Sketch(3).dense(0, 4), "there is no layer 0"),
    "windows on vectors": (lambda: Sketch(3).conv(-1, 4, 3), "patches need a grid"),
    "nothing trained": (lambda: one(W1, trained=()), "trained are none"),
    "an unknown weight": (lambda: one(W1, trained=("W1", "W9")), "W9"),
    "other grids": (
        lambda: one(Node((Term("W1", -1, same((4,), 3)), Term("W2", -1, FLAT))), shape=(2, 4)).grids,
        r"layer 1 adds values on different grids: \[\(\), \(4,\)\]",
    ),
    "a skip on another grid": (
        lambda: one(
            Node((Term("W1", -1, same((4,), 3)),)), Node((Term("W2", 0, FLAT),), skip=0), shape=(2, 4)
        ).grids,
        "layer 2 adds values on different grids",
    ),
    "windows of another grid": (
        lambda: one(Node((Term("W1", -1, same((5,), 3)),)), shape=(2, 4)).grids,
        r"patches of a grid of \(5,\) meet a value on a grid of \(4,\)",
    ),
    "an unknown activation": (lambda: Sketch(3).dense(-1, 4, "reluu"), "no activation 'reluu'"),
    "a skip of another size": (lambda: Sketch(3).dense(-1, 4, skip=-1), "a skip adds values of one shape"),
    "windows that do not fit": (lambda: Sketch((1, 2, 2)).average(-1, 3), "average of size"),
    "a weight that is not there": (lambda: _sketched().training(["W1", "V"]), "there is no weight V: the network"),
    "no weight": (lambda: _sketched().training([]), "there is no weight to train"),
    "laws of other weights": (
        lambda: Described(one(W1), (("W1", Gaussian((4, 3), 1.0)),)),
        "the weights a are not in both the graph and the laws",
    ),
    "a weight of another shape": (lambda: reshaped("W2", (5, 4)), r"W2 has the shape \(5, 4\): it needs 5 numbers"),
    "a weight that could be reshaped": (lambda: reshaped("W1", (2, 10)), "W1 has the shape"),
    "fewer units than the bias": (lambda: reshaped("b2", (4,)), r"different numbers of features: \[4, 5\]"),
    "a read-out of another size": (lambda: reshaped("W3", (1, 6)), "W3 has the shape"),
    "a bias of another size": (lambda: reshaped("b3", (2,)), "b3 has the shape"),
    "a number as a weight": (lambda: reshaped("W1", ()), "W1 has the shape"),
    "columns": (lambda: as_ones_own(DeepReLU(3, 4, 1)), "one row per unit"),
    "sequences": (lambda: as_ones_own(ElmanRNN(3, 4, 2)), "cannot read sequences"),
}  # fmt: skip


def as_ones_own(network: Network) -> Described:
    return Described(network.graph, tuple(network.laws().items()))


def reshaped(name: str, shape: tuple[int, ...]) -> Described:
    network = OWN["own-dense"]
    laws = {key: Gaussian(shape, 1.0) if key == name else law for key, law in network.laws().items()}
    return Described(network.graph, tuple(laws.items()))


def _sketched() -> Described:
    sketch = Sketch(3)
    return sketch.read_out(sketch.dense(sketch.input, 4, "tanh"), 1)


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    make, told = REFUSED[what]
    with pytest.raises(InputError, match=told):
        make()


# limits


def test_limits_of_the_papers_networks():
    """Numbers of the papers: sqrt(c_sigma), c_res/H; N(0, 2/m) is sqrt(2/m) times standard, and its part m/2 times."""
    softplus = get_activation("softplus")
    first, root = 1.0418668355353018, 1.4142135623730951
    assert FullyConnected(5, 8, 3).limit() == LayeredLimit(
        softplus, tuple(LimitLayer(f"W{h}", False, first) for h in (1, 2, 3)), "a"
    )
    assert FullyConnected(5, 9, 1, get_activation("relu")).limit().layers == (LimitLayer("W1", False, root),)
    residual = (LimitLayer("W1", False, first), LimitLayer("W2", True, 0.7 / 3), LimitLayer("W3", True, 0.7 / 3))
    found = Residual(5, 7, 3, c_res=0.7).limit()
    assert (found.output, found.signs, found.window) == ("a", False, None)
    for ours, theirs in zip(found.layers, residual, strict=True):
        assert (ours.name, ours.skip, ours.factor) == (theirs.name, theirs.skip, 1.0)
        assert ours.scale == pytest.approx(theirs.scale, rel=2e-16)
    convolution = ConvResidual(2, 4, 5, 2, filter_size=5).limit()
    assert convolution.window == 5
    assert [layer.scale for layer in convolution.layers] == [first, 0.25]
    assert [layer.skip for layer in convolution.layers] == [False, True]
    zou = DeepReLU(5, (7, 9, 8), 3).limit()
    assert isinstance(zou, LayeredLimit)
    assert (zou.output, zou.signs, zou.homogeneous, zou.window) == ("v", True, True, None)
    assert [layer.factor for layer in zou.layers] == pytest.approx([3.5, 4.5, 4.0], rel=1e-15)
    assert [layer.scale for layer in zou.layers] == pytest.approx([root] * 3, rel=1e-15)
    frei = ResidualReLU(5, 8, 3, residual_scale=0.4).limit()
    assert isinstance(frei, LayeredLimit)
    assert [layer.scale for layer in frei.layers] == pytest.approx([root, 0.4 * root, 0.4 * root, root], rel=1e-15)
    assert [layer.skip for layer in frei.layers] == [False, True, True, False]
    assert [layer.factor for layer in frei.layers] == [4.0] * 4
    elman, deep = ElmanRNN(4, 9, 4, outputs=2).limit(), DeepRNN(4, 8, 3, depth=2).limit()
    assert elman == RecurrentLimit(("W",), ("A",), "B", 2.25, 0.5)
    assert deep == RecurrentLimit(("W1", "W2"), ("A1", "A2"), "B", 4.0, 1.0)


def test_the_width_leaves_no_trace():
    widths = (8, 100, 777, 12345)
    assert len({FullyConnected(5, width, 3).limit() for width in widths}) == 1
    scales = [[layer.scale for layer in Residual(5, width, 3).limit().layers] for width in widths]
    np.testing.assert_allclose(scales, [[1.0418668355353018, 0.5 / 3, 0.5 / 3]] * 4, rtol=4e-16)


def limited(*, variance=1.0, read=1.0, activation="tanh", nodes=None, shape=(3,), law=None, sites=None) -> Limit:
    """The limit of two layers without biases; with standard weights there is one."""
    sigma = get_activation(activation)
    nodes = nodes or (Node((Term("W1", -1),), sigma, 0.5), Node((Term("W2", 0),), sigma, 0.5))
    graph = Graph(shape, nodes, "a", sites or (len(nodes) - 1,), 1, ("W1",))
    laws = {name: law or Gaussian((4, 4), variance) for name in graph.weights}
    return limit_of(graph, laws | {"a": Gaussian((4,), read)})


def test_a_network_of_ones_own_can_have_a_limit():
    """Half the square root of the width times sigma is what sqrt(m) takes away."""
    sketch = Sketch(4)
    for source in (-1, 0):
        sketch.dense(source, 4, "tanh", bias=False, scale=0.5)
    drawn_by_fan_in = sketch.read_out(1, 1, bias=False)
    laws = tuple((name, Gaussian(law.shape, 1.0)) for name, law in drawn_by_fan_in.starts)
    found = Described(drawn_by_fan_in.graph, laws).limit()
    assert found == dataclasses.replace(limited(), output="W3")
    assert dataclasses.replace(found, output="a") == LayeredLimit(
        get_activation("tanh"), tuple(LimitLayer(f"W{h}", False, 1.0) for h in (1, 2)), "a"
    )


TANH = get_activation("tanh")
LIMITLESS = {
    "biases": lambda: _sketched().limit(),
    "variance": lambda: limited(variance=0.5),
    "read-out": lambda: limited(read=0.5),
    "no normal numbers": lambda: limited(law=Zeros((4, 4))),
    "a skip from the input": lambda: limited(nodes=(Node((Term("W1", -1),), TANH, 0.5, -1),)),
    "a skip over two layers": lambda: limited(
        nodes=(W1, W2, Node((Term("W3", 1),), skip=0)),
    ),
    "two weights": lambda: limited(nodes=(Node((Term("W1", -1), Term("W2", -1)), TANH),)),
    "a tied weight": lambda: limited(nodes=(Node((Term("W1", -1),), TANH), Node((Term("W1", 0),), TANH))),
    "two activations": lambda: limited(nodes=(Node((Term("W1", -1),), TANH), W2)),
    "an earlier read-out": lambda: limited(sites=(0,)),
    "pooling": lambda: limited(
        nodes=(Node((Term("W1", -1, Average((4,), (2,), (2,), ((0, 0),))),), TANH),), shape=(3, 4)
    ),
    "two dimensions": lambda: limited(nodes=(Node((Term("W1", -1, same((2, 2), 3)),), TANH),), shape=(3, 2, 2)),
    "stride": lambda: limited(
        nodes=(Node((Term("W1", -1, dataclasses.replace(same((4,), 3), stride=(2,))),), TANH),), shape=(3, 4)
    ),
    "position by position": lambda: limited(nodes=(Node((Term("W1", -1, IDENTITY_MAP),), TANH),), shape=(3, 4)),
    **{name: network.limit for name, network in OWN.items()},
}


@pytest.mark.parametrize("what", LIMITLESS)
def test_no_limit_is_said_in_a_sentence(what):
    with pytest.raises(InputError, match=r"this network has no known limit at infinite width: .{12}"):
        LIMITLESS[what]()


# activations of one's own, and by name


def test_an_activation_without_proofs_trains_and_gives_a_gram_matrix():
    """And a certificate says what is missing."""
    square = Activation("square", 1 / 3, math.inf, 2.0, False, 0.0, lambda z: z * z, lambda z: 2 * z)
    network = FullyConnected(3, 8, 2, square)
    params, x = drawn(network)
    y = np.ones(N)
    h = x
    for name in ("W1", "W2"):
        h = math.sqrt(1 / 24) * (h @ params[name].T) ** 2
    np.testing.assert_allclose(network(params, x), h @ params["a"], rtol=1e-12)
    matrix = np.asarray(gram(network, params, x))
    assert np.linalg.eigvalsh(matrix)[0] > 0
    sketch = Sketch(3)
    own = sketch.read_out(sketch.dense(sketch.input, 4, square), 1)
    assert np.isfinite(np.asarray(own(*drawn(own)))).all()
    run = train(network, Dataset(x, y, "regression"), Recipe(steps=5, step_size=1e-4))
    assert run.loss < run.records["loss"][0]
    for made in (network, own):
        weights, inputs = drawn(made)
        with pytest.raises(
            InputError, match="nothing is proved about the activation 'square': it can be trained and"
        ) as told:
            certify(Problem(made, Dataset(inputs, y, "regression")).at(weights))
        assert "needs bounds of its derivatives and a twin in NumPy, which softplus, sigmoid" in str(told.value)


@pytest.mark.parametrize("kind", [FullyConnected, Residual])
def test_an_activation_by_name_is_the_activation(kind):
    named, given = kind(3, 8, 2, activation="erf"), kind(3, 8, 2, activation=get_activation("erf"))
    assert named == given
    assert hash(named) == hash(given)
    assert named.activation is get_activation("erf")
    assert from_config(to_config(named)) == given
    assert named.limit() == given.limit()
    assert dataclasses.replace(given, activation="tanh").activation is TANH
    params, x = drawn(named)
    np.testing.assert_array_equal(named(params, x), given(params, x))
    assert ConvResidual(1, 4, 3, 2, activation="gelu").activation.name == "gelu"  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="there is no activation 'reluu': choose one of softplus"):
        kind(3, 8, 2, activation="reluu")
