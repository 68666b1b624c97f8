r"""The recursion of covariances and tangent kernels through the layers of an infinitely wide network.

With $P^{(h)}$ the covariance of the pre-activations of two examples at layer $h$ (for images at one position,
summed over the window), $b$ and $\mu$ the means of the features and of $\sigma$,

$$ S^{(h)} = [\text{skip}]\big(S^{(h-1)} + s_h (b_i \mu_j + \mu_i b_j)\big) + s_h^2\, \mathbb{E}[\sigma(u)\sigma(v)], $$
$$ \Theta^{(h)} = [\text{skip}]\,\Theta^{(h-1)} + s_h^2\, \mathbb{E}[\sigma'(u)\sigma'(v)]\,
   \big(\text{window}(\Theta^{(h-1)}) + [\text{trained}]\, P^{(h)}\big). $$

Du et al. (2019), Definitions 5.1, 6.1 and 7.1, print an index, a pairing and a patch trace differently; the forms
here are the limits of the finite networks, and the tests reject the printed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev

from wideproof.errors import InputError
from wideproof.kernels import duals
from wideproof.kernels.contraction import AnyArray
from wideproof.networks import Activation, LayeredLimit, LimitLayer

COVARIANCE = "covariance"
Groups = tuple[tuple[str, tuple[str, ...]], ...]
Pairwise = Callable[[int, AnyArray], AnyArray]  # layer and P to an expectation
Values = TypeVar("Values", bound=AnyArray)


@dataclass(frozen=True)
class Moments:
    r"""What depends on one example at a time: one entry for each layer, arrays `n x positions`.

    `variances`: of the pre-activations; `means`: $\mu = \mathbb{E}\sigma$; `offsets`: $b$, the mean of the features
    that enter the layer. `last_variance` and `last_offset` belong to the features after the last layer, times the scale
    of the outputs.
    """

    variances: list[Float[np.ndarray, "n positions"]]
    means: list[Float[np.ndarray, "n positions"]]
    offsets: list[Float[np.ndarray, "n positions"]]
    last_variance: Float[np.ndarray, "n positions"]
    last_offset: Float[np.ndarray, "n positions"]


def moments(limit: LayeredLimit, squares: np.ndarray) -> Moments:
    """Run the recursion of one example from the squared norms `n x positions` of its inputs."""
    found = Moments([], [], [], squares, squares)
    q, b = squares, np.zeros_like(squares)
    for layer in limit.layers:
        a = window_sum(q, limit.window, np)
        second, mu = _along(limit.activation, a)
        found.variances.append(a)
        found.means.append(mu)
        found.offsets.append(b)
        q = layer.skip * (q + 2 * layer.scale * b * mu) + layer.scale**2 * second
        b = layer.skip * b + layer.scale * mu
    return Moments(found.variances, found.means, found.offsets, limit.alpha**2 * q, limit.alpha * b)


def pair_recursion(
    limit: LayeredLimit,
    groups: Groups,
    inner: AnyArray,
    value: Pairwise,
    slope: Pairwise,
    cross: Callable[[int], AnyArray | float],
) -> dict[str, AnyArray | None]:
    r"""Return the Gram parts of `groups` of weights, and the covariance of the last features; `None` is zero.

    All of it is multiplied by the square of the scale of the outputs.

    Parameters
    ----------
    groups
        For each matrix its name and the weights that are summed in it.
    inner
        Inner products of the inputs, at every position.
    value, slope
        Layer and $P^{(h)}$ to $\mathbb{E}[\sigma\sigma]$ and $\mathbb{E}[\sigma'\sigma']$.
    cross
        Layer to $b_i \mu_j + \mu_i b_j$.
    """
    s = inner
    tangents: dict[str, AnyArray | None] = {key: None for key, _ in groups}
    for h, layer in enumerate(limit.layers):
        p = window_sum(s, limit.window, jnp)
        if any(name in _hidden(limit) for _, names in groups for name in names):
            derivative = layer.scale**2 * slope(h, p)
            for key, names in groups:
                tangents[key] = _tangent(limit, layer, tangents[key], names, p, derivative)
        new = layer.scale**2 * value(h, p)
        s = s + layer.scale * cross(h) + new if layer.skip else new
    out: dict[str, AnyArray | None] = {COVARIANCE: s}
    for key, names in groups:
        if key != COVARIANCE:
            out[key] = _plus(tangents[key], s if limit.output in names else None)
    return out if limit.alpha == 1 else {key: None if m is None else limit.alpha**2 * m for key, m in out.items()}


def _hidden(limit: LayeredLimit) -> set[str]:
    return {layer.name for layer in limit.layers}


def _tangent(
    limit: LayeredLimit,
    layer: LimitLayer,
    tangent: AnyArray | None,
    names: tuple[str, ...],
    p: AnyArray,
    derivative: AnyArray,
) -> AnyArray | None:
    """Carry one group's tangent kernel through a layer; `None` is zero."""
    carried = None if tangent is None else window_sum(tangent, limit.window, jnp)
    source = layer.factor * p if layer.name in names else None
    arriving = _plus(carried, source)
    moved = None if arriving is None else derivative * arriving
    return _plus(tangent, moved) if layer.skip else moved


