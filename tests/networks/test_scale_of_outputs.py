"""The scale of the outputs: every network's option `alpha`, what it multiplies, and what is proved with it."""

import copy
import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import wideproof as wp
from tests.cases import NETWORKS, each, each_network
from tests.certificates.rewriting import parts, put
from tests.networks.test_mirrored import MIRRORED, ZEROS, _data, _inputs
from wideproof.certificates import Descent, Problem, certify, certify_from_start
from wideproof.errors import InputError
from wideproof.kernels import gram, limit_gram, nngp
from wideproof.networks import (
    ConvResidual,
    DeepReLU,
    DeepRNN,
    ElmanRNN,
    FullyConnected,
    Network,
    Residual,
    ResidualReLU,
    Sketch,
    from_config,
    get_activation,
    to_config,
)
from wideproof_verify import verify

TANH = get_activation("tanh")
ALPHA = 7.0


def scaled(network: Network, alpha: float = ALPHA) -> Network:
    return dataclasses.replace(network, alpha=alpha)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("network", each_network(slow=["deep-rnn", "conv-residual", "elman-rnn"]))
def test_outputs_and_gram_matrix_are_multiplied(network):
    """By alpha, and by its square; the weights and the features stay."""
    big, x, params = scaled(network), _inputs(network, 2), network.init(1)
    assert all(np.array_equal(big.init(1)[name], weight) for name, weight in params.items())
    small = np.asarray(network(params, x))
    np.testing.assert_allclose(big(params, x), ALPHA * small, rtol=1e-13, atol=1e-13)
    for one, other in zip(network.features(params, x), big.features(params, x), strict=True):
        np.testing.assert_array_equal(one, other)
    one, other = (gram(n, params, x, by_weight=True) for n in (network, big))
    for name in one.blocks:
        np.testing.assert_allclose(other.blocks[name], ALPHA**2 * np.asarray(one.blocks[name]), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("network", each(NETWORKS, slow=[name for name in NETWORKS if name != "residual"]))
def test_the_limit_is_multiplied(network):
    big, x = scaled(network), _inputs(network, 2)
    for matrix in (limit_gram, nngp):
        there, here = np.asarray(matrix(big, x)), np.asarray(matrix(network, x))
        np.testing.assert_allclose(there, ALPHA**2 * here, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("network", each_network())
def test_one_is_what_was_there(network):
    """The same graph object where there is nothing to unroll, the same certificate's graph, the same name."""
    one = scaled(network, 1.0)
    assert one == network
    assert (one.graph, str(one)) == (network.graph, str(network))
    assert one.graph.alpha == 1.0
    assert network.data_kind == "sequences" or one.graph.unrolled is one.graph
    assert "alpha" not in str(one)


@pytest.mark.parametrize("network", each_network())
def test_descriptions_keep_it(network):
    big = scaled(network, 12.0)
    assert from_config(json.loads(json.dumps(to_config(big)))) == big
    assert str(big).endswith(", alpha=12.0)")
    stated = big.graph.to_dict()
    assert stated == big.graph.unrolled.to_dict()
    assert 12.0 in [node["scale"] / scale for node, scale in zip(stated["nodes"][::-1], _scales(network), strict=False)]


def _scales(network: Network) -> list[float]:
    last = [node.scale for node in network.graph.layers[::-1]]
    return [1.0, *last] if len(scaled(network).graph.layers) > len(last) else last


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("network", each({"residual": NETWORKS["residual"], "elman-rnn": NETWORKS["elman-rnn"]}))
def test_what_is_no_scale(network, alpha):
    with pytest.raises(InputError, match="alpha, the scale of the outputs, must be a number above 0"):
        scaled(network, alpha)


BEGIN: dict[str, Any] = {"fully-connected": FullyConnected(3, 10, 2, TANH, start="doubled"), **MIRRORED}
BEGIN |= {f"{name}-zero": network for name, network in ZEROS.items()}


@pytest.mark.parametrize("network", each(BEGIN, slow=["residual-outputs", "conv-residual-outputs", "deep-rnn"]))
def test_the_trajectory_is_that_of_targets_divided(network):
    """alpha f with the step size eta / alpha² and targets y; f with eta and targets y / alpha."""
    data = _data(network, 3)
    apart = dataclasses.replace(data, y=data.y / ALPHA)
    one = wp.train(network, apart, wp.Recipe(steps=15, step_size=0.05))
    big = wp.train(scaled(network), data, wp.Recipe(steps=15, step_size=0.05 / ALPHA**2))
    for name, weight in one.params.items():
        np.testing.assert_allclose(big.params[name], weight, rtol=1e-9, atol=1e-12)
    assert any(not np.array_equal(one.initial[name], one.params[name]) for name in network.trained_names)
    assert big.loss == pytest.approx(ALPHA**2 * one.loss, rel=1e-9)


AT_ONCE: dict[str, Any] = {
    "fully-connected": FullyConnected(3, 32, 2, TANH, start="doubled"),
    "residual": Residual(3, 32, 2, TANH, start="doubled"),
    "residual-zero": Residual(3, 32, 3, TANH, start="zero"),
    "conv-residual": ConvResidual(1, 3, 16, 2, activation=TANH, outputs=2, start="doubled"),
    "deep-relu": DeepReLU(3, 64, 2, start="doubled"),
    "residual-relu": ResidualReLU(3, 64, 2, start="doubled"),
    "elman-rnn": ElmanRNN(3, 64, 3, start="doubled"),
    "deep-rnn": DeepRNN(3, 64, 3, depth=2, start="doubled"),
}
LARGE = 1e6


def _far(network: Network) -> Any:
    """Targets that are too far at the scale 1."""
    data = _data(network, 3)
    return dataclasses.replace(data, y=100 * data.y)


@pytest.mark.parametrize("network", each(AT_ONCE))
def test_the_initial_weights_have_a_proof_at_a_large_scale(network, tmp_path):
    """Theorem 1 before training, of ReLU networks with fixed patterns; and not at the scale 1 of these narrow ones."""
    big, data = scaled(network, LARGE), _far(network)
    attempt = certify(Problem(big, data).at(big.init(0)))
    assert attempt.certificate is not None, attempt
    verdict = verify(attempt.certificate.save(tmp_path / "certificate"))
    assert verdict.answer == "proved", verdict.reason
    assert not certify(Problem(network, data).at(network.init(0)), level="float64").passed


def _with_scale_times(document: dict[str, Any], factor: float) -> dict[str, Any]:
    """Return the document with the scale of the outputs multiplied: that of the nodes that are read out."""
    changed = copy.deepcopy(document)
    for site in changed["network"]["sites"]:
        changed["network"]["nodes"][site]["scale"] *= factor
    return changed


@pytest.mark.parametrize("network", each(AT_ONCE))
def test_a_lie_about_the_scale_is_seen(network, tmp_path):
    """Another scale in the stored graph: not proved; and where it is next to the true one, said in the formula."""
    big, data = scaled(network, LARGE), _far(network)
    attempt = certify(Problem(big, data).at(big.init(0)), Descent(rooms=(0.1,)))
    assert attempt.certificate is not None
    document, arrays = parts(attempt.certificate.save(tmp_path / "certificate"))
    told = verify(put(tmp_path / "same", document, arrays, digests=True))
    assert told.answer == "proved"
    for factor in (1e-5, 0.5, 2.0):
        verdict = verify(put(tmp_path / "lie", _with_scale_times(document, factor), arrays, digests=True))
        assert verdict.answer == "not proved", factor
    for factor in (1 - 1e-12, 1 + 1e-12):
        lie = _with_scale_times(document, factor)
        verdict = verify(put(tmp_path / "near", lie, arrays, digests=True))
        assert verdict.answer in ("proved", "not proved")
        if verdict.answer == "proved":
            assert repr(lie["network"]["nodes"][lie["network"]["sites"][-1]]["scale"]) in verdict.statement
            assert verdict.statement != told.statement


@pytest.mark.parametrize("network", each({k: AT_ONCE[k] for k in ("residual", "conv-residual", "residual-zero")}))
def test_followed_steps_with_a_scale_are_verified(network, tmp_path):
    """And not with another scale, another seed's start, the papers' start, or one weight of the start moved."""
    big = scaled(network, 10.0)
    run = wp.train(big, _data(network, 3), wp.Recipe(steps=12))
    attempt = certify_from_start(run)
    assert attempt.certificate is not None, attempt
    document, arrays = parts(attempt.certificate.save(tmp_path / "certificate"))
    verdict = verify(put(tmp_path / "same", document, arrays, digests=True))
    assert verdict.answer == "proved", verdict.reason
    assert "in 12 steps" in verdict.statement
    for factor in (0.1, 1 - 1e-4, 1 + 1e-4, 10.0):
        lie = _with_scale_times(document, factor)
        assert verify(put(tmp_path / "lie", lie, arrays, digests=True)).answer == "not proved", factor
    others = {"seed": big.init(1), "normal": dataclasses.replace(big, start="normal").init(0)}
    first = np.asarray(big.init(0)["W1"]).copy()
    first[0, 0] += 1e-2
    for name, start in {**others, "moved": {**big.init(0), "W1": first}}.items():
        told = {key: np.asarray(start[key.removeprefix("start/")]) for key in arrays if key.startswith("start/")}
        verdict = verify(put(tmp_path / name, document, {**arrays, **told}, digests=True))
        assert verdict.answer == "not proved", name


def sketched(start: str, alpha: float = 1.0) -> Network:
    """A convolution, a skip, an average, a dense layer."""
    sketch = Sketch((2, 4, 4))
    first = sketch.conv(sketch.input, 4, 3, "tanh")
    second = sketch.conv(first, 4, 3, "tanh", skip=first)
    dense = sketch.dense(sketch.average(second, 2), 6, "softplus")
    return sketch.read_out(dense, 2, bias=False, start=start, alpha=alpha)


@pytest.mark.parametrize("start", ["doubled", "zero"])
def test_a_sketch_begins_at_zero(start):
    """Outputs 0 whatever the input, the normal start's not; every hidden weight moves the output of pairs."""
    network, x = sketched(start), np.random.default_rng(0).standard_normal((3, 2, 4, 4))
    params = {name: np.asarray(weight) for name, weight in network.init(1).items()}
    assert np.abs(np.asarray(network(params, x))).max() < 1e-15
    assert np.abs(np.asarray(sketched("normal")(sketched("normal").init(1), x))).max() > 1e-3
    blocks = gram(network, params, x, by_weight=True).blocks
    moved = [name for name in params if name[0] == "W" and np.abs(np.asarray(blocks[name])).max() > 1e-20]
    assert moved == (["W1", "W2", "W3", "W4"] if start == "doubled" else ["W4"])
    assert from_config(to_config(network)) == network


def test_a_sketch_has_a_scale():
    one, ten = sketched("normal"), sketched("normal", 10.0)
    x, params = np.random.default_rng(0).standard_normal((3, 2, 4, 4)), one.init(1)
    np.testing.assert_allclose(ten(params, x), 10 * np.asarray(one(params, x)), rtol=1e-13)
    assert from_config(to_config(ten)) == ten


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": 3.0}, "alpha = 3 multiplies a read-out without a bias: use bias=False"),
        ({"start": "positive"}, "the start of a network of your own must be normal, doubled or zero, got 'positive'"),
        ({"start": "doubled"}, "the doubled start needs an even width, got 5: use 6"),
    ],
)
def test_what_a_sketch_refuses(options, words):
    sketch = Sketch(3)
    with pytest.raises(InputError, match=words):
        sketch.read_out(sketch.dense(sketch.input, 5, "tanh"), 1, **options)


def test_an_input_has_no_pairs():
    sketch = Sketch(4)
    with pytest.raises(InputError, match="layer 1 adds an input: that has none"):
        sketch.read_out(sketch.dense(sketch.input, 4, "tanh", skip=sketch.input), 1, start="doubled")
    sketch = Sketch((2, 4))
    with pytest.raises(InputError, match="the read-out reads an input: that has none"):
        sketch.read_out(sketch.average(sketch.input, 2), 1, start="doubled")
