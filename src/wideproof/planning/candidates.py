"""A choice in words, network, activation, depth and preparation, and the kind of data that it is for."""

from __future__ import annotations

from dataclasses import dataclass

from wideproof.data import KINDS, AnyDataset
from wideproof.networks import Network, build


@dataclass(frozen=True)
class Candidate:
    """One combination to compare: a network by name, its activation, depth, preparation and start.

    Attributes
    ----------
    network
        Name of the network.
    activation
        Name of the activation; `None` for networks with a fixed one.
    depth
        Number of hidden layers.
    preparation
        Preparation steps, such as `"whiten,unit"`.
    start
        The start of the weights, if one was asked for, as in `FullyConnected`.

    Examples
    --------
    >>> print(Candidate("fully-connected", "tanh", 3, "whiten,unit"))
    fully-connected, tanh, depth 3, prepared by whiten,unit
    """

    network: str
    activation: str | None
    depth: int
    preparation: str
    start: str | None = None

    def build(self, data: AnyDataset, width: int, *, outputs: int | None = None) -> Network:
        """Return the network for the shape of some data.

        Parameters
        ----------
        data
            The prepared data.
        width
            Number of hidden units in each layer.
        outputs
            Number of outputs; by default as many as the targets have.

        Returns
        -------
        Network
            The network.

        Examples
        --------
        >>> from wideproof.data import load
        >>> data = load("sphere:n=4,d=3,separation=0.5")
        >>> Candidate("deep-relu", None, 2, "constant").build(data, width=8).laws()["W1"].shape
        (3, 8)
        """
        target = data.target_shape
        if outputs is not None and target:
            target = (*target[:-1], outputs)
        options: dict[str, object] = {"width": width}
        if self.network != "elman-rnn":
            options["depth"] = self.depth
        if self.activation is not None:
            options["activation"] = self.activation
        if self.start is not None:
            options["start"] = self.start
        return build(self.network, data.input_shape, target, **options)

    def __str__(self) -> str:
        activation = "" if self.activation is None else f", {self.activation}"
        depth = "" if self.network == "elman-rnn" else f", depth {self.depth}"
        start = "" if self.start is None else f", {self.start} start"
        return f"{self.network}{activation}{depth}{start}, prepared by {self.preparation or 'nothing'}"


def kind_of(data: AnyDataset) -> str:
    """Return what the examples are: vectors, images or sequences.

    Parameters
    ----------
    data
        Any data set.

    Returns
    -------
    str
        `"vectors"`, `"images"` or `"sequences"`.

    Examples
    --------
    >>> from wideproof.data import load
    >>> kind_of(load("iris"))
    'vectors'
    """
    return next(kind for kind, of in KINDS.items() if isinstance(data, of))
