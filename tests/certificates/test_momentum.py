"""Momentum: Theorem 9 on maps whose constants are known, certificates of it, lies, obstacles, and runs."""

import copy

import numpy as np
import pytest

from tests.certificates.making import TINY as NETWORKS
from tests.certificates.making import Reference, fitted, point, quadratic_maps, residuals, signs, sphere
from tests.certificates.rewriting import parts, put
from tests.certificates.test_basins import blocked, ground, made
from wideproof.certificates import Momentum, Problem, certify, polish
from wideproof.certificates.theorems.momentum import inertia
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof_verify import verify


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_all_conclusions_on_quadratic_maps(rng, beta, share):
    """Nearly the largest curvature with a proof: path, energy and loss, at every step."""
    count = 40
    r, j, b, rho, s, largest, constant = quadratic_maps(rng, count, 3, 6, np.ones(count))
    found = []
    for k in range(count):
        h, claims = 0.2, None
        while claims is None:
            h *= 0.98
            at = ground(s[k], largest[k], h * constant[k], residual=rho[k])
            claims = Momentum(beta)._find(at, None)
            if claims is not None and share < 1:
                claims = Momentum(beta)._find(at, share * claims["eta"])
        drag = claims["momentum"] + claims["sigma"] * np.sqrt(beta * claims["eta"])
        found.append((h, claims["eta"], claims["rate"], claims["radii"][0], 1 + drag / (1 - claims["rate"])))
    h, eta, rate, radius, swell = np.array(found).T
    assert (h > 0.7 * (1 - beta) / (8 * (1 + beta))).all()
    b = b * h[:, None, None, None]
    theta, step, path, last = np.zeros((count, 6)), np.zeros((count, 6)), np.zeros(count), rho**2 / 2
    for k in range(600):
        values, jac = residuals(r, j, b, theta)
        loss, square = np.square(values).sum(axis=1) / 2, np.square(step).sum(axis=1)
        energy = loss + beta / (2 * eta) * square
        assert (energy <= last - (1 - beta) / (2 * eta) * square + 1e-13 * rho**2).all()
        assert (energy <= swell * (1 - rate) ** k * rho**2 / 2 * (1 + 1e-9) + 1e-25).all()
        assert (path < radius).all()
        last = energy
        step = beta * step - eta[:, None] * np.einsum("kip,ki->kp", jac, values)
        theta, path = theta + step, path + np.linalg.norm(step, axis=1)
    assert np.median(loss / rho**2) < 1e-6


def test_the_rate_is_the_root_of_its_recursion():
    """Loss no smaller than energy, energy at the bound of the recursion: the claimed rate is not beaten, nor met."""
    found = inertia(0.01, 1.0, 2.0, 0.5, 0.5, 0.7)
    assert found is not None
    gain = 0.3 * found.eta * found.sigma**2 / (1 + found.drag)
    before, now = 1.0, 1.0
    for k in range(1, 2000):
        before, now = now, (1 - found.drag - gain) * now + found.drag * before
        assert now <= (1 + found.drag / (1 - found.rate)) * (1 - found.rate) ** k
    assert now >= 0.1 * (1 - found.rate * (1 + 1e-6)) ** k


def test_without_momentum_it_is_the_usual_rate():
    """E falls by 1 − ησ², as for gradient descent with η ≤ 1/ℓ."""
    found = inertia(0.01, 1.0, 2.0, 0.5, 0.5, 0.0)
    assert found is not None
    assert found.rate == pytest.approx(found.eta * found.sigma**2, rel=1e-6)
    assert found.path == pytest.approx(2 * 0.01 / found.sigma, rel=1e-6)


@pytest.fixture(scope="module")
def problem():
    """Weights that fit up to a residual of about a thousandth, with two rows that contradict each other."""
    network = FullyConnected(input_dim=12, width=96, depth=1, trained=("hidden",))
    x, y = sphere(5, 12, 0), signs(5, 0)
    data = Dataset(np.concatenate([x, x[:1]]), np.concatenate([y, -y[:1]]), "binary")
    means = np.concatenate([[0.0], y[1:]])
    near = polish(network, network.init(0), x, means + 3e-4 * np.array([1, -1, 1, 1, -1])).params
    return network, near, data, means


