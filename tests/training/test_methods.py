"""Momentum, Adam, weight decay, schedules, epochs: against updates written out in NumPy, and from a checkpoint."""

import dataclasses
import json
import math

import jax
import numpy as np
import pytest

from tests.networks import reference
from tests.training.test_train import same
from wideproof.data import load
from wideproof.errors import InputError
from wideproof.networks import FullyConnected, get_activation
from wideproof.training import Recipe, Run, epoch_batch, resume, step_size_for, train, train_many
from wideproof.training.schedules import factors, settled

NETWORK = FullyConnected(5, 12, 2, get_activation("tanh"))
STEPS = 14


@pytest.fixture(scope="module")
def data():
    return load("sphere:n=7,d=5,separation=0.3,seed=2", name="sphere")


def slopes(params, data, rows, shares):
    """The gradient of the sum of shares times half squares, by the papers' backward recursion."""
    passes = [reference.fully_connected(params, data.x[i], 1.0, "tanh", 2) for i in rows]
    terms = [(share * (p[0][0] - data.y[i]), p[2]) for i, share, p in zip(rows, shares, passes, strict=True)]
    return {name: sum(c * own[name] for c, own in terms) for name in params}


class Written:
    """An optimizer as its documentation writes it, for one array."""

    def __init__(self, name, beta=0.9, decay=0.0):
        self.name, self.beta, self.decay = name, beta, decay
        self.m, self.v, self.t = 0.0, 0.0, 0

    def __call__(self, w, g, rate):
        self.t += 1
        if self.name == "adamw":  # PyTorch: the weights shrink first
            w = w * (1 - rate * self.decay)
        else:
            g = g + self.decay * w
        if self.name in ("momentum", "nesterov"):
            self.m = self.beta * self.m + g
            return w - rate * (self.m if self.name == "momentum" else g + self.beta * self.m)
        if self.name == "plain":
            return w - rate * g
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.999 * self.v + 0.001 * g**2
        mean, square = self.m / (1 - 0.9**self.t), self.v / (1 - 0.999**self.t)
        return w - rate * mean / (np.sqrt(square) + 1e-8)


METHODS = {
    "plain-decay": (Recipe(step_size=0.05, weight_decay=0.3), Written("plain", decay=0.3)),
    "momentum": (Recipe(step_size=0.05, optimizer="momentum"), Written("momentum")),
    "momentum-0.5-decay": (
        Recipe(step_size=0.05, optimizer="momentum", momentum=0.5, weight_decay=0.1),
        Written("momentum", 0.5, 0.1),
    ),
    "nesterov-0.7": (Recipe(step_size=0.05, optimizer="nesterov", momentum=0.7), Written("nesterov", 0.7)),
    "adam-decay": (Recipe(step_size=0.01, optimizer="adam", weight_decay=0.2), Written("adam", decay=0.2)),
    "adamw": (Recipe(step_size=0.01, optimizer="adamw"), Written("adamw", decay=0.01)),
    "adamw-0.5": (Recipe(step_size=0.01, optimizer="adamw", weight_decay=0.5), Written("adamw", decay=0.5)),
}


def by_hand(data, recipe, update, rates, batches=None):
    """Take the steps in NumPy; `batches` are rows of every step, by default all."""
    params = {name: np.asarray(weight) for name, weight in NETWORK.init(recipe.seed).items()}
    states = {name: Written(update.name, update.beta, update.decay) for name in params}
    for k in range(STEPS):
        rows = range(data.n) if batches is None else batches[k]
        grad = slopes(params, data, rows, [data.n / len(rows)] * len(rows))
        params = {name: states[name](params[name], grad[name], rates[k]) for name in params}
    return params


