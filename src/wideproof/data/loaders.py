"""One door for data: a file, a frame, a pair of arrays, a bundled name or a generator with its parameters."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from wideproof.data.arrays import read_inputs, read_npy, read_npz
from wideproof.data.bundled import BUNDLED, bundled
from wideproof.data.columns import read_column
from wideproof.data.dataset import AnyDataset, Examples, Task
from wideproof.data.fitting import Fitted, Missing, fit, missing_labels, uses_table
from wideproof.data.formats import divided, from_bunch, from_plain, suffix_of
from wideproof.data.frames import OTHERS, TEXT, as_table, from_array, is_frame
from wideproof.data.generators import GENERATORS, generate
from wideproof.data.labels import Kind, from_labels
from wideproof.data.notes import on_rows
from wideproof.data.tables import Header, Table, target_position
from wideproof.data.words import complain, meant, plain
from wideproof.errors import InputError

SUFFIXES = (*TEXT, ".npy", ".npz", *OTHERS)
_FOLDED: dict[tuple[str, str | None], str] = {
    ("digits", "images"): "digits-images",
    ("digits", "sequences"): "digits-rows",
}


class _Raw(NamedTuple):
    """What a source holds before its labels are read."""

    x: np.ndarray
    labels: Any
    fitted: Fitted | None = None


class _Treatment(NamedTuple):
    """How a table is to be treated."""

    target: str | int | Sequence[str | int] | None
    missing: Missing
    keep_ids: bool
    header: Header


def load(
    source: Any,
    target: str | int | Sequence[str | int] | None = None,
    *,
    missing: Missing = "fill",
    keep_ids: bool = False,
    header: Header = "auto",
    classes: Sequence[Any] | None = None,
    limit: int | None = None,
    task: Task | Literal["auto"] = "auto",
    kind: Kind | None = None,
    seed: int = 0,
    name: str | None = None,
) -> AnyDataset:
    """Load a data set.

    `data.encoding.notes` says what was done to the columns of a table; `encode(data.encoding, new)` does the same to
    new rows; `data.rows` has the position of each example in its source. `data.notes` adds the number of rows of each
    class, and of the rows that are not used.

    Parameters
    ----------
    source
        A file (.csv .tsv .txt, compressed by .gz too, .npy .npz .parquet .json .jsonl .xlsx, or a table of an SQLite
        database, `FILE.db::TABLE`, a sheet of a workbook, `FILE.xlsx::SHEET`); a frame of pandas or of a library that
        narwhals reads; a dictionary of columns, a list of records, a scikit-learn `Bunch`; a pair `(X, y)`; a bundled
        name (`digits`, `digits-images`, `digits-rows`, `breast_cancer`, `wine`, `iris`, `diabetes`); a generator with
        its parameters, as in `sphere:n=50,d=10,separation=0.3`; or a data set, which is returned as it is.
    target
        The target column, by name or position (default: the last), or the key of a .npz array. Several columns of
        numbers, as a list or a text with commas, are the outputs of one regression.
    missing
        What to do with missing inputs: `"fill"` them (with the median of numbers and dates, or the most frequent text)
        and add a column that marks them; `"drop"` their rows; or `"error"`. Rows without a target are dropped, or with
        `"error"` refused.
    keep_ids
        Keep columns that number or name the rows; by default they are left out.
    header
        Whether the first row of a text file has the names of the columns; detected by default.
    classes
        Keep only these classes, in this order; of two classes the first becomes -1, the second +1.
    limit
        Maximum number of examples: equally many of each class, in file order.
    task
        `"binary"`, `"multiclass"` or `"regression"`; by default decided by the labels.
    kind
        `vectors`, `images` or `sequences`. A table read as images needs a square number of columns (image
        rows become channels); read as sequences each column is one step of one feature.
    seed
        Seed of a generator that sets none; unused otherwise.
    name
        Name of the data set; by default that of the source.

    Returns
    -------
    Dataset | ImageDataset | SequenceDataset
        The data set.

    Examples
    --------
    >>> print(load("iris", classes=("setosa", "virginica"), limit=20))
    iris: 20 examples of 4, binary (setosa, virginica)
    >>> load("sphere:n=6,d=3,separation=0.5", seed=1).x.shape
    (6, 3)
    >>> load(([[0.0, 1.0], [1.0, 0.0]], ["yes", "no"])).y.tolist()
    [1.0, -1.0]
    """
    if isinstance(source, Examples):
        asked = {"target": target, "classes": classes, "limit": limit, "kind": kind, "name": name}
        given = [key for key, value in asked.items() if value is not None] + ["task"] * (task != "auto")
        if given:
            raise InputError(
                f"'{source.name}' is a data set already: leave out `{given[0]}`, or choose examples with `take`"
            )
        return source  # pyright: ignore[reportReturnType]
    text = str(source) if isinstance(source, str | Path) else ""
    head = text.partition(":")[0]
    how = _Treatment(target, missing, keep_ids, header)
    if head in GENERATORS and not _exists(text):
        given = [key for key, value in (("target", target), ("classes", classes), ("kind", kind)) if value is not None]
        if given or task != "auto":
            raise InputError(
                f"the generator '{head}' makes its own targets: leave out `{(given or ['task'])[0]}`, "
                "or choose a file or a bundled data set"
            )
        data = generate(text, seed=seed, name=name)
        data = replace(data, rows=np.arange(data.n))
        return data if limit is None else _limited(data, limit)
    if text in BUNDLED:
        if target is not None:
            raise InputError(f"the bundled data set '{text}' has its own target: leave out `target`")
        x, labels, own = bundled(_FOLDED.get((text, kind), text))
        raw, label, kind = _Raw(x, labels), name or text, kind or own
    elif isinstance(source, str | Path):
        raw, label = _from_file(Path(source), how), name or _stem(Path(source))
    else:
        label = name or "data"
        raw = _from_memory(source, how, label)
    label, x = plain(label), np.asarray(raw.x)
    kind = kind or _kind(x, plain(Path(source).name) if isinstance(source, str | Path) else f"'{label}'")
    if kind not in get_args(Kind):
        raise InputError(f"the kind of '{label}' must be one of {', '.join(get_args(Kind))}, got '{plain(kind)}'")
    fitted = raw.fitted
    data = from_labels(
        _shaped(x, kind, label), raw.labels, task=task, kind=kind, classes=classes, limit=limit, name=label,
        rows=None if fitted is None else fitted.rows, encoding=None if fitted is None else fitted.encoding,
    )  # fmt: skip
    return data if fitted is None else _counting_its_own(data, fitted)


def _counting_its_own(data: AnyDataset, fitted: Fitted) -> AnyDataset:
    """Have the notes count the blanks of the rows that are used."""
    encoding, rows = data.encoding, data.rows
    if encoding is None or rows is None or data.n == len(fitted.rows):
        return data
    notes = fitted.notes_on(np.isin(fitted.rows, rows))
    return replace(data, encoding=replace(encoding, notes=notes))


def _limited(data: AnyDataset, limit: int) -> AnyDataset:
    some = data.take(first_examples(data, limit))
    return replace(some, remarks=tuple(on_rows(some.n, data.n, ["limit"])))


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def _stem(path: Path) -> str:
    """Return the name of a file without its suffixes, or that of its part."""
    whole, part = divided(path)
    return part or Path(whole.name.removesuffix(".gz")).stem


def _from_file(given: Path, how: _Treatment) -> _Raw:
    path, part = divided(given)
    suffixes, shown = " ".join(SUFFIXES), plain(path)
    try:
        if path.is_dir():
            raise InputError(f"{shown} is a directory: name one file in it ({suffixes})")
        if not _exists(str(path)):
            raise InputError(
                f"there is no file {shown}{_meant(path)}: give a path ({suffixes}), a bundled name "
                f"({', '.join(BUNDLED)}) or a generator ({', '.join(GENERATORS)})"
            )
        suffix = suffix_of(path)
        if suffix not in SUFFIXES:
            raise InputError(f"{plain(path.name)} ends in '{plain(path.suffix)}': save it as one of {suffixes}")
        if suffix == ".npz":
            return _from_pair(*read_npz(path, target=_only(how.target, path)), how, path.name)
        if suffix == ".npy":
            whole = read_inputs(path)
            if not (whole.dtype.kind == "f" and uses_table(whole)):
                return _Raw(*read_npy(path, target=_only(how.target, path)))
            return _from_table(from_array(whole, path.name), how)
        return _from_table(as_table(given if part else path, header=how.header), how)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{shown} cannot be read ({reason}): check its permissions") from None


def _meant(path: Path) -> str:
    """Return a hint if the path is like a file of its folder, or like the name of a data set or a generator."""
    word, *parameters = str(path).split(":", 1)
    if parameters:
        return meant(word, GENERATORS)
    names = [*BUNDLED, *GENERATORS] if path.stem == word else []
    with contextlib.suppress(OSError, ValueError):
        names += [one.name for one in path.parent.iterdir() if one.suffix.lower() in SUFFIXES]
    return meant(path.name, names, lambda name: Path(name).stem)


def _from_memory(source: Any, how: _Treatment, name: str) -> _Raw:
    if isinstance(source, tuple) and len(source) == 2:
        if how.target is not None:
            raise InputError("a pair (X, y) has its own target: leave out `target`")
        return _from_pair(source[0], source[1], how, name)
    if isinstance(source, dict) and how.target is None and (pair := from_bunch(source)) is not None:
        return _from_pair(*pair, how, name)
    if isinstance(source, dict | list):
        source = from_plain(source, f"'{plain(name)}'")
    if is_frame(source):
        return _from_table(as_table(source, name=name), how)
    raise InputError(
        f"data cannot be read from {type(source).__name__}: give a file, a frame, a dictionary of columns, a list of "
        "records, a pair (X, y), a bundled name or a generator"
    )


def _from_table(table: Table, how: _Treatment) -> _Raw:
    names = table.names if table.named else None
    several = _several(how.target, names)
    if len(several) != 1:
        return _with_targets(table, several, how)
    position = target_position(several[0], names, table.width, table.source)
    found = fit(table, position, missing=how.missing, keep_ids=how.keep_ids)
    return _Raw(found.x, found.labels, found)


def _several(target: Any, names: Sequence[str] | None) -> list[Any]:
    """Return the targets that are asked for: a list, or a text with commas that is no name itself, are several."""
    if isinstance(target, list | tuple):
        return list(target)
    if isinstance(target, str) and "," in target and target not in (names or ()):
        return [part.strip() for part in target.split(",")]
    return [target]


def _only(target: str | int | Sequence[str | int] | None, path: Path) -> str | int | None:
    """Return the one target of a file of arrays."""
    if target is None or isinstance(target, str | int | np.integer):
        return target  # pyright: ignore[reportReturnType]
    if len(target) == 1:
        return target[0]
    raise InputError(
        f"{plain(path.name)} holds arrays, and one is the target: save several targets as one array with two axes"
    )


def _with_targets(table: Table, targets: list[Any], how: _Treatment) -> _Raw:
    """Return the inputs of a table, and several of its columns, which hold numbers, as labels."""
    names = table.names if table.named else None
    positions = [target_position(one, names, table.width, table.source) for one in targets]
    if len(set(positions)) < len(positions) or not positions:
        raise InputError(f"the targets of {table.source} must be different columns, at least one; got {targets}")
    if len(positions) == table.width:
        raise InputError(f"all {table.width} columns of {table.source} are targets: leave at least one input")
    readings = [read_column(table, j) for j in positions]
    for j, reading in zip(positions, readings, strict=True):
        if reading.kind != "number":
            raise InputError(
                f"{table.source}: {table.column(j)} holds {reading.kind}, and several targets are numbers: choose one "
                "target, or columns of numbers"
            )
        complain(table.source, list(reading.problems))
    labels = np.column_stack([np.where(one.missing, np.nan, one.values.astype(float)) for one in readings])
    inputs = [j for j in range(table.width) if j not in positions]
    frame = table.frame[inputs].set_axis(list(range(len(inputs))), axis=1)
    rest = replace(table, frame=frame, names=tuple(table.names[j] for j in inputs))
    found = fit(rest, None, labels, missing=how.missing, keep_ids=how.keep_ids)
    return _Raw(found.x, found.labels, found)


def _from_pair(x: Any, labels: Any, how: _Treatment, name: str) -> _Raw:
    """Return inputs and labels given apart; a frame, text or missing numbers are encoded."""
    if not is_frame(x):
        try:
            x = np.asarray(x)
        except ValueError:
            raise InputError(f"the inputs of '{plain(name)}' are ragged: give every row the same length") from None
        gaps = x.ndim == 2 and bool(missing_labels(np.asarray(labels)).any())
        if not (uses_table(x) or gaps):
            return _Raw(x, labels)
    if is_frame(labels) and labels.shape[1] == 1:
        labels = as_table(labels, name=name).frame[0]
    target = getattr(labels, "name", None)
    table = as_table(x, name=plain(name))
    found = fit(
        table, None, labels, missing=how.missing, keep_ids=how.keep_ids or not table.named,
        target=None if target is None else plain(target),
    )  # fmt: skip
    return _Raw(found.x, found.labels, found)


def _kind(x: np.ndarray, what: str) -> Kind:
    if x.ndim == 2:
        return "vectors"
    if x.ndim < 2:
        raise InputError(f"{what} holds inputs of shape {x.shape}: give one row for each example")
    raise InputError(
        f"{what} holds inputs of shape {x.shape}: say what they are with `kind`, 'images' (n, channels, pixels) "
        "or 'sequences' (n, length, features)"
    )


def _shaped(x: np.ndarray, kind: Kind, name: str) -> np.ndarray:
    """Fold a table into images or sequences."""
    if kind == "vectors" or x.ndim != 2:
        return x
    if kind == "sequences":
        return x[:, :, None]
    side = round(x.shape[1] ** 0.5)
    if side * side != x.shape[1]:
        raise InputError(
            f"'{name}' has {x.shape[1]} columns, which is not a square image: "
            "store an array (n, channels, pixels) in .npz"
        )
    return x.reshape(len(x), side, side)


def first_examples(data: AnyDataset, limit: int) -> np.ndarray:
    """Return the positions that `from_labels` keeps with the same `limit`.

    Parameters
    ----------
    data
        A data set.
    limit
        Maximum number of examples.

    Returns
    -------
    array
        Positions of examples.

    Examples
    --------
    >>> first_examples(load("iris", classes=("setosa", "virginica")), 4).tolist()
    [0, 1, 50, 51]
    """
    labels = data.labels
    values = np.arange(data.n) + 0.5 if labels is None else labels
    x = np.arange(data.n)[:, None]
    kept = from_labels(x, values, limit=limit, name=data.name, task="regression" if labels is None else "auto")
    return kept.x[:, 0].astype(np.int64)
