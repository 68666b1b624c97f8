"""The weights that gradient descent tends to, against gradient descent itself."""

import dataclasses

import numpy as np
import pytest

import wideproof as wp
from tests.certificates.making import sphere
from wideproof.certificates import Descent, Problem, certify, distance
from wideproof.certificates.staircase import Staircase
from wideproof.data import Dataset
from wideproof.networks import FullyConnected, get_activation
from wideproof.proving import limits
from wideproof.proving.limits import Limit, near_limit
from wideproof.proving.predictor import Predictor


def rows(seed):
    x = sphere(8, 4, seed)
    return Dataset(x, np.random.default_rng(seed).choice([-1.0, 1.0], 8), "binary")


def proved(network, params, data):
    """Certify the initial weights, and return the attempt with its parts, which are there."""
    attempt = certify(Problem(network, data).at(params))
    assert attempt.passed
    assert attempt.descent is not None
    return attempt, attempt.descent


def plain(params):
    return {name: np.asarray(weight, np.float64) for name, weight in params.items()}


def network_of(width, start="doubled", alpha=1.0):
    return FullyConnected(4, width, 1, get_activation("erf"), start=start, alpha=alpha)


def tended(network, params, data, step_size, steps):
    """Gradient descent by plain NumPy: f = c aᵀ erf(Wx), until nothing is left."""
    from scipy.special import erf

    w, a = np.array(params["W1"]), np.array(params["a"]).reshape(-1, network.width)
    c = network.alpha * np.sqrt(network.activation.c_sigma / network.width)
    y = data.y.reshape(data.n, -1)
    for _ in range(steps):
        z = data.x @ w.T
        r = c * erf(z) @ a.T - y
        slopes = 2 / np.sqrt(np.pi) * np.exp(-z * z)
        back = c * (r @ a * slopes).T @ data.x
        a, w = a - step_size * c * r.T @ erf(z), w - step_size * back
    assert np.linalg.norm(r) < 1e-9
    return {"W1": w, "a": a.reshape(np.shape(params["a"]))}


@pytest.mark.parametrize(("start", "alpha", "seed"), [("doubled", 300.0, 0), ("doubled", 3000.0, 1), ("zero", 1e4, 2)])
def test_gradient_descent_ends_within_the_bound(start, alpha, seed):
    data = rows(seed)
    network = network_of(256, start, alpha)
    first = plain(network.init(seed))
    attempt, descent = proved(network, first, data)
    found = near_limit(network, attempt, data)
    assert found is not None
    limit = tended(network, first, data, descent.eta, 20_000)
    far = distance(network.trained_names, limit, found.params)
    moved = distance(network.trained_names, limit, first)
    assert far <= found.distance + 1e-9 * moved
    assert far < 0.2 * moved  # near the limit, not merely on the way
    new = np.random.default_rng(seed).standard_normal((50, 4))
    change = found.change(network, new)
    there, here = (np.asarray(network(w, new), float).reshape(50, -1) for w in (limit, found.params))
    assert (np.abs(there - here) <= change).all()


@pytest.mark.parametrize("name", ["erf", "sin", "tanh"])
def test_no_change_of_the_weights_gets_beyond_the_bound_of_outputs(name):
    """Steps up the output, kept on the sphere of radius d; with saturated units the bound is nearly reached."""
    rng, reached = np.random.default_rng(0), []
    for far in (0.3, 3.0, 30.0):
        network = FullyConnected(3, 32, 1, get_activation(name))
        known, x = network.activation.known, far * np.eye(3)[:1]
        params = {"W1": rng.normal(size=(32, 3)), "a": rng.normal(size=32)}
        c = np.sqrt(network.activation.c_sigma / network.width)
        for d in (1e-3, 0.1, 3.0):
            (bound,) = Limit(params, 0.0, d, 0.0).change(network, x)[0]  # pyright: ignore[reportOptionalSubscript]
            w, a = params["W1"], params["a"]
            first, best = c * a @ known.value(w @ x[0]), 0.0
            for sign in (1, -1):
                dw, da = np.zeros_like(w), np.zeros_like(a)
                for _ in range(100):
                    z = (w + dw) @ x[0]
                    up = sign * np.outer((a + da) * known.slope(z), x[0]), sign * known.value(z)
                    dw, da = 0.3 * dw + d * up[0], 0.3 * da + d * up[1]
                    size = np.sqrt(np.sum(dw**2) + np.sum(da**2)) / d
                    dw, da = dw / size, da / size
                    best = max(best, abs(c * (a + da) @ known.value((w + dw) @ x[0]) - first))
            assert best <= bound * (1 + 1e-12)
            reached.append(best / bound)
    assert max(reached) > 0.99  # a bound that is smaller by a hundredth would be caught