def agree(run, params):
    for name in params:
        np.testing.assert_allclose(run.params[name], params[name], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", METHODS)
def test_updates_are_those_of_the_formula(data, name):
    recipe, update = METHODS[name]
    run = train(NETWORK, data, dataclasses.replace(recipe, steps=STEPS, record_every=1))
    agree(run, by_hand(data, recipe, update, [recipe.step_size] * STEPS))
    outputs = np.array([reference.fully_connected(run.params, x, 1.0, "tanh", 2)[0][0] for x in data.x])
    assert run.loss == pytest.approx(0.5 * np.sum((outputs - data.y) ** 2), rel=1e-11)  # without the penalty


def test_polyaks_form_is_the_same_with_one_step_size(data):
    """w − η g + β (w − w_before) are the steps of the velocity; with a schedule they are not."""

    def polyak(rates):
        params = {name: np.asarray(weight) for name, weight in NETWORK.init(0).items()}
        before = params
        for k in range(STEPS):
            grad = slopes(params, data, range(data.n), [1.0] * data.n)
            step = {name: params[name] - rates[k] * grad[name] + 0.8 * (params[name] - before[name]) for name in params}
            before, params = params, step
        return params

    recipe = Recipe(steps=STEPS, step_size=0.05, optimizer="momentum", momentum=0.8)
    agree(train(NETWORK, data, recipe), polyak([0.05] * STEPS))
    falling = train(NETWORK, data, dataclasses.replace(recipe, schedule="cosine"))
    with pytest.raises(AssertionError):
        agree(falling, polyak(0.05 * np.asarray(falling.recipe.factors)))


def written_factors(name, k, steps):
    """The table of schedules, one number at a time."""
    if name == "warmup(4) cosine(0.1)":
        return (k + 1) / 4 if k < 4 else 0.1 + 0.9 * (1 + math.cos(math.pi * (k - 4) / (steps - 4))) / 2
    if name == "steps(3,0.5)":
        return 0.5 ** (k // 3)
    if name == "milestones(2,9)":
        return 0.1 ** ((k >= 2) + (k >= 9))
    return {"cosine": (1 + math.cos(math.pi * k / steps)) / 2, "linear(0.2)": 1 - 0.8 * k / steps,
            "warmup(5)": min(1, (k + 1) / 5)}[name]  # fmt: skip


SCHEDULES = ("cosine", "linear(0.2)", "steps(3,0.5)", "milestones(2,9)", "warmup(5)", "warmup(4) cosine(0.1)")


class TestSchedules:
    @pytest.mark.parametrize("name", SCHEDULES)
    def test_factors_are_those_of_the_table(self, name):
        found = factors(name, STEPS)
        assert found is not None
        full = [found[min(k, len(found) - 1)] for k in range(STEPS)]
        np.testing.assert_allclose(
            full, [written_factors(name, k, STEPS) for k in range(STEPS)], rtol=1e-14, atol=1e-16
        )

    def test_warm_ups_and_milestones_need_no_table_of_all_steps(self):
        long, short = factors("warmup(5) milestones(100,20)", 10**15), factors("warmup(5)", 3)
        assert long is not None
        assert short is not None
        assert (len(long), len(short)) == (106, 3)
        assert factors("constant", 10**15) is None

    @pytest.mark.parametrize(
        ("name", "method"),
        [("cosine", "plain-decay"), ("warmup(4) cosine(0.1)", "nesterov-0.7"), ("milestones(2,9)", "adamw-0.5")],
    )
    def test_steps_take_them(self, data, name, method):
        recipe, update = METHODS[method]
        run = train(NETWORK, data, dataclasses.replace(recipe, steps=STEPS, schedule=name))
        rates = [float(recipe.step_size) * written_factors(name, k, STEPS) for k in range(STEPS)]
        agree(run, by_hand(data, recipe, update, rates))

    def test_a_list_and_a_function(self, data):
        rates = [0.05 / (1 + k) for k in range(STEPS)]
        listed = Recipe(steps=STEPS, step_size=1.0, schedule=rates)
        told = Recipe(steps=STEPS, step_size=1.0, schedule=lambda k: 0.05 / (1 + k))
        assert listed == told
        run = train(NETWORK, data, told)
        assert same(run, train(NETWORK, data, listed))
        agree(run, by_hand(data, told, Written("plain"), rates))
        short = train(NETWORK, data, Recipe(steps=STEPS, step_size=1.0, schedule=rates[:3]))  # the last one stays
        agree(short, by_hand(data, told, Written("plain"), rates[:3] + [rates[2]] * (STEPS - 3)))

    def test_one_step_size_is_the_program_without_a_schedule(self, data):
        plain = Recipe(steps=STEPS, step_size=0.05)
        assert same(train(NETWORK, data, plain), train(NETWORK, data, dataclasses.replace(plain, schedule=[1.0])))

    @pytest.mark.parametrize(("schedule", "words"), [
        ("cosin", "no schedule 'cosin': use one of constant, cosine"), ("steps", "no schedule 'steps'"),
        ("cosine(a)", "no schedule"), ("milestones(2.5)", "no schedule"), ("", "no schedule"), ("warmup(0)", "no"),
        ("cosine linear", "the first must be a warm-up"), ([1.0, -1.0], "factors >= 0"), ([], "factors >= 0"),
        (np.ones((1, 1)), "factors >= 0"), (lambda k: math.nan, "factors >= 0"), ("steps(3,nan)", "no"),
    ])  # fmt: skip
    def test_what_is_none_is_said(self, schedule, words):
        with pytest.raises(InputError, match=words):
            Recipe(schedule=schedule, steps=4)

    def test_very_long_ones_are_refused(self, data):
        with pytest.raises(InputError, match="at most 4194304 steps, got steps=10000000"):
            train(NETWORK, data, Recipe(schedule="cosine", steps=10**7))
        with pytest.raises(InputError, match="for 1 to 4194304 steps"):
            settled(lambda k: 1.0, 10**9)


class TestEpochs:
    def test_every_example_once_in_an_order_of_its_own(self, data):
        key = jax.random.key(3)
        orders = []
        for epoch in range(40):
            found = [epoch_batch(key, 3 * epoch + j, 7, 3) for j in range(3)]
            assert [int(counts.sum()) for _, counts in found] == [3, 3, 1]
            orders.append([int(row) for rows, counts in found for row in rows[counts]])
            assert sorted(orders[-1]) == list(range(7))
        assert len({tuple(order) for order in orders}) > 35  # of 5040: 0.15 pairs are expected to be equal
        places = np.argsort(orders, axis=1)  # where each example stands: uniform, mean 3 with variance 4
        assert np.abs(places.mean(axis=0) - 3).max() < 4 * math.sqrt(4 / 40)
        other = [int(row) for j in range(3) for row in epoch_batch(jax.random.key(4), j, 7, 3)[0]]
        assert other != [int(row) for j in range(3) for row in epoch_batch(key, j, 7, 3)[0]]

    @pytest.mark.parametrize("batch", [1, 3, 4])
    def test_steps_are_those_of_the_batches(self, data, batch):
        recipe = Recipe(steps=STEPS, step_size=0.02, batch=batch, shuffle=True, seed=5)
        found = [epoch_batch(jax.random.key(5), k, data.n, batch) for k in range(STEPS)]
        batches = [np.asarray(rows)[np.asarray(counts)] for rows, counts in found]
        agree(train(NETWORK, data, recipe), by_hand(data, recipe, Written("plain"), [0.02] * STEPS, batches))

    def test_means_and_weights(self, data):
        """A mean divides by the examples of the batch; weights multiply as ever."""
        weights = np.array([1, 2, 0.5, 1, 1, 3, 1])
        recipe = Recipe(steps=STEPS, step_size=0.1, batch=3, shuffle=True, reduction="mean", sample_weights=weights)
        params = {name: np.asarray(weight) for name, weight in NETWORK.init(0).items()}
        scaled = weights / weights.mean()
        for k in range(STEPS):
            rows, counts = epoch_batch(jax.random.key(0), k, data.n, 3)
            rows = np.asarray(rows)[np.asarray(counts)]
            grad = slopes(params, data, rows, scaled[rows] / len(rows))
            params = {name: params[name] - 0.1 * grad[name] for name in params}
        agree(train(NETWORK, data, recipe), params)

    def test_batches_without_shuffle_are_as_before(self, data):
        plain = train(NETWORK, data, Recipe(steps=9, step_size=0.02, batch=3))
        shuffled = train(NETWORK, data, Recipe(steps=9, step_size=0.02, batch=3, shuffle=True))
        assert any((plain.params[name] != shuffled.params[name]).any() for name in plain.params)
        whole = train(NETWORK, data, Recipe(steps=9, step_size=0.02, batch=7, shuffle=True))
        assert same(whole, train(NETWORK, data, Recipe(steps=9, step_size=0.02)))

    def test_without_batches_there_is_no_order(self):
        with pytest.raises(InputError, match="give a batch size"):
            Recipe(shuffle=True)


ALL = Recipe(steps=60, step_size=0.02, batch=3, shuffle=True, optimizer="nesterov", momentum=0.6, weight_decay=0.01,
             schedule="warmup(7) steps(20,0.5)")  # fmt: skip


class TestSameBits:
    @pytest.mark.parametrize("recipe", [
        ALL, dataclasses.replace(ALL, optimizer="adamw", momentum=None, step_size=0.01, precision="float32"),
        dataclasses.replace(ALL, schedule=list(np.linspace(1, 0.1, 60))),
    ], ids=("nesterov", "adamw", "list"))  # fmt: skip
    def test_stopped_and_resumed(self, data, tmp_path, recipe):
        unbroken = train(NETWORK, data, recipe)
        assert same(unbroken, train(NETWORK, data, recipe))
        train(NETWORK, data, dataclasses.replace(recipe, steps=23), folder=tmp_path / "run")
        resumed = resume(tmp_path / "run", steps=60)
        assert same(unbroken, resumed)
        assert Run.load(tmp_path / "run").recipe == recipe

    def test_a_schedule_that_ends_with_the_steps_is_not_prolonged(self, data, tmp_path):
        run = train(NETWORK, data, Recipe(steps=6, step_size=0.02, schedule="cosine"), folder=tmp_path / "run")
        with pytest.raises(InputError, match=r"'cosine' of this run ends at step 6.*train again from the start"):
            resume(tmp_path / "run", steps=9)
        assert same(run, resume(tmp_path / "run"))

    def test_runs_in_one_program(self, data):
        batch, loop = (train_many(NETWORK, data, ALL, seeds=[1, 2], how=how) for how in ("batch", "loop"))
        for one, other in zip(batch, loop, strict=True):
            agree(one, other.params)

    def test_runs_of_before_load(self, data, tmp_path):
        """A folder without the settings that are new is read, and goes on to the bits of today's defaults."""
        recipe = Recipe(steps=20, step_size=0.02, batch=3, optimizer="momentum")
        train(NETWORK, data, dataclasses.replace(recipe, steps=9), folder=tmp_path / "run")
        place = tmp_path / "run" / "run.json"
        described = json.loads(place.read_text())
        for new in ("shuffle", "momentum", "weight_decay", "schedule"):
            del described["recipe"][new]
        place.write_text(json.dumps(described))
        assert same(resume(tmp_path / "run", steps=20), train(NETWORK, data, recipe))


def test_the_safe_step_counts_the_decay(data):
    plain, decayed = (step_size_for(NETWORK, NETWORK.init(0), data, Recipe(weight_decay=decay)) for decay in (0.0, 3.0))
    assert 1 / decayed == pytest.approx(1 / plain + 3.0, rel=1e-12)


@pytest.mark.parametrize(("settings", "words"), [
    ({"momentum": 0.5}, "goes with optimizer='momentum' or 'nesterov', and it is 'plain'"),
    ({"momentum": 1.0, "optimizer": "nesterov"}, "from 0 to below 1, got 1.0"),
    ({"weight_decay": -0.1}, ">= 0, got -0.1"), ({"weight_decay": math.inf}, ">= 0, got inf"),
    ({"optimizer": "adamw"}, "adamw rescales gradients"),
    ({"weight_decay": 0.1, "step_size": "paper"}, "weight decay: use 'safe'"),
])  # fmt: skip
def test_what_does_not_fit_is_said(settings, words):
    with pytest.raises(InputError, match=words):
        Recipe(**settings)


def test_methods_in_words():
    assert ALL.method == (
        "SGD, shuffled batches of 3, Nesterov momentum 0.6, weight decay 0.01, step sizes by warmup(7) steps(20,0.5)"
    )
    assert Recipe(step_size=0.1, optimizer="adamw").method == "AdamW, weight decay 0.01"
    assert Recipe().method == "gradient descent"
