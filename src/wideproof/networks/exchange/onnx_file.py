"""Reading ONNX files without trusting them: nothing is allocated or opened before its size and place are known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.errors import InputError

LARGEST = 2 << 30
TYPES = {
    1: ("<f4", "float_data"), 11: ("<f8", "double_data"), 10: ("<f2", "int32_data"),
    6: ("<i4", "int32_data"), 7: ("<i8", "int64_data"), 9: ("?", "int32_data"),
}  # fmt: skip
"""ONNX's numbers of the types that are read: how they are stored, and in which field where not as bytes."""
EXTERNAL = 1


def require_onnx() -> Any:
    """Return the package `onnx`, or say how to get it."""
    try:
        import onnx
    except ImportError:
        raise InputError('ONNX files need the package onnx: pip install "wideproof[onnx]"') from None
    return onnx


def read_proto(source: Any) -> tuple[Any, Path | None]:
    """Return the model in a file or in bytes, and the folder that its weights may lie in.

    A model that is in memory already is returned as it is.
    """
    onnx = require_onnx()
    if isinstance(source, onnx.ModelProto):
        return source, None
    content, folder, what = source, None, "the model"
    if isinstance(source, str | Path):
        path = Path(source)
        content, folder, what = _content(path), path.resolve().parent, str(path)
    if not isinstance(content, bytes):
        raise InputError(f"a model must be the path of an ONNX file, or its bytes; got {type(source).__name__}")
    if len(content) > LARGEST:
        raise InputError(f"{what} is larger than 2 GiB")
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.ModelProto.FromString(content)
    except (DecodeError, ValueError, RuntimeError):
        raise InputError(f"{what} is not an ONNX model, or was cut off: write or download it again") from None
    if not proto.graph.node or not proto.opset_import:
        raise InputError(f"{what} holds no ONNX network, or was cut off: write or download it again")
    if not _readable(proto):
        raise InputError(f"{what} holds names that are not text: the file is damaged")
    return proto, folder


def _readable(message: Any) -> bool:
    """Return whether all text in a message is UTF-8; what is not comes as bytes."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING and any(isinstance(v, bytes) for v in (value if _many(value) else [value])):
            return False
        if field.type == field.TYPE_MESSAGE and not all(map(_readable, value if _many(value) else [value])):
            return False
    return True


def _many(value: Any) -> bool:
    return hasattr(value, "extend")


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(f"there is no file {path}" if not path.exists() else f"{path} is not a file")
    if path.stat().st_size > LARGEST:
        raise InputError(f"{path} is larger than 2 GiB")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def to_array(tensor: Any, folder: Path | None) -> np.ndarray:
    """Return a tensor as float64 (exactly), int64 or bool; refuse it before anything of its size is made."""
    name, dims = tensor.name, list(tensor.dims)
    if tensor.data_type not in TYPES:
        raise InputError(
            f"the weight {name!r} has the type {_type_name(tensor.data_type)}: float16, float32 and float64 are read"
        )
    layout, field = TYPES[tensor.data_type]
    count = math.prod(dims)
    size = count * np.dtype(layout).itemsize
    if any(d < 0 for d in dims) or len(dims) > 8 or size > LARGEST:
        raise InputError(f"the weight {name!r} says it has the shape {tuple(dims)}: at most 2 GiB are read")
    if tensor.data_location == EXTERNAL:
        flat = np.frombuffer(_external(tensor, folder, size), layout)
    elif tensor.raw_data or not count:
        if len(tensor.raw_data) != size:
            raise InputError(
                f"the weight {name!r} needs {size} bytes and has {len(tensor.raw_data)}: the file is damaged"
            )
        flat = np.frombuffer(tensor.raw_data, layout)
    else:
        given = getattr(tensor, field)
        if len(given) != count:
            raise InputError(f"the weight {name!r} needs {count} numbers and has {len(given)}: the file is damaged")
        flat = np.array(given, np.uint16).view("<f2") if layout == "<f2" else np.array(given, layout)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        raise InputError(f"the weight {name!r} holds numbers that are not finite")
    return flat.reshape(dims).astype({"f": np.float64, "i": np.int64, "b": np.bool_}[flat.dtype.kind])


def _external(tensor: Any, folder: Path | None, size: int) -> bytes:
    """Read a weight that is stored in another file, which must lie in the folder of the model."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location, name = entries.get("location", ""), tensor.name
    if folder is None:
        raise InputError(f"the weight {name!r} is stored in another file, {location!r}: give the path of the model")
    place = Path(location)
    inside = location and "\0" not in location and not place.is_absolute() and ".." not in place.parts
    if not inside or not (folder / place).resolve().is_relative_to(folder):
        raise InputError(f"the weight {name!r} is stored in {location!r}, which is not in the folder of the model")
    path = (folder / place).resolve()
    if not path.is_file():
        raise InputError(f"the weight {name!r} is stored in {location!r}, which is not there: copy it beside the model")
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", str(size)))
    except ValueError:
        raise InputError(f"the weight {name!r} has an offset in {location!r} that is not a number") from None
    if offset < 0 or length != size or offset + size > path.stat().st_size:
        raise InputError(f"the weight {name!r} needs {size} bytes, which {location!r} does not have at {offset}")
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(size)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    if len(content) != size:
        raise InputError(f"the weight {name!r} needs {size} bytes, and {location!r} ends before")
    return content


def _type_name(number: int) -> str:
    names = require_onnx().TensorProto.DataType
    return names.Name(number).lower() if number in names.values() else str(number)
