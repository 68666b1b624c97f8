"""Frozen backbones: what stands before a layer makes the data, once and for all, and the head is what is proved."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wideproof.data import AnyDataset
from wideproof.networks.exchange import Model, cut_head

FEATURES = "features.json"


class Headed(NamedTuple):
    """A head as a model, its name, its features as data, and where they come from, as a sentence and for a file."""

    model: Model
    name: str
    data: AnyDataset
    note: str
    origin: dict[str, Any]


def headed(model: Any, layer: str, data: AnyDataset, shape: Sequence[int] | None) -> Headed:
    """Cut a model before a layer, and compute the features of all rows.

    Parameters
    ----------
    model
        Path of an ONNX file, or a PyTorch module.
    layer
        The layer with which the head begins.
    data
        The table, prepared as the model takes it.
    shape
        The shape of one example as it was given.

    Returns
    -------
    Headed
        The head with its data.
    """
    found = cut_head(model, layer, data.x, shape if len(shape or ()) > 1 else None)
    digest = hashlib.sha256(found.features.astype("<f8").tobytes()).hexdigest()
    n, count = found.features.shape
    name = f"the features of {data.name} before {layer!r}"
    features = dataclasses.replace(data, x=found.features, name=name, preparation=(), encoding=None)
    note = (
        f"the data are features: the {count} numbers that {found.source} has before {layer!r} for each of the {n} rows "
        f"of {data.name}, computed once ({found.evaluator}) and stored in float64, SHA-256 {digest}; the proof is "
        "about the head on these numbers, and says nothing about how they were computed"
    )
    origin = {
        "model": found.source, "sha256": _digest(model), "head": layer, "evaluator": found.evaluator,
        "table": data.name, "table_digest": data.digest, "shape": [n, count], "features_sha256": digest,
    }  # fmt: skip
    return Headed(found.model, f"the head {layer!r} of {found.source}", features, note, origin)


def _digest(model: Any) -> str | None:
    """Return the SHA-256 of a file; a module has none."""
    if isinstance(model, bytes):
        return hashlib.sha256(model).hexdigest()
    return hashlib.sha256(Path(model).read_bytes()).hexdigest() if isinstance(model, str | Path) else None
