"""Residual networks: smooth (Du et al. 2019, eq. 3), ReLU (Frei et al. 2019), convolutional (Du et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

from wideproof.errors import InputError
from wideproof.networks.activations import RELU_CLOSED, SOFTPLUS, Named
from wideproof.networks.base import Law, Network, require_groups, require_positive
from wideproof.networks.families import SignedNetwork, SmoothNetwork
from wideproof.networks.graph import Graph
from wideproof.networks.maps import same
from wideproof.networks.mirrored import begin, begun
from wideproof.networks.starts import NORMAL


@final
@dataclass(frozen=True)
class Residual(SmoothNetwork):
    r"""A residual network with a smooth activation: Du et al. (2019), eq. (3).

    $$ x^{(1)} = \sqrt{c_\sigma/m}\,\sigma(W^{(1)} x), \qquad
       x^{(h)} = x^{(h-1)} + \frac{c_{res}}{H\sqrt m}\,\sigma(W^{(h)} x^{(h-1)}), \quad h = 2..H, \qquad
       f = a^\top x^{(H)}, $$

    all entries $N(0, 1)$, all trained, $0 < c_{res} < 1$ in the theorem (larger values are allowed).

    With two other starts, $f = 0$ before the first step (`mirrored`). With `"doubled"`, units $j$ and $j + m/2$ are
    equal in every layer and the entries of $a$ are random signs, opposite for the two units; with `"zero"`, $a = 0$.

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
    c_res
        The constant $c_{res}$ of the residual branches; positive.
    outputs
        Number of outputs; with 1, the network returns one number for each example.
    trained
        Groups of weights that gradient descent moves: `"hidden"`, `"output"`, or both.
    start
        How the initial weights are drawn: `"normal"`, `"doubled"` or `"zero"`.
    alpha
        Factor $\alpha$ of the outputs; 1 in the papers.

    Examples
    --------
    >>> len(Residual(input_dim=3, width=8, depth=4).init(0))
    5
    """

    name = "residual"
    equation = "eq. (3)"

    input_dim: int
    width: int
    depth: int
    activation: Named = SOFTPLUS
    c_res: float = 0.5
    outputs: int = 1
    trained: tuple[str, ...] = ("hidden", "output")
    start: str = NORMAL

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, input_dim=self.input_dim, width=self.width, depth=self.depth, outputs=self.outputs)
        _require_scale(self, "c_res", self.c_res)
        require_groups(self, self.trained)
        begin(self, self.start, [self.width], self.trained)

    def laws(self) -> dict[str, Law]:
        """Return the law of each parameter at the start."""
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
        inner = self.c_res / (self.depth * math.sqrt(self.width))
        scales = [math.sqrt(self.activation.c_sigma / self.width)] + [inner] * (self.depth - 1)
        return self.layered(scales, skips=range(1, self.depth))


@final
@dataclass(frozen=True)
class ConvResidual(SmoothNetwork):
    r"""The convolutional residual network of Du et al. (2019), Section 7.

    Inputs are `channels x pixels`; $\phi$ gathers the `filter_size` pixels around each pixel (stride 1, zero
    padding), channel by channel:

    $$ x^{(1)} = \sqrt{c_\sigma/m}\,\sigma(W^{(1)} \phi(x)), \qquad
       x^{(h)} = x^{(h-1)} + \frac{c_{res}}{H\sqrt m}\,\sigma(W^{(h)} \phi(x^{(h-1)})), \qquad
       f = \langle a, x^{(H)} \rangle, $$

    $W^{(1)}: m \times q d_0$, $W^{(h)}: m \times q m$, $a: m \times p$, all entries $N(0, 1)$, all trained.
    `filter_size` must be odd: the paper leaves the padding of even windows open.

    Two other starts have $f = 0$ (`mirrored`). With `"doubled"` channels $j$ and $j + m/2$ are equal in every layer and
    the entries of $a$ are random signs, opposite for the two at every pixel; with `"zero"` $a = 0$.

    Parameters
    ----------
    channels
        Number of channels of an input, $d_0$.
    pixels
        Number of positions of an input, $p$.
    width
        Number of channels of each hidden layer, $m$.
    depth
        Number of hidden layers, $H$.
    filter_size
        Number of pixels $q$ that a filter sees; odd, because the paper leaves the padding of even windows open.
    activation
        The activation $\sigma$: its name or an `Activation`; softplus by default.
    c_res
        The constant $c_{res}$ of the residual branches; positive.
    outputs
        Number of outputs; with 1, the network returns one number for each example.
    trained
        Groups of weights that gradient descent moves: `"hidden"`, `"output"`, or both.
    start
        How the initial weights are drawn: `"normal"`, `"doubled"` or `"zero"`.
    alpha
        Factor $\alpha$ of the outputs; 1 in the papers.

    Examples
    --------
    >>> network = ConvResidual(channels=2, pixels=4, width=8, depth=2)
    >>> {name: weight.shape for name, weight in network.init(0).items()}
    {'W1': (8, 6), 'W2': (8, 24), 'a': (8, 4)}
    """

    name = "conv-residual"
    equation = "Section 7"
    data_kind = "images"

    channels: int
    pixels: int
    width: int
    depth: int
    filter_size: int = 3
    activation: Named = SOFTPLUS
    c_res: float = 0.5
    outputs: int = 1
    trained: tuple[str, ...] = ("hidden", "output")
    start: str = NORMAL

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(
            self, channels=self.channels, pixels=self.pixels, width=self.width, depth=self.depth,
            filter_size=self.filter_size, outputs=self.outputs,
        )  # fmt: skip
        if self.filter_size % 2 == 0:
            raise InputError(
                f"conv-residual needs an odd filter_size, since the paper leaves the padding of even windows open; "
                f"got {self.filter_size}: use {self.filter_size + 1}"
            )
        _require_scale(self, "c_res", self.c_res)
        require_groups(self, self.trained)
        begin(self, self.start, [self.width], self.trained)

    def laws(self) -> dict[str, Law]:
        """Return the law of each parameter at the start."""
        return begun(super().laws(), self.start, "W1", positions=True)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one example: channels by pixels."""
        return (self.channels, self.pixels)

    @property
    def read_out_shape(self) -> tuple[int, ...]:
        """Shape of the last features."""
        return (self.width, self.pixels)

    def fan_ins(self) -> list[int]:
        """Return how many inputs a unit of each hidden layer has."""
        return [self.filter_size * c for c in [self.channels] + [self.width] * (self.depth - 1)]

    def describe(self) -> Graph:
        """Return the layers."""
        inner = self.c_res / (self.depth * math.sqrt(self.width))
        scales = [math.sqrt(self.activation.c_sigma / self.width)] + [inner] * (self.depth - 1)
        return self.layered(scales, skips=range(1, self.depth), phi=same((self.pixels,), self.filter_size))


