"""The laboratory of Frei et al. (2019): residual networks with θL = 0.025, data of known margin, gradient descent.

Three kinds of networks are measured: trained ones; starts of moderate width, with their weights; and starts of large
width, drawn in law for a few inputs, where an inequality with a printed constant needs more units than fit in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from wideproof.data import Dataset, linear_margin
from wideproof.monitors.residual import Pass, loss_gradients, pass_in_law, residual_pass
from wideproof.monitors.residual_moves import flip_attack, last_layer_attack
from wideproof.networks import ResidualReLU
from wideproof.papers import study
from wideproof.papers.study import kept
from wideproof.training import Info, Recipe, Run, State, train

RHO = 0.3
ROOT_TWO_PI = float(np.sqrt(2 * np.pi))


class Lab(study.Lab):
    """Networks, data and runs that the statements of the paper share.

    Examples
    --------
    >>> lab = Lab("quick")
    >>> round(lab.margin(), 4), lab.network(64).theta * lab.depth
    (0.1197, 0.025)
    """

    theta_depth = 0.025
    failure_prob = 0.1
    input_dim = 5
    rate = 6.0  # the step size times the width; steps above 8/m can be unstable
    even = True

    def __init__(self, study: str = "quick", seed: int = 0, widths: Sequence[int] | None = None) -> None:
        super().__init__(study, seed, widths)
        self.depth: int = self.pick(3, 4, 6)
        self.n: int = self.pick(32, 64, 128)
        self.seeds = range(self.pick(10, 12, 24))
        self.steps: int = self.pick(66, 120, 1000)
        self.draws = range(self.pick(4, 8, 16))
        self.many = range(self.pick(12, 12, 16))

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths that are trained."""
        return self.grid((64, 128, 256), (64, 128, 256, 512), (64, 128, 256, 512, 1024))

    @property
    def start_widths(self) -> tuple[int, ...]:
        """The widths of starts."""
        return self.grid((64, 128, 256, 512), (64, 128, 256, 512), (64, 128, 256, 512, 1024))

    @property
    def law_widths(self) -> tuple[int, ...]:
        """The widths of starts that are drawn in law."""
        return self.grid((2**6, 2**8, 2**10, 2**12), (2**8, 2**10, 2**12, 2**14), (2**8, 2**11, 2**14, 2**17))

    def network(self, width: int, depth: int | None = None, theta_depth: float | None = None) -> ResidualReLU:
        r"""Return the network of a width, with $\theta = 0.025/L$ unless said otherwise."""
        depth = depth or self.depth
        scale = self.theta_depth if theta_depth is None else theta_depth
        return ResidualReLU(self.input_dim, width, depth, residual_scale=scale / depth)

    @kept
    def data(self, rho: float = RHO, n: int | None = None, sample: str = "train") -> Dataset:
        r"""Return points with $|x_1| \ge \rho$ labelled by the sign of $x_1$: the margin is $\rho/\sqrt{2\pi}$."""
        count = n or self.n
        seed = int(self.rng("data", sample).integers(2**31))
        return linear_margin(count, self.input_dim, rho, seed)

    def margin(self, rho: float = RHO) -> float:
        r"""Return the margin $\gamma$ of Assumption 3.2, known exactly for this data."""
        return rho / ROOT_TWO_PI

    def inputs(self, count: int) -> np.ndarray:
        """Return unit vectors, the same for every network."""
        x = self.rng("inputs").standard_normal((count, self.input_dim))
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    # Starts

    @kept
    def start(self, network: ResidualReLU, seed: int) -> dict[str, np.ndarray]:
        """Draw weights from the network's law with NumPy, which needs no compilation for each size."""
        sizes = network.input_dim, network.width, network.depth, network.residual_scale
        return self.drawn(network, "start", *sizes, seed)

    @kept
    def at_start(self, width: int, seed: int, depth: int | None = None, theta_depth: float | None = None) -> Pass:
        """Return the pass of the training inputs through a fresh network."""
        network = self.network(width, depth, theta_depth)
        return residual_pass(network, self.start(network, seed), self.data().x)

    def in_law(self, width: int, seed: int, x: np.ndarray, depth: int | None = None, theta_depth: float | None = None):
        """Return a pass drawn in law, for widths whose weights would not fit."""
        network = self.network(width, depth, theta_depth)
        rng = self.rng("in law", width, depth, theta_depth, seed)
        first = np.sqrt(2 / width) * rng.standard_normal((self.input_dim, width))
        return self.keep(("in law", network, seed, x.tobytes()), lambda: pass_in_law(network, x, rng, first))

    # Perturbed weights

    @kept
    def moved(self, width: int, seed: int, family: str, radius: float, depth: int | None = None) -> Pass:
        """Return the pass after a perturbation of size `radius` in every layer.

        `"random"` moves in a Gaussian direction; `"attack"` flips the most units of every layer for the first example,
        and pushes the last layer so that all its flips add up; `"last"` does the latter only.
        """
        base = self.at_start(width, seed, depth)
        rng = self.rng(family, width, seed, depth)
        weights = {}
        for layer in base.steps:
            old = base.weights[layer - 1]
            change = rng.standard_normal(old.shape) if family == "random" else _attack(base, layer, radius, family)
            size = float(np.linalg.norm(change))
            weights[f"W{layer}"] = old + change * (radius / size) if size > 0 else old
        return residual_pass(self.network(width, depth), weights, self.data().x)

    # Training

    @kept
    def run(self, width: int, seed: int, rho: float = RHO) -> Run:
        r"""Return gradient descent with $\eta = 6/m$ on the logistic loss, every step recorded."""
        return self._train(width, seed, rho, self.steps)

    def _train(self, width: int, seed: int, rho: float, steps: int) -> Run:
        recipe = Recipe(loss="logistic", step_size=self.rate / width, steps=steps, seed=seed, record_every=1)
        return train(self.network(width), self.data(rho), recipe, record=MEASURES)

    def weights(self, width: int, seed: int, steps: int) -> Mapping[str, np.ndarray]:
        """Return the weights of a run after so many steps; a shorter run takes the same steps again."""
        whole = self.run(width, seed)
        if steps in (0, self.steps):
            return whole.params if steps else whole.initial
        return self._train(width, seed, RHO, steps).params

    def trained(self, width: int, seed: int, steps: int | None = None) -> Pass:
        """Return the pass of the training inputs after so many steps (all, if not said); 0 is the run's start."""
        count = self.steps if steps is None else steps
        make = lambda: residual_pass(self.network(width), self.weights(width, seed, count), self.data().x)  # noqa: E731
        return self.keep(("trained", width, seed, count), make)

    @kept
    def stepped(self, width: int, seed: int, steps: int) -> Pass:
        """Return the pass one step of gradient descent after `trained`, by the closed form of the gradient."""
        seen = self.trained(width, seed, steps)
        gradients = loss_gradients(seen, self.data().y)
        moved = [w - self.rate / width * g for w, g in zip(seen.weights, gradients, strict=True)]
        params = {f"W{layer}": weight for layer, weight in zip(seen.steps, moved, strict=True)}
        return residual_pass(self.network(width), params, self.data().x)

    @functools.cached_property
    def snapshots(self) -> tuple[int, ...]:
        """The steps at which weights are looked at."""
        return (self.steps // 10, self.steps // 3, self.steps)

    def radius(self, width: int, seed: int, steps: int | None = None) -> float:
        r"""Return $\max_l \|W_l^{(k)} - W_l^{(0)}\|_F$ of a run."""
        now, then = self.trained(width, seed, steps), self.trained(width, seed, 0)
        return max(float(np.linalg.norm(a - b)) for a, b in zip(now.weights, then.weights, strict=True))

    def surrogates(self, width: int, seed: int, rho: float = RHO) -> np.ndarray:
        r"""Return $\mathcal E_S(W^{(k)})$ for $k = 0..K$."""
        return self.run(width, seed, rho).records["surrogate"]


def _attack(base: Pass, layer: int, radius: float, family: str) -> np.ndarray:
    below, values, last = base.x(layer - 1)[0], base.u(layer)[0], layer == base.depth + 1
    size = float(np.linalg.norm(below))
    if last:
        return last_layer_attack(values, base.signs, size, radius).change(below)
    return flip_attack(values, size, radius).change(below) * (family == "attack")


def _surrogate(state: State, info: Info) -> jax.Array:
    labels = jnp.where(jnp.arange(info.outputs.shape[0]) % 2 == 0, 1.0, -1.0)  # as the data alternates
    return jnp.mean(jax.nn.sigmoid(-labels * info.outputs))


def _gradient_norms(state: State, info: Info) -> dict[str, jax.Array]:
    return {name: jnp.linalg.norm(gradient) for name, gradient in info.grad.items()}


MEASURES = {"surrogate": _surrogate, "gradient": _gradient_norms}
