"""The networks, data, starts, perturbed weights and runs in which the statements of Du et al. (2019) are measured."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from wideproof.data import Dataset, ImageDataset
from wideproof.monitors import Trace, trace
from wideproof.monitors.smooth import (
    Constants,
    SmoothNetwork,
    block_measure,
    blocks_of,
    constants,
    first_order_measure,
    outputs_measure,
    step_measure,
)
from wideproof.networks import ConvResidual, FullyConnected, Residual, get_activation
from wideproof.papers import study
from wideproof.papers.du2019.records import Descent, Finite, Moved, Params, draws_of
from wideproof.papers.du2019.recursion import Recursion, recursion
from wideproof.papers.study import kept
from wideproof.precision import double
from wideproof.training import Recipe, Run, train, train_many

Kind = Literal["fully-connected", "residual", "conv-residual"]
Norms = Literal["unit", "unequal", "spread"]
Rule = Literal["practical", "theorem", "lemma"]
KINDS: tuple[Kind, ...] = ("fully-connected", "residual", "conv-residual")
CHANNELS, PIXELS = 4, 4

# The four vectors and three images on which reference values of the limits are known.
FOUR = np.array([[1.0, 0, 0], [0, 1, 0], [0.6, 0.8, 0], [-0.6, 0, 0.8]])
THREE = np.array([[[1, 2, 0, -1], [0, 1, 1, 2]], [[2, -1, 1, 0], [1, 0, -2, 1]], [[0, 1, 3, 1], [-1, 2, 0, 1]]], float)
THREE /= np.linalg.norm(THREE, axis=(1, 2), keepdims=True)


class Lab(study.Lab):
    """Networks of the paper by kind; see `wideproof.papers.study.Lab`.

    The `trainee` of a kind has the paper's running example, softplus, and is trained. The `model` has tanh, whose
    smallest eigenvalue is large enough for statements about starts to be reached at feasible widths.

    Examples
    --------
    >>> lab = Lab("quick")
    >>> lab.trainee("residual").activation.name, lab.model("residual").activation.name
    ('softplus', 'tanh')
    """

    delta_of = (0.5, 0.2, 0.1)

    @property
    def delta(self) -> float:
        r"""The failure probability $\delta$, as small as the number of draws can tell."""
        return self.pick(*self.delta_of)

    @property
    def draws(self) -> int:
        r"""Independent starts: so many successes in a row put the success rate above $1 - \delta$."""
        return self.pick(6, 20, 40)

    @kept
    def data(self, kind: Kind) -> Dataset | ImageDataset:
        """Return unit inputs with labels ±1: four vectors not far from orthogonal, or three orthogonal images."""
        if kind != "conv-residual":
            rng = self.rng("vectors")
            x = np.linalg.qr(rng.normal(size=(8, 4)))[0].T + 0.1 * rng.normal(size=(4, 8))
            return Dataset(
                x / np.linalg.norm(x, axis=1, keepdims=True), np.array([1.0, -1, -1, 1]), "binary", "vectors"
            )
        x = np.linalg.qr(self.rng("images").normal(size=(CHANNELS * PIXELS, 3)))[0].T
        return ImageDataset(x.reshape(3, CHANNELS, PIXELS), np.array([1.0, -1.0, 1.0]), "binary", "images")

    def network(
        self, kind: Kind, width: int, depth: int, activation: str = "softplus", c_res: float = 0.5
    ) -> SmoothNetwork:
        """Return a network of this kind for the inputs of `data`."""
        chosen = get_activation(activation)
        if kind == "fully-connected":
            return FullyConnected(8, width, depth, chosen)
        if kind == "residual":
            return Residual(8, width, depth, chosen, c_res)
        return ConvResidual(CHANNELS, PIXELS, width, depth, activation=chosen, c_res=c_res)

    def limit(self, network: SmoothNetwork, x: np.ndarray) -> Recursion:
        """Return the infinite-width recursion, with the quadrature of this package."""
        return self.keep(("limit", replace(network, width=1), x.tobytes()), lambda: recursion(network, x))

    def last(self, network: SmoothNetwork, x: np.ndarray) -> np.ndarray:
        r"""Return the paper's $K^{(H)}$: the limit of the last hidden layer's block."""
        return self.limit(network, x).blocks[f"W{network.depth}"]

    def lambda_0(self, network: SmoothNetwork, x: np.ndarray) -> float:
        r"""Return $\lambda_0 = \lambda_{\min}(K^{(H)})$."""
        return float(np.linalg.eigvalsh(self.last(network, x))[0])

    def draw(self, network: SmoothNetwork, *label: Hashable, scale: float = 1.0) -> Params:
        """Draw a start from the network's law; `scale` other than 1 is not the paper's law."""
        return self.drawn(network, str(network), *label, scale=scale)

    @double
    def features(self, network: SmoothNetwork, params: Params, x: np.ndarray) -> list[np.ndarray]:
        """Return every layer's features; one compilation for a network."""
        return [np.asarray(layer) for layer in _features(network, params, x)]

    # ---- finite networks beside their limits -----------------------------------------------------------------------

    @kept
    def finite(self, kind: Kind, norms: Norms = "unequal", depth: int = 2) -> Finite:
        """Return Gram blocks, feature covariances and means of many networks; images always have norm 1.

        Vectors have unequal norms, or the norm 1 that the theorems suppose, or norms that differ much; the last two
        with softplus and with more draws, so that the derivatives of two layers are told apart.
        """
        activation = get_activation(self.pick("gelu", "softplus", "softplus") if norms == "unequal" else "softplus")
        if kind == "conv-residual":
            width, draws = self.pick((128, 60), (256, 100), (512, 400))
            x, draws = THREE, (1 if norms == "unequal" else 4) * draws
        else:
            width, draws = self.pick((256, 100), (512, 200), (2048, 400))
            sizes = {"unit": np.ones(4), "unequal": [2.0, 0.5, 1.0, 1.5], "spread": [4.0, 0.25, 1.0, 2.0]}[norms]
            x = FOUR * np.array(sizes)[:, None]
        network: SmoothNetwork = {
            "fully-connected": FullyConnected(3, width, depth, activation),
            "residual": Residual(3, width, depth, activation, 0.9),
            "conv-residual": ConvResidual(2, 4, width, depth, activation=activation, c_res=0.9),
        }[kind]
        return draws_of(network, x, (self.draw(network, "finite", i) for i in range(draws)))

    # ---- starts of the tanh networks, and their perturbations ------------------------------------------------------

    def model(self, kind: Kind) -> SmoothNetwork:
        """Return the network of this kind whose starts and perturbations are measured."""
        width = self.pick(*((1024, 2048, 4096) if kind != "conv-residual" else (512, 1024, 2048)))
        return self.network(kind, width, self.pick(2, 2, 3), "tanh")

    def start(self, kind: Kind, i: int) -> Params:
        """Return the model's start `i`; drawn again each time, since all of them take much memory."""
        return self.draw(self.model(kind), "start", i)

    @kept
    def traces(self, kind: Kind) -> list[Trace]:
        """Return the traced passes of the starts."""
        network, x = self.model(kind), self.data(kind).x
        return [trace(network, self.start(kind, i), x) for i in range(self.draws)]

    @kept
    def last_blocks(self, kind: Kind) -> np.ndarray:
        r"""Return $G^{(H)}(0)$ of every start of the model."""
        name = f"W{self.model(kind).depth}"
        return np.stack([blocks_of(seen)[name] for seen in self.traces(kind)])

    @kept
    def constants(self, kind: Kind, i: int) -> Constants:
        """Return the measured constants of the model's start `i`."""
        network, x = self.model(kind), self.data(kind).x
        return constants(network, self.start(kind, i), x)

    def moved(self, kind: Kind, i: int, movement: float) -> Iterator[Moved]:
        """Move start `i` at random, along the gradient, and by rank-one matrices aimed at the first example.

        One at a time, and none of them is kept: they are large.
        """
        network, data, start, seen = self.model(kind), self.data(kind), self.start(kind, i), self.traces(kind)[i]
        rng = self.rng("moved", kind, i)
        random = {name: rng.standard_normal(w.shape) for name, w in start.items()}
        slope, aimed = {}, {}
        for name, weight in start.items():
            u, b = seen.inputs[name][0], seen.cotangents[name][0]
            weighted = (data.y.reshape(-1, *[1] * (b.ndim - 1)) * b).reshape(-1, b.shape[-1])
            slope[name] = (weighted.T @ u.reshape(-1, u.shape[-1])).reshape(weight.shape)
            one = u[0].reshape(-1, u.shape[-1])[0]
            aimed[name] = np.outer(np.ones(weight.size // one.size), one).reshape(weight.shape)
        size = movement * np.sqrt(network.width)
        for direction, change in (("random", random), ("gradient", slope), ("rank one", aimed)):
            params = {name: w + size * change[name] / np.linalg.norm(change[name]) for name, w in start.items()}
            yield Moved(start, params, self.constants(kind, i), movement, direction)

    # ---- gradient descent of the softplus networks -----------------------------------------------------------------

    def trainee(self, kind: Kind, depth: int = 0) -> SmoothNetwork:
        """Return the network of this kind that is trained, of a depth other than the usual one if asked for."""
        width = self.pick(*((128, 256, 2048) if kind != "conv-residual" else (64, 96, 512)))
        return self.network(kind, width, depth or self.pick(2, 3, 3))

    def step_size(self, kind: Kind, rule: Rule) -> float:
        r"""Return the step size of a rule, its unspecified constant declared in `step_rule`.

        `practical` is half the inverse of $\lambda_{\max}(T)$, `theorem` the theorem's scaling with constant 1,
        `lemma` $\lambda_0 / (32 n^2 p^2)$.
        """
        network, data = self.trainee(kind), self.data(kind)
        lambda_0 = self.lambda_0(network, data.x)
        if rule == "practical":
            return 0.5 / float(np.linalg.eigvalsh(self.limit(network, data.x).total)[-1])
        positions = PIXELS if kind == "conv-residual" else 1
        if rule == "theorem":
            depth = 1 if kind == "fully-connected" else network.depth
            return lambda_0 * depth**2 / (data.n * positions) ** 2
        return lambda_0 / (32 * (data.n * positions) ** 2)

    @kept
    def record(self, kind: Kind) -> dict:
        """Return what runs of this kind record at every step; one value, so that runs share a compilation."""
        network, x = self.trainee(kind), self.data(kind).x
        return {
            "outputs": outputs_measure,
            "gradient": step_measure,
            "first_order": first_order_measure(network, x),
            "block": block_measure(network, x, f"W{network.depth}"),
        }

    @kept
    def runs(self, kind: Kind, rule: Rule) -> list[Descent]:
        """Train the trainee from independent seeds with one rule for the step size, recording every step."""
        steps = self.pick(100, 250, 2000) if rule == "practical" else self.pick(15, 40, 200)
        recipe = Recipe(step_size=self.step_size(kind, rule), steps=steps, record_every=1)
        trainee, data = self.trainee(kind), self.data(kind)
        runs = train_many(trainee, data, recipe, seeds=range(self.draws), record=self.record(kind))
        return [self._descent(kind, run) for run in runs]

    @kept
    def at_depth(self, kind: Kind, depth: int, step_size: float, count: int = 3, block: int = 0) -> list[Run]:
        """Train a network of another depth from a few seeds, the first ones or a later block of them."""
        recipe = Recipe(step_size=step_size, steps=self.pick(20, 40, 200), record_every=1)
        network, data, seeds = self.trainee(kind, depth), self.data(kind), range(count * block, count * (block + 1))
        return train_many(network, data, recipe, seeds=seeds, record={"outputs": outputs_measure})

    @kept
    def descend(self, kind: Kind, step_size: float, steps: int, seed: int) -> Descent:
        """Train from one seed with a given step size."""
        recipe = Recipe(step_size=step_size, steps=steps, record_every=1, seed=seed)
        return self._descent(kind, train(self.trainee(kind), self.data(kind), recipe, record=self.record(kind)))

    def _descent(self, kind: Kind, run: Run) -> Descent:
        start = {name: np.asarray(w) for name, w in run.initial.items()}
        network, x = self.trainee(kind), self.data(kind).x
        found = self.keep(("run constants", kind, run.recipe.seed), lambda: constants(network, start, x))
        return Descent(run, self.data(kind).y, found)


@partial(jax.jit, static_argnums=0)
def _features(network: SmoothNetwork, params: Params, x: np.ndarray) -> list[jax.Array]:
    return network.forward(network.linear(params), jnp.asarray(x)).features  # pyright: ignore[reportArgumentType]
