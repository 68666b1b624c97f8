"""From raw labels (text, whole numbers, real numbers, truth values) to what a network is trained towards."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from wideproof.data.dataset import AnyDataset, Dataset, ImageDataset, SequenceDataset, Task
from wideproof.data.encoding import Encoding
from wideproof.data.exact import is_number
from wideproof.data.notes import on_alike, on_classes, on_rows
from wideproof.data.words import meant, plain, shown
from wideproof.errors import InputError

Kind = Literal["vectors", "images", "sequences"]
KINDS: dict[str, type[Dataset] | type[ImageDataset] | type[SequenceDataset]] = {
    "vectors": Dataset,
    "images": ImageDataset,
    "sequences": SequenceDataset,
}
MOST_CLASSES = 20  # whole-number targets with more distinct values than this are read as regression


def from_labels(
    x: Any,
    labels: Any,
    *,
    task: Task | Literal["auto"] = "auto",
    kind: Kind = "vectors",
    classes: Sequence[Any] | None = None,
    limit: int | None = None,
    name: str = "data",
    rows: Any = None,
    encoding: Encoding | None = None,
) -> AnyDataset:
    """Build a data set from inputs and one raw label for each example.

    With `task="auto"`: two distinct labels are two classes (the first in sorted order becomes -1, the second +1); text,
    or at most 20 distinct whole numbers, are classes coded one against the rest; anything else is regression. Labels
    with more than one axis are regression targets, unchanged.

    Parameters
    ----------
    x
        Inputs, one example in each row.
    labels
        One label for each example.
    task
        `"binary"`, `"multiclass"`, `"regression"` or `"auto"`.
    kind
        `"vectors"`, `"images"` or `"sequences"`.
    classes
        Keep only these classes, in this order; of two classes the first becomes -1, the second +1.
    limit
        Maximum number of examples: the first `limit // c` of each of the `c` classes, in file order, or the first
        `limit` for regression.
    name
        Name of the data set.
    rows
        The position of each example in its source; by default its row, counted from 0.
    encoding
        How the columns of a table became `x`.

    Returns
    -------
    Dataset | ImageDataset | SequenceDataset
        The data set.

    Examples
    --------
    >>> from_labels([[0.0], [1.0], [2.0]], ["cat", "dog", "cat"]).y.tolist()
    [-1.0, 1.0, -1.0]
    >>> from_labels([[0.0], [1.0], [2.0]], [3, 1, 2]).classes
    ('1', '2', '3')
    >>> from_labels([[0.0], [1.0], [2.0]], [0.1, 0.2, 0.4]).task
    'regression'
    """
    if kind not in KINDS:
        raise InputError(f"the kind of '{name}' must be one of {', '.join(KINDS)}, got '{kind}'")
    name = plain(name)
    x, raw = np.asarray(x), _as_labels(labels, name)
    if raw.shape[:1] != x.shape[:1]:
        raise InputError(
            f"'{name}' has {len(x) if x.ndim else 0} inputs and {len(raw)} labels: give one for each input"
        )
    if len(raw) == 0:
        raise InputError(f"'{name}' is empty: give at least one example")
    rows = np.arange(len(raw)) if rows is None else np.asarray(rows)
    if raw.ndim > 1:
        data = _targets_as_given(x, raw, task, kind, classes, limit, name)
        remarks = tuple(on_rows(data.n, len(raw), ["limit"]))
        return replace(data, rows=rows[: data.n], encoding=encoding, remarks=remarks)
    names, there = label_names(raw), len(raw)
    if classes is not None:
        keep = _keep_classes(raw, names, classes, name)
        x, raw, names, rows = x[keep], raw[keep], names[keep], rows[keep]
    order = _distinct(raw, names) if classes is None else tuple(dict.fromkeys(map(label_name, classes)))
    task = _decide(raw, order, task, name)
    chosen = len(raw)
    if limit is not None:
        keep = _first(names, order, task, limit, name)
        x, raw, names, rows = x[keep], raw[keep], names[keep], rows[keep]
    if task == "regression":
        y: np.ndarray = raw
    elif task == "binary":
        y = np.where(names == order[-1], 1.0, -1.0)
    else:
        y = np.where(names[:, None] == np.array(order), 1.0, -1.0)
    if kind == "sequences":
        y = np.repeat(y.reshape(len(y), 1, -1), x.shape[1] if x.ndim > 1 else 1, axis=1)
    order = () if task == "regression" else order
    if encoding is not None and order:
        written = [plain(str(raw[np.argmax(names == one)]).strip()) for one in order]
        encoding = replace(encoding, classes=order, labels=tuple(written))
    why = ["classes"] * (chosen < there) + ["limit"] * (len(raw) < chosen)
    said = [*on_classes(order, names), *on_rows(len(raw), there, why)]
    remarks = (*(["; ".join(said)] if said else []), *on_alike(order))
    return KINDS[kind](x, y, task, name, order, encoding=encoding, rows=rows, remarks=remarks)


def label_name(value: Any) -> str:
    """Return the name of a class: `3`, `3.0`, `np.int64(3)` and `"3"` are one class, called '3'; "03" is another.

    >>> [label_name(v) for v in (3, 3.0, "3", True, "setosa", 0.5, "007")]
    ['3', '3', '3', 'True', 'setosa', '0.5', '007']
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, str):
        text = value.strip()
        if not is_number(text) or re.fullmatch(r"[+-]?(?:0[0-9].*|[0-9]{16,})", text):
            return plain(text)
        number = float(text)
    else:
        number = float(value)
    return str(int(number)) if np.isfinite(number) and number == int(number) else repr(number)


