"""The monitors of the residual network, each by two routes."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from wideproof.monitors.recorded_pass import trace
from wideproof.monitors.residual import (
    Pass,
    gradient_norms,
    interlayer,
    layer_margin,
    least_unit_gradients,
    logistic_loss,
    loss_gradients,
    nearest_in_hull,
    pass_in_law,
    residual_pass,
    surrogate_error,
    unit_gradients,
)
from wideproof.monitors.residual_moves import (
    attack_remainder,
    certified_remainder,
    flip_attack,
    last_layer_attack,
    remainder,
    remainder_parts,
    spectral_distances,
    weight_distance,
)
from wideproof.networks import ResidualReLU

NETWORK = ResidualReLU(input_dim=4, width=24, depth=3, residual_scale=0.3)


@pytest.fixture
def x(rng):
    points = rng.standard_normal((6, 4))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@pytest.fixture
def params():
    return NETWORK.init(0)


@pytest.fixture
def seen(params, x):
    return residual_pass(NETWORK, params, x)


@pytest.fixture
def moved(params, x, rng):
    noise = {name: w + 0.05 * rng.standard_normal(w.shape) for name, w in params.items() if name != "v"}
    return residual_pass(NETWORK, noise, x)


LABELS = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])


def test_pass_agrees_with_the_trace(seen, params, x):
    automatic = trace(NETWORK, params, x)
    np.testing.assert_allclose(seen.outputs, automatic.outputs, rtol=1e-12)
    for layer in seen.steps:
        name = f"W{layer}"
        np.testing.assert_allclose(seen.x(layer), automatic.features[layer - 1], rtol=1e-12)
        np.testing.assert_allclose(seen.u(layer), automatic.values[name][0], rtol=1e-11, atol=1e-14)
        np.testing.assert_allclose(seen.scale(layer) * seen.b(layer), automatic.cotangents[name][0], atol=1e-12)
    norms = [
        np.linalg.norm(automatic.inputs[f"W{k}"][0], axis=1) * np.linalg.norm(automatic.cotangents[f"W{k}"][0], axis=1)
        for k in seen.steps
    ]
    np.testing.assert_allclose(gradient_norms(seen), np.stack(norms, axis=1), rtol=1e-12)


def test_pass_in_law_has_the_law_of_a_drawn_network(x):
    """Second moments of every layer's values, over networks drawn both ways."""
    rng, network = np.random.default_rng(1), ResidualReLU(4, 16, 2, residual_scale=0.4)
    laws = network.laws()
    moments = []
    for _ in range(1500):
        weights = {f"W{k}": np.sqrt(2 / 16) * rng.standard_normal(laws[f"W{k}"].shape) for k in (1, 2, 3)}
        pair = residual_pass(network, weights, x[:2]), pass_in_law(network, x[:2], rng)
        moments.append([[s.u(k)[0] @ s.u(k)[1] for k in s.steps] + [s.outputs[0] * s.outputs[1]] for s in pair])
    drawn, in_law = np.swapaxes(moments, 0, 1)
    error = np.sqrt((drawn.var(axis=0) + in_law.var(axis=0)) / len(drawn))
    assert (np.abs(drawn.mean(axis=0) - in_law.mean(axis=0)) < 4 * error).all()


@pytest.mark.parametrize(("first", "last"), [(2, 3), (3, 3), (2, 4), (4, 4), (3, 2)])
def test_interlayer_matrix_by_products(seen, first, last):
    example, product = 2, np.eye(24)
    for layer in range(first, last + 1):
        branch = np.diag(seen.mask(layer)[example].astype(float)) @ seen.weights[layer - 1].T
        product = (branch if layer == 4 else np.eye(24) + 0.3 * branch) @ product
    operator = interlayer(seen, first, last, example)
    np.testing.assert_allclose(operator.dense(), product, atol=1e-12)
    np.testing.assert_allclose(operator.adjoint(np.eye(24)), product.T, atol=1e-12)
    assert operator.norm() == pytest.approx(np.linalg.norm(product, 2))


