"""Somebody's trained network: what gradient descent reaches on their data, proved from these very weights."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from wideproof.arguments import flag, number, one_of
from wideproof.certificates import DENSE, Attempt, Descent, Level, Point, Problem, Theorem
from wideproof.certificates import certify as certify_point
from wideproof.data import AnyDataset, Dataset, load, prepare
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.networks.exchange import Model
from wideproof.precision import double
from wideproof.progress import Watch, shown, unwatched
from wideproof.proving import folders
from wideproof.proving.beginning import about
from wideproof.proving.certifying import certified, spectra
from wideproof.proving.heads import FEATURES, headed
from wideproof.proving.job import Job, verified
from wideproof.proving.losses import LOSSES, LossProof, guessed, in_signs, prove_loss, read_outs
from wideproof.proving.predictor import RUN
from wideproof.proving.proof import Proof
from wideproof.storage import write_json
from wideproof.training import Recipe, Run, begin

CODINGS = {"signs": (-1.0, 1.0), "one-hot": (0.0, 1.0)}


F = TypeVar("F")


@overload
def certify(
    model: Point,
    theorem: Theorem[F] = Descent(),
    /,
    *,
    level: Level = "enclosed",
    sharp: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Attempt[F]: ...


@overload
def certify(
    model: Any,
    source: Any,
    target: str | int | None = None,
    /,
    *,
    head: str | None = None,
    trained: Sequence[str] | None = None,
    targets: str = "auto",
    loss: str = "auto",
    prepare: str = "none",
    folder: str | Path | None = None,
    polish: float = 0.0,
    sharp: bool = False,
    progress: Watch | None = None,
    **loading: Any,
) -> Proof | LossProof: ...


def certify(model: Any, *arguments: Any, **options: Any) -> Any:
    """Certify a theorem at a point (`certificates.certify`), or a model on a table in its own loss (`certify_model`).

    Parameters
    ----------
    model
        A point of a network of this library, `Problem(network, data).at(params)`; or a `Model`, the path of an ONNX
        file, or a PyTorch module.
    *arguments
        For a point the theorem, by default `Descent()`; for a model the table, and the column to predict.
    **options
        Keyword arguments of the function that is called.

    Returns
    -------
    Attempt | Proof | LossProof
        An `Attempt` for a point, a `Proof` or a `LossProof` for a model.

    Examples
    --------
    >>> import wideproof as wp
    >>> sketch = wp.Sketch(4)
    >>> network = sketch.read_out(sketch.dense(sketch.input, 32, "tanh"), 1)
    >>> model = wp.Model(network, network.init(0))
    >>> wp.certify(model, "iris", classes=("setosa", "virginica"), limit=20, prepare="standardize").proved
    True
    """
    if isinstance(model, Network):
        raise InputError("a network has no weights of its own: give `wp.Problem(network, data).at(params)`")
    chosen = certify_point if isinstance(model, Point) else certify_model
    return chosen(model, *arguments, **options)


@shown
@folders.temporary("proof")
@double
def certify_model(
    model: Any,
    source: Any,
    target: str | int | None = None,
    *,
    head: str | None = None,
    trained: Sequence[str] | None = None,
    targets: str = "auto",
    loss: str = "auto",
    prepare: str = "none",
    folder: str | Path | None = None,
    polish: float = 0.0,
    sharp: bool = False,
    progress: Watch | None = None,
    **loading: Any,
) -> Proof | LossProof:
    r"""Prove what a trained model reaches on a table in its own loss, from its very weights.

    With cross-entropy and the logistic loss: the loss, the least margin and the rows that are right, and how far
    gradient descent on the last layer takes the loss from there. With half the sum of squares: gradient descent fits
    the table exactly, if possible with all weights trained, otherwise with the last layer alone. Nothing is moved
    unless `polish` allows it; then weights that cannot be certified are polished, and the proof says how far they
    moved and by how much an output changed at most.

    With `head` everything before that layer is a feature map: its outputs, computed once in float64, are the data, and
    the proof is about the layers from there on, on these features. Before the head anything may stand that ONNX's
    reference evaluator or PyTorch can compute. `predict` then takes rows of features.

    Parameters
    ----------
    model
        An ONNX file, a PyTorch module, or a `Model` (a network with its weights). A module of images, signals or
        sequences takes them as they are in the pair `(X, y)`.
    source
        The data, as in `prove`.
    target
        The column to predict; by default the last one.
    head
        The layer with which the head begins: a node, a value or a weight of the file (`"fc"` for `"fc.weight"`), or a
        submodule. By default the whole model is read.
    trained
        Names of the weights that gradient descent moves; by default all.
    targets
        Coding of class labels for squares: `"signs"` ($\pm 1$), `"one-hot"` (0 and 1), or `"auto"`, the one closer to
        the outputs.
    loss
        `"squared"`, `"cross_entropy"`, `"logistic"` (one output), or `"auto"`: guessed from the end of the model, its
        outputs and the labels, and said in the notes.
    prepare
        The preparation with which the model was trained; by default none.
    folder
        The folder for run, certificate and report; by default nothing is kept.
    polish
        How far the weights may be polished for squares, relative to their length: 0.1 for a tenth, infinity for no
        limit. By default they are not moved.
    sharp
        Use sharper Lipschitz constants, which take longer.
    progress
        Callback; receives a `Progress` at every stage.
    **loading
        Further arguments of `load`, such as `classes`, `limit`, `missing`.

    Returns
    -------
    Proof or LossProof
        A `Proof` that a global minimum of the squares is reached, or not proved with the obstacle; otherwise a
        `LossProof`: the loss now, and after how many steps.
    """
    assert folder is not None
    one_of("auto", *CODINGS)("targets", targets)
    one_of(*LOSSES)("loss", loss)
    number("a share of the weights' length, 0 or more", lambda share: share >= 0, finite=False)("polish", polish)
    flag("sharp", sharp)
    recipe = Recipe(steps=0, step_size="safe")
    job = Job(Path(folder), recipe, sharp, progress or unwatched)
    folders.require_place(job.folder)
    with job.stage("loading", "loading the data"):
        shape = np.shape(source[0])[1:] if isinstance(source, tuple) and len(source) == 2 else None
        source = _as_rows(source)
        data = _ready(load(source, target=target, **loading), prepare)
    with job.stage("importing", "reading the model"):
        notes, origin = list(data.notes), None
        if head is None:
            given, name = as_model(model, data.x, shape)
        else:
            given, name, data, note, origin = headed(model, head, data, shape)
            notes.append(note)
        network = given.network if trained is None else given.network.training(trained)
        loss, coding = guessed("squared" if loss == "auto" and targets != "auto" else loss, given, network, data)
        if loss == "squared":
            data, more = coded(network, given.params, data, targets, prepared=True if head is not None else None)
            coding += more
        else:
            _require_nothing_else(loss, network, given.network, targets, polish)
            data = in_signs(network, data)
    job.tell(f"{data}\n{network}")
    folders.require_same_problem(job.folder, network, data)
    notes += [*given.notes, *coding]
    if loss != "squared":
        _keep(begin(network, data, Recipe(steps=0, step_size=1.0), given.params), job.folder, origin)
        return prove_loss(job, given, data, loss, name, notes, job.folder)
    with job.stage("certifying", "certifying"):
        run = begin(network, data, recipe, given.params)
        point = Problem(network, data).at(given.params)
        look = certify_point(point, level="float64") if data.y.size <= DENSE else None
        attempt, polished = certified(job, point, about(run, name), math.inf if look is None else look.h, polish)
        if not attempt.passed and trained is None and not polish:  # nothing is to move: the last layer alone
            alone = given.network.training(read_outs(network))
            last = certify_point(Problem(alone, data).at(given.params), sharp=sharp, about={"anchor": name})
            if last.passed:
                notes.append(f"the proof is about the last layer alone; with all weights trained: {attempt.obstacle}")
                network, attempt, look = alone, last, None
                run = begin(alone, data, recipe, given.params)
    if not attempt.passed and trained is None and not polish:
        _keep(run, job.folder, origin)
        notes.append(f"an exact fit is not proved: {attempt.obstacle}")
        return prove_loss(job, given, data, "squared", name, notes, job.folder)
    if attempt.descent is not None and polished is None:
        notes.append(f"half the sum of squares at these weights is {attempt.descent.rho**2 / 2:.4g}")
    _keep(run, job.folder, origin)
    verdict = verified(job, attempt)
    with job.stage("comparing", "comparing with the prediction"):
        eigenvalues, predicted = spectra(run, data, look, attempt)
    if polished is not None:
        notes.append(_change(network, run.params, polished.params, data))
    return job.proof(
        attempt, verdict, data=data, network=network, run=run, polished=polished, eigenvalues=eigenvalues,
        predicted=predicted, notes=tuple(notes), given=name,
    )  # fmt: skip


def _require_nothing_else(loss: str, network: Network, whole: Network, targets: str, polish: float) -> None:
    """Refuse what goes with squares only."""
    own, last = network.trained_names, read_outs(network)
    if targets != "auto":
        raise InputError(f"targets={targets!r} is a coding for squares and the loss is {loss}: leave it out")
    if polish:
        raise InputError(f"polishing is for squares and the loss is {loss}, with which nothing moves: leave it out")
    if own != whole.trained_names and set(own) != set(last):
        names = ", ".join(last)
        raise InputError(f"with the loss {loss} the proof is about the last layer ({names}): leave out trained")


def as_model(model: Any, x: np.ndarray, shape: Sequence[int] | None = None) -> tuple[Model, str]:
    """Return a network with its weights, and a name for them.

    Parameters
    ----------
    model
        A `Model`, the path of an ONNX file, or a PyTorch module.
    x
        Inputs on which outputs are compared, one example in each row.
    shape
        The shape of one example as it was given, which a PyTorch module takes; by default that of the rows.

    Returns
    -------
    tuple[Model, str]
        The network with its weights, and a few words for their origin.
    """
    if isinstance(model, Model):
        return model, "the given weights"
    from wideproof.networks.exchange import from_onnx, from_torch, require_agreement

    if isinstance(model, str | Path):
        given = from_onnx(Path(model), logits=True)
        if given.network.takes(x.shape[1:]):  # if not, `coded` says so
            require_agreement(Path(model), given, x[:100])
        return given, f"the weights of {Path(model).name}"
    rows = x[:2] if shape is None or math.prod(shape) != math.prod(x.shape[1:]) else x[:2].reshape(-1, *shape)
    return from_torch(model, rows, logits=True), f"the weights of {type(model).__name__}"


def _as_rows(source: Any) -> Any:
    """Let the images of a pair `(X, y)` be vectors, feature by feature."""
    if isinstance(source, tuple) and len(source) == 2 and np.ndim(source[0]) > 2:
        return np.reshape(np.asarray(source[0]), (len(source[0]), -1)), source[1]
    return source


def _ready(data: AnyDataset, steps: str) -> AnyDataset:
    return data if steps in ("", "none") else prepare(data, steps)


def coded(
    network: Network,
    params: Mapping[str, np.ndarray],
    data: AnyDataset,
    targets: str,
    *,
    prepared: bool | None = None,
) -> tuple[AnyDataset, list[str]]:
    """Return the data with targets coded as the outputs of a model require, and how that was decided.

    Parameters
    ----------
    network
        The network of the model.
    params
        Its weights, by name.
    data
        The data with class labels or numbers.
    targets
        `"signs"`, `"one-hot"` or `"auto"`, as in `certify_model`.
    prepared
        Whether the inputs are those that the model was trained on; by default that is so if they were prepared.

    Returns
    -------
    tuple[AnyDataset, list[str]]
        The data, and remarks of one sentence each.
    """
    if not network.takes(data.input_shape):
        raise InputError(
            f"the model takes examples of shape {network.input_shape} and '{data.name}' has {data.input_shape}: give "
            "it the columns that it was trained on"
        )
    outputs = network.output_shape[0] if network.output_shape else 1
    labels, prepared = data.labels, bool(data.preparation) if prepared is None else prepared
    if labels is None:
        given = data.target_shape[0] if data.target_shape else 1
        if given != outputs:
            raise InputError(f"the model has {outputs} outputs and '{data.name}' has {given} targets in a row")
        found = np.asarray(network(params, data.x)).reshape(data.n, outputs)
        return data, [] if prepared else _far(found, data.y.reshape(data.n, outputs), data)
    count = max(len(data.classes), int(labels.max()) + 1)
    if outputs not in (count, 1) or (outputs == 1 and count > 2):
        advice = ": for numbers that are to be fitted, say task='regression'" if outputs == 1 else ""
        raise InputError(f"the model has {outputs} outputs and '{data.name}' has {count} classes{advice}")
    found = np.asarray(network(params, data.x)).reshape(data.n, outputs)
    which = labels[:, None] if outputs == 1 else np.eye(count)[labels]
    coded = {name: low + (high - low) * which for name, (low, high) in CODINGS.items()}
    best = min(coded, key=lambda name: float(np.linalg.norm(found - coded[name]))) if targets == "auto" else targets
    words = {"signs": "-1 and 1", "one-hot": "0 and 1"}[best]
    told = [f"the targets are {words}" + (", which the outputs are closest to" if targets == "auto" else "")]
    told.append(_sides(found, labels, data, sum(CODINGS[best]) / 2, words))
    told += [] if prepared else _far(found, coded[best], data)
    if best == "signs" and (outputs == 1) == (data.task == "binary"):
        return data, told
    y = coded[best].reshape(data.n, *network.output_shape)
    plain = Dataset(data.x, y, "regression", data.name)
    return dataclasses.replace(plain, **_kept(data)), told


def _sides(found: np.ndarray, labels: np.ndarray, data: AnyDataset, middle: float, words: str) -> str:
    """Say which class is which, and on how many rows the model as it came is on the right side."""
    alone = found.shape[1] == 1
    right = (found[:, 0] > middle) == (labels == 1) if alone else np.argmax(found, axis=1) == labels
    said = f"before any step the model has {np.count_nonzero(right)} of {data.n} rows on the right side"
    if not alone or len(data.classes) != 2:
        return said
    first, second = map(str, data.classes)
    said += f", where the classes {first} and {second} are {words}"
    if 2 * np.count_nonzero(right) < data.n:
        said += f": if it was trained with them the other way round, say classes {second},{first}"
    return said


def _far(found: np.ndarray, y: np.ndarray, data: AnyDataset) -> list[str]:
    """Advise to prepare inputs that came as they are, where the outputs are farther from the targets than zero is."""
    if not np.linalg.norm(found - y) > np.linalg.norm(y):
        return []
    rest = "" if data.labels is None else "; outputs of a model trained with cross-entropy are often that far as well"
    return [
        "before any step the outputs are farther from the targets than zero is: if the model was trained on prepared "
        f"inputs, say prepare='standardize' (--prepare standardize){rest}"
    ]


def _kept(data: AnyDataset) -> dict[str, Any]:
    return {key: getattr(data, key) for key in ("classes", "preparation", "encoding", "remarks")}


def _change(
    network: Network, before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray], data: AnyDataset
) -> str:
    change = float(np.abs(np.asarray(network(after, data.x)) - np.asarray(network(before, data.x))).max())
    return f"polishing moved no output by more than {change:.3g}"


def _keep(run: Run, folder: Path, origin: Mapping[str, Any] | None) -> None:
    """Save the weights for `predict`, and where features come from."""
    if not (folder / RUN).exists():
        run.save(folder / RUN)
    if origin is not None:
        write_json(folder / FEATURES, origin)
