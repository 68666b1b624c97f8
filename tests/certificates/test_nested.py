"""Both layers trained, before training: Theorem 1 on sets in which no single output weight grows much."""

import copy
import dataclasses

import numpy as np
import pytest

from tests.certificates.making import Reference, signs, sphere
from tests.certificates.making import start as start_of
from tests.certificates.rewriting import parts, put
from wideproof.certificates import Descent, Problem, certify
from wideproof.certificates.starting import certify_from_start
from wideproof.certificates.widths import doubled
from wideproof.data import Dataset
from wideproof.networks import FullyConnected, get_activation
from wideproof.training import Recipe, train
from wideproof_verify import verify

N, D, WIDTH, SCALE = 4, 40, 600, 1.0
DESCENT = "wideproof.certificates.theorems.descent"
NETWORK = FullyConnected(D, WIDTH, 1)
DATA = Dataset(sphere(N, D, 1), signs(N, 1), "binary")


@pytest.fixture(scope="module")
def start():
    return doubled(NETWORK, seed=0, scale=SCALE)


def balls_fail(monkeypatch):
    """Leave the prover only the nested sets."""
    monkeypatch.setattr(f"{DESCENT}.climb", lambda *given: None)


@pytest.fixture(scope="module")
def found(start):
    with pytest.MonkeyPatch.context() as monkeypatch:
        balls_fail(monkeypatch)
        proof = certify(Problem(NETWORK, DATA).at(start)).descent
    assert proof is not None
    return proof


def cap_at(stairs, path):
    """The bound of single output weights where the path is this long."""
    return stairs.caps[min(int(np.searchsorted(stairs.radii, path)), len(stairs.radii) - 1)]


def follow(found, params, steps):
    """Gradient descent: path, single output weights, residual and smallest singular value at every step."""
    ref = Reference(NETWORK, params, DATA.x)
    theta, path, before = ref.theta, 0.0, np.inf
    for _ in range(steps):
        out, jacobian = ref.both(theta)
        r = out - DATA.y
        size = float(np.linalg.norm(r))
        assert path <= found.radius
        assert np.abs(ref.unflat(theta)["a"]).max() <= cap_at(found.staircase, path), "caps"
        assert size <= (1 - found.rate) * before * (1 + 1e-12) + 1e-13
        assert np.linalg.eigvalsh(jacobian @ jacobian.T)[0] >= found.sigma**2
        if size < 1e-10:
            break
        move = found.eta * (r @ jacobian)
        theta, path, before = theta - move, path + float(np.linalg.norm(move)), size
    return size, path


