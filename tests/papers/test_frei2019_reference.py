"""Figures for the residual network that were measured or derived elsewhere, found again."""

import functools

import numpy as np
import pytest

from wideproof.data.generators import linear_margin, xor
from wideproof.data.margin import margin
from wideproof.monitors.generalization import layer_grams, linear_term
from wideproof.monitors.norms import spectral_norm
from wideproof.monitors.patterns import flips
from wideproof.monitors.residual import (
    gradient_norms,
    interlayer,
    layer_margin,
    loss_gradients,
    pass_in_law,
    residual_pass,
    surrogate_error,
)
from wideproof.monitors.residual_moves import (
    attack_remainder,
    certified_remainder,
    flip_attack,
    last_layer_attack,
    remainder,
    remainder_parts,
)
from wideproof.networks import ResidualReLU
from wideproof.training import Recipe, train

pytestmark = pytest.mark.slow


def start(network, seed=0):
    rng = np.random.default_rng(seed)
    sizes = network.sizes()
    return {
        f"W{k}": np.sqrt(2 / sizes[k]) * rng.standard_normal((sizes[k - 1], sizes[k])) for k in range(1, len(sizes))
    }


@functools.cache
def twenty_layers():
    return start(ResidualReLU(20, 1000, 20))


def limit_norm(depth, theta):
    """The norm of the last residual layer at infinite width."""
    square, sum_ = 1.0, 1.0
    for _ in range(depth - 1):
        square, sum_ = (
            (1 + theta**2) * square + 2 * theta / np.pi * np.sqrt(square) * sum_,
            sum_ + theta * np.sqrt(square),
        )
    return np.sqrt(square)


@pytest.mark.parametrize(
    ("theta_depth", "norm", "product"),
    [(0.05, 1.0155, 1.024), (0.5, 1.1925, 1.276), (1, 1.4776, 1.656), (2, 2.4166, 2.855)],
)
def test_norms_of_twenty_layers(theta_depth, norm, product):
    assert limit_norm(20, theta_depth / 20) == pytest.approx(norm, abs=2e-3)
    network = ResidualReLU(20, 1000, 20, residual_scale=theta_depth / 20)
    drawn = [pass_in_law(network, np.eye(20)[:1], np.random.default_rng(s)).x(20)[0] for s in range(20)]
    lengths = np.linalg.norm(drawn, axis=1)
    assert abs(lengths.mean() - norm) < 4 * lengths.std(ddof=1) / np.sqrt(20)
    seen = residual_pass(network, twenty_layers(), np.eye(20)[:1])
    assert interlayer(seen, 2, 20).norm() == pytest.approx(product, rel=0.02)


def test_norms_of_the_weights():
    network = ResidualReLU(20, 1000, 2)
    weights = start(network)
    assert spectral_norm(weights["W2"]) == pytest.approx(2.818, rel=0.01)
    assert spectral_norm(weights["W1"]) == pytest.approx(1.566, rel=0.03)


def test_gradient_norms():
    network = ResidualReLU(20, 1000, 20, residual_scale=0.05 / 20)
    seen = residual_pass(network, twenty_layers(), np.eye(20)[:4])
    ratios = gradient_norms(seen).mean(axis=0) / np.sqrt(500) / [seen.scale(k) for k in seen.steps]
    np.testing.assert_allclose(ratios, 1.02, atol=0.06)


@pytest.mark.parametrize(
    ("depth", "norm", "product"),
    [
        (2, 1.050, 1.168),
        (5, 1.044, 1.131),
        (20, 1.056, 1.101),
        (80, 1.063, 1.097),
        pytest.param(200, 1.064, 1.094, marks=pytest.mark.slow),
    ],
)
def test_nothing_grows_with_the_depth(depth, norm, product):
    network = ResidualReLU(10, 300, depth, residual_scale=0.2 / depth)
    lengths = [
        np.linalg.norm(pass_in_law(network, np.eye(10)[:1], np.random.default_rng(s)).x(depth)) for s in range(20)
    ]
    assert np.mean(lengths) == pytest.approx(norm, abs=0.05)
    smaller = ResidualReLU(10, 150, depth, residual_scale=0.2 / depth)
    seen = residual_pass(smaller, start(smaller), np.eye(10)[:1])
    assert interlayer(seen, 2, depth).norm() == pytest.approx(product, rel=0.03)


