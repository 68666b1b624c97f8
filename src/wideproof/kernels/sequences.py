r"""Recurrent networks at infinite width: covariances and tangent kernels between all pairs of steps.

With $\kappa_1, \kappa_0$ twice the ReLU's $\mathbb{E}[\sigma\sigma]$ and $\mathbb{E}[\sigma'\sigma']$, layer $j$ at
the steps $(t, t')$ of two sequences has

$$ C = G^{(j)}(t{-}1, t'{-}1) + G^{(j-1)}(t, t'), \qquad G^{(j)}(t, t') = \kappa_1(C), $$
$$ \Theta^{(j)}(t, t') = \kappa_0(C) \big( [W_j]\,G^{(j)}(t{-}1, t'{-}1) + [A_j]\,G^{(j-1)}(t, t')
   + \Theta^{(j)}(t{-}1, t'{-}1) + \Theta^{(j-1)}(t, t') \big). $$

Weights are shared over time: uses at different lags from the output are uncorrelated in the limit, uses at equal
lags are what the recursion sums. For one layer this is Allen-Zhu, Li and Song's network; squared norms are
$q_t = \sum_{s \le t} \|x_s\|^2$. Beside every covariance its gap $\sqrt{q q'} - G$ is carried, since the ReLU's
$\kappa_0$ falls with the square root of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from wideproof.kernels import duals
from wideproof.kernels.correlations import correlation_and_gap, directions, leading_bits
from wideproof.kernels.interpolants import Interpolant, interpolate
from wideproof.kernels.recursion import COVARIANCE, Groups
from wideproof.kernels.tiles import Kernel
from wideproof.networks import RELU, RecurrentLimit

BITS = ("x", "high", "low", "short")
States = dict[str, Array]  # by name, what is known of all pairs at one step


def token_arrays(limit: RecurrentLimit, x: np.ndarray) -> dict[str, np.ndarray]:
    """Return the tokens' directions and norms, and the limits of the hidden states' norms, `n x layers x length`."""
    tokens = directions(x)
    below = np.square(tokens["norm"])
    norms = []
    for _ in limit.recurrent:
        below = np.cumsum(below, axis=1)
        norms.append(np.sqrt(below))
    return {**tokens, "states": np.stack(norms, axis=1)}


@cache
def relu_duals() -> Interpolant:
    r"""Return $\kappa_1$, $\kappa_0$ at unit variances, and the ratio of the gaps behind and before the ReLU."""

    def at(theta: np.ndarray) -> dict[str, np.ndarray]:
        gap = 2 * np.sin(theta / 2) ** 2
        ratio = 2 * duals.drop(RELU, 1.0, theta) / np.where(gap > 0, gap, 1)
        return {
            "value": 2 * duals.covariance(RELU, 1.0, 1.0, theta),
            "slope": 2 * duals.slope_covariance(RELU, 1.0, 1.0, theta),
            "ratio": np.where(gap > 0, ratio, 1.0),
        }

    return interpolate(at)


@dataclass(frozen=True)
class SequenceKernel(Kernel[Interpolant, Mapping[str, Array]]):
    """All scored steps of a recurrent network; the state is the ReLU's interpolant."""

    limit: RecurrentLimit
    groups: Groups
    length: int

    @property
    def rows(self) -> int:
        """One row for every scored step: from the second on."""
        return self.length - 1

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the matrices."""
        return tuple(key for key, _ in self.groups)

    def record(self, state: Interpolant, x: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return tokens and norms by step, and the leading bits of the tokens."""
        n, length, features = x["x"].shape
        bits = leading_bits(x["x"].reshape(-1, features))
        return {**x, **{key: values.reshape(n, length, *values.shape[1:]) for key, values in bits.items()}}

    def block(self, state: Interpolant, left: Mapping[str, Array], right: Mapping[str, Array]) -> dict[str, Array]:
        """Scan over the steps of the left sequences, all steps of the right ones at once."""
        limit, layers = self.limit, len(self.limit.recurrent)
        n, m, length = left["x"].shape[0], right["x"].shape[0], self.length
        tangents = tuple(key for key, _ in self.groups if key != COVARIANCE)
        members = dict(self.groups)
        zeros = jnp.zeros((length, n, m), left["x"].dtype)
        nothing = {"g": zeros, "gap": zeros, **dict.fromkeys(tangents, zeros)}
        flat = {key: right[key].swapaxes(0, 1).reshape(length * m, *right[key].shape[2:]) for key in BITS}
        columns = [right["norm"].T, *right["states"].transpose(1, 2, 0)]  # each step x m: tokens, then layers

        def shift(rows: Array) -> Array:
            """Move every step one back in the right sequence: step 1 has nothing before it."""
            return jnp.concatenate([jnp.zeros_like(rows[:1]), rows[:-1]])

        def step(before: list[States], inputs: tuple[States, Array, Array]) -> tuple[list[States], States]:
            now, norms, norms_before = inputs  # tokens' bits n x features; norms, layers + 1 by n
            rho, gap = (v.reshape(n, length, m).swapaxes(0, 1) for v in correlation_and_gap(now, flat))
            pair = _outer(norms[0], columns[0])
            below = {**nothing, "g": pair * rho, "gap": pair * jnp.where(rho >= 0, gap, 1 - rho)}
            after = []
            for j in range(layers):
                back = {key: shift(rows) for key, rows in before[j].items()}
                p, p_right, a, a_right = norms_before[j + 1], shift(columns[j + 1]), norms[j], columns[j]
                whole = _outer(norms[j + 1], columns[j + 1])
                # sqrt(q q') - sqrt(p p') - sqrt(a a') for q = p + a, without cancellation.
                spread = jnp.square(_outer(p, a_right) - _outer(a, p_right))
                parts = whole + _outer(p, p_right) + _outer(a, a_right)
                missing = back["gap"] + below["gap"] + spread / jnp.where(parts > 0, parts, 1)
                divisor = jnp.where(whole > 0, whole, 1)
                rho = (back["g"] + below["g"]) / divisor
                gap = jnp.where(rho >= 0, missing / divisor, 1 + rho)
                found = state(rho, gap)
                new = {"g": whole * found["value"]}
                new["gap"] = whole * jnp.where(rho >= 0, gap * found["ratio"], 1 - found["value"])
                for key in tangents:
                    arriving = back[key] + below[key]
                    if limit.recurrent[j] in members[key]:
                        arriving = arriving + back["g"]
                    if limit.inputs[j] in members[key]:
                        arriving = arriving + below["g"]
                    new[key] = found["slope"] * arriving
                after.append(new)
                below = new
            return after, below

        bits = {key: left[key].swapaxes(0, 1) for key in BITS}
        norms = jnp.concatenate([left["norm"][:, None], left["states"]], axis=1).transpose(2, 1, 0)
        _, top = lax.scan(step, [nothing] * layers, (bits, norms, shift(norms)))  # step, step', n, m
        out = {}
        for key, names in self.groups:
            if key == COVARIANCE:
                values = limit.output_scale * top["g"]
            else:
                values = limit.factor * top[key] + (top["g"] if limit.output in names else 0)
            values = values if limit.alpha == 1 else limit.alpha**2 * values
            scored = values[1:, 1:].transpose(2, 0, 3, 1)
            out[key] = scored.reshape(n * self.rows, m * self.rows)
        return out

    def pair_bytes(self, left: Mapping[str, jax.ShapeDtypeStruct]) -> float:
        """Return the bytes of temporaries for one pair of examples."""
        return left["x"].dtype.itemsize * self.length**2 * (8.0 + 4 * len(self.groups))


def _outer(left: Array, right: Array) -> Array:
    """Return the products of norms of the left examples and of all steps of the right ones: step x n x m."""
    return left[None, :, None] * right[:, None, :]