@pytest.fixture(scope="module")
def certified(problem):
    return made(certify(point(*problem[:3]), Momentum(0.9)))


def test_a_run_keeps_to_its_certificate(problem, certified, tmp_path):
    network, params, data, means = problem
    claims = certified.claims
    verdict = verify(certified.save(tmp_path / "momentum"))
    assert verdict.answer == "proved", verdict.reason
    assert "the least loss that any function of the inputs has" in verdict.statement
    assert "with momentum 0.9" in verdict.statement
    run, roots = Reference(network, params, data.x[:5]), np.sqrt([2.0, 1, 1, 1, 1])
    theta, step, path, values = run.theta, 0 * run.theta, 0.0, means
    drag = 0.9 + claims["sigma"] * np.sqrt(0.9 * claims["eta"])
    for k in range(120):
        out, jac = run.both(theta)
        values = roots * (out - means)
        bound = (1 + drag / (1 - claims["rate"])) * (1 - claims["rate"]) ** k * claims["rho"] ** 2 / 2
        assert values @ values / 2 <= bound
        step = 0.9 * step - claims["eta"] * (roots[:, None] * jac).T @ values
        theta, path = theta + step, path + np.linalg.norm(step)
    assert path < claims["radii"][0]
    assert values @ values < 1e-2 * claims["rho"] ** 2


LIES = {"s": 1.001, "S": 0.99, "rho": 0.99, "radii": 0.5, "lipschitz": 0.99, "momentum": 1.01, "sigma": 1.01,
        "ell": 0.99, "eta": 1.01, "rate": 1.001, "epsilon": 0.5, "steps": 0.9, "distinct": 0.5, "least_loss": 1.01,
        "least_loss_at_most": 0.99}  # fmt: skip


def test_lies_are_refused(certified, tmp_path):
    document, arrays = parts(certified.save(tmp_path / "true"))
    assert set(LIES) == set(document["claims"])
    changes = [*LIES.items(), ("momentum", -1.0), ("eta", -1.0), ("sigma", -1.0), ("rate", -1.0), ("rate", 1e9)]
    for k, (name, factor) in enumerate(changes):
        wrong = copy.deepcopy(document)
        value = wrong["claims"][name]
        changed = [v * factor for v in value] if isinstance(value, list) else type(value)(value * factor)
        wrong["claims"][name] = changed
        verdict = verify(put(tmp_path / f"{k}", wrong, arrays, digests=True))
        assert verdict.answer == "not proved", name
    extra = arrays | {"centre/W1": arrays["weights/W1"]}
    assert verify(put(tmp_path / "extra", document, extra, digests=True)).answer == "malformed"


def test_obstacles(problem):
    network, params, data, _ = problem
    far = certify(Problem(network, data).at(network.init(0)), Momentum())
    assert blocked(far).quantity == "ratio"
    assert blocked(far).value > blocked(far).needed
    assert "use less momentum" in str(far.obstacle)
    large = certify(Problem(network, data).at(params), Momentum(step_size=1.0))
    assert blocked(large).quantity == "step size"
    assert certify(Problem(network, data).at(params), Momentum(step_size=blocked(large).needed / 3)).passed
    heavier = certify(Problem(network, data).at(params), Momentum(1 - 1e-6))
    assert not heavier.passed
    assert certify(Problem(network, data).at(params)).passed
    narrow = FullyConnected(input_dim=12, width=2, depth=1, trained=("output",))
    assert blocked(certify(Problem(narrow, data).at(narrow.init(0)), Momentum())).quantity == "parameters"
    for beta in (-0.1, 1.0, float("nan")):
        with pytest.raises(InputError, match="momentum must be from 0 to below 1"):
            certify(Problem(network, data).at(params), Momentum(beta))


SLOWER = ("conv-residual", "fully-connected-relu", "residual", "deep-relu", "elman-rnn", "own-strided", "own-dense")


@pytest.mark.parametrize("name", ["fully-connected-tanh-outputs",
                                  *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER)])  # fmt: skip
def test_every_network(name, tmp_path):
    params, data = fitted(NETWORKS[name], n=2)
    verdict = verify(made(certify(Problem(NETWORKS[name], data).at(params), Momentum())).save(tmp_path / "momentum"))
    assert verdict.answer == "proved", verdict.reason