def hostile(case):
    """A small random problem: equal rows with their own targets, one to three outputs, a scale near the edge."""
    rng = np.random.default_rng(case)
    outputs, n = int(rng.integers(1, 4)), int(rng.integers(3, 8))
    x = sphere(n, 4, case) * rng.uniform(0.5, 2.0)
    place = np.concatenate([np.arange(n), rng.integers(0, n, rng.integers(0, 6))])
    y = rng.standard_normal((len(place), outputs))
    data = Dataset(x[place], y if outputs > 1 else y[:, 0], "regression")
    name = ("erf", "tanh", "sin")[case % 3]
    network = FullyConnected(4, 64, 1, get_activation(name), outputs=outputs, start="doubled")
    one = certify(Problem(network, data).at(network.init(case)), level="float64").h  # falls as 1/alpha
    return dataclasses.replace(network, alpha=float(one / rng.uniform(0.05, 0.48))), data


def tended_by_jax(network, params, data, step_size, steps):
    """Gradient descent by automatic differentiation, all rows one by one."""
    import jax

    jnp, names = jax.numpy, network.trained_names

    def loss(w):
        return 0.5 * jnp.sum((network(params | w, data.x) - data.y) ** 2)

    def step(w, _):
        return {name: w[name] - step_size * g for name, g in jax.grad(loss)(w).items()}, None

    with jax.enable_x64(True):
        run = jax.jit(lambda w: jax.lax.scan(step, w, None, length=steps)[0])
        end, before = {name: jnp.asarray(params[name]) for name in names}, np.inf
        for _ in range(20):
            end = run(end)
            slope = float(sum(jnp.sum(g * g) for g in jax.grad(loss)(end).values())) ** 0.5
            if slope >= 0.5 * before or slope < 1e-13:
                break
            before = slope
        return {name: np.asarray(weight) for name, weight in end.items()}


@pytest.mark.slow
@pytest.mark.parametrize("longer", [1.0, 1.4])
@pytest.mark.parametrize("case", range(4))
def test_hostile_cases_end_within_the_bound(case, longer):
    """Weighted rows, several outputs, scales near the edge, step sizes beyond 1/b²; the start anywhere in its ball."""
    network, data = hostile(case)
    first = plain(network.init(case))
    step_size = None
    if longer > 1:
        _, found = proved(network, first, data)
        step_size = longer * found.eta
    attempt = certify(Problem(network, data).at(first), Descent(step_size=step_size))
    if attempt.descent is None:
        pytest.skip("no proof with the longer step")
    assert (attempt.descent.kappa < 1) == (longer > 1)
    found = near_limit(network, attempt, data)
    assert found is not None
    limit = tended_by_jax(network, first, data, attempt.descent.eta, 20_000)
    far = distance(network.trained_names, limit, found.params)
    assert far <= found.distance + 1e-9 * attempt.descent.radius
    assert found.distance <= 1.01 * attempt.descent.radius + distance(network.trained_names, found.params, first)


def test_a_start_beside_the_anchor_ends_within_the_bound():
    """The proof is about a ball of starts: from its border gradient descent ends elsewhere, within the bound."""
    network, data = hostile(1)
    network = dataclasses.replace(network, alpha=2 * network.alpha)
    first = plain(network.init(1))
    attempt, _ = proved(network, first, data)
    made = attempt.certificate
    assert made is not None
    exact = near_limit(network, attempt, data)
    assert exact is not None
    eps = 5 * exact.distance  # so far off that without the allowance for it the bound would be false

    class Beside:
        distance = eps

    away = np.random.default_rng(0).standard_normal(first["W1"].shape)
    other = first | {"W1": first["W1"] + eps * away / np.linalg.norm(away)}
    wider = dataclasses.replace(attempt, certificate=dataclasses.replace(made, start=Beside()))
    found = near_limit(network, wider, data)
    assert found is not None
    limit = tended_by_jax(network, other, data, 0.9 * attempt.descent.eta, 20_000)  # pyright: ignore[reportOptionalMemberAccess]
    far = distance(network.trained_names, limit, found.params)
    assert exact.distance < far <= found.distance


def test_without_the_part_across_the_bound_would_be_false(monkeypatch):
    """A planted lie: gradient descent that never leaves the range of the first Jacobian."""
    data = rows(0)
    network = network_of(256, alpha=300.0)
    first = plain(network.init(0))
    attempt, descent = proved(network, first, data)
    monkeypatch.setattr(limits, "outside", lambda staircase, s: 0.0)
    found = near_limit(network, attempt, data)
    assert found is not None
    limit = tended(network, first, data, descent.eta, 20_000)
    assert distance(network.trained_names, limit, found.params) > 100 * found.distance


