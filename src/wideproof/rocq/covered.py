"""What of a certificate Rocq can check here: one hidden layer, Theorem 1; the rest is refused by name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.certificates import ARRAYS, DOCUMENT, Certificate, load_certificate

ACTIVATIONS = {"erf": "Erf", "tanh": "Tanh", "sigmoid": "Sigmoid", "softplus": "Softplus", "sin": "Sin"}


class NotCoveredError(ValueError):
    """A certificate of a kind that the theorems in Rocq do not cover; the message names what, and why."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A certificate in the form of the theorems in Rocq, with the stored numbers unchanged.

    Attributes
    ----------
    x, y
        Inputs and targets, one row for each row of the table.
    first, place
        Rows with equal inputs are a group: the first row of every group, and the group of every row.
    weights, outputs
        Weights and output weights of the units, one row each: the anchor.
    begun
        Weights and output weights at the start of the followed steps; `None` where the run begins at the anchor.
    steps
        Number of followed steps.
    scale
        The scale of the hidden layer.
    activation
        Its name in the certificate.
    both
        Whether the output weights are trained.
    claims
        The claims of the certificate.
    nested
        Whether they are about sets smaller than balls; the theorem is then about balls, with claims of its own.
    distance
        The bound on how far the followed steps end from the anchor, 0 without steps.
    digests
        SHA-256 of both files.
    """

    x: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    first: np.ndarray = field(repr=False)
    place: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    outputs: np.ndarray = field(repr=False)
    begun: tuple[np.ndarray, np.ndarray] | None = field(repr=False)
    steps: int
    scale: float
    activation: str
    both: bool
    claims: dict[str, Any]
    nested: bool
    distance: float
    digests: dict[str, str]


def read(folder: str | Path) -> Subject:
    """Read a certificate, or the certificate of a proof, and refuse what is not covered.

    Parameters
    ----------
    folder
        The folder.

    Returns
    -------
    Subject
        The certificate in the form of the theorems.
    """
    folder = Path(folder)
    if not (folder / DOCUMENT).is_file() and (folder / "certificate" / DOCUMENT).is_file():
        folder = folder / "certificate"
    certificate = load_certificate(folder)
    for told in (_theorem(certificate), _network(certificate), _numbers(certificate)):
        if told is not None:
            raise NotCoveredError(f"Rocq does not cover {told}")
    network, start = certificate.graph.to_dict(), certificate.start
    (node,) = network["nodes"]
    (term,) = node["terms"]

    def cells(params: Any) -> tuple[np.ndarray, np.ndarray]:
        hidden = params[term["weight"]]
        out = np.atleast_2d(params[network["read_out"]])
        return np.ascontiguousarray(hidden.T if network["columns"] else hidden), np.ascontiguousarray(out.T)

    weights, outputs = cells(certificate.params)
    first, place = groups(certificate.x)
    return Subject(
        certificate.x, certificate.y.reshape(len(certificate.x), -1), first, place, weights, outputs,
        None if start is None else cells(start.params),
        0 if start is None else start.steps, float(node["scale"]), node["activation"],
        network["read_out"] in network["trained"], dict(certificate.claims),
        "nested" in certificate.claims, 0.0 if start is None else start.distance,
        {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in (DOCUMENT, ARRAYS)},
    )  # fmt: skip


def groups(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of every group of equal rows, in their order, and the group of every row.

    Parameters
    ----------
    x
        The rows.

    Returns
    -------
    first, place
        Numbers of rows, and numbers of groups.

    Examples
    --------
    >>> first, place = groups(np.array([[2.0], [1.0], [2.0]]))
    >>> first.tolist(), place.tolist()
    ([0, 1], [0, 1, 0])
    """
    seen: dict[bytes, int] = {}
    place = [seen.setdefault(row.tobytes(), len(seen)) for row in np.ascontiguousarray(x) + 0.0]  # -0.0 becomes 0.0
    return np.unique(np.array(place), return_index=True)[1], np.array(place)


def _theorem(certificate: Certificate) -> str | None:
    """What of the theorem is not covered."""
    if certificate.theorem != "descent":
        return f"the theorem {certificate.theorem!r}: only descent, Theorem 1, is proved there"
    for claim, means in {"jump": "units that switch", "constant_sum": "targets with a constant sum"}.items():
        if claim in certificate.claims:
            return f"the claim {claim!r} ({means}): Theorem 1 is proved there for whole balls and all residuals"
    if certificate.start is not None and certificate.start.batches is not None:
        return "steps with batches: the followed steps have to use all rows"
    return None


def _network(certificate: Certificate) -> str | None:
    """What of the network is not covered."""
    network = certificate.graph.to_dict()
    nodes, trained = network["nodes"], network["trained"]
    if len(nodes) != 1 or network["times"]:
        return f"{len(nodes)} nodes{' in time' if network['times'] else ''}: only one hidden layer is"
    node, terms = nodes[0], nodes[0]["terms"]
    if node["activation"] not in ACTIVATIONS:
        return f"the activation {node['activation']}: its enclosure is not proved there, only {', '.join(ACTIVATIONS)}"
    plain = len(terms) == 1 and node["skip"] is None and terms[0]["map"]["kind"] == "identity"
    if not plain or terms[0]["weight"] is None or len(network["shape"]) != 1:
        return "biases, skips, convolutions and grids: only sums a·g(Wx) are"
    if network["bias"] is not None:
        return "a bias of the read-out"
    if terms[0]["weight"] not in trained:
        return "a hidden layer that is not trained"
    return None


def _numbers(certificate: Certificate) -> str | None:
    """What of the numbers is not covered."""
    if certificate.x.ndim != 2 or certificate.y.ndim > 2:
        return f"inputs of the shape {certificate.x.shape} with targets of the shape {certificate.y.shape}"
    if certificate.start is not None and certificate.start.step_size != certificate.claims["eta"]:
        return "a step size that changes after the followed steps"
    return None