def test_variance_of_the_output():
    network = ResidualReLU(10, 200, 3, residual_scale=0.05 / 3)
    outputs = np.array([pass_in_law(network, np.eye(10)[:1], np.random.default_rng(s)).outputs[0] for s in range(2000)])
    error = np.sqrt(2 / 2000) * outputs.var()
    assert abs(outputs.var() - 0.682 * limit_norm(3, 0.05 / 3) ** 2) < 4 * error


def test_identity_of_the_remainder():
    network = ResidualReLU(10, 200, 5, residual_scale=0.1)
    weights = start(network)
    moved = {name: w + 0.02 * np.random.default_rng(1).standard_normal(w.shape) for name, w in weights.items()}
    base, other = residual_pass(network, weights, np.eye(10)), residual_pass(network, moved, np.eye(10))
    parts = remainder_parts(other, base)
    error = np.abs(remainder(other, base) - (parts.flips + parts.cross).sum(axis=1)).max()
    assert error < 1e-12


def test_flips_under_attack():
    """(3/π)^(1/3) = 0.985 m τ^(2/3)."""
    seen = pass_in_law(ResidualReLU(10, 100_000, 1), np.eye(10)[:1], np.random.default_rng(0))
    values, size = seen.u(2)[0], float(np.linalg.norm(seen.x(1)[0]))
    shares = [flip_attack(values, size, t).units / (100_000 * t ** (2 / 3)) for t in (0.01, 0.03, 0.1, 0.3)]
    np.testing.assert_allclose(shares, [1.000, 0.986, 0.978, 0.962], atol=0.03)


def test_flips_of_a_random_direction():
    """m τ/(π √(2d)) = 2135."""
    rng, m, d = np.random.default_rng(0), 100_000, 10
    weights, direction = np.sqrt(2 / m) * rng.standard_normal((d, m)), rng.standard_normal((d, m))
    moved = weights + 0.3 * direction / np.linalg.norm(direction)
    found = [int(flips(weights[k] >= 0, moved[k] >= 0)) for k in range(d)]
    assert abs(np.mean(found) - 2135) < 4 * np.sqrt(2135 / d)


def test_remainder_under_attack():
    """(3/8) 2^(2/3) (2√π)^(-1/3) = 0.3904."""
    seen = pass_in_law(ResidualReLU(8, 64_000, 1), np.eye(8)[:1], np.random.default_rng(0))
    values, size = seen.u(2)[0], float(np.linalg.norm(seen.x(1)[0]))
    for radius in (0.03, 0.1, 0.3):
        reached = attack_remainder(values, seen.signs, last_layer_attack(values, seen.signs, size, radius))
        assert reached / (size * np.sqrt(64_000) * radius ** (4 / 3)) == pytest.approx(0.3904, rel=0.02)


def test_margin_of_linear_data_and_of_the_exclusive_or():
    data = linear_margin(200, 5, 0.3, seed=1)
    assert margin(data.x, data.y, features=2000, bracket=False).estimate == pytest.approx(0.1197, rel=0.06)
    assert margin(xor().x, xor().y, features=20_000, bracket=False).estimate == pytest.approx(0.16525, rel=0.02)


