"""Problems on which a careless prover would lie: near-duplicates, contradictions, zeros, too few parameters, NaN."""

import numpy as np
import pytest

from tests.certificates.making import at, dataset, fitted, problem, signs, sphere, start
from wideproof.certificates import Descent, Problem, certify
from wideproof.certificates.attempt import Obstacle
from wideproof.certificates.polishing import polish
from wideproof.data import Dataset, SequenceDataset
from wideproof.errors import InputError
from wideproof.networks import DeepReLU, ElmanRNN, FullyConnected
from wideproof_verify import verify


def refused(attempt, *quantities) -> Obstacle:
    """No descent, no certificate of one, and an obstacle with a sentence and advice."""
    assert not attempt.passed
    assert attempt.certificate is None or attempt.certificate.theorem == "impossible"
    obstacle = attempt.obstacle
    assert obstacle is not None
    assert obstacle.quantity in quantities, str(obstacle)
    assert len(obstacle.reason.split()) > 5
    assert obstacle.advice
    assert str(obstacle).startswith(obstacle.reason)
    return obstacle


@pytest.mark.parametrize("gap", [1e-3, 1e-7, 1e-12])
@pytest.mark.parametrize("level", ["float64", "enclosed"])
def test_near_duplicates_with_opposite_labels(gap, level):
    x = sphere(6, 5, 0)
    x[1] = x[0]
    x[1, 0] += gap
    network = FullyConnected(5, 64, 2)
    data = Dataset(x, np.array([1.0, -1, 1, -1, 1, -1]), "binary")
    params = start(network, np.random.default_rng(0))
    refused(certify(Problem(network, data).at(params), level=level), "ratio", "eigenvalue")
    near = polish(network, params, x, data.y, steps=8)
    attempt = certify(Problem(network, data).at(near.params), level=level)
    if attempt.passed:  # only where the two really are fitted
        outputs = at(network, near.params, x, data.y).errors.mid.ravel() + data.y
        assert np.abs(outputs - data.y).max() < 1e-2
        assert gap == 1e-3 or level == "float64"
    elif gap <= 1e-7:
        refused(attempt, "eigenvalue", "ratio")


def test_near_duplicates_are_named():
    x = sphere(6, 5, 0)
    x[4] = x[2] * (1 + 1e-13)
    network = FullyConnected(5, 64, 1)
    data = Dataset(x, signs(6, 0), "binary")
    obstacle = refused(certify(Problem(network, data).at(start(network, np.random.default_rng(0)))), "eigenvalue")
    assert "2" in obstacle.reason
    assert "4" in obstacle.reason


@pytest.mark.parametrize("outputs", [1, 3])
def test_contradictory_labels_are_certified_to_be_impossible(tmp_path, outputs):
    x = sphere(5, 4, 0)
    x[3] = x[1]
    y = np.where(np.arange(5) % 2 == 0, 1.0, -1.0) if outputs == 1 else 2 * np.eye(3)[[0, 1, 2, 0, 1]] - 1
    network = FullyConnected(4, 64, 1, outputs=outputs)
    if outputs == 1:
        y[3] = -y[1]
    data = Dataset(x, y, "binary" if outputs == 1 else "multiclass")
    attempt = certify(Problem(network, data).at(start(network, np.random.default_rng(0))), Descent(require_zero=True))
    obstacle = refused(attempt, "contradiction")
    assert "1 and 3" in obstacle.reason
    assert attempt.certificate is not None
    assert attempt.certificate.claims["groups"] == [[1, 3]]
    gap = y.reshape(5, -1)[1] - y.reshape(5, -1)[3]
    assert attempt.certificate.claims["least_loss"] == pytest.approx(np.sum(gap**2) / 4, rel=1e-9)
    assert verify(attempt.certificate.save(tmp_path / "impossible")).answer == "proved"


def test_agreeing_duplicates_are_not_contradictory():
    x = sphere(5, 4, 0)
    x[3] = x[1]
    network = FullyConnected(4, 64, 1)
    data = Dataset(x, np.array([1.0, -1, 1, -1, 1]), "binary")
    attempt = certify(Problem(network, data).at(start(network, np.random.default_rng(0))), Descent(require_zero=True))
    refused(attempt, "ratio")  # far from fitting, but not impossible: they count as one example
    assert attempt.anchor is not None
    assert attempt.anchor.n == 4


def test_sequences_that_disagree_on_a_shared_prefix():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 3, 4))
    x[2, :2] = x[0, :2]
    y = rng.standard_normal((3, 3, 1))
    network = ElmanRNN(4, 24, 3)
    params = start(network, rng)
    obstacle = refused(certify(Problem(network, SequenceDataset(x, y, "regression")).at(params)), "contradiction")
    assert "0 and 2" in obstacle.reason


