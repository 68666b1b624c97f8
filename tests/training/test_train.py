"""Gradient descent and SGD: against plain NumPy, against theory, against themselves after an interruption."""

import dataclasses
import importlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import NETWORKS, each
from tests.networks import reference
from wideproof.answers import Answer
from wideproof.data import Dataset, ImageDataset, SequenceDataset, load, margin
from wideproof.errors import InputError
from wideproof.kernels import gram, limit_gram
from wideproof.networks import DeepReLU, ElmanRNN, FullyConnected, get_activation
from wideproof.training import Recipe, Run, Status, resume, step_size_for, train, train_many
from wideproof.training.loop import minibatch
from wideproof.training.recording import stride

NETWORK = FullyConnected(5, 16, 2, get_activation("tanh"))
KINDS = {"vectors": Dataset, "images": ImageDataset, "sequences": SequenceDataset}


@pytest.fixture(scope="module")
def data():
    return load("sphere:n=6,d=5,separation=0.4,seed=2", name="sphere")


def data_for(network, n=5):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(n, *network.input_shape)), rng.normal(size=(n, *network.output_shape))
    return KINDS[network.data_kind](x / np.sqrt(x[0].size), y, "regression")


def same(a, b):
    """Whether two runs hold the same bits."""
    assert (a.status, a.step) == (b.status, b.step)
    assert a.steps.tobytes() == b.steps.tobytes()
    assert set(a.records) == set(b.records)
    for one, other in ((a.params, b.params), (a.records, b.records)):
        for name in one:
            assert one[name].tobytes() == other[name].tobytes(), name
    return True


def test_gradient_descent_takes_the_steps_of_plain_numpy(data):
    run = train(NETWORK, data, Recipe(step_size=0.05, steps=30, record_every=1))
    params = NETWORK.init(0)
    for k in range(31):
        outputs, total = [], None
        passes = [reference.fully_connected(params, x, 1.0, "tanh", 2) for x in data.x]
        outputs = np.array([p[0][0] for p in passes])
        assert run.records["loss"][k] == pytest.approx(0.5 * np.sum((outputs - data.y) ** 2), rel=1e-11)
        if k < 30:
            total = {name: sum((o - y) * p[2][name] for o, y, p in zip(outputs, data.y, passes, strict=True))
                     for name in params}  # fmt: skip
            params = {name: params[name] - 0.05 * total[name] for name in params}
    for name in params:
        np.testing.assert_allclose(run.params[name], params[name], rtol=1e-11, atol=1e-12)
    assert run.steps.tolist() == list(range(31))
    assert run.status is Status.LIMIT


@pytest.mark.parametrize("network", each(NETWORKS, slow=["conv-residual-outputs"]))
def test_every_network_descends(network):
    data = data_for(network)
    run = train(network, data, Recipe(steps=40, constant=0.5, record_every=1))
    losses = run.records["loss"]
    assert losses[-1] < losses[0]
    if network.name not in ("deep-relu", "residual-relu", "elman-rnn", "deep-rnn"):
        assert (np.diff(losses) <= 0).all()
    for name in run.params:
        moved = (run.params[name] != run.initial[name]).any()
        assert moved == (name in network.trained_names), name


def test_recorded_functions_see_state_and_info(data):
    seen = {
        "at": lambda state, info: state.step,
        "norms": lambda state, info: {name: jnp.linalg.norm(g) for name, g in info.grad.items()},
        "outputs": lambda state, info: info.outputs,
    }
    run = train(NETWORK, data, Recipe(step_size=0.01, steps=7, record_every=3), record=seen)
    assert run.steps.tolist() == [0, 3, 6, 7]
    assert run.records["at"].tolist() == [0, 3, 6, 7]
    np.testing.assert_allclose(
        run.records["loss"], 0.5 * np.sum((run.records["outputs"] - data.y) ** 2, axis=1), rtol=1e-12
    )
    residual = run.records["outputs"][0] - data.y
    square = sum(run.records[f"norms.{name}"][0] ** 2 for name in NETWORK.trained_names)
    assert square == pytest.approx(residual @ gram(NETWORK, run.initial, data.x) @ residual, rel=1e-10)
    assert run.history["outputs"].dims == ("step", "outputs_0")
    assert run.history.attrs["digest"] == data.digest


