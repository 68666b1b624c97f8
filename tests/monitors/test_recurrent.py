"""Each quantity of an unrolled recurrent network by two routes."""

import numpy as np
import pytest

from wideproof.data.generators import sequences
from wideproof.kernels import gram
from wideproof.monitors import trace
from wideproof.monitors.recurrent import backward, fresh, good, objective, separability, tangent_kernel, unroll
from wideproof.networks import ElmanRNN

DATA = sequences(n=3, length=4, features=5, separation=0.5, outputs=2, seed=1)
NETWORK = ElmanRNN(input_dim=5, width=40, length=4, outputs=2)
PARAMS = NETWORK.init(3)
SEEN = unroll(PARAMS, DATA.x)


def test_states_are_those_of_the_network():
    np.testing.assert_allclose(SEEN.h, NETWORK.features(PARAMS, DATA.x)[0], atol=1e-14)
    np.testing.assert_allclose(SEEN.outputs, NETWORK(PARAMS, DATA.x), atol=1e-13)
    values = trace(NETWORK, PARAMS, DATA.x).values
    np.testing.assert_allclose(SEEN.g[:, 1:] - (DATA.x @ PARAMS["A"].T)[:, 1:], np.stack(values["W"], 1), atol=1e-13)
    assert (SEEN.n, SEEN.length, SEEN.width) == (3, 4, 40)


def test_zero_counts_as_active():
    seen = unroll({"W": np.eye(2), "A": np.zeros((2, 2)), "B": np.ones((1, 2))}, np.ones((1, 2, 2)))
    assert seen.mask.all()


def masked(i, time):
    return SEEN.mask[i, time - 1][:, None] * SEEN.W


def test_products_are_chains_of_masked_matrices():
    dense = masked(1, 4) @ masked(1, 3) @ masked(1, 2)
    np.testing.assert_allclose(SEEN.matrix(1, 2, 4), dense, atol=1e-13)
    z = np.random.default_rng(0).normal(size=(40, 3))
    np.testing.assert_allclose(SEEN.product(1, 2, 4, z), dense @ z, atol=1e-12)
    np.testing.assert_allclose(SEEN.product(1, 2, 4, z[:, 0]), dense @ z[:, 0], atol=1e-12)
    np.testing.assert_allclose(SEEN.adjoint(1, 2, 4, z), dense.T @ z, atol=1e-12)
    np.testing.assert_array_equal(SEEN.matrix(1, 3, 2), np.eye(40))
    assert SEEN.product_norm(1, 2, 4) == pytest.approx(np.linalg.norm(dense, 2), rel=1e-8)
    assert SEEN.product_norm(1, 2, 4, extra=True) == pytest.approx(np.linalg.norm(SEEN.W @ dense, 2), rel=1e-8)


def test_backward_matrices():
    np.testing.assert_array_equal(SEEN.back(2, 3, 3), SEEN.B)
    np.testing.assert_allclose(SEEN.back(2, 1, 3), SEEN.B @ masked(2, 3) @ masked(2, 2), atol=1e-12)
    swept = SEEN.backs(2, 4)
    assert swept.shape == (4, 2, 40)
    for time in range(1, 5):
        np.testing.assert_allclose(swept[time - 1], SEEN.back(2, time, 4), atol=1e-12)


def test_gradient_against_difference_quotients():
    losses = SEEN.outputs - DATA.y
    gradient = backward(SEEN, losses)
    rng, step = np.random.default_rng(1), 1e-6
    for _ in range(3):
        change = rng.normal(size=SEEN.W.shape) / 40
        sides = [objective(unroll({**PARAMS, "W": SEEN.W + s * change}, DATA.x).outputs, DATA.y) for s in (step, -step)]
        assert gradient.pair(change) == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-6)
        assert gradient.pair(change) == pytest.approx(float(np.sum(gradient.matrix() * change)), rel=1e-10)
    dense = gradient.matrix()
    assert gradient.square() == pytest.approx(float(np.sum(dense**2)), rel=1e-12)
    np.testing.assert_allclose(gradient.row_squares(), np.sum(dense**2, axis=1), rtol=1e-10)
    parts = sum(gradient.of(i).matrix() for i in range(3))
    np.testing.assert_allclose(parts, dense, atol=1e-12)


def test_losses_of_the_first_time_do_not_enter():
    losses = SEEN.outputs - DATA.y
    changed = losses.copy()
    changed[:, 0] += 7
    np.testing.assert_array_equal(backward(SEEN, losses).matrix(), backward(SEEN, changed).matrix())


def test_tangent_kernel_against_the_gram_matrix():
    kernel = tangent_kernel(SEEN)
    np.testing.assert_allclose(kernel, gram(NETWORK, PARAMS, DATA.x).matrix, rtol=1e-10, atol=1e-10)
    losses = np.random.default_rng(2).normal(size=SEEN.outputs.shape)
    flat = losses[:, 1:].ravel()
    assert flat @ kernel @ flat == pytest.approx(backward(SEEN, losses).square(), rel=1e-10)


def test_fresh_parts_are_least_squares_residuals():
    found = fresh(SEEN.h)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(12), atol=1e-12)
    for time in range(1, 4):
        before = SEEN.h[:, :time].reshape(-1, 40).T
        for i in range(3):
            h = SEEN.h[i, time]
            rest = h - before @ np.linalg.lstsq(before, h, rcond=None)[0]
            np.testing.assert_allclose(found.residuals[i, time], rest, atol=1e-10)
            assert found.norms[i, time] == pytest.approx(np.linalg.norm(rest), rel=1e-8)
        assert found.before(time).shape == (40, 3 * time)
        np.testing.assert_allclose(before - found.before(time) @ (found.before(time).T @ before), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found.directions(), axis=-1), 1)


def test_more_states_than_dimensions():
    with pytest.raises(ValueError, match="independent"):
        fresh(np.ones((3, 4, 10)))


def test_separability_of_two_routes():
    rows = np.random.default_rng(3).normal(size=(4, 6))
    least = min(
        np.linalg.norm(x - y * (x @ y) / (y @ y)) for a, x in enumerate(rows) for b, y in enumerate(rows) if a != b
    )
    assert separability(rows) == pytest.approx(least, rel=1e-12)
    close = np.array([[1.0, 0.0], [1.0, 1e-12]])
    assert separability(close) == pytest.approx(1e-12, rel=1e-6)
    with pytest.raises(ValueError, match="two vectors"):
        separability(rows[:1])


def test_good_vectors():
    w = np.array([-2.0, -1.0, -0.05, 0.05, 1.0, 2.0])
    assert good(w, 0.4, 1.0)  # needs 1.8 beyond 0.4 on either side, has 2
    assert not good(w, 0.1, 1.0)  # needs 2.7 beyond 0.1
    assert not good(np.abs(w), 0.4, 1.0)