def label_names(raw: np.ndarray) -> np.ndarray:
    """Return the class name of every label."""
    values, inverse = np.unique(raw, return_inverse=True)
    return np.array([label_name(v) for v in values])[inverse]


def _as_labels(labels: Any, name: str) -> np.ndarray:
    raw: Any = np.asarray(labels)
    if raw.ndim == 0:
        raise InputError(
            f"the labels of '{name}' must be an array with one for each row, got the single value {labels!r}"
        )
    if raw.dtype.kind == "O":
        for row, value in enumerate(raw.ravel()):
            if value is None or value != value or not isinstance(value, str | int | float | np.generic):
                raise InputError(
                    f"the label of '{name}' in row {row} (counting from 0) is {value!r}: give text or a number, "
                    "or remove the row"
                )
        if all(isinstance(value, int | float | np.number) for value in raw.ravel()):
            raw = raw.astype(np.float64)
        else:
            raw = np.array([str(value) for value in raw.ravel()]).reshape(raw.shape)
    if raw.dtype.kind not in "biufUS":
        raise InputError(f"the labels of '{name}' are of {raw.dtype}: give text or numbers")
    if raw.dtype.kind == "S":
        raw = np.char.decode(raw, "utf-8")
    missing = np.char.str_len(np.char.strip(raw)) == 0 if raw.dtype.kind == "U" else ~np.isfinite(raw)
    if missing.any():
        row = int(np.argwhere(missing)[0][0])
        raise InputError(
            f"the label of '{name}' in row {row} (counting from 0) is missing: remove the row or fill it in"
        )
    return raw


def _distinct(raw: np.ndarray, names: np.ndarray) -> tuple[str, ...]:
    values, first = np.unique(raw, return_index=True)
    del values
    return tuple(dict.fromkeys(str(name) for name in names[first]))


def _decide(raw: np.ndarray, order: tuple[str, ...], task: str, name: str) -> Task:
    text = raw.dtype.kind == "U"
    whole = not text and bool((raw == np.floor(raw)).all()) if raw.dtype.kind != "b" else True
    if task == "auto":
        if text and len(order) > max(MOST_CLASSES, len(raw) // 2):
            raise InputError(
                f"the target of '{name}' holds {len(order)} different texts in {len(raw)} rows, too many for "
                "classes: "
                "choose the target column with `target`"
            )
        if len(order) == 2:
            return "binary"
        return "multiclass" if text or (whole and len(order) <= MOST_CLASSES) else "regression"
    if task == "regression" and text:
        row = next(i for i, value in enumerate(raw) if not is_number(str(value).strip()))
        raise InputError(
            f"regression needs numbers, the target of '{name}' in row {row} (counting from 0) is "
            f"'{shown(raw[row])}': choose another target or another task"
        )
    if task == "binary" and len(order) != 2:
        listed = ", ".join(order[:MOST_CLASSES])
        raise InputError(
            f"a binary task needs two classes, '{name}' holds {len(order)} ({listed}): choose two with `classes`"
        )
    if task not in ("binary", "multiclass", "regression"):
        raise InputError(f"the task must be auto, binary, multiclass or regression, got '{task}'")
    return task


def _keep_classes(raw: np.ndarray, names: np.ndarray, classes: Sequence[Any], name: str) -> np.ndarray:
    wanted = tuple(dict.fromkeys(map(label_name, (classes,) if isinstance(classes, str) else classes)))
    there = _distinct(raw, names)
    for one in wanted:
        if one not in there:
            listed = ", ".join(there[:MOST_CLASSES]) + (", ..." if len(there) > MOST_CLASSES else "")
            raise InputError(f"'{name}' has no class '{one}'{meant(one, there)}: choose among {listed}")
    if len(wanted) < 2:
        raise InputError(f"`classes` keeps {len(wanted)} class of '{name}': name at least two of {', '.join(there)}")
    return np.isin(names, wanted)


def _first(names: np.ndarray, order: tuple[str, ...], task: Task, limit: int, name: str) -> np.ndarray:
    if limit < 1:
        raise InputError(f"`limit` is {limit}: keep at least one example of '{name}'")
    n = len(names)
    if task == "regression" or limit >= n:
        return np.arange(min(limit, n))
    share = limit // len(order)
    if share == 0:
        raise InputError(
            f"`limit` is {limit} and '{name}' has {len(order)} classes: keep at least one example of each class, "
            "or fewer `classes`"
        )
    return np.sort(np.concatenate([np.flatnonzero(names == one)[:share] for one in order]))


def _targets_as_given(
    x: np.ndarray, raw: np.ndarray, task: str, kind: Kind, classes: Any, limit: int | None, name: str
) -> AnyDataset:
    if raw.dtype.kind == "U" or task not in ("auto", "regression") or classes is not None:
        raise InputError(
            f"the labels of '{name}' have shape {raw.shape}: classification needs one label for each example, "
            "so give an array of one axis"
        )
    if limit is not None:
        x, raw = x[:limit], raw[:limit]
    if kind == "sequences" and raw.ndim == 2:
        raw = raw[:, :, None] if raw.shape[1] == x.shape[1] else np.repeat(raw[:, None, :], x.shape[1], axis=1)
    return KINDS[kind](x, raw, "regression", name)
