"""Gauss–Newton: Theorem 13 on maps with known constants and on tiny networks, in long double; certificates and lies."""

import copy
import itertools
import math

import numpy as np
import pytest

from tests.certificates.making import TINY as NETWORKS
from tests.certificates.making import Reference, fitted, point, quadratic_maps, residuals, signs, sphere
from tests.certificates.rewriting import parts, put
from tests.certificates.test_basins import blocked, made
from wideproof.certificates import Attempt, Newton, certify, doubled, polish
from wideproof.certificates.theorems.newton import newton
from wideproof.data import Dataset
from wideproof.networks import FullyConnected, get_activation
from wideproof.training import Recipe, begin, train
from wideproof_verify import verify

LONG = np.longdouble


def _newton(network, params, data) -> Attempt[None]:
    return certify(point(network, params, data), Newton())


def shortest(jac, values):
    """J⁺r of every problem, by elimination in JJᵀ, in the precision that is given."""
    g, v = np.einsum("kip,kjp->kij", jac, jac), values.copy()
    count = g.shape[1]
    for i in range(count):
        for j in range(i + 1, count):
            factor = g[:, j, i] / g[:, i, i]
            g[:, j] -= factor[:, None] * g[:, i]
            v[:, j] -= factor * v[:, i]
    for i in reversed(range(count)):
        v[:, i] = (v[:, i] - np.einsum("kj,kj->k", g[:, i, i + 1 :], v[:, i + 1 :])) / g[:, i, i]
    return np.einsum("kip,ki->kp", jac, v)


def test_the_steps_are_the_shortest(rng):
    jac, values = rng.normal(size=(5, 3, 7)), rng.normal(size=(5, 3))
    expected = [np.linalg.lstsq(j, r, rcond=None)[0] for j, r in zip(jac, values, strict=True)]
    np.testing.assert_allclose(shortest(jac, values), expected, rtol=1e-10, atol=1e-12)


def keeps_its_word(found, rho, s, first, epsilon, step):
    """Follow steps in long double, and check every conclusion; `step()` gives residuals and moves on."""
    t, climb, last, norm_before, norm = 0.0, first, 0.0, None, math.inf
    for _ in range(found.steps + 1):
        norm, distance = step()
        assert distance <= t * (1 + 1e-15) + 1e-18
        assert distance <= found.end
        if norm_before is None:
            assert norm <= rho
        else:
            assert norm <= found.square * norm_before**2 + 1e-17
            assert norm <= found.constant / 2 * last**2 + 1e-17
        norm_before, last, t = norm, climb, t + climb
        climb = found.constant / 2 * climb**2 / (s - found.constant * t) * (1 + 1e-12)
    assert norm**2 / 2 <= epsilon


@pytest.mark.parametrize("seed", range(3))
def test_all_conclusions_on_quadratic_maps(seed):
    """Up to h' = 0.49999, a third of them extremal."""
    rng, count = np.random.default_rng(seed), 300
    r, j, b, rho, s, _, constant = quadratic_maps(rng, count, 3, 6, np.ones(count))
    first = np.linalg.norm(shortest(j, r), axis=1) * (1 + 1e-12)
    wanted = np.where(np.arange(count) % 2, 0.49999, rng.uniform(0.01, 0.5, count))
    scale = wanted * s / (constant * first) * (1 - 1e-6)
    b, constant = (b * scale[:, None, None, None]).astype(LONG), constant * scale
    theta, r, j = np.zeros((count, 6), LONG), r.astype(LONG), j.astype(LONG)
    seen = []
    for _ in range(40):
        values, jac = residuals(r, j, b, theta)
        seen.append((np.linalg.norm(values.astype(float), axis=1), np.linalg.norm(theta.astype(float), axis=1)))
        theta = theta - shortest(jac, values)
    for k in range(count):
        found = newton(rho[k], s[k], first[k], lambda radius, k=k: constant[k])
        assert found is not None
        assert found.h < 0.5
        course = iter(seen)
        keeps_its_word(found, rho[k], s[k], first[k], 1e-12, lambda k=k, course=course: [a[k] for a in next(course)])
    assert max(norms.max() for norms, _ in seen[-3:]) < 1e-15