def test_thinning_schedule_is_the_hosts(data):
    run = train(FullyConnected(5, 2, 1), data, Recipe(step_size=1e-4, steps=5000))
    expected = [k for k in range(5000) if k % stride(k, 1, True) == 0] + [5000] * (5000 % 8 != 0)
    assert run.steps.tolist() == expected + [5000] * (expected[-1] != 5000)
    assert len(run.steps) < 2400


def three(n=9):
    """Three classes of vectors."""
    x, labels = np.random.default_rng(8).normal(size=(n, 5)), np.arange(n) % 3
    return Dataset(x, np.where(labels[:, None] == np.arange(3), 1.0, -1.0), "multiclass", "three")


class TestCrossEntropy:
    NETWORK = FullyConnected(5, 16, 2, get_activation("tanh"), outputs=3)

    @pytest.mark.parametrize("recipe", [
        Recipe(loss="cross_entropy"), Recipe(loss="cross_entropy", label_smoothing=0.1),
        Recipe(loss="cross_entropy", class_weights=(1.0, 5.0, 0.5), sample_weights=(1, 2, 0, 1, 1, 1, 3, 1, 1)),
        Recipe(sample_weights=(1, 2, 0, 1, 1, 1, 3, 1, 1)), Recipe(reduction="mean", class_weights="balanced"),
    ], ids=("plain", "smoothed", "weighted", "squares", "balanced"))  # fmt: skip
    def test_steps_are_those_of_the_formula(self, recipe):
        """Differentiated by JAX through plain softmax, with weights written out."""
        data, y = three(), jnp.asarray(three().y)
        recipe = dataclasses.replace(recipe, steps=12, step_size=0.1, record_every=1)
        run = train(self.NETWORK, data, recipe)
        w = np.ones(9) if recipe.sample_weights is None else np.array(recipe.sample_weights)
        if isinstance(recipe.class_weights, tuple):
            w = w * np.array([1.0, 5.0, 0.5])[data.labels]

        def loss(params):
            f = self.NETWORK(params, data.x)
            if recipe.loss == "squared":
                each = 0.5 * ((f - y) ** 2).sum(axis=1)
                return (w * each).sum() if recipe.reduction != "mean" else (w * each).sum() / w.sum()
            q = (1 - recipe.label_smoothing) * (y > 0) + recipe.label_smoothing / 3
            return (w * -(q * jax.nn.log_softmax(f)).sum(axis=1)).sum() / w.sum()

        slope = jax.jit(jax.value_and_grad(loss))
        params = self.NETWORK.as_params(self.NETWORK.init(0))
        for k in range(13):
            value, grad = slope(params)
            assert run.records["loss"][k] == pytest.approx(float(value), rel=1e-12)
            if k < 12:
                params = {name: params[name] - 0.1 * grad[name] for name in params}
        for name in params:
            np.testing.assert_allclose(run.params[name], params[name], rtol=1e-11, atol=1e-13)

    def test_a_weight_of_two_is_an_example_twice(self):
        data, twice = three(), [0, 0, *range(1, 9)]
        weighted = Recipe(loss="cross_entropy", steps=40, sample_weights=(2, *[1] * 8))
        plain = Recipe(loss="cross_entropy", steps=40)
        one, other = train(self.NETWORK, data, weighted), train(self.NETWORK, data.take(twice), plain)
        assert one.step_size == pytest.approx(other.step_size, rel=1e-6)
        np.testing.assert_allclose(one.predict(data.x), other.predict(data.x), rtol=1e-5)

    def test_balanced_weights(self):
        data = three(7)
        found = Recipe(loss="cross_entropy", class_weights="balanced").weights(data)
        assert found is not None
        sums = [found[data.labels == c].sum() for c in range(3)]
        np.testing.assert_allclose(sums, 7 / 3)

    def test_minibatches_are_unbiased_with_weights(self):
        data = three(6)
        recipe = Recipe(loss="cross_entropy", sample_weights=(1, 2, 3, 4, 5, 6), step_size=1.0, steps=1)
        whole = train(self.NETWORK, data, recipe)
        weights, objective = np.asarray(recipe.weights(data)), recipe.objective
        params = self.NETWORK.as_params(self.NETWORK.init(0))
        y = jnp.asarray(data.y)

        def part(p, rows):
            return objective.value(self.NETWORK(p, data.x[rows]), y[rows], jnp.asarray(weights[rows]))

        def grad(rows):
            return np.asarray(jax.grad(part)(params, rows)["W1"])

        each = [grad(np.array(rows)) for rows in itertools.combinations(range(6), 2)]
        moved = whole.initial["W1"] - whole.params["W1"]
        np.testing.assert_allclose(np.mean(each, axis=0), moved, rtol=1e-10, atol=1e-13)
        run = train(self.NETWORK, data, dataclasses.replace(recipe, batch=2))
        assert min(np.abs(run.initial["W1"] - run.params["W1"] - g).max() for g in each) < 1e-13

    def test_the_safe_step_is_that_of_the_weighted_curvature(self):
        data, recipe = three(), Recipe(loss="cross_entropy", sample_weights=(1, 2, 0, 1, 1, 1, 3, 1, 1))
        params, weights = self.NETWORK.init(0), np.asarray(recipe.weights(three()))
        root = np.sqrt(np.repeat(weights, 3))
        top = np.linalg.eigvalsh(root[:, None] * gram(self.NETWORK, params, data.x) * root)[-1]
        assert step_size_for(self.NETWORK, params, data, recipe) == pytest.approx(2 * 9 / top, rel=1e-3)

    def test_targets_may_be_probabilities(self):
        shares = np.random.default_rng(1).dirichlet(np.ones(3), 9)
        data = Dataset(three().x, shares, "regression")
        run = train(self.NETWORK, data, Recipe(loss="cross_entropy", steps=5000))
        entropy = -(shares * np.log(shares)).sum() / 9
        assert entropy <= run.loss <= entropy + 1e-3
        with pytest.raises(InputError, match="a class for every example of 'data', or probabilities that add up to 1"):
            train(self.NETWORK, Dataset(three().x, 2 * shares, "regression"), Recipe(loss="cross_entropy"))

    @pytest.mark.parametrize(("more", "words"), [
        ({"loss": "logistic", "label_smoothing": 0.1}, "label_smoothing goes with loss='cross_entropy'"),
        ({"label_smoothing": 1.0, "loss": "cross_entropy"}, "a share >= 0 and below 1"),
        ({"class_weights": "heavy"}, "a number for every class, or 'balanced', got 'heavy'"),
        ({"class_weights": (1, 2)}, "has 3 classes, and class_weights has 2 numbers"),
        ({"sample_weights": (1, 2)}, "has 9 examples, and sample_weights has 2 numbers"),
        ({"sample_weights": [-1.0] * 9}, "numbers >= 0, one for every example"),
        ({"sample_weights": [0.0] * 9}, "are 0: give some example a weight > 0"),
        ({"loss": "cross_entropy", "step_size": "paper"}, "no paper has a step size for cross-entropy, for weights"),
    ])  # fmt: skip
    def test_what_does_not_fit_is_said(self, more, words):
        with pytest.raises(InputError, match=words):
            train(self.NETWORK, three(), Recipe(**more))