@pytest.mark.parametrize(
    ("theta_depth", "margins"),
    [(0.2, [0.2225, 0.2229, 0.2227]), (1, [0.2225, 0.2267, 0.2298]), (5, [0.2225, 0.328, 0.526])],
)
def test_margins_of_the_layers(theta_depth, margins):
    data = linear_margin(100, 5, 0.3, seed=2)
    network = ResidualReLU(5, 800, 10, residual_scale=theta_depth / 10)
    seen = residual_pass(network, start(network), data.x)
    found = [layer_margin(seen.x(k), data.y) for k in (1, 5, 10)]
    np.testing.assert_allclose(found, margins, rtol=0.12)  # another sample and another network


def test_certified_remainder_and_linear_term():
    network = ResidualReLU(6, 400, 4, residual_scale=0.1)
    weights = start(network)
    x = np.random.default_rng(3).standard_normal((30, 6))
    base = residual_pass(network, weights, x / np.linalg.norm(x, axis=1, keepdims=True))
    for radius in (0.05, 0.2):
        moved = dict(weights)
        for layer in (1, 5):
            below, values = base.x(layer - 1)[0], base.u(layer)[0]
            size = float(np.linalg.norm(below))
            attack = (
                last_layer_attack(values, base.signs, size, radius) if layer == 5 else flip_attack(values, size, radius)
            )
            moved[f"W{layer}"] = weights[f"W{layer}"] + attack.change(below)
        reached = np.abs(remainder(residual_pass(network, moved, base.x(0)), base))[0]
        assert 0.01 < reached / certified_remainder(base, radius).remainder[0] < 0.1  # 0.037 and 0.039
    term = linear_term(layer_grams(base), 1.0)
    assert term.trace_bound / term.value == pytest.approx(1.02, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "count", "scaled"), [(128, 247, 7.13), (256, 257, 6.96), (512, 277, 8.11)])
def test_gradient_descent_to_five_percent(width, count, scaled):
    """One network and one sample against another: at m = 128 eight networks took between 186 and 254 steps."""
    data = linear_margin(100, 5, 0.3, seed=3)
    network = ResidualReLU(5, width, 6, residual_scale=0.1 / 6)
    recipe = Recipe(loss="logistic", step_size=1 / width, steps=500, record_every=1)
    run = train(network, data, recipe, record={"signed": lambda state, info: info.outputs})
    errors = np.array([surrogate_error(data.y * row) for row in run.records["signed"]])
    steps = int(np.flatnonzero(errors <= 0.05)[0])
    assert steps == pytest.approx(count, rel=0.3)
    run = train(network, data, Recipe(loss="logistic", step_size=1 / width, steps=steps, record_every=1))
    then, now = (residual_pass(network, w, data.x) for w in (run.initial, run.params))
    moved = [float(np.linalg.norm(a - b)) for a, b in zip(now.weights, then.weights, strict=True)]
    radius = max(moved)
    assert radius * np.sqrt(width) == pytest.approx(scaled, rel=0.3)
    assert max(moved[1:-1]) / (network.theta * moved[0]) == pytest.approx(1.0, abs=0.4)
    descent = -np.diff(run.records["loss"])[:-1]
    assert (descent > 0).all()
    share = now.mask(7).mean(axis=1).min()
    least = (share * layer_margin(now.x(6), data.y) * surrogate_error(data.y * now.outputs)) ** 2 * width
    ratio = np.square(loss_gradients(now, data.y)[-1]).sum() / least
    assert 2 < ratio < 10  # 4.6, 3.7, 3.5
    changed = max(int(flips(now.mask(k), then.mask(k)).max()) for k in now.steps) / (width * radius ** (2 / 3))
    assert 0.1 < changed < 0.5  # 0.33, 0.22, 0.21
    bound = radius ** (4 / 3) * np.sqrt(width * np.log(width))
    assert bound == pytest.approx(13.4, rel=0.35)
    assert np.abs(remainder(now, then)).max() / bound < 0.12  # 0.060, 0.036, 0.020
    assert linear_term(layer_grams(then), radius, draws=512).trace_bound == pytest.approx(1.1, rel=0.3)
    assert certified_remainder(then, radius).remainder.mean() == pytest.approx(56, rel=0.4)
