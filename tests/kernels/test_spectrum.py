"""Spectra with error radii, against known spectra: an interval covers the truth, and decides only what it may."""

import importlib
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wideproof.errors import InputError
from wideproof.kernels.gram_result import Gram
from wideproof.kernels.spectrum import Enclosed, Spectrum, spectrum

# Smallest and largest eigenvalues of Hilbert matrices, by mpmath with 60 digits.
HILBERT = {
    5: (3.287928772171863e-6, 1.5670506910982308),
    8: (1.1115389663724424e-10, 1.6959389969219495),
    10: (1.0931538193796658e-13, 1.7519196702651775),
}


def with_spectrum(values, rng):
    """A symmetric matrix with these eigenvalues, up to rounding of its entries."""
    q = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    a = (q * values) @ q.T
    return (a + a.T) / 2


def covers(enclosed, truth):
    return enclosed.low <= truth <= enclosed.high


def second_difference(n):
    """Entries are exact, and so are the eigenvalues 2 - 2 cos(pi j / (n + 1))."""
    return 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)


@pytest.mark.parametrize("n", HILBERT)
def test_hilbert_matrices(n):
    i = np.arange(n)
    found = spectrum(1 / (i[:, None] + i + 1.0))
    least, most = HILBERT[n]
    assert covers(found.smallest, least)
    assert covers(found.largest, most)
    assert found.decided
    assert found.positive_definite
    assert isinstance(found.condition, Enclosed)
    assert covers(found.condition, most / least)
    assert found.stable_step <= 2 / most


@pytest.mark.parametrize("n", [2, 3, 10, 200, 600])
@pytest.mark.parametrize("method", ["dense", "lanczos"])
def test_exact_entries_and_known_eigenvalues(n, method):
    found = spectrum(second_difference(n), error=0.0, method=method)
    angles = np.pi * np.arange(1, n + 1) / (n + 1)
    truth = 4 * np.sin(angles / 2) ** 2
    assert covers(found.smallest, truth[0])
    assert covers(found.largest, truth[-1])
    assert found.positive_definite
    assert found.smallest.radius < 1e-9
    if found.eigenvalues is not None:
        measured = np.abs(found.eigenvalues - truth).max()
        assert measured < found.smallest.radius
        assert found.rank == n


def test_a_wide_prescribed_spectrum(rng):
    values = np.geomspace(1e-14, 10, 40)
    found = spectrum(with_spectrum(values, rng))
    assert covers(found.smallest, 1e-14)
    assert not found.decided
    assert found.condition == math.inf
    assert found.rank is not None
    assert 0 < found.rank < 40
    assert found.verdict.startswith("undecided")
    assert found.eigenvalues is not None
    assert np.all(np.abs(found.eigenvalues - values) <= found.smallest.radius)
    clear = spectrum(with_spectrum(np.geomspace(1e-10, 10, 40), rng))
    assert clear.positive_definite
    assert covers(clear.smallest, 1e-10)


@pytest.mark.parametrize("method", ["dense", "lanczos"])
@pytest.mark.parametrize(
    ("planted", "word", "decided"),
    [(-1e-3, "indefinite", True), (-1e-17, "undecided", False), (0.0, "undecided", False), (1e-3, "positive", True)],
)
def test_planted_smallest_eigenvalue(planted, word, decided, method, rng):
    a = with_spectrum(np.concatenate([[planted], np.linspace(0.5, 3, 119)]), rng)
    found = spectrum(a, method=method)
    assert found.verdict.startswith(word)
    assert found.decided is decided
    assert covers(found.smallest, planted)
    assert found.positive_definite is (planted > 0 and decided)


@given(st.integers(2, 12), st.integers(0, 2**32 - 1), st.floats(-16, -1), st.floats(-3, 3))
@settings(max_examples=60, deadline=None)
def test_an_enclosure_covers_the_truth(n, seed, least, scale):
    rng = np.random.default_rng(seed)
    values = 10.0**scale * np.sort(10 ** rng.uniform(least, 0, n))
    # Forming Q diag Q^T takes n products per entry, more than the one rounding that a bare array is trusted with.
    found = spectrum(with_spectrum(values, rng), error=4 * n * 2.2e-16 * values[-1])
    assert covers(found.smallest, values[0])
    assert covers(found.largest, values[-1])
    if found.decided:
        assert found.positive_definite