class TestStopping:
    def test_target_loss(self, data):
        run = train(NETWORK, data, Recipe(steps=5000, target_loss=1e-3))
        assert run.status is Status.TARGET
        assert run.succeeded is Answer.HOLDS
        assert run.loss <= 1e-3
        assert run.records["loss"][-2] > 1e-3
        before = train(NETWORK, data, Recipe(steps=run.step - 1, target_loss=1e-3))
        assert before.status is Status.LIMIT
        assert before.succeeded is Answer.FAILS
        assert "allow more steps" in before.advice

    def test_zero_error(self, data):
        run = train(NETWORK, data, Recipe(steps=5000, loss="logistic", stop_at_zero_error=True))
        assert run.status is Status.ZERO_ERROR
        assert run.error == 0
        assert (run.predict(data.x) * data.y > 0).all()

    def test_zero_steps_return_the_start(self, data):
        run = train(NETWORK, data, Recipe(steps=0))
        assert run.step == 0
        assert run.steps.tolist() == [0]
        assert all((run.params[name] == run.initial[name]).all() for name in run.params)

    def test_zero_step_size_changes_nothing(self, data):
        run = train(NETWORK, data, Recipe(steps=5, step_size=0.0))
        assert all((run.params[name] == run.initial[name]).all() for name in run.params)
        assert run.step == 5

    def test_target_above_the_first_loss_takes_no_step(self, data):
        run = train(NETWORK, data, Recipe(steps=50, target_loss=1e9))
        assert (run.status, run.step) == (Status.TARGET, 0)

    def test_divergence_is_a_result_with_advice(self, data):
        safe = step_size_for(NETWORK, NETWORK.init(0), data, Recipe())
        run = train(NETWORK, data, Recipe(steps=3000, step_size=50 * safe))
        assert run.status is Status.DIVERGED
        assert run.succeeded is Answer.FAILS
        assert f"at step {run.step}" in run.advice
        assert "use" in run.advice
        assert run.step < 3000
        assert train(NETWORK, data, Recipe(steps=300)).status is Status.LIMIT


