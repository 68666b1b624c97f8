"""Gauss–Newton steps against least squares with a dense Jacobian in NumPy; bits; what is refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from wideproof.data import Dataset, load
from wideproof.errors import InputError
from wideproof.networks import DeepReLU, ElmanRNN, FullyConnected, get_activation
from wideproof.training import Recipe, Status, begin, resume, train, train_many

NETWORK = FullyConnected(input_dim=3, width=12, depth=2, activation=get_activation("tanh"))


def table(rng, n=5, outputs=None):
    x = rng.normal(size=(n, 3))
    return Dataset(x, rng.normal(size=(n,) if outputs is None else (n, outputs)), "regression")


def jacobian(network, params, x):
    """Rows are outputs of examples, columns the trained weights, by forward differences of the float64 outputs."""
    columns = []
    for name in network.trained_names:
        weight = np.asarray(params[name])
        for k in range(weight.size):
            sides = []
            for sign in (1e-5, -1e-5):
                moved = weight.copy()
                moved.flat[k] += sign
                sides.append(np.ravel(network.scored(np.asarray(network(dict(params) | {name: moved}, x)))))
            columns.append((sides[0] - sides[1]) / 2e-5)
    return np.stack(columns, axis=1)


def by_least_squares(network, data, recipe):
    """The shortest minimizer of |r - J d|² + damping |d|², from the stacked system, and the weights after one step."""
    run = begin(network, data, recipe)
    J = jacobian(network, run.initial, data.x)
    r = np.ravel(network.scored(np.asarray(network(run.initial, data.x))) - network.scored(data.y))
    each = np.ones(data.n) if recipe.weights(data) is None else recipe.weights(data)
    roots = np.sqrt(np.repeat(each, len(r) // data.n) / (data.n if recipe.reduction == "mean" else 1))
    J, r = roots[:, None] * J, roots * r
    if recipe.damping:
        stacked = np.concatenate([J, np.sqrt(recipe.damping) * np.eye(J.shape[1])])
        step = np.linalg.lstsq(stacked, np.concatenate([r, np.zeros(J.shape[1])]), rcond=None)[0]
    else:
        step = np.linalg.lstsq(J, r, rcond=1e-7)[0]
    cuts = np.cumsum([run.initial[name].size for name in network.trained_names])[:-1]
    parts = dict(zip(network.trained_names, np.split(step, cuts), strict=True))
    return {name: run.initial[name] - run.step_size * parts[name].reshape(run.initial[name].shape) for name in parts}


SETTINGS: dict[str, dict[str, Any]] = {
    "undamped": {"sample_weights": (1.0, 2.0, 0.5, 0.0, 3.0)},
    "damped": {"damping": 0.3, "step_size": 0.5},
    "weighted mean": {
        "sample_weights": (1.0, 2.0, 0.5, 0.0, 3.0),
        "damping": 0.1,
        "reduction": "mean",
        "constant": 0.25,
    },
}


@pytest.mark.parametrize(
    ("kind", "outputs"), [*((kind, None) for kind in SETTINGS), ("undamped", 2), ("weighted mean", 2)]
)
def test_a_step_is_the_shortest_solution_of_least_squares(rng, kind, outputs):
    network = FullyConnected(input_dim=3, width=12, depth=2, activation=get_activation("tanh"), outputs=outputs or 1)
    data, recipe = table(rng, outputs=outputs), Recipe(optimizer="gauss-newton", steps=1, **SETTINGS[kind])
    found, expected = train(network, data, recipe).params, by_least_squares(network, data, recipe)
    first = begin(network, data, recipe).initial
    assert any(np.abs(expected[name] - first[name]).max() > 1e-3 for name in expected)
    for name, weight in expected.items():
        np.testing.assert_allclose(found[name], weight, atol=2e-6)
    if recipe.damping:  # and with another damping it is another step
        other = by_least_squares(network, data, dataclasses.replace(recipe, damping=2 * recipe.damping))
        assert max(np.abs(found[name] - other[name]).max() for name in other) > 1e-3


def test_equal_rows_and_more_rows_than_weights(rng):
    """The Gram matrix is singular: the step is still the shortest one that leaves least."""
    data = table(rng)
    twice = Dataset(np.concatenate([data.x, data.x[:2]]), np.concatenate([data.y, data.y[:2] + 1]), "regression")
    small = FullyConnected(input_dim=3, width=2, depth=1, activation=get_activation("tanh"), trained=("hidden",))
    for network, rows in ((NETWORK, twice), (small, table(rng, 9))):
        recipe = Recipe(optimizer="gauss-newton", steps=1)
        found, expected = train(network, rows, recipe).params, by_least_squares(network, rows, recipe)
        for name, weight in expected.items():
            np.testing.assert_allclose(found[name], weight, atol=1e-5 * (1 + np.abs(weight).max()))


def test_sequences_and_kinks(rng):
    recipe = Recipe(optimizer="gauss-newton", damping=0.05, steps=1)
    sequences = load("sequences:n=4,length=3,features=3,outputs=2,separation=0.3,seed=1")
    network = ElmanRNN(input_dim=3, length=3, width=6, outputs=2)
    relu = DeepReLU(input_dim=3, width=8, depth=2)
    for model, data in ((network, sequences), (relu, table(rng, 4))):
        found, expected = train(model, data, recipe).params, by_least_squares(model, data, recipe)
        for name, weight in expected.items():
            np.testing.assert_allclose(found[name], weight, atol=5e-6)


def test_the_residual_is_squared_in_every_step():
    data = load("sphere:n=6,d=3,separation=0.5,seed=1")
    run = train(FullyConnected(3, 64, 1), data, Recipe(optimizer="gauss-newton", steps=20, target_loss=1e-24))
    assert run.status is Status.TARGET
    assert run.step <= 6
    sizes = np.sqrt(2 * run.records["loss"])
    assert (sizes[2:-1] < 2 * sizes[1:-2] ** 2).all()  # the last one is at the rounding of the outputs
    plain = train(FullyConnected(3, 64, 1), data, Recipe(steps=20))
    assert plain.loss > 1e6 * run.loss


def test_same_seed_same_bits_also_when_resumed_and_side_by_side(tmp_path):
    data = load("sphere:n=6,d=3,separation=0.5,seed=1")
    network, recipe = FullyConnected(3, 64, 1), Recipe(optimizer="gauss-newton", damping=0.5, steps=9, seed=3)
    whole = train(network, data, recipe)
    train(network, data, Recipe(optimizer="gauss-newton", damping=0.5, steps=4, seed=3), folder=tmp_path / "run")
    again = resume(tmp_path / "run", steps=9)
    (third,) = train_many(network, data, recipe, seeds=[3])
    assert again.recipe.damping == 0.5
    for run in (train(network, data, recipe), again, third):
        np.testing.assert_array_equal(run.records["loss"], whole.records["loss"])
        for name, weight in whole.params.items():
            np.testing.assert_array_equal(run.params[name], weight)
    batched = train_many(network, data, recipe, seeds=[3, 4], how="batch")[0]
    np.testing.assert_allclose(batched.records["loss"], whole.records["loss"], rtol=1e-8)


def test_float32():
    data = load("sphere:n=6,d=3,separation=0.5,seed=1")
    run = train(FullyConnected(3, 64, 1), data, Recipe(optimizer="gauss-newton", steps=8, precision="float32"))
    assert run.params["W1"].dtype == np.float32
    assert run.loss < 1e-10


def test_a_step_that_is_too_long_is_said_with_what_helps():
    data = load("sphere:n=6,d=3,separation=0.5,seed=1")
    run = train(FullyConnected(3, 64, 1), data, Recipe(optimizer="gauss-newton", steps=60, step_size=40.0))
    assert run.status is Status.DIVERGED
    assert "a larger damping" in run.advice


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"loss": "logistic"}, "for the squared loss"),
        ({"batch": 4}, "leave `batch` out"),
        ({"step_size": "paper"}, "number as step size"),
        ({"damping": -1.0}, "number >= 0, got -1"),
        ({"damping": float("nan")}, "number >= 0, got nan"),
        ({"weight_decay": 0.1}, "has no weight_decay"),
        ({"optimizer": "plain", "damping": 0.1}, "damping goes with optimizer='gauss-newton'"),
    ],
)
def test_what_is_refused(settings, match):
    with pytest.raises(InputError, match=match):
        Recipe(**({"optimizer": "gauss-newton"} | settings))


def test_the_method_in_words_and_with_a_schedule():
    assert Recipe(optimizer="gauss-newton").method == "Gauss–Newton"
    half = Recipe(optimizer="gauss-newton", damping=0.5, steps=2, schedule=[0.5, 1.0])
    assert half.method == "Gauss–Newton, damping 0.5, step sizes by a list of factors"
    data, network = load("sphere:n=6,d=3,separation=0.5,seed=1"), FullyConnected(3, 64, 1)
    first = train(network, data, dataclasses.replace(half, steps=1)).params
    whole = train(network, data, Recipe(optimizer="gauss-newton", damping=0.5, steps=1)).params
    start = begin(network, data, half).initial
    for name in whole:
        np.testing.assert_allclose(first[name], (start[name] + whole[name]) / 2, atol=1e-14)


def test_too_many_rows_are_refused_before_anything_is_computed(monkeypatch):
    monkeypatch.setattr("wideproof.training.gauss_newton.memory", lambda: 1000)
    data = load("sphere:n=6,d=3,separation=0.5,seed=1")
    with pytest.raises(InputError, match="matrix of 6 rows"):
        begin(FullyConnected(3, 64, 1), data, Recipe(optimizer="gauss-newton"))
