r"""Step sizes: a number, the largest safe one, or the one a theorem asks for.

`"safe"` is the inverse of the largest curvature at the start:

* half sum of squares: $c / \lambda_{\max}(G(0))$,
* mean of a $\lambda$-smooth loss: $c\, n / (\lambda\, \lambda_{\max}(G(0)))$;
* with weights of the examples $D^{1/2} G(0) D^{1/2}$ stands for $G(0)$, $D$ their diagonal matrix;
* with coupled weight decay $\lambda$ it is added to the curvature: $c / (\lambda_{\max} + \lambda)$;
* $c$ for Gauss–Newton, whose whole step is 1;
* $c$ where $G(0) = 0$: the gradient is 0 as well (every unit is off), and no step moves anything.

`"paper"` is the scaling of the network's theorem:

* Du et al. 2019: $c \lambda_0 / (n^2 2^H)$ (fully-connected), $c \lambda_0 H^2 / n^2$ (residual), that over $p^2$ with
  $p$ pixels (convolutional), where $\lambda_0$ is the smallest eigenvalue of the last hidden layer's block at infinite
  width;
* Zou et al. 2018: $c\, \varphi / (n^3 L^9 m)$, with minibatches $c\, \varphi B^2 n^{2p-7} / (L^9 m)$;
* Allen-Zhu et al. 2018: $c\, \delta / (\rho^{44} m)$, $\rho = n L d \log m$, with minibatches $\rho^{42}$;
* Frei et al. 2019: $c \min(\gamma^4/m, \tau/\sqrt m, \tau^2\gamma^4/(K\sqrt{\log(n/\delta)}))$ for $K$ steps, with the
  radius $\tau = \gamma^{12} (\log m)^{-3/2}$ and $\delta = 0.05$.

Gradient descent on a quadratic is stable below twice the safe step. In the paper's rules $c$ is the constant
that the theorem leaves unstated (`constant`), $2^H$ stands for its $2^{O(H)}$ and $p^2$ for $\mathrm{poly}(p)$; with
$c = 1$ most of them are far too small to be of use, which is the point of comparing. `wideproof.theorem` has the steps
that the proofs ask for, with their constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from wideproof.data import AnyDataset, margin, pairs
from wideproof.errors import InputError
from wideproof.kernels import largest_eigenvalue, limit_gram
from wideproof.networks import Network
from wideproof.precision import double
from wideproof.training.losses import MarginLoss
from wideproof.training.recipe import Recipe

FAILURE = 0.05  # δ of Theorem 3.5 of Frei et al.


@double
def step_size_for(network: Network, params: Mapping[str, ArrayLike], data: AnyDataset, recipe: Recipe) -> float:
    """Return the step size of a recipe as a number.

    Parameters
    ----------
    network
        The network.
    params
        Initial weights by name.
    data
        The prepared data.
    recipe
        The settings; its `step_size` is a number or a rule.

    Returns
    -------
    float
        The step size.

    Examples
    --------
    >>> from wideproof.data import load, prepare
    >>> from wideproof.networks import FullyConnected
    >>> data = prepare(load("sphere:n=4,d=3,separation=0.5"), "unit")
    >>> network = FullyConnected(input_dim=3, width=64, depth=2)
    >>> round(step_size_for(network, network.init(0), data, Recipe(step_size=0.5)), 3)
    0.5
    """
    if not isinstance(recipe.step_size, str):
        return float(recipe.step_size)
    if recipe.optimizer == "gauss-newton":
        return float(recipe.constant)
    rule = {"safe": _safe, "paper": _paper}[recipe.step_size]
    found = recipe.constant * rule(network, params, data, recipe)
    if not (math.isfinite(found) and found > 0):
        raise InputError(
            f"the rule '{recipe.step_size}' gives no step size here (it came to {found}): give a number, such as 0.01"
        )
    return found


def _safe(network: Network, params: Mapping[str, ArrayLike], data: AnyDataset, recipe: Recipe) -> float:
    scored = network.scored(np.asarray(data.y))
    curvature = recipe.objective.curvature(data.n, single=scored[0].size == 1 or scored.shape[-1] == 1)
    weights = recipe.weights(data)
    per_row = None if weights is None else jnp.asarray(weights).reshape(-1, *[1] * (scored.ndim - 1))
    if curvature is None:
        bends = _local(network, params, data, recipe)
        steepest = largest_eigenvalue(network, params, data.x, weights=bends if per_row is None else per_row * bends)
    else:
        steepest = curvature * largest_eigenvalue(network, params, data.x, weights=per_row)
    steepest += recipe.decay
    return 1 / steepest if steepest > 0 else 1.0


def _local(network: Network, params: Mapping[str, ArrayLike], data: AnyDataset, recipe: Recipe) -> Array:
    """Return the second derivatives at the start, for losses without a global bound; 1/n where a kink hides them."""
    loss = recipe.objective.loss
    assert isinstance(loss, MarginLoss)
    margins = network.scored(np.asarray(network(params, data.x))) * network.scored(np.asarray(data.y))
    second = jax.grad(lambda z: jnp.sum(loss.derivative(z)))(margins)
    return jnp.where(second > 0, second, 1.0) / data.n


def _paper(network: Network, params: Mapping[str, ArrayLike], data: AnyDataset, recipe: Recipe) -> float:
    return _PAPERS[network.paper](network, params, data, recipe)


def _du(network: Network, params: Mapping[str, ArrayLike], data: AnyDataset, recipe: Recipe) -> float:
    """Theorems 5.1, 6.1, 7.1, with the smallest eigenvalue of the last hidden layer's block at infinite width."""
    depth: int = network.depth  # pyright: ignore[reportAttributeAccessIssue]
    lambda_0 = float(np.linalg.eigvalsh(limit_gram(network, data.x, names=[f"W{depth}"]))[0])
    pixels: int = getattr(network, "pixels", 1)
    scale = 0.5**depth if network.name == "fully-connected" else depth**2 / pixels**2
    return lambda_0 * scale / data.n**2 * _per_mean(recipe, data.n)


