r"""The laboratory of Zou et al. (2018): its data, starts, weights near the start, and runs, each made once.

Unless a statement needs something else: inputs in $\mathbb{R}^6$ with last coordinate $\mu = 1/2$, opposite labels at
least $\phi = 0.3$ apart, $n = 8$ examples, depth $L = 3$.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import jax
import numpy as np

from wideproof.data import Dataset, two_classes
from wideproof.errors import InputError
from wideproof.monitors import spectral_norm
from wideproof.monitors.relu import ReLUPass, gradient_norms, gradients, relu_pass
from wideproof.networks import DeepReLU
from wideproof.papers import study
from wideproof.papers.study import kept
from wideproof.precision import double
from wideproof.training import MarginLoss, Recipe, Run, get_loss, train

DIMENSION, MU, PHI = 6, 0.5, 0.3
DELTA = 0.05
Params = Mapping[str, np.ndarray]
KEPT_WIDTH = 512  # passes of wider networks are computed again rather than kept in memory


@dataclass(frozen=True)
class Walk:
    """Steps of (S)GD with everything a step-by-step statement asks for; arrays have one row per step.

    `spread` is the distance from the start over all layers, in Frobenius norm, and `squares` the squared norm of the
    gradient that the step takes. `moved` (at some steps) and `gradient` are spectral norms of both by layer, if asked
    for. `taken` are the examples of each step.
    """

    eta: float
    losses: np.ndarray
    slopes: np.ndarray
    outputs: np.ndarray
    squares: np.ndarray
    moved: np.ndarray
    spread: np.ndarray
    gradient: np.ndarray
    taken: list[np.ndarray]
    end: dict[str, np.ndarray]


def grouped(rows: np.ndarray | list, groups: int = 6) -> np.ndarray:
    """Return root mean squares over groups of draws: steadier rows where single draws scatter widely."""
    table = np.asarray(rows, float)
    return np.sqrt((table**2).reshape(groups, -1, table.shape[1]).mean(axis=1))


class Lab(study.Lab):
    """Networks, draws and runs for the statements of Zou et al. (2018).

    `deep` is the width and depth of the network over which exponents in the number of layers are fitted. `draws` are
    independent starts for what is cheap to measure, `few` for what is not.
    """

    even = True

    def __init__(self, study: str = "quick", seed: int = 0, widths: Sequence[int] | None = None) -> None:
        super().__init__(study, seed, widths)
        self.draws: int = self.pick(20, 30, 30)
        self.few: int = self.pick(5, 8, 8)
        self.deep: tuple[int, int] = self.pick((128, 12), (256, 16), (1024, 24))

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths over which exponents in $m$ are fitted."""
        return self.grid((32, 64, 128, 256), (64, 128, 256, 512), (128, 256, 512, 1024, 2048, 4096))

    @kept
    def data(self, n: int = 8, phi: float = PHI, mu: float = MU, d: int = DIMENSION) -> Dataset:
        """Return inputs that satisfy Assumptions 3.4 and 3.5 with exactly this separation."""
        return two_classes(n, d, phi, mu=mu, seed=self.seed + 1, labels="random")

    def start(self, width: int | tuple[int, ...], depth: int, draw: int, d: int = DIMENSION) -> Params:
        """Draw weights from the law that the network states for itself."""
        network = DeepReLU(d, width, depth)
        signs = network.laws()["v"].sample(jax.random.key(0), np.dtype(float))  # fixed: nothing is random
        return {**self.drawn(network, "start", width, depth, draw, d), "v": np.asarray(signs)}

    def seen(self, width: int, depth: int = 3, draw: int = 0, data: Dataset | None = None) -> ReLUPass:
        """Return the pass of a freshly drawn network on a data set (by default the usual one)."""
        data = self.data() if data is None else data

        def make() -> ReLUPass:
            return look(self.start(width, depth, draw, data.x.shape[1]), data.x)

        return self.keep(("seen", width, depth, draw, data.digest), make) if width <= KEPT_WIDTH else make()

    def over_widths(self, measure: Callable[[ReLUPass], float], draws: int | None = None, depth: int = 3) -> np.ndarray:
        """Measure at every width and draw: one row per draw."""
        return self.over(self.widths, draws or self.draws, lambda m, draw: measure(self.seen(m, depth, draw)))

    def deep_seen(self, draw: int = 0) -> ReLUPass:
        """Return a pass of the deep network, on data close enough together for its depth."""
        width, depth = self.deep
        return self.seen(width, depth, draw, self.data(phi=2.4 / depth))

    @kept
    def run(self, loss: str, batch: int | None, draw: int, steps: int) -> Run:
        r"""Train with $\eta = c/m$ in the compiled loop, recording every evaluation of the loss."""
        width = self.pick(128, 256, 1024)
        network = DeepReLU(DIMENSION, width, 2)
        recipe = Recipe(
            loss=loss, step_size=pace(loss) / width, steps=steps, batch=batch, seed=self.seed + draw, record_every=1
        )
        return train(network, self.data(), recipe)

    def walk(
        self,
        width: int,
        draw: int = 0,
        *,
        loss: str = "logistic",
        depth: int = 3,
        steps: int = 60,
        speed: float = 0.5,
        batch: int | None = None,
        data: Dataset | None = None,
        batches: int = 0,
        until: float = 0.0,
        norms: bool = False,
    ) -> Walk:
        r"""Take steps of size `speed`$/m$ from a fresh start; `batches` is the seed of the minibatches."""
        data = self.data() if data is None else data
        key = ("walk", width, draw, loss, depth, steps, speed, batch, data.digest, batches, until, norms)

        def make() -> Walk:
            start = self.start(width, depth, draw, data.x.shape[1])
            rng = self.rng("batches", draw, batch, batches)  # the same minibatches at every width
            return walk(start, data, margin_loss(loss), speed / width, steps, batch, rng, until, norms)

        return self.keep(key, make)