def test_more_outputs_than_parameters():
    network = FullyConnected(2, 2, 1)  # six parameters
    x = sphere(9, 2, 0)
    params = start(network, np.random.default_rng(0))
    data = Dataset(x, at(network, params, x, np.zeros(9)).errors.mid.ravel(), "regression")
    obstacle = refused(certify(Problem(network, data).at(params)), "parameters")
    assert (obstacle.value, obstacle.needed) == (6, 9)
    assert "9 outputs" in obstacle.reason


def test_as_many_parameters_as_outputs_but_dependent_ones():
    """ReLU units scale: (cW, a/c) leaves the function alone, so 6 outputs cannot use all 6 parameters."""
    network = FullyConnected(2, 2, 1)
    params, x, _ = problem(network, n=6)
    params["W1"][1] = params["W1"][0]  # two equal units
    params["a"][1] = params["a"][0]
    data = Dataset(x, np.arange(6.0), "regression")
    refused(certify(Problem(network, data).at(params)), "eigenvalue")


def test_weights_trained_in_single_precision():
    """Rounded weights fit to 1e-7 only: certified with that residual, and never with a smaller one."""
    network = FullyConnected(5, 64, 1)
    params, data = fitted(network, n=4)
    rounded = {name: weight.astype(np.float32) for name, weight in params.items()}
    attempt = certify(Problem(network, data).at(rounded))
    truth = at(network, {k: v.astype(np.float64) for k, v in rounded.items()}, data.x, data.y)
    assert attempt.passed
    assert attempt.descent is not None
    assert 1e-9 < truth.residual <= attempt.descent.rho
    assert attempt.certificate is not None
    assert attempt.certificate.params["W1"].dtype == np.float64


def test_a_residual_that_is_too_large_says_what_would_do():
    network = FullyConnected(5, 32, 2)
    params, x, _ = problem(network, n=6)
    data = Dataset(x, signs(6, 0), "binary")
    attempt = certify(Problem(network, data).at(params))
    obstacle = refused(attempt, "ratio")
    assert obstacle.needed == 0.5
    assert obstacle.value == pytest.approx(attempt.h)
    assert "freeze the output layer" in obstacle.advice
    assert "residual is below" in obstacle.advice[0]


@pytest.mark.parametrize("factor", [2.0, 10.0])
def test_a_step_size_above_every_certified_one(factor):
    network = FullyConnected(5, 64, 1)
    params, data = fitted(network, n=4)
    found = certify(Problem(network, data).at(params)).descent
    assert found is not None
    refused(certify(Problem(network, data).at(params), Descent(step_size=factor * found.eta)), "step size")
    smaller = certify(Problem(network, data).at(params), Descent(step_size=0.5 * found.eta)).descent
    assert smaller is not None
    assert smaller.eta == 0.5 * found.eta


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("level", ["float64", "enclosed"])
@pytest.mark.parametrize("network", [FullyConnected(5, 16, 2), DeepReLU(5, 16, 2)], ids=lambda n: n.name)
def test_numbers_that_are_not_finite_are_never_certified(network, level, bad):
    params, x, y = problem(network, n=3)
    for name in params:
        broken = {key: weight.copy() for key, weight in params.items()}
        broken[name].flat[1] = bad
        with np.errstate(all="ignore"):
            try:
                attempt = certify(Problem(network, dataset(network, x, y)).at(broken), level=level)
            except (InputError, ValueError, FloatingPointError, np.linalg.LinAlgError):
                continue
        assert not attempt.passed
        assert attempt.certificate is None
        assert attempt.obstacle is not None


def test_only_a_verifier_says_proved():
    network = FullyConnected(5, 64, 1)
    params, x, y = problem(network, n=3)
    with pytest.raises(InputError, match="only a verifier"):
        certify(Problem(network, dataset(network, x, y)).at(params), level="proved")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("seed", range(6))
def test_every_certificate_of_a_random_problem_is_verified(tmp_path, seed):
    """What the prover passes, the verifier proves: at the start of the sizes that pass, and after rounding."""
    rng = np.random.default_rng(seed)
    network = [FullyConnected(6, 24, 1), FullyConnected(6, 16, 2), DeepReLU(6, 24, 2)][seed % 3]
    params, x, noise = problem(network, n=3, seed=seed)
    y = at(network, params, x, np.zeros(3), level="float64").errors.mid.ravel()
    y = y + float(10 ** rng.uniform(-9, -3)) * noise
    attempt = certify(Problem(network, dataset(network, x, y)).at(params), sharp=bool(seed % 2))
    if attempt.certificate is not None:
        assert verify(attempt.certificate.save(tmp_path / "one")).answer == "proved"
    else:
        refused(attempt, "ratio", "kink")
