"""The predicted course of gradient descent: closed forms against loops, and SGD's moments against drawing batches."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wideproof.errors import InputError
from wideproof.kernels.comparison import compare
from wideproof.kernels.dynamics import Prediction, predict
from wideproof.kernels.gram_result import Gram
from wideproof.kernels.spectrum import spectrum
from wideproof.kernels.stochastic import sgd


def with_spectrum(values, rng):
    q = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    a = (q * values) @ q.T
    return (a + a.T) / 2


def looped(g, e, h, steps):
    """All residuals, one step after the other."""
    course = [e]
    for _ in range(steps):
        course.append(course[-1] - h * (g @ course[-1]))
    return np.array(course)


@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 3)])
@pytest.mark.parametrize("step", [0.1, 0.45, 0.6])  # small, oscillating (ηλ > 1), divergent
@pytest.mark.parametrize("scale", [1.0, 1 / 6])
def test_closed_form_is_the_loop(rng, shape, step, scale):
    g = with_spectrum(np.array([0.0, 0.01, 0.3, 1.0, 2.0, 4.0]), rng)
    y, u = rng.standard_normal((2, *shape))
    course = predict(g, y, u, step / scale, scale=scale)
    k = np.arange(31)
    expected = looped(g, (y - u).reshape(6, -1), step, 30).reshape(31, *shape)
    size = np.abs(expected).max()
    np.testing.assert_allclose(course.residual(k), expected, rtol=0, atol=1e-13 * size)
    np.testing.assert_allclose(course.outputs(k), y - expected, rtol=0, atol=1e-13 * size)
    np.testing.assert_allclose(course.loss(k), scale / 2 * np.square(expected.reshape(31, -1)).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(course.residual(7), expected[7], rtol=0, atol=1e-13 * size)
    assert course.converges is (step < 0.5)
    assert course.stable_step == pytest.approx(0.5 / scale)
    np.testing.assert_allclose(course.rates, 1 - step * np.array([0.0, 0.01, 0.3, 1.0, 2.0, 4.0]), atol=1e-14)


def test_matrix_powers(rng):
    g = with_spectrum(np.geomspace(1e-3, 1.5, 8), rng)
    y = rng.standard_normal(8)
    power = np.linalg.matrix_power(np.eye(8) - 0.9 * g, 1000)
    np.testing.assert_allclose(predict(g, y, 0.0, 0.9).residual(1000), power @ y, rtol=0, atol=1e-13)


def test_all_outputs_with_their_whole_matrix(rng):
    """N = n k outputs in one matrix, against the same flattened; a matrix G ⊗ I is the shared one."""
    whole = with_spectrum(np.geomspace(0.01, 1, 6), rng)
    y, u = rng.standard_normal((2, 3, 2))
    flat = predict(whole, y.ravel(), u.ravel(), 0.7)
    np.testing.assert_allclose(predict(whole, y, u, 0.7).outputs(5), flat.outputs(5).reshape(3, 2), atol=1e-15)
    one = with_spectrum(np.array([0.1, 0.5, 1.0]), rng)
    shared, kron = predict(one, y, u, 0.7), predict(np.kron(one, np.eye(2)), y, u, 0.7)
    np.testing.assert_allclose(shared.outputs(9), kron.outputs(9), atol=1e-14)
    assert shared.components.shape == (3, 2)
    assert kron.components.shape == (6,)


def test_a_linear_model_trained_by_numpy(rng):
    """Gradient descent on the weights of features Φ: the outputs follow the Gram matrix ΦΦ^T, elsewhere too."""
    phi, other, y = rng.standard_normal((7, 20)), rng.standard_normal((4, 20)), rng.standard_normal((7, 2))
    w = rng.standard_normal((20, 2))
    step = 0.03
    course = predict(phi @ phi.T, y, phi @ w, step, scale=1 / 7)
    first = other @ w
    cross = other @ phi.T
    seen, losses = [], []
    for _ in range(200):
        seen.append(other @ w)
        residual = y - phi @ w
        losses.append(0.5 * np.square(residual).sum() / 7)
        w = w + step * phi.T @ residual / 7
    np.testing.assert_allclose(course.loss(np.arange(200)), losses, rtol=1e-10)
    np.testing.assert_allclose(course.outputs_at(cross, first, np.arange(200)), seen, atol=1e-12)
    for _ in range(20_000):
        w = w + step * phi.T @ (y - phi @ w) / 7
    np.testing.assert_allclose(course.outputs_at(cross, first), other @ w, atol=1e-10)
    solved = first + cross @ np.linalg.solve(phi @ phi.T, y - course.outputs(0))
    np.testing.assert_allclose(course.outputs_at(cross, first, math.inf), solved, atol=1e-11)
    result = compare(course, np.array(losses), np.arange(200))
    assert result.first_decade < 1e-12
    assert result.overall < 1e-9
    assert result.rate == pytest.approx(result.predicted_rate, rel=1e-9)


@given(
    st.lists(st.floats(0, 2.4), min_size=1, max_size=6),
    st.integers(0, 40),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=80, deadline=None)
def test_any_spectrum(values, k, seed):
    rng = np.random.default_rng(seed)
    values = np.sort(values)
    y = rng.standard_normal(len(values))
    course = predict(np.diag(values), y, 0.0, 1.0)
    e = looped(np.diag(values), y, 1.0, k)[-1]
    np.testing.assert_allclose(course.residual(k), e, rtol=1e-9, atol=1e-9 * np.abs(y).max())
    cross = rng.standard_normal((2, len(values)))
    travelled = sum((1 - values) ** j for j in range(k)) * y
    expected = cross @ travelled
    np.testing.assert_allclose(
        course.outputs_at(cross, np.zeros(2), k), expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(travelled).sum())
    )
    brute = course.loss(np.arange(200))
    target = 0.3 * brute[0]
    hits = np.flatnonzero(brute <= target)
    found = course.steps_to(float(target))
    if len(hits):
        assert found == hits[0]
    else:
        assert found is None or found >= 200


def test_a_billion_steps():
    """No overflow, no loss of digits: (1 - 1e-9)^(1e9) = exp(1e9 log1p(-1e-9))."""
    course = predict(np.diag([1e-9, 1.0, 1.9]), np.ones(3), 0.0, 1.0)
    e = course.residual(np.array([10**9, 10**9 + 1]))
    np.testing.assert_allclose(e[:, 0], np.exp(np.array([1e9, 1e9 + 1]) * math.log1p(-1e-9)), rtol=1e-14)
    assert e[0, 1:].tolist() == [0.0, 0.0]
    assert course.half_lives[0] == pytest.approx(math.log(2) * 1e9)
    steps = course.steps_to(1e-10)
    assert steps is not None
    assert course.loss(steps) <= 1e-10 < course.loss(steps - 1)
    assert steps == pytest.approx(-math.log(2e-10) / 2 * 1e9, rel=1e-6)
    slow = course.outputs_at(np.array([[1.0, 0, 0]]), np.zeros(1), 1000)
    assert slow[0] == pytest.approx(-math.expm1(1000 * math.log1p(-1e-9)) / 1e-9, rel=1e-12)


def test_divergence_above_the_stable_step():
    g = np.diag([0.5, 2.0])
    below, above = predict(g, np.ones(2), 0.0, 0.999), predict(g, np.ones(2), 0.0, 1.001)
    assert below.converges
    assert below.advice == ""
    assert below.limit_loss == 0
    assert not above.converges
    assert "diverges" in above.advice
    assert above.limit_loss == math.inf
    assert above.loss(10**9) == math.inf
    assert above.steps_to(1e-3) is None
    assert above.half_lives[-1] == math.inf
    at = predict(g, np.ones(2), 0.0, 1.0)
    assert not at.converges
    assert at.limit_loss == 0.5


def test_the_dip_before_divergence():
    """A large component that dies out and a small one that grows: the loss falls, then rises."""
    course = predict(np.diag([0.5, 2.0]), np.array([1.0, 1e-6]), 0.0, 1.05)
    brute = course.loss(np.arange(400))
    lowest = int(brute.argmin())
    assert 0 < lowest < 399
    for target in (brute[0], brute[0] / 2, brute[lowest] * 1.5, brute[lowest]):
        assert course.steps_to(float(target)) == np.flatnonzero(brute <= target)[0]
    assert course.steps_to(float(brute[lowest]) * 0.99) is None


def test_one_step_and_done():
    """ηλ = 1 exactly: the component is gone after one step, and log 0 harms nothing."""
    course = predict(np.eye(3), np.ones(3), 0.0, 1.0)
    assert course.loss(np.array([0, 1, 2, math.inf])).tolist() == [1.5, 0, 0, 0]
    assert course.steps_to(0.0) == 1
    assert course.half_lives.tolist() == [0, 0, 0]
    assert course.outputs_at(np.eye(3), np.zeros(3), np.array([0, 1])).tolist() == [[0] * 3, [1] * 3]
    dip = predict(np.diag([1.0, 2.5]), np.array([1.0, 0.1]), 0.0, 1.0)
    brute = dip.loss(np.arange(10))
    assert dip.steps_to(0.02) == np.flatnonzero(brute <= 0.02)[0] == 1


def test_null_directions_never_move(rng):
    x = rng.standard_normal((5, 12))
    x[3] = x[1]
    y = np.array([0.5, 1.0, -0.3, -1.0, 0.2])  # equal inputs 1 and 3 with opposite targets
    course = predict(x @ x.T, y, 0.0, 0.05)
    assert course.eigenvalues[0] == 0
    assert course.rates[0] == 1
    assert course.half_lives[0] == math.inf
    assert course.limit_loss == pytest.approx((1 - -1) ** 2 / 4, rel=1e-12)
    assert course.steps_to(0.99) is None
    assert "cannot fall below 1" in course.advice
    late = course.outputs(np.array([10**6, 10**18]))
    np.testing.assert_allclose(late[:, [1, 3]], 0, atol=1e-12)
    np.testing.assert_allclose(late[:, [0, 2, 4]], np.tile(y[[0, 2, 4]], (2, 1)), atol=1e-12)
    pinv = x @ x.T @ np.linalg.pinv(x @ x.T) @ y
    np.testing.assert_allclose(course.outputs_at(x @ x.T, np.zeros(5)), pinv, atol=1e-12)


def test_one_decomposition_for_several(rng):
    g = with_spectrum(np.linspace(0.1, 1, 5), rng)
    y = rng.standard_normal(5)
    eigen = spectrum(g, vectors=True)
    again = predict(g, y, 0.0, 0.5, eigen=eigen)
    assert again.vectors is eigen.vectors
    value = Gram(g, ("W1",), "limit", "float64", "cpu", error=1e-12)
    np.testing.assert_array_equal(predict(value, y, 0.0, 0.5).outputs(3), again.outputs(3))


@pytest.mark.parametrize(("batch", "shape"), [(1, (5,)), (2, (5,)), (4, (5, 2)), (2, (5, 2))])
def test_sgd_moments_over_all_batches(rng, batch, shape):
    """Two steps, averaged over every pair of batches: the moments without sampling error."""
    from itertools import combinations

    whole = shape == (5, 2) and batch == 2  # one matrix for all ten outputs
    size = 10 if whole else 5
    g = with_spectrum(np.geomspace(0.05, 1, size), rng)
    y, u = rng.standard_normal((2, *shape))
    found = sgd(g, y, u, 0.8 * 5, batch, 2, scale=1 / 5)
    e = (y - u).reshape(size, -1)
    states = [e]
    losses, variances = [float(0.1 * np.square(e).sum())], [0.0]
    for _ in range(2):
        after = []
        for b in combinations(range(5), batch):
            mask = np.zeros(5)
            mask[list(b)] = 1
            mask = np.repeat(mask, size // 5)[:, None]
            after += [e - 0.8 * 5 / batch * (g @ (mask * e)) for e in states]
        states = after
        mean = np.mean(states, axis=0)
        losses.append(float(0.1 * np.mean([np.square(e).sum() for e in states])))
        variances.append(float(np.mean([np.square(e - mean).sum() for e in states])))
        k = len(losses) - 1
        np.testing.assert_allclose(found.prediction.residual(k).reshape(size, -1), mean, atol=1e-13)
    np.testing.assert_allclose(found.loss, losses, rtol=1e-12)
    np.testing.assert_allclose(found.variance, variances, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(found.moment, np.mean([e @ e.T for e in states], axis=0), atol=1e-13)


def test_sgd_against_drawn_batches(rng):
    n, batch, steps, runs = 8, 3, 25, 20_000
    g = with_spectrum(np.geomspace(0.02, 1, n), rng)
    y = rng.standard_normal(n)
    found = sgd(g, y, 0.0, 0.4, batch, steps)
    e = np.tile(y, (runs, 1))
    for _ in range(steps):
        chosen = rng.permuted(np.tile(np.arange(n) < batch, (runs, 1)), axis=1)
        e = e - 0.4 * n / batch * ((e * chosen) @ g)
    losses = 0.5 * np.square(e).sum(axis=1)
    error = losses.std() / math.sqrt(runs)
    assert abs(losses.mean() - found.loss[-1]) < 4 * error
    assert error < 0.02 * found.loss[-1]
    deviation = np.abs(e.mean(axis=0) - found.prediction.residual(steps)) / (e.std(axis=0) / math.sqrt(runs))
    assert deviation.max() < 4
    spread = np.square(e - e.mean(axis=0)).sum(axis=1)
    assert abs(spread.mean() - found.variance[-1]) < 4 * spread.std() / math.sqrt(runs)


def test_sgd_with_all_examples_is_gradient_descent(rng):
    g = with_spectrum(np.linspace(0.1, 1, 6), rng)
    y = rng.standard_normal(6)
    found = sgd(g, y, 0.0, 1.3, 6, 40)
    np.testing.assert_allclose(found.loss, found.prediction.loss(np.arange(41)), rtol=1e-10)
    assert not found.variance.any()
    assert sgd(np.eye(1), np.ones(1), 0.0, 0.5, 1, 1).loss.tolist() == [0.5, 0.125]


def test_divergence_beyond_all_numbers():
    """Infinite or undefined, but never an exception or a plausible number."""
    course = predict(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, 0.0]), 0.0, 5.0)
    assert not np.isfinite(course.residual(10**6)).any()
    assert not np.isfinite(course.outputs_at(np.ones((1, 2)), np.zeros(1), 10**6)).any()
    moments = sgd(np.eye(3) * 5, np.ones(3), 0.0, 1.0, 1, 400)
    assert not np.isfinite(moments.loss[-1])
    assert not np.isfinite(moments.variance[-1])


def test_comparison_sees_a_moved_matrix(rng):
    """A run whose smallest eigenvalue is twice the predicted one has twice the late rate."""
    y = np.array([1.0, 1.0])
    predicted, actual = (predict(np.diag([low, 1.0]), y, 0.0, 0.1) for low in (0.01, 0.02))
    k = np.arange(0, 2000, 10)
    result = compare(predicted, actual.loss(k), k)
    assert result.slowest_rate == pytest.approx(2 * math.log1p(-0.001))
    assert result.predicted_rate == pytest.approx(result.slowest_rate, rel=1e-6)
    assert result.rate == pytest.approx(2 * math.log1p(-0.002), rel=1e-6)
    assert result.first_decade > 0.1
    assert result.overall >= result.first_decade
    assert "late log-rate is -0.004 per step, predicted -0.002" in str(result)


def test_comparison_of_odd_runs():
    course = predict(np.diag([0.0, 1.0]), np.ones(2), 0.0, 0.5)
    exact = compare(course, course.loss(np.arange(20)), np.arange(20))
    assert exact.overall == 0
    assert exact.rate == pytest.approx(2 * math.log(0.5), rel=1e-5)  # above the limit of 1/2
    gone = compare(course, np.array([1.0, math.nan, math.inf]), np.arange(3))
    assert gone.overall == math.inf
    assert math.isnan(gone.rate)
    only = compare(course, np.array([1.0]), np.array([0]))
    assert only.overall == 0
    assert math.isnan(only.rate)


def test_misuse():
    y = np.ones(3)
    with pytest.raises(InputError, match="predicts 2 examples or 2 outputs"):
        predict(np.eye(2), y, 0.0, 0.1)
    with pytest.raises(InputError, match="start holds the outputs"):
        predict(np.eye(3), y, np.ones(2), 0.1)
    with pytest.raises(InputError, match="step_size must be a number > 0"):
        predict(np.eye(3), y, 0.0, -0.1)
    with pytest.raises(InputError, match="scale must be a number > 0"):
        predict(np.eye(3), y, 0.0, 0.1, scale=math.inf)
    with pytest.raises(InputError, match="finite numbers"):
        predict(np.eye(3), y * math.nan, 0.0, 0.1)
    with pytest.raises(InputError, match="indefinite"):
        predict(-np.eye(3), y, 0.0, 0.1)
    with pytest.raises(InputError, match="vectors=True"):
        predict(np.eye(3), y, 0.0, 0.1, eigen=spectrum(np.eye(3)))
    course = predict(np.eye(3), y, 0.0, 0.1)
    assert isinstance(course, Prediction)
    for k in (-1, 0.5, math.nan):
        with pytest.raises(InputError, match="k must be a number of steps"):
            course.loss(k)
    with pytest.raises(InputError, match="matrix of 3 columns"):
        course.outputs_at(np.ones((2, 2)), np.zeros(2), 1)
    with pytest.raises(InputError, match="one loss per recorded step"):
        compare(course, np.ones(3), np.arange(2))
    with pytest.raises(InputError, match="between 1 and 3"):
        sgd(np.eye(3), y, 0.0, 0.1, 4, 1)