def margin_loss(name: str) -> MarginLoss:
    """Return the loss of this name, a function of the margin."""
    loss = get_loss(name)
    if not isinstance(loss, MarginLoss):
        raise InputError(f"{name} is not a function of the margin, as the losses of Zou et al. (2018) are")
    return loss


def smoothness_of(loss: str) -> float:
    r"""Return $\lambda$ of Assumption 3.3."""
    found = margin_loss(loss).smoothness
    if found is None:
        raise InputError(f"{loss} is not smooth, so that no step size is known to be stable")
    return found


def pace(loss: str) -> float:
    r"""Return $\eta m = 1/\lambda$, about half of the largest stable step for unit inputs and two layers."""
    return 1 / smoothness_of(loss)


def powers(loss: MarginLoss) -> tuple[float, float, float]:
    r"""Return $\alpha_0$, $\alpha_1$ and $p$ of Assumption 3.2: $-\ell' \ge \min\{\alpha_0, \alpha_1\ell^p\}$."""
    if loss.alpha0 is None or loss.alpha1 is None or loss.p is None:
        raise InputError(f"{loss.name} does not meet Assumption 3.2 of Zou et al. (2018)")
    return loss.alpha0, loss.alpha1, loss.p


def network_of(params: Params) -> DeepReLU:
    """Return the network that weights belong to."""
    shapes = [params[name].shape for name in params if name.startswith("W")]
    widths = tuple(shape[1] for shape in shapes)
    width = widths[0] if len(set(widths)) == 1 else widths
    return DeepReLU(shapes[0][0], width, len(shapes))


def look(params: Params, x: np.ndarray) -> ReLUPass:
    """Run the network that these weights belong to."""
    return relu_pass(network_of(params), params, x)


@double
def slopes(loss: MarginLoss, margins: np.ndarray) -> np.ndarray:
    r"""Return $-\ell'(z) \ge 0$."""
    return -np.asarray(_compiled(loss)[1](np.asarray(margins, float)))


@double
def values(loss: MarginLoss, margins: np.ndarray) -> np.ndarray:
    r"""Return $\ell(z)$."""
    return np.asarray(_compiled(loss)[0](np.asarray(margins, float)))


@functools.cache
def _compiled(loss: MarginLoss) -> tuple[Callable, Callable]:
    return jax.jit(loss.value), jax.jit(loss.derivative)


def step(params: Params, seen: ReLUPass, c: np.ndarray, eta: float) -> dict[str, np.ndarray]:
    r"""Return the weights after a step: $W_l - \eta \sum_i c_i \nabla_{W_l} f(x_i)$."""
    moves = gradients(seen, c)
    return {**params, **{f"W{i}": params[f"W{i}"] - eta * move for i, move in enumerate(moves, 1)}}


def coefficients(seen: ReLUPass, data: Dataset, loss: MarginLoss, chosen: np.ndarray | None = None) -> np.ndarray:
    r"""Return $c_i = \ell'(y_i f(x_i)) y_i / n$, or over a minibatch, $/B$ and zero outside it."""
    c = -slopes(loss, data.y * seen.outputs) * data.y
    if chosen is None:
        return c / len(c)
    inside = np.zeros(len(c))
    inside[chosen] = 1 / len(chosen)
    return c * inside


def subsets(n: int, size: int) -> list[np.ndarray]:
    """Return all subsets of a size."""
    return [np.array(chosen) for chosen in combinations(range(n), size)]


def walk(
    params: Params,
    data: Dataset,
    loss: MarginLoss,
    eta: float,
    steps: int,
    batch: int | None,
    rng: np.random.Generator,
    until: float = 0.0,
    norms: bool = False,
) -> Walk:
    """Take (S)GD steps and note at each what the lemmas speak of; stop at `until` times the first loss."""
    start, current, n = params, dict(params), len(data.y)
    names = [name for name in params if name.startswith("W")]
    names_of_rows = ("losses", "slopes", "outputs", "squares", "moved", "spread", "gradient")
    rows: dict[str, list] = {key: [] for key in names_of_rows}
    taken = []
    for k in range(steps + 1):
        seen = look(current, data.x)
        margins = data.y * seen.outputs
        slope = slopes(loss, margins)
        rows["losses"].append(float(values(loss, margins).mean()))
        rows["slopes"].append(slope)
        rows["outputs"].append(seen.outputs)
        changes = [current[name] - start[name] for name in names]
        rows["spread"].append(np.sqrt(sum(float((change**2).sum()) for change in changes)))
        looked = norms and (k == steps or (k % max(1, steps // 8) == 0 and seen.width <= 128))
        rows["moved"].append([float(k and spectral_norm(change)) if looked else np.nan for change in changes])
        if k == steps or rows["losses"][-1] <= until * rows["losses"][0]:
            break
        chosen = np.arange(n) if batch is None else rng.choice(n, batch, replace=False)
        taken.append(chosen)
        c = np.zeros(n)
        c[chosen] = -(slope * data.y)[chosen] / len(chosen)
        used = gradients(seen, c)
        rows["squares"].append(sum(float((g**2).sum()) for g in used))
        rows["gradient"].append(gradient_norms(seen, c) if norms else [])
        current |= {name: current[name] - eta * g for name, g in zip(names, used, strict=True)}
    return Walk(eta=eta, taken=taken, end=current, **{key: np.array(row) for key, row in rows.items()})
