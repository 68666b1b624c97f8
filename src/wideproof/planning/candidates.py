"""What there is to choose from: networks × activations × depths × preparations, each kind of data with its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from wideproof.data import KINDS, PAPERS_NEED, AnyDataset, parse_steps
from wideproof.errors import InputError
from wideproof.networks import NETWORKS, Network, build, get_activation

ACTIVATIONS = ("softplus", "tanh", "erf", "gelu")
DEPTHS = (1, 2, 3, 6)
# What comes before the step that the network's paper needs (`unit`, `constant` or `pad`).
BEFORE = {
    "vectors": ("", "center", "whiten"),
    "images": ("", "center", "standardize"),
    "sequences": ("", "center", "standardize"),
}
_TWINS = {"residual": "fully-connected", "deep-rnn": "elman-rnn"}  # at depth 1 they are the same network


@dataclass(frozen=True)
class Candidate:
    """One choice: a network by name, its activation if it has the choice, its depth, and preparation steps.

    `start` is one that was asked for, as in `FullyConnected`.

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
        """Return the network for the shape of `data`, with all its outputs or with the first `outputs` of them.

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
    """Return `"vectors"`, `"images"` or `"sequences"`.

    >>> from wideproof.data import load
    >>> kind_of(load("iris"))
    'vectors'
    """
    return next(kind for kind, of in KINDS.items() if isinstance(data, of))


def candidates(
    data: AnyDataset,
    networks: Sequence[str] | None = None,
    activations: Sequence[str] = ACTIVATIONS,
    depths: Sequence[int] = DEPTHS,
    preparations: Sequence[str] | None = None,
) -> list[Candidate]:
    """Return every combination that makes sense, each network once.

    By default all networks for this kind of data, and as loaded, centred or whitened (images and sequences:
    standardized) data, ended by the step that the network's paper needs. A residual network of depth 1 is a
    fully-connected one, and is listed as that.

    Examples
    --------
    >>> from wideproof.data import load
    >>> for one in candidates(load("iris"), ["fully-connected", "residual"], ["tanh"], [1, 2], ["unit"]):
    ...     print(one)
    fully-connected, tanh, depth 1, prepared by unit
    fully-connected, tanh, depth 2, prepared by unit
    residual, tanh, depth 2, prepared by unit
    """
    kind = kind_of(data)
    there = [name for name, made in NETWORKS.items() if made.data_kind == kind]
    chosen = there if networks is None else _distinct(networks, "networks")
    for name in chosen:
        if name not in NETWORKS:
            raise InputError(f"there is no network {name!r}: for {kind} choose among {', '.join(there)}")
        if name not in there:
            raise InputError(
                f"{name} takes {NETWORKS[name].data_kind}, '{data.name}' holds {kind}: choose among {', '.join(there)}"
            )
    smooth = [get_activation(name).name for name in _distinct(activations, "activations")]
    for depth in _distinct(depths, "depths"):
        if depth < 1:
            raise InputError(f"a depth must be a number of hidden layers >= 1, got {depth}")
    for steps in preparations or ():
        parse_steps(steps)
    found = []
    for name in chosen:
        fields = {field.name for field in dataclasses.fields(NETWORKS[name])}
        before = BEFORE[kind] if preparations is None else _distinct(preparations, "preparations")
        need = ",".join(PAPERS_NEED[NETWORKS[name].paper]) if preparations is None else ""
        for steps in before:
            for activation in smooth if "activation" in fields else [None]:
                for depth in _distinct(depths, "depths") if "depth" in fields else [1]:
                    if depth > 1 or _TWINS.get(name) not in chosen:
                        found.append(Candidate(name, activation, depth, ",".join(filter(None, (steps, need)))))
    return found


def _distinct(given: Sequence, what: str) -> list:
    if isinstance(given, str) or not len(given):
        raise InputError(f"{what} must be a list of at least one choice, got {given!r}")
    return list(dict.fromkeys(given))
