r"""Make the papers' data assumptions hold, and remember how, so that new points get the very same treatment.

`prepare(data, "whiten,constant(0.5)")` fits the steps one after the other and records them in
`data.preparation`; `apply(data.preparation, x_new)` repeats them. Every sum runs in an order that does not
depend on how many rows there are, so a row gives the same bits alone, in a batch, or in the training set.

| step            | on              | what it does                                                         |
|-----------------|-----------------|----------------------------------------------------------------------|
| `center`        | all             | subtract the mean                                                    |
| `standardize`   | all             | subtract the mean, divide by the deviation; constant columns are 0   |
| `whiten`        | vectors         | PCA whitening, without singular values <= 1e-10 of the largest       |
| `onehot(k)`     | vectors         | a column of codes, 3 to k values (12), becomes k indicators          |
| `ranks`         | vectors         | every column becomes $\Phi^{-1}((\text{midrank} - 1/2)/n)$           |
| `unit`          | vectors, images | $x / \lVert x \rVert$ (Frobenius norm for images)                    |
| `constant(mu)`  | vectors         | $(\sqrt{1-\mu^2} x/\lVert x \rVert, \mu)$, $\mu^2 = 1/2$ if not given |
| `sphere(r)`     | vectors         | $r\,(x, \beta) / \lVert (x, \beta) \rVert$, r = 1 if not given          |
| `lift(D)`       | vectors         | $\sqrt{2/D} \cos(\Omega^\top x + b)$, D = 1024 if not given             |
| `pad`           | sequences       | first token of norm 1, last coordinate $1/\sqrt2$: two more columns  |
| `token_norm`    | sequences       | divide by the largest token norm                                     |
| `scale_targets` | regression      | $(y - \text{mean}) / \text{std}$ in each output                      |
| `binarize(c)`   | many classes    | class `c` against the rest                                           |
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from wideproof.data.columnwise import fit_onehot, fit_ranks, onehot, ranks
from wideproof.data.dataset import (
    AnyDataset,
    Dataset,
    ImageDataset,
    SequenceDataset,
    as_floats,
    require_finite,
)
from wideproof.data.labels import label_name
from wideproof.data.repeats import distinct
from wideproof.data.step import Step as Step
from wideproof.errors import InputError

RANK_TOLERANCE = 1e-10
NEIGHBOURS, LOW_QUANTILE = 1000, 0.1  # how many points a lift looks at, and which of their distances it takes
PAPERS_NEED: dict[str, tuple[str, ...]] = {
    "du2019": ("unit",),
    "zou2018": ("constant",),
    "allenzhu2018": ("pad",),
    "frei2019": ("unit",),
}
_KIND = {Dataset: "vectors", ImageDataset: "images", SequenceDataset: "sequences"}
_AnyData = TypeVar("_AnyData", bound=AnyDataset)


@dataclass(frozen=True)
class _Recipe:
    """How a step is fitted, what it does to inputs, and to which kinds of data it applies."""

    fit: Callable[[AnyDataset, str], Step]
    inputs: Callable[[Step, np.ndarray], np.ndarray] | None
    kinds: tuple[str, ...]
    instead: str = ""
    argument: bool = False


def prepare(data: _AnyData, steps: str | Sequence[str]) -> _AnyData:
    """Fit preparation steps to a data set, apply them in order, and record them.

    Parameters
    ----------
    data
        A data set of any kind.
    steps
        Steps as a text such as `"standardize,sphere"`, or a list of them.

    Returns
    -------
    ~_AnyData
        The prepared data set; `data.preparation` has the fitted steps.

    Examples
    --------
    >>> data = prepare(Dataset([[3.0, 4.0], [0.0, 2.0]], [1, -1], "binary"), "unit")
    >>> data.x.tolist()
    [[0.6, 0.8], [0.0, 1.0]]
    >>> apply(data.preparation, [[6.0, 8.0]]).tolist()
    [[0.6, 0.8]]
    """
    for name, argument in parse_steps(steps):
        recipe, kind = _RECIPES[name], _KIND[type(data)]
        if kind not in recipe.kinds:
            raise InputError(
                f"`{name}` prepares {' and '.join(recipe.kinds)}, '{data.name}' holds {kind}: {recipe.instead}"
            )
        if argument and not recipe.argument:
            raise InputError(f"`{name}` takes no argument, got '{argument}': write `{name}`")
        fitted = recipe.fit(data, argument)
        step = Step(name, (*fitted.settings, ("input_shape", _shape_text(data.input_shape))), fitted.arrays)
        done = (*data.preparation, step)
        if recipe.inputs is not None:
            data = replace(data, x=recipe.inputs(step, data.x), preparation=done)
        elif name == "scale_targets":
            y = (data.y - step.array("mean")) / step.array("std")
            data = replace(data, y=y, preparation=done)
        else:
            data = _against_rest(data, step, done)
    return data


def merges(data: AnyDataset, prepared: AnyDataset) -> bool:
    """Return whether a preparation has made different inputs equal, so that a proof is about the prepared inputs only.

    Parameters
    ----------
    data
        The data before the preparation.
    prepared
        The data after it.

    Returns
    -------
    bool
        Whether it has.

    Examples
    --------
    >>> data = Dataset([[1.0, 1.0], [2.0, 2.0]], [1, -1], "binary")
    >>> merges(data, prepare(data, "unit")), merges(data, prepare(data, "sphere"))
    (True, False)
    """
    return distinct(prepared).n < distinct(data).n


def flattens(prepared: AnyDataset) -> str:
    """Return a warning if whitening has left nothing to learn from.

    Whitening n different rows keeps at most n - 1 directions. With n - 1 directions the inner product of any two
    different rows is -1: all pairs are equally similar, whatever the table holds.

    Parameters
    ----------
    prepared
        A prepared data set.

    Returns
    -------
    str
        A sentence, or the empty string.

    Examples
    --------
    >>> data = prepare(Dataset([[1.0, 0.0], [0.0, 1.0], [3.0, 2.0]], [1, -1, 1], "binary"), "whiten")
    >>> (data.x @ data.x.T).round(9).tolist()
    [[2.0, -1.0, -1.0], [-1.0, 2.0, -1.0], [-1.0, -1.0, 2.0]]
    >>> flattens(data)[:54]
    '`whiten` makes any 2 of 3 different rows equally alike'
    """
    n = distinct(prepared).n
    if all(step.name != "whiten" or int(step.setting("rank")) < n - 1 for step in prepared.preparation):
        return ""
    return (
        f"`whiten` makes any 2 of {n} different rows equally alike, since their columns have {n - 1} independent "
        "directions: use `standardize`, or more rows"
    )


def apply(preparation: Sequence[Step], x: object) -> np.ndarray:
    """Apply the preparation of the training inputs to new raw inputs; a row gets the same bits alone and in a batch.

    Parameters
    ----------
    preparation
        The steps of a prepared data set, `data.preparation`.
    x
        Raw inputs, with the columns of the training data.

    Returns
    -------
    array
        The prepared inputs.
    """
    result = as_floats(x, "the new inputs")
    require_finite(result, "the new inputs", ("row", "column", "entry"))
    for step in preparation:
        recipe = _RECIPES.get(step.name)
        if recipe is None:
            raise InputError(f"the preparation step '{step.name}' is unknown: use one of {', '.join(_RECIPES)}")
        if recipe.inputs is None:
            continue
        wanted = step.setting("input_shape")
        if _shape_text(result.shape[1:]) != wanted:
            raise InputError(
                f"`{step.name}` was fitted on inputs of shape {wanted}, got a batch of shape {result.shape}: "
                "give new points with the columns of the training data, one in each row"
            )
        result = recipe.inputs(step, result)
    return result


def restore_targets(preparation: Sequence[Step], outputs: np.ndarray) -> np.ndarray:
    """Convert outputs back to the units that the targets had before `scale_targets`.

    Parameters
    ----------
    preparation
        The steps of a prepared data set, `data.preparation`.
    outputs
        Outputs, one row for each example.

    Returns
    -------
    array
        The outputs in the original units.
    """
    for step in reversed(preparation):
        if step.name == "scale_targets":
            outputs = outputs * step.array("std") + step.array("mean")
    return outputs


def parse_steps(steps: str | Sequence[str]) -> list[tuple[str, str]]:
    """Split `"whiten,constant(0.5)"` into names and arguments.

    Parameters
    ----------
    steps
        Steps as a text, or a list of them.

    Returns
    -------
    list[tuple[str, str]]
        Names with arguments; the argument is empty if there is none.

    Examples
    --------
    >>> parse_steps("whiten, constant(0.5)")
    [('whiten', ''), ('constant', '0.5')]
    """
    parts = re.split(r",(?![^(]*\))", steps) if isinstance(steps, str) else list(steps)
    parsed = []
    for part in filter(None, (part.strip() for part in parts)):
        found = re.fullmatch(r"([\w-]+)\s*(?:\(\s*([^()]*?)\s*\))?", part)
        name = found[1].replace("-", "_") if found else ""
        if found is None or name not in _RECIPES:
            raise InputError(f"'{part}' is not a preparation step: use {', '.join(_RECIPES)}, separated by commas")
        parsed.append((name, found[2] or ""))
    return parsed


def _shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _norms(x: np.ndarray) -> np.ndarray:
    """Row norms over all other axes, scaled so that no square over- or underflows."""
    flat = np.ascontiguousarray(x).reshape(len(x), -1)
    largest = np.abs(flat).max(axis=1)
    scaled = flat / np.where(largest > 0, largest, 1.0)[:, None]
    return largest * np.sqrt(np.add.reduce(scaled * scaled, axis=1))


def _on_sphere(x: np.ndarray) -> np.ndarray:
    norms = _norms(x)
    if not norms.all():
        raise InputError(
            f"row {int(np.argmin(norms))} (counting from 0) is zero and has no direction: remove it, "
            "or `center` or `standardize` first"
        )
    once = x / norms.reshape(-1, *(1,) * (x.ndim - 1))
    return once / _norms(once).reshape(-1, *(1,) * (x.ndim - 1))


def _product(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """`x @ matrix`, summed over columns from the first to the last for every row, whatever the batch."""
    result = np.empty((len(x), matrix.shape[1]))
    for start in range(0, len(x), 256):
        rows = x[start : start + 256]
        total = np.zeros((len(rows), matrix.shape[1]))
        for j, direction in enumerate(matrix):
            total += rows[:, j, None] * direction
        result[start : start + 256] = total
    return result


def _mean(data: AnyDataset) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the mean with constant columns exact, and the axes it runs over (examples and steps)."""
    axes = (0, 1) if isinstance(data, SequenceDataset) else (0,)
    low = data.x.min(axis=axes)
    return np.where(low == data.x.max(axis=axes), low, data.x.mean(axis=axes)), axes


