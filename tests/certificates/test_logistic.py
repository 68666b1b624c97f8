r"""The logistic loss: Lemma 5 ($\|p\| \ge \psi(L)$), the integrals, Theorem 3 on real runs, and fits at one point."""

import dataclasses
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.special import expit

from tests.certificates.making import at, concluded, signs, sphere, start
from wideproof.certificates import Logistic, Problem, certify
from wideproof.certificates.lipschitz import lipschitz
from wideproof.certificates.logistic_loss import _psi, least_loss, logistic_descent, loss_integrals, slopes
from wideproof.certificates.polishing import polish
from wideproof.certificates.theorems import logistic
from wideproof.certificates.widths import doubled
from wideproof.data import Dataset, load
from wideproof.errors import InputError
from wideproof.networks import ElmanRNN, FullyConnected
from wideproof_verify import verify


def loss_vectors(rng, n, count=4000):
    """Random vectors of losses, and the extremal ones: one large and the rest equal."""
    losses = rng.exponential(size=(count, n)) * 10 ** rng.uniform(-4, 1, (count, 1))
    losses[: count // 2, 1:] = losses[: count // 2, 1:2] * 10 ** rng.uniform(-6, 0, (count // 2, 1))
    losses[: count // 4, 1:] = 0
    return losses


@pytest.mark.parametrize("n", [1, 2, 5, 50])
def test_the_lower_bound_of_the_gradient(rng, n):
    losses = loss_vectors(rng, n)
    sizes = np.linalg.norm(-np.expm1(-losses), axis=1)
    means = losses.mean(axis=1)
    bound = _psi(means, n)
    assert np.all(bound <= sizes * (1 + 1e-14))
    slope, bend = np.array([slopes(mean, n) for mean in means]).T
    p = -np.expm1(-losses)
    assert np.all(sizes <= slope)
    assert np.all(slope**2 <= n * np.minimum(1, means) * (1 + 1e-10))
    assert np.all((p * (1 - p)).max(axis=1) <= bend)
    assert (sizes / slope).max() > 0.99
    assert ((p * (1 - p)).max(axis=1) / bend).max() > 0.99
    assert (bound / sizes).max() > 0.6  # not vacuous
    assert np.all(np.diff(_psi(np.sort(means), n)) >= -1e-16)


def test_a_large_single_loss_is_not_treated_as_small():
    """L ≤ 1 with one loss of 5: the factor 1 - 1/e for every loss would be false here."""
    losses = np.array([5.0, 0.0, 0.0, 0.0, 0.0])
    size, mean = np.linalg.norm(-np.expm1(-losses)), losses.mean()
    assert mean <= 1
    assert (1 - math.exp(-1)) * math.sqrt(5) * mean > size
    assert _psi(np.array([mean]), 5)[0] <= size


@pytest.mark.parametrize(("n", "low", "high"), [(4, 0.01, 0.69), (50, 1e-4, 2.0), (1, 0.3, 0.31)])
def test_integrals_are_upper_bounds(n, low, high):
    """Against 30 digits, within half a percent."""

    def psi(x):
        alpha = 1 - mpmath.e**-1
        return max(alpha * min(1, mpmath.sqrt(n) * x), -mpmath.expm1(-n * x) / mpmath.sqrt(n), -mpmath.expm1(-x))

    with mpmath.workdps(30):
        points = mpmath.linspace(mpmath.log(low), mpmath.log(high), 40)
        exact: list[Any] = [
            mpmath.quad(lambda t, p=power: mpmath.exp(t) / psi(mpmath.exp(t)) ** p, points) for power in (1, 2)
        ]
    found = loss_integrals(low, high, n)
    for value, truth in zip(found, exact, strict=True):
        assert float(truth) * (1 - 1e-9) <= value <= float(truth) * 1.005


def start_of(n, d, width, seed=0):
    network = FullyConnected(d, width, 1, trained=("hidden",))
    data = Dataset(sphere(n, d, seed), signs(n, seed), "binary")
    return network, data, doubled(network, seed=seed)


def course(network, data, params, eta, steps):
    """Losses and path length of gradient descent on the mean logistic loss, and the hidden weights at its end."""
    a, w, scale = params["a"], params["W1"].copy(), math.sqrt(network.activation.c_sigma / network.width)
    losses, paths = [], [0.0]
    for _ in range(steps + 1):
        z = data.x @ w.T
        margins = data.y * (scale * np.logaddexp(0, z) @ a)
        losses.append(float(np.logaddexp(0, -margins).mean()))
        pull = -data.y * expit(-margins) / data.n
        move = eta * (scale * a * expit(z) * pull[:, None]).T @ data.x
        w -= move
        paths.append(paths[-1] + float(np.linalg.norm(move)))
    return np.array(losses), np.array(paths[:-1]), w


@pytest.mark.parametrize(("n", "width", "target"), [(4, 1000, 0.3), (6, 4000, 0.3)])
def test_the_path_theorem_on_a_run(n, width, target):
    network, data, params = start_of(n, 40, width)
    found = concluded(certify(Problem(network, data).at(params), Logistic(target))).descent
    assert found is not None
    assert found.loss == pytest.approx(math.log(2), rel=1e-9)
    losses, paths, _ = course(network, data, params, found.eta, found.steps)
    reached = int(np.argmax(losses <= target))
    assert losses[reached] <= target
    assert 0 < reached <= found.steps
    assert np.all(np.diff(losses[: reached + 1]) < 0)
    assert np.all(paths[: reached + 1] < found.radius)
    assert paths[reached] > 0.02 * found.radius


def test_the_claims_satisfy_the_theorem(rng):
    """Every inequality of Theorem 3, from the claimed numbers alone."""
    network, data, params = start_of(4, 40, 1000)
    anchor = at(network, params, data.x, data.y)
    f = concluded(certify(Problem(network, data).at(params), Logistic(0.3))).descent
    assert f is not None
    n, (inner, outer), (first, last) = f.n, f.staircase.radii, f.staircase.constants
    assert inner == f.inner < outer
    m_inner, m = first * inner, first * inner + last * (outer - inner)
    b, q = f.S + m, 1 - math.exp(-n * f.loss)
    size = math.sqrt(n * q * (1 - math.exp(-f.loss)))
    assert q > 0.5  # so 1/4 bounds the second derivative
    assert m <= f.s
    assert f.c / n * (f.s * inner - first * inner**2 / 2) >= f.first_integral
    assert outer >= inner + f.eta * b * size / n
    assert f.eta <= 2 * (1 - f.c) / ((b * b / 4 + last * size) / n)
    assert f.steps >= n**2 * f.second_integral / (f.c * f.eta * (f.s - m_inner) ** 2)
    assert first >= lipschitz(anchor, inner).value * (1 - 1e-12)
    assert last >= lipschitz(anchor, outer).value * (1 - 1e-12)


def test_the_least_loss_is_where_the_theorem_ends():
    network, data, params = start_of(4, 40, 1000)
    anchor = at(network, params, data.x, data.y)

    def constant(radius):
        return lipschitz(anchor, radius).value

    least = least_loss(4, math.log(2), anchor.s, anchor.S, constant)
    assert least is not None
    assert least.epsilon < 0.3
    for factor, passes in ((1.05, True), (0.9, False)):
        found = logistic_descent(4, math.log(2), factor * least.epsilon, anchor.s, anchor.S, constant)
        assert (found is not None) == passes


@pytest.mark.parametrize(
    ("loss", "epsilon", "s", "kink"), [(0.5, 0.6, 1.0, math.inf), (0.5, 0.1, 0.0, math.inf), (0.5, 0.1, 1.0, 0.0)]
)
def test_nothing_is_concluded_from_nothing(loss, epsilon, s, kink):
    """A target above the loss, no singular value, no room before a kink; the same with room and s passes."""
    assert logistic_descent(4, loss, epsilon, s, 2.0, lambda radius: 0.0, kink=kink) is None
    assert logistic_descent(4, 0.5, 0.1, 1.0, 2.0, lambda radius: 0.0) is not None


def hostile(network, data, params, distance, rng):
    """Starts on a sphere: up and down the loss, along singular vectors of the Jacobian, and anywhere."""
    scale, w = math.sqrt(network.activation.c_sigma / network.width), params["W1"]
    rows = scale * params["a"] * expit(data.x @ w.T)
    jacobian = (rows[:, :, None] * data.x[:, None, :]).reshape(data.n, -1)
    margins = data.y * (scale * np.logaddexp(0, data.x @ w.T) @ params["a"])
    slope = jacobian.T @ (-data.y * expit(-margins))
    _, _, right = np.linalg.svd(jacobian, full_matrices=False)
    ways = [slope, -slope, right[0], -right[0], right[-1], -right[-1], jacobian.T @ data.y, -jacobian.T @ data.y]
    for way in [*ways, *rng.standard_normal((6, w.size)), *rng.standard_normal((4, data.n)) @ jacobian]:
        yield {**params, "W1": w + distance * (way / np.linalg.norm(way)).reshape(w.shape)}


CASES = [  # n, width, seed, room, step size, steps before
    (4, 1000, 0, 0.2, None, 0), (3, 400, 1, 0.5, None, 0), (6, 4000, 2, 0.1, 8.0, 0), (4, 1000, 3, 0.1, 20.0, 60),
    (3, 2000, 4, 0.2, 30.0, 400),
]  # fmt: skip


@pytest.mark.parametrize(("n", "width", "seed", "room", "eta", "before"), CASES)
def test_the_theorem_holds_for_every_start_within_the_distance(monkeypatch, rng, n, width, seed, room, eta, before):
    """Loss at the start, monotone fall, steps and path from hostile starts, with small losses too."""
    monkeypatch.setattr(logistic, "NEARBY", math.inf)
    network, data, params = start_of(n, 40, width, seed)
    losses, _, w = course(network, data, params, 10.0, before)
    params = {**params, "W1": w if before else params["W1"]}
    f = concluded(
        certify(Problem(network, data).at(params), Logistic(0.85 * losses[-1], room=room, step_size=eta))
    ).descent
    assert f is not None
    most = f.loss + (f.S + f.s) * f.distance / math.sqrt(n)
    assert f.distance < f.inner
    worst = 0.0
    for begun in hostile(network, data, params, f.distance, rng):
        losses, paths, _ = course(network, data, begun, f.eta, min(f.steps, 4000))
        reached = int(np.argmax(losses <= f.epsilon))
        assert losses[0] <= most
        assert losses[reached] <= f.epsilon
        assert reached <= f.steps
        assert np.all(np.diff(losses[: reached + 1]) < 0)
        assert np.all(f.distance + paths[: reached + 1] < f.radius)
        worst = max(worst, (losses[0] - f.loss) / (most - f.loss))
    print(f"\nthe loss at the worst start rose by {worst:.2f} of what is allowed, distance {f.distance:.3g}")
    assert worst > (0 if before else 0.1)  # |ℓ'| ≤ 1 is far from the truth where the loss is small


def test_the_room_for_a_distance_is_counted():
    """Without the term s times the distance the path condition would pass where it must not."""
    kwargs = {"n": 4, "loss": 0.5, "epsilon": 0.4, "s": 1.0, "S": 1.0, "constant_at": lambda radius: 0.0, "eta": 1.0}
    near, far = (logistic_descent(**kwargs, distance=distance) for distance in (0.0, 0.1))
    assert near is not None
    assert far is not None
    assert far.inner - near.inner >= 0.1
    assert far.first_integral > near.first_integral
    assert far.c * (far.inner - 0.1) / 4 >= far.first_integral > far.c * (far.inner - 0.2) / 4


@pytest.mark.parametrize("eta", [0.1, 2.0, 18.0])
def test_a_given_step_size_is_certified(tmp_path, eta):
    """Up to 2/β; c is what the step size leaves."""
    network, data, params = start_of(4, 10, 400)
    found = certify(Problem(network, data).at(params), Logistic(0.65, step_size=eta))
    assert found.certificate is not None
    assert found.certificate.claims["eta"] == eta
    assert verify(found.certificate.save(tmp_path / "path")).answer == "proved"
    assert found.anchor is not None
    most = 8 * 4 / found.anchor.S**2  # the loss is log 2, so 1/4 bounds the second derivative
    assert eta < most
    assert concluded(certify(Problem(network, data).at(params), Logistic(0.65, step_size=most))).descent is None


@pytest.fixture(scope="module")
def fit():
    """One hidden layer that fits six labels to rounding."""
    network = FullyConnected(5, 40, 1)
    data = Dataset(sphere(6, 5, 0), signs(6, 0), "binary")
    return network, polish(network, start(network, np.random.default_rng(0)), data.x, data.y).params, data


def test_a_fit_is_certified_and_verified(tmp_path, fit):
    network, params, data = fit
    found = certify(Problem(network, data).at(params), Logistic(0.9))
    assert found.certificate is not None
    assert found.certificate.theorem == "fit"
    assert 0.999 < concluded(found).margin <= 1.0 + 1e-9
    assert concluded(found).loss == pytest.approx(math.log1p(math.exp(-1)), rel=1e-9)
    assert verify(found.certificate.save(tmp_path / "fit")).answer == "proved"


def test_a_fit_claimed_too_well_is_not_proved(tmp_path, fit):
    network, params, data = fit
    found = certify(Problem(network, data).at(params), Logistic(0.9)).certificate
    assert found is not None
    for name, factor in (("margin", 1 + 1e-9), ("loss", 1 - 1e-9)):
        better = dataclasses.replace(found, claims={**found.claims, name: found.claims[name] * factor})
        assert verify(better.save(tmp_path / name)).answer == "not proved"


def test_a_wrong_side_is_an_obstacle(fit):
    network, params, data = fit
    y = data.y.copy()
    y[3] = -y[3]
    found = certify(Problem(network, Dataset(data.x, y, "binary")).at(params), Logistic(5.0))
    assert found.certificate is None
    assert found.obstacle is not None
    assert found.obstacle.quantity == "margin"
    assert concluded(found).margin == pytest.approx(-1, rel=1e-6)


@pytest.mark.parametrize("sharp", [False, True])
def test_a_path_is_certified_and_verified(tmp_path, sharp):
    network, data, params = start_of(4, 10, 400)
    found = certify(Problem(network, data).at(params), Logistic(0.65), sharp=sharp)
    assert found.certificate is not None
    assert found.certificate.theorem == "logistic"
    assert verify(found.certificate.save(tmp_path / "path")).answer == "proved"


def test_several_classes_have_a_margin_and_no_loss(tmp_path):
    network = FullyConnected(5, 40, 1, outputs=3)
    x = sphere(4, 5, 0)
    y = 2 * np.eye(3)[[0, 1, 2, 0]] - 1
    params = polish(network, start(network, np.random.default_rng(0)), x, y).params
    found = certify(Problem(network, Dataset(x, y, "multiclass")).at(params), Logistic())
    assert concluded(found).margin == pytest.approx(2, rel=1e-6)
    assert math.isnan(concluded(found).loss)
    assert found.certificate is not None
    assert verify(found.certificate.save(tmp_path / "classes")).answer == "proved"


def test_sequences_and_regression_are_turned_away():
    network = FullyConnected(5, 8, 1)
    data = Dataset(sphere(4, 5, 0), np.arange(4.0), "regression")
    with pytest.raises(InputError, match="needs labels"):
        certify(Problem(network, data).at(network.init(0)), Logistic())
    recurrent, data = ElmanRNN(4, 8, 3), load("sequences:n=6,length=3,features=4,separation=0.3")
    with pytest.raises(InputError, match="one answer"):
        certify(Problem(recurrent, data).at(recurrent.init(0)), Logistic())
