r"""Cholesky factors of large matrices, and what a factorization that ran to its end proves.

$|A - \hat R^\top \hat R| \le \gamma_{n+1} |\hat R|^\top |\hat R|$ entrywise, in whatever order the sums are taken
(Higham, Accuracy and Stability of Numerical Algorithms, Theorem 10.3). The diagonal of this bounds the columns of
$\hat R$, so that $\|A - \hat R^\top \hat R\|_2 \le \gamma / (1 - \gamma) \cdot \operatorname{tr} A$; and
$\hat R^\top \hat R$ being positive semidefinite, $\lambda_{\min}(A)$ is at least minus that (Rump, BIT 46, 2006).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

UNIT = 2.0**-53
# LAPACK's own routine was seen to crash in OpenBLAS at n = 20,000: it is given blocks.
BLOCK = 512


def factor(a: np.ndarray) -> bool:
    """Replace the lower triangle of a symmetric matrix by its Cholesky factor, or return False if it has none.

    Works in place, by columns of blocks: Fortran order is fastest. The upper triangle is left as it was, except in
    the blocks on the diagonal.

    >>> a = np.array([[4.0, 2.0], [2.0, 5.0]], order="F")
    >>> factor(a), np.tril(a).tolist()
    (True, [[2.0, 0.0], [1.0, 2.0]])
    >>> factor(np.array([[1.0, 2.0], [2.0, 1.0]]))
    False
    """
    n = len(a)
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        if start:
            a[start:, start:end] -= a[start:, :start] @ a[start:end, :start].T
        try:
            corner = scipy.linalg.cholesky(a[start:end, start:end], lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            return False
        if not np.isfinite(corner).all():  # LAPACK takes NaN for a positive number
            return False
        a[start:end, start:end] = corner
        if end < n:
            below = scipy.linalg.solve_triangular(corner, a[end:, start:end].T, lower=True, check_finite=False)
            a[end:, start:end] = below.T
    return True


def backward_error(n: int) -> float:
    r"""Return $\gamma_{n+2} / (1 - \gamma_{n+2})$, rounded up: the share of the trace that a factorization can hide.

    One more than the theorem's $n + 1$ covers libraries that multiply by rounded reciprocals.

    >>> backward_error(1) < 4e-16
    True
    """
    gamma = (n + 2) * UNIT / (1 - (n + 2) * UNIT)
    return gamma / (1 - gamma) * (1 + 8 * UNIT)
