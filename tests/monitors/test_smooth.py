"""Each monitor of movement by a second route: brute force, other functions of the package, or the definition."""

import numpy as np
import pytest

from tests import cases
from tests.networks.derivatives import Derivatives
from wideproof.data.dataset import Dataset, ImageDataset
from wideproof.kernels import gram
from wideproof.monitors import smooth
from wideproof.networks import ConvResidual, FullyConnected, Residual, get_activation
from wideproof.training import Recipe, train

NETWORKS = [
    FullyConnected(3, 6, 3, get_activation("tanh")),
    Residual(3, 6, 3, c_res=0.7),
    ConvResidual(2, 4, 5, 2, activation=get_activation("swish")),
]
TABLE = {network.name: network for network in NETWORKS}
each = pytest.mark.parametrize("network", cases.each(TABLE))
each_dear = pytest.mark.parametrize("network", cases.each(TABLE, slow=["conv-residual"]))


def problem(network, rng):
    x = rng.normal(size=(4, *network.input_shape))
    kind = ImageDataset if isinstance(network, ConvResidual) else Dataset
    return kind(x, np.array([1.0, -1, 1, -1]), "binary", "planted")


@each_dear
def test_blocks_are_products_of_jacobians(network, rng):
    x, params = problem(network, rng).x, network.init(0)
    found, other = smooth.gram_blocks(network, params, x), gram(network, params, x, by_weight=True).blocks
    for name, rows in Derivatives(network, x, list(network.laws())).blocks(params).items():
        np.testing.assert_allclose(found[name], rows @ rows.T, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found[name], other[name], rtol=1e-10, atol=1e-12)


@each
def test_constants_by_decomposition(network, rng):
    x, params = problem(network, rng).x, network.init(0)
    found = smooth.constants(network, params, x)
    m = network.width
    tops = [np.linalg.svd(w)[1][0] for name, w in params.items() if name != "a"]
    assert found.weights == pytest.approx(max(tops) / np.sqrt(m))
    norms = [np.sqrt(np.sum(layer[i] ** 2)) for layer in network.features(params, x) for i in range(len(x))]
    assert found.features == pytest.approx(max(1, *norms, *(1 / norm for norm in norms)))
    columns = np.asarray(params["a"]).reshape(m, -1).T
    assert found.read_out == pytest.approx(max(np.sqrt(np.sum(c**2) / m) for c in columns))
    assert found.read_out_4 == pytest.approx(max((np.sum(c**4) / m) ** 0.25 for c in columns))


@each
def test_movement_and_drift_by_definition(network, rng):
    x, start, params = problem(network, rng).x, network.init(0), network.init(1)
    now, then = network.features(params, x), network.features(start, x)
    moved = smooth.feature_movement(network, params, start, x)
    assert moved.shape == (network.depth, 4)
    for h in range(network.depth):
        for i in range(4):
            assert moved[h, i] == pytest.approx(np.linalg.norm(now[h][i] - then[h][i]))
    drift = smooth.gram_drift(network, params, start, x)
    change = gram(network, params, x, names=["a"]).matrix - gram(network, start, x, names=["a"]).matrix
    assert drift["a"] == pytest.approx(np.abs(np.linalg.eigvalsh(change)).max())
    tracked = smooth.tracked_movement(params, start, network.width)
    for name, weight in params.items():
        assert tracked[name] ** 2 * network.width == pytest.approx(np.sum((weight - start[name]) ** 2))


@each_dear
def test_measures_inside_the_loop(network, rng):
    data, start = problem(network, rng), network.init(0)
    last = f"W{network.depth}"
    record = {
        "moved": smooth.distance_measure(start),
        "gradient": smooth.step_measure,
        "outputs": smooth.outputs_measure,
        "first": smooth.first_order_measure(network, data.x),
        "block": smooth.block_measure(network, data.x, last),
    }
    eta = 0.01
    run = train(network, data, Recipe(step_size=eta, steps=4, record_every=1), record=record)
    whole = gram(network, start, data.x).matrix
    residual = data.y - run.records["outputs"]
    np.testing.assert_allclose(run.records["first"][0], whole @ residual[0], rtol=1e-9)
    np.testing.assert_allclose(run.records["outputs"][-1], network(run.params, data.x), rtol=1e-12)
    final = smooth.gram_blocks(network, run.params, data.x)[last]
    np.testing.assert_allclose(run.records["block"][-1], final, rtol=1e-9, atol=1e-12)
    for name in network.laws():
        distance = run.records[f"moved.{name}"]
        assert distance[0] == 0
        assert distance[-1] == pytest.approx(np.linalg.norm(run.params[name] - start[name]))
        assert distance[1] == pytest.approx(eta * run.records[f"gradient.{name}"][0])
        assert distance[-1] <= eta * run.records[f"gradient.{name}"][:-1].sum() * (1 + 1e-12)


def test_second_order_change_is_the_remainder(rng):
    network = NETWORKS[0]
    data, start = problem(network, rng), network.init(0)
    measure = {"outputs": smooth.outputs_measure, "first": smooth.first_order_measure(network, data.x)}
    found = []
    for eta in (1e-3, 2e-3):
        run = train(network, data, Recipe(step_size=eta, steps=1, record_every=1), record=measure)
        remainder = smooth.second_order_change(run.records["outputs"], run.records["first"], eta)
        whole = gram(network, start, data.x).matrix
        by_hand = np.diff(run.records["outputs"], axis=0)[0] - eta * whole @ (data.y - run.records["outputs"][0])
        np.testing.assert_allclose(remainder[0], by_hand, atol=1e-13)
        found.append(np.linalg.norm(remainder))
    assert found[1] / found[0] == pytest.approx(4, rel=0.02)


@each
def test_bounds_hold_for_any_direction(network, rng):
    data, start = problem(network, rng), network.init(0)
    x = data.x / np.linalg.norm(data.x.reshape(4, -1), axis=1).reshape(4, *[1] * (data.x.ndim - 1))
    c = smooth.constants(network, start, x)
    size = np.sqrt(network.width)
    for movement in (1e-4, 1e-3):
        for _ in range(10):
            change = {name: rng.normal(size=np.shape(w)) for name, w in start.items()}
            params = {
                name: w + movement * size * change[name] / np.linalg.norm(change[name]) for name, w in start.items()
            }
            features = smooth.feature_movement(network, params, start, x).max(axis=1)
            assert (features <= smooth.feature_bound(network, c, movement)).all()
            drift = smooth.gram_drift(network, params, start, x)[f"W{network.depth}"]
            assert drift <= smooth.gram_bound(network, c, 4, movement)


@each
def test_gradients_are_below_the_step_bound(network, rng):
    data, start = problem(network, rng), network.init(0)
    x = data.x / np.linalg.norm(data.x.reshape(4, -1), axis=1).reshape(4, *[1] * (data.x.ndim - 1))
    c = smooth.constants(network, start, x)
    residual = data.y - network(start, x)
    bound = smooth.step_bound(network, c, 4)
    for name, rows in Derivatives(network, x, list(network.laws())).blocks(start).items():
        gradient = residual @ rows
        assert np.linalg.norm(gradient) <= bound[name] * np.linalg.norm(residual)
    total = smooth.total_bound(bound, 2.0, 0.5)
    assert total == {name: 16 * value for name, value in bound.items()}