class TestMinibatches:
    def test_a_batch_of_everything_is_gradient_descent_bit_for_bit(self, data):
        whole = train(NETWORK, data, Recipe(step_size=0.05, steps=25))
        assert same(whole, dataclasses.replace(train(NETWORK, data, Recipe(step_size=0.05, steps=25, batch=6))))

    @pytest.mark.parametrize("batch", [1, 2, 3])
    def test_subsets_are_uniform_without_replacement(self, batch):
        draws = jax.jit(jax.vmap(lambda k: minibatch(jax.random.key(4), k, 5, batch)))(jnp.arange(6000))
        chosen = [tuple(sorted(row)) for row in np.asarray(draws).tolist()]
        assert all(len(set(row)) == batch for row in chosen)
        subsets = list(itertools.combinations(range(5), batch))
        counts = np.array([chosen.count(subset) for subset in subsets])
        expected = 6000 / len(subsets)
        chi2 = np.sum((counts - expected) ** 2 / expected)
        assert chi2 < len(subsets) - 1 + 5 * np.sqrt(2 * (len(subsets) - 1))

    @pytest.mark.parametrize(
        ("loss", "reduction"),
        [("squared", "half_sum"), pytest.param("squared", "mean", marks=pytest.mark.slow), ("logistic", "mean")],
    )
    def test_the_batch_gradient_is_unbiased_by_enumeration(self, data, loss, reduction):
        """The mean of one SGD step over all subsets is one GD step, and each step is one of them."""
        objective = Recipe(loss=loss, reduction=reduction).objective
        params = NETWORK.as_params(NETWORK.init(0))

        def grad(rows, scale):
            def total(weights):
                return scale * objective.value(NETWORK(weights, data.x[rows]), jnp.asarray(data.y[rows]))

            return jax.grad(total)(params)["W1"]

        subsets = [list(rows) for rows in itertools.combinations(range(6), 2)]
        each = [np.asarray(grad(rows, objective.batch_scale(6, 2))) for rows in subsets]
        np.testing.assert_allclose(np.mean(each, axis=0), grad(list(range(6)), 1.0), rtol=1e-12, atol=1e-14)
        run = train(NETWORK, data, Recipe(loss=loss, reduction=reduction, step_size=0.5, steps=1, batch=2))
        step = (run.initial["W1"] - run.params["W1"]) / 0.5
        assert min(np.abs(step - g).max() for g in each) < 1e-13

    def test_the_whole_loss_is_recorded(self, data):
        run = train(NETWORK, data, Recipe(steps=9, batch=2, step_size=0.01))
        assert run.steps.tolist() == [0, 3, 6, 9]
        final = 0.5 * np.sum((run.predict(data.x) - data.y) ** 2)
        assert run.loss == pytest.approx(final, rel=1e-12)

    def test_interpolation_has_no_noise_floor(self, data):
        run = train(NETWORK, data, Recipe(steps=20_000, batch=1, constant=0.3, target_loss=1e-12))
        assert run.status is Status.TARGET


