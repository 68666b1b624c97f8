r"""Solve $(B + r I)\,\beta = y$ for kernel matrices: by Cholesky in place, by conjugate gradients, by Nyström.

The last two never hold $B$. Nyström's approximation $\hat B \preceq B$ is the preconditioner of the conjugate
gradients, and $\beta = (\hat B + r I)^{-1} y$ is the Nyström answer itself. Either way the residual
$\varrho = y - (B + r I) \beta$ is computed with the whole matrix in float64, tile by tile, and bounds the error: the
prediction $f(x) = \langle \phi(x), \Phi \beta \rangle$ is off by at most

$$ \|\phi(x)\| \, \|\Phi (B + r I)^{-1} \varrho\| \le \sqrt{k(x, x)} \,
   \min\Big(\frac{\|\varrho\|}{2 \sqrt r}, \sqrt{\varrho^\top (\hat B + r I)^{-1} \varrho}\Big), $$

since $\sqrt\lambda / (\lambda + r) \le 1 / (2 \sqrt r)$, and since
$(B + r I)^{-1} B (B + r I)^{-1} \preceq (B + r I)^{-1} \preceq (\hat B + r I)^{-1}$.

Steps may be taken with products in float32 (`rough`): they solve for a correction, whose residual is computed in
float64 again; where that does not halve the residual, float64 goes on alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy.linalg
from jaxtyping import Float

from wideproof.errors import InputError
from wideproof.kernels import cholesky

Product = Callable[[Float[np.ndarray, "n c"]], Float[np.ndarray, "n c"]]
# A correction in float32 is sought to this share of the residual it corrects.
ROUGH_GAIN = 1e-3
MOST_ROUGH = 20  # steps in float32 before float64 looks at what they have brought


@runtime_checkable
class Approximation(Protocol):
    """What approximates the matrix from below, and can be solved with."""

    def solve(self, ridge: float, y: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Return the solution with the approximation plus the ridge."""
        ...


class Solved(NamedTuple):
    """A solution, how many iterations it took, and the bound on predictions divided by the root of k(x, x)."""

    beta: Float[np.ndarray, "n c"]
    iterations: int
    error: float


def solve_cholesky(
    matrix: Float[np.ndarray, "n n"], ridge: float, y: Float[np.ndarray, "n c"]
) -> Float[np.ndarray, "n c"]:
    """Replace a symmetric `matrix` by the factor of `matrix + ridge I`, and return the solution for `y`."""
    np.einsum("ii->i", matrix)[:] += ridge
    faint = 4 * np.finfo(np.float64).eps * float(np.max(matrix.diagonal(), initial=0.0))  # what rounding leaves of 0
    if not cholesky.factor(matrix) or float(np.min(np.square(matrix.diagonal()), initial=np.inf)) <= faint:
        raise InputError(
            f"the kernel matrix plus ridge {ridge:.3g} is singular to working precision (inputs that nearly agree): "
            "use a larger ridge, or ridge='loo'"
        )
    half = scipy.linalg.solve_triangular(matrix, y, lower=True, check_finite=False)
    return scipy.linalg.solve_triangular(matrix, half, lower=True, trans=1, check_finite=False)


@dataclass(frozen=True)
class Iterate:
    """Where a solve stands after a step: enough to go on with the same bits.

    Attributes
    ----------
    beta, residual
        The solution so far and its residual in float64, as of the last refreshing.
    correction, inner, direction, size
        The correction that is being sought, its residual, the last direction, and the last $r^T z$ of each column.
    step, since
        Steps taken in all, and since the refreshing.
    rough
        Whether steps are taken in float32.
    """

    beta: Float[np.ndarray, "n c"]
    residual: Float[np.ndarray, "n c"]
    correction: Float[np.ndarray, "n c"]
    inner: Float[np.ndarray, "n c"]
    direction: Float[np.ndarray, "n c"]
    size: Float[np.ndarray, "c"]
    step: int = 0
    since: int = 0
    rough: bool = False

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}


