r"""Residuals of any kind, in groups: a differential equation, its boundary conditions, measurements.

The objective over groups $g$ with residuals $r_g$ and weights $w_g$ is

$$ L(\theta) = \sum_g \frac{w_g}{2} \sum_i r_{g,i}(\theta)^2 = \tfrac12 \|W^{1/2} r\|^2, \qquad
   W = \mathrm{diag}(w_g) . $$

With $G = JJ^\top$ of all residuals and linearized residuals, gradient descent with step size $\eta$ takes
$e = W^{1/2} r$ to $(I - \eta W^{1/2} G W^{1/2}) e$ in every step: the course that `predict` follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from wideproof.errors import InputError
from wideproof.kernels.callables import as_side
from wideproof.kernels.dynamics import Prediction, predict
from wideproof.kernels.functions import gram
from wideproof.kernels.gram_result import Gram
from wideproof.kernels.groups import named, require_same_names
from wideproof.kernels.tiles import examples
from wideproof.precision import double


@dataclass(frozen=True, eq=False)
class Residuals:
    r"""Residuals in groups: a function of parameters and a point for each group, its points, its weight.

    Values, derivatives with respect to the point (`jax.grad`, `jax.jvp`) and whatever else JAX can differentiate may
    stand in a residual. Data, such as measured values, are part of a point: points may be pytrees of arrays.

    Attributes
    ----------
    functions
        For each group a function of the parameters and one point; it returns a number or an array.
    points
        For each group its points, along the first axis.
    weights
        $w_g$ for each group; by default one over its number of residuals, so that the objective is half the sum of the
        groups' mean squares.
    batched
        Whether functions take all points of a group at once.

    Examples
    --------
    $u'' = -1$ on $[0, 1]$ with $u = 0$ at the ends, by a network of ten units:

    >>> import jax
    >>> import jax.numpy as jnp
    >>> rng = np.random.default_rng(0)
    >>> params = {"w": rng.normal(size=(2, 10)), "a": rng.normal(size=10) / 10**0.5}
    >>> def u(p, x):
    ...     return jnp.tanh(3 * x * p["w"][0] + p["w"][1]) @ p["a"]
    >>> poisson = Residuals(
    ...     {"equation": lambda p, x: jax.grad(jax.grad(u, 1), 1)(p, x) + 1, "ends": u},
    ...     {"equation": np.linspace(0, 1, 7), "ends": np.array([0.0, 1.0])},
    ... )
    >>> found = poisson.gram(params)
    >>> print(found)
    Gram matrix of 9 rows (equation 7, ends 2), sum over a, w: float64 on cpu, off by at most 2.5e-12 in norm
    >>> found.mean_eigenvalues["equation"] > 10 * found.mean_eigenvalues["ends"]
    True
    >>> even = poisson.balanced(params)  # the equation's block has the same trace as the block of the ends
    >>> even.weights["ends"] > 10 * even.weights["equation"]
    True
    """

    functions: Mapping[str, Callable[..., Array]]
    points: Mapping[str, PyTree]
    weights: Mapping[str, float] | None = None
    batched: bool = False

    def __post_init__(self) -> None:
        require_same_names(self.functions, self.points)
        if self.weights is not None:
            if set(self.weights) != set(self.functions):
                raise InputError(
                    f"every group has a weight: the groups are {', '.join(self.functions)}, weights are given for "
                    f"{', '.join(self.weights) or 'none'}"
                )
            for name, weight in self.weights.items():
                if not (math.isfinite(weight) and weight >= 0):
                    raise InputError(f"the weight of group '{name}' must be a number >= 0, got {weight}")

    @double
    def placed(self) -> dict[str, PyTree[Array]]:
        """Return the points of every group as JAX arrays, checked.

        Returns
        -------
        dict[str, PyTree]
            The points.
        """
        found = {}
        for name in self.functions:
            with named(name):
                found[name] = as_side(self.points[name], np.dtype("float64"))
        return found

    def traced(self, params: PyTree, points: Mapping[str, PyTree[Array]]) -> dict[str, Array]:
        """Return the residuals of every group in a row, by operations that JAX can trace.

        Parameters
        ----------
        params
            The parameters.
        points
            What `placed` returns.

        Returns
        -------
        dict[str, Array]
            One row of numbers for each group, ordered by point first.
        """
        found = {}
        for name, function in self.functions.items():
            if self.batched:
                values = function(params, points[name])
            else:
                values = jax.vmap(lambda point, function=function: function(params, point))(points[name])
            if values.shape[:1] != (examples(points[name]),):
                raise InputError(
                    f"group '{name}': {examples(points[name])} points give residuals of shape {values.shape}: return "
                    "one number, or one array, for each point"
                )
            found[name] = values.ravel()
        return found

    @double
    def values(self, params: PyTree) -> dict[str, np.ndarray]:
        """Return the residuals of every group in a row.

        Parameters
        ----------
        params
            The parameters.

        Returns
        -------
        dict[str, array]
            One row of numbers for each group, ordered by point first.
        """
        state = jax.tree.map(jnp.asarray, params)
        return {name: np.asarray(row) for name, row in self.traced(state, self.placed()).items()}

    def losses(self, params: PyTree) -> dict[str, float]:
        r"""Return the part of every group in the objective, $\tfrac{w_g}{2} \|r_g\|^2$.

        Parameters
        ----------
        params
            The parameters.

        Returns
        -------
        dict[str, float]
            The parts; their sum is the objective.
        """
        rows = self.values(params)
        weights = self.weights_of({name: len(row) for name, row in rows.items()})
        return {name: float(weights[name] / 2 * (row @ row)) for name, row in rows.items()}

    def weights_of(self, rows: Mapping[str, int]) -> dict[str, float]:
        """Return the weight of every group, given its number of residuals.

        Parameters
        ----------
        rows
            The number of residuals of each group.

        Returns
        -------
        dict[str, float]
            The given weights, or one over the number of residuals.
        """
        return {name: 1 / rows[name] if self.weights is None else float(self.weights[name]) for name in self.functions}

    def gram(self, params: PyTree, **options: Any) -> Gram:
        """Return the Gram matrix of all residuals, in groups and without their weights.

        Parameters
        ----------
        params
            The parameters.
        options
            Options of `gram`: `names`, `by_weight`, `precision`, `memory`.

        Returns
        -------
        Gram
            The matrix; `groups` are the rows of each group, `between` gives the block of two groups.
        """
        return gram(self.functions, params, self.points, batched=self.batched, **options)

    def balanced(self, params: PyTree, by: str = "trace", *, of: Gram | None = None) -> Residuals:
        r"""Return the same residuals with weights that balance the groups at these parameters.

        Wang, Yu and Perdikaris (*When and why PINNs fail to train*, 2022) multiply each part of the loss by the trace
        of the whole kernel matrix over the trace of the part's own block, so that no part learns much faster than
        another. With equally many residuals in every group both rules here give their weights, up to one factor.
        The factor is chosen such that the trace of the weighted matrix stays what it was.

        Parameters
        ----------
        params
            The parameters, usually the initial ones.
        by
            `"trace"`: equal traces of the weighted blocks, $w_g \propto 1 / \mathrm{tr}\, G_{gg}$. `"mean"`: equal mean
            eigenvalues, $w_g \propto n_g / \mathrm{tr}\, G_{gg}$ with $n_g$ residuals.
        of
            The Gram matrix at these parameters, if it is known.

        Returns
        -------
        Residuals
            With `weights`.
        """
        if by not in ("trace", "mean"):
            raise InputError(f"groups are balanced by 'trace' or by 'mean' eigenvalue, got {by!r}")
        found = self.gram(params) if of is None else of
        rows = _counts(found)
        still = [name for name, trace in found.traces.items() if not trace > 0]
        if still:
            raise InputError(f"no parameter moves the residuals of group '{still[0]}', so no weight balances it")
        now = self.weights_of(rows)
        total = sum(now[name] * trace for name, trace in found.traces.items())
        shares = {name: 1 if by == "trace" else count for name, count in rows.items()}
        whole = sum(shares.values())
        weights = {name: total * shares[name] / whole / trace for name, trace in found.traces.items()}
        return replace(self, weights=weights)

    def predict(self, params: PyTree, step_size: float | None = None, *, of: Gram | None = None) -> ResidualCourse:
        r"""Predict gradient descent on the objective, with the residuals linearized at these parameters.

        Parameters
        ----------
        params
            The parameters at the start.
        step_size
            Step size (learning rate) $\eta$; by default $1 / \lambda_{\max}(W^{1/2} G W^{1/2})$.
        of
            The Gram matrix at these parameters, if it is known.

        Returns
        -------
        ResidualCourse
            The predicted losses, of all and of each group, and numbers of steps.

        Examples
        --------
        >>> functions = {"a": lambda w, x: w[0] * x - 1, "b": lambda w, x: w[1] - x}
        >>> two = Residuals(functions, {"a": np.array([1.0]), "b": np.array([2.0])})
        >>> course = two.predict([0.0, 0.0], step_size=0.5)
        >>> float(course.loss(0)), {name: float(part) for name, part in course.losses(1).items()}
        (2.5, {'a': 0.125, 'b': 0.5})
        """
        found = self.gram(params) if of is None else of
        rows = self.values(params)
        weights = self.weights_of(_counts(found))
        roots = np.concatenate([np.full(len(row), math.sqrt(weights[name])) for name, row in rows.items()])
        matrix = np.asarray(found.matrix, np.float64) * roots[:, None] * roots
        heaviest = max(weights.values())
        off = heaviest * found.error + 4 * 2.0**-53 * float(np.trace(matrix))
        weighted = replace(found, matrix=matrix, error=off, blocks={})
        start = roots * np.concatenate(list(rows.values()))
        if step_size is None:
            top = float(np.linalg.eigvalsh(matrix)[-1])
            if not top > 0:
                raise InputError("no parameter moves any residual with a weight: there is nothing to predict")
            step_size = 1 / top
        return ResidualCourse(predict(weighted, np.zeros(len(start)), start, step_size), dict(found.groups), weights)


@dataclass(frozen=True, eq=False)
class ResidualCourse:
    r"""Gradient descent on residuals in groups, predicted with a fixed Gram matrix.

    Attributes
    ----------
    prediction
        The course of the weighted residuals $W^{1/2} r$, with targets 0.
    groups
        The rows of every group.
    weights
        The weight $w_g$ of every group.
    """

    prediction: Prediction
    groups: Mapping[str, slice] = field(repr=False)
    weights: Mapping[str, float]

    @property
    def step_size(self) -> float:
        """The step size (learning rate)."""
        return self.prediction.step_size

    def loss(self, k: ArrayLike) -> np.ndarray:
        """Return the predicted objective.

        Parameters
        ----------
        k
            Number of steps.

        Returns
        -------
        array
            The objective, in the shape of `k`.
        """
        return self.prediction.loss(k)

    def losses(self, k: ArrayLike) -> dict[str, np.ndarray]:
        """Return the predicted part of every group in the objective.

        Parameters
        ----------
        k
            Number of steps.

        Returns
        -------
        dict[str, array]
            The parts, in the shape of `k`; their sum is `loss`.
        """
        squares = np.square(self.prediction.residual(k))
        return {name: np.asarray(squares[..., rows].sum(axis=-1) / 2) for name, rows in self.groups.items()}

    def steps_to(self, target_loss: float) -> int | None:
        """Return the least number of steps after which the predicted objective is at most `target_loss`.

        Parameters
        ----------
        target_loss
            The objective to reach.

        Returns
        -------
        int | None
            The number of steps, or `None` if there is none.
        """
        return self.prediction.steps_to(target_loss)


def _counts(found: Gram) -> dict[str, int]:
    return {name: rows.stop - rows.start for name, rows in found.groups.items()}