@pytest.mark.parametrize("h", [0.1, 0.4, 0.499999])
def test_the_majorant_is_met_by_a_parabola(h):
    """s(D − t) + Λt²/2 is itself such a map: its steps, its zero and its loss are the bounds."""
    s, first, epsilon = 0.7, 1.3, 1e-12
    constant = h * s / first
    found = newton(s * first, s, first, lambda radius: constant, epsilon)
    assert found is not None
    t, norms = LONG(0), []
    for _ in range(found.steps + 1):
        value = s * (first - t) + LONG(constant) * t * t / 2
        norms.append(float(abs(value)))
        t += value / (s - constant * t)
    assert norms[-1] ** 2 / 2 <= epsilon < norms[-2] ** 2 / 2  # so the number of steps is the least
    for _ in range(60):
        t += (s * (first - t) + LONG(constant) * t * t / 2) / (s - constant * t)
    assert float(t) <= found.end == pytest.approx(float(t), rel=1e-6)


@pytest.mark.parametrize(("h", "passes"), [(0.4999, True), (0.5, False), (0.51, False), (math.inf, False)])
def test_the_threshold(h, passes):
    """From ½ on the parabola has one zero or none, and at one Newton's method is not quadratic."""
    assert (newton(1.0, 1.0, 1.0, lambda radius: h) is not None) == passes
    assert newton(1.0, 0.0, 1.0, lambda radius: 0.1) is None
    assert newton(1.0, 1.0, math.inf, lambda radius: 0.1) is None


def test_a_constant_that_grows_with_the_ball():
    """The ball is made larger until the constant that is valid there has its zero inside."""
    found = newton(1.0, 1.0, 0.8, lambda radius: 0.4 + 0.1 * radius)
    assert found is not None
    assert found.constant == 0.4 + 0.1 * found.radius
    assert found.end <= found.radius < 1.01 * found.end
    assert newton(1.0, 1.0, 0.8, lambda radius: 0.6 * radius**3) is None


VALUES = {
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "softplus": (lambda z: np.logaddexp(z, LONG(0)), lambda z: 1 / (1 + np.exp(-z))),
}


def both(network, params, x):
    """Outputs and Jacobian of a fully-connected network with one output, in long double."""
    sigma, slope = VALUES[network.activation.name]
    values, slopes = [x.astype(LONG)], []
    for k, layer in enumerate(network.graph.layers):
        z = values[-1] @ params[f"W{k + 1}"].T
        values.append(LONG(layer.scale) * sigma(z))
        slopes.append(LONG(layer.scale) * slope(z))
    back, found = params["a"] * slopes[-1], {"a": values[-1]}
    for k in reversed(range(len(slopes))):
        found[f"W{k + 1}"] = (back[:, :, None] * values[k][:, None, :]).reshape(len(x), -1)
        back = (back @ params[f"W{k + 1}"]) * slopes[k - 1] if k else back
    return values[-1] @ params["a"], np.concatenate([found[name] for name in network.trained_names], axis=1)


def moved(network, params, step):
    cuts = np.cumsum([params[name].size for name in network.trained_names])[:-1]
    pieces = dict(zip(network.trained_names, np.split(step, cuts), strict=True))
    return {name: params[name] - pieces[name].reshape(params[name].shape) for name in params}


def test_long_doubles_are_the_network_too(rng):
    network = FullyConnected(3, 5, 2, get_activation("tanh"))
    params, x = {name: np.asarray(w) for name, w in network.init(4).items()}, rng.normal(size=(2, 3))
    out, jac = both(network, {name: np.asarray(w, LONG) for name, w in params.items()}, x)
    again = Reference(network, params, x).both(Reference(network, params, x).theta)
    np.testing.assert_allclose(out.astype(float), again[0], rtol=1e-12)
    np.testing.assert_allclose(jac.astype(float), again[1], rtol=1e-10, atol=1e-12)


