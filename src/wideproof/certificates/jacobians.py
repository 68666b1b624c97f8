r"""Products with the Jacobian and its transpose at the point of a pass, in plain NumPy: nothing is compiled.

With $b$, $g$ and $u$ as in `anchor`, $J^\top w = \sum_{\text{uses}} s_k \sum_i (w_i g_{k,i}) u_{k,i}^\top$ and
$(J U)_i = \sum_{\text{uses}} s_k \langle g_{k,i}, U u_{k,i} \rangle$.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from wideproof.certificates.passes import Pass


def gains_of(passed: Pass, weights: Float[np.ndarray, "n c"]) -> list[Float[np.ndarray, "n p m"]]:
    """Return the cotangents of every node's pre-activation for `weights`, `n x c`, of the outputs: `n x p x m`."""
    return [np.einsum("nc,ncpm->npm", weights, passed.gain(k).mid) for k in range(len(passed.graph.layers))]


def pull(
    passed: Pass, weights: Float[np.ndarray, "n c"], gains: Sequence[Float[np.ndarray, "n _ _"]] | None = None
) -> dict[str, np.ndarray]:
    r"""Return $J^\top w$ for each trained array, as a matrix; `gains` are those of `weights` where they are known.

    >>> from wideproof.certificates.passes import run
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=4, depth=2)
    >>> passed = run(network.graph, network.init(0), np.eye(3), tracked=False)
    >>> w, u = np.array([[1.0], [2.0], [-1.0]]), network.init(1)
    >>> back = pull(passed, w)
    >>> there, here = np.vdot(push(passed, u), w), sum(np.vdot(back[name], u[name]) for name in back)
    >>> bool(np.isclose(there, here, rtol=1e-12))
    True
    """
    graph, gains = passed.graph, gains_of(passed, weights) if gains is None else gains
    found: dict[str, np.ndarray] = {}
    parts = np.split(weights, len(graph.sites), axis=1)
    for name in graph.trained:
        if name == graph.read_out:
            matrix = sum(part.T @ values for part, values in zip(parts, _read(passed), strict=True))
        elif name == graph.bias:
            matrix = sum(part.sum(axis=0) for part in parts)
        else:
            uses = [(k, passed.inputs[graph.read(k, t)].mid) for k, t in graph.uses(name)]
            matrix = sum(graph.layers[k].scale * np.tensordot(gains[k], u, axes=((0, 1), (0, 1))) for k, u in uses)
        found[name] = np.asarray(matrix)
        if graph.columns and name not in (graph.read_out, graph.bias):
            found[name] = found[name].T
    return found


def push(passed: Pass, direction: Mapping[str, np.ndarray]) -> Float[np.ndarray, "n c"]:
    """Return the Jacobian's product with a direction of the trained arrays: `n x c`."""
    graph, found = passed.graph, np.zeros(passed.outputs.mid.shape)
    for name in graph.trained:
        if name == graph.bias:
            found += np.tile(np.ravel(direction[name]), len(graph.sites))
            continue
        matrix = graph.matrix(direction, name)
        if name == graph.read_out:
            found += np.concatenate([values @ matrix.T for values in _read(passed)], axis=1)
            continue
        for k, t in graph.uses(name):
            change = graph.layers[k].scale * (passed.inputs[graph.read(k, t)].mid @ matrix.T)
            found += np.einsum("ncpm,npm->nc", passed.gain(k).mid, change)
    return found


def _read(passed: Pass) -> list[Float[np.ndarray, "n features"]]:
    """Return what the read-out multiplies at each site: `n x features`."""
    values = [passed.values[k].mid for k in passed.graph.sites]
    return [value.swapaxes(1, 2).reshape(len(value), -1) for value in values]
