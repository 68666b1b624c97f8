"""Gram matrices of plain JAX functions: blocks against one Jacobian, and against the structured way of networks."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.cases import NETWORKS
from wideproof.errors import InputError
from wideproof.kernels import Gram, gram, limit_gram, predict, spectrum
from wideproof.kernels.callables import as_function
from wideproof.kernels.jacobians import PIECE, rounding


@partial(jax.tree_util.register_dataclass, data_fields=["weight", "bias", "rounds"], meta_fields=[])
@dataclass
class Layer:
    weight: object
    bias: object
    rounds: object


def mlp(params, x):
    """Two outputs from a nested tree: a registered dataclass, a tuple in a dictionary, and an integer that counts."""
    hidden, (out, scale) = params["hidden"], params["head"]
    h = jnp.tanh(x @ hidden.weight + hidden.bias[None, :] * hidden.rounds)
    return jnp.square(scale) * (h @ out)


def tree(rng, width=6):
    layer = Layer(rng.normal(size=(3, width)), rng.normal(size=width), np.array(2))
    return {"hidden": layer, "head": (rng.normal(size=(width, 2)), np.float64(0.7))}


def filters(params, x):
    """A convolution, and a loop over steps."""
    image = lax.conv_general_dilated(x[:, None, :], params["filter"], (1,), "SAME")
    return lax.scan(lambda c, row: (jnp.tanh(c + row), None), jnp.zeros((len(x), 2)), jnp.moveaxis(image, 2, 0))[0]


def by_one_jacobian(function, params, x, other=None):
    """Return the matrix from the Jacobian of everything at once."""
    leaves, structure = jax.tree.flatten(params)
    places = [k for k, leaf in enumerate(leaves) if np.asarray(leaf).dtype.kind == "f"]

    def rows(x):
        def outputs(weights):
            full = [jnp.asarray(leaf) for leaf in leaves]
            for k, weight in zip(places, weights, strict=True):
                full[k] = weight
            return function(structure.unflatten(full), jnp.asarray(x)).ravel()

        found = jax.jacrev(outputs)([jnp.asarray(leaves[k]) for k in places])
        return np.concatenate([block.reshape(block.shape[0], -1) for block in found], axis=1)

    return rows(x) @ rows(x if other is None else other).T


def close(found, expected, relative=1e-13):
    np.testing.assert_allclose(found, expected, atol=relative * np.abs(expected).max(), rtol=0)


def test_blocks_are_the_product_of_one_jacobian(rng):
    params, x = tree(rng), rng.normal(size=(7, 3))
    found = gram(mlp, params, x)
    assert found.names == ("head/0", "head/1", "hidden/weight", "hidden/bias")
    assert (found.source, found.precision, found.shape, found.singular) == ("finite", "float64", (14, 14), "")
    close(found, by_one_jacobian(mlp, params, x))
    np.testing.assert_array_equal(found.matrix, found.matrix.T)


def test_convolutions_and_loops(rng):
    params, x = {"filter": rng.normal(size=(2, 1, 3))}, rng.normal(size=(5, 8))
    close(gram(filters, params, x), by_one_jacobian(filters, params, x))


SLOWER = [pytest.param(name, marks=pytest.mark.slow) for name in ("conv-residual", "elman-rnn")]


@pytest.mark.parametrize("name", ["fully-connected-tanh-outputs", *SLOWER])
def test_a_network_as_a_plain_function(name, rng):
    network = NETWORKS[name]
    params, x = network.init(1), rng.normal(size=(5, *network.input_shape))
    own = gram(network, params, x)
    plain = gram(lambda p, x: network.scored(network(p, x)), params, x, names=own.names)
    assert set(plain.names) == set(own.names)
    close(plain, own.matrix)
    assert np.linalg.norm(plain.matrix - own.matrix, 2) <= plain.error + own.error


def test_a_network_by_its_own_call_goes_by_its_layers(rng):
    network = NETWORKS["fully-connected"]
    params, x = network.init(1), rng.normal(size=(4, 5))
    own = gram(network, params, x)
    assert gram(network.__call__, params, x).error == own.error
    with pytest.raises(InputError, match="fully-connected takes batches"):
        gram(network, params, x, batched=False)


def test_memory_decides_how_many_blocks_and_nothing_else(rng):
    params, x = tree(rng), rng.normal(size=(9, 3))
    whole = gram(mlp, params, x)
    with pytest.raises(InputError, match="2 outputs by 37 parameters take 592 for one example") as refused:
        gram(mlp, params, x, memory=100)
    least = int(str(refused.value).split("needs ")[1].split(";")[0])
    for memory in (least, least + 3000, 3 * least):
        close(gram(mlp, params, x, memory=memory), whole.matrix, 1e-15)
    with pytest.raises(InputError, match=f"memory={least - 1} bytes is too small"):
        gram(mlp, params, x, memory=least - 1)


def test_between_two_sets(rng):
    params, x, other = tree(rng), rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    found = gram(mlp, params, x, other)
    expected = by_one_jacobian(mlp, params, x, other)
    close(found, expected)
    left, right = (np.trace(by_one_jacobian(mlp, params, side)) for side in (x, other))
    assert found.error == pytest.approx(rounding(18 + 4, "float64") * np.sqrt(left * right))
    assert gram(mlp, params, x, x).singular == ""


def test_names_choose_leaves_and_parts_add_up(rng):
    params, x = tree(rng), rng.normal(size=(4, 3))
    whole = gram(mlp, params, x, by_weight=True)
    assert tuple(whole.blocks) == whole.names
    close(sum(whole.blocks.values()), whole.matrix, 1e-15)
    for names, chosen in (
        (["hidden"], ("hidden/weight", "hidden/bias")),
        (["*/bias", "head/0"], ("head/0", "hidden/bias")),
    ):
        part = gram(mlp, params, x, names=names)
        assert part.names == chosen
        close(part, sum(whole.blocks[name] for name in chosen))
    with pytest.raises(InputError, match=r"leaves head/0, head/1, hidden/weight, hidden/bias; got W9"):
        gram(mlp, params, x, names=["W9"])
    with pytest.raises(InputError, match="; got none"):
        gram(mlp, params, x, names=[])


def test_one_example_at_a_time_and_trees_of_examples(rng):
    params, x = tree(rng), rng.normal(size=(5, 3))
    whole = gram(mlp, params, x)
    close(gram(lambda p, one: mlp(p, one[None])[0], params, x, batched=False), whole.matrix, 1e-15)
    table, places = rng.normal(size=(4, 2)), np.array([0, 3, 3, 1])

    def embedded(params, x):
        return (params[x["token"]] * x["weight"]).sum(axis=1)

    tokens = {"token": places, "weight": rng.normal(size=(4, 2))}
    found = gram(embedded, table, tokens)
    assert found.names == ("params",)
    close(found, (places[:, None] == places) * (tokens["weight"] @ tokens["weight"].T))
    tokens["weight"][2] = tokens["weight"][1]
    assert gram(embedded, table, tokens).singular.startswith("examples 1 and 2 are equal")


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_rounding_is_within_its_radius_and_the_radius_is_not_that_of_one_long_sum(precision, rng):
    """The Jacobian of a linear function is its input, so that the products are all that rounds."""
    x = rng.normal(size=(12, 5 * PIECE)).astype(np.float32)
    found = gram(lambda w, x: x @ w, np.zeros(x.shape[1]), x, precision=precision)
    exact = x.astype(np.longdouble) @ x.astype(np.longdouble).T
    off = np.linalg.norm((found.matrix - exact).astype(np.float64), 2)
    unit = {"float64": 2.0**-53, "float32": 2.0**-24}[precision]
    assert 0 < off <= found.error
    assert found.error < 0.3 * x.shape[1] * unit * float(np.trace(exact))
    assert found.matrix.dtype == np.dtype(precision)


def test_float32_is_near_float64(rng):
    params, x = tree(rng), rng.normal(size=(6, 3))
    exact, single = gram(mlp, params, x), gram(mlp, params, x, precision="float32")
    assert single.precision == "float32"
    assert 0 < np.linalg.norm(np.asarray(single, float) - exact.matrix, 2) < 10 * single.error
    assert exact.error < 1e-8 * single.error


class TestVerdicts:
    """Positive definite, singular for a reason, or undecided."""

    def test_positive_definite(self, rng):
        params, x = tree(rng, width=30), rng.normal(size=(6, 3))
        found = gram(mlp, params, x)
        assert spectrum(found).positive_definite
        assert "singular" not in str(found)

    @pytest.mark.parametrize("precision", ["float64", "float32"])
    def test_equal_examples(self, precision, rng):
        params, x = tree(rng, width=30), rng.normal(size=(9, 3))
        x[7] = x[3]
        found = gram(mlp, params, x, precision=precision)
        assert found.singular == "examples 3 and 7 are equal, and so are their rows: remove one of them"
        seen = spectrum(found)
        assert seen.verdict == f"singular: {found.singular}"
        assert (seen.positive_definite, seen.decided) == (False, False)
        assert str(found).endswith(f"singular: {found.singular}")

    def test_equal_examples_of_a_network_and_of_its_limit(self, rng):
        network = NETWORKS["deep-relu"]
        x = rng.normal(size=(4, 5))
        x[2] = x[0]
        for found in (gram(network, network.init(0), x), limit_gram(network, x)):
            assert spectrum(found).verdict.startswith("singular: examples 0 and 2 are equal")
        assert gram(network, network.init(0), x, x).singular == ""

    def test_what_is_equal_in_float32_only_is_undecided(self, rng):
        params, x = tree(rng, width=30), rng.normal(size=(9, 3))
        x[7] = np.nextafter(x[3], np.inf)
        found = gram(mlp, params, x, precision="float32")
        assert found.singular == ""
        assert spectrum(found).verdict.startswith("undecided: ")

    def test_more_rows_than_parameters(self, rng):
        found = gram(lambda w, x: x @ w, np.ones(3), rng.normal(size=(5, 3)))
        assert spectrum(found).verdict == "singular: 5 rows are gradients by 3 parameters, so the rank is at most 3"

    def test_what_rounding_makes_indefinite_is_undecided(self, rng):
        x = rng.normal(size=(40, 30)) @ rng.normal(size=(30, 200))
        found = gram(lambda w, x: x @ w, np.zeros(200), x, precision="float32")
        assert np.linalg.eigvalsh(found.matrix.astype(float))[0] < 0
        verdict = spectrum(found).verdict
        assert verdict.startswith("undecided: ")
        assert not any(word in verdict for word in ("singular", "indefinite", "positive definite"))
        planted = Gram(found.matrix, found.names, "finite", "float32", "cpu", error=0.0)
        assert spectrum(planted).verdict.startswith("indefinite")


def test_from_a_function_to_the_course_of_gradient_descent(rng):
    """A linear model keeps its Gram matrix, so that the prediction is what gradient descent does."""
    x, y, w = rng.normal(size=(5, 8)), rng.normal(size=5), rng.normal(size=8)

    def function(w, x):
        return jnp.tanh(x) @ w

    found = gram(function, w, x)
    step = 1 / spectrum(found).largest.value
    course = predict(found, y, start=function(w, x), step_size=step)
    for _ in range(20):
        w = w + step * np.tanh(x).T @ (y - np.tanh(x) @ w)
    np.testing.assert_allclose(course.outputs(20), np.tanh(x) @ w, rtol=1e-10)


def constant(params, x):
    return x @ params


@pytest.mark.parametrize(
    ("function", "params", "arguments", "message"),
    [
        (constant, np.ones(3), {"precision": "half"}, "float64, float32, tf32, got 'half'"),
        (constant, np.array([1, 2, 3]), {}, "no floating-point leaf among 1"),
        (constant, {"w": np.ones(3), "act": np.tanh}, {}, "the leaf act of the parameters is a ufunc"),
        (constant, np.ones(3) + 1j, {}, "the leaf params of the parameters is complex"),
        (constant, np.ones(3), {"other": np.full((2, 3), np.nan)}, "example 0 has an entry that is not a finite"),
        (constant, np.full(3, np.inf), {}, "the outputs of example 0 are not finite"),
        (lambda w, x: (x @ w)[:-1], np.ones(3), {}, r"returns shape \(3,\) for x of shape \(4, 3\).* 4 rows"),
        (lambda w, x: x @ w @ x.T @ w, np.ones((3, 3)), {}, r"called with parameters \(3, 3\) and x of shape \(4, 3\)"),
        (lambda w, x: np.tanh(np.asarray(x)) @ w, np.ones(3), {}, "it raised TracerArrayConversionError"),
        (lambda w, x: (x @ w, x), np.ones(3), {}, "must return one array"),
        (lambda w, x: (x @ w).astype(jnp.float32), np.ones(3), {}, "returns float32.*use precision='float32'"),
        (lambda w, x: x @ w - (x @ w).mean(), np.ones(3), {}, "examples 0 and 3 change by .* in one batch"),
        (lambda w, x: (x @ w)[:, None][:, :0], np.ones(3), {}, "has no outputs"),
        (lambda w, x: jnp.sqrt(jnp.abs(x @ w)), np.zeros(3), {}, "the gradient of example 0 is not finite"),
    ],
)
def test_misuse(function, params, arguments, message):
    with pytest.raises(InputError, match=message):
        gram(function, params, np.eye(4, 3) + 0.1 * np.arange(4)[:, None], **arguments)


def test_the_error_inside_the_function_is_kept():
    def broken(params, x):
        raise KeyError("missing")

    with pytest.raises(InputError, match="raised KeyError: 'missing'") as refused:
        gram(broken, np.ones(3), np.eye(3))
    assert isinstance(refused.value.__cause__, KeyError)


@pytest.mark.parametrize("x", [np.float64(1), np.zeros((0, 3)), {"a": np.ones((2, 1)), "b": np.ones((3, 1))}, {}])
def test_examples_are_counted_by_the_first_axis(x):
    with pytest.raises(InputError, match="the first axis of x counts the examples"):
        gram(constant, np.ones(3), x)


def test_what_is_no_function():
    with pytest.raises(InputError, match="a network or a function of parameters and examples, got 3"):
        as_function(3)


def test_an_unhashable_function(rng):
    class Model:
        __hash__ = None  # pyright: ignore[reportAssignmentType]

        def apply(self, params, x):
            return x @ params

    x = rng.normal(size=(4, 6))
    close(gram(Model().apply, np.ones(6), x), x @ x.T)