def _fit_center(data: AnyDataset, _: str) -> Step:
    return Step("center", arrays=(("mean", _mean(data)[0]),))


def _fit_standardize(data: AnyDataset, _: str) -> Step:
    mean, axes = _mean(data)
    std = np.sqrt(np.square(data.x - mean).mean(axis=axes))
    still = data.x.min(axis=axes) == data.x.max(axis=axes)
    settings = (("constant_columns", int(still.sum())),)
    return Step("standardize", settings, (("mean", mean), ("std", np.where(still, np.inf, std))))


def _fit_whiten(data: AnyDataset, _: str) -> Step:
    mean, _axes = _mean(data)
    _u, singular, rows = np.linalg.svd((data.x - mean) / np.sqrt(data.n), full_matrices=False)
    if singular[0] == 0:
        raise InputError(f"all rows of '{data.name}' are equal, so `whiten` has no direction left: leave it out")
    keep = singular > RANK_TOLERANCE * singular[0]
    rows, singular = rows[keep], singular[keep]
    rows = rows * np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)])[:, None]
    settings = (("rank", int(keep.sum())), ("dropped", int(data.x.shape[1] - keep.sum())))
    return Step("whiten", settings, (("mean", mean), ("projection", (rows / singular[:, None]).T)))


def _fit_constant(data: AnyDataset, argument: str) -> Step:
    try:
        mu = float(argument) if argument else float(np.sqrt(0.5))
    except ValueError:
        mu = float("nan")
    if not 0 < mu < 1:
        raise InputError(f"`constant` needs a last coordinate between 0 and 1, got '{argument}': try constant(0.5)")
    return Step("constant", (("mu", mu),))