def test_the_sets_are_smaller_than_balls(found):
    """Close to the start single weights move less than all of them together, which is what the sets are for."""
    stairs = found.staircase
    assert stairs.caps is not None
    grown = np.array(stairs.caps) - SCALE
    assert np.all(grown[: len(grown) // 4] < 0.5 * np.array(stairs.radii)[: len(grown) // 4])
    assert np.all(np.diff(stairs.caps) >= 0)
    assert np.all(np.diff(stairs.constants) >= 0)


def test_gradient_descent_keeps_to_the_sets(found, start):
    size, path = follow(found, start, 800)
    assert size < 1e-8
    assert path > 0.1 * found.radius


def test_weights_that_are_said_to_stand_still_do_not(found, start):
    """A planted violation: caps that forget how far single weights move are broken by the run."""
    still = found.staircase._replace(caps=(SCALE * (1 + 1e-6),) * len(found.staircase.radii))
    with pytest.raises(AssertionError, match="caps"):
        follow(type(found)(**{**vars(found), "staircase": still}), start, 800)


def test_the_constants_hold_on_the_sets(found, start, rng):
    """Pairs of points with one output weight at its bound: the Jacobian changes by at most Λ times their distance."""
    ref, stairs = Reference(NETWORK, start, DATA.x), found.staircase
    assert stairs.caps is not None
    for j in (0, len(stairs.radii) // 2, len(stairs.radii) - 1):
        radius, cap = stairs.radii[j], stairs.caps[j]
        moved = {name: w.copy() for name, w in ref.params.items()}
        moved["a"][0] = np.sign(moved["a"][0]) * min(cap, abs(moved["a"][0]) + 0.9 * radius)  # one weight at its bound
        for _ in range(3):
            turn = rng.standard_normal(D)
            pair = [dict(moved), dict(moved)]
            for one, sign in zip(pair, (1, -1), strict=True):
                one["W1"] = moved["W1"].copy()
                one["W1"][0] += sign * 0.2 * radius * turn / np.linalg.norm(turn)
            a, b = (ref.flat(one) for one in pair)
            change = np.linalg.norm(ref.jacobian(a) - ref.jacobian(b), 2)
            assert change <= stairs.constants[j] * np.linalg.norm(a - b)


def test_the_certificate_is_verified(monkeypatch, tmp_path, start, found):
    balls_fail(monkeypatch)
    attempt = certify(Problem(NETWORK, DATA).at(start))
    assert attempt.certificate is not None
    assert attempt.certificate.claims["nested"]["A"] == list(found.staircase.caps)
    assert "D" not in attempt.certificate.claims  # Newton's method leaves the sets
    folder = attempt.certificate.save(tmp_path / "true")
    verdict = verify(folder)
    assert verdict.answer == "proved", verdict.reason
    document, arrays = parts(folder)
    lies = {
        "A_1 >": {"nested": {"A": [SCALE] * len(found.staircase.radii)}},
        "Λ_1 ≥": {"lipschitz": [v * (1 - 1e-3) for v in found.staircase.constants]},
        "rho ≥": {"rho": found.rho * (1 - 1e-6)},
    }
    for inequality, lie in lies.items():
        false = copy.deepcopy(document)
        false["claims"] |= lie
        verdict = verify(put(tmp_path / inequality[:1], false, arrays, digests=True))
        assert verdict.answer == "not proved"
        assert verdict.reason.startswith(inequality), verdict.reason


def test_larger_steps_on_nested_sets(monkeypatch, tmp_path, start, found):
    balls_fail(monkeypatch)
    attempt = certify(Problem(NETWORK, DATA).at(start), Descent(step_size=1.1 * found.eta))
    assert attempt.certificate is not None, str(attempt)
    assert {"nested", "kappa"} <= set(attempt.certificate.claims)
    assert verify(attempt.certificate.save(tmp_path / "one")).answer == "proved"
    assert attempt.descent is not None
    assert follow(attempt.descent, start, 800)[0] < 1e-8


def test_sets_around_the_end_of_followed_steps_hold_for_every_start_near_it(monkeypatch, tmp_path):
    """A start within a distance of the anchor may have larger output weights than the anchor has."""
    balls_fail(monkeypatch)
    network = FullyConnected(D, WIDTH, 1, start="doubled")
    run = train(network, DATA, Recipe(steps=3))
    made = certify_from_start(run).certificate
    assert made is not None
    assert made.start is not None
    caps = made.claims["nested"]["A"]
    largest = float(np.abs(made.params["a"]).max())
    assert caps[0] >= largest + min(made.claims["radii"][0], made.start.distance)
    assert verify(made.save(tmp_path / "near")).answer == "proved"
    narrow = {**made.claims, "nested": {"A": [largest * (1 + 1e-9), *caps[1:]]}}  # as if the start were the anchor
    refused = verify(dataclasses.replace(made, claims=narrow).save(tmp_path / "narrow"))
    assert refused.answer == "not proved"
    assert "A_1" in refused.reason


def test_too_narrow_is_refused(monkeypatch):
    balls_fail(monkeypatch)
    narrow = FullyConnected(D, 60, 1)
    attempt = certify(Problem(narrow, DATA).at(doubled(narrow, seed=0, scale=SCALE)))
    assert not attempt.passed
    assert attempt.certificate is None
    assert attempt.obstacle is not None
    assert attempt.obstacle.quantity == "ratio"


@pytest.mark.parametrize(
    "network",
    [
        FullyConnected(D, 20, 2), FullyConnected(D, 20, 1, trained=("hidden",)),
        FullyConnected(D, 20, 1, get_activation("relu")), FullyConnected(D, 20, 1, outputs=2),
    ],
    ids=["deeper", "fixed outputs", "relu", "two outputs"],
)  # fmt: skip
def test_other_networks_have_no_nested_sets(monkeypatch, network):
    """Where balls fail there is no proof: the sets are not even looked for."""
    balls_fail(monkeypatch)
    monkeypatch.setattr(
        "wideproof.certificates.theorems.descent.climb_nested", lambda *given: pytest.fail("nested sets")
    )
    params = start_of(network, np.random.default_rng(0))
    y = np.random.default_rng(1).standard_normal((N, *network.output_shape))
    attempt = certify(Problem(network, Dataset(DATA.x, y, "regression")).at(params))
    assert attempt.obstacle is not None
    assert attempt.obstacle.quantity == "ratio"
