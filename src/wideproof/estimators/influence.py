r"""How far a prediction moves if a training row is removed: in closed form, with every rounding error bounded.

With $A = W^{1/2} K W^{1/2} + r I$ and $C = A^{-1}$, the prediction at $x$ is $\mu + b^\top \alpha$ with
$\alpha = C W^{1/2} y$ and $b = W^{1/2} k(X, x)$. Without row $i$ it is another by

$$ \delta_i (1 - b^\top \omega) - \frac{(b^\top C)_i}{C_{ii}} (\alpha_i - \delta_i \omega_i), \qquad
   \omega = C W^{1/2} 1, $$

where $\delta_i$ is the change of the mean $\mu$ (0 without an intercept). The ridge and the preparation stay.

The bound is about the kernel, the targets, the weights and the ridge as the float64 numbers that they are. For a
computed inverse $\hat C$ let $R = I - A \hat C$ and $\|R\| \le \varrho < 1$. A row $g^\top = v^\top C$ is
$v^\top \hat C + g^\top R$, so $|g_j - (v^\top \hat C)_j| \le \|R_j\| \|v^\top \hat C\| / (1 - \varrho)$: three
such rows give $b^\top C$, $\alpha$ and $\omega$, and unit vectors give $C_{ii}$. A computed product of $n$ terms is off
by at most $\gamma_n = n u / (1 - n u)$ times the sum of the absolute terms, $u = 2^{-53}$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float

from wideproof.cards import card
from wideproof.errors import InputError

UNIT = 2.0**-53
TINY = 1e-300  # above what underflow loses in a sum
Array = Float[np.ndarray, "..."]


class Enclosed(NamedTuple):
    """Numbers as they were computed, and how far they may be off."""

    mid: Array
    off: Array


@dataclass(frozen=True)
class Influence:
    """What removing each training row does to each prediction.

    Attributes
    ----------
    moves
        The change of the prediction in each row when the training row of each column is removed, as computed.
    bound
        How far the prediction moves at most: an upper bound of the exact change, rounding counted.
    """

    moves: Float[np.ndarray, "m n ..."]
    bound: Float[np.ndarray, "m n ..."]

    @property
    def largest(self) -> Float[np.ndarray, "n"]:
        """For each training row, the most that its removal moves any of these predictions."""
        return self.bound.reshape(*self.bound.shape[:2], -1).max(axis=(0, 2), initial=0.0)

    def __str__(self) -> str:
        most = self.largest
        first = int(np.argmax(most))
        return (
            f"Removing one of {len(most)} training rows moves these {len(self.bound)} predictions by at most "
            f"{most[first]:.3g} (row {first}), and half of the rows by at most {np.median(most):.3g}."
        )

    def _repr_html_(self) -> str:
        most = np.sort(self.largest)[::-1]
        rows = ", ".join(str(k) for k in np.argsort(-self.largest, kind="stable")[:5])
        facts = {"predictions": len(self.bound), "training rows": len(most), "moves at most": f"{most[0]:.3g}",
                 "the median row": f"{np.median(most):.3g}", "rows that move most": rows}  # fmt: skip
        return card("If a training row were removed", facts)


def gamma(n: int) -> float:
    """Return the factor of a computed sum of n products, with eight roundings more for how its terms were made."""
    return 1.01 * (n + 8) * UNIT


def influence(
    matrix: Float[np.ndarray, "n n"],
    cross: Float[np.ndarray, "m n"],
    y: Float[np.ndarray, "n c"],
    weight: Float[np.ndarray, "n"],
    ridge: float,
    centred: bool,
) -> Influence:
    """Return what removing each row does, from kernel matrices, the targets less their mean, and the ridge.

    >>> found = influence(np.eye(2), np.array([[1.0, 0.0]]), np.array([[1.0], [-1.0]]), np.ones(2), 1.0, False)
    >>> (found.moves[0, :, 0].round(9) + 0.0).tolist(), found.bound[0, :, 0].round(9).tolist()
    ([-0.5, 0.0], [0.5, 0.0])
    """
    n = len(matrix)
    root = np.sqrt(weight)
    a = root[:, None] * matrix * root
    np.einsum("ii->i", a)[:] += ridge
    b, targets = cross * root, root[:, None] * y
    inverse = _inverse(a)
    size = np.abs(inverse)
    residual = np.eye(n) - a @ inverse
    columns = np.sqrt(np.square(np.abs(residual) + gamma(n) * (np.abs(a) @ size) + TINY).sum(axis=0)) * (1 + gamma(n))
    rho = float(np.sqrt(np.square(columns).sum()) * (1 + gamma(n)))
    if not rho < 0.5:
        raise InputError(
            f"the kernel matrix plus ridge {ridge:.3g} is too near to a singular one for bounds in float64: use a "
            "larger ridge"
        )

    def times_inverse(rows: Array) -> Enclosed:
        found, rough = rows @ inverse, gamma(n) * (np.abs(rows) @ size) + TINY
        norms = np.sqrt(np.square(np.abs(found) + rough).sum(axis=1)) * (1 + gamma(n))
        return Enclosed(found, rough + np.outer(norms, columns) / (1 - rho) * (1 + gamma(n)))

    left, alpha, omega = times_inverse(b), times_inverse(targets.T), times_inverse(root[None, :])
    norms = np.sqrt(np.square(inverse).sum(axis=1)) * (1 + gamma(n))
    diagonal = Enclosed(inverse.diagonal(), norms * columns / (1 - rho) * (1 + gamma(n)))
    if not (diagonal.mid > 2 * diagonal.off).all():
        raise InputError(f"a diagonal entry of the inverse is not certain with ridge {ridge:.3g}: use a larger ridge")
    delta = _mean_changes(y, weight) if centred else Enclosed(np.zeros_like(y), np.zeros_like(y))
    constant = _total(left, root, n)
    share = _quotient(left, diagonal)
    inside = _difference(Enclosed(alpha.mid.T, alpha.off.T), _product(delta, _column(omega.mid[0], omega.off[0])))
    first = _product(Enclosed(delta.mid[None], delta.off[None]), _difference(_ones(constant), constant))
    second = _product(
        Enclosed(share.mid[:, :, None], share.off[:, :, None]), Enclosed(inside.mid[None], inside.off[None])
    )
    moves = _difference(first, second)
    return Influence(moves.mid, (np.abs(moves.mid) + moves.off) * (1 + 8 * UNIT))


def _inverse(a: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    try:
        factor = scipy.linalg.cho_factor(a, lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        raise InputError(
            "the kernel matrix plus the ridge is singular to working precision: use a larger ridge"
        ) from None
    return scipy.linalg.cho_solve(factor, np.eye(len(a)), check_finite=False)


def _mean_changes(y: Float[np.ndarray, "n c"], weight: Float[np.ndarray, "n"]) -> Enclosed:
    """Return the mean of the others less the mean of all, of targets of any mean."""
    if len(y) < 2:
        return Enclosed(-y, np.zeros_like(y))  # the mean of none is 0
    total, rest = weight.sum(), (weight.sum() - weight)[:, None]
    mean = weight @ y / total
    found = weight[:, None] * (mean - y) / rest
    size = weight[:, None] * (weight @ np.abs(y) / total + np.abs(y)) / rest
    return Enclosed(found, 4 * gamma(len(y)) * size * (1 + total / rest) + TINY)


def _total(left: Enclosed, root: Float[np.ndarray, "n"], n: int) -> Enclosed:
    rough = gamma(n) * (np.abs(left.mid) @ root) + left.off @ root * (1 + gamma(n)) + TINY
    return Enclosed((left.mid @ root)[:, None, None], rough[:, None, None])


def _column(mid: Array, off: Array) -> Enclosed:
    return Enclosed(mid[:, None], off[:, None])


def _ones(like: Enclosed) -> Enclosed:
    return Enclosed(np.ones_like(like.mid), np.zeros_like(like.off))


def _product(a: Enclosed, b: Enclosed) -> Enclosed:
    mid = a.mid * b.mid
    off = np.abs(a.mid) * b.off + np.abs(b.mid) * a.off + a.off * b.off
    return Enclosed(mid, off * (1 + 8 * UNIT) + UNIT * np.abs(mid) + TINY)


def _difference(a: Enclosed, b: Enclosed) -> Enclosed:
    mid = a.mid - b.mid
    return Enclosed(mid, (a.off + b.off) * (1 + 4 * UNIT) + UNIT * np.abs(mid) + TINY)


def _quotient(a: Enclosed, b: Enclosed) -> Enclosed:
    mid = a.mid / b.mid
    off = (a.off + np.abs(mid) * b.off) / (b.mid - b.off)
    return Enclosed(mid, off * (1 + 8 * UNIT) + 2 * UNIT * np.abs(mid) + TINY)
