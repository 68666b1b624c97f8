"""What the networks of one paper share: Du's trained read-out, Zou's and Frei's fixed signs, Allen-Zhu's sequences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from wideproof.errors import InputError
from wideproof.networks.activations import RELU_CLOSED, Activation
from wideproof.networks.base import Balanced, Gaussian, Law, Network, Outputs, require_positive
from wideproof.networks.graph import Graph, Recurrent, chain
from wideproof.networks.limit import LayeredLimit
from wideproof.networks.maps import IDENTITY_MAP, Identity
from wideproof.networks.mirrored import begin, begun
from wideproof.networks.starts import NORMAL, require_scale


@dataclass(frozen=True)
class PaperNetwork(Network):
    r"""A network of one of the papers, with its outputs multiplied by $\alpha$.

    `alpha` is 1 in the papers. Where $f = 0$ at the start, gradient descent on $\alpha f$ with step size
    $\eta / \alpha^2$ takes the same steps as gradient descent on $f$ with targets $y / \alpha$: the larger $\alpha$,
    the less the weights move (lazy training, Chizat and Bach 2018). The Gram matrix is $\alpha^2$ times that of $f$.

    Parameters
    ----------
    alpha
        Factor $\alpha$ of the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.networks import Residual
    >>> one, ten = (Residual(input_dim=3, width=8, depth=2, alpha=alpha) for alpha in (1.0, 10.0))
    >>> params, x = one.init(0), np.eye(3)
    >>> bool(np.allclose(ten(params, x), 10 * one(params, x))), str(ten)[-12:]
    (True, ' alpha=10.0)')
    """

    alpha: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", require_scale(self.alpha))

    @cached_property
    def graph(self) -> Graph:
        """The layers of the network, and the scale of its outputs: its one description, from which the rest follows."""
        return replace(self.describe(), alpha=self.alpha)


@dataclass(frozen=True)
class SmoothNetwork(PaperNetwork):
    """Networks of Du et al. (2019): standard normal weights `W1..WH` and a trained read-out `a`."""

    paper = "du2019"

    @property
    @abstractmethod
    def read_out_shape(self) -> tuple[int, ...]:
        """Shape of the last features, which `a` is paired with."""

    @abstractmethod
    def fan_ins(self) -> list[int]:
        """Return how many inputs a unit of each hidden layer has."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the outputs for one example; `()` for a single number."""
        outputs: int = self.outputs  # pyright: ignore[reportAttributeAccessIssue]
        return () if outputs == 1 else (outputs,)

    def laws(self) -> dict[str, Law]:
        """Return the law of each parameter at the start."""
        width = self.read_out_shape[0]
        laws: dict[str, Law] = {f"W{h}": Gaussian((width, d), 1.0) for h, d in enumerate(self.fan_ins(), 1)}
        laws["a"] = Gaussian((*self.output_shape, *self.read_out_shape), 1.0)
        return laws

    def layered(self, scales: Sequence[float], skips: Sequence[int] = (), phi: Identity = IDENTITY_MAP) -> Graph:
        """Return the graph of a chain of layers with these scales and skips."""
        names = [f"W{h}" for h in range(1, len(scales) + 1)]
        activation: Activation = self.activation  # pyright: ignore[reportAttributeAccessIssue]
        nodes, outputs = chain(names, activation, scales, skips, phi), self.output_shape[0] if self.output_shape else 1
        return Graph(self.input_shape, nodes, "a", (len(nodes) - 1,), outputs, self.trained_names)

    def limit(self) -> LayeredLimit:
        """Return the layers of this network at infinite width."""
        found = super().limit()
        assert isinstance(found, LayeredLimit)
        return found

    def group(self, name: str) -> str:
        """Return the part of the network that parameter `name` belongs to."""
        return "output" if name == "a" else "hidden"


@dataclass(frozen=True)
class SignedNetwork(PaperNetwork):
    """Classifiers of Zou et al. (2018) and Frei et al. (2019): units are columns, N(0, 2/fan-out), fixed signs `v`.

    `start` is `"normal"`, the papers', or `"doubled"` or `"zero"` (`mirrored`).
    """

    units = "columns"

    start: str = field(default=NORMAL, kw_only=True)

    @abstractmethod
    def sizes(self) -> list[int]:
        """Return the input dimension and the width of every layer."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one example."""
        return (self.sizes()[0],)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the outputs for one example."""
        return ()

    def laws(self) -> dict[str, Law]:
        """Return the law of each parameter at the start."""
        sizes = self.sizes()
        laws: dict[str, Law] = {f"W{i}": Gaussian((sizes[i - 1], sizes[i]), 2 / sizes[i]) for i in range(1, len(sizes))}
        laws["v"] = Balanced((sizes[-1],))
        return begun(laws, self.start, "W1", columns=True)

    def layered(self, activation: Activation, scales: Sequence[float], skips: Sequence[int] = ()) -> Graph:
        """Return the graph of a chain of layers with these scales and skips."""
        nodes = chain([f"W{i}" for i in range(1, len(scales) + 1)], activation, scales, skips)
        return Graph(self.input_shape, nodes, "v", (len(nodes) - 1,), 1, self.trained_names, columns=True)

    def group(self, name: str) -> str:
        """Return the part of the network that parameter `name` belongs to."""
        return "output" if name == "v" else "hidden"

    def require_balanced(self) -> None:
        """Check that half of the output signs can be +1, and that the start is one of these networks'."""
        width = self.sizes()[-1]
        if width % 2:
            raise InputError(
                f"{self.name} needs an even width, since half of the fixed output signs are +1 and half -1; "
                f"got {width}: use {width + 1}"
            )
        trained: tuple[str, ...] = self.trained  # pyright: ignore[reportAttributeAccessIssue]
        begin(self, self.start, self.sizes()[1:], trained)


@dataclass(frozen=True)
class SequenceNetwork(PaperNetwork):
    """Recurrent networks of Allen-Zhu et al. (2018): one output at every step, the loss from the second on."""

    paper = "allenzhu2018"
    data_kind = "sequences"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one example: length by features."""
        return (self.length, self.input_dim)  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the outputs for one example: length by outputs."""
        return (self.length, self.outputs)  # pyright: ignore[reportAttributeAccessIssue]

    def layered(self, names: Sequence[tuple[str, str]]) -> Graph:
        """Return the graph of recurrent layers with these recurrent and incoming weights, one behind the other."""
        nodes = tuple(Recurrent(w, a, j - 1, RELU_CLOSED) for j, (w, a) in enumerate(names))
        length, outputs = self.output_shape
        shape = (self.input_shape[1],)
        return Graph(shape, nodes, "B", (len(nodes) - 1,), outputs, self.trained_names, times=length)

    def scored(self, outputs: Outputs) -> Outputs:
        """Return steps 2..L: the first output does not depend on the recurrent weights."""
        return outputs[:, 1:]

    def require_sequences(self) -> None:
        """Check that the paper's sequences exist in these sizes."""
        length, input_dim = self.input_shape
        require_positive(self, input_dim=input_dim, length=length)
        if length < 2:
            raise InputError(
                f"{self.name} needs sequences of length 2 or more, got length {length}: "
                "the loss starts at the second step"
            )
        if input_dim < 2:
            raise InputError(
                f"{self.name} needs tokens of 2 or more features, got {input_dim}: a first token of norm 1 with last "
                "coordinate 1/sqrt(2) does not exist in one dimension; prepare the data with `pad`"
            )
