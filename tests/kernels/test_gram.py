"""Gram matrices from recorded uses against explicit Jacobians, in one piece and in tiles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.cases import NETWORKS, each, each_network
from tests.networks.derivatives import Derivatives
from wideproof.errors import InputError
from wideproof.kernels import gram, gram_vector, largest_eigenvalue
from wideproof.kernels.contraction import Group, Uses
from wideproof.kernels.finite import finite_kernel
from wideproof.kernels.tiles import need
from wideproof.networks import ConvResidual

EXAMPLES = 4
# One of each kind of contraction.
SOME = {name: NETWORKS[name] for name in ("fully-connected-tanh-outputs", "conv-residual", "deep-relu", "elman-rnn")}


def jacobians(network):
    """Return the Jacobian of all scored outputs with respect to all weights as a function, one block a weight."""
    return lambda params, x: Derivatives(network, x, list(network.laws())).blocks(params)


def close(found, expected, relative=1e-10):
    np.testing.assert_allclose(found, expected, atol=relative * np.abs(expected).max(initial=1e-300), rtol=0)


def values(network):
    """Weights and data by value; the shapes never change, so that each network is compiled once."""
    number = st.floats(-3, 3, allow_nan=False, width=32)
    data = arrays(np.float64, (EXAMPLES, *network.input_shape), elements=number)
    return st.tuples(st.integers(0, 2**31), st.floats(0.1, 2), data)


@pytest.mark.parametrize("network", each_network(slow=["deep-rnn"]))
def test_gram_is_the_jacobian_product_for_every_weight(network):
    names = tuple(network.laws())

    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(values(network))
    def check(drawn):
        seed, scale, x = drawn
        params = {name: scale * weight for name, weight in network.init(seed).items()}
        jacobian = jacobians(network)(params, x)
        found = gram(network, params, x, names=names, by_weight=True)
        for name in names:
            close(found.blocks[name], jacobian[name] @ jacobian[name].T)
        close(found.matrix, sum(j @ j.T for j in jacobian.values()))

    check()


@pytest.mark.parametrize("network", SOME.values(), ids=SOME)
def test_trained_weights_alone_count_and_tiles_change_nothing(network, rng):
    params = network.init(2)
    x = rng.normal(size=(EXAMPLES, *network.input_shape))
    jacobian = jacobians(network)(params, x)
    expected = sum(jacobian[name] @ jacobian[name].T for name in network.trained_names)
    whole = gram(network, params, x)
    assert whole.names == network.trained_names
    close(whole, expected)
    # Memory for tiles of three examples (the second one reaches back), nothing kept.
    kernel = finite_kernel(network, EXAMPLES, network.trained_names, False)
    record, pair = need(kernel, network.as_params(params), jnp.asarray(x))
    close(gram(network, params, x, memory=int(9 * pair + 9 * record) + 1), expected)


@pytest.mark.parametrize("network", each(SOME, slow=["elman-rnn"]))
def test_between_two_sets(network, rng):
    params = network.init(3)
    x, y = (rng.normal(size=(EXAMPLES, *network.input_shape)) for _ in range(2))
    left, right = jacobians(network)(params, x), jacobians(network)(params, y)
    expected = np.sum([left[name] @ right[name].T for name in network.trained_names], axis=0)
    close(gram(network, params, x, y), expected)
    # A set of another size: one tile each way.
    close(gram(network, params, x, y[:1]), expected[:, : expected.shape[1] // EXAMPLES])


@pytest.mark.parametrize("network", each_network(slow=["deep-rnn"]))
def test_products_without_the_matrix(network, rng):
    params = network.init(2)
    x = rng.normal(size=(EXAMPLES, *network.input_shape))
    matrix = np.asarray(gram(network, params, x))
    v = rng.normal(size=matrix.shape[0])
    close(gram_vector(network, params, x, v), matrix @ v)
    exact = np.linalg.eigvalsh(matrix)[-1]
    found = largest_eigenvalue(network, params, x, iterations=300)
    assert exact * 0.99 <= found <= exact * (1 + 1e-12)


def test_weights_scale_the_rows(rng):
    network = NETWORKS["fully-connected"]
    params, x = network.init(0), rng.normal(size=(4, 5))
    weights = np.array([0.1, 2.0, 0.5, 1.0])
    root = np.sqrt(weights)
    exact = np.linalg.eigvalsh(root[:, None] * gram(network, params, x) * root[None, :])[-1]
    assert largest_eigenvalue(network, params, x, weights=jnp.asarray(weights), iterations=300) == pytest.approx(exact)


def test_structure_that_is_skipped_is_the_time_after_an_output(rng):
    network = NETWORKS["elman-rnn-all"]
    kernel = finite_kernel(network, 9, ("W", "A", "B"), True)
    groups = dict(kernel.uses)
    # Outputs 2..5; the use of W at place p makes step p + 2, of A at place p step p + 1; B at its own step only.
    assert [g.places for g in groups["W"].groups] == [(0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)]
    assert [g.places for g in groups["A"].groups] == [(0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3, 4)]
    assert [g.places for g in groups["B"].groups] == [(1,), (2,), (3,), (4,)]


def test_both_orders_of_contraction_agree(rng):
    u, b = rng.normal(size=(5, 3, 4)), rng.normal(size=(5, 2, 3, 6))
    v, c = rng.normal(size=(7, 3, 4)), rng.normal(size=(7, 2, 3, 6))
    b[:, 0, 2] = c[:, 0, 2] = 0
    everything = (Group((0, 2), (0, 1, 2)),)
    causal = (Group((0, 1), (0, 1)), Group((1, 2), (0, 1, 2)))
    expected = np.einsum("ipa,ikpb,jqa,jlqb->ikjl", u, b, v, c, optimize=True).reshape(10, 14)
    for uses in (Uses("pairs", everything, 3), Uses("pairs", causal, 3), Uses("gradients", everything, 3)):
        left, right = uses.record(jnp.asarray(u), jnp.asarray(b)), uses.record(jnp.asarray(v), jnp.asarray(c))
        close(uses.block(left, right), expected, 1e-14)


@pytest.mark.parametrize("order", ["pairs", "gradients"])
def test_axes_of_one_output_and_one_place_may_be_missing(rng, order):
    u, b, pixels = rng.normal(size=(5, 4)), rng.normal(size=(5, 6)), rng.normal(size=(5, 2, 3, 4))
    one = Uses(order, (Group((0, 1), (0,)),), 1)
    close(one.block(one.record(u, b), one.record(u, b)), (u @ u.T) * (b @ b.T), 1e-14)
    many = Uses(order, (Group((0, 1), tuple(range(6))),), 6)
    record = many.record(pixels, pixels)
    gradients = np.einsum("ipqa,ipqb->iab", pixels, pixels).reshape(5, -1)
    close(many.block(record, record), gradients @ gradients.T, 1e-13)


def test_the_order_is_chosen_by_counted_operations():
    # 6 pixels paired cost 36 (15 + 5) a pair of examples; gradients 75, after 450 an example for making them.
    wide = ConvResidual(channels=2, pixels=6, width=50, depth=3)
    assert dict(finite_kernel(NETWORKS["conv-residual"], 50, ("W2",), False).uses)["W2"].order == "gradients"
    assert dict(finite_kernel(wide, 50, ("W2",), False).uses)["W2"].order == "pairs"
    assert dict(finite_kernel(NETWORKS["elman-rnn"], 50, ("W",), False).uses)["W"].order == "pairs"
    # A read-out of m features and one output: pairs n^2 (m + 1), gradients n m + n^2 m, which is less for m < n.
    plain = dict(finite_kernel(NETWORKS["fully-connected"], 50, ("W2", "a"), False).uses)
    assert (plain["W2"].order, plain["a"].order) == ("pairs", "gradients")


def test_precisions_are_stated_and_rounding_is_within_its_bound(rng):
    network = NETWORKS["residual"]
    params, x = network.init(0), rng.normal(size=(6, 5))
    exact, single = gram(network, params, x), gram(network, params, x, precision="float32")
    assert (exact.precision, single.precision, single.matrix.dtype) == ("float64", "float32", np.float32)
    off = np.linalg.norm(np.asarray(single, float) - exact.matrix, 2)
    assert 0 < off <= single.error
    assert exact.error < 1e-8 * single.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"precision": "half"}, "float64, float32, tf32, got 'half'"),
        ({"names": ["W9"]}, "has the weights W1, W2, W3, a; got W9"),
        ({"names": []}, "has the weights W1, W2, W3, a; got none"),
        ({"memory": 10}, "memory=10 bytes is too small for one tile: a pair of examples needs [0-9]+;"),
        ({"other": np.full((2, 5), np.nan)}, "example 0 has an entry that is not a finite number"),
        ({"other": np.zeros((2, 4))}, r"takes examples of shape \(5,\), got a batch of shape \(2, 4\)"),
    ],
)
def test_misuse(arguments, message):
    network = NETWORKS["fully-connected"]
    with pytest.raises(InputError, match=message):
        gram(network, network.init(0), np.eye(5), **arguments)


def test_tf32_is_for_gpus(rng):
    network = NETWORKS["fully-connected"]
    params, x = network.init(0), rng.normal(size=(6, 5))
    if jax.default_backend() != "gpu":
        with pytest.raises(InputError, match=r"'tf32' names the products of an NVIDIA GPU.*cpu: use 'float32'"):
            gram(network, params, x, precision="tf32")
        return
    found = gram(network, params, x, precision="tf32")
    off = np.linalg.norm(np.asarray(found, float) - gram(network, params, x).matrix, 2)
    assert found.precision == "tf32"
    assert 0 < off <= found.error


def test_a_wrong_weight_is_seen(rng):
    """A planted error: one weight moved by 1e-8 moves the matrix by more than the tolerance of these tests."""
    network = NETWORKS["fully-connected"]
    params, x = network.init(0), rng.normal(size=(4, 5))
    moved = {**params, "W2": params["W2"] + 1e-8 * (np.arange(49).reshape(7, 7) == 3)}
    with pytest.raises(AssertionError):
        close(gram(network, moved, x), gram(network, params, x).matrix)
