"""Basins: Theorem 4 on maps whose constants are known, certificates of it, lies, obstacles, and runs."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from tests.certificates.making import TINY as NETWORKS
from tests.certificates.making import Reference, fitted, point, quadratic_maps, residuals, signs, sphere
from tests.certificates.rewriting import parts, put
from wideproof.certificates import (
    Attempt,
    Basin,
    Certificate,
    Obstacle,
    Problem,
    certify,
    doubled,
    nearest,
    polish,
    width_needed,
)
from wideproof.certificates.ground import Ground, contract
from wideproof.certificates.nearest import pulled
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof_verify import verify


def made(attempt: Attempt) -> Certificate:
    """The certificate of an attempt that passed."""
    assert attempt.passed, attempt.obstacle
    assert attempt.certificate is not None
    return attempt.certificate


def blocked(attempt: Attempt) -> Obstacle:
    """What is in the way of an attempt that failed."""
    assert attempt.certificate is None
    assert attempt.obstacle is not None
    return attempt.obstacle


def ground(s, largest, constant, n=1, residual=0.0):
    """The anchor of a map, zero there by default: s, S and the Lipschitz constant are all that counts."""
    anchor = SimpleNamespace(s=float(s), S=float(largest), residual=float(residual), n=n)
    made = object.__new__(Ground)
    vars(made).update(anchor=anchor, constant=lambda radius: float(constant))
    return made


def through_zero(rng, count, outputs, parameters):
    """Quadratic maps with r(0) = 0 and a known Lipschitz constant of the Jacobian."""
    r, j, b, _, s, largest, constant = quadratic_maps(rng, count, outputs, parameters, rng.uniform(0.5, 2, count))
    return 0 * r, j, b, s, largest, constant


@pytest.mark.parametrize(("c", "threshold"), [(1.0, 0.37228), (1.5, 0.44625), (1.75, 0.47495), (1.999999, 0.49999)])
def test_the_thresholds_of_kappa(c, threshold):
    """2κ² = (1 − κ)(c − (1 + c/2)κ) there."""
    assert contract(1.0, 0.9995 * threshold, 1.0, 0.0, 0.1, c) is not None
    assert contract(1.0, 1.0005 * threshold, 1.0, 0.0, 0.1, c) is None
    around = 0.9995 * threshold / (1 + 2 * threshold)
    assert contract(1.0, around, 1.0, 2.0, 0.1, c) is not None
    assert contract(1.0, around * 1.001, 1.0, 2.0, 0.1, c) is None


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_all_conclusions_on_quadratic_maps(rng, everywhere, share):
    """Starts across the zeros at nearly the largest κ, or anywhere in a ball: distance and residual, at every step."""
    count = 60
    r, j, b, s, largest, constant = through_zero(rng, count, 3, 6)
    found = []
    for k in range(count):
        at = ground(s[k], largest[k], constant[k])
        d = 0.25 * s[k] / constant[k] if everywhere else 0.5 * s[k] / constant[k]
        claims = None
        while claims is None:
            d *= 0.998
            claims = Basin(share=share, target_loss=1e-20)._find(at, d, None if everywhere else 0.0)
        found.append(claims)
    d, eta, rate, radius, big = (np.array([f[name] for f in found]) for name in ("d", "eta", "rate", "radii", "b"))
    kappa = d * constant / s
    assert kappa.min() > (0.2 if everywhere else 0.36)
    if everywhere:
        theta = rng.standard_normal((count, 6))
    else:
        theta = np.einsum("kip,ki->kp", j, rng.standard_normal((count, 3)))
        theta[::3] = -np.einsum("kip,ki->kp", j, np.linalg.svd(j)[0][:, :, -1])[::3]  # against the curvature
    theta *= (d / np.linalg.norm(theta, axis=1))[:, None]
    for step in range(1500):
        values, jac = residuals(r, j, b, theta)
        assert (np.linalg.norm(values, axis=1) <= big * d * (1 - rate) ** step * (1 + 1e-9) + 1e-12).all()
        assert (np.linalg.norm(theta, axis=1) <= radius[:, 0] * (1 + 1e-12)).all()
        theta = theta - eta[:, None] * np.einsum("kip,ki->kp", jac, values)
    assert (np.linalg.norm(residuals(r, j, b, theta)[0], axis=1) < 1e-2 * big * d).all()


@pytest.fixture(scope="module")
def problem():
    network = FullyConnected(input_dim=12, width=96, depth=1)
    data = Dataset(sphere(5, 12, 0), signs(5, 0), "binary")
    return network, polish(network, network.init(0), data.x, data.y).params, data


@pytest.fixture(scope="module")
def from_start():
    network = FullyConnected(input_dim=20, width=64, depth=1, trained=("hidden",))
    data = Dataset(sphere(5, 20, 0), signs(5, 0), "binary")
    begun = doubled(network)
    found = nearest(network, begun, data.x, data.y)
    assert found is not None
    return network, begun, found, data


def test_every_start_in_the_ball(problem, tmp_path):
    network, params, data = problem
    found = certify(Problem(network, data).at(params), Basin())
    claims = made(found).claims
    verdict = verify(made(found).save(tmp_path / "basin"))
    assert verdict.answer == "proved", verdict.reason
    assert "from every start within" in verdict.statement
    assert certify(Problem(network, data).at(params), Basin(distance=1.4 * claims["d"])).certificate is None
    nearer = certify(Problem(network, data).at(params), Basin(distance=claims["d"] / 2))
    assert made(nearer).claims["rate"] > claims["rate"]
    run, rng = Reference(network, params, data.x), np.random.default_rng(0)
    for _ in range(3):
        u = rng.standard_normal(run.theta.size)
        theta = run.theta + claims["d"] * u / np.linalg.norm(u)
        for step in range(60):
            out, jac = run.both(theta)
            size = np.linalg.norm(out - data.y)
            assert size <= claims["b"] * claims["d"] * (1 - claims["rate"]) ** step
            assert np.linalg.norm(theta - run.theta) <= claims["radii"][0]
            theta = theta - claims["eta"] * jac.T @ (out - data.y)
        assert size < 1e-3


def test_one_start_and_the_fit_next_to_it(from_start, tmp_path):
    network, begun, found, data = from_start
    assert found.residual < 1e-12
    half = certify(Problem(network, data).at(found.params), Basin(start=begun, share=0.5))
    assert made(half).claims["t"] < 1e-9
    verdict = verify(made(half).save(tmp_path / "start"))
    assert verdict.answer == "proved", verdict.reason
    assert "from the stored start" in verdict.statement
    run, claims = Reference(network, begun, data.x), made(half).claims
    theta, anchor = run.theta, run.flat(found.params)
    for step in range(200):
        out, jac = run.both(theta)
        size = np.linalg.norm(out - data.y)
        assert size <= claims["b"] * claims["d"] * (1 - claims["rate"]) ** step
        assert np.linalg.norm(theta - anchor) <= claims["radii"][0]
        theta = theta - claims["eta"] * jac.T @ (out - data.y)
    assert size < 1e-6


SLOWER = (
    "conv-residual",
    "elman-rnn",
    "fully-connected-relu",
    "residual",
    "deep-relu",
    "residual-relu",
    "deep-rnn-all",
    "own-strided",
    "own-tied",
)


@pytest.mark.parametrize("name", ["fully-connected-tanh-outputs", "own-dense",
                                  *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER)])  # fmt: skip
def test_every_network(name, tmp_path):
    """A ball of starts, and one start next to the anchor: not along the zeros, so that the normal is needed."""
    network = NETWORKS[name]
    params, data = fitted(network, n=2)
    found = certify(Problem(network, data).at(params), Basin(distance=1e-9))
    ball = verify(made(found).save(tmp_path / "ball"))
    assert ball.answer == "proved", ball.reason
    normal = np.random.default_rng(0).standard_normal(network.scored(data.y).shape)
    across = pulled(network, params, data.x, 1e-7 * normal)
    begun = {name: weight + across.get(name, 0) for name, weight in params.items()}
    beside = certify(Problem(network, data).at(params), Basin(start=begun))
    assert made(beside).claims["t"] < 1e-3 * made(beside).claims["d"]
    start = verify(made(beside).save(tmp_path / "start"))
    assert start.answer == "proved", start.reason


def test_equal_rows_count(tmp_path):
    network = FullyConnected(input_dim=12, width=96, depth=1)
    x, y = sphere(4, 12, 0), signs(4, 0)
    data = Dataset(np.concatenate([x, x[:2]]), np.concatenate([y, [-y[0], y[1]]]), "binary")
    params = polish(network, network.init(0), x, np.concatenate([[0.0], y[1:]])).params
    found = certify(Problem(network, data).at(params), Basin())
    verdict = verify(made(found).save(tmp_path / "basin"))
    assert verdict.answer == "proved", verdict.reason
    assert "the least loss that any function of the inputs has" in verdict.statement
    begun = params | {"W1": params["W1"] + 1e-3}
    close = nearest(network, begun, x, np.concatenate([[0.0], y[1:]]))
    assert close is not None
    start = certify(Problem(network, data).at(close.params), Basin(start=begun))
    assert verify(made(start).save(tmp_path / "start")).answer == "proved"


LIES = {"s": 1.001, "S": 0.999, "rho": 1e-6, "radii": 0.99, "lipschitz": 0.999, "near": 0.5, "b": 0.999, "eta": 1.02,
        "d": 2.0, "a": 0.99, "sigma": 1.001, "rate": 1.001, "epsilon": 0.5, "steps": 0.9}  # fmt: skip


def lie(claims, name, factor):
    """Return the claims with one of them changed."""
    changed = copy.deepcopy(claims)
    value = changed[name]
    changed[name] = [v * factor for v in value] if isinstance(value, list) else type(value)(value * factor)
    return changed


@pytest.mark.parametrize("stored", [False, True])
def test_lies_are_refused(problem, from_start, tmp_path, stored):
    if stored:
        network, begun, near, data = from_start
        found = certify(Problem(network, data).at(near.params), Basin(start=begun, share=0.5))
        lies = {"t": 1e-6, "d": 0.999}
    else:
        found, lies = certify(point(*problem), Basin()), {}
    document, arrays = parts(made(found).save(tmp_path / "true"))
    for name, factor in (LIES | lies).items():
        wrong = document | {"claims": lie(document["claims"], name, factor)}
        verdict = verify(put(tmp_path / name, wrong, arrays, digests=True))
        assert verdict.answer == "not proved", name
    if stored:
        moved = arrays | {"start/W1": arrays["start/W1"] + 1e-3}
        assert verify(put(tmp_path / "moved", document, moved, digests=True)).answer == "not proved"
        turned = document | {"claims": lie(document["claims"], "normal", -1)}
        assert verify(put(tmp_path / "turned", turned, arrays, digests=True)).answer == "not proved"
        short = document | {"claims": document["claims"] | {"normal": document["claims"]["normal"][1:]}}
        assert verify(put(tmp_path / "short", short, arrays, digests=True)).answer == "malformed"
        other = {name: a for name, a in arrays.items() if not name.startswith("start/")}
        assert verify(put(tmp_path / "gone", document, other, digests=True)).answer == "malformed"
    else:
        extra = arrays | {"start/a": arrays["weights/a"]}
        assert verify(put(tmp_path / "extra", document, extra, digests=True)).answer == "malformed"


def test_obstacles(problem, from_start):
    network, params, data = problem
    far = certify(Problem(network, data).at(network.init(0)), Basin())
    assert blocked(far).quantity == "ratio"
    assert "polish" in str(far.obstacle)
    large = certify(Problem(network, data).at(params), Basin(step_size=100.0))
    assert blocked(large).quantity == "step size"
    assert not large.passed
    away = certify(Problem(network, data).at(params), Basin(distance=5.0))
    assert blocked(away).quantity == "distance"
    assert blocked(away).value > 0.25
    narrow = FullyConnected(input_dim=12, width=2, depth=1, trained=("output",))
    assert blocked(certify(Problem(narrow, data).at(narrow.init(0)), Basin())).quantity == "parameters"
    network, begun, found, data = from_start
    along = {name: weight + 0.5 * (name == "W1") for name, weight in begun.items()}
    assert certify(Problem(network, data).at(found.params), Basin(start=along, share=0.5)).certificate is None
    with pytest.raises(InputError, match="leave `distance` out"):
        certify(Problem(network, data).at(found.params), Basin(distance=1.0, start=begun))
    with pytest.raises(InputError, match="not trained"):
        certify(Problem(network, data).at(found.params), Basin(start=begun | {"a": 2 * begun["a"]}))
    with pytest.raises(InputError, match="between 0 and 2"):
        certify(Problem(network, data).at(found.params), Basin(share=2.0))


def test_a_witness_needs_no_small_residual(from_start):
    """Where the residual is too large for Theorem 1, the distance to the nearest fit can do."""
    data = from_start[-1]
    y = np.array([1.0, 1.0, -1.0, -1.0, 1.0])
    x = data.x + 2 * sphere(1, 20, 5)  # nearly parallel inputs: the weakest direction is weak
    close = Dataset(x / np.linalg.norm(x, axis=1, keepdims=True), y * 0 + 1.0 + 0.05 * y, "regression")
    wide = FullyConnected(input_dim=20, width=512, depth=1, trained=("hidden",))
    start = doubled(wide)
    fit = nearest(wide, start, close.x, close.y)
    assert fit is not None
    assert not certify(Problem(wide, close).at(start)).passed
    assert certify(Problem(wide, close).at(fit.params), Basin(start=start, share=0.1)).passed
    needed = width_needed(wide, close, smallest=512, largest=512, tolerance=1)
    assert needed.theorems == ("basin",)
    assert needed.tried[-1].theorem == "basin"
    assert "from width 512 by Theorem 4 (output scale 1, 1 seed)" in str(needed)
    assert width_needed(wide, close, smallest=512, largest=512, shares=()).widths == (None,)
