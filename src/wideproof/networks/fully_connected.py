"""Fully-connected networks: smooth (Du et al. 2019, eq. 2) and deep ReLU (Zou et al. 2018, Section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from wideproof.errors import InputError
from wideproof.networks.activations import RELU, SOFTPLUS, Named
from wideproof.networks.base import Law, require_groups, require_positive
from wideproof.networks.families import SignedNetwork, SmoothNetwork
from wideproof.networks.graph import Graph
from wideproof.networks.mirrored import begun
from wideproof.networks.starts import (
    DOUBLED,
    NORMAL,
    ZERO,
    positive_laws,
    require_even,
    require_positive_start,
    scale_of,
    written,
)


@final
@dataclass(frozen=True)
class FullyConnected(SmoothNetwork):
    r"""A fully-connected network with a smooth activation: Du et al. (2019), eq. (2).

    $$ x^{(h)} = \sqrt{c_\sigma / m}\; \sigma(W^{(h)} x^{(h-1)}), \quad h = 1..H,
       \qquad f(\theta, x) = a^\top x^{(H)} $$

    Every entry of $W^{(h)}$ and $a$ is drawn from $N(0, 1)$, and all are trained. With `outputs = k > 1` the vector $a$
    becomes a $k \times m$ matrix.

    There are three other starts (`starts`). With `"doubled"`, hidden units come in equal pairs with output weights 1
    and -1, so $f = 0$ before the first step (`mirrored`). With `"zero"`, $a = 0$ and so $f = 0$. With `"positive(A)"`,
    Chatterjee's start, $W^{(1)} = 0$, $W^{(h)} = \sqrt m\, I$, and all entries of $a$ equal A (1 by default).

    `alpha` multiplies the outputs, $f = \alpha\, a^\top x^{(H)}$ (`families`). The proof ratio then behaves like that
    of a network $\alpha^2$ times as wide.

    Parameters
    ----------
    input_dim
        Length of an input vector.
    width
        Number of hidden units in each layer, $m$.
    depth
        Number of hidden layers, $H$.
    activation
        The activation $\sigma$: its name or an `Activation`; softplus by default.
    outputs
        Number of outputs; with 1, the network returns one number for each example.
    trained
        Groups of weights that gradient descent moves: `"hidden"`, `"output"`, or both.
    start
        How the initial weights are drawn: `"normal"`, `"doubled"`, `"zero"`, or `"positive(A)"` with a number A.
    alpha
        Factor $\alpha$ of the outputs; 1 in the papers.

    Examples
    --------
    >>> network = FullyConnected(input_dim=3, width=8, depth=2)
    >>> params = network.init(seed=0)
    >>> {name: weight.shape for name, weight in params.items()}
    {'W1': (8, 3), 'W2': (8, 8), 'a': (8,)}
    >>> positive = FullyConnected(input_dim=3, width=4, depth=2, activation="tanh", start="positive(10)")
    >>> [positive.init(0)[name][0].tolist() for name in ("W1", "W2", "a")]
    [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0], 10.0]
    """

    name = "fully-connected"
    equation = "eq. (2)"

    input_dim: int
    width: int
    depth: int
    activation: Named = SOFTPLUS
    outputs: int = 1
    trained: tuple[str, ...] = ("hidden", "output")
    start: str = NORMAL

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, input_dim=self.input_dim, width=self.width, depth=self.depth, outputs=self.outputs)
        require_groups(self, self.trained)
        object.__setattr__(self, "start", written(self.start))
        if self.start == DOUBLED:
            require_even(self.width)
        elif self.start not in (NORMAL, ZERO):
            require_positive_start(self.activation, self.outputs)

    @property
    def start_scale(self) -> float | None:
        """The scale of the positive start; `None` for the others."""
        return scale_of(self.start)

    def laws(self) -> dict[str, Law]:
        """Return the law of each parameter at the start."""
        scale = self.start_scale
        if scale is not None:
            return positive_laws(self.input_dim, self.width, self.depth, scale)
        return begun(super().laws(), self.start, "W1")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return (self.input_dim,)

    @property
    def read_out_shape(self) -> tuple[int, ...]:
        """Shape of the last features."""
        return (self.width,)

    def fan_ins(self) -> list[int]:
        """Return how many inputs a unit of each hidden layer has."""
        return [self.input_dim] + [self.width] * (self.depth - 1)

    def describe(self) -> Graph:
        """Return the layers."""
        scale = math.sqrt(self.activation.c_sigma / self.width)
        return self.layered([scale] * self.depth)


@final
@dataclass(frozen=True)
class DeepReLU(SignedNetwork):
    r"""The deep ReLU classifier of Zou et al. (2018), Section 3.

    $$ x_l = \sigma(W_l^\top x_{l-1}), \quad l = 1..L, \qquad f_W(x) = v^\top x_L, $$

    $W_l \in \mathbb{R}^{m_{l-1} \times m_l}$ with independent $N(0, 2/m_l)$ entries (fan-out, the first layer too), $v$
    fixed with half its entries $+1$ and half $-1$, and $\sigma'(0) = 0$. The theorems suppose that no width is more
    than twice another ($M \le 2m$, Assumption 3.6), which is not enforced. `trained=("hidden", "output")` also trains
    $v$.

    Parameters
    ----------
    input_dim
        Length of an input vector.
    width
        Number of hidden units $m$: one number, or one for each layer.
    depth
        Number of hidden layers, $L$.
    trained
        Groups of weights that gradient descent moves: `"hidden"`, `"output"`, or both.
    alpha
        Factor $\alpha$ of the outputs; 1 in the papers.
    start
        How the initial weights are drawn: `"normal"` or `"doubled"`.

    Examples
    --------
    >>> DeepReLU(input_dim=3, width=8, depth=2).init(0)["v"].sum().item()
    0.0
    """

    name = "deep-relu"
    paper = "zou2018"
    equation = "Section 3"

    input_dim: int
    width: int | tuple[int, ...]
    depth: int
    trained: tuple[str, ...] = ("hidden",)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, input_dim=self.input_dim, depth=self.depth)
        if isinstance(self.width, tuple) and len(self.width) != self.depth:
            raise InputError(
                f"deep-relu of depth {self.depth} needs one width or {self.depth} of them, got {self.width}"
            )
        for width in self.widths:
            require_positive(self, width=width)
        self.require_balanced()
        require_groups(self, self.trained)

    @property
    def widths(self) -> tuple[int, ...]:
        r"""The widths $m_1, \dots, m_L$."""
        return self.width if isinstance(self.width, tuple) else (self.width,) * self.depth

    def sizes(self) -> list[int]:
        """Return the input dimension and the width of every layer."""
        return [self.input_dim, *self.widths]

    def describe(self) -> Graph:
        """Return the layers."""
        return self.layered(RELU, [1.0] * self.depth)
