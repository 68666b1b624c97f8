"""What of a certificate Rocq can check here: one hidden layer, one output, Theorem 1; the rest is refused by name."""

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
        Inputs, one row each, and targets.
    weights, outputs
        Weights of the units, one row each, and output weights: the anchor.
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
        return np.ascontiguousarray(hidden.T if network["columns"] else hidden), params[network["read_out"]].ravel()

    weights, outputs = cells(certificate.params)
    return Subject(
        certificate.x, certificate.y, weights, outputs, None if start is None else cells(start.params),
        0 if start is None else start.steps, float(node["scale"]), node["activation"],
        network["read_out"] in network["trained"], dict(certificate.claims),
        "nested" in certificate.claims, 0.0 if start is None else start.distance,
        {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in (DOCUMENT, ARRAYS)},
    )  # fmt: skip


def _theorem(certificate: Certificate) -> str | None:
    """What of the theorem is not covered."""
    if certificate.theorem != "descent":
        return f"the theorem {certificate.theorem!r}: only descent, Theorem 1, is proved there"
    for claim, means in {
        "jump": "units that switch", "constant_sum": "targets with a constant sum",
        "distinct": "rows with equal inputs, whose targets are averaged",
    }.items():  # fmt: skip
        if claim in certificate.claims:
            return f"the claim {claim!r} ({means}): Theorem 1 is proved there for whole balls and different inputs"
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
    if network["outputs"] != 1:
        return f"{network['outputs']} outputs: only one is"
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
    if certificate.x.ndim != 2 or certificate.y.ndim != 1:
        return f"inputs of the shape {certificate.x.shape} with targets of the shape {certificate.y.shape}"
    if certificate.start is not None and certificate.start.step_size != certificate.claims["eta"]:
        return "a step size that changes after the followed steps"
    return None
