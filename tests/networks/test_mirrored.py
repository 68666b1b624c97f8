"""Starts at output zero of every network but the fully-connected one: mirrored pairs of units, read-outs of zeros."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import wideproof as wp
from tests.cases import each
from wideproof.certificates import certify_from_start
from wideproof.data import Dataset, ImageDataset, SequenceDataset
from wideproof.errors import InputError
from wideproof.kernels import gram, limit_gram
from wideproof.networks import (
    ConvResidual,
    DeepReLU,
    DeepRNN,
    Described,
    ElmanRNN,
    Network,
    Residual,
    ResidualReLU,
    from_config,
    get_activation,
    to_config,
)
from wideproof_verify import verify

TANH = get_activation("tanh")
EVERY = ("recurrent", "input", "output")
MIRRORED: dict[str, Any] = {
    "residual": Residual(3, 10, 3, TANH, start="doubled"),
    "residual-outputs": Residual(3, 10, 3, TANH, outputs=10, start="doubled"),
    "residual-one-layer": Residual(3, 10, 1, TANH, start="doubled"),
    "conv-residual": ConvResidual(2, 6, 6, 3, start="doubled"),
    "conv-residual-outputs": ConvResidual(2, 4, 6, 2, outputs=3, start="doubled"),
    "deep-relu": DeepReLU(3, 10, 3, start="doubled"),
    "deep-relu-widths": DeepReLU(3, (12, 16, 14), 3, trained=("hidden", "output"), start="doubled"),
    "residual-relu": ResidualReLU(3, 10, 2, start="doubled"),
    "elman-rnn": ElmanRNN(3, 10, 4, outputs=2, start="doubled"),
    "elman-rnn-all": ElmanRNN(3, 10, 4, trained=EVERY, start="doubled"),
    "deep-rnn": DeepRNN(3, 10, 4, depth=3, outputs=2, start="doubled"),
}


def _inputs(network: Network, n: int = 4, seed: int = 0) -> np.ndarray:
    """Random examples of norm 1, or tokens of norm 1."""
    x = np.random.default_rng(seed).standard_normal((n, *network.input_shape))
    axes = (2,) if network.data_kind == "sequences" else tuple(range(1, x.ndim))
    return x / np.sqrt(np.sum(x * x, axis=axes, keepdims=True))


def _drawn(network: Network, seed: int = 0) -> dict[str, np.ndarray]:
    return {name: np.asarray(weight) for name, weight in network.init(seed).items()}


@pytest.mark.parametrize("network", each(MIRRORED))
def test_outputs_begin_at_zero_and_units_come_in_pairs(network):
    """Up to rounding: the sums of a product do not run over one pair after the other."""
    params, x = _drawn(network, 3), _inputs(network)
    assert np.abs(np.asarray(network(params, x))).max() < 1e-14
    for layer in map(np.asarray, network.features(params, x)):
        layer = layer if network.data_kind != "images" else layer.swapaxes(1, 2)
        half = layer.shape[-1] // 2
        np.testing.assert_allclose(layer[..., :half], layer[..., half:], rtol=1e-13, atol=1e-15)
        assert len(np.unique(np.round(layer[0].reshape(-1, 2 * half)[-1], 9))) > 1
    plain = dataclasses.replace(network, start="normal")
    assert np.abs(np.asarray(plain(plain.init(3), x))).max() > 1e-3


@pytest.mark.parametrize("network", each(MIRRORED))
def test_the_weights_are_those_of_the_formula(network):
    """The swap of the two halves, written out as a permutation of rows and columns."""
    params, laws = _drawn(network), dataclasses.replace(network, start="normal").laws()
    assert {name: weight.shape for name, weight in params.items()} == {name: law.shape for name, law in laws.items()}
    *hidden, read_out = params
    first = next(name for name in hidden if name in ("W1", "A", "A1") and (name != "W1" or "A1" not in hidden))

    def swapped(weight, axis, group=1):
        units = weight.shape[axis] // group
        order = np.roll(np.arange(units), units // 2)
        return np.take(weight, (order[:, None] * group + np.arange(group)).ravel(), axis=axis)

    own, other = (1, 0) if network.units == "columns" else (0, 1)
    window = getattr(network, "filter_size", 1)
    for name in hidden:
        weight = params[name]
        if name == first:
            np.testing.assert_array_equal(swapped(weight, own), weight)
        else:
            np.testing.assert_array_equal(swapped(swapped(weight, own), other, window), weight)
            assert not np.array_equal(swapped(weight, own), weight)
        assert len(np.unique(weight)) == weight.size // 2
    axis = -2 if network.data_kind == "images" else -1
    np.testing.assert_array_equal(swapped(params[read_out], axis), -params[read_out])
    if read_out != "v":
        size = np.sqrt(laws[read_out].variance)
        np.testing.assert_allclose(np.abs(params[read_out]), size, rtol=1e-15)
        assert len(np.unique(params[read_out].reshape(-1)[: params[read_out].size // 2])) <= 2


def test_every_entry_of_a_hidden_weight_has_the_papers_variance():
    network = Residual(40, 200, 2, TANH, start="doubled")
    for weight in (_drawn(network)["W1"], _drawn(network)["W2"]):
        error = np.sqrt(2 / (weight.size / 2))  # entries come in equal pairs
        assert abs(np.mean(weight**2) - 1) < 4 * error


WIDE: dict[str, Any] = {
    "residual": Residual(3, 512, 3, TANH, start="doubled"),
    "conv-residual": ConvResidual(2, 4, 256, 2, start="doubled"),
    "deep-relu": DeepReLU(3, 512, 2, start="doubled"),
    "residual-relu": ResidualReLU(3, 512, 2, start="doubled"),
    "elman-rnn": ElmanRNN(3, 512, 3, start="doubled"),
    "deep-rnn": DeepRNN(3, 512, 3, depth=2, start="doubled"),
}


@pytest.mark.parametrize("network", each(WIDE))
def test_the_limit_is_the_papers(network):
    """The mean over seeds is within its standard errors of the limit, and of each weight's part of it."""
    x, names = _inputs(network, 3), network.trained_names
    limit = np.asarray(limit_gram(dataclasses.replace(network, start="normal"), x))
    np.testing.assert_array_equal(np.asarray(limit_gram(network, x)), limit)
    grams = np.array([np.asarray(gram(network, network.init(seed), x).matrix) for seed in range(64)])
    error = grams.std(axis=0, ddof=1) / 8
    assert np.max(np.abs(grams.mean(axis=0) - limit) / error) < 4.5
    one = gram(network, network.init(0), x, by_weight=True).blocks
    part = {name: np.trace(np.asarray(limit_gram(network, x, names=[name]))) for name in names}
    assert all(0.5 < np.trace(np.asarray(one[name])) / part[name] < 2 for name in names)