def test_interlayer_norm_by_iteration_and_by_decomposition():
    network = ResidualReLU(4, 260, 3)
    wide = residual_pass(network, network.init(1), np.eye(4))
    operator = interlayer(wide, 2, 4)
    assert operator.norm() == pytest.approx(np.linalg.norm(operator.dense(), 2), rel=1e-8)


def test_outputs_from_every_layer(seen):
    for layer in seen.steps:
        np.testing.assert_allclose(np.sum(seen.q(layer) * seen.x(layer), axis=1), seen.outputs, atol=1e-12)
    with pytest.raises(ValueError, match="needs 2 <= l"):
        interlayer(seen, 1, 3)


def test_loss_gradient_by_differences(seen, params, x, rng):
    gradients = loss_gradients(seen, LABELS)
    for layer in seen.steps:
        name, direction = f"W{layer}", rng.standard_normal(params[f"W{layer}"].shape)
        losses = [
            logistic_loss(LABELS * residual_pass(NETWORK, {**params, name: params[name] + h * direction}, x).outputs)
            for h in (-1e-7, 1e-7)
        ]
        assert np.sum(gradients[layer - 1] * direction) == pytest.approx((losses[1] - losses[0]) / 2e-7, rel=1e-5)


def test_unit_gradients_are_the_columns_of_the_last_gradient(seen):
    slopes = 1 / (1 + np.exp(LABELS * seen.outputs))
    columns = unit_gradients(seen, LABELS, slopes)
    np.testing.assert_allclose(columns.T * -seen.signs, loss_gradients(seen, LABELS)[-1], atol=1e-14)
    assert slopes.mean() == pytest.approx(surrogate_error(LABELS * seen.outputs))


def test_least_unit_gradients_by_search(seen, rng):
    least = least_unit_gradients(seen, LABELS)

    def ratio(weights):
        return np.square(unit_gradients(seen, LABELS, weights)).sum() / weights.mean() ** 2

    found = minimize(lambda z: ratio(np.exp(z)), np.zeros(6), method="Nelder-Mead", options={"maxiter": 5000}).fun
    assert least <= found * (1 + 1e-9)
    assert least == pytest.approx(found, rel=1e-2)
    assert all(ratio(a) >= least * (1 - 1e-9) for a in rng.uniform(0, 1, (200, 6)))


def test_nearest_point_by_enumeration(rng):
    points = rng.standard_normal((7, 3)) + np.array([1.5, 0, 0])
    faces = []
    for size in (1, 2, 3):
        for face in itertools.combinations(range(7), size):
            z = points[list(face)]
            ones, gram_matrix = np.ones(size), z @ z.T
            weights = np.linalg.solve(gram_matrix, ones)
            weights /= weights.sum()
            if (weights >= 0).all():
                faces.append(np.linalg.norm(weights @ z))
    assert nearest_in_hull(points).distance == pytest.approx(min(faces))
    assert nearest_in_hull(np.zeros((2, 3))).distance == 0


def test_layer_margin_by_search(rng):
    y = np.where(np.arange(8) % 2 == 0, 1.0, -1.0)
    features = rng.standard_normal((8, 2)) * 0.3 + y[:, None]
    angles = np.linspace(0, 2 * np.pi, 200_001)
    best = np.min(y[:, None] * (features @ np.stack([np.cos(angles), np.sin(angles)])), axis=0).max()
    assert layer_margin(features, y) == pytest.approx(best, rel=1e-6)
    assert layer_margin([[1.0, 0.0], [1.0, 0.0]], [1, -1]) == 0


def test_remainder_is_its_parts(moved, seen):
    parts = remainder_parts(moved, seen)
    np.testing.assert_allclose(remainder(moved, seen), (parts.flips + parts.cross).sum(axis=1), atol=1e-12)
    assert np.abs(parts.flips).max() > 0
    np.testing.assert_allclose(remainder(seen, seen), 0.0, atol=1e-15)


