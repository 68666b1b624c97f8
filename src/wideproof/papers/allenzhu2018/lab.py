"""The networks, sequences, starts and runs that the statements on recurrent networks share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wideproof.data import SequenceDataset, sequences
from wideproof.monitors.recurrent import Factors, Fresh, Unrolled, backward, fresh, objective, tangent_kernel, unroll
from wideproof.networks import ElmanRNN
from wideproof.papers import study
from wideproof.papers.study import kept
from wideproof.training import Recipe, Run, train_many

N, FEATURES, SEPARATION = 4, 6, 0.5


@dataclass(frozen=True)
class Start:
    r"""A network at its random start, unrolled on its data; `at` moves the recurrent matrix by $W'$."""

    network: ElmanRNN
    params: dict[str, np.ndarray]
    data: SequenceDataset
    seen: Unrolled

    @property
    def losses(self) -> np.ndarray:
        r"""The vectors $\mathrm{loss}_{i,\ell} = B h_{i,\ell} - y^*_{i,\ell}$, `(n, L, d)`."""
        return self.seen.outputs - self.data.y

    @property
    def loss(self) -> float:
        """The objective."""
        return objective(self.seen.outputs, self.data.y)

    @property
    def worst(self) -> float:
        r"""The largest $\|\mathrm{loss}_{i,\ell}\|$, $\ell \ge 2$."""
        return float(np.linalg.norm(self.losses[:, 1:], axis=-1).max())

    @property
    def gradient(self) -> Factors:
        """The gradient, by its factors."""
        return backward(self.seen, self.losses)

    def at(self, change: np.ndarray) -> Start:
        r"""Return the same network at $W + W'$."""
        params = {**self.params, "W": self.params["W"] + change}
        return Start(self.network, params, self.data, unroll(params, self.data.x))


class Lab(study.Lab):
    """Small recurrent networks at their start and in training.

    `lengths` is the other grid over which exponents are fitted; `seeds` are the draws, `many` those for
    quantities that vary much from draw to draw.
    """

    def __init__(self, study: str = "quick", seed: int = 0, widths: Sequence[int] | None = None) -> None:
        super().__init__(study, seed, widths)
        self.width: int = self.pick(512, 1024, 2048)
        self.length: int = 4
        self.lengths: tuple[int, ...] = self.pick((2, 4, 8, 16), (2, 4, 8, 16), (2, 4, 8, 16, 32))
        self.seeds: tuple[int, ...] = tuple(range(self.pick(3, 5, 10)))
        self.many: tuple[int, ...] = tuple(range(self.pick(8, 16, 16)))

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths over which exponents are fitted."""
        return self.grid((128, 256, 512, 1024), (256, 512, 1024, 2048), (512, 1024, 2048, 4096))

    def data(
        self,
        length: int | None = None,
        n: int = N,
        outputs: int = 1,
        tail: str = "random",
        separation: float = SEPARATION,
        features: int = FEATURES,
        unit: bool = False,
    ) -> SequenceDataset:
        r"""Return separated, padded sequences; the pair (0, 1) is exactly `separation` apart.

        `tail` says how tokens after the first are: `random`, `zero` or `shared`. `unit` gives the later tokens norm 1.
        """
        size = self.length if length is None else length

        def make() -> SequenceDataset:
            drawn = sequences(n, size, features, separation, outputs, tail, seed=self.seed)  # pyright: ignore[reportArgumentType]
            if not unit:
                return drawn
            x = drawn.x.copy()
            x[:, 1:] /= np.linalg.norm(x[:, 1:], axis=-1, keepdims=True)
            return SequenceDataset(x, drawn.y, "regression", "sequences")

        return self.keep(("data", size, n, outputs, tail, separation, features, unit), make)

    def network(self, width: int, length: int | None = None, outputs: int = 1, features: int = FEATURES) -> ElmanRNN:
        """Return the network of the paper."""
        return ElmanRNN(features, width, self.length if length is None else length, outputs)

    @kept
    def weights(self, width: int, seed: int = 0, outputs: int = 1, features: int = FEATURES) -> dict[str, np.ndarray]:
        """Draw the weights from the network's own laws; they do not depend on the length."""
        network = self.network(width, outputs=outputs, features=features)
        return self.drawn(network, "weights", width, seed, outputs, features)

    def start(self, width: int, length: int | None = None, seed: int = 0, outputs: int = 1, **data: Any) -> Start:
        """Return the network at the random start with this seed, on the data that the options of `data` describe."""
        size = self.length if length is None else length

        def make() -> Start:
            made = self.data(size, outputs=outputs, **data)
            features = made.x.shape[-1]
            params = self.weights(width, seed, outputs, features)
            return Start(self.network(width, size, outputs, features), params, made, unroll(params, made.x))

        return self.keep(("start", width, size, seed, outputs, *sorted(data.items())), make)

    @kept
    def fresh(self, width: int, length: int | None = None, seed: int = 0, **options: Any) -> Fresh:
        """Return the fresh parts of the hidden states of a start."""
        return fresh(self.start(width, length, seed, **options).seen.h)

    @kept
    def kernel(self, width: int, length: int | None = None, seed: int = 0, **options: Any) -> np.ndarray:
        """Return the tangent kernel of a start."""
        return tangent_kernel(self.start(width, length, seed, **options).seen)

    def training_data(self) -> SequenceDataset:
        """Return the sequences that are trained: four of length 3, first tokens 1 apart, later ones of norm 1."""
        return self.data(3, separation=1.0, unit=True)

    @kept
    def runs(self, width: int, batch: int | None = None, steps: int = 600, constant: float = 1.0) -> list[Run]:
        r"""Train on `training_data` by gradient descent, or by SGD with minibatches.

        The step size is `constant` over the largest $\lambda_{\max}(K)$ of the starts, or with minibatches of $b$ of
        $n$ sequences `constant` $\cdot b / (n \max_i \lambda_{\max}(K_{ii}))$ where that is less.
        """
        data = self.training_data()
        network = self.network(width, data.x.shape[1])
        seeds = self.many
        kernels = [tangent_kernel(unroll(network.init(seed), data.x)) for seed in seeds]
        step_size = constant * min(step_limit(kernel, data.n, batch) for kernel in kernels)
        recipe = Recipe(steps=steps, step_size=step_size, batch=batch, record_every=1, check_every=1)
        return train_many(network, data, recipe, seeds=seeds)


def rho(seen: Unrolled) -> float:
    r"""Return $\rho = n L d \log m$."""
    return float(seen.n * seen.length * seen.B.shape[0] * np.log(seen.width))


def step_limit(kernel: np.ndarray, n: int, batch: int | None = None) -> float:
    r"""Return $1/\lambda_{\max}(K)$, or with batches of $b$ at most $b / (n \max_i \lambda_{\max}(K_{ii}))$."""
    whole = float(np.linalg.eigvalsh(kernel)[-1])
    if batch is None:
        return 1 / whole
    size = len(kernel) // n
    own = max(float(np.linalg.eigvalsh(kernel[k : k + size, k : k + size])[-1]) for k in range(0, n * size, size))
    return min(1 / whole, batch / (n * own))