class TestResume:
    RECIPES = (
        Recipe(steps=400, step_size=0.02),
        Recipe(steps=400, step_size=0.02, batch=2, optimizer="momentum"),
        Recipe(steps=400, step_size=0.005, optimizer="adam", precision="float32", record_every=7),
        Recipe(steps=400, step_size=0.02, loss="cross_entropy", label_smoothing=0.1, class_weights="balanced",
               sample_weights=(1, 0.1, 1 / 3, 2, 1, 1), batch=2),
    )  # fmt: skip

    @pytest.mark.parametrize("recipe", RECIPES, ids=("gd", "sgd-momentum", "adam-float32", "cross-entropy"))
    def test_a_run_stopped_by_its_limit_goes_on_to_the_same_bits(self, data, tmp_path, recipe):
        measure = {"first": lambda state, info: state.params["W1"][0, 0]}
        unbroken = train(NETWORK, data, recipe, record=measure)
        part = dataclasses.replace(recipe, steps=137)
        train(NETWORK, data, part, record=measure, folder=tmp_path / "run")
        resumed = resume(tmp_path / "run", steps=400, record=measure)
        assert same(unbroken, resumed)
        assert same(Run.load(tmp_path / "run"), resumed)

    def test_chunks_do_not_matter(self, data, tmp_path, monkeypatch):
        unbroken = train(NETWORK, data, self.RECIPES[1])
        module = importlib.import_module("wideproof.training.train")
        monkeypatch.setattr(module, "CHUNK_SECONDS", 1e-9)  # every chunk one step
        assert same(unbroken, train(NETWORK, data, self.RECIPES[1]))

    def test_a_finished_run_is_returned_as_it_is(self, data, tmp_path):
        run = train(NETWORK, data, Recipe(steps=3000, target_loss=1e-2), folder=tmp_path / "run")
        assert same(run, resume(tmp_path / "run"))

    def test_a_limit_that_is_past_already_is_refused(self, data, tmp_path):
        run = train(NETWORK, data, Recipe(steps=20), folder=tmp_path / "run")
        with pytest.raises(InputError, match="at step 20 already, past the limit of 10 asked for"):
            resume(tmp_path / "run", steps=10)
        assert same(run, Run.load(tmp_path / "run"))
        assert same(run, resume(tmp_path / "run", steps=20))

    def test_other_measures_are_refused(self, data, tmp_path):
        train(NETWORK, data, Recipe(steps=5), folder=tmp_path / "run")
        with pytest.raises(InputError, match="recorded error, loss: resume it with the same functions"):
            resume(tmp_path / "run", steps=9, record={"more": lambda state, info: info.loss})

    def test_saving_an_unsaved_run(self, data, tmp_path):
        run = train(NETWORK, data, Recipe(steps=5))
        run.save(tmp_path / "run")
        loaded = Run.load(tmp_path / "run")
        assert same(run, loaded)
        assert loaded.network == NETWORK
        assert loaded.recipe == run.recipe
        assert loaded.data.digest == data.digest
        with pytest.raises(InputError, match="exists already: resume it, or choose another folder"):
            run.save(tmp_path / "run")


