"""Gradient descent on residuals in groups against a loop in NumPy; the answers to 'did it converge?'."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.kernels import Residuals
from wideproof.training import descend


def u(p, x):
    return jnp.tanh(p["w"] * x + p["b"]) @ p["a"]


def decay(weights=None, width=24, points=6):
    """u' = -u, u(0) = 1."""
    rng = np.random.default_rng(3)
    params = {"w": rng.normal(size=width), "b": rng.normal(size=width), "a": rng.normal(size=width) / width**0.5}
    functions = {"equation": lambda p, x: jax.grad(u, 1)(p, x) + u(p, x), "start": lambda p, x: u(p, x) - 1}
    return Residuals(functions, {"equation": np.linspace(0, 1, points), "start": np.zeros(1)}, weights), params


def by_hand(params, points, weights, step_size, steps):
    """The same steps in NumPy, with the derivatives written out."""
    w, b, a, losses = params["w"], params["b"], params["a"], []
    x, zero = points["equation"][:, None], points["start"][:, None]
    for _ in range(steps + 1):
        t, s = np.tanh(w * x + b), np.tanh(w * zero + b)
        dt, ds = 1 - t**2, 1 - s**2
        r, q = (dt * w + t) @ a, s @ a - 1
        losses.append((weights[0] / 2 * r @ r, weights[1] / 2 * q @ q))
        bend = -2 * t * dt  # the derivative of 1 - tanh²
        ga = weights[0] * r @ (dt * w + t) + weights[1] * q @ s
        gb = weights[0] * r @ ((bend * w + dt) * a) + weights[1] * q @ (ds * a)
        gw = weights[0] * r @ ((bend * w * x + dt + dt * x) * a) + weights[1] * q @ (ds * zero * a)
        w, b, a = w - step_size * gw, b - step_size * gb, a - step_size * ga
    return np.array(losses).T


def test_steps_are_those_of_a_loop_in_numpy():
    problem, params = decay({"equation": 0.2, "start": 1.5})
    run = descend(problem, params, 40, step_size=0.02)
    equation, start = by_hand(params, problem.points, (0.2, 1.5), 0.02, 40)
    np.testing.assert_allclose(run.groups["equation"], equation, rtol=1e-9)
    np.testing.assert_allclose(run.groups["start"], start, rtol=1e-9)
    assert len(run.loss) == len(run.steps) == 41
    np.testing.assert_allclose(sum(problem.losses(run.params).values()), run.loss[-1], rtol=1e-12)
    again = descend(problem, params, 40, step_size=0.02)
    np.testing.assert_array_equal(run.loss, again.loss)


def test_a_wide_network_follows_its_prediction_and_a_narrow_one_less():
    off = []
    for width in (16, 4096):
        problem, params = decay(width=width)
        course, run = problem.predict(params), descend(problem, params, 60)
        off.append(np.abs(run.loss / course.loss(run.steps) - 1).max())
    assert off[1] < 0.02 < off[0]


def test_converged():
    problem, params = decay(width=256)
    course, run = problem.predict(params), descend(problem, params, 3000)
    found = run.against(course, target_loss=1e-3 * run.loss[0])
    assert (found.answer, bool(found)) == (Answer.HOLDS, True)
    assert found.taken is not None
    assert found.needed is not None
    assert run.loss[found.taken] <= 1e-3 * run.loss[0] < run.loss[found.taken - 1]
    assert "reached" in str(found)


def test_not_yet():
    problem, params = decay(width=256)
    found = descend(problem, params, 3).against(problem.predict(params), target_loss=1e-6)
    assert found.answer is Answer.UNDECIDED
    assert found.needed is not None
    assert found.needed > 3
    assert "not yet" in found.reason


def test_never():
    functions = {"one": lambda p, x: p[0] - 1, "other": lambda p, x: p[0] + 1}  # they contradict each other
    problem = Residuals(functions, {"one": np.zeros(1), "other": np.zeros(1)})
    found = descend(problem, [0.5], 50).against(problem.predict([0.5]), target_loss=0.1)
    assert (found.answer, found.needed) == (Answer.FAILS, None)
    assert "never reached" in found.reason


def test_the_gram_matrix_changed():
    problem = Residuals({"one": lambda p, x: p[0] ** 2 + 1e-2 * p[0] + 0.3}, {"one": np.zeros(1)})  # has no zero
    found = descend(problem, [0.5], 500, 0.2).against(problem.predict([0.5], 0.2), target_loss=1e-4)
    assert found.answer is Answer.FAILS
    assert "the Gram matrix changed" in found.reason


def test_diverged():
    problem, params = decay()
    stable = problem.predict(params).prediction.stable_step
    found = descend(problem, params, 400, 50 * stable).against(problem.predict(params, 50 * stable))
    assert found.answer is Answer.FAILS
    assert "diverged at step" in found.reason


def test_integers_stay_and_other_predictions_are_refused():
    problem = Residuals({"one": lambda p, x: p["a"] * p["k"] - x}, {"one": np.array([3.0])})
    run = descend(problem, {"a": np.float64(0.0), "k": np.array(2)}, 50)
    assert run.params["k"] == 2
    assert run.params["a"] == pytest.approx(1.5)
    with pytest.raises(InputError, match="predict from the same parameters"):
        run.against(problem.predict({"a": 1.0, "k": np.array(2)}, run.step_size))
    with pytest.raises(InputError, match="whole number"):
        descend(problem, {"a": 0.0, "k": np.array(2)}, -1)
    with pytest.raises(InputError, match="must be a number > 0"):
        descend(problem, {"a": 0.0, "k": np.array(2)}, 1, float("inf"))
