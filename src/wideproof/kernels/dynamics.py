r"""The course of gradient descent that a fixed Gram matrix predicts, step by step and in closed form.

For the objective $\tfrac s2 \|y - u\|^2$ (Du et al. 2019, Section 4, with $s = 1$; the mean has $s = 1/n$) a step of
size $\eta$ takes the residual $e = y - u$ to

$$ e(k+1) = (I - \eta s G)\, e(k), \qquad e(k) = \sum_i (1 - \eta s \lambda_i)^k \langle v_i, e(0) \rangle v_i . $$

The network's own Gram matrix moves while it learns; how far a run departs from this course is how far it moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jax.typing import ArrayLike

from wideproof.errors import InputError
from wideproof.kernels.gram_result import Gram
from wideproof.kernels.spectrum import Spectrum, dense_error, spectrum

_FOREVER = 2**62  # steps
ROUNDING = 1e-20  # of the first loss: below, the rounding of a run's outputs is seen in its losses


@dataclass(frozen=True, eq=False)
class Prediction:
    r"""Gradient descent on $\tfrac s2 \|y - u\|^2$ with a fixed Gram matrix.

    Methods take a number of steps `k`: one number, an array of them, or infinity. The axes of an array come first in
    the result.

    Attributes
    ----------
    targets
        $y$, in the shape in which it was given; outputs have the same shape.
    step_size
        The step size (learning rate) $\eta$.
    scale
        The factor $s$ of the objective.
    eigenvalues
        $\lambda_i$ in ascending order. Eigenvalues that the solver cannot tell from zero are set to zero, and their
        components never move.
    vectors
        The eigenvectors $v_i$, in columns.
    components
        $\langle v_i, e(0) \rangle$: one column for each output if all outputs share one matrix.

    Examples
    --------
    >>> course = predict(np.diag([1.0, 0.1]), targets=np.array([1.0, 1.0]), start=0.0, step_size=1.0)
    >>> course.loss(np.array([0, 1, 10])).round(4).tolist()
    [1.0, 0.405, 0.0608]
    >>> course.steps_to(1e-6), course.stable_step
    (63, 2.0)
    """

    targets: np.ndarray
    step_size: float
    scale: float
    eigenvalues: np.ndarray = field(repr=False)
    vectors: np.ndarray = field(repr=False)
    components: np.ndarray = field(repr=False)

    @property
    def rates(self) -> np.ndarray:
        r"""$1 - \eta s \lambda_i$: what one step multiplies each component by."""
        return 1 - self.step_size * self.scale * self.eigenvalues

    @property
    def stable_step(self) -> float:
        r"""$2 / (s \lambda_{\max})$: the step size below which the course converges."""
        top = self.scale * float(self.eigenvalues[-1])
        return 2 / top if top > 0 else math.inf

    @property
    def converges(self) -> bool:
        """Whether every direction that moves dies out."""
        return 0 < self.step_size < self.stable_step

    @property
    def half_lives(self) -> np.ndarray:
        """Steps in which each component halves; infinite where it does not shrink."""
        logs = self._logs
        with np.errstate(divide="ignore"):
            return np.where(logs < 0, math.log(2) / np.where(logs < 0, -logs, 1), math.inf)

    @property
    def limit_loss(self) -> float:
        """The loss after infinitely many steps: what lies in directions that never move, or infinity."""
        return float(self.loss(math.inf))

    @property
    def advice(self) -> str:
        """What to know before running it, in one sentence; empty if nothing."""
        if self.step_size >= self.stable_step:
            size, most = f"{self.step_size:.3g}", f"{self.stable_step:.3g}"
            return f"step size {size} is not below {most}, so this diverges: use half of that"
        if self.limit_loss > ROUNDING * float(self.loss(0)):
            return (
                f"the loss cannot fall below {self.limit_loss:.3g}: part of the residual lies where the Gram matrix is "
                "zero; look for equal inputs with different targets"
            )
        return ""

    def residual(self, k: ArrayLike) -> np.ndarray:
        """Return the residual $e(k) = y - u(k)$.

        Parameters
        ----------
        k
            Number of steps.

        Returns
        -------
        array
            $e(k)$; not finite where it has overflowed.
        """
        k = _as_steps(k)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = self._powers(k)[..., None] * self._columns
            return (self.vectors @ moved).reshape(k.shape + self.targets.shape)

    def outputs(self, k: ArrayLike) -> np.ndarray:
        """Return $u(k) = y - e(k)$.

        Parameters
        ----------
        k
            Number of steps.

        Returns
        -------
        array
            $u(k)$, in the shape of the targets.
        """
        return self.targets - self.residual(k)

    def loss(self, k: ArrayLike) -> np.ndarray:
        r"""Return $\tfrac s2 \sum_i (1 - \eta s \lambda_i)^{2k} \langle v_i, e(0) \rangle^2$.

        Parameters
        ----------
        k
            Number of steps.

        Returns
        -------
        array
            The loss, in the shape of `k`.
        """
        k = _as_steps(k)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.exp(2 * _times(k, self._logs))
            parts = np.where(self._squares > 0, squares * self._squares, 0.0)
        return np.asarray(self.scale / 2 * parts.sum(axis=-1))

    def steps_to(self, target_loss: float) -> int | None:
        r"""Return the least $k$ whose loss is at most `target_loss`, or `None` if there is none; `advice` says why.

        The loss is a sum of exponentials $c_i^2 \rho_i^{2k}$, so it is convex in $k$: it falls as long as no
        component grows, and else falls up to one lowest point and rises from there on. Bisection is therefore exact.

        Parameters
        ----------
        target_loss
            The loss to reach.

        Returns
        -------
        int | None
            The number of steps, or `None`.
        """
        last = self._lowest()
        if not self.loss(last) <= target_loss:
            return None
        return _first(lambda k: bool(self.loss(k) <= target_loss), last)

    def outputs_at(self, cross: ArrayLike, start: ArrayLike, k: ArrayLike = math.inf) -> np.ndarray:
        r"""Return the outputs at other points during training.

        $$ u_*(k) = u_*(0) + K_* \sum_i \frac{1 - (1 - \eta s \lambda_i)^k}{\lambda_i}
           \langle v_i, e(0) \rangle v_i $$

        For $k = \infty$ (the default) this is kernel regression with the pseudo-inverse; for finite $k$ it is
        regression stopped early. The quotient is $\eta s k$ where $\lambda_i = 0$.

        Parameters
        ----------
        cross
            $K_*$: one row for each other output, one column for each row of the Gram matrix.
        start
            $u_*(0)$: the outputs at the other points before the first step.
        k
            Number of steps; infinity by default.

        Returns
        -------
        array
            $u_*(k)$.

        Examples
        --------
        >>> course = predict(np.eye(1), targets=np.array([2.0]), start=0.0, step_size=0.5)
        >>> course.outputs_at(np.array([[0.5]]), np.array([0.0]), np.array([0, 1, math.inf])).ravel().tolist()
        [0.0, 0.5, 1.0]
        """
        k, cross, first = _as_steps(k), np.asarray(cross, np.float64), np.asarray(start, np.float64)
        columns = self._columns
        if cross.ndim != 2 or cross.shape[1] != len(columns) or first.size != len(cross) * columns.shape[1]:
            raise InputError(
                f"outputs elsewhere need a matrix of {len(columns)} columns and a start for every row and output, got "
                f"shapes {cross.shape} and {first.shape}: give the Gram matrix between the other points and these"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            moved = self._travelled(k)[..., None] * columns
            return first + ((cross @ self.vectors) @ moved).reshape(k.shape + first.shape)

    @property
    def _columns(self) -> np.ndarray:
        return self.components.reshape(len(self.eigenvalues), -1)

    @property
    def _squares(self) -> np.ndarray:
        return np.square(self._columns).sum(axis=1)

    @property
    def _logs(self) -> np.ndarray:
        """log|1 - x|, to full precision near x = 0 and x = 2."""
        x = self.step_size * self.scale * self.eigenvalues
        with np.errstate(divide="ignore"):
            return np.where(x < 1, np.log1p(-np.minimum(x, 1)), np.log1p(np.maximum(x, 1) - 2))

    def _powers(self, k: np.ndarray) -> np.ndarray:
        """(1 - x)^k; undefined for x = 2 and infinitely many steps."""
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.exp(_times(k, self._logs))
            return np.where(self._odd(k), -size, size)

    def _travelled(self, k: np.ndarray) -> np.ndarray:
        """(1 - (1 - x)^k) / λ; where λ is 0, the limit for finite k and 0 for infinite k."""
        with np.errstate(over="ignore", invalid="ignore"):
            exponent = _times(k, self._logs)
            way = np.where(self._odd(k), 1 + np.exp(exponent), -np.expm1(exponent))
            still = np.where(np.isinf(k), 0.0, self.step_size * self.scale * k)[..., None]
            moving = self.eigenvalues > 0
            return np.where(moving, way / np.where(moving, self.eigenvalues, 1), still)

    def _odd(self, k: np.ndarray) -> np.ndarray:
        return (self.rates < 0) & (np.where(np.isinf(k), 0, k) % 2 == 1)[..., None]

    def _lowest(self) -> int:
        """The step at which the loss is lowest, as far as steps go."""
        there = self._squares > 0
        logs, squares = self._logs[there], self._squares[there]
        if not (logs > 0).any():
            return _FOREVER
        kept = np.isfinite(logs)

        def rises(k: int) -> bool:
            """Whether step k + 1 has no less loss than step k: each part changes by c² ρ^2k (ρ² - 1)."""
            if k == 0 and not kept.all():
                return bool(self.loss(1) >= self.loss(0))
            exponents = 2 * k * logs[kept]
            return bool((squares[kept] * np.exp(exponents - exponents.max()) * np.expm1(2 * logs[kept])).sum() >= 0)

        return _first(rises, _FOREVER)


def predict(
    gram: ArrayLike | Gram,
    targets: ArrayLike,
    start: ArrayLike,
    step_size: float,
    *,
    scale: float = 1.0,
    eigen: Spectrum | None = None,
) -> Prediction:
    r"""Predict the course of gradient descent with a fixed Gram matrix.

    Parameters
    ----------
    gram
        An $N \times N$ matrix. If the targets have N rows, every output coordinate has this matrix. If there are N
        targets in all (such as $n \times k$ with $N = nk$), it is the matrix of all outputs, in the order of the
        targets.
    targets
        $y$: N rows, or N numbers in any shape.
    start
        The outputs $u(0)$ before the first step, in the shape of the targets, or one number for all.
    step_size
        Step size (learning rate) $\eta$ for the objective that `scale` describes.
    scale
        $s$ in $\tfrac s2 \|y - u\|^2$: 1 for the half sum, $1/n$ for the mean over n examples.
    eigen
        `spectrum(gram, vectors=True)`, if it is known: one decomposition serves several predictions.

    Returns
    -------
    Prediction
        The course: losses, outputs and numbers of steps.

    Examples
    --------
    >>> predict(np.eye(2), np.ones(2), 0.0, step_size=3.0).advice
    'step size 3 is not below 2, so this diverges: use half of that'
    """
    y, e, step_size, scale = _as_problem(gram, targets, start, step_size, scale)
    eigen = spectrum(gram, method="dense", vectors=True) if eigen is None else eigen
    if eigen.vectors is None or eigen.eigenvalues is None or len(eigen.vectors) != len(e):
        raise InputError(f"eigen needs all {len(e)} eigenvectors of this matrix: give spectrum(gram, vectors=True)")
    if eigen.decided and not eigen.positive_definite:
        raise InputError(f"gradient descent follows a Gram matrix, and this one is {eigen.verdict}")
    values = eigen.eigenvalues
    values = np.where(values > dense_error(len(values), max(float(values[-1]), 0.0)), values, 0.0)
    components = eigen.vectors.T @ e
    if e.shape[1] == 1:
        components = components[:, 0]
    return Prediction(y, step_size, scale, values, eigen.vectors, components)


def _as_problem(
    gram: ArrayLike | Gram, targets: ArrayLike, start: ArrayLike, step_size: float, scale: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Check shapes and numbers; return the targets, and e(0) with a column per output that shares the matrix."""
    y, u = np.asarray(targets, np.float64), np.asarray(start, np.float64)
    rows = gram.shape[0] if isinstance(gram, Gram) else len(np.atleast_1d(np.asarray(gram)))
    if y.ndim == 0 or rows not in (len(y), y.size):
        raise InputError(
            f"a Gram matrix of {rows} rows predicts {rows} examples or {rows} outputs in all, got targets of shape "
            f"{y.shape}: give the targets of the examples that the matrix was computed from"
        )
    if u.shape not in ((), y.shape):
        raise InputError(f"start holds the outputs at step 0 in the targets' shape {y.shape}, got shape {u.shape}")
    if not (np.isfinite(y).all() and np.isfinite(u).all()):
        raise InputError("targets and start are finite numbers: look for NaN in them")
    for name, value in (("step_size", step_size), ("scale", scale)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} must be a number > 0, got {value}")
    return y, (y - u).reshape(rows, -1), float(step_size), float(scale)


def _as_steps(k: ArrayLike) -> np.ndarray:
    steps = np.asarray(k, np.float64)
    if not ((steps >= 0) & (np.isinf(steps) | (steps == np.floor(steps)))).all():
        raise InputError(f"k must be a number of steps 0, 1, 2, ... or infinity, got {k}")
    return steps


def _times(k: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """The exponents k·log, with 0·inf = 0."""
    k = k[..., None]
    with np.errstate(invalid="ignore"):
        return np.where((k == 0) | (logs == 0), 0.0, k * logs)


def _first(holds: Callable[[int], bool], last: int) -> int:
    """The least k in 0..last at which a condition holds that holds from there on; `last` if it holds nowhere before."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
