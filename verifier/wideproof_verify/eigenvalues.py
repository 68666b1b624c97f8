r"""Bounds of eigenvalues in float64: a Cholesky factor is a witness that is not trusted, how far it is off is bounded.

$\pm g - \tau I = R R^\top + E$ shows that no eigenvalue of $\pm g$ is below $\tau - \|E\|$. Sums of k products, in any
order, are off by 2ku Σ|ab|, in all by 2Nu Σ_i |R_i|².
"""

import itertools
import math

import numpy as np

from wideproof_verify.double import TINY, U
from wideproof_verify.floats import FAINT, Floats, lengths, up
from wideproof_verify.refusals import check

BLOCK, FEW = 2048, 500  # rows of a block; rows whose eigenvalues are computed for the table and as guesses


class Symmetric:
    """Symmetric matrices within `off` (Frobenius norm) of `mid`, of which the lower triangle is factored."""

    def __init__(self, mid: np.ndarray, off: float):
        self.mid, self.off = mid, off

    @classmethod
    def of(cls, g: Floats) -> "Symmetric":
        """Return the matrices that entries with radii describe: the lower triangle, which stands twice."""
        g = g.plain()
        lower = np.tril(g.mid)
        return cls(lower + np.tril(lower, -1).T, 1.4143 * float(lengths(Floats(np.tril(g.rad)), None)))

    def __len__(self) -> int:
        return len(self.mid)

    def near(self) -> np.ndarray | None:
        """Return eigenvalues in float64, for guesses and the table, where there are few rows."""
        return np.linalg.eigvalsh(self.mid) if len(self) <= FEW and np.isfinite(self.mid).all() else None

    def size(self) -> float:
        """Return an upper bound of the Frobenius norm of `mid`."""
        return float(lengths(Floats(self.mid.reshape(-1), np.zeros(1)), None))

    def raised(self, outputs: int, level: float) -> "Symmetric":
        """Return the matrix with a number added to an example's own block; rows are (output, example)."""
        mid, n, changed = self.mid.copy(), len(self) // outputs, 0.0
        for o, p in np.ndindex(outputs, outputs):
            at = o * n + np.arange(n), p * n + np.arange(n)
            mid[at] += level
            changed += float(np.square(mid[at]).sum())
        return Symmetric(mid, (self.off + 2 * U * math.sqrt(changed)) * up(len(self) * outputs))

    def solution(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return v with g v near r, g v, and a bound of how far off that is."""
        v, lost = np.linalg.solve(self.mid, r), 2 * (len(self) + 16) * U * self.size() + self.off
        return v, self.mid @ v, lost * float(lengths(Floats(v), None)) * (1 + 1e-6) + len(self) * TINY

    def at_least(self, level: float, sign: int = 1) -> bool | None:
        """Return whether no eigenvalue of sign · g is below `level`: proved, refuted, or `None`."""
        weight = float(np.abs(sign * np.diagonal(self.mid) - level).sum())
        size = 2 * (len(self) + 16) * U * weight + 16 * U * self.size() + self.off
        delta = 3 * size
        rest = self.residual(level + delta, sign)
        if rest is not None and rest < delta * (1 - 1e-6):
            return True
        near = self.near()
        return False if near is not None and (sign * near).min() < level - size else None

    def largest(self) -> float:
        """Return an upper bound of the eigenvalues."""
        near = self.near()
        top = self._highest() if near is None else float(near[-1])
        for tau in (top * (1 + 1e-9), top * (1 + 1e-6), top * (1 + 1e-3)):
            rest = self.residual(-tau, -1)
            if rest is not None:
                return (tau + rest) * (1 + 4 * U)
        return (self.size() + self.off) * (1 + 4 * U)

    def _highest(self, most: int = 200) -> float:
        """Return a number near the largest eigenvalue (Lanczos)."""
        v, basis = np.random.default_rng(0).standard_normal(len(self)), np.zeros((len(self), most))
        for k in range(most):
            check()
            length = float(np.linalg.norm(v))
            for _ in range(2):
                v = v - basis @ (basis.T @ v)
            size = float(np.linalg.norm(v))
            if not size > 1e-10 * length:  # nothing new
                break
            basis[:, k] = v / size
            v = self.mid @ basis[:, k]
        found = basis.T @ (self.mid @ basis)
        return float(np.linalg.eigvalsh(found)[-1]) if np.isfinite(found).all() else math.nan

    def residual(self, shift: float, sign: int) -> float | None:
        """Bound ‖sign · g − shift − RRᵀ‖ for a Cholesky factor R, if there is one."""
        n, shifted = len(self), sign * self.mid
        shifted[np.diag_indices(n)] -= shift
        try:
            factor = np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            return None
        square, lost = 0.0, 2 * (n + 16) * U
        for rows, columns in itertools.product(range(0, n, BLOCK), repeat=2):
            if columns <= rows:
                check()
                end, stop = rows + BLOCK, columns + BLOCK  # a row of the factor ends at its diagonal
                gap = shifted[rows:end, columns:stop] - factor[rows:end, :stop] @ factor[columns:stop, :stop].T
                square += 2 * float(np.square(np.tril(gap) if rows == columns else gap).sum())
        many, weight = up(n * n), float(np.square(factor).sum())
        error = math.sqrt(square) * many + (lost + 4 * U) * weight * many + n * TINY + FAINT
        error += 4 * U * (self.size() + math.sqrt(n) * abs(shift)) + self.off
        return error * (1 + 1e-6) if math.isfinite(error) else None