def test_lanczos_agrees_with_dense(rng):
    x = rng.standard_normal((600, 900))
    a = x @ x.T / 900
    dense, lanczos = spectrum(a, method="dense"), spectrum(a, method="lanczos")
    assert (dense.method, lanczos.method) == ("dense", "lanczos")
    for one, other in ((dense.smallest, lanczos.smallest), (dense.largest, lanczos.largest)):
        assert abs(one.value - other.value) < 1e-12
        assert other.radius < 1e-8
    assert lanczos.eigenvalues is None
    assert lanczos.rank is None
    assert lanczos.positive_definite


def test_lanczos_needs_three_examples():
    for n, method in ((2, "dense"), (3, "lanczos")):
        found = spectrum(np.diag(np.arange(1.0, n + 1)), method="lanczos")
        assert found.method == method
        assert covers(found.smallest, 1.0)
        assert covers(found.largest, n)


def test_lanczos_proves_a_small_eigenvalue(rng):
    """Far below what the residual of an unconverged Lanczos vector of A itself could tell."""
    a = with_spectrum(np.concatenate([[1e-8], np.geomspace(1e-6, 1, 299)]), rng)
    found = spectrum(a, method="lanczos")
    assert found.positive_definite
    assert covers(found.smallest, 1e-8)


def test_lanczos_is_honest_without_convergence(rng, monkeypatch):
    """Whatever vector Lanczos hands back, the bounds are proved by factorizations and norms."""
    module = importlib.import_module("wideproof.kernels.spectrum")

    def hopeless(operator, *, v0, **_):
        raise module.ArpackNoConvergence("no", np.empty(0), np.empty((len(v0), 0)))

    monkeypatch.setattr(module, "eigsh", hopeless)
    values = np.linspace(0.1, 3, 50)
    found = spectrum(with_spectrum(values, rng), method="lanczos")
    assert covers(found.smallest, 0.1)
    assert covers(found.largest, 3.0)
    assert not found.decided


@pytest.mark.parametrize("method", ["dense", "lanczos"])
def test_float32_cannot_resolve_what_float64_can(rng, method):
    a = with_spectrum(np.concatenate([[1e-7], np.linspace(1, 3, 49)]), rng)
    assert spectrum(a, method=method).positive_definite
    found = spectrum(a.astype(np.float32), method=method)
    assert not found.decided
    assert covers(found.smallest, 1e-7)
    assert 'precision="float64"' in found.verdict
    assert found.smallest.radius < 1e-4


def test_a_gram_value_brings_its_error():
    gram = Gram(np.diag([1.0, 2.0]), ("W1",), "finite", "float64", "cpu", error=0.25)
    found = spectrum(gram)
    assert 0.25 <= found.smallest.radius < 0.26
    assert found.stable_step == pytest.approx(2 / 2.25)
    assert not spectrum(gram, error=1.5).decided
    assert spectrum(gram, error=0.0).smallest.radius < 1e-14
    low = Gram(np.diag([1e-6, 2.0]), ("W1",), "finite", "tf32", "gpu", error=1e-3)
    assert "tf32 cannot resolve it" in spectrum(low).verdict


@pytest.mark.parametrize("method", ["dense", "lanczos"])
def test_culprits_from_the_points(rng, method):
    x = rng.standard_normal((12, 20))
    x[7] = x[2]
    found = spectrum(x @ x.T, points=x.reshape(12, 4, 5), method=method)
    assert found.culprits == ((2, 7, "equal", 0.0),)
    assert found.verdict == "singular: examples 2 and 7 are equal, and so are their rows: remove one of them"
    x[7] = -3 * x[2]
    (worst, *_) = spectrum(x @ x.T, points=x, method=method).culprits
    assert worst[:3] == (2, 7, "antipodal")
    assert worst.distance < 1e-15
    x[7] = 0
    assert spectrum(x @ x.T, points=x).culprits[0] == (7, 7, "zero", 0.0)
    x = rng.standard_normal((12, 5))
    near = spectrum(x @ x.T, points=x).culprits
    assert {c.what for c in near} == {"nearest to parallel", "nearest to antipodal"}
    assert spectrum(np.eye(12), points=x).culprits == ()