def test_weight_distance_by_decompositions(moved, seen):
    sizes = [np.linalg.norm(a - b, 2) for a, b in zip(moved.weights, seen.weights, strict=True)]
    np.testing.assert_allclose(spectral_distances(moved, seen), sizes)
    assert weight_distance(moved, seen) == pytest.approx(sizes[0] + 0.3 * (sizes[1] + sizes[2]) + sizes[3])
    assert weight_distance(seen, seen) == 0


@pytest.mark.parametrize("radius", [0.02, 0.1, 0.5])
def test_certified_bounds_hold_for_random_and_attacking_weights(seen, params, x, rng, radius):
    certified = certified_remainder(seen, radius)
    for trial in range(30):
        weights = {}
        for layer in seen.steps:
            example = trial % 6
            below, values = seen.x(layer - 1)[example], seen.u(layer)[example]
            attack = flip_attack(values, float(np.linalg.norm(below)), radius)
            change = attack.change(below) if trial < 12 else rng.standard_normal(params[f"W{layer}"].shape)
            size = np.linalg.norm(change)
            weights[f"W{layer}"] = params[f"W{layer}"] + (change * radius / size if size > 0 else 0)
        other = residual_pass(NETWORK, weights, x)
        assert (np.abs(remainder(other, seen)) <= certified.remainder * (1 + 1e-9)).all()
        for k, layer in enumerate(seen.steps):
            gaps = np.linalg.norm(other.x(layer) - seen.x(layer), axis=1)
            assert (gaps <= certified.moves[:, k] * (1 + 1e-9)).all()
            assert ((other.mask(layer) != seen.mask(layer)).sum(axis=1) <= certified.flips[:, k]).all()


def test_certified_bounds_at_radius_zero(seen):
    certified = certified_remainder(seen, 0.0)
    assert not certified.remainder.any()
    assert not certified.flips.any()


def test_last_layer_attack_through_the_network(seen, params, x):
    last, radius = 4, 0.3
    below, values = seen.x(3)[0], seen.u(last)[0]
    attack = last_layer_attack(values, seen.signs, float(np.linalg.norm(below)), radius)
    change = attack.change(below)
    assert np.linalg.norm(change) == pytest.approx(radius)
    other = residual_pass(NETWORK, {**params, "W4": params["W4"] + change}, x)
    assert attack_remainder(values, seen.signs, attack) == pytest.approx(remainder(other, seen)[0])


def test_last_layer_attack_is_the_best_of_its_kind(rng):
    """Among equal shifts of the k smallest positive units, no other k does better by more than one unit's rounding."""
    values, signs, radius = 0.2 * rng.standard_normal(400), np.repeat([1.0, -1.0], 200), 0.5
    order = np.argsort(np.where(signs > 0, np.abs(values), np.inf))
    best = max(sum(radius / np.sqrt(k) - np.abs(values[order[:k]])) for k in range(1, 200))
    attack = last_layer_attack(values, signs, 1.0, radius)
    assert attack_remainder(values, signs, attack) == pytest.approx(best, rel=1e-2)
    assert last_layer_attack([5.0, 5.0], [1, -1], 1.0, 0.1).units == 0


def test_flip_attack_flips_what_it_says_and_no_more_fit(rng):
    values = rng.standard_normal(50)
    attack = flip_attack(values, 1.0, 0.5)
    assert np.count_nonzero((values + attack.shifts >= 0) != (values >= 0)) == attack.units
    assert np.linalg.norm(attack.shifts) <= 0.5
    assert np.sum(np.sort(values**2)[: attack.units + 1]) > 0.25


def test_a_pass_without_weights_has_no_backward_vectors():
    seen = pass_in_law(NETWORK, np.eye(4), np.random.default_rng(0))
    assert isinstance(seen, Pass)
    assert seen.weights == []
    with pytest.raises(IndexError):
        seen.q(1)