@dataclass(frozen=True)
class ConjugateGradients:
    r"""Preconditioned conjugate gradients for $(B + r I) \beta = y$, every column of `y` on its own.

    Attributes
    ----------
    product, approximation, ridge
        $v \mapsto B v$ in float64, $\hat B$, and $r$.
    tolerance, most
        The residual to reach, relative to $\|y\|$, and the most steps.
    rough
        The same product in float32, where steps may use it.
    """

    product: Product
    approximation: Approximation
    ridge: float
    tolerance: float
    most: int
    rough: Product | None = None

    def begin(self, y: Float[np.ndarray, "n c"]) -> Iterate:
        """Return the Nyström answer and its residual."""
        beta = self.approximation.solve(self.ridge, y)
        return self._refreshed(y, beta, 0, self.rough is not None)

    def iterates(self, y: Float[np.ndarray, "n c"], start: Iterate | None = None) -> Iterator[Iterate]:
        """Yield where the solve stands after each step; the last one has a residual computed in float64."""
        here = self.begin(y) if start is None else start
        wanted = self.tolerance * np.linalg.norm(y, axis=0)
        yield here
        while True:
            done = here.step >= self.most
            if not here.since and (done or (np.linalg.norm(here.residual, axis=0) <= wanted).all()):
                return
            here = self._refresh(y, here) if done or self._enough(here, wanted) else self._step(here)
            yield here

    def solve(self, y: Float[np.ndarray, "n c"], start: Iterate | None = None) -> Iterate:
        """Return where `iterates` ends."""
        *_, last = self.iterates(y, start)
        return last

    def error(self, residual: Float[np.ndarray, "n c"]) -> float:
        r"""Return the bound on predictions divided by $\sqrt{k(x, x)}$, the largest of all columns."""
        plain = np.linalg.norm(residual, axis=0) / (2 * math.sqrt(self.ridge))
        inside = np.einsum("ij,ij->j", residual, self.approximation.solve(self.ridge, residual))
        return float(np.minimum(plain, np.sqrt(np.maximum(inside, 0))).max())

    def _enough(self, here: Iterate, wanted: Float[np.ndarray, "c"]) -> bool:
        goal = wanted
        if here.rough:
            if here.since >= MOST_ROUGH:
                return True
            goal = np.maximum(wanted / 2, ROUGH_GAIN * np.linalg.norm(here.residual, axis=0))
        return bool((np.linalg.norm(here.inner, axis=0) <= goal).all())

    def _step(self, here: Iterate) -> Iterate:
        better = self.approximation.solve(self.ridge, here.inner)
        current = np.einsum("ij,ij->j", here.inner, better)
        direction = better + here.direction * (current / here.size if here.since else 0.0)
        product = self.rough if here.rough and self.rough is not None else self.product
        image = product(direction) + self.ridge * direction
        curvature = np.einsum("ij,ij->j", direction, image)
        length = np.where(curvature > 0, current / np.where(curvature > 0, curvature, 1), 0.0)
        return Iterate(
            here.beta, here.residual, here.correction + length * direction, here.inner - length * image, direction,
            np.where(current > 0, current, 1.0), here.step + 1, here.since + 1, here.rough,
        )  # fmt: skip

    def _refresh(self, y: Float[np.ndarray, "n c"], here: Iterate) -> Iterate:
        """Add the correction and compute the residual anew: the recursion's own drifts."""
        found = self._refreshed(y, here.beta + here.correction, here.step, here.rough)
        before, after = (float(np.linalg.norm(r)) for r in (here.residual, found.residual))
        if not here.rough or after <= before / 2:
            return found
        return self._refreshed(y, here.beta if after > before else found.beta, here.step, False)

    def _refreshed(
        self, y: Float[np.ndarray, "n c"], beta: Float[np.ndarray, "n c"], step: int, rough: bool
    ) -> Iterate:
        residual = y - self.product(beta) - self.ridge * beta
        nothing = np.zeros_like(y)
        return Iterate(beta, residual, nothing, residual, nothing, np.ones(y.shape[1]), step, 0, rough)


def require_ridge(ridge: float) -> None:
    """Refuse a ridge of 0, with which neither the preconditioner nor the bound exists."""
    if not ridge > 0:
        raise InputError(f"conjugate gradients and Nyström need a ridge > 0, got {ridge}: take solver='cholesky'")
