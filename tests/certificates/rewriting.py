"""Certificates changed on disk, with the digests of the old content or of the new one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

DOCUMENT, ARRAYS = "certificate.json", "arrays.safetensors"


def parts(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the statement, and writable copies of the arrays."""
    document = json.loads((folder / DOCUMENT).read_text(encoding="utf-8"))
    return document, {name: np.array(a) for name, a in load((folder / ARRAYS).read_bytes()).items()}


def put(folder: Path, document: dict[str, Any], arrays: dict[str, np.ndarray], *, digests: bool) -> Path:
    """Write both files; with `digests` the digests are made to fit, otherwise they stay what they were."""
    folder.mkdir(parents=True, exist_ok=True)
    content = save({name: np.ascontiguousarray(a) for name, a in arrays.items()})
    if digests:
        rest = {key: value for key, value in document.items() if key != "digests"}
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        document = rest | {
            "digests": {
                "arrays": hashlib.sha256(content).hexdigest(),
                "certificate": hashlib.sha256(text.encode()).hexdigest(),
            }
        }
    (folder / ARRAYS).write_bytes(content)
    (folder / DOCUMENT).write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return folder


def flip(a: np.ndarray, entry: int, bit: int) -> np.ndarray:
    """Return a copy with one bit of one entry turned."""
    words = np.ascontiguousarray(a).view(np.uint64).copy()
    words.reshape(-1)[entry] ^= np.uint64(1) << np.uint64(bit)
    return words.view(np.float64)