def attacked(seeds, tmp_path, judged):
    """Random tiny networks with targets near the edge of the condition: proofs are followed in long double."""
    kinds = [FullyConnected(2, 6, 1), FullyConnected(2, 5, 1, get_activation("tanh")),
             FullyConnected(3, 4, 2, get_activation("tanh")), FullyConnected(2, 4, 2)]  # fmt: skip
    passed, ratios = 0, []
    for seed in seeds:
        rng, network = np.random.default_rng(seed), kinds[seed % len(kinds)]
        n = int(rng.integers(1, 4))
        params = {name: np.asarray(w) * np.exp(rng.normal() / 2) for name, w in network.init(seed).items()}
        x = rng.normal(size=(n, network.input_dim))
        long = {name: w.astype(LONG) for name, w in params.items()}
        out, jac = both(network, long, x)
        if np.linalg.cond(jac.astype(float)) > 1e3:
            continue
        way = rng.normal(size=n)
        trial = _newton(network, params, Dataset(x, out.astype(float) + 1e-9 * way, "regression"))
        if trial.certificate is None:
            continue
        size = 1e-9 * rng.choice([0.2, 0.5, 0.9, 0.99]) * 0.5 / trial.certificate.claims["newton_h"]
        y = out.astype(float) + size * way
        attempt = _newton(network, params, Dataset(x, y, "regression"))
        if attempt.certificate is None:
            continue
        passed += 1
        claims = attempt.certificate.claims
        ratios.append(claims["newton_h"])
        norms, start = [], {name: w.copy() for name, w in long.items()}
        for _ in range(claims["steps"] + 1):
            f, jac = both(network, long, x)
            far = math.sqrt(sum(float(((long[name] - start[name]) ** 2).sum()) for name in long))
            assert far <= claims["newton_radius"] <= claims["radii"][0]
            assert np.linalg.svd(jac.astype(float), compute_uv=False)[-1] >= claims["sigma"] * (1 - 1e-12)
            norms.append(float(np.sqrt(((f - y) ** 2).sum())))
            long = moved(network, long, shortest(jac[None], (f - y)[None])[0])
        assert norms[0] <= claims["rho"]
        for before, after in itertools.pairwise(norms):
            assert after <= claims["square"] * before**2 + 1e-17
        assert norms[-1] ** 2 / 2 <= claims["epsilon"]
        if passed % judged == 0:
            verdict = verify(attempt.certificate.save(tmp_path / f"{seed}"))
            assert verdict.answer == "proved", verdict.reason
    return passed, ratios


def test_random_networks_keep_to_their_certificates(tmp_path):
    passed, ratios = attacked(range(40), tmp_path, judged=10)
    assert passed > 15
    assert max(ratios) > 0.4


@pytest.mark.slow
def test_more_random_networks_keep_to_their_certificates(tmp_path):
    passed, ratios = attacked(range(100, 1300), tmp_path, judged=20)
    assert passed > 600
    assert max(ratios) > 0.49


@pytest.fixture(scope="module")
def problem():
    """Initial weights, with two rows that contradict each other; the network fits the means, from afar."""
    network = FullyConnected(input_dim=12, width=256, depth=1, trained=("hidden",))
    x, y = sphere(5, 12, 0), signs(5, 0)
    data = Dataset(np.concatenate([x, x[:1]]), np.concatenate([y, -y[:1]]), "binary")
    start = doubled(network)
    return network, start | {"a": 2 * start["a"]}, data, np.concatenate([[0.0], y[1:]])


@pytest.fixture(scope="module")
def certified(problem):
    return made(_newton(*problem[:3]))


