"""Weight decay: Theorem 10 on maps whose constants are known, certificates of it, lies, obstacles, and runs."""

import copy

import numpy as np
import pytest

from tests.certificates.making import TINY as NETWORKS
from tests.certificates.making import Reference, problem, quadratic_maps, residuals, signs, sphere
from tests.certificates.making import dataset as made_of
from tests.certificates.rewriting import parts, put
from tests.certificates.test_basins import blocked, made
from wideproof.certificates import Problem, Ridge, certify, doubled, load_certificate, polish_ridge
from wideproof.certificates.theorems.ridge import contraction
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof_verify import verify


@pytest.mark.parametrize("share", [1.0, 1.3, 0.2])
def test_all_conclusions_on_quadratic_maps(rng, share):
    """Starts on the sphere itself, steps at the largest certified rate and beside it, the gradient at its limit."""
    count, radius = 60, 0.7
    r, j, b, rho, _, largest, constant = quadratic_maps(rng, count, 3, 6, rng.uniform(0.1, 2, count))
    bend = constant * (rho + largest * radius + constant * radius**2 / 2)
    decay = bend * rng.uniform(1.05, 3, count)
    theta, other, centre = np.empty((3, count, 6))
    eta, rate, gamma, mu = np.empty((4, count))
    for k in range(count):
        found = contraction(rho[k], largest[k], constant[k], radius, decay[k], 0.0)
        assert found is not None
        eta[k] = min(share * found.eta, 1.99 / found.ell)
        found = contraction(rho[k], largest[k], constant[k], radius, decay[k], 0.0, eta[k])
        assert found is not None
        rate[k], mu[k] = found.rate, found.mu
        gamma[k] = found.rate * radius / eta[k] * (1 - 1e-8)  # the gradient at the anchor may be as large as this
        args = rho[k], largest[k], constant[k], radius, decay[k]
        assert contraction(*args, gamma[k], eta[k]) is not None
        assert contraction(*args, gamma[k] * 1.001, eta[k]) is None
        u, v, w = (a / np.linalg.norm(a) for a in rng.standard_normal((3, 6)))
        centre[k] = (j[k].T @ r[k] - gamma[k] * u) / decay[k]  # the gradient at 0 is gamma u
        theta[k], other[k] = radius * (-u if k % 2 else v), radius * w
    apart, slope = np.linalg.norm(theta - other, axis=1), theta
    for step in range(1500):
        assert (np.linalg.norm(theta, axis=1) <= radius * (1 + 1e-12)).all()
        assert (np.linalg.norm(theta - other, axis=1) <= apart * (1 - rate) ** step * (1 + 1e-9) + 1e-12).all()
        moved = []
        for point in (theta, other):
            values, jac = residuals(r, j, b, point)
            slope = np.einsum("kip,ki->kp", jac, values) + decay[:, None] * (point - centre)
            moved.append(point - eta[:, None] * slope)
        theta, other = moved
    assert (np.linalg.norm(theta, axis=1) <= gamma / mu * (1 + 1e-9)).all()
    assert np.median(np.linalg.norm(slope, axis=1)) < 1e-9


DECAY = 1.0


@pytest.fixture(scope="module")
def clashing():
    """Rows that repeat and contradict each other, and fewer weights than would fit them: nothing has zero loss."""
    network = FullyConnected(input_dim=10, width=64, depth=1, trained=("hidden",))
    x, y = sphere(8, 10, 0), signs(8, 0)
    data = Dataset(np.concatenate([x, x[:4]]), np.concatenate([y, -y[:3], y[3:4]]), "regression")
    first = doubled(network)
    return network, polish_ridge(network, first, data.x, data.y, decay=DECAY, centre=first), data, first


@pytest.fixture(scope="module")
def certified(clashing):
    network, near, data, first = clashing
    return made(certify(Problem(network, data).at(near.params), Ridge(DECAY, centre=first)))