@final
@dataclass(frozen=True)
class ResidualReLU(SignedNetwork):
    r"""The deep residual classifier of Frei et al. (2019).

    $$ x_1 = \sigma(W_1^\top x), \quad x_l = x_{l-1} + \theta\,\sigma(W_l^\top x_{l-1}) \ (2 \le l \le L), \quad
       x_{L+1} = \sigma(W_{L+1}^\top x_L), \quad f_W(x) = v^\top x_{L+1}, $$

    entries of $W_l$ are $N(0, 2/m)$ (fan-out, the first layer too), $v$ is fixed, half $+1$ and half $-1$, and
    $\sigma'(0) = 1$. `depth` is the paper's $L$: there are $L + 1$ weight layers. The last one may have a width
    $m_{L+1}$ of its own (`last_width`), with entries $N(0, 2/m_{L+1})$.
    `residual_scale` is $\theta$. The paper asks for $\theta = 1/\Omega(L)$; by default it is $1/L$, which trains well,
    but is larger than the proofs allow: they need about $\theta L \le 0.22\gamma$, $\gamma$ the margin of the data
    (Lemma C.5), and for the number 1.01 in Lemma B.2 even $\theta L \le 0.0035$. The paper's statements are checked at
    $\theta L = 0.025$. With `start="doubled"` units $j$ and $j + m/2$ are equal in every
    layer, and as $v$ has opposite signs for them, $f = 0$ (`mirrored`).

    Parameters
    ----------
    input_dim
        Length of an input vector.
    width
        Number of hidden units in each layer, $m$.
    depth
        The paper's $L$: there are $L + 1$ layers of weights.
    residual_scale
        The factor $\theta$ of the residual branches; by default $1/L$.
    last_width
        Number of units of the last layer, $m_{L+1}$; by default that of the others.
    trained
        Groups of weights that gradient descent moves: `"hidden"`, `"output"`, or both.
    alpha
        Factor $\alpha$ of the outputs; 1 in the papers.
    start
        How the initial weights are drawn: `"normal"` or `"doubled"`.

    Examples
    --------
    >>> list(ResidualReLU(input_dim=3, width=8, depth=2).init(0))
    ['W1', 'W2', 'W3', 'v']
    >>> {name: weight.shape for name, weight in ResidualReLU(3, 8, 2, last_width=4).init(0).items()}
    {'W1': (3, 8), 'W2': (8, 8), 'W3': (8, 4), 'v': (4,)}
    """

    name = "residual-relu"
    paper = "frei2019"
    equation = "Section 3"

    input_dim: int
    width: int
    depth: int
    residual_scale: float | None = None
    trained: tuple[str, ...] = ("hidden",)
    last_width: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, input_dim=self.input_dim, width=self.width, depth=self.depth)
        if self.last_width is not None:
            require_positive(self, last_width=self.last_width)
        self.require_balanced()
        if self.residual_scale is not None and not (math.isfinite(self.residual_scale) and self.residual_scale >= 0):
            raise InputError(f"residual-relu needs residual_scale >= 0, got {self.residual_scale}: use 1/L or less")
        require_groups(self, self.trained)

    @property
    def theta(self) -> float:
        r"""The scale $\theta$ of the residual branch."""
        return 1 / self.depth if self.residual_scale is None else self.residual_scale

    def sizes(self) -> list[int]:
        """Return the input dimension and the width of every layer."""
        return [self.input_dim] + [self.width] * self.depth + [self.last_width or self.width]

    def describe(self) -> Graph:
        """Return the layers."""
        return self.layered(RELU_CLOSED, [1.0, *[self.theta] * (self.depth - 1), 1.0], skips=range(1, self.depth))


def _require_scale(network: Network, key: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{network.name} needs {key} > 0 (the theorem: between 0 and 1), got {value}")
