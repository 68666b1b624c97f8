"""What the lab sends to a page: one message is a JSON header and arrays, laid out for typed views without copying.

    4 bytes   length H of the header, little-endian
    H bytes   JSON, UTF-8, padded with spaces so that the arrays begin at a multiple of 8
    ...       the arrays, little-endian, each padded to a multiple of 8

The header holds `kind`, the fields, and `arrays`: for each its name, its type as NumPy writes it (`f4`), its shape, and
where it begins, counted from the end of the header.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from wideproof.storage import plain

TYPES = ("f4", "f8", "i4", "u1")


def frame(kind: str, arrays: Mapping[str, np.ndarray] | None = None, **fields: Any) -> bytes:
    """Return one message.

    >>> kind, fields, arrays = parse(frame("points", {"loss": np.array([0.5], "f4")}, lane=1))
    >>> kind, fields, arrays["loss"].tolist()
    ('points', {'lane': 1}, [0.5])
    """
    listed, parts, at = [], [], 0
    for name, array in (arrays or {}).items():
        code = array.dtype.str[1:]
        if code not in TYPES:
            raise ValueError(f"a frame holds arrays of {', '.join(TYPES)}, got {array.dtype} for {name!r}")
        content = np.ascontiguousarray(array.astype(f"<{code}", copy=False)).tobytes()
        listed.append([name, code, list(array.shape), at])
        parts.append(content + bytes(-len(content) % 8))
        at += len(parts[-1])
    told = plain({"kind": kind, "arrays": listed, **fields}, odd=lambda number: None)
    header = json.dumps(told, allow_nan=False).encode()
    header += b" " * (-(4 + len(header)) % 8)
    return b"".join([struct.pack("<I", len(header)), header, *parts])


def parse(message: bytes) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """Return kind, fields and arrays of a message: what the page does, in Python."""
    (length,) = struct.unpack_from("<I", message)
    fields = json.loads(message[4 : 4 + length])
    arrays = {}
    for name, code, shape, at in fields.pop("arrays"):
        dtype = np.dtype(f"<{code}")
        arrays[name] = np.frombuffer(message, dtype, math.prod(shape), 4 + length + at).reshape(shape)
    return fields.pop("kind"), fields, arrays