class TestManySeeds:
    @pytest.mark.parametrize("recipe", [Recipe(steps=40, step_size=0.02), Recipe(steps=40, step_size=0.02, batch=2)])
    def test_a_loop_gives_the_bits_of_one_by_one_and_a_batch_the_numbers(self, data, recipe):
        seeds = [0, 5, 9]
        alone = [train(NETWORK, data, dataclasses.replace(recipe, seed=seed)) for seed in seeds]
        looped = train_many(NETWORK, data, recipe, seeds=seeds, how="loop")
        assert all(same(a, b) for a, b in zip(alone, looped, strict=True))
        for one, other in zip(alone, train_many(NETWORK, data, recipe, seeds=seeds, how="batch"), strict=True):
            assert other.recipe.seed == one.recipe.seed
            assert other.steps.tolist() == one.steps.tolist()
            np.testing.assert_allclose(other.records["loss"], one.records["loss"], rtol=1e-10)
            for name in one.params:
                np.testing.assert_allclose(other.params[name], one.params[name], rtol=1e-9, atol=1e-11)

    def test_batches_that_fit_into_memory(self, data, monkeypatch):
        """Room for two runs: five seeds go as 2, 2 and 1, in order; the last has the bits of a run alone."""
        module = importlib.import_module("wideproof.training.train")
        one, drive, sizes = 4 * 8 * sum(np.prod(law.shape) for law in NETWORK.laws().values()), module._drive, []
        monkeypatch.setattr(module, "_memory", lambda: 4 * one)
        monkeypatch.setattr(module, "_drive", lambda runs, *rest: (sizes.append(len(runs)), drive(runs, *rest))[1])
        runs = train_many(NETWORK, data, Recipe(steps=30), seeds=range(5), how="batch")
        assert sizes == [2, 2, 1]
        assert [run.recipe.seed for run in runs] == [0, 1, 2, 3, 4]
        assert same(runs[4], train(NETWORK, data, Recipe(steps=30, seed=4)))

    def test_seeds_stop_each_in_its_own_time(self, data):
        runs = train_many(NETWORK, data, Recipe(steps=4000, target_loss=1e-2), seeds=range(4), how="batch")
        alone = train_many(NETWORK, data, Recipe(steps=4000, target_loss=1e-2), seeds=range(4), how="loop")
        assert [run.step for run in runs] == [run.step for run in alone]
        assert len({run.step for run in runs}) > 1
        assert all(run.loss <= 1e-2 for run in runs)

    def test_one_compilation_for_all_seeds_and_step_sizes(self, data):
        from wideproof.training.loop import compiled

        compiled.cache_clear()
        train_many(NETWORK, data, Recipe(steps=3, step_size=0.01), seeds=range(5), how="loop")
        train(NETWORK, data, Recipe(steps=9, step_size=0.02, seed=77, target_loss=1e-9))
        assert compiled.cache_info().currsize == 1