def _zou(network: Network, params: Mapping[str, ArrayLike], data: AnyDataset, recipe: Recipe) -> float:
    """Theorems 4.1 and 4.5 with the factor of the separation that their proofs use."""
    depth: int = network.depth  # pyright: ignore[reportAttributeAccessIssue]
    widths: tuple[int, ...] = network.widths  # pyright: ignore[reportAttributeAccessIssue]
    if max(widths) > 2 * min(widths):
        raise InputError(
            f"the paper's rule is for layers of which none is more than twice as wide as another (Assumption 3.6), got "
            f"{min(widths)} to {max(widths)}: use step_size='safe', or other widths"
        )
    phi = pairs(data.x, data.labels).opposite
    separation = 1.0 if phi is None else phi.distance
    if recipe.batch is None or recipe.batch >= data.n:
        return separation / (data.n**3 * depth**9 * min(widths))
    loss = recipe.objective.loss
    p = loss.p if isinstance(loss, MarginLoss) and loss.p is not None else 1.0
    return separation * recipe.batch**2 * data.n ** (2 * p - 7) / (depth**9 * min(widths))


def _allen_zhu(network: Network, params: Mapping[str, ArrayLike], data: AnyDataset, recipe: Recipe) -> float:
    """Theorems 1 and 2: the step of the first, and the consistent reading of the second's."""
    width: int = network.width  # pyright: ignore[reportAttributeAccessIssue]
    length, outputs = data.target_shape
    closest = pairs(data.x[:, 0]).nearest if data.n > 1 else None
    delta = 1.0 if closest is None else min(1.0, closest.distance)
    rho = data.n * length * outputs * math.log(width)
    power = 44 if recipe.batch is None or recipe.batch >= data.n else 42
    return delta / (rho**power * width) * _per_mean(recipe, data.n)


def _frei(network: Network, params: Mapping[str, ArrayLike], data: AnyDataset, recipe: Recipe) -> float:
    """Theorem 3.5's three bounds, the last for as many steps as the recipe allows; the margin is the sample's."""
    width: int = network.width  # pyright: ignore[reportAttributeAccessIssue]
    gamma = margin(data.x, data.y, bracket=False).estimate
    radius = gamma**12 / math.log(width) ** 1.5
    length = radius**2 * gamma**4 / math.sqrt(math.log(data.n / FAILURE))
    return min(gamma**4 / width, radius / math.sqrt(width), length / recipe.steps)


def _per_mean(recipe: Recipe, n: int) -> float:
    """Du's and Allen-Zhu's steps are for a sum over examples; for the mean they are n times larger."""
    return float(n) if recipe.objective.reduction == "mean" else 1.0


_PAPERS = {"du2019": _du, "zou2018": _zou, "allenzhu2018": _allen_zhu, "frei2019": _frei}