def test_training_from_the_start_keeps_to_its_certificate(problem, certified, tmp_path):
    network, params, data, means = problem
    claims = certified.claims
    verdict = verify(certified.save(tmp_path / "newton"))
    assert verdict.answer == "proved", verdict.reason
    assert "converges to the least loss that any function of the inputs has" in verdict.statement
    assert verdict.statement.startswith("Gauss–Newton with whole steps")
    run, roots = Reference(network, params, data.x[:5]), np.sqrt([2.0, 1, 1, 1, 1])
    theta, last = run.theta, None
    for _ in range(claims["steps"] + 1):
        out, jac = run.both(theta)
        norm = np.linalg.norm(roots * (out - means))
        assert last is None or norm <= claims["square"] * last**2 + 1e-12
        assert np.linalg.norm(theta - run.theta) <= claims["newton_radius"]
        every = np.concatenate([np.arange(5), [0]])  # all six rows, as they are: their least squares are not zero
        theta, last = theta - np.linalg.lstsq(jac[every], out[every] - data.y, rcond=1e-9)[0], norm
    assert norm**2 / 2 <= claims["epsilon"]
    recipe = Recipe(optimizer="gauss-newton", steps=claims["steps"])
    trained = train(network, data, recipe, start=begin(network, data, recipe, params))
    assert trained.loss - 1.0 <= claims["epsilon"] + 1e-14  # two rows with the targets 1 and -1 leave 1


def test_lies_are_refused(certified, tmp_path):
    document, arrays = parts(certified.save(tmp_path / "true"))
    assert set(LIES) == set(document["claims"])
    changes = [*LIES.items(), ("sigma", -1.0), ("epsilon", -1.0), ("newton_h", -1.0), ("D", -1.0), ("newton_radius", 2)]
    for k, (name, factor) in enumerate(changes):
        wrong = copy.deepcopy(document)
        value = wrong["claims"][name]
        changed = [v * factor for v in value] if isinstance(value, list) else type(value)(value * factor)
        wrong["claims"][name] = changed
        verdict = verify(put(tmp_path / f"{k}", wrong, arrays, digests=True))
        assert verdict.answer == "not proved", name


LIES = {"s": 1.001, "rho": 0.99, "radii": 0.5, "lipschitz": 0.99, "D": 0.999, "newton_h": 0.999,
        "newton_radius": 0.999, "sigma": 1.001, "square": 0.999, "epsilon": 1e-6, "steps": 0.8, "distinct": 0.5,
        "least_loss": 1.01, "least_loss_at_most": 0.99}  # fmt: skip


def test_what_is_proved_of_random_claims_is_true(tmp_path):
    """Claims moved by random factors: what the verifier lets through is true by NumPy, and it lets some through."""
    network = FullyConnected(3, 40, 1, get_activation("tanh"))
    params, x = {name: np.asarray(w) for name, w in network.init(1).items()}, sphere(3, 3, 0)
    y = np.asarray(network(params, x)) + 0.1 * signs(3, 1)
    run = Reference(network, params, x)
    out, jac = run.both(run.theta)
    document, arrays = parts(made(_newton(network, params, Dataset(x, y, "regression"))).save(tmp_path / "true"))
    least, rho = np.linalg.svd(jac, compute_uv=False)[-1], np.linalg.norm(out - y)
    first, curved = np.linalg.norm(np.linalg.lstsq(jac, out - y, rcond=None)[0]), run.curvature(run.theta)
    rng, proved, seen = np.random.default_rng(5), 0, 120
    for k in range(seen):
        wrong = copy.deepcopy(document)
        for name in rng.choice(list(document["claims"]), rng.integers(1, 4), replace=False):
            factor = 1 + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-6, -0.5)
            value = wrong["claims"][name]
            moved_by = [v * factor for v in value] if isinstance(value, list) else value * factor
            wrong["claims"][name] = int(rng.integers(0, 9)) if name == "steps" else moved_by
        if verify(put(tmp_path / f"{k}", wrong, arrays, digests=True)).answer != "proved":
            continue
        proved += 1
        c = wrong["claims"]
        (radius,), (rise,), far, step, left = c["radii"], c["lipschitz"], 0.0, c["D"], c["rho"]
        for _ in range(c["steps"]):
            far, left = far + step, rise * step**2 / 2
            step = left / (c["s"] - rise * far)
        slack = 1 + 1e-12
        assert c["s"] <= least * slack
        assert rho <= c["rho"] * slack
        assert first <= c["D"] * slack
        assert curved <= rise * slack
        assert rise * c["D"] / c["s"] <= c["newton_h"] * slack < 0.5 * slack
        end = 2 * c["D"] / (1 + math.sqrt(1 - 2 * rise * c["D"] / c["s"]))
        assert end <= c["newton_radius"] * slack <= radius * slack**2
        assert 0 < c["sigma"] <= (c["s"] - rise * end) * slack
        assert rise / (2 * c["sigma"] ** 2) <= c["square"] * slack
        assert left**2 / 2 <= c["epsilon"] * slack
    assert 5 < proved < seen - 40


