"""Gradient descent from certified anchors: every conclusion of the certificate at every step."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import expit

from tests.certificates.making import Reference, at, dataset, fitted, signs, sphere
from wideproof.certificates import Descent, Problem, certify
from wideproof.certificates.lipschitz import lipschitz
from wideproof.certificates.widths import doubled
from wideproof.data import Dataset
from wideproof.networks import DeepReLU, FullyConnected, Residual, get_activation

ROUNDING = 1e-12


def follow(found, step, theta, y, look, every, enough):
    """Run gradient descent and check path, rate and smallest eigenvalue; return the steps and the path length."""
    path, k = 0.0, 0
    constant = found.staircase.constants[-1]
    out, jacobian = step(theta)
    before = np.inf
    while True:
        r = out - y
        size = float(np.linalg.norm(r))
        assert path <= found.radius * (1 + ROUNDING)
        assert size <= (1 - found.rate) ** k * found.rho * (1 + 1e-9) + ROUNDING * found.rho
        assert size <= (1 - found.rate) * before * (1 + 1e-9) + 1e-15
        if k % every == 0:
            least = look(jacobian)
            if found.kappa == 1:
                assert least >= found.s**2 - 2 * constant * (found.rho - size) - 1e-9 * found.b**2
            assert least >= found.sigma**2 - 1e-9 * found.b**2
        if size < enough:
            return k, path
        before = size
        move = found.eta * (r @ jacobian)
        theta, path, k = theta - move, path + float(np.linalg.norm(move)), k + 1
        out, jacobian = step(theta)


def least_eigenvalue(jacobian):
    return float(np.linalg.eigvalsh(jacobian @ jacobian.T)[0])


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_before_training(share):
    """The doubled start of one hidden layer with fixed outputs: n = 10, d = 100, width 180."""
    n, d, width = 10, 100, 180
    network = FullyConnected(d, width, 1, trained=("hidden",))
    data = Dataset(sphere(n, d, 3), signs(n, 3), "binary")
    start = doubled(network, seed=1)
    found = certify(Problem(network, data).at(start)).descent
    assert found is not None
    assert 0.2 < found.h < 0.5
    found = certify(Problem(network, data).at(start), Descent(step_size=share * found.eta)).descent
    assert found is not None
    a, scale = start["a"], math.sqrt(network.activation.c_sigma / width)

    def step(theta):
        z = data.x @ theta.reshape(width, d).T
        slopes = scale * a * expit(z)
        return scale * np.logaddexp(0, z) @ a, (slopes[:, :, None] * data.x[:, None, :]).reshape(n, -1)

    steps, path = follow(found, step, start["W1"].ravel(), data.y, least_eigenvalue, 10, 1e-10 * found.rho)
    assert steps <= found.steps * 3  # counted to a loss of 1e-12, not to a residual of 1e-10
    assert 0.3 < path / found.radius <= 1


def test_the_step_count_is_kept():
    """After the certified number of steps the loss is at most the target."""
    network = FullyConnected(40, 120, 1, trained=("hidden",))
    data = Dataset(sphere(4, 40, 1), signs(4, 1), "binary")
    start = doubled(network, seed=0)
    found = certify(Problem(network, data).at(start), Descent(target_loss=1e-4)).descent
    assert found is not None
    ref = Reference(network, start, data.x)
    theta = ref.theta
    for _ in range(found.steps):
        out, jacobian = ref.both(theta)
        theta = theta - found.eta * ((out - data.y) @ jacobian)
    assert 0.5 * np.sum((ref.both(theta)[0] - data.y) ** 2) <= found.epsilon


@pytest.mark.parametrize(
    "network",
    [FullyConnected(6, 24, 2, get_activation("tanh")), Residual(6, 24, 3, get_activation("tanh"), c_res=0.7)],
    ids=lambda n: n.name,
)
@pytest.mark.parametrize("sharp", [False, True])
def test_after_training(network, sharp):
    """A polished anchor, targets moved away until the proof ratio is about 0.4."""
    params, data = fitted(network, n=4)
    anchor = at(network, params, data.x, data.y, sharp)
    towards = np.random.default_rng(0).standard_normal(4)
    rho = 0.4 * anchor.s**2 / lipschitz(anchor, 0.0).value
    rho *= 0.4 / (lipschitz(anchor, 2 * rho / anchor.s).value * rho / anchor.s**2)
    y = data.y + rho * towards / np.linalg.norm(towards)
    attempt = certify(Problem(network, dataset(network, data.x, y)).at(params), sharp=sharp)
    found = attempt.descent
    assert found is not None, str(attempt)
    assert found.h > 0.2
    ref = Reference(network, params, data.x)
    steps, path = follow(found, ref.both, ref.theta, y, least_eigenvalue, 20, 1e-10 * found.rho)
    assert steps > 10
    assert 0.2 < path / found.radius <= 1


def test_after_training_inside_a_relu_pattern():
    network = DeepReLU(8, 32, 2)
    params, data = fitted(network, n=4)
    rng = np.random.default_rng(0)
    towards = rng.standard_normal(4)
    y = data.y + 1e-6 * towards / np.linalg.norm(towards)
    found = certify(Problem(network, dataset(network, data.x, y)).at(params)).descent
    assert found is not None
    ref = Reference(network, params, data.x)
    steps, path = follow(found, ref.both, ref.theta, y, least_eigenvalue, 20, 1e-12)
    assert steps > 5
    assert path > 0.2 * found.radius


def test_a_wrong_rate_is_caught():
    """With a rate three times too fast the run falls behind: the checks above can fail."""
    network = FullyConnected(40, 120, 1, trained=("hidden",))
    data = Dataset(sphere(4, 40, 1), signs(4, 1), "binary")
    start = doubled(network, seed=0)
    found = certify(Problem(network, data).at(start)).descent
    assert found is not None
    ref = Reference(network, start, data.x)
    fast = dataclasses.replace(found, rate=min(0.99, 6 * found.rate))
    with pytest.raises(AssertionError):
        follow(fast, ref.both, ref.theta, data.y, least_eigenvalue, 50, 1e-10 * found.rho)