def _constant(step: Step, x: np.ndarray) -> np.ndarray:
    mu = step.setting("mu")
    return np.column_stack([np.sqrt((1 - mu) * (1 + mu)) * _on_sphere(x), np.full(len(x), mu)])


def _fit_sphere(data: AnyDataset, argument: str) -> Step:
    try:
        radius = float(argument) if argument else 1.0
    except ValueError:
        radius = float("nan")
    if not 0 < radius < np.inf:
        raise InputError(f"`sphere` needs a radius > 0, got '{argument}': try sphere(4)")
    # Half of the typical norm: a larger constant makes all rows alike, a smaller one rows on a ray.
    beta = 0.5 * float(np.sqrt(np.mean(np.square(_norms(data.x))))) or 1.0
    return Step("sphere", (("radius", radius), ("beta", beta)))


def _sphere(step: Step, x: np.ndarray) -> np.ndarray:
    return step.setting("radius") * _on_sphere(np.column_stack([x, np.full(len(x), step.setting("beta"))]))


def _fit_lift(data: AnyDataset, argument: str) -> Step:
    """Draw the frequencies of a Gaussian kernel whose width is a low quantile of nearest-neighbour distances."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.neighbors import NearestNeighbors

    if argument and not (argument.isascii() and argument.isdigit() and int(argument) > 0):
        raise InputError(f"`lift` needs a number of features, got '{argument}': try lift(1024)")
    points = np.unique(data.x, axis=0)
    points = points[np.linspace(0, len(points) - 1, min(len(points), NEIGHBOURS)).astype(int)]
    if len(points) < 2:
        raise InputError(f"all rows of '{data.name}' are equal, so `lift` has no distance to go by: leave it out")
    nearest = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points)[0][:, 1]
    width = max(float(np.quantile(nearest, LOW_QUANTILE)), 1e-3 * float(np.median(nearest)))
    drawn = RBFSampler(gamma=1 / (2 * width**2), n_components=int(argument or 1024), random_state=0).fit(points)
    return Step("lift", (("width", width),), (("omega", drawn.random_weights_), ("phase", drawn.random_offset_)))


def _lift(step: Step, x: np.ndarray) -> np.ndarray:
    phase = step.array("phase")
    return np.sqrt(2 / len(phase)) * np.cos(_product(x, step.array("omega")) + phase)


def _largest(tokens: np.ndarray) -> float:
    return float(_norms(tokens.reshape(-1, tokens.shape[-1])).max()) or 1.0


def _fit_pad(data: AnyDataset, _: str) -> Step:
    return Step("pad", (("first", _largest(data.x[:, 0])), ("later", _largest(data.x[:, 1:]))))


def _pad(step: Step, x: np.ndarray) -> np.ndarray:
    r"""First tokens $(v, \sqrt{1/2 - \|v\|^2}, 1/\sqrt2)$, $v = u/(\sqrt2 S_1)$; others $(u/S_2, 0, 0)$."""
    result = np.zeros((*x.shape[:2], x.shape[2] + 2))
    first = x[:, 0] / step.setting("first") * np.sqrt(0.5)
    result[:, 0, :-2] = first
    result[:, 0, -2] = np.sqrt(np.maximum(0.0, 0.5 - np.square(_norms(first))))
    result[:, 0, -1] = np.sqrt(0.5)
    result[:, 1:, :-2] = x[:, 1:] / step.setting("later")
    return result


def _fit_scale_targets(data: AnyDataset, _: str) -> Step:
    if data.task != "regression":
        raise InputError(f"`scale_targets` is for regression, '{data.name}' is {data.task}: leave it out")
    axes = tuple(range(data.y.ndim - 1)) if data.y.ndim > 1 else (0,)
    mean, std = data.y.mean(axis=axes), data.y.std(axis=axes)
    if not np.all(std > 0):
        raise InputError(f"a target of '{data.name}' is constant, so `scale_targets` would divide by 0: leave it out")
    return Step("scale_targets", arrays=(("mean", mean), ("std", std)))


def _fit_binarize(data: AnyDataset, argument: str) -> Step:
    names = data.classes or tuple(str(k) for k in range(data.y.shape[-1]))
    if data.task != "multiclass":
        raise InputError(f"`binarize` needs more than two classes, '{data.name}' is {data.task}: leave it out")
    if not argument or label_name(argument) not in names:
        raise InputError(
            f"`binarize` needs one class of '{data.name}', got '{argument}': use one of {', '.join(names)}"
        )
    chosen = label_name(argument)
    return Step("binarize", (("class", chosen), ("column", names.index(chosen))))


def _against_rest(data: _AnyData, step: Step, done: tuple[Step, ...]) -> _AnyData:
    column = step.setting("column")
    y = data.y[..., column : column + 1] if isinstance(data, SequenceDataset) else data.y[:, column]
    names = (f"not {step.setting('class')}", step.setting("class"))
    return replace(data, y=y, task="binary", classes=names, preparation=done)


STEPS = {
    "center": "subtract the mean",
    "standardize": "subtract the mean and divide by the standard deviation of each column",
    "whiten": "subtract the mean and rotate to uncorrelated columns of equal variance (PCA)",
    "onehot": "an indicator for each value of a column with 3 to 12 repeated values, or to k by onehot(k)",
    "ranks": "replace every column by the normal scores of its ranks; keeps different rows different",
    "unit": "scale every example to norm 1 (Du, Frei)",
    "constant": "scale to norm 1 with a constant last coordinate; constant(0.5) sets it (Zou)",
    "sphere": "append a constant coordinate and scale to norm 1, or to r by sphere(r); keeps different rows different",
    "lift": "random Fourier features as wide as near neighbours are apart: rows become nearly orthogonal",
    "pad": "pad and scale tokens as the recurrent network's theorem asks (Allen-Zhu)",
    "token_norm": "scale all tokens so that the longest has norm 1",
    "scale_targets": "shift and scale real targets to mean 0 and deviation 1",
    "binarize": "one class against the rest, as in binarize(3)",
}

_EVERY = ("vectors", "images", "sequences")
_RECIPES: dict[str, _Recipe] = {
    "center": _Recipe(_fit_center, lambda step, x: x - step.array("mean"), _EVERY),
    "standardize": _Recipe(_fit_standardize, lambda step, x: (x - step.array("mean")) / step.array("std"), _EVERY),
    "whiten": _Recipe(
        _fit_whiten,
        lambda step, x: _product(x - step.array("mean"), step.array("projection")),
        ("vectors",),
        "use `standardize`",
    ),
    "onehot": _Recipe(fit_onehot, onehot, ("vectors",), "use `standardize`", True),
    "ranks": _Recipe(fit_ranks, ranks, ("vectors",), "use `standardize`"),
    "unit": _Recipe(
        lambda data, argument: Step("unit"),
        lambda step, x: _on_sphere(x),
        ("vectors", "images"),
        "use `pad` or `token_norm`",
    ),
    "constant": _Recipe(_fit_constant, _constant, ("vectors",), "use `unit` for images, `pad` for sequences", True),
    "sphere": _Recipe(_fit_sphere, _sphere, ("vectors",), "use `unit` for images, `pad` for sequences", True),
    "lift": _Recipe(_fit_lift, _lift, ("vectors",), "use `standardize`", True),
    "pad": _Recipe(_fit_pad, _pad, ("sequences",), "use `unit` or `constant`, or load it as sequences"),
    "token_norm": _Recipe(
        lambda data, argument: Step("token_norm", (("largest", _largest(data.x)),)),
        lambda step, x: x / step.setting("largest"),
        ("sequences",),
        "use `unit`",
    ),
    "scale_targets": _Recipe(_fit_scale_targets, None, _EVERY),
    "binarize": _Recipe(_fit_binarize, None, _EVERY, argument=True),
}