def test_polishing_ends_at_a_stationary_point(clashing):
    network, near, data, first = clashing
    run = Reference(network, near.params, data.x)
    out, jac = run.both(run.theta)
    slope = jac.T @ (out - data.y) + DECAY * (run.theta - run.flat(first))
    assert np.linalg.norm(slope) < 1e-12
    assert near.kind == "ridge"
    assert near.residuals[-1] < 1e-12 < near.residuals[0]


def test_a_global_minimum_with_contradicting_rows(clashing, certified, tmp_path):
    network, near, data, first = clashing
    claims, folder = certified.claims, certified.save(tmp_path / "ridge")
    assert claims["reach"] == claims["radii"][0]
    verdict = verify(folder)
    assert verdict.answer == "proved", verdict.reason
    assert "the only global minimum of the regularized loss over all trained weights" in verdict.statement
    again = load_certificate(folder)
    assert again.centre is not None
    assert again.is_in(folder)
    run, rng = Reference(network, near.params, data.x), np.random.default_rng(0)
    end, middle = run.theta, run.flat(first)
    for k in range(3):
        u = rng.standard_normal(end.size)
        theta = middle if k == 0 else end + claims["radii"][0] * u / np.linalg.norm(u)
        away = np.linalg.norm(theta - end) + 1e-8
        for step in range(60):
            assert np.linalg.norm(theta - end) <= away * (1 - claims["rate"]) ** step + 1e-8
            out, jac = run.both(theta)
            theta = theta - claims["eta"] * (jac.T @ (out - data.y) + DECAY * (theta - middle))
        assert np.linalg.norm(theta - end) < 1e-8


def test_less_decay_is_not_global(clashing, tmp_path):
    network, _, data, first = clashing
    near = polish_ridge(network, first, data.x, data.y, decay=0.4, centre=first)
    local = made(certify(Problem(network, data).at(near.params), Ridge(0.4, centre=first)))
    assert "reach" not in local.claims
    verdict = verify(local.save(tmp_path / "local"))
    assert verdict.answer == "proved", verdict.reason
    assert "the only stationary point within that distance" in verdict.statement
    assert "global" not in verdict.statement
    wrong, arrays = parts(tmp_path / "local")
    wrong["claims"]["reach"] = wrong["claims"]["radii"][0]
    assert verify(put(tmp_path / "reach", wrong, arrays, digests=True)).answer == "not proved"


def test_decay_towards_zero_and_more_rows_than_weights(tmp_path):
    network = FullyConnected(input_dim=3, width=4, depth=1)
    rng = np.random.default_rng(0)
    data = Dataset(sphere(40, 3, 0), rng.choice([-1.0, 1.0], 40), "regression")
    near = polish_ridge(network, network.init(0), data.x, data.y, decay=60.0)
    found = certify(Problem(network, data).at(near.params), Ridge(60.0))
    verdict = verify(made(found).save(tmp_path / "zero"))
    assert verdict.answer == "proved", verdict.reason
    assert "from zero" in verdict.statement
    assert made(found).centre is None
    assert not certify(Problem(network, data).at(near.params)).passed


@pytest.mark.slow
def test_more_outputs_than_a_gram_matrix_is_formed_for(tmp_path):
    """The gradient is that of all weights, where only the read-out's part of the Gram matrix is formed."""
    network = FullyConnected(input_dim=8, width=768, depth=1, outputs=3)
    first, rng = network.init(0), np.random.default_rng(0)
    data = Dataset(sphere(720, 8, 0), rng.standard_normal((720, 3)), "regression")
    near = polish_ridge(network, first, data.x, data.y, decay=3000.0, centre=first, steps=6)
    found = certify(Problem(network, data).at(near.params), Ridge(3000.0, centre=first))
    assert found.anchor is not None
    assert found.anchor.lean
    document, arrays = parts(made(found).save(tmp_path / "lean"))
    assert verify(tmp_path / "lean").answer == "proved"
    moved = arrays | {"weights/W1": arrays["weights/W1"] * (1 + 1e-6)}
    assert verify(put(tmp_path / "moved", document, moved, digests=True)).answer == "not proved"


SLOWER = ("conv-residual", "deep-rnn", "own-dense", "fully-connected-relu", "residual", "deep-relu", "residual-relu",
          "elman-rnn-all", "own-strided", "own-tied")  # fmt: skip


