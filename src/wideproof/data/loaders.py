"""One door for data: a file, a bundled name or a generator with its parameters."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from wideproof.data.arrays import read_npy, read_npz, read_parquet
from wideproof.data.bundled import BUNDLED, bundled
from wideproof.data.dataset import AnyDataset, Task
from wideproof.data.generators import GENERATORS, generate
from wideproof.data.labels import Kind, from_labels
from wideproof.data.tables import Header, read_text
from wideproof.errors import InputError

READERS = {
    ".csv": read_text,
    ".tsv": read_text,
    ".txt": read_text,
    ".npy": read_npy,
    ".npz": read_npz,
    ".parquet": read_parquet,
}


_FOLDED: dict[tuple[str, str | None], str] = {
    ("digits", "images"): "digits-images",
    ("digits", "sequences"): "digits-rows",
}


def load(
    source: str | Path,
    *,
    target: str | int | None = None,
    header: Header = "auto",
    classes: Sequence[Any] | None = None,
    limit: int | None = None,
    task: Task | Literal["auto"] = "auto",
    kind: Kind | None = None,
    seed: int = 0,
    name: str | None = None,
) -> AnyDataset:
    """Load a data set.

    Parameters
    ----------
    source
        A file (.csv .tsv .txt .npy .npz .parquet); a bundled name (`digits`, `digits-images`, `digits-rows`,
        `breast_cancer`, `wine`, `iris`, `diabetes`); or a generator with its parameters, as in
        `sphere:n=50,d=10,separation=0.3`.
    target
        The target column, by name or position (default: the last), or the key of a .npz array.
    header
        Whether the first row of a text file names the columns; found out by default.
    classes
        Keep these classes, in this order; two of them become -1 and +1.
    limit
        Keep at most this many examples, as many of each class as of the others, in file order.
    task
        `binary`, `multiclass` or `regression`; read off the labels by default.
    kind
        `vectors`, `images` or `sequences`. A table read as images needs a square number of columns (image
        rows become channels); read as sequences each column is one step of one feature.
    seed
        The seed of a generator that does not set its own; unused otherwise.
    name
        The name of the data set; by default the source's own.

    Examples
    --------
    >>> print(load("iris", classes=("setosa", "virginica"), limit=20))
    iris: 20 examples of 4, binary (setosa, virginica)
    >>> load("sphere:n=6,d=3,separation=0.5", seed=1).x.shape
    (6, 3)
    """
    text = str(source)
    head = text.partition(":")[0]
    if head in GENERATORS and not Path(text).exists():
        given = [key for key, value in (("target", target), ("classes", classes), ("kind", kind)) if value is not None]
        if given or task != "auto":
            raise InputError(
                f"the generator '{head}' makes its own targets: leave out `{(given or ['task'])[0]}`, "
                "or choose a file or a bundled data set"
            )
        data = generate(text, seed=seed, name=name)
        return data if limit is None else data.take(first_examples(data, limit))
    if text in BUNDLED:
        if target is not None:
            raise InputError(f"the bundled data set '{text}' has its own target: leave out `target`")
        x, labels, own = bundled(_FOLDED.get((text, kind), text))
        label, kind = name or text, kind or own
    else:
        path = Path(source)
        x, labels = _read(path, target, header)
        label, kind = name or path.stem, kind or _kind(x, path)
    if kind not in get_args(Kind):
        raise InputError(f"the kind of '{label}' must be one of {', '.join(get_args(Kind))}, got '{kind}'")
    x = _shaped(np.asarray(x), kind, label)
    return from_labels(x, labels, task=task, kind=kind, classes=classes, limit=limit, name=label)


def _read(path: Path, target: str | int | None, header: Header) -> tuple[np.ndarray, np.ndarray]:
    suffixes = " ".join(READERS)
    try:
        if path.is_dir():
            raise InputError(f"{path} is a directory: name one file in it ({suffixes})")
        if not path.exists():
            raise InputError(
                f"{path} is no file here: give a path ({suffixes}), a bundled name "
                f"({', '.join(BUNDLED)}) or a "
                f"generator ({', '.join(GENERATORS)})"
            )
        reader = READERS.get(path.suffix.lower())
        if reader is None:
            raise InputError(f"{path.name} ends in '{path.suffix}': save it as one of {suffixes}")
        if reader is read_text:
            return read_text(path, target=target, header=header)
        return reader(path, target=target)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}): check its permissions") from None


def _kind(x: np.ndarray, path: Path) -> Kind:
    if x.ndim == 2:
        return "vectors"
    raise InputError(
        f"{path.name} holds inputs of shape {x.shape}: say what they are with `kind`, 'images' (n, "
        "channels, pixels) "
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
            f"'{name}' has {x.shape[1]} columns, which is no square image: store an array (n, channels, pixels) in .npz"
        )
    return x.reshape(len(x), side, side)


def first_examples(data: AnyDataset, limit: int) -> np.ndarray:
    """Return the positions `from_labels` would keep under the same `limit`.

    >>> first_examples(load("iris", classes=("setosa", "virginica")), 4).tolist()
    [0, 1, 50, 51]
    """
    labels = data.labels
    values = np.arange(data.n) + 0.5 if labels is None else labels
    x = np.arange(data.n)[:, None]
    kept = from_labels(x, values, limit=limit, name=data.name, task="regression" if labels is None else "auto")
    return kept.x[:, 0].astype(np.int64)