def _plus(a: AnyArray | None, b: AnyArray | None) -> AnyArray | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def window_sum(values: Values, window: int | None, xp: ModuleType) -> Values:
    """Sum over the window of each position along the last axis (NumPy) or the first (JAX); vectors pass unchanged."""
    if window is None:
        return values
    axis = -1 if xp is np else 0
    reach, positions = window // 2, values.shape[axis]
    pad = [(0, 0)] * values.ndim
    pad[axis] = (reach, reach)
    padded = xp.pad(values, pad)
    take = [slice(None)] * values.ndim
    total = xp.zeros_like(values)
    for o in range(window):
        take[axis] = slice(o, o + positions)
        total = total + padded[tuple(take)]
    return total


def _along(activation: Activation, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Return $\mathbb{E}[\sigma(u)^2]$ and $\mathbb{E}[\sigma(u)]$ for every variance in `a`."""
    distinct, back = np.unique(a, return_inverse=True)
    if len(distinct) > 64 and duals.closed_form(activation) is None:
        # Many values: interpolate in log(r + 1/2), where both functions are as smooth as the activation.
        r = np.log(np.sqrt(distinct) + 0.5)
        for degree in (40, 80, 160):
            nodes = chebyshev.chebpts1(degree)
            at = np.exp((r[0] + r[-1] + nodes * (r[-1] - r[0])) / 2) - 0.5
            sampled = _moments_at(activation, np.maximum(at, 0) ** 2)
            fits = [chebyshev.chebfit(nodes, values, degree - 1) for values in sampled]
            if all(np.abs(fit[-4:]).max() <= 1e-14 * np.abs(fit).max() for fit in fits):
                where = (2 * r - r[0] - r[-1]) / (r[-1] - r[0])
                second, mu = (chebyshev.chebval(where, fit) for fit in fits)
                return np.maximum(second, 0)[back].reshape(a.shape), mu[back].reshape(a.shape)
        raise InputError(
            f"the variances of {activation.name} reach from {distinct[0]:.3g} to {distinct[-1]:.3g}, too far for "
            "160 interpolation points: bring the inputs to comparable norms (prepare them with `unit`)"
        )
    second, mu = _moments_at(activation, distinct)
    return second[back].reshape(a.shape), mu[back].reshape(a.shape)


def _moments_at(activation: Activation, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return duals.covariance(activation, a, a, np.zeros_like(a)), duals.mean(activation, a)


def node_recursion(
    limit: LayeredLimit, groups: Groups, known: Moments, theta: np.ndarray
) -> Mapping[str, AnyArray | None]:
    r"""Run the pair recursion for vectors of one norm at the angles `theta`, with exact duals.

    The angle of the next layer comes from the gap $q - S$, not from $S$: where two inputs nearly agree, the ReLU's
    $\mathbb{E}[\sigma'\sigma']$ falls linearly in the angle, and a gap rounded to $10^{-16}$ is an angle off by
    $10^{-8}$.
    """
    a = [float(v.ravel()[0]) for v in known.variances]
    gap, angle = a[0] * 2 * np.sin(theta / 2) ** 2, theta

    def slope(h: int, p: AnyArray) -> np.ndarray:
        return duals.slope_covariance(limit.activation, a[h], a[h], angle)

    def value(h: int, p: AnyArray) -> np.ndarray:
        nonlocal gap, angle
        layer, at = limit.layers[h], duals.covariance(limit.activation, a[h], a[h], angle)
        gap = layer.skip * gap + layer.scale**2 * duals.drop(limit.activation, a[h], angle)
        if h + 1 < len(a):
            angle = _angle(gap, a[h + 1])
        return at

    def cross(h: int) -> float:
        return 2 * float(known.offsets[h].ravel()[0]) * float(known.means[h].ravel()[0])

    return pair_recursion(limit, groups, a[0] * np.cos(theta), value, slope, cross)


def _angle(gap: np.ndarray, variance: float) -> np.ndarray:
    """Return the angle of two vectors of equal squared length from the gap between it and their inner product."""
    if variance == 0:
        return np.zeros_like(gap)
    near = np.clip(gap / (2 * variance), 0, 1)
    return np.where(near < 0.5, 2 * np.arcsin(np.sqrt(near)), np.pi - 2 * np.arcsin(np.sqrt(1 - near)))