class TestStepSizes:
    def test_safe_is_the_inverse_of_the_largest_curvature(self, data):
        params = NETWORK.init(0)
        top = np.linalg.eigvalsh(gram(NETWORK, params, data.x))[-1]
        assert step_size_for(NETWORK, params, data, Recipe()) == pytest.approx(1 / top, rel=1e-3)
        assert step_size_for(NETWORK, params, data, Recipe(reduction="mean")) == pytest.approx(6 / top, rel=1e-3)
        found = step_size_for(NETWORK, params, data, Recipe(loss="logistic", constant=0.5))
        assert found == pytest.approx(0.5 * 6 * 4 / top, rel=1e-3)

    def test_safe_for_a_loss_without_a_global_bound_is_local(self, data):
        params = NETWORK.init(0)
        root = np.sqrt(np.exp(-data.y * NETWORK(params, data.x)) / 6)
        top = np.linalg.eigvalsh(root[:, None] * gram(NETWORK, params, data.x) * root[None, :])[-1]
        found = step_size_for(NETWORK, params, data, Recipe(loss="exponential"))
        assert found == pytest.approx(1 / top, rel=1e-3)
        assert step_size_for(NETWORK, params, data, Recipe(loss="hinge")) > 0

    def test_a_start_with_every_unit_off(self):
        """Output 0 and gradient 0: any step size does, and the run ends at its limit where it began."""
        data = Dataset(np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([1.0, -1.0]), "binary")
        network = DeepReLU(input_dim=2, width=2, depth=1)
        start = {"W1": -np.ones((2, 2)), "v": np.array([1.0, -1.0])}
        assert step_size_for(network, start, data, Recipe(loss="logistic", constant=0.5)) == 0.5

    def test_twice_the_safe_step_is_the_edge(self, data):
        """A network that is linear in its weights is a quadratic: below 2 it converges, above it does not."""
        line = FullyConnected(5, 64, 1, get_activation("tanh"), trained=("output",))
        good = train(line, data, Recipe(steps=3000, constant=1.9, target_loss=1e-6, divergence_factor=100.0))
        assert good.status is Status.TARGET
        bad = train(line, data, Recipe(steps=3000, constant=2.1, target_loss=1e-6, divergence_factor=100.0))
        assert bad.status is Status.DIVERGED

    def test_papers(self, data):
        params = NETWORK.init(0)
        block = limit_gram(NETWORK, data.x, names=["W2"])
        found = step_size_for(NETWORK, params, data, Recipe(step_size="paper", constant=3.0))
        assert found == pytest.approx(3 * np.linalg.eigvalsh(block)[0] / 36 / 2**2, rel=1e-9)
        zou = NETWORKS["deep-relu"]
        assert step_size_for(zou, zou.init(0), data, Recipe(loss="logistic", step_size="paper")) == pytest.approx(
            min(np.linalg.norm(a - b) for a, s in zip(data.x, data.y, strict=True)
                for b, t in zip(data.x, data.y, strict=True) if s != t) / (6**3 * 3**9 * 8), rel=1e-12)  # fmt: skip
        rnn = NETWORKS["elman-rnn"]
        tokens = load("sequences:n=3,length=5,features=4,separation=0.5,outputs=2")
        rho = 3 * 5 * 2 * np.log(8)
        found = step_size_for(rnn, rnn.init(0), tokens, Recipe(step_size="paper"))
        assert found == pytest.approx(0.5 / (rho**44 * 8), rel=1e-9)
        frei = NETWORKS["residual-relu"]
        margin_data = load("linear_margin:n=10,d=5,rho=0.3")
        found = step_size_for(frei, frei.init(0), margin_data, Recipe(loss="logistic", step_size="paper", steps=100))
        gamma = margin(margin_data.x, margin_data.y, bracket=False).estimate
        assert gamma == pytest.approx(0.3 / np.sqrt(2 * np.pi), rel=0.04)
        tau = gamma**12 * np.log(8) ** -1.5
        bounds = gamma**4 / 8, tau / np.sqrt(8), tau**2 * gamma**4 / (100 * np.sqrt(np.log(10 / 0.05)))
        assert found == pytest.approx(min(bounds), rel=1e-9)

    def test_the_rule_of_zou_et_al_asks_for_comparable_widths(self):
        narrow = DeepReLU(input_dim=5, width=(8, 20), depth=2)
        data = load("two_classes:n=6,d=5,separation=0.3,mu=0.5")
        with pytest.raises(InputError, match=r"Assumption 3\.6"):
            step_size_for(narrow, narrow.init(0), data, Recipe(loss="logistic", step_size="paper"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": "fast"}, "number, 'safe' or 'paper', got 'fast'"),
        ({"step_size": -0.1}, ">= 0, got -0.1"),
        ({"step_size": float("nan")}, ">= 0, got nan"),
        ({"steps": -1}, "steps must be a whole number >= 0.*got -1"),
        ({"batch": 0}, "batch must be a whole number >= 1, got 0"),
        ({"optimizer": "sgd"}, "no optimizer 'sgd': choose one of plain"),
        ({"optimizer": "adam"}, "give a number"),
        ({"precision": "float16"}, "'float64' or 'float32', got 'float16'"),
        ({"loss": "logistic", "reduction": "half_sum"}, "half_sum goes with the squared loss"),
        ({"reduction": "sum"}, "'half_sum' or 'mean', got 'sum'"),
        ({"divergence_factor": 1.0}, "divergence_factor must be > 1"),
    ],
)
def test_bad_recipes_get_a_sentence(settings, message):
    with pytest.raises(InputError, match=message):
        Recipe(**settings)