def test_too_many_steps_and_other_radii_are_malformed(certified, tmp_path):
    document, arrays = parts(certified.save(tmp_path / "true"))
    for name, value in (("steps", 101), ("radii", [1.0, 2.0]), ("S", 3.0)):
        wrong = copy.deepcopy(document)
        wrong["claims"][name] = value
        verdict = verify(put(tmp_path / name, wrong, arrays, digests=True))
        assert verdict.answer == "malformed", (name, verdict.reason)


def test_what_has_no_zero_is_not_proved(tmp_path):
    """A tanh unit cannot reach 2: neither the prover nor a forged certificate gets through."""
    network = FullyConnected(2, 1, 1, get_activation("tanh"), trained=("hidden",))
    params = {"W1": np.array([[0.3, -0.2]]), "a": np.array([1.0])}
    data = Dataset(np.array([[1.0, 0.5]]), np.array([20.0]), "regression")
    found = _newton(network, params, data)
    assert blocked(found).quantity == "ratio"
    near = made(_newton(network, params, Dataset(data.x, np.asarray(network(params, data.x)), "regression")))
    document, arrays = parts(near.save(tmp_path / "near"))
    arrays["y"] = data.y
    first = 20.0 / document["claims"]["s"]
    document["anchor"].pop("digest")
    document["claims"] |= {"D": first, "rho": 20.0, "newton_h": 0.4999, "newton_radius": 2 * first}
    document["claims"]["radii"] = [2 * first]
    verdict = verify(put(tmp_path / "forged", document, arrays, digests=True))
    assert verdict.answer == "not proved", verdict.reason


def test_obstacles(problem):
    data = problem[2]
    few = FullyConnected(input_dim=12, width=16, depth=1, trained=("hidden",))
    far = _newton(few, few.init(0), data)
    assert blocked(far).quantity == "ratio"
    assert "use a wider network" in str(far.obstacle)
    near = polish(few, few.init(0), data.x[:5], np.asarray(few(few.init(0), data.x[:5]))).params
    fit = Dataset(data.x[:5], np.asarray(few(near, data.x[:5])), "regression")
    assert _newton(few, near, fit).passed
    narrow = FullyConnected(input_dim=12, width=2, depth=1, trained=("output",))
    assert blocked(_newton(narrow, narrow.init(0), data)).quantity == "parameters"


def test_it_asks_for_less_than_gradient_descent():
    """h' = ΛD/s is at most Λρ/s²: a start can be too far for Theorem 1 and not for this."""
    network = FullyConnected(input_dim=6, width=64, depth=1, trained=("hidden",))
    start, data = doubled(network), Dataset(sphere(5, 6, 0), signs(5, 0), "binary")
    found = set()
    for scale in 2.0 ** np.arange(6):
        scaled = start | {"a": scale * start["a"]}
        found.add((certify(point(network, scaled, data)).passed, _newton(network, scaled, data).passed))
    assert found == {(False, False), (False, True), (True, True)}


SLOWER = ("conv-residual", "fully-connected-relu", "residual", "deep-relu", "elman-rnn", "own-strided", "own-dense")


@pytest.mark.parametrize("name", ["fully-connected-tanh-outputs",
                                  *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER)])  # fmt: skip
def test_every_network(name, tmp_path):
    params, data = fitted(NETWORKS[name], n=2)
    verdict = verify(made(_newton(NETWORKS[name], params, data)).save(tmp_path / "newton"))
    assert verdict.answer == "proved", verdict.reason