@pytest.mark.parametrize("method", ["dense", "lanczos"])
@pytest.mark.parametrize(("sign", "what"), [(1, "alike"), (-1, "opposite")])
def test_culprits_from_the_matrix(rng, method, sign, what):
    x = rng.standard_normal((40, 60))
    x[31] = sign * x[5]
    (culprit,) = spectrum(x @ x.T, method=method).culprits
    assert culprit[:3] == (5, 31, what)
    assert culprit.distance < 1e-5


def test_several_outputs_share_their_points():
    x = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = spectrum(np.kron(x @ x.T, np.eye(2)), points=x)
    assert found.culprits[0] == (0, 1, "equal", 0.0)


def test_vectors(rng):
    a = with_spectrum(np.linspace(1, 2, 9), rng)
    assert spectrum(a).vectors is None
    found = spectrum(a, vectors=True)
    assert found.vectors is not None
    assert found.eigenvalues is not None
    np.testing.assert_allclose((found.vectors * found.eigenvalues) @ found.vectors.T, a, atol=1e-14)


def test_smallest_sizes():
    assert spectrum(np.array([[3.0]]), error=0.0).smallest == Enclosed(3.0, 0.0)
    assert spectrum(np.array([[3]]), method="lanczos").positive_definite
    zero = spectrum(np.zeros((5, 5)), method="lanczos")
    assert not zero.decided
    assert zero.stable_step == math.inf
    assert spectrum(np.zeros((1, 1))).verdict.startswith("undecided")
    assert spectrum(np.array([[-1.0]])).verdict.startswith("indefinite")


def test_asymmetry_within_rounding_enters_the_radius(rng):
    a = with_spectrum(np.linspace(1, 2, 30), rng)
    b = a.copy()
    b[3, 4] += 1e-9
    assert spectrum(b, error=0.0).smallest.radius >= spectrum(a, error=0.0).smallest.radius + 0.7e-9
    b = a.copy()
    b[3, 4] += 1e-3
    with pytest.raises(InputError, match=r"entries \((3, 4|4, 3)\) and \((4, 3|3, 4)\) differ by 0\.001"):
        spectrum(b)
    assert spectrum(b, error=1e-3).decided


def test_misuse():
    with pytest.raises(InputError, match="square matrix, got shape \\(2, 3\\)"):
        spectrum(np.ones((2, 3)))
    with pytest.raises(InputError, match="square matrix"):
        spectrum(np.ones(4))
    with pytest.raises(InputError, match="square matrix"):
        spectrum(np.ones((0, 0)))
    bad = np.eye(300)
    bad[270, 3] = bad[280, 1] = np.nan
    with pytest.raises(InputError, match=re.escape("entry (270, 3) of the Gram matrix is nan")):
        spectrum(bad)
    with pytest.raises(InputError, match="error bounds a norm"):
        spectrum(np.eye(2), error=-1.0)
    with pytest.raises(InputError, match="points are the inputs"):
        spectrum(np.eye(3), points=np.ones((2, 1)))
    with pytest.raises(InputError, match="method='dense'"):
        spectrum(np.eye(5), method="lanczos", vectors=True)


def test_the_matrix_is_left_alone(rng):
    a = with_spectrum(np.linspace(1, 2, 30), rng)
    before = a.copy()
    for method in ("dense", "lanczos"):
        spectrum(a, method=method)
        spectrum(np.asfortranarray(a), method=method)
    np.testing.assert_array_equal(a, before)


def test_words():
    assert str(Enclosed(3.2e-4, 1e-12)) == "3.2e-4 ± 1e-12"
    assert str(Enclosed(12.5, 0.0)) == "12.5 ± 0"
    assert (Enclosed(1.0, 2.0).low, Enclosed(1.0, 2.0).high, Enclosed(1.0, 2.0).decided) == (-1.0, 3.0, False)
    found = spectrum(np.eye(3))
    assert isinstance(found, Spectrum)
    assert str(found).startswith("positive definite: the smallest eigenvalue is 1 ±")