@pytest.mark.parametrize(("h", "share"), [(0.1, 0.06), (0.25, 0.2), (0.4, 0.55)])
def test_how_much_of_the_radius_the_bound_is(h, share):
    """With one constant, where the fit is as far as gradient descent can get; the integral by its closed form."""
    u = 1 - np.sqrt(1 - 2 * h)
    exact = -u - np.log(1 - u)
    found = limits.outside(Staircase((u,), (1.0,)), 1.0)
    assert exact <= found <= 1.005 * exact
    assert found / np.sqrt(1 - u * u) < share * u


def test_the_integral_over_a_staircase_is_that_of_many_small_steps():
    stairs = Staircase((0.2, 0.3, 0.6), (0.5, 1.0, 1.5))
    t = (np.arange(600_000) + 0.5) * 1e-6
    m = np.where(t < 0.2, 0.5 * t, np.where(t < 0.3, 0.1 + (t - 0.2), 0.2 + 1.5 * (t - 0.3)))
    exact = float(np.sum(m / (1.1 - m)) * 1e-6)
    assert exact <= limits.outside(stairs, 1.1) <= 1.001 * exact


def test_followed_steps_have_a_limit_too():
    """Where the steps are followed the anchor is trained, and its residual is not small yet."""
    found = wp.prove("iris", limit=16, classes=("setosa", "versicolor"), width=256)
    assert found.followed
    assert found.limit is not None
    assert 0.1 < found.attempt.h < 0.5
    (note,) = (note for note in found.notes if note.startswith(str(found.limit)))
    assert note.endswith("% away")
    run = found.run
    assert run is not None
    limit = tended_by_jax(found.network, plain(run.initial), found.data, run.step_size, 2_000)
    names = found.network.trained_names
    assert distance(names, limit, found.limit.params) <= found.limit.distance


def test_without_a_limit_a_note_says_what_predictions_are_made_with():
    found = wp.prove("iris", limit=20, steps=1, alpha=1.0, classes=("versicolor", "virginica"))
    assert found.limit is None
    assert "predictions are made with the weights after 1 step of training" in " ".join(found.notes)


def test_a_bound_of_a_thousandth_would_be_caught():
    """What the test above would say of a bound that is false."""
    data = rows(0)
    network = network_of(256, alpha=300.0)
    first = plain(network.init(0))
    attempt, descent = proved(network, first, data)
    found = near_limit(network, attempt, data)
    assert found is not None
    limit = tended(network, first, data, descent.eta, 20_000)
    assert distance(network.trained_names, limit, found.params) > 1e-3 * found.distance


def test_there_is_none_without_a_proof_or_where_it_is_not_near():
    data = rows(0)
    network = network_of(256)
    assert near_limit(network, certify(Problem(network, data).at(network.init(0)), level="float64"), data) is None
    lazy = dataclasses.replace(network, alpha=3000.0)
    attempt, descent = proved(lazy, lazy.init(0), data)
    small = descent.staircase._replace(radii=(1e-12,), constants=(1.0,), caps=None)
    nowhere = dataclasses.replace(attempt, conclusion=dataclasses.replace(descent, staircase=small))
    assert near_limit(lazy, nowhere, data) is None


def test_a_proof_predicts_with_the_limit_and_a_folder_keeps_it(tmp_path):
    found = wp.prove("iris", limit=40, folder=tmp_path / "p")
    assert found.limit is not None
    names, labels = found.data.classes, found.data.labels
    assert names is not None
    assert labels is not None
    assert found.predict(wp.load("iris", limit=40).x).tolist() == [str(names[k]) for k in labels]
    kept = Limit.read(tmp_path / "p")
    assert kept is not None
    assert kept.distance == found.limit.distance
    model = Predictor.load(tmp_path / "p")
    assert all(np.array_equal(model.params[name], found.limit.params[name]) for name in model.params)
    sure = model.sure(wp.load("iris", limit=40).x)
    assert sure is not None
    assert sure.shape == (found.data.n,)


def test_how_sure_a_class_is():
    """Sure where nothing can change, unsure where everything can, unknown without a limit."""
    data = rows(0)
    network = network_of(64)
    params = plain(network.init(0))
    params["a"] = np.abs(params["a"])
    model = Predictor(network, params, data, Limit(params, 0.0, 0.0, 0.0))
    assert np.all(model.sure(data.x))
    wide = Predictor(network, params, data, Limit(params, 0.0, 1e6, 1.0))
    assert not np.any(wide.sure(data.x))
    assert Predictor(network, params, data).sure(data.x) is None
