"""The starts of the fully-connected network: how they are written, drawn, stored, and refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wideproof as wp
from tests.certificates.making import sphere
from wideproof.certificates import doubled, positive
from wideproof.errors import InputError
from wideproof.kernels import gram, limit_gram
from wideproof.kernels.closed import closed_gram
from wideproof.networks import Described, FullyConnected, from_config, get_activation, to_config
from wideproof.networks.starts import scale_of, written
from wideproof.training import Run, resume, train

TANH = get_activation("tanh")
DEEP = FullyConnected(4, 6, 3, TANH, start="positive(2.5)")


@pytest.mark.parametrize(
    ("given", "stored", "scale"),
    [("normal", "normal", None), ("doubled", "doubled", None),
     ("positive", "positive", 1.0), ("positive(1e-3)", "positive(0.001)", 1e-3),
     ("positive( 7600 )", "positive(7600)", 7600.0), ("positive(1e30)", "positive(1e+30)", 1e30)],
)  # fmt: skip
def test_a_start_is_stored_in_one_way(given, stored, scale):
    assert (written(given), scale_of(stored)) == (stored, scale)
    assert written(stored) == stored


@pytest.mark.parametrize("given", ["negative", "positive()", "positive(x)", "positive(0)", "positive(-1)", "",
                                   "positive(inf)", "positive(nan)", "normal(2)"])  # fmt: skip
def test_what_is_no_start(given):
    with pytest.raises(InputError, match=r"the start must be normal, doubled, zero, positive or positive\(A\)"):
        FullyConnected(3, 4, 2, TANH, start=given)


def test_the_weights_are_those_of_the_formula():
    """Two routes: the laws of the network, and the formula written out."""
    drawn = DEEP.init(seed=5)
    assert list(drawn) == ["W1", "W2", "W3", "a"]
    np.testing.assert_array_equal(drawn["W1"], np.zeros((6, 4)))
    for name in ("W2", "W3"):
        np.testing.assert_array_equal(drawn[name], np.sqrt(6) * np.eye(6))
    np.testing.assert_array_equal(drawn["a"], np.full(6, 2.5))
    helper = positive(FullyConnected(4, 6, 3, TANH), 2.5)
    assert all(np.array_equal(helper[name], drawn[name]) for name in drawn)
    assert DEEP.init(0, "float32")["W2"].dtype == np.float32


def test_the_gram_matrix_in_closed_form():
    x = sphere(3, 4, 0)
    there, closed = gram(DEEP, DEEP.init(), x, by_weight=True), closed_gram(DEEP, x)
    np.testing.assert_allclose(closed.total, there.matrix, rtol=1e-12)
    np.testing.assert_array_equal(closed.read_out, np.asarray(there.blocks["a"]))


def test_there_is_no_limit_but_the_start_itself():
    with pytest.raises(InputError, match="do not start as normal numbers"):
        limit_gram(DEEP, sphere(3, 4, 0))


def test_the_doubled_start_is_drawn_whatever_the_network_starts_from():
    plain = FullyConnected(4, 6, 2, TANH)
    one, other = doubled(plain, 3), doubled(dataclasses.replace(plain, start="positive"), 3)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_descriptions_keep_it():
    assert from_config(to_config(DEEP)) == DEEP
    old = {key: value for key, value in to_config(FullyConnected(4, 6, 3)).items() if key != "start"}
    assert from_config(old) == FullyConnected(4, 6, 3)
    assert "start" not in str(FullyConnected(4, 6, 3))
    assert str(DEEP).endswith("start=positive(2.5))")
    assert hash(DEEP) != hash(dataclasses.replace(DEEP, start="normal"))
    own = Described(DEEP.graph, tuple(DEEP.laws().items()))
    again = from_config(to_config(own))
    assert again == own
    assert all(np.array_equal(again.init(0)[name], weight) for name, weight in DEEP.init(0).items())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FullyConnected(3, 4, 2, TANH, outputs=2, start="positive"), "with one output, got 2 outputs"),
        (lambda: FullyConnected(3, 4, 2, start="positive"), "0 at 0, such as tanh or erf, got softplus"),
        (lambda: FullyConnected(3, 4, 2, get_activation("relu"), start="positive"), "smooth activation .* got relu"),
        (lambda: wp.build("residual", (3,), (), width=4, depth=2, start="positive"), "must be normal, doubled or zero"),
        (lambda: wp.build("deep-relu", (3,), (), width=4, depth=2, start="positive"), "start of deep-relu must be"),
    ],
)
def test_what_it_is_not_for_is_one_sentence(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_a_run_resumes_to_the_same_bits(tmp_path):
    data = wp.load("sphere:n=4,d=6,separation=0.5,seed=1")
    network = wp.build("fully-connected", data.input_shape, data.target_shape, width=8, depth=3, activation="tanh",
                       start="positive(30)")  # fmt: skip
    whole = train(network, data, wp.Recipe(steps=30), folder=tmp_path / "whole")
    train(network, data, wp.Recipe(steps=11), folder=tmp_path / "part")
    parts = resume(tmp_path / "part", steps=30)
    assert Run.load(tmp_path / "part").network == network
    assert parts.network.start == "positive(30)"  # pyright: ignore[reportAttributeAccessIssue]
    assert all(np.array_equal(parts.params[name], whole.params[name]) for name in whole.params)
    assert (whole.initial["W1"] == 0).all()
    assert whole.loss < whole.records["loss"][0] == data.n / 2  # all outputs begin at zero, labels are -1 and 1


@pytest.mark.parametrize(("depth", "outputs"), [(1, 1), (1, 3), (3, 2)])
def test_the_doubled_start_begins_at_zero(depth, outputs):
    """Hidden units in pairs with output weights 1 and -1, and every weight has a part in the Gram matrix."""
    network = FullyConnected(4, 10, depth, TANH, outputs=outputs, start="doubled")
    params = {name: np.asarray(weight) for name, weight in network.init(3).items()}
    first, read_out = params["W1"], params["a"].reshape(outputs, -1)
    np.testing.assert_array_equal(first[:5], first[5:])
    for h in range(2, depth + 1):
        np.testing.assert_array_equal(params[f"W{h}"], np.roll(params[f"W{h}"], (5, 5), (0, 1)))
    np.testing.assert_array_equal(read_out[:, :5], -read_out[:, 5:])
    assert set(np.abs(read_out).ravel()) == {1.0}
    assert len({tuple(row) for row in first}) == 5
    x = np.random.default_rng(0).standard_normal((6, 4))
    assert np.abs(np.asarray(network(params, x))).max() < 1e-15 * 10
    y = np.random.default_rng(1).standard_normal((6, outputs)).squeeze()
    slopes = jax.grad(lambda w: jnp.sum(network(w, x) * y))(params)
    assert min(float(np.linalg.norm(slope)) for slope in slopes.values()) > 1e-3
    again = network.init(3)
    assert all(np.array_equal(params[name], again[name]) for name in params)


def test_the_doubled_start_has_the_papers_limit():
    """At infinite width the same matrix; at finite width the mean over seeds is within its standard errors of it."""
    x = np.random.default_rng(1).standard_normal((4, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    paper, doubled_ = FullyConnected(3, 512, 1), FullyConnected(3, 512, 1, start="doubled")
    limit = np.asarray(limit_gram(paper, x).matrix)
    np.testing.assert_array_equal(limit, np.asarray(limit_gram(doubled_, x).matrix))
    grams = np.array([gram(doubled_, doubled_.init(seed), x).matrix for seed in range(64)])
    error = grams.std(axis=0, ddof=1) / np.sqrt(len(grams))
    assert np.max(np.abs(grams.mean(axis=0) - limit) / error) < 4


def test_the_doubled_start_needs_pairs():
    with pytest.raises(InputError, match="needs an even width, got 7: use 8"):
        FullyConnected(3, 7, 1, start="doubled")
