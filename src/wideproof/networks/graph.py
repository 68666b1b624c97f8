r"""The one description of a network, from which everything else follows.

$$ z_k = \sum_t M_t\, \varphi_t(x_{\mathrm{src}(t)}), \qquad x_k = [x_{\mathrm{skip}}] + s_k\, \sigma_k(z_k), \qquad
   f = \alpha\, C\, x_{\mathrm{site}} + c, $$

a term's matrix $M_t$ being trained or fixed (or the identity), its source an earlier node or the input, and $\varphi$
one of the maps of `maps`; $\alpha$ is 1 in the papers. A bias is a weight that meets the constant 1. Forward passes,
the records of the Gram matrix, limits, enclosures and Lipschitz constants are all read off it. Recurrent layers are a
node of their own, which runs over the positions; for bounds they are unrolled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from wideproof.errors import InputError
from wideproof.networks.activations import IDENTITY, Activation, get_activation
from wideproof.networks.maps import FLAT, IDENTITY_MAP, ONES, Identity, Ones, Sizes, map_from_dict, map_to_dict

Linear = Callable[[str, Array], Array]
Read = tuple[int, Identity, Sizes]


@dataclass(frozen=True)
class Term:
    """One use of a weight, or of the identity, in a node.

    Attributes
    ----------
    weight
        Name of the weight; `None` is the identity.
    source
        The node to read, or `-1 - t` for the input at time t.
    map
        The map that the source goes through before it meets the weight.
    """

    weight: str | None
    source: int
    map: Identity = IDENTITY_MAP

    @property
    def moves(self) -> bool:
        """Whether what the weight multiplies depends on the source at all."""
        return not isinstance(self.map, Ones)


def bias(name: str) -> Term:
    """Return the use of a bias."""
    return Term(name, -1, ONES)


@dataclass(frozen=True)
class Node:
    """A layer: the sum of its terms, an activation, a scale; `skip` is the value that is added behind it."""

    terms: tuple[Term, ...]
    activation: Activation = IDENTITY
    scale: float = 1.0
    skip: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.scale < math.inf:
            raise InputError(f"the scale of a layer must be a number of at least 0, got {self.scale}")

    def run(self, linear: Linear, values: Mapping[int, Array]) -> Array:
        """Return the value of the node."""
        moving = (term for term in self.terms if term.moves)
        z = _sum(_meet(linear, term, values[term.source]) for term in moving)
        for term in self.terms:
            if not term.moves:
                assert term.weight is not None
                z = z + linear(term.weight, jnp.ones((*z.shape[:-1], 1), z.dtype))
        value = self.activation(z)
        value = value if self.scale == 1 else self.scale * value
        return value if self.skip is None else values[self.skip] + value


@dataclass(frozen=True)
class Recurrent:
    r"""A recurrent layer over the positions of its source: $h_\ell = \sigma(W h_{\ell-1} + A x_\ell)$, $h_0 = 0$."""

    recurrent: str
    incoming: str
    source: int
    activation: Activation

    def run(self, linear: Linear, values: Mapping[int, Array]) -> Array:
        """Return the value of the node: one use of $A$, one of $W$ for every step from the second on."""
        drive = linear(self.incoming, values[self.source])
        steps = [self.activation(drive[:, 0])]
        for t in range(1, drive.shape[1]):
            steps.append(self.activation(linear(self.recurrent, steps[-1]) + drive[:, t]))
        return jnp.stack(steps, axis=1)


def _sum(parts: Iterator[Array]) -> Array:
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def _meet(linear: Linear, term: Term, value: Array) -> Array:
    gathered = term.map.gather(value)
    return gathered if term.weight is None else linear(term.weight, gathered)


@dataclass(frozen=True)
class Graph:
    """A network as a list of nodes, and a read-out of one or more of them.

    Attributes
    ----------
    shape
        The shape of the input as `(features, *grid)`: the numbers at one position, and the grid of positions.
    nodes
        The layers, in the order of the forward pass; a node reads earlier nodes or the input.
    read_out
        Name of the read-out's weight.
    sites
        The nodes to which the read-out is applied.
    outputs
        Number of outputs of the read-out.
    trained
        Names of the weights that gradient descent moves.
    bias
        Name of the read-out's bias, if it has one.
    times
        Number of time steps of a recurrent network; 0 for others.
    columns
        Whether the weights have one column for each unit instead of one row.
    alpha
        Factor of the outputs. In the unrolled graph it is part of the scale of a node.

    Examples
    --------
    >>> graph = Graph((2,), chain(["U"], IDENTITY, [0.5]), "C", (0,), 1, ("U", "C"), alpha=10.0)
    >>> graph.unrolled.nodes[0].scale, graph.unrolled.alpha
    (5.0, 1.0)
    """

    shape: Sizes
    nodes: tuple[Node | Recurrent, ...]
    read_out: str
    sites: tuple[int, ...]
    outputs: int
    trained: tuple[str, ...]
    bias: str | None = None
    times: int = 0
    columns: bool = False
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not self.nodes or not self.sites or self.outputs < 1:
            raise InputError("a network needs at least one layer before its read-out, and an output")
        for k, node in enumerate(self.nodes):
            sources = [node.source] if isinstance(node, Recurrent) else [t.source for t in node.terms]
            if isinstance(node, Node):
                sources += [] if node.skip is None else [node.skip]
                if not any(t.moves for t in node.terms):
                    raise InputError(f"layer {k + 1} reads no earlier value")
            if max(sources) >= k or min(sources) < -1 - max(self.times - 1, 0):
                raise InputError(f"layer {k + 1} reads a value that does not come before it")
        if not all(0 <= k < len(self.nodes) for k in self.sites) or (len(self.sites) > 1 and not self.times):
            raise InputError(f"the read-out is applied to one layer that is there, got {self.sites}")
        for name in self.weights:
            right = re.fullmatch(r"[^\s,;()\[\]{}+=*\"]{1,120}", name) and name.isascii() and name.isprintable()
            if not right or re.fullmatch(r"x\d+|u\d*|f|k|[-.\d]+(e-?\d+)?", name):  # would be read as a value
                raise InputError(f"a weight is called {name!r}: use letters, digits and marks such as . _ / : only")
        known = set(self.weights)
        unknown = [name for name in self.trained if name not in known]
        if unknown or not self.trained or len(set(self.trained)) < len(self.trained):
            raise InputError(f"the network has the weights {', '.join(known)}; trained are {self.trained or 'none'}")

    @cached_property
    def layers(self) -> tuple[Node, ...]:
        """The nodes of the unrolled graph."""
        return tuple(node for node in self.unrolled.nodes if isinstance(node, Node))

    @cached_property
    def weights(self) -> tuple[str, ...]:
        """The names of all weights, in the order of their first use."""
        names: list[str] = []
        for node in self.nodes:
            if isinstance(node, Recurrent):
                names += [node.incoming, node.recurrent]
            else:
                names += [term.weight for term in node.terms if term.weight is not None]
        names += [self.read_out, *([] if self.bias is None else [self.bias])]
        return tuple(dict.fromkeys(names))

    @property
    def kinked(self) -> bool:
        """Whether some activation is piecewise linear, so that bounds hold while no unit changes its sign."""
        return any(node.activation.kinked for node in self.nodes)

    @property
    def images(self) -> bool:
        """Whether an example has features before positions."""
        return len(self.shape) > 1 and not self.times

    def run(self, linear: Linear, x: Array) -> tuple[Array, list[Array]]:
        """Run the network on a batch.

        Parameters
        ----------
        linear
            Applies a weight to an array: `linear(name, u)` returns $W u$.
        x
            A batch of inputs.

        Returns
        -------
        tuple[Array, list[Array]]
            The outputs, `n x outputs` (time steps before outputs), and the value of every node.
        """
        values = {-1: self.lay(x)}
        for k, node in enumerate(self.nodes):
            values[k] = node.run(linear, values)
        last = values[self.sites[0]]
        read = last if self.times else FLAT.gather(last)
        outputs = linear(self.read_out, read if self.alpha == 1 else self.alpha * read)
        if self.bias is not None:
            outputs = outputs + linear(self.bias, jnp.ones((*outputs.shape[:-1], 1), outputs.dtype))
        return outputs, [values[k] for k in range(len(self.nodes))]

    def lay(self, x: Any) -> Any:
        """Rearrange a batch into the layout of values: positions before features.

        Parameters
        ----------
        x
            A batch of inputs.

        Returns
        -------
        Any
            The rearranged batch.
        """
        if self.times:
            return x
        return x.reshape(len(x), self.shape[0], -1).swapaxes(-1, -2) if self.images else x.reshape(len(x), -1)

    def inputs(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the input at each time, each `n x positions x features`.

        Parameters
        ----------
        x
            A batch of inputs.

        Returns
        -------
        tuple[array, ...]
            One array for each time step; one array for a feed-forward network.
        """
        x = np.asarray(x, np.float64)
        if self.times:
            return tuple(x[:, t : t + 1] for t in range(self.times))
        return (np.ascontiguousarray(self.lay(x)) if self.images else x.reshape(len(x), 1, -1),)

    def matrix(self, params: Mapping[str, Any], name: str) -> np.ndarray:
        """Return a weight with one row for each unit.

        Parameters
        ----------
        params
            Weights by name.
        name
            Name of the weight.

        Returns
        -------
        array
            The weight as a matrix.
        """
        weight = np.asarray(params[name], np.float64)
        if name == self.read_out:
            return weight.reshape(self.outputs, -1)
        if weight.ndim == 1:
            return weight[:, None]
        return weight.T if self.columns else weight.reshape(len(weight), -1)

    def read(self, k: int, term: Term) -> Read:
        """Return what a weight of node `k` multiplies: a value, the map that it goes through, and the node's grid.

        Parameters
        ----------
        k
            Number of the node.
        term
            One of its terms.

        Returns
        -------
        Read
            Value, map and grid.
        """
        return term.source, term.map, self.grids[k]

    def uses(self, name: str) -> list[tuple[int, Term]]:
        """Return the nodes and terms that use a weight; uses at different time steps count once.

        Parameters
        ----------
        name
            Name of the weight.

        Returns
        -------
        list[tuple[int, Term]]
            Numbers of nodes with terms.
        """
        return [(k, t) for k, node in enumerate(self.layers) for t in node.terms if t.weight == name]

    def terms(self) -> Iterator[tuple[int, Term]]:
        """Yield all uses of weights, node by node, the read-out's aside."""
        return ((k, t) for k, node in enumerate(self.layers) for t in node.terms if t.weight is not None)

    @cached_property
    def unrolled(self) -> Graph:
        r"""The same network layer by layer, each of a recurrent network over all times, and with $\alpha$ in a node."""
        return self._by_times()._scaled()

    def _scaled(self) -> Graph:
        """Return the graph with the scale of the last layer multiplied, or with a layer behind it that multiplies."""
        if self.alpha == 1:
            return self
        *others, last = self.nodes
        end = len(others)
        assert isinstance(last, Node)
        if self.sites == (end,) and last.skip is None:  # no node reads the last one
            return replace(self, nodes=(*others, replace(last, scale=self.alpha * last.scale)), alpha=1.0)
        more = tuple(Node((Term(None, site),), scale=self.alpha) for site in self.sites)
        sites = tuple(range(end + 1, end + 1 + len(more)))
        return replace(self, nodes=(*self.nodes, *more), sites=sites, alpha=1.0)

    def _by_times(self) -> Graph:
        if not isinstance(self.nodes[0], Recurrent):
            return self
        nodes, length = [], self.times
        for j, layer in enumerate(self.nodes):
            assert isinstance(layer, Recurrent)
            assert layer.source == j - 1
            for t in range(length):
                terms = (Term(layer.incoming, -1 - t if j == 0 else (j - 1) * length + t),)
                before = (Term(layer.recurrent, len(nodes) - 1),) if t else ()
                nodes.append(Node((*before, *terms), layer.activation))
        scored = tuple(range(len(nodes) - length + 1, len(nodes)))
        return replace(self, nodes=tuple(nodes), sites=scored)

    @cached_property
    def grids(self) -> dict[int, Sizes]:
        """The grid of positions of the input and of every node of the unrolled graph."""
        found: dict[int, Sizes] = {-1 - t: self.shape[1:] for t in range(self.times or 1)}
        for k, node in enumerate(self.layers):
            grids = {t.map.grid(found[t.source]) for t in node.terms if t.moves}
            grids |= set() if node.skip is None else {found[node.skip]}
            if len(grids) != 1:
                raise InputError(f"layer {k + 1} adds values on different grids: {sorted(grids)}")
            found[k] = grids.pop()
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the graph, unrolled, as JSON can hold it: what a certificate says about its network."""
        g = self.unrolled
        return {
            "shape": list(g.shape), "times": g.times, "columns": g.columns,
            "nodes": [
                {
                    "terms": [{"weight": t.weight, "source": t.source, "map": map_to_dict(t.map)} for t in node.terms],
                    "activation": node.activation.name.removesuffix("_closed"),
                    "scale": node.scale, "skip": node.skip,
                }
                for node in g.layers
            ],
            "read_out": g.read_out, "bias": g.bias, "sites": list(g.sites), "outputs": g.outputs,
            "trained": list(g.trained),
        }  # fmt: skip


def chain(
    names: Sequence[str],
    activation: Activation,
    scales: Sequence[float],
    skips: Sequence[int] = (),
    phi: Identity = IDENTITY_MAP,
) -> tuple[Node, ...]:
    """Return one layer behind the other, with a skip at each of `skips`.

    >>> chain(["W1", "W2"], IDENTITY, [1.0, 0.5], skips=[1])[1].skip
    0
    """
    layers = enumerate(zip(names, scales, strict=True))
    return tuple(Node((Term(w, k - 1, phi),), activation, s, k - 1 if k in skips else None) for k, (w, s) in layers)


def graph_from_dict(config: Mapping[str, Any]) -> Graph:
    """Rebuild the graph that `Graph.to_dict` described.

    Parameters
    ----------
    config
        The result of `Graph.to_dict`.

    Returns
    -------
    Graph
        The graph.
    """
    nodes = tuple(
        Node(
            tuple(Term(t["weight"], t["source"], map_from_dict(t["map"])) for t in node["terms"]),
            get_activation(node["activation"]), node["scale"], node["skip"],
        )
        for node in config["nodes"]
    )  # fmt: skip
    return Graph(
        tuple(config["shape"]), nodes, config["read_out"], tuple(config["sites"]), config["outputs"],
        tuple(config["trained"]), config["bias"], config["times"], config["columns"],
    )  # fmt: skip
