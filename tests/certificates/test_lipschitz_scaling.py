r"""How $\Lambda$ depends on width, depth, skip strength and repeated examples, and its closed forms."""

import math

import numpy as np
import pytest

from tests.certificates.making import at, problem, sphere, start
from wideproof.certificates.lipschitz import lipschitz
from wideproof.networks import ConvResidual, DeepReLU, ElmanRNN, FullyConnected, Residual, get_activation

WIDTHS = (64, 128, 256, 512, 1024)


@pytest.mark.parametrize("network", [FullyConnected, Residual], ids=lambda n: n.name)
def test_it_falls_like_the_root_of_the_width(network):
    """Slope -1/2, up to the growth of the largest output weight like the root of a logarithm."""
    x, y = sphere(8, 6, 0), np.zeros(8)
    logs = []
    for m in WIDTHS:
        wide = network(6, m, 2)
        found = [
            lipschitz(at(wide, start(wide, np.random.default_rng(seed)), x, y, level="float64"), 0.0).value
            for seed in range(2)
        ]
        logs.append(np.log(found).mean())
    slope = np.polyfit(np.log(WIDTHS), logs, 1)[0]
    print(f"{network.name}: slope {slope:.3f}")
    assert -0.55 < slope < -0.35


@pytest.mark.parametrize(
    "network",
    [DeepReLU(5, 8, 1), FullyConnected(5, 8, 1, get_activation("relu"), trained=("hidden",))],
    ids=["deep-relu", "fully-connected"],
)
@pytest.mark.parametrize("radius", [0.0, 0.3])
def test_one_relu_layer_with_fixed_outputs_is_affine(network, radius):
    params, x, y = problem(network)
    assert lipschitz(at(network, params, x, y), radius).value == 0
    assert lipschitz(at(network, params, x, y, sharp=True), radius).value == 0


def test_an_output_that_is_trained_too_is_not_affine():
    network = FullyConnected(5, 8, 1, get_activation("relu"))
    params, x, y = problem(network)
    anchor = at(network, params, x, y)
    assert lipschitz(anchor, 0.0).value > 0


@pytest.mark.parametrize(("length", "affine"), [(2, True), (3, False)])
def test_two_steps_of_a_recurrent_network_are_affine(length, affine):
    network = ElmanRNN(4, 8, length, outputs=2)
    params, x, y = problem(network)
    for sharp in (False, True):
        assert (lipschitz(at(network, params, x, y, sharp=sharp), 0.2).value == 0) == affine


@pytest.mark.parametrize("radius", [0.0, 0.1])
def test_a_residual_network_with_weak_branches_is_one_layer(radius):
    one = FullyConnected(5, 9, 1)
    rng = np.random.default_rng(2)
    params, x = start(Residual(5, 9, 3), rng), rng.standard_normal((4, 5))
    alone = lipschitz(at(one, {name: params[name] for name in ("W1", "a")}, x, np.zeros(4)), radius)
    gaps = []
    for c_res in (1e-2, 1e-4, 1e-8):
        found = lipschitz(at(Residual(5, 9, 3, c_res=c_res), params, x, np.zeros(4)), radius)
        gaps.append(np.abs(np.array(found) / np.array(alone) - 1).max())
    assert gaps[-1] < 1e-6  # the spectral norms of both are within a millionth
    assert gaps[1] < 0.05 * gaps[0]


@pytest.mark.parametrize("depth", [1, 3])
def test_a_convolution_of_one_pixel_is_a_residual_network(depth):
    flat = Residual(5, 7, depth)
    conv = ConvResidual(channels=5, pixels=1, width=7, depth=depth, filter_size=1)
    params, x, y = problem(flat)
    same = params | {"a": params["a"][:, None]}
    for sharp in (False, True):
        one, other = at(flat, params, x, y, sharp), at(conv, same, x[:, :, None], y, sharp)
        np.testing.assert_allclose([other.s, other.S, other.residual], [one.s, one.S, one.residual], rtol=1e-9)
        for radius in (0.0, 0.1):
            np.testing.assert_allclose(lipschitz(other, radius), lipschitz(one, radius), rtol=1e-6)


def test_filters_of_one_pixel_keep_the_pixels_apart():
    """Two pixels with their own read-out: the Jacobian is that of two examples added."""
    conv = ConvResidual(channels=5, pixels=2, width=7, depth=2, filter_size=1)
    flat = Residual(5, 7, 2)
    params, x, y = problem(conv)
    whole = at(conv, params, x, y)
    parts = [at(flat, params | {"a": params["a"][:, p]}, x[:, :, p], y) for p in (0, 1)]
    errors = [part.errors.mid + y[:, None] for part in parts]
    np.testing.assert_allclose(whole.errors.mid + y[:, None], sum(errors), atol=1e-12)


def test_closed_form_for_fixed_outputs(rng):
    """Λ = L2 s max|a| max‖x‖ ‖X‖, on every ball."""
    network = FullyConnected(5, 12, 1, get_activation("tanh"), trained=("hidden",))
    params, x, y = problem(network)
    scale = math.sqrt(network.activation.c_sigma / 12)
    second = 4 / (3 * math.sqrt(3))
    longest, whole = np.linalg.norm(x, axis=1).max(), np.linalg.norm(x, 2)
    expected = second * scale * np.abs(params["a"]).max() * longest * whole
    for radius in (0.0, 0.5, 20.0):
        assert lipschitz(at(network, params, x, y), radius).batch == pytest.approx(expected, rel=1e-6)


def test_closed_form_for_both_layers(rng):
    """p/2 + √(p²/4 + q²) with the output weights' bound A = max|a| + R, and the steepest slope in q."""
    network = FullyConnected(5, 12, 1)
    params, x, y = problem(network)
    scale = math.sqrt(network.activation.c_sigma / 12)
    longest, whole = np.linalg.norm(x, axis=1).max(), np.linalg.norm(x, 2)
    steepest = (1 / (1 + np.exp(-x @ params["W1"].T))).max()
    for radius in (0.0, 0.5, 5.0):
        p = scale * whole * longest * 0.25 * (np.abs(params["a"]).max() + radius)
        expected = p / 2 + math.hypot(p / 2, scale * whole * min(1.0, steepest + 0.25 * radius * longest))
        assert lipschitz(at(network, params, x, y), radius).batch == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize(
    "network", [FullyConnected(5, 8, 3), Residual(5, 8, 3), DeepReLU(5, 8, 3)], ids=lambda n: n.name
)
def test_a_repeated_example_costs_at_most_the_root_of_two(network, sharp):
    params, x, y = problem(network, n=3)
    once = lipschitz(at(network, params, x, y, sharp), 0.01)
    for i in range(3):
        twice = [0, 1, 2, i]
        found = lipschitz(at(network, params, x[twice], y[twice], sharp), 0.01)
        assert once.batch * (1 - 1e-6) <= found.batch <= math.sqrt(2) * once.batch * (1 + 1e-6)
        assert found.batch > once.batch * (1 + 1e-3)
