"""Recurrent networks: the Elman RNN of Allen-Zhu et al. (2018), and their extension to several recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from wideproof.networks.base import Gaussian, Law, require_groups, require_positive
from wideproof.networks.families import SequenceNetwork
from wideproof.networks.graph import Graph
from wideproof.networks.mirrored import begin, begun
from wideproof.networks.starts import NORMAL


@final
@dataclass(frozen=True)
class ElmanRNN(SequenceNetwork):
    r"""The Elman recurrent network of Allen-Zhu, Li and Song (2018), Section 2.

    $$ h_0 = 0, \qquad h_\ell = \phi(W h_{\ell-1} + A x_\ell), \qquad y_\ell = B h_\ell, \qquad \ell = 1..L, $$

    entries of $W$ and $A$ are $N(0, 2/m)$, of $B$ are $N(0, 1/d)$ ($d$ = `outputs`), $\phi'(0) = 1$. Only $W$ is
    trained; $B h_1$ then never moves, so the loss counts $\ell \ge 2$ (`scored`).
    `trained=("recurrent", "input", "output")` trains $A$ and $B$ as well.

    Two other starts have $y = 0$ (`mirrored`). With `"doubled"` units $j$ and $j + m/2$ are equal at every time and the
    entries of $B$ are $\pm 1/\sqrt d$, opposite for the two; with `"zero"` $B = 0$, which then has to be trained.

    Parameters
    ----------
    input_dim
        Length of the input vector at one time step.
    width
        Number of hidden units, $m$.
    length
        Number of time steps, $L$.
    outputs
        Number of outputs at each time step, $d$.
    trained
        Groups of weights that gradient descent moves: `"recurrent"` and optionally `"input"`, `"output"`.
    start
        How the initial weights are drawn: `"normal"`, `"doubled"` or `"zero"`.
    alpha
        Factor $\alpha$ of the outputs; 1 in the papers.

    Examples
    --------
    >>> network = ElmanRNN(input_dim=4, width=8, length=3)
    >>> {name: weight.shape for name, weight in network.init(0).items()}
    {'W': (8, 8), 'A': (8, 4), 'B': (1, 8)}
    """

    name = "elman-rnn"
    equation = "Section 2"
    groups = ("recurrent", "input", "output")

    input_dim: int
    width: int
    length: int
    outputs: int = 1
    trained: tuple[str, ...] = ("recurrent",)
    start: str = NORMAL

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_sequences()
        require_positive(self, width=self.width, outputs=self.outputs)
        require_groups(self, self.trained)
        begin(self, self.start, [self.width], self.trained)

    def laws(self) -> dict[str, Law]:
        """Return the law of each parameter at the start."""
        laws = {
            "W": Gaussian((self.width, self.width), 2 / self.width),
            "A": Gaussian((self.width, self.input_dim), 2 / self.width),
            "B": Gaussian((self.outputs, self.width), 1 / self.outputs),
        }
        return begun(laws, self.start, "A")

    def group(self, name: str) -> str:
        """Return the part of the network that parameter `name` belongs to.

        Parameters
        ----------
        name
            Name of a parameter.

        Returns
        -------
        str
            Name of the group.
        """
        return {"W": "recurrent", "A": "input", "B": "output"}[name]

    def describe(self) -> Graph:
        """Return the layer."""
        return self.layered([("W", "A")])


@final
@dataclass(frozen=True)
class DeepRNN(SequenceNetwork):
    r"""Several recurrent layers, the extension named by Allen-Zhu, Li and Song (2018).

    $$ h^{(j)}_\ell = \phi(W_j h^{(j)}_{\ell-1} + A_j h^{(j-1)}_\ell), \qquad h^{(0)}_\ell = x_\ell, \qquad
       y_\ell = B h^{(J)}_\ell $$

    The initial weights have the laws of the one-layer network, `ElmanRNN`.

    Parameters
    ----------
    input_dim
        Length of the input vector at one time step.
    width
        Number of hidden units in each layer, $m$.
    length
        Number of time steps, $L$.
    depth
        Number of recurrent layers, $J$.
    outputs
        Number of outputs at each time step.
    trained
        Groups of weights that gradient descent moves: `"recurrent"` ($W_1..W_J$) and optionally `"input"` ($A_1$),
        `"between"` ($A_2..A_J$), `"output"` ($B$).
    start
        How the initial weights are drawn: `"normal"`, `"doubled"` or `"zero"`, as in `ElmanRNN`.
    alpha
        Factor $\alpha$ of the outputs; 1 in the papers.

    Examples
    --------
    >>> list(DeepRNN(input_dim=4, width=8, length=3, depth=2).init(0))
    ['A1', 'W1', 'A2', 'W2', 'B']
    """

    name = "deep-rnn"
    equation = "Section 1 (extension)"
    groups = ("recurrent", "input", "between", "output")

    input_dim: int
    width: int
    length: int
    depth: int = 2
    outputs: int = 1
    trained: tuple[str, ...] = ("recurrent",)
    start: str = NORMAL

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_sequences()
        require_positive(self, width=self.width, depth=self.depth, outputs=self.outputs)
        require_groups(self, self.trained)
        begin(self, self.start, [self.width], self.trained)

    def laws(self) -> dict[str, Law]:
        """Return the law of each parameter at the start."""
        laws: dict[str, Law] = {}
        for j in range(1, self.depth + 1):
            fan_in = self.input_dim if j == 1 else self.width
            laws[f"A{j}"] = Gaussian((self.width, fan_in), 2 / self.width)
            laws[f"W{j}"] = Gaussian((self.width, self.width), 2 / self.width)
        laws["B"] = Gaussian((self.outputs, self.width), 1 / self.outputs)
        return begun(laws, self.start, "A1")

    def group(self, name: str) -> str:
        """Return the part of the network that parameter `name` belongs to.

        Parameters
        ----------
        name
            Name of a parameter.

        Returns
        -------
        str
            Name of the group.
        """
        if name == "B":
            return "output"
        return "recurrent" if name[0] == "W" else "input" if name == "A1" else "between"

    def describe(self) -> Graph:
        """Return the layers."""
        return self.layered([(f"W{j}", f"A{j}") for j in range(1, self.depth + 1)])
