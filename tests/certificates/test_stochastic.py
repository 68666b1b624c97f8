"""Stochastic gradient descent: Theorems 5 to 7 on maps whose constants are known, certificates, lies, and runs."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.certificates.making import TINY as NETWORKS
from tests.certificates.making import fitted, point, residuals, signs, sphere
from tests.certificates.rewriting import parts, put
from tests.certificates.test_basins import blocked, ground, lie, made, through_zero
from wideproof.certificates import Basin, Epochs, Orders, Problem, Sampling, certify, polish
from wideproof.certificates.batches import Constants
from wideproof.certificates.theorems.sampling import exponent
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof_verify import verify

N = 6


def batches(j, b, s, largest, constant, own, size):
    """The bounds of one map for the batches `own`; with `size`, for every batch of so many rows."""
    rises = np.array([min(np.linalg.norm(np.linalg.norm(b[part], 2, axis=(1, 2))), constant) for part in own])
    g = j @ j.T
    blocks = np.array([[np.linalg.norm(g[np.ix_(p, q)], 2) for q in own] for p in own])

    def at(radius):
        norms = np.sqrt(np.diag(blocks))
        across = (
            blocks + radius * (np.outer(rises, norms) + np.outer(norms, rises)) + radius**2 * np.outer(rises, rises)
        )
        np.fill_diagonal(across, 0)
        most = min(np.sqrt(np.sort(rises**2)[-size:].sum()), constant) if size else constant
        top = np.sqrt(np.sort(blocks, axis=1)[:, -size:].sum(axis=1).max()) if size else 0.0
        beta = (min(top, largest) + radius * most) ** 2 if size else np.square(norms + radius * rises).max()
        return Constants(constant, most, float(np.linalg.norm(rises)), beta, float(np.linalg.norm(across)) / 2**0.5)

    given: Any = SimpleNamespace(ground=ground(s, largest, constant, len(j)), at=at, size=size)
    return given


def farthest(find, top):
    """The largest distance with a proof, to a hundredth."""
    claims = None
    while claims is None:
        top *= 0.99
        claims = find(top)
    return claims


def step(r, j, b, theta, part, eta):
    """One step of one map with the rows `part`."""
    value, jac = residuals(r[None, part], j[None, part], b[None, part], theta[None])
    return theta - eta * jac[0].T @ value[0]


def orders(rng, own, kind, epoch, r, j, b, theta, eta):
    """The order of an epoch: for the greedy one always the batch after which the residual is largest."""
    if kind == "shuffled":
        return rng.permutation(len(own)).tolist()
    if kind == "reversed":
        return list(range(len(own)))[:: -1 if epoch % 2 else 1]
    left, taken = list(range(len(own))), []
    while left:
        after = [step(r, j, b, theta, own[i], eta) for i in left]
        worst = int(np.argmax([np.linalg.norm(residuals(r[None], j[None], b[None], t[None])[0]) for t in after]))
        theta = after[worst]
        taken.append(left.pop(worst))
    return taken


@pytest.mark.parametrize("kind", ["greedy", "reversed", "shuffled"])
@pytest.mark.parametrize("free", [False, True])
def test_epochs_on_quadratic_maps(rng, kind, free):
    """Nearly the largest distance with a proof, in hostile orders; free batches are drawn anew in every epoch."""
    r, j, b, s, largest, constant = through_zero(rng, 4, 4, 6)
    for k in range(4):
        own = [np.array([i]) for i in range(4)] if free else [np.array([0, 1]), np.array([2]), np.array([3])]
        given = batches(j[k], b[k], s[k], largest[k], constant[k], own, 2 if free else 0)
        found = farthest(lambda d, g=given: Epochs(2, target_loss=1e-9)._find(g, d), 0.25 * s[k] / constant[k])
        theta = rng.standard_normal(6)
        theta *= found["d"] / np.linalg.norm(theta)
        for epoch in range(80):
            value = residuals(r[k][None], j[k][None], b[k][None], theta[None])[0]
            assert np.linalg.norm(value) <= found["b"] * found["d"] * (1 - found["rate"]) ** epoch
            if free:
                mixed = rng.permutation(4)
                own = [mixed[:2], mixed[2:]] if epoch % 2 else [mixed[:1], mixed[1:3], mixed[3:]]
            for i in orders(rng, own, kind, epoch, r[k], j[k], b[k], theta, found["eta"]):
                theta = step(r[k], j[k], b[k], theta, own[i], found["eta"])
                assert np.linalg.norm(theta) <= found["radii"][0]


def test_sampling_on_quadratic_maps(rng):
    """No run leaves: the sum of the failure probabilities is below a thousandth."""
    r, j, b, s, largest, constant = through_zero(rng, 12, 4, 6)
    for k in range(12):
        own, top = [np.array([i]) for i in range(4)], 0.25 * s[k] / constant[k]
        given = batches(j[k], b[k], s[k], largest[k], constant[k], own, 2)

        def find(d, given=given):
            found = Sampling(2, target_loss=1e-9)._find(given, d)
            return found if found is not None and found["failure"] < 1e-4 else None

        found = farthest(find, top)
        theta = rng.standard_normal(6)
        theta *= found["d"] / np.linalg.norm(theta)
        for _ in range(300):
            theta = step(r[k], j[k], b[k], theta, rng.permutation(4)[:2], found["eta"])
            assert np.linalg.norm(theta) <= found["radii"][0]


def test_the_exponent_is_the_largest():
    for mean, top in ((0.1, 1e-3), (0.5, 0.01), (1e-3, 1e-7), (0.3, 0.2)):
        u = exponent(mean, top)
        assert u == min(u, 1e4)
        assert u == 1e4 or not -mean * np.expm1(-1.01 * u) >= np.expm1(1.01 * u * top)


@pytest.fixture(scope="module")
def problem():
    network = FullyConnected(input_dim=12, width=128, depth=1, trained=("hidden",))
    data = Dataset(sphere(N, 12, 0), signs(N, 0), "binary")
    return network, polish(network, network.init(0), data.x, data.y).params, data


PARTITION = [0, 0, 1, 1, 2, 2]
THEOREMS = {
    "epochs": Epochs(2),
    "partition": Epochs(2, partition=PARTITION),
    "sampling": Sampling(2),
    "orders": Orders(2, steps=5000),
}
SAID = {
    "epochs": "every epoch uses every example once, in batches of at most 2 examples, chosen in any way",
    "partition": "every epoch uses every example once, in the stored batches",
    "sampling": "2 of the 6 examples drawn at random without replacement",
    "orders": "for 5000 steps, whatever batches of at most 2 examples are taken",
}
COMMON = {"s": 1.001, "S": 0.999, "rho": 1e-6, "lipschitz": 0.999, "near": 0.5, "b": 0.999, "eta": 2.0, "d": 2.0,
          "beta": 0.999, "bend": 0.999, "steps": 0.5}  # fmt: skip
LIES = {
    "epochs": {"radii": 0.9, "order": 0.999, "a": 0.99, "sigma": 1.001, "rate": 1.01, "epsilon": 0.5, "batch": 2},
    "sampling": {"radii": 0.5, "within": 2, "mu": 4, "u": 1.01, "failure": 0.9, "rate": 1.001, "epsilon": 0.5,
                 "late": 0.9, "batch": 2},
    "orders": {"radii": 0.9, "within": 0.7, "steps": 2, "batch": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", THEOREMS)
def test_what_holds_is_proved_and_lies_are_not(problem, tmp_path, name):
    found = certify(point(*problem), THEOREMS[name])
    verdict = verify(made(found).save(tmp_path / "true"))
    assert verdict.answer == "proved", verdict.reason
    assert SAID[name] in verdict.statement
    assert f"θ ← θ − {made(found).claims['eta']} · (sum over the batch" in verdict.statement
    document, arrays = parts(tmp_path / "true")
    for claim, factor in (COMMON | LIES["epochs" if name == "partition" else name]).items():
        wrong = document | {"claims": lie(document["claims"], claim, factor)}
        answer = verify(put(tmp_path / claim, wrong, arrays, digests=True)).answer
        assert answer == ("malformed" if (name, claim) == ("partition", "batch") else "not proved"), claim


@pytest.mark.parametrize(
    "wrong",
    [[0, 0, 0, 1, 2, 2], [0, 0, 1, 1, 3, 3], [0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2.0], [0] * 6, [-1, -1, 0, 0, 1, 1]],
)
def test_a_partition_is_one(problem, tmp_path, wrong):
    network, params, data = problem
    found = certify(point(*problem), THEOREMS["partition"])
    document, arrays = parts(made(found).save(tmp_path / "true"))
    document["claims"]["partition"] = wrong
    assert verify(put(tmp_path / "wrong", document, arrays, digests=True)).answer == "malformed"
    document["claims"] |= {"partition": [0] * 6, "batch": 6}  # one batch, but with the constants of three
    assert verify(put(tmp_path / "one", document, arrays, digests=True)).answer == "not proved"
    with pytest.raises(InputError, match="partition"):
        certify(Problem(network, data).at(params), Epochs(2, partition=wrong))


def test_one_batch_is_gradient_descent(problem):
    """A partition into one batch, one step an epoch: nearly the distance of Theorem 4."""
    epochs = made(certify(point(*problem), Epochs(N, partition=[0] * N))).claims
    basin = made(certify(point(*problem), Basin())).claims
    assert epochs["d"] == pytest.approx(basin["d"], rel=0.06)
    assert epochs["order"] == pytest.approx(1)


def softplus_step(params, data, part, w, eta):
    """One step of one hidden layer of softplus, whose hidden weights are trained."""
    x, y = data.x[part], data.y[part]
    z, scale = x @ w.T, np.sqrt(1.0854865029883434 / len(w))
    r = scale * np.logaddexp(0, z) @ params["a"] - y
    return w - eta * ((r[:, None] / (1 + np.exp(-z))) * (scale * params["a"])).T @ x


def size_of(network, params, data, w):
    """The norm of the residual."""
    scale = np.sqrt(1.0854865029883434 / len(w))
    return float(np.linalg.norm(scale * np.logaddexp(0, data.x @ w.T) @ params["a"] - data.y))


@pytest.mark.parametrize("kind", ["greedy", "reversed", "shuffled"])
def test_a_thousand_epochs_in_hostile_orders(problem, kind):
    network, params, data = problem
    claims = made(certify(Problem(network, data).at(params), Epochs(2))).claims
    rng = np.random.default_rng(1)
    u = rng.standard_normal(params["W1"].shape)
    w, eta = params["W1"] + claims["d"] * u / np.linalg.norm(u), claims["eta"]
    for epoch in range(1000):
        size = size_of(network, params, data, w)
        bound = claims["b"] * claims["d"] * (1 - claims["rate"]) ** epoch
        assert size <= bound * (1 + 1e-9) + 1e-12
        mixed = rng.permutation(N).reshape(-1, 2)
        left = list(mixed) if kind != "reversed" else list(np.arange(N).reshape(-1, 2)[:: -1 if epoch % 2 else 1])
        while left:
            at = 0
            if kind == "greedy" and epoch < 200:
                at = int(np.argmax([size_of(network, params, data, softplus_step(params, data, part, w, eta))
                                    for part in left]))  # fmt: skip
            w = softplus_step(params, data, left.pop(at), w, eta)
            assert np.linalg.norm(w - params["W1"]) <= claims["radii"][0]


def test_random_batches_stay_and_converge(problem):
    network, params, data = problem
    claims = made(certify(Problem(network, data).at(params), Sampling(2))).claims
    assert claims["failure"] <= 1e-6
    rng, ends = np.random.default_rng(2), []
    for _ in range(3):
        u = rng.standard_normal(params["W1"].shape)
        w = params["W1"] + claims["d"] * u / np.linalg.norm(u)
        for _ in range(600):
            w = softplus_step(params, data, rng.permutation(N)[:2], w, claims["eta"])
            assert np.linalg.norm(w - params["W1"]) <= claims["radii"][0]
        ends.append(size_of(network, params, data, w))
    bound = claims["b"] * claims["d"] * (1 - claims["rate"]) ** 300
    assert np.sqrt(np.mean(np.square(ends))) <= 3 * bound


def test_obstacles(problem):
    network, params, data = problem
    near = Problem(network, data).at(params)
    again = Dataset(np.concatenate([data.x, data.x[:1]]), np.append(data.y, data.y[0]), "binary")
    for theorem in (Epochs, Sampling, Orders):
        far = certify(near.problem.at(network.init(0)), theorem(2))
        assert blocked(far).quantity == "ratio"
        large = certify(near, theorem(2, step_size=100.0))
        assert blocked(large).quantity == "step size"
        repeated = certify(Problem(network, again).at(params), theorem(2))
        assert blocked(repeated).quantity == "repeats"
        with pytest.raises(InputError, match="from 1 to the 6 examples"):
            certify(near, theorem(7))
    assert certify(near, Epochs(2, distance=3.0)).certificate is None
    with pytest.raises(InputError, match="between 0 and 1"):
        Sampling(2, failure=0.0)


def test_several_outputs(tmp_path):
    network = FullyConnected(input_dim=8, width=96, depth=1, outputs=2)
    rng = np.random.default_rng(0)
    data = Dataset(sphere(4, 8, 0), rng.standard_normal((4, 2)), "regression")
    params = polish(network, network.init(0), data.x, data.y).params
    for k, theorem in enumerate((Epochs, Sampling, Orders)):
        found = certify(Problem(network, data).at(params), theorem(2))
        verdict = verify(made(found).save(tmp_path / str(k)))
        assert verdict.answer == "proved", verdict.reason


@pytest.mark.parametrize(("name", "sharp"), [("fully-connected-relu", False), ("fully-connected-tanh-outputs", True)])
def test_in_balls_of_more_bits(tmp_path, name, sharp):
    """Signs that have to be kept, and products of layers: where float64 does not decide, and where it may not."""
    network = NETWORKS[name]
    near = point(network, *fitted(network, n=3))
    for k, theorem in enumerate((Epochs, Sampling, Orders)):
        found = certify(near, theorem(2, distance=1e-10), sharp=sharp)
        verdict = verify(made(found).save(tmp_path / str(k)))
        assert verdict.answer == "proved", verdict.reason
        assert verdict.precision == (128 if name == "fully-connected-relu" else 53)
        again = verify(tmp_path / str(k), balls=True)
        assert (again.answer, again.precision) == ("proved", 128), again.reason
        assert again.statement == verdict.statement