def test_units_that_are_no_pairs_are_seen():
    """Planted: without equal rows in the first weight the output is not zero."""
    network = Residual(3, 64, 3, TANH, start="doubled")
    x, params = _inputs(network), _drawn(network)
    bad = params | {"W1": _drawn(dataclasses.replace(network, start="normal"))["W1"]}
    assert np.abs(np.asarray(network(bad, x))).max() > 0.01


def test_pairs_in_the_last_layer_alone_leave_weights_below_without_a_gradient():
    """The first weight moves the output of mirrored pairs, and nothing of pairs that read independent units."""
    network = DeepReLU(3, 64, 2, start="doubled")
    x, mirrored = _inputs(network), _drawn(network)
    plain = _drawn(dataclasses.replace(network, start="normal"))
    last = plain | {"W2": np.concatenate([plain["W2"][:, :32]] * 2, axis=1)}
    move = 0.01 * np.random.default_rng(0).standard_normal((3, 64))
    there, here = (np.asarray(network(p | {"W1": p["W1"] + move}, x)) for p in (mirrored, last))
    assert np.abs(there).min() > 1e-4
    assert np.abs(here).max() < 1e-14


@pytest.mark.parametrize("network", each(MIRRORED))
def test_descriptions_keep_it(network):
    assert from_config(to_config(network)) == network
    plain = dataclasses.replace(network, start="normal")
    old = {key: value for key, value in to_config(plain).items() if key != "start"}
    assert from_config(old) == plain
    assert "start" not in str(plain)
    assert "start=doubled" in str(network)
    one, again = _drawn(network, 7), _drawn(network, 7)
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert not np.array_equal(one[next(iter(one))], _drawn(network, 8)[next(iter(one))])
    assert {weight.dtype for weight in map(np.asarray, network.init(7, "float32").values())} == {np.dtype("float32")}


