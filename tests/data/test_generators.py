import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist, squareform

from wideproof.data import generators as g
from wideproof.errors import InputError

seeds = st.integers(0, 10_000)


def unit(x):
    return np.abs(np.linalg.norm(x, axis=-1) - 1).max() < 1e-12


@settings(max_examples=15, deadline=None)
@given(seed=seeds, separation=st.floats(1e-3, 0.6), labels=st.sampled_from(["random", "linear"]))
def test_sphere_has_exactly_its_separation(seed, separation, labels):
    data = g.sphere(n=12, d=4, separation=separation, seed=seed, labels=labels)
    assert unit(data.x)
    assert abs(pdist(data.x).min() - separation) < 1e-12
    assert abs(np.linalg.norm(data.x[0] - data.x[1]) - separation) < 1e-12


@settings(max_examples=15, deadline=None)
@given(seed=seeds, separation=st.floats(1e-3, 0.5), mu=st.sampled_from([None, 0.3, 0.8]))
@pytest.mark.parametrize("labels", ["random", "linear"])
def test_two_classes_have_exactly_their_separation(labels, seed, separation, mu):
    data = g.two_classes(n=14, d=5, separation=separation, mu=mu, seed=seed, labels=labels)
    assert unit(data.x)
    opposite = cdist(data.x[data.y > 0], data.x[data.y < 0])
    assert abs(opposite.min() - separation) < 1e-12
    if mu is not None:
        assert (data.x[:, -1] == mu).all()


def test_extreme_separations():
    assert abs(pdist(g.sphere(2, 5, 2.0).x)[0] - 2) < 1e-12
    assert abs(pdist(g.sphere(2, 1, 2.0).x)[0] - 2) < 1e-12
    assert abs(pdist(g.sphere(50, 5, 1e-7).x).min() - 1e-7) < 1e-12
    data = g.two_classes(n=40, d=100, separation=1.9, labels="linear")
    assert abs(cdist(data.x[data.y > 0], data.x[data.y < 0]).min() - 1.9) < 1e-12


def test_packing_bound_is_sharp_in_the_plane():
    # n points on a circle are at most 2 sin(π/n) apart
    for n in (3, 5, 8):
        assert abs(g.most_points(2, 2 * np.sin(np.pi / n)) - n) < 1e-9


@settings(max_examples=10, deadline=None)
@given(seed=seeds, tail=st.sampled_from(["random", "zero", "shared"]))
def test_sequences_meet_the_recurrent_assumptions(seed, tail):
    data = g.sequences(n=8, length=4, features=5, separation=0.2, outputs=2, tail=tail, seed=seed)
    first = data.x[:, 0]
    assert unit(first)
    assert (np.abs(first[:, -1] - np.sqrt(0.5)) < 1e-15).all()
    assert abs(pdist(first).min() - 0.2) < 1e-12
    assert np.linalg.norm(data.x, axis=2).max() <= 1 + 1e-12
    assert data.y.shape == (8, 4, 2)
    if tail != "random":
        assert (data.x[:, 1:] == data.x[0, 1:]).all()


def test_linear_margin_teacher_and_random_labels():
    data = g.linear_margin(n=50, d=6, rho=0.3, seed=1)
    assert unit(data.x)
    assert (data.y * data.x[:, 0] >= 0.3).all()
    assert abs(squareform(pdist(data.x))[0, 1] - 0.6) < 1e-12
    data = g.teacher(n=40, d=3, width=5, seed=2)
    assert unit(data.x)
    assert abs(data.y.var() - 1) < 1e-12
    assert g.teacher(n=5, d=3, width=1).digest == g.teacher(n=5, d=3, width=1).digest
    assert unit(g.random_labels(n=5, d=3, seed=1).x)
    assert g.random_labels(n=5, d=3, seed=1).digest != g.random_labels(n=5, d=3, seed=2).digest


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: g.sphere(10, 2, 1.5), r"room for at most 3 points.*use fewer points"),
        (
            lambda: g.sphere(12, 3, 1.05),
            r"found no room in .* more draws: use fewer points|room for at most",
        ),
        (lambda: g.sphere(3, 3, 2.5), r"must be in \(0, 2\], got 2.5"),
        (lambda: g.sphere(3, 3, 0.0), r"must be in \(0, 2\]"),
        (lambda: g.sphere(1, 3, 0.5), r"needs n >= 2"),
        (lambda: g.sphere(3, 3, 0.5, labels="odd"), r"random or linear, got 'odd'"),  # pyright: ignore[reportArgumentType]
        (lambda: g.two_classes(40, 9, 1.99), r"found no room.*labels='linear'"),
        (lambda: g.two_classes(6, 3, 1.9, mu=0.8), r"separations up to 1.2, got 1.9"),
        (lambda: g.two_classes(6, 3, 0.5, mu=1.0), r"must be in \(0, 1\), got 1"),
        (lambda: g.two_classes(6, 2, 0.5, mu=0.5, labels="linear"), r"use a larger d"),
        (lambda: g.linear_margin(6, 3, 1.5), r"0 < rho <= 1"),
        (lambda: g.teacher(6, 3, 0), r"width of at least 1"),
        (lambda: g.sequences(3, 1, 3, 0.5), r"length >= 2"),
        (lambda: g.sequences(3, 2, 2, 0.5), r"room for at most 2 points"),
        (lambda: g.sequences(3, 2, 4, 1.5), r"must be in \(0, 1.414\], got 1.5"),
        (lambda: g.sequences(3, 2, 4, 0.5, tail="odd"), r"random, zero or shared"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_impossible_requests_get_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
