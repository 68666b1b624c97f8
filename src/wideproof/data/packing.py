"""A data set as arrays and a JSON-ready description, for files without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wideproof.data.dataset import AnyDataset, Dataset, ImageDataset, SequenceDataset
from wideproof.data.encoding import Encoding
from wideproof.data.step import Step
from wideproof.errors import InputError

_KINDS: dict[str, type[AnyDataset]] = {
    "vectors": Dataset,
    "images": ImageDataset,
    "sequences": SequenceDataset,
}


def pack(data: AnyDataset) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays of a data set, and its description.

    Parameters
    ----------
    data
        A data set of any kind.

    Returns
    -------
    tuple[dict[str, array], dict[str, Any]]
        Arrays by name, and values for JSON.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [1, -1], "binary")
    >>> unpack(*pack(data)).digest == data.digest
    True
    """
    tensors = {"x": np.asarray(data.x), "y": np.asarray(data.y)}
    if data.rows is not None:
        tensors["rows"] = data.rows
    for i, step in enumerate(data.preparation):
        tensors |= {f"preparation.{i}.{key}": array for key, array in step.arrays}
    kind = next(name for name, cls in _KINDS.items() if type(data) is cls)
    return tensors, {
        "kind": kind,
        "name": data.name,
        "task": data.task,
        "classes": list(data.classes),
        "preparation": [step.to_json() for step in data.preparation],
        "encoding": None if data.encoding is None else data.encoding.to_json(),
        "remarks": list(data.remarks),
        "digest": data.digest,
    }


def unpack(tensors: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> AnyDataset:
    """Rebuild a data set from the result of `pack`, and check its digest.

    Parameters
    ----------
    tensors
        Arrays by name.
    meta
        The description.

    Returns
    -------
    AnyDataset
        The data set.
    """
    steps = []
    for i, step in enumerate(meta["preparation"]):
        prefix = f"preparation.{i}."
        arrays = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        steps.append(Step.from_json(step, arrays))
    described = meta.get("encoding")
    data = _KINDS[meta["kind"]](
        tensors["x"], tensors["y"], meta["task"], meta["name"], tuple(meta["classes"]), tuple(steps),
        None if described is None else Encoding.from_json(described), tensors.get("rows"),
        tuple(meta.get("remarks", ())),
    )  # fmt: skip
    if data.digest != meta["digest"]:
        raise InputError(f"the data set '{meta['name']}' does not match its digest: the file was changed")
    return data
