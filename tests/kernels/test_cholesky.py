"""Blocked Cholesky factors: the same as LAPACK's, refused where there is none, and what they prove is true."""

import numpy as np
import pytest

from wideproof.kernels.cholesky import BLOCK, backward_error, factor


def _definite(n: int, smallest: float, seed: int = 0) -> np.ndarray:
    q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    return (q * np.geomspace(smallest, 1.0, n)) @ q.T


@pytest.mark.parametrize("n", [1, 7, BLOCK, BLOCK + 1, 2 * BLOCK + 88])
def test_the_factor_is_that_of_lapack(n):
    a = _definite(n, 1e-3)
    a = (a + a.T) / 2
    expected = np.linalg.cholesky(a)
    buffer = np.array(a, order="F")
    assert factor(buffer)
    error = np.abs(a - np.tril(buffer) @ np.tril(buffer).T).max()
    assert error <= 2 * backward_error(n) * np.trace(a)
    np.testing.assert_allclose(np.tril(buffer), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("where", [0, BLOCK - 1, BLOCK, BLOCK + 40])
def test_an_indefinite_matrix_is_refused_wherever_it_shows(where):
    a = np.eye(BLOCK + 41, order="F")
    a[where, where] = -1e-12
    assert not factor(a)


def test_what_cannot_be_compared_is_refused():
    a = np.eye(3, order="F")
    a[1, 1] = np.nan
    assert not factor(a)


def test_a_factor_never_hides_more_than_its_bound():
    # Slightly indefinite: whenever the factorization runs to its end, the true eigenvalue is above the bound.
    for seed in range(20):
        a = _definite(30, 1e-16, seed)
        a = (a + a.T) / 2 - np.geomspace(1e-18, 1e-14, 20)[seed] * np.eye(30)
        if factor(np.array(a, order="F")):
            assert np.linalg.eigvalsh(a)[0] >= -backward_error(30) * np.trace(a) - 30 * 2.0**-52