def test_misfits_get_a_sentence(data):
    with pytest.raises(InputError, match=r"takes examples of shape \(4,\) and 'sphere' has \(5,\)"):
        train(FullyConnected(4, 8, 1), data)
    with pytest.raises(InputError, match=r"outputs of shape \(3,\).*targets of shape \(\)"):
        train(FullyConnected(5, 8, 1, outputs=3), data)
    with pytest.raises(InputError, match="batch is 7 and 'sphere' has 6 examples: use at most 6"):
        train(NETWORK, data, Recipe(batch=7))
    real = Dataset(data.x, np.arange(6.0), "regression", name="real")
    with pytest.raises(InputError, match=r"logistic loss needs labels -1 and \+1.*use the squared loss"):
        train(NETWORK, real, Recipe(loss="logistic"))
    with pytest.raises(InputError, match="no training error: stop at a target loss"):
        train(NETWORK, real, Recipe(stop_at_zero_error=True))


def test_reserved_names_are_refused(data):
    with pytest.raises(InputError, match="loss is recorded in any case: choose another name"):
        train(NETWORK, data, Recipe(steps=1), record={"loss": lambda state, info: info.loss})


def test_float32_is_asked_for_and_said(data):
    run = train(NETWORK, data, Recipe(steps=20, step_size=0.01, precision="float32"))
    assert {w.dtype for w in run.params.values()} == {np.dtype("float32")}
    exact = train(NETWORK, data, Recipe(steps=20, step_size=0.01))
    assert {w.dtype for w in exact.params.values()} == {np.dtype("float64")}
    np.testing.assert_allclose(run.records["loss"], exact.records["loss"], rtol=1e-4)


def test_float64_needs_no_flag(data):
    """The session's own flag may be off; training computes in float64 all the same."""
    with jax.enable_x64(False):
        run = train(NETWORK, data, Recipe(steps=20, step_size=0.01))
        outputs = NETWORK(run.params, data.x)
    assert outputs.dtype == np.float64
    assert same(run, train(NETWORK, data, Recipe(steps=20, step_size=0.01)))


def test_labels_that_change_along_a_sequence():
    """A margin loss at every step from the second on, against a sum written out; real targets are still refused."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 4, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    signs = np.array([[1, -1, 1, -1], [-1, -1, 1, 1], [1, 1, -1, -1]], float)[..., None]
    network, data = ElmanRNN(3, 32, 4), SequenceDataset(x, signs, "regression", "changing")
    run = train(network, data, Recipe(loss="logistic", step_size=0.02, steps=100, record_every=100))
    margins = signs * np.asarray(network(run.initial, x))
    wanted = sum(np.log1p(np.exp(-z)) for one in margins for z in one[1:, 0]) / len(x)
    assert run.records["loss"][0] == pytest.approx(wanted, rel=1e-10)
    assert run.records["loss"][-1] < 0.5 * wanted
    with pytest.raises(InputError, match="needs labels -1 and \\+1"):
        train(network, SequenceDataset(x, 0.5 * signs, "regression", "real"), Recipe(loss="logistic", step_size=0.02))
