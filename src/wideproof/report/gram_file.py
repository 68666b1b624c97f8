"""A Gram matrix as a file: .npz, or .zarr where zarr is installed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wideproof.errors import InputError
from wideproof.kernels import Gram, Spectrum
from wideproof.report.gram_terminal import gram_summary
from wideproof.storage import new_folder, whole_file

if TYPE_CHECKING:
    from wideproof.planning import GramStudy

SUFFIXES = (".npz", ".zarr")


def save_gram(
    path: str | Path, gram: Gram, spectrum: Spectrum | None = None, metadata: Mapping[str, Any] | None = None
) -> Path:
    """Write a Gram matrix with what is known about it; nothing is left behind if that fails.

    The arrays are `matrix`, `blocks/<weight>` for the parts that were kept, and `eigenvalues` (ascending) if a dense
    solver computed them. `metadata` is a text in JSON: names, source, precision, device, error, and the argument
    `metadata`.

    Parameters
    ----------
    path
        The file to write: a new `.npz` or `.zarr`.
    gram
        The matrix.
    spectrum
        Its spectrum, whose eigenvalues are written too.
    metadata
        Further entries of the metadata.

    Returns
    -------
    Path
        The path.

    Examples
    --------
    >>> import tempfile
    >>> gram = Gram(np.eye(2), ("W1",), "limit", "float64", "cpu", 1e-15)
    >>> with tempfile.TemporaryDirectory() as folder, np.load(save_gram(f"{folder}/g.npz", gram)) as file:
    ...     file["matrix"].tolist(), json.loads(str(file["metadata"]))["source"]
    ([[1.0, 0.0], [0.0, 1.0]], 'limit')
    """
    path = Path(path)
    require_gram_path(path)
    arrays = {"matrix": np.asarray(gram)}
    arrays |= {f"blocks/{name}": np.asarray(block) for name, block in gram.blocks.items()}
    if spectrum is not None and spectrum.eigenvalues is not None:
        arrays["eigenvalues"] = spectrum.eigenvalues
    about = {
        "names": gram.names, "source": gram.source, "precision": gram.precision, "device": gram.device,
        "error": gram.error, **(metadata or {}),
    }  # fmt: skip
    if path.suffix.lower() == ".zarr":
        _write_zarr(path, arrays, about)
    else:
        with whole_file(path) as file:
            np.savez(file, allow_pickle=False, metadata=np.array(json.dumps(about)), **arrays)
    return path


def save_gram_study(path: str | Path, found: GramStudy) -> Path:
    """Write the Gram matrix of a study, with its data, network, seed and spectrum.

    Parameters
    ----------
    path
        The file to write: a new `.npz` or `.zarr`.
    found
        The result of `study_gram`.

    Returns
    -------
    Path
        The path.
    """
    described = gram_summary(found)
    about = {key: described[key] for key in ("data", "network", "infinite", "seed", "spectrum")}
    return save_gram(path, found.gram, found.spectrum, about)


def require_gram_path(path: Path) -> None:
    """Check that a Gram matrix can be written to a path before the work is done.

    Parameters
    ----------
    path
        The file to write later: a new `.npz` or `.zarr`.
    """
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise InputError(f"Gram matrices must be written as .npz or .zarr, got {path.name!r}")
    if kind == ".zarr" and find_spec("zarr") is None:
        raise InputError(f"writing {path.name} needs zarr, which is not installed: `pip install zarr`, or save as .npz")
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already: choose another name, or remove it first")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; create it first")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: the folder {path.parent} is not writable; choose another folder")


def _write_zarr(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    import zarr

    with new_folder(path) as folder:
        root = zarr.open_group(str(folder), mode="w")
        for name, array in arrays.items():
            root[name] = array
        root.attrs["metadata"] = json.dumps(dict(about))
