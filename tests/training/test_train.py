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
from wideproof.data import Dataset, ImageDataset, SequenceDataset, load
from wideproof.errors import InputError
from wideproof.kernels import gram, limit_gram
from wideproof.networks import DeepReLU, FullyConnected, get_activation
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
    )

    @pytest.mark.parametrize("recipe", RECIPES, ids=("gd", "sgd-momentum", "adam-float32"))
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
        assert found == pytest.approx(3 * np.linalg.eigvalsh(block)[0] / 36, rel=1e-9)
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
        found = step_size_for(frei, frei.init(0), margin_data, Recipe(loss="logistic", step_size="paper"))
        assert found == pytest.approx((0.3 / np.sqrt(2 * np.pi)) ** 4 / 8, rel=0.15)  # the margin is an estimate


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