@pytest.mark.parametrize("name", ["residual", "conv-residual-outputs"])
def test_a_network_of_ones_own_can_have_it(name):
    network = MIRRORED[name]
    own = Described(network.graph, tuple(network.laws().items()))
    again = from_config(to_config(own))
    assert again == own
    assert all(np.array_equal(again.init(2)[key], weight) for key, weight in _drawn(network, 2).items())


def _data(network: Network, n: int, seed: int = 0) -> Any:
    kind = {"vectors": Dataset, "images": ImageDataset, "sequences": SequenceDataset}[network.data_kind]
    rng, shape = np.random.default_rng(seed), network.output_shape
    y = rng.standard_normal((n, *shape)) if network.data_kind == "sequences" else rng.choice([-1.0, 1.0], (n, *shape))
    return kind(_inputs(network, n, seed), 0.1 * y, "regression")


PROVED: dict[str, Any] = {
    "residual": Residual(3, 64, 2, TANH, start="doubled"),
    "conv-residual": ConvResidual(1, 3, 32, 2, activation=TANH, start="doubled"),
    "residual-zero": Residual(3, 64, 2, TANH, start="zero"),
    "conv-residual-zero": ConvResidual(1, 3, 32, 2, activation=TANH, outputs=2, start="zero"),
}


@pytest.mark.parametrize("network", each(PROVED))
def test_a_certificate_from_such_a_start_is_verified(network, tmp_path):
    run = wp.train(network, _data(network, 3), wp.Recipe(steps=20))
    assert run.records["loss"][0] == pytest.approx(0.5 * np.sum(np.square(run.data.y)), rel=1e-12)
    attempt = certify_from_start(run)
    assert attempt.certificate is not None, attempt
    assert verify(attempt.certificate.save(tmp_path / "certificate")).answer == "proved"


@pytest.mark.parametrize(
    "network", each({key: MIRRORED[key] for key in ("deep-relu", "residual-relu", "elman-rnn", "deep-rnn")})
)
def test_training_goes_down_from_it(network):
    run = wp.train(network, _data(network, 3), wp.Recipe(steps=50))
    assert run.loss < 0.9 * run.records["loss"][0]


ZEROS: dict[str, Any] = {
    "residual": Residual(3, 9, 2, start="zero"),
    "conv-residual": ConvResidual(2, 4, 5, 2, outputs=3, start="zero"),
    "deep-relu": DeepReLU(3, 8, 2, trained=("hidden", "output"), start="zero"),
    "residual-relu": ResidualReLU(3, 8, 2, trained=("output",), start="zero"),
    "elman-rnn": ElmanRNN(3, 7, 4, outputs=2, trained=EVERY, start="zero"),
    "deep-rnn": DeepRNN(3, 7, 4, trained=("output",), start="zero"),
}


@pytest.mark.parametrize("network", each(ZEROS))
def test_a_read_out_of_zeros(network):
    """Outputs are zero to the last bit, hidden weights are the paper's, and training moves the outputs."""
    params, plain = _drawn(network, 1), _drawn(dataclasses.replace(network, start="normal"), 1)
    *hidden, read_out = params
    assert all(np.array_equal(params[name], plain[name]) for name in hidden)
    assert not params[read_out].any()
    assert not np.asarray(network(params, _inputs(network))).any()
    assert from_config(to_config(network)) == network
    run = wp.train(network, _data(network, 3), wp.Recipe(steps=10))
    assert run.loss < run.records["loss"][0]
    with pytest.raises(InputError, match="read-out"):
        limit_gram(network, _inputs(network))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Residual(3, 7, 2, start="doubled"), "needs an even width, got 7: use 8"),
        (lambda: DeepReLU(3, (7, 8), 2, start="doubled"), "needs an even width, got 7: use 8"),
        (lambda: ElmanRNN(3, 8, 2, start="positive"), "the start of elman-rnn must be normal, doubled or zero, got"),
        (lambda: ElmanRNN(3, 8, 2, start="zero"), "add 'output' to what is trained, or take the doubled start"),
        (lambda: ResidualReLU(3, 8, 2, start="zero"), "residual-relu moves only if its output weights are trained"),
        (lambda: ConvResidual(2, 4, 5, 2, start="doubled"), "even width, got 5"),
    ],
)
def test_what_it_is_not_for_is_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()