@pytest.mark.parametrize("name", ["fully-connected-tanh-outputs",
                                  *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER)])  # fmt: skip
def test_every_network(name, tmp_path):
    network = NETWORKS[name]
    params, x, noise = problem(network, 3)
    y = np.asarray(network(params, x)) + 0.003 * noise
    near = polish_ridge(network, params, x, y, decay=2.0, centre=params)
    found = certify(Problem(network, made_of(network, x, y)).at(near.params), Ridge(2.0, centre=params, distance=1e-6))
    verdict = verify(made(found).save(tmp_path / "ridge"))
    assert verdict.answer == "proved", verdict.reason


LIES = {"S": 0.99, "rho": 0.99, "radii": 1.01, "lipschitz": 0.99, "decay": 1.001, "gamma": 1e-8, "mu": 1.001,
        "ell": 0.999, "eta": 1.01, "rate": 1.001, "epsilon": 0.1, "steps": 0.9, "reach": 0.99, "distinct": 0.5,
        "least_loss": 1.01, "least_loss_at_most": 0.99}  # fmt: skip


def test_lies_are_refused(certified, tmp_path):
    document, arrays = parts(certified.save(tmp_path / "true"))
    assert set(LIES) == set(document["claims"])
    for name, factor in LIES.items():
        wrong = copy.deepcopy(document)
        value = wrong["claims"][name]
        changed = [v * factor for v in value] if isinstance(value, list) else type(value)(value * factor)
        wrong["claims"][name] = changed
        verdict = verify(put(tmp_path / name, wrong, arrays, digests=True))
        assert verdict.answer == "not proved", name
    less = copy.deepcopy(document)
    less["claims"]["decay"] *= 0.999
    assert verify(put(tmp_path / "less", less, arrays, digests=True)).answer == "not proved"
    for name, other, answer in (
        ("weights", arrays | {"weights/W1": arrays["weights/W1"] * 1.5}, "not proved"),
        ("centre", arrays | {"centre/W1": arrays["centre/W1"] * 1.5}, "not proved"),
        ("zero", {name: a for name, a in arrays.items() if not name.startswith("centre/")}, "not proved"),
        ("more", arrays | {"centre/a": arrays["weights/a"]}, "malformed"),
        ("start", arrays | {"start/W1": arrays["weights/W1"]}, "malformed"),
    ):
        assert verify(put(tmp_path / f"array-{name}", document, other, digests=True)).answer == answer, name


def test_obstacles(clashing):
    network, near, data, first = clashing
    small = certify(Problem(network, data).at(near.params), Ridge(0.01, centre=first))
    assert blocked(small).quantity == "decay"
    assert blocked(small).needed > 0.01
    assert "a decay of about" in str(small.obstacle)
    assert "(`centre`)" not in str(small.obstacle)
    assert "(`centre`)" in str(certify(Problem(network, data).at(near.params), Ridge(0.01)).obstacle)
    far = certify(Problem(network, data).at(first), Ridge(0.5, centre=first))
    assert blocked(far).quantity == "gradient"
    assert "polish_ridge" in str(far.obstacle)
    large = certify(Problem(network, data).at(near.params), Ridge(DECAY, centre=first, step_size=5.0))
    assert blocked(large).quantity == "step size"
    assert certify(
        Problem(network, data).at(near.params), Ridge(DECAY, centre=first, step_size=blocked(large).needed / 2)
    ).passed
    away = certify(Problem(network, data).at(near.params), Ridge(DECAY, centre=first, distance=100.0))
    assert blocked(away).quantity == "distance"
    nearer = certify(Problem(network, data).at(near.params), Ridge(DECAY, centre=first, distance=1e-3))
    assert made(nearer).claims["radii"][0] == 1e-3
    for decay in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="decay must be a positive number"):
            certify(Problem(network, data).at(near.params), Ridge(decay))
    with pytest.raises(InputError, match=r"centre\['W1'\] must have the shape"):
        certify(Problem(network, data).at(near.params), Ridge(1.0, centre={"W1": np.ones(3)}))
