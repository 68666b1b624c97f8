from fractions import Fraction
from itertools import combinations
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wideproof.data.geometry import groups_of_equal_rows, nearest_opposite_each, pairs
from wideproof.errors import InputError


def exact_distance(a, b):
    """The correctly rounded distance, in rational arithmetic."""
    square = sum((Fraction(float(p)) - Fraction(float(q))) ** 2 for p, q in zip(a, b, strict=True))
    scale = 10**400
    return float(Fraction(isqrt(square.numerator * scale // square.denominator), isqrt(scale)))


def brute(x, labels=None):
    chosen = [(i, j) for i, j in combinations(range(len(x)), 2) if labels is None or labels[i] != labels[j]]
    return min((exact_distance(x[i], x[j]), i, j) for i, j in chosen)


def brute_directions(x, sign):
    hat = x.astype(np.longdouble) / np.sqrt(np.square(x.astype(np.longdouble)).sum(axis=1, keepdims=True))
    found = [(np.sqrt(np.square(hat[i] - sign * hat[j]).sum()), i, j) for i, j in combinations(range(len(x)), 2)]
    return min(found)


@pytest.mark.parametrize("block", [3, 8, 1024])
@pytest.mark.parametrize("gap", [1e-3, 1e-7, 1e-10])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_a_planted_close_pair_is_found_exactly(block, gap, offset):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(23, 5)) + offset
    x[17] = x[4] + gap * rng.normal(size=5)
    x[20] = x[11] + 1.5 * gap * rng.normal(size=5)
    labels = np.arange(23) % 2
    labels[17] = labels[4]
    found = pairs(x, labels, block=block)
    for pair, (distance, i, j) in ((found.nearest, brute(x)), (found.opposite, brute(x, labels))):
        assert pair is not None
        assert (pair.i, pair.j) == (i, j)
        assert abs(pair.distance - distance) <= 1e-12 * distance


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), exponent=st.integers(-9, 0), block=st.sampled_from([4, 7]))
def test_directions_against_brute_force(seed, exponent, block):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(15, 4)) * 10.0 ** rng.integers(-3, 4, size=(15, 1))
    x[9] = 3 * x[2] * (1 + 10.0**exponent * rng.normal(size=4))
    x[12] = -0.7 * x[5] * (1 + 10.0**exponent * rng.normal(size=4))
    found = pairs(x, block=block)
    for pair, sign in ((found.direction, 1), (found.antipode, -1)):
        distance, i, j = brute_directions(x, sign)
        assert pair is not None
        assert (pair.i, pair.j) == (i, j)
        assert abs(pair.distance - distance) <= 1e-12 * distance + 1e-15
    assert found.parallel_count == (brute_directions(x, 1)[0] <= 1e-8)


def test_unit_directions_keep_their_digits():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(12, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[7] = x[1] + 1e-7 * rng.normal(size=6)
    x[7] /= np.linalg.norm(x[7])
    found = pairs(x, block=5).direction
    assert found is not None
    assert abs(found.distance / float(brute_directions(x, 1)[0]) - 1) < 1e-11


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.float64, (9, 2), elements=st.integers(-2, 2).map(float)),
    st.lists(st.booleans(), min_size=9, max_size=9),
)
def test_lattices_full_of_ties(x, labels):
    labels = np.array(labels)
    found = pairs(x, labels, block=4, listed=100)
    assert found.nearest is not None
    assert found.nearest.distance == pytest.approx(brute(x)[0], rel=1e-15)
    if labels.min() == labels.max():
        assert found.opposite is None
    else:
        assert found.opposite is not None
        assert found.opposite.distance == pytest.approx(brute(x, labels)[0], rel=1e-15)
    cross = {(i, j) for i, j in combinations(range(9), 2) if x[i].any() and x[j].any()}
    cross = {(i, j) for i, j in cross if x[i, 0] * x[j, 1] == x[i, 1] * x[j, 0]}
    assert set(found.parallel) == {(i, j) for i, j in cross if x[i] @ x[j] > 0}
    assert set(found.antipodal) == {(i, j) for i, j in cross if x[i] @ x[j] < 0}
    assert (found.parallel_count, found.antipodal_count) == (len(found.parallel), len(found.antipodal))


def test_extreme_sizes_and_lists():
    x = np.array([[1e200, 0.0], [0.0, 1e200], [1e200, 1e195], [-1e-200, 0.0]])
    found = pairs(x)
    assert found.nearest is not None
    assert found.nearest.distance == 1e195
    assert found.antipodal == ((0, 3),)
    many = pairs(np.ones((300, 3)), np.zeros(300))
    assert many.parallel_count == 300 * 299 // 2
    assert len(many.parallel) == 20
    assert many.opposite is None
    single = pairs(np.ones((1, 3)))
    assert single.nearest is None
    assert single.direction is None
    with pytest.raises(InputError, match="rows of finite numbers"):
        pairs(np.array([[np.nan]]))


def test_equal_rows():
    x = np.array([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0], [2.0, 3.0], [5.0, 5.0]])
    assert [group.tolist() for group in groups_of_equal_rows(x)] == [[0, 2], [1, 3], [4]]
    found = pairs(x, [0, 1, 0, 0, 1])
    assert found.opposite == (0.0, 1, 3)
    assert found.nearest == (0.0, 0, 2)


def test_nearest_opposite_each_against_brute_force():
    rng = np.random.default_rng(0)
    x, positive = rng.normal(size=(30, 3)), rng.random(30) < 0.4
    wanted = [np.linalg.norm(x[positive != positive[i]] - x[i], axis=1).min() for i in range(30)]
    np.testing.assert_allclose(nearest_opposite_each(x, positive, block=7), wanted, rtol=1e-7)
