"""Data sets as values: inputs, what a network is trained towards, and how they were prepared.

| class             | `x`                     | `y`                                      |
|-------------------|-------------------------|------------------------------------------|
| `Dataset`         | `(n, d)`                | `(n,)` or `(n, k)`                       |
| `ImageDataset`    | `(n, channels, pixels)` | `(n,)` or `(n, k)`                       |
| `SequenceDataset` | `(n, length, features)` | `(n, length, k)`: a target at every step |

Classification targets are signs: ±1 for two classes, one ±1 column a class (one against the rest) for more.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, final, get_args

import numpy as np

from wideproof.cards import card
from wideproof.data.encoding import Encoding
from wideproof.data.exact import inexact
from wideproof.data.notes import leaves_out
from wideproof.data.step import Step
from wideproof.data.words import counted, plain
from wideproof.errors import InputError

Task = Literal["binary", "multiclass", "regression"]


def as_floats(array: Any, what: str) -> np.ndarray:
    """Return a C-contiguous float64 copy, or say that `what` is not made of real numbers."""
    try:
        raw = np.asarray(array)
        if raw.dtype.kind not in "biuf":
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(
            f"{what} must be a rectangular array of real numbers, got {type(array).__name__}"
            f"{_of_dtype(array)}: encode text as numbers and give every row the same length"
        ) from None
    lost = inexact(raw)
    if lost is not None:
        place = ", ".join(str(int(k)) for k in np.unravel_index(lost, raw.shape))
        remedy = "convert them to float64 yourself" if raw.dtype.kind == "f" else "subtract an offset from the column"
        raise InputError(
            f"{what} hold {raw.ravel()[lost]} at position {place} (counting from 0), which has more digits than "
            f"float64 keeps: {remedy}, or leave it out"
        )
    return np.array(raw, dtype=np.float64, order="C")


def _of_dtype(array: Any) -> str:
    dtype = getattr(array, "dtype", None)
    return "" if dtype is None else f" of {dtype}"


def require_finite(array: np.ndarray, what: str, axes: tuple[str, ...]) -> None:
    """Raise with the first position (counted from 0) that holds NaN or an infinity."""
    if np.isfinite(array).all():
        return
    where = np.argwhere(~np.isfinite(array))[0]
    place = ", ".join(f"{axis} {index}" for axis, index in zip(axes, where, strict=False))
    raise InputError(
        f"{what} holds {array[tuple(where)]} at {place} (counting from 0): remove that {axes[0]} or fill the value in"
    )


@dataclass(frozen=True, eq=False, repr=False)
class Examples(ABC):
    """What the three kinds of data set share: fields, validation, digest and selection.

    `encoding` says how a table became `x`, and `rows` where each example stands in its source: the line of a text
    file (the first is 1), or the row counted from 0. `remarks` say which classes and rows of the source are used.
    """

    x: np.ndarray
    y: np.ndarray
    task: Task
    name: str = "data"
    classes: tuple[str, ...] = ()
    preparation: tuple[Step, ...] = ()
    encoding: Encoding | None = None
    rows: np.ndarray | None = None
    remarks: tuple[str, ...] = ()

    axes: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", plain(self.name))
        if self.task not in get_args(Task):
            raise InputError(f"the task of '{self.name}' must be one of {', '.join(get_args(Task))}, got '{self.task}'")
        x = as_floats(self.x, f"the inputs of '{self.name}'")
        y = as_floats(self.y, f"the targets of '{self.name}'")
        shape = f"({', '.join(('n', *(f'{axis}s' for axis in self.axes[1:])))})"
        if x.ndim != len(self.axes):
            raise InputError(
                f"the inputs of '{self.name}' must have shape {shape}, got {x.shape}: reshape them, "
                "or choose another kind of data set (vectors, images or sequences)"
            )
        if x.size == 0:
            raise InputError(f"'{self.name}' is empty (inputs of shape {x.shape}): give at least one example")
        if y.shape[:1] != x.shape[:1]:
            raise InputError(
                f"'{self.name}' has {len(x)} inputs and targets of shape {y.shape}: give one target for every input"
            )
        self._check_target_shape(x, y)
        require_finite(x, f"the input array of '{self.name}'", self.axes)
        require_finite(y, f"the target array of '{self.name}'", (self.axes[0], "column", "output"))
        x.setflags(write=False)
        y.setflags(write=False)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "classes", tuple(plain(c) for c in self.classes))
        object.__setattr__(self, "preparation", tuple(self.preparation))
        object.__setattr__(self, "remarks", tuple(self.remarks))
        if self.rows is not None:
            rows = np.array(self.rows, dtype=np.int64)
            if rows.shape != (len(x),):
                raise InputError(
                    f"'{self.name}' has {len(x)} inputs and row numbers of shape {rows.shape}: give one for every input"
                )
            rows.setflags(write=False)
            object.__setattr__(self, "rows", rows)
        if self.task != "regression":
            self._check_signs()

    @abstractmethod
    def _check_target_shape(self, x: np.ndarray, y: np.ndarray) -> None:
        """Raise unless `y` has a shape this kind of data set and its task allow."""

    @abstractmethod
    def _signs(self) -> np.ndarray:
        """Return the targets as `(n, k)`, for sequences those of the last step."""

    def _check_signs(self) -> None:
        if not np.isin(self.y, (-1.0, 1.0)).all():
            where = np.argwhere(~np.isin(self.y, (-1.0, 1.0)))[0]
            raise InputError(
                f"the labels of '{self.name}' must be -1 or +1, got {self.y[tuple(where)]:g} in row {where[0]}: "
                "build the data set from raw labels with `from_labels`"
            )
        signs = self._signs()
        wanted = 2 if self.task == "binary" else signs.shape[1]
        if self.task == "multiclass" and ((signs == 1).sum(axis=1) != 1).any():
            row = int(np.argmax((signs == 1).sum(axis=1) != 1))
            raise InputError(
                f"every row of the targets of '{self.name}' needs exactly one +1, row {row} has "
                f"{int((signs[row] == 1).sum())}: build the data set from raw labels with `from_labels`"
            )
        if self.classes and len(self.classes) != wanted:
            raise InputError(
                f"'{self.name}' has {wanted} classes and {len(self.classes)} class names: give one name for each class"
            )
        labels = self.labels
        assert labels is not None
        if labels.min() == labels.max():
            plain = ("-1", "+1") if self.task == "binary" else tuple(str(k) for k in range(wanted))
            only = (self.classes or plain)[int(labels[0])]
            raise InputError(
                f"'{self.name}' holds only one class ('{only}') in {counted(self.n, 'example')}: "
                "use more examples, or, where labels are numbers, `task` 'regression'"
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """How the source was read, in a few lines: its columns, its classes, the rows that are used."""
        return (*(self.encoding.notes if self.encoding is not None else ()), *self.remarks)

    @property
    def partial(self) -> bool:
        """Whether the notes say that rows of the source are not used."""
        return leaves_out(self.notes)

    @property
    def n(self) -> int:
        """The number of examples."""
        return len(self.x)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.x.shape[1:]

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of one target; `()` for a number."""
        return self.y.shape[1:]

    @property
    def labels(self) -> np.ndarray | None:
        """The class index of every example (two classes: 0 for -1, 1 for +1); None for regression."""
        if self.task == "regression":
            return None
        signs = self._signs()
        return (signs[:, 0] > 0).astype(np.int64) if self.task == "binary" else np.argmax(signs, axis=1)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over type, shape and bytes of `x` and `y`: equal digests mean equal numbers."""
        total = hashlib.sha256()
        for array in (self.x, self.y):
            total.update(f"{array.dtype.str}{array.shape}".encode())
            total.update(array.tobytes())
        return total.hexdigest()

    def take(self, indices: Sequence[int] | np.ndarray) -> Self:
        """Return the examples at `indices`, in that order, with the same preparation."""
        try:
            chosen = np.asarray(indices)
            chosen = chosen if chosen.dtype == bool or chosen.size else chosen.astype(np.int64)
            x, y = self.x[chosen], self.y[chosen]
            rows = None if self.rows is None else self.rows[chosen]
        except IndexError:
            raise InputError(
                f"'{self.name}' has the examples 0 to {self.n - 1}: every index must be a whole number in that range"
            ) from None
        return replace(self, x=x, y=y, rows=rows)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}('{self.name}', x={self.x.shape}, y={self.y.shape}, "
            f"task='{self.task}', digest='{self.digest[:12]}')"
        )

    def __str__(self) -> str:
        sizes = " x ".join(str(size) for size in self.input_shape)
        classes = f" ({', '.join(self.classes)})" if 0 < len(self.classes) <= 10 else ""
        steps = f", prepared by {', '.join(map(str, self.preparation))}" if self.preparation else ""
        return f"{self.name}: {self.n} examples of {sizes}, {self._in_words()}{classes}{steps}"

    def _in_words(self) -> str:
        """Return the task, how many targets it has if several, or for classes whose targets are two numbers these."""
        values = np.unique(self.y) if self.task == "regression" and self.classes else ()
        if len(values) == 2:
            return f"{len(self.classes)} classes as {values[0]:g} and {values[1]:g}"
        several = self.task == "regression" and self.y.ndim == 2 and self.y.shape[1] > 1
        return f"regression with {self.y.shape[1]} targets" if several else self.task

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {
            "examples": self.n,
            "input": " × ".join(f"{size} {axis}s" for size, axis in zip(self.input_shape, self.axes[1:], strict=True)),
            "task": self._in_words(),
        }
        labels = self.labels
        if labels is None:
            facts["targets"] = f"from {self.y.min():.4g} to {self.y.max():.4g}"
        else:
            signs = ("-1", "+1") if self.task == "binary" else tuple(map(str, range(self.y.shape[-1])))
            names = self.classes or signs
            counts = np.bincount(labels, minlength=len(names))
            parts = [f"{name}: {count}" for name, count in zip(names, counts, strict=True)]
            facts["classes"] = ", ".join(parts[:12]) + (f" and {len(parts) - 12} more" if len(parts) > 12 else "")
        if self.preparation:
            facts["prepared by"] = ", ".join(map(str, self.preparation))
        return card(self.name, facts | {"digest": self.digest[:12]})


class _PlainTargets(Examples):
    """Targets of shape `(n,)` or `(n, k)`."""

    def _check_target_shape(self, x: np.ndarray, y: np.ndarray) -> None:
        allowed = {"binary": (1,), "multiclass": (2,), "regression": (1, 2)}[self.task]
        if y.ndim not in allowed or y.size == 0:
            shapes = " or ".join({1: f"({len(x)},)", 2: f"({len(x)}, k)"}[k] for k in allowed)
            raise InputError(
                f"{self.task} targets of '{self.name}' must have shape {shapes}, got {y.shape}: "
                "build the data set from raw labels with `from_labels`"
            )

    def _signs(self) -> np.ndarray:
        return self.y.reshape(self.n, -1)


@final
class Dataset(_PlainTargets):
    """Vectors: `x (n, d)`.

    Attributes
    ----------
    x
        The inputs, with the examples along the first axis.
    y
        The targets: a number or a row for each example; -1 and +1 for two classes.
    task
        `"binary"`, `"multiclass"` or `"regression"`.
    name
        Name of the data set.
    classes
        Names of the classes; empty for regression.
    preparation
        The preparation steps that were applied to `x`.
    encoding
        How the columns of a table became `x`; `None` if `x` was given.
    rows
        The position of each example in its source: the line of a text file (the first is 1), or the row counted from 0.
    remarks
        Which classes and rows of the source are used, one sentence each.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [1, -1], "binary", name="axes")
    >>> data.n, data.input_shape, data.labels.tolist()
    (2, (2,), [1, 0])
    >>> print(data)
    axes: 2 examples of 2, binary
    """

    axes = ("row", "column")


@final
class ImageDataset(_PlainTargets):
    """Images on a line of pixels: `x (n, channels, pixels)`, as the convolutional network reads them.

    Attributes
    ----------
    x
        The inputs, with the examples along the first axis.
    y
        The targets: a number or a row for each example; -1 and +1 for two classes.
    task
        `"binary"`, `"multiclass"` or `"regression"`.
    name
        Name of the data set.
    classes
        Names of the classes; empty for regression.
    preparation
        The preparation steps that were applied to `x`.
    encoding
        How the columns of a table became `x`; `None` if `x` was given.
    rows
        The position of each example in its source: the line of a text file (the first is 1), or the row counted from 0.
    remarks
        Which classes and rows of the source are used, one sentence each.

    Examples
    --------
    >>> ImageDataset(np.ones((2, 3, 5)), [0.5, 2.0], "regression").input_shape
    (3, 5)
    """

    axes = ("image", "channel", "pixel")


@final
class SequenceDataset(Examples):
    """Sequences of tokens: `x (n, length, features)`, with a target at every step: `y (n, length, k)`.

    For classification the sign (or row of signs) of the class is repeated at every step.

    Attributes
    ----------
    x
        The inputs, with the examples along the first axis.
    y
        The targets: a number or a row for each example; -1 and +1 for two classes.
    task
        `"binary"`, `"multiclass"` or `"regression"`.
    name
        Name of the data set.
    classes
        Names of the classes; empty for regression.
    preparation
        The preparation steps that were applied to `x`.
    encoding
        How the columns of a table became `x`; `None` if `x` was given.
    rows
        The position of each example in its source: the line of a text file (the first is 1), or the row counted from 0.
    remarks
        Which classes and rows of the source are used, one sentence each.

    Examples
    --------
    >>> data = SequenceDataset(np.ones((2, 4, 3)), np.zeros((2, 4, 1)), "regression")
    >>> data.input_shape, data.target_shape
    ((4, 3), (4, 1))
    """

    axes = ("sequence", "step", "feature")

    def _check_target_shape(self, x: np.ndarray, y: np.ndarray) -> None:
        if x.shape[1] < 2:
            raise InputError(
                f"the sequences of '{self.name}' have length 1, and the loss of a recurrent network starts at step 2: "
                "give sequences of at least two tokens"
            )
        if y.ndim != 3 or y.shape[1] != x.shape[1] or y.size == 0:
            raise InputError(
                f"the targets of '{self.name}' must have shape ({len(x)}, {x.shape[1]}, k), one target for each step, "
                f"got {y.shape}: repeat a label at every step, or use `from_labels`"
            )
        if self.task == "binary" and y.shape[2] != 1:
            raise InputError(
                f"binary targets of '{self.name}' must have one output at each step, got {y.shape[2]}: "
                "use task 'multiclass', or keep one column"
            )
        if self.task != "regression" and (y != y[:, -1:, :]).any():
            raise InputError(
                f"the labels of '{self.name}' change along sequence {int(np.argwhere(y != y[:, -1:, :])[0][0])}: "
                "repeat one label at every step, or use task 'regression', with which margin losses take -1 and +1"
            )

    def _signs(self) -> np.ndarray:
        return self.y[:, -1, :]


AnyDataset = Dataset | ImageDataset | SequenceDataset
