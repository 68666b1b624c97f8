"""Residuals in groups: derivatives by finite differences in NumPy, and the Gram matrix from one dense Jacobian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wideproof.errors import InputError
from wideproof.kernels import Residuals, gram, predict, spectrum

WIDTH = 7


def u(p, x):
    """A network of one point, in any number of coordinates."""
    return jnp.tanh(p["w"] @ jnp.atleast_1d(x) + p["b"]) @ p["a"]


def heat(p, z):
    """u_t - u_xx at z = (x, t)."""
    return jax.grad(u, 1)(p, z)[1] - jax.hessian(u, 1)(p, z)[0, 0]


FUNCTIONS = {"equation": heat, "ends": u, "begin": lambda p, z: u(p, z) - jnp.sin(jnp.pi * z[0])}


def problem(rng, weights=None):
    inside = rng.uniform(size=(6, 2))
    ends = np.array([[0.0, 0.3], [1.0, 0.3], [0.0, 0.8]])
    begin = np.stack([np.linspace(0, 1, 4), np.zeros(4)], axis=1)
    params = {"w": rng.normal(size=(WIDTH, 2)), "b": rng.normal(size=WIDTH), "a": rng.normal(size=WIDTH)}
    return Residuals(FUNCTIONS, {"equation": inside, "ends": ends, "begin": begin}, weights), params


def by_hand(params, points, d=1e-4):
    """The same residuals in NumPy: derivatives are differences of five values."""

    def value(z):
        return np.tanh(z @ params["w"].T + params["b"]) @ params["a"]

    def moved(z, coordinate, steps):
        return value(z + steps * d * np.eye(2)[coordinate])

    z = points["equation"]
    slope = (8 * (moved(z, 1, 1) - moved(z, 1, -1)) - (moved(z, 1, 2) - moved(z, 1, -2))) / (12 * d)
    sides = 16 * (moved(z, 0, 1) + moved(z, 0, -1)) - (moved(z, 0, 2) + moved(z, 0, -2)) - 30 * value(z)
    begin = value(points["begin"]) - np.sin(np.pi * points["begin"][:, 0])
    return {"equation": slope - sides / (12 * d**2), "ends": value(points["ends"]), "begin": begin}


def dense(params, points, d=1e-4):
    """The Jacobian of the residuals by hand, by differences in every parameter."""
    columns = []
    for name, array in params.items():
        for k in range(array.size):
            sides = []
            for sign in (d, -d):
                other = array.copy()
                other.flat[k] += sign
                sides.append(np.concatenate(list(by_hand(params | {name: other}, points, 2e-3).values())))
            columns.append((sides[0] - sides[1]) / (2 * d))
    return np.stack(columns, axis=1)


def test_residuals_are_those_of_finite_differences(rng):
    heat_equation, params = problem(rng)
    found, expected = heat_equation.values(params), by_hand(params, heat_equation.points)
    for name, row in expected.items():
        np.testing.assert_allclose(found[name], row, atol=1e-6)
    assert found.keys() == expected.keys()
    losses = heat_equation.losses(params)
    for name, row in expected.items():
        assert losses[name] == pytest.approx(np.mean(row**2) / 2, rel=1e-5)


def test_gram_by_groups_is_the_product_of_the_dense_jacobian(rng):
    heat_equation, params = problem(rng)
    found = heat_equation.gram(params, by_weight=True)
    jacobian = dense(params, heat_equation.points)
    expected = jacobian @ jacobian.T
    np.testing.assert_allclose(found.matrix, expected, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(found.matrix, found.matrix.T)
    np.testing.assert_allclose(sum(found.blocks.values()), found.matrix, rtol=1e-12)
    assert found.groups == {"equation": slice(0, 6), "ends": slice(6, 9), "begin": slice(9, 13)}
    np.testing.assert_array_equal(found.between("ends", "equation"), found.matrix[6:9, :6])
    for name, rows in found.groups.items():
        values = np.linalg.eigvalsh(found.matrix[rows, rows])
        assert found.traces[name] == pytest.approx(values.sum())
        assert found.mean_eigenvalues[name] == pytest.approx(values.mean())


def test_a_group_alone_is_the_gram_matrix_of_its_function(rng):
    heat_equation, params = problem(rng)
    whole = heat_equation.gram(params)
    for name, function in FUNCTIONS.items():
        alone = gram(function, params, heat_equation.points[name], batched=False)
        np.testing.assert_allclose(whole.between(name, name), alone.matrix, rtol=1e-12, atol=1e-12)


def test_the_error_bound_holds_against_long_sums(rng):
    heat_equation, params = problem(rng)
    found = heat_equation.gram(params)
    with jax.enable_x64(True):
        rows = {name: jax.vmap(lambda z, f=f: jax.grad(f)(params, z))(jnp.asarray(heat_equation.points[name]))
                for name, f in FUNCTIONS.items()}  # fmt: skip
    jacobian = np.concatenate([np.concatenate([np.reshape(row[k], (len(row[k]), -1)) for k in sorted(row)], axis=1)
                               for row in rows.values()]).astype(np.longdouble)  # fmt: skip
    off = np.linalg.norm(np.asarray(jacobian @ jacobian.T - found.matrix, np.float64), 2)
    assert off <= found.error < 1e-9


@pytest.mark.parametrize("by", ["trace", "mean"])
def test_weights_balance_the_groups_and_keep_the_whole_trace(rng, by):
    heat_equation, params = problem(rng)
    found = heat_equation.gram(params)
    weights = heat_equation.balanced(params, by).weights
    assert weights is not None
    parts = {name: weights[name] * np.linalg.eigvalsh(found.between(name, name)) for name in FUNCTIONS}
    level = [values.sum() if by == "trace" else values.mean() for values in parts.values()]
    np.testing.assert_allclose(level, level[0], rtol=1e-9)
    before = sum(np.trace(found.between(name, name)) / len(parts[name]) for name in FUNCTIONS)
    assert sum(values.sum() for values in parts.values()) == pytest.approx(before)
    # Two rules that differ where groups have different sizes, and the rule of the paper where they do not.
    other = heat_equation.balanced(params, "mean" if by == "trace" else "trace", of=found).weights
    assert other is not None
    assert abs(other["equation"] / other["ends"] / (weights["equation"] / weights["ends"]) - 1) > 0.4


def test_with_equally_many_points_both_rules_are_the_one_of_the_traces(rng):
    functions = {"a": u, "b": lambda p, z: 5 * jax.grad(u, 1)(p, z)[0]}
    _, params = problem(rng)
    two = Residuals(functions, {name: rng.uniform(size=(5, 2)) for name in functions})
    found = two.gram(params)
    whole = float(np.trace(found.matrix))
    paper = {name: whole / np.trace(found.between(name, name)) for name in functions}
    for by in ("trace", "mean"):
        weights = two.balanced(params, by).weights
        assert weights is not None
        assert weights["a"] / weights["b"] == pytest.approx(paper["a"] / paper["b"])


def test_the_course_is_that_of_the_linearized_residuals(rng):
    heat_equation, params = problem(rng, {"equation": 0.01, "ends": 2.0, "begin": 0.5})
    course = heat_equation.predict(params)
    jacobian, rows = dense(params, heat_equation.points), by_hand(params, heat_equation.points)
    r = np.concatenate(list(rows.values()))
    w = np.repeat([0.01, 2.0, 0.5], [6, 3, 4])
    assert course.step_size == pytest.approx(1 / np.linalg.eigvalsh(jacobian.T @ (w[:, None] * jacobian))[-1], rel=1e-5)
    move = np.zeros(jacobian.shape[1])  # gradient descent on the linear model, step by step
    for _ in range(25):
        move -= course.step_size * jacobian.T @ (w * (r + jacobian @ move))
    left = r + jacobian @ move
    assert float(course.loss(25)) == pytest.approx((w * left**2).sum() / 2, rel=1e-4)
    parts = course.losses(np.array([0, 25]))
    assert parts["ends"][1] == pytest.approx(2.0 / 2 * (left[6:9] ** 2).sum(), rel=1e-3, abs=1e-9)
    assert sum(part[0] for part in parts.values()) == pytest.approx(sum(heat_equation.losses(params).values()))


def test_a_weight_of_zero_takes_a_group_out(rng):
    heat_equation, params = problem(rng, {"equation": 0.0, "ends": 1.0, "begin": 0.0})
    alone = gram(u, params, heat_equation.points["ends"], batched=False)
    values = heat_equation.values(params)["ends"]
    course = heat_equation.predict(params)
    expected = predict(alone, np.zeros(3), values, course.step_size)
    np.testing.assert_allclose(course.loss(np.arange(5)), expected.loss(np.arange(5)), rtol=1e-9)


def test_why_a_matrix_is_singular(rng):
    heat_equation, params = problem(rng)
    points = dict(heat_equation.points) | {"ends": np.array([[0.0, 0.3], [1.0, 0.3], [0.0, 0.3]])}
    found = Residuals(FUNCTIONS, points).gram(params)
    assert found.singular == "group 'ends': examples 0 and 2 are equal, and so are their rows: remove one of them"
    assert not spectrum(found).positive_definite
    few = heat_equation.gram(params, names=["b"])
    assert few.singular == "13 rows are gradients by 7 parameters, so the rank is at most 7"
    assert heat_equation.gram(params).singular == ""


def test_what_is_refused(rng):
    heat_equation, params = problem(rng)
    points = heat_equation.points
    with pytest.raises(InputError, match="points under the same names"):
        Residuals(FUNCTIONS, {"equation": points["equation"]})
    with pytest.raises(InputError, match="points under the same names"):
        gram({}, params, {})
    with pytest.raises(InputError, match="every group has a weight"):
        Residuals(FUNCTIONS, points, {"ends": 1.0})
    with pytest.raises(InputError, match="weight of group 'ends' must be a number >= 0, got nan"):
        Residuals(FUNCTIONS, points, {"ends": np.nan, "equation": 1, "begin": 1})
    with pytest.raises(InputError, match="make the other points a group"):
        gram(FUNCTIONS, params, points, points, batched=False)
    many = Residuals({"ends": u}, {"ends": rng.uniform(size=(200, 2))})
    with pytest.raises(InputError, match="give more, fewer points"):
        many.gram(params, memory=60_000)
    with pytest.raises(InputError, match="by 'trace' or by 'mean'"):
        heat_equation.balanced(params, "norm")
    still = Residuals(dict(FUNCTIONS) | {"ends": lambda p, z: z[0]}, points)
    with pytest.raises(InputError, match="moves the residuals of group 'ends'"):
        still.balanced(params)
    rooted = Residuals(dict(FUNCTIONS) | {"ends": lambda p, z: jnp.sqrt(p["b"][0] * 0) + z[0]}, points)
    with pytest.raises(InputError, match="group 'ends': the gradient at point 0 is not finite"):
        rooted.gram(params)
    with pytest.raises(InputError, match="there is no group 'sides'"):
        heat_equation.gram(params).between("ends", "sides")
    mixed = Residuals({"all": lambda p, z: jnp.mean(z)}, {"all": np.ones((3, 2))}, batched=True)
    with pytest.raises(InputError, match="one array, for each point"):
        mixed.values(params)
