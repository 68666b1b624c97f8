"""Each network against the NumPy reference, against finite differences, and against itself."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import each_network
from tests.networks import reference
from wideproof.errors import InputError
from wideproof.networks import (
    ConvResidual,
    DeepReLU,
    ElmanRNN,
    FullyConnected,
    Residual,
    ResidualReLU,
    gradient,
    linearize,
)

N = 4


def batch(network, rng):
    x = rng.normal(size=(N, *network.input_shape))
    return x, rng.normal(size=(N, *network.output_shape))


def by_reference(network, params, x, c):
    """Outputs, features and summed gradients over a batch, from the reference."""
    outputs, features, total = [], [], None
    for xi, ci in zip(x, c, strict=True):
        if network.name == "fully-connected":
            f, layers, grad = reference.fully_connected(params, xi, ci, network.activation.name, network.depth)
        elif network.name == "residual":
            f, layers, grad = reference.residual(params, xi, ci, network.activation.name, network.depth, network.c_res)
        elif network.name == "conv-residual":
            f, layers, grad = reference.conv_residual(
                params, xi, ci, network.activation.name, network.depth, network.c_res, network.filter_size
            )
        elif network.name == "deep-relu":
            f, layers, grad = reference.deep_relu(params, xi, ci, network.depth)
        elif network.name == "residual-relu":
            f, layers, grad = reference.residual_relu(params, xi, ci, network.depth, network.theta)
        else:
            one = network.name == "elman-rnn"
            names = [("A", "W")] if one else [(f"A{j}", f"W{j}") for j in range(1, network.depth + 1)]
            weights = [(params[a], params[w]) for a, w in names], params["B"]
            f, layers, grads, grad_b = reference.deep_rnn(weights, xi, ci)
            grad = {"B": grad_b}
            for (a, w), (grad_a, grad_w) in zip(names, grads, strict=True):
                grad |= {a: grad_a, w: grad_w}
        outputs.append(np.reshape(f, network.output_shape))
        features.append(layers)
        total = grad if total is None else {k: total[k] + grad[k] for k in total}
    assert total is not None
    return np.array(outputs), [np.array(layer) for layer in zip(*features, strict=True)], total


def relative(a, b):
    return np.max(np.abs(a - b)) / np.max(np.abs(b))


@pytest.mark.parametrize("network", each_network())
def test_forward_features_and_gradient_agree_with_the_reference(network, rng):
    params = network.init(seed=3)
    x, c = batch(network, rng)
    outputs, features, expected = by_reference(network, params, x, c)
    assert relative(network(params, x), outputs) < 1e-12
    ours = network.features(params, x)
    assert len(ours) == len(features)
    for layer, known in zip(ours, features, strict=True):
        assert relative(layer, known) < 1e-12
    line = linearize(network, network.as_params(params), jnp.asarray(x))
    found = gradient(network, network.as_params(params), line, jnp.asarray(c))
    assert set(found) == set(network.trained_names)
    for name, value in found.items():
        assert value.shape == params[name].shape
        assert relative(np.asarray(value), expected[name]) < 1e-12, name


@pytest.mark.parametrize("network", each_network())
def test_gradient_agrees_with_finite_differences(network, rng):
    params = network.init(seed=5)
    x, c = batch(network, rng)
    line = linearize(network, network.as_params(params), jnp.asarray(x))
    found = gradient(network, network.as_params(params), line, jnp.asarray(c))
    for name in network.trained_names:
        direction = rng.normal(size=params[name].shape)
        step = 1e-6
        up, down = (np.vdot(c, network({**params, name: params[name] + s * step * direction}, x)) for s in (1, -1))
        assert np.vdot(found[name], direction) == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-8)


def test_fact_2_5_as_a_triple_sum_is_the_gradient(rng):
    network = ElmanRNN(input_dim=4, width=8, length=5, outputs=2)
    params = network.init(seed=1)
    x, c = rng.normal(size=(1, 5, 4)), rng.normal(size=(1, 5, 2))
    c[:, 0] = 0  # the loss starts at the second step
    line = linearize(network, network.as_params(params), jnp.asarray(x))
    found = gradient(network, network.as_params(params), line, jnp.asarray(c))["W"]
    literal = reference.fact_2_5(params["W"], params["A"], params["B"], x[0], c[0])
    assert relative(np.asarray(found), literal) < 1e-12


def test_only_trained_parts_get_a_gradient():
    network = ElmanRNN(input_dim=4, width=8, length=3)
    assert network.trained_names == ("W",)
    assert DeepReLU(3, 8, 2).trained_names == ("W1", "W2")
    assert DeepReLU(3, 8, 2, trained=("hidden", "output")).trained_names == ("W1", "W2", "v")
    assert FullyConnected(3, 8, 2, trained=("hidden",)).trained_names == ("W1", "W2")


@pytest.mark.parametrize(("network", "at_zero"), [(DeepReLU(2, 4, 1), 0.0), (ResidualReLU(2, 4, 1), 1.0)])
def test_slope_at_the_kink_is_the_papers(network, at_zero):
    params = {name: np.zeros_like(w) if name == "W1" else w for name, w in network.init(0).items()}
    x = jnp.asarray([[1.0, 2.0]])
    line = linearize(network, network.as_params(params), x, ["W1"])
    found = np.asarray(gradient(network, network.as_params(params), line, jnp.ones(1))["W1"])
    assert (np.abs(found) > 0).any() == bool(at_zero)


def test_recurrent_slope_at_the_kink_is_one():
    network = ElmanRNN(input_dim=2, width=4, length=3)
    params = {name: np.zeros_like(w) if name != "B" else w for name, w in network.init(0).items()}
    params["A"] = np.ones((4, 2))
    x = np.array([[[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]])  # g = 0 exactly at steps 2 and 3
    line = linearize(network, network.as_params(params), jnp.asarray(x))
    found = np.asarray(gradient(network, network.as_params(params), line, jnp.ones((1, 3, 1)))["W"])
    assert (np.abs(found) > 0).all()


def test_relu_networks_are_homogeneous(rng):
    network = DeepReLU(5, 8, 3)
    params, x = network.init(2), rng.normal(size=(6, 5))
    assert relative(network(params, 3.5 * x), 3.5 * network(params, x)) < 1e-13
    scaled = {**params, "W2": 2.0 * params["W2"]}
    assert relative(network(scaled, x), 2.0 * network(params, x)) < 1e-13


@pytest.mark.slow
def test_one_pixel_convolution_is_the_residual_network(rng):
    """With one pixel only the middle of the filter meets data."""
    conv, plain = ConvResidual(5, 1, 6, 3), Residual(5, 6, 3)
    params = conv.init(4)
    middle = {name: w[:, 1::3] if name != "a" else w[:, 0] for name, w in params.items()}
    x = rng.normal(size=(7, 5))
    assert relative(conv(params, x[:, :, None]), plain(middle, x)) < 1e-13


def test_residual_of_depth_one_is_fully_connected(rng):
    x = rng.normal(size=(7, 5))
    params = Residual(5, 6, 1).init(0)
    assert relative(Residual(5, 6, 1)(params, x), FullyConnected(5, 6, 1)(params, x)) == 0


def test_residual_layers_only_grow(rng):
    """Frei et al. (2019): entrywise x_l >= x_{l-1} for 2 <= l <= L."""
    network = ResidualReLU(5, 8, 5)
    layers = network.features(network.init(1), rng.normal(size=(6, 5)))
    for before, after in itertools.pairwise(layers[:5]):
        assert (after >= before).all()


def test_a_common_prefix_gives_common_outputs(rng):
    network = ElmanRNN(input_dim=3, width=8, length=4)
    x = rng.normal(size=(2, 4, 3))
    x[1, :2] = x[0, :2]
    y = network(network.init(0), x)
    assert (y[0, :2] == y[1, :2]).all()
    assert (y[0, 2:] != y[1, 2:]).all()


def test_wrong_shape_says_what_is_wanted():
    network = FullyConnected(3, 4, 1)
    with pytest.raises(InputError, match=r"takes examples of shape \(3,\).*first axis counts the examples"):
        network(network.init(0), np.zeros(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeepReLU(3, 7, 2), "even width.*use 8"),
        (lambda: ResidualReLU(3, 7, 2), "even width.*use 8"),
        (lambda: FullyConnected(3, 0, 2), "width to be a whole number of at least 1, got 0"),
        (lambda: FullyConnected(3, 4, -1), "depth to be a whole number of at least 1, got -1"),
        (lambda: ElmanRNN(3, 4, 1), "length 2 or more, got length 1"),
        (lambda: ElmanRNN(1, 4, 3), "2 or more features.*prepare the data with `pad`"),
        (lambda: ConvResidual(1, 4, 4, 2, filter_size=2), "odd filter_size.*use 3"),
        (lambda: Residual(3, 4, 2, c_res=0.0), "c_res > 0"),
        (lambda: ResidualReLU(3, 4, 2, residual_scale=-0.1), "residual_scale >= 0"),
        (lambda: DeepReLU(3, (4, 4), 3), "one width or 3 of them"),
        (lambda: DeepReLU(3, 4, 2, trained=("all",)), "can train hidden, output; got all"),
        (lambda: DeepReLU(3, 4, 2, trained=()), "got nothing"),
    ],
)
def test_bad_sizes_get_a_sentence(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_residual_scale_of_zero_leaves_the_skips_alone():
    network = ResidualReLU(3, 4, 3, residual_scale=0.0)
    first, *between, _ = network.features(network.init(0), np.eye(3))
    assert len(between) == 2
    for layer in between:
        np.testing.assert_array_equal(layer, first)


def test_a_last_layer_with_a_width_of_its_own(rng):
    """Frei et al.: m_(L+1) is kept apart from m; entries of the last layer have variance 2/m_(L+1)."""
    network = ResidualReLU(3, 8, 2, residual_scale=0.3, last_width=4)
    params = {name: np.asarray(weight) for name, weight in network.init(0).items()}
    x = rng.standard_normal(3)
    below = np.maximum(params["W1"].T @ x, 0)
    below = below + 0.3 * np.maximum(params["W2"].T @ below, 0)
    wanted = params["v"] @ np.maximum(params["W3"].T @ below, 0)
    assert np.asarray(network(params, x[None]))[0] == pytest.approx(wanted, rel=1e-12)
    assert network.laws()["W3"].variance == 2 / 4  # pyright: ignore[reportAttributeAccessIssue]
    assert params["v"].tolist() == [1, 1, -1, -1]
    assert "last_width" not in str(ResidualReLU(3, 8, 2))
    with pytest.raises(InputError, match=r"even width.*got 5: use 6"):
        ResidualReLU(3, 8, 2, last_width=5)
    with pytest.raises(InputError, match="last_width to be a whole number"):
        ResidualReLU(3, 8, 2, last_width=0)
