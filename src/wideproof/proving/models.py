"""Somebody's trained network: proved that gradient descent, from these very weights, fits their data exactly."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.arguments import flag, number, one_of
from wideproof.certificates import DENSE
from wideproof.certificates import certify as certify_weights
from wideproof.data import AnyDataset, Dataset, load, prepare
from wideproof.deprecations import renamed
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.networks.exchange import Model
from wideproof.precision import double
from wideproof.progress import Watch, unwatched
from wideproof.proving import folders
from wideproof.proving.certifying import certified, spectra
from wideproof.proving.job import Job, verified
from wideproof.proving.predictor import RUN
from wideproof.proving.proof import Proof
from wideproof.training import Recipe, Run, Status, begin

CODINGS = {"signs": (-1.0, 1.0), "one-hot": (0.0, 1.0)}


def certify(model: Any, *arguments: Any, **options: Any) -> Any:
    """Certify weights: of a network of this library (`certificates.certify`), or of a model (`certify_model`).

    Parameters
    ----------
    model
        A network; or a `Model`, the path of an ONNX file, or a PyTorch module.
    arguments, options
        As for the one that is called: `params, data` with a network, a table with a model.

    Examples
    --------
    >>> import wideproof as wp
    >>> sketch = wp.Sketch(4)
    >>> network = sketch.read_out(sketch.dense(sketch.input, 32, "tanh"), 1)
    >>> model = wp.Model(network, network.init(0))
    >>> wp.certify(model, "iris", classes=("setosa", "virginica"), limit=20, prepare="standardize").proved
    True
    """
    chosen = certify_weights if isinstance(model, Network) else certify_model
    return chosen(model, *arguments, **options)


@renamed(lambda stage: lambda now: stage(now.text), stage="progress")
@double
def certify_model(
    model: Any,
    source: Any,
    target: str | int | None = None,
    *,
    trained: Sequence[str] | None = None,
    targets: str = "auto",
    prepare: str = "none",
    folder: str | Path | None = None,
    polish: float = math.inf,
    sharp: bool = False,
    progress: Watch | None = None,
    **loading: Any,
) -> Proof:
    r"""Prove that gradient descent on $\tfrac12 \sum (f - y)^2$ fits a table exactly, from the weights of a model.

    The weights are taken as they come; where they do not pass they are polished, and the proof says how far they moved
    and by how much an output changed at most.

    Parameters
    ----------
    model
        An ONNX file, a PyTorch module of vectors, or a `Model` (a network with its weights; for images
        `from_torch(module, example)` makes one).
    source, target, loading
        The data, as `prove` takes them.
    trained
        Names of the weights that gradient descent moves; by default all.
    targets
        `"signs"` ($\pm 1$) or `"one-hot"` (0 and 1) for labels; `"auto"` takes what the outputs are closer to.
    prepare
        What was done to the inputs before the model saw them; by default nothing.
    folder
        Where run, certificate and report are kept; by default nothing is.
    polish
        The share of their length by which weights may be polished: 0.1 for a tenth, 0 for not at all; by default
        as far as it takes.
    sharp
        Sharper Lipschitz constants; slower.
    progress
        Is told what begins, in a few words.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as kept:
            made = certify_model(
                model, source, target, trained=trained, targets=targets, prepare=prepare, folder=Path(kept) / "proof",
                polish=polish, sharp=sharp, progress=progress, **loading,
            )  # fmt: skip
            return dataclasses.replace(made, folder=None)
    one_of("auto", *CODINGS)("targets", targets)
    number("a share of the weights' length, 0 or more", lambda share: share >= 0, finite=False)("polish", polish)
    flag("sharp", sharp)
    recipe = Recipe(steps=0, step_size="safe")
    job = Job(Path(folder), recipe, sharp, progress or unwatched)
    folders.require_place(job.folder)
    with job.stage("loading", "loading the data"):
        source = _as_rows(source)
        data = _ready(load(source, target=target, **loading), prepare)
    with job.stage("importing", "reading the model"):
        given, name = as_model(model, data.x)
        network = given.network if trained is None else given.network.training(trained)
        data, coding = coded(network, given.params, data, targets)
    job.tell(f"{data}\n{network}")
    folders.require_same_problem(job.folder, network, data)
    with job.stage("certifying", "certifying"):
        start = begin(network, data, recipe, given.params)
        run = dataclasses.replace(start, status=Status.LIMIT)
        look = certify_weights(network, run.params, data, level="float64") if data.y.size <= DENSE else None
        attempt, polished = certified(job, network, run, data, math.inf if look is None else look.h, name, polish)
        _keep(run, job.folder)
    verdict = verified(job, attempt)
    with job.stage("comparing", "comparing with the prediction"):
        eigenvalues, predicted = spectra(run, data, look, attempt)
    notes = [*data.notes, *given.notes, *coding]
    if polished is not None:
        notes.append(_change(network, run.params, polished.params, data))
    return Proof(
        data, None, network, run, (), polished, attempt, verdict, eigenvalues, predicted, job.seconds, job.folder, (),
        tuple(notes), name,
    )  # fmt: skip


def as_model(model: Any, x: np.ndarray) -> tuple[Model, str]:
    """Return a network with its weights, and what to call them; `x` are rows that outputs are compared on.

    Parameters
    ----------
    model
        A `Model`, the path of an ONNX file, or a PyTorch module.
    """
    if isinstance(model, Model):
        return model, "the given weights"
    from wideproof.networks.exchange import from_onnx, from_torch, require_agreement

    if isinstance(model, str | Path):
        given = from_onnx(Path(model), logits=True)
        if given.network.takes(x.shape[1:]):  # if not, `coded` says so
            require_agreement(Path(model), given, x[:100])
        return given, f"the weights of {Path(model).name}"
    return from_torch(model, x[:2], logits=True), f"the weights of {type(model).__name__}"


def _as_rows(source: Any) -> Any:
    """Let the images of a pair `(X, y)` be vectors, feature by feature."""
    if isinstance(source, tuple) and len(source) == 2 and np.ndim(source[0]) > 2:
        return np.reshape(np.asarray(source[0]), (len(source[0]), -1)), source[1]
    return source


def _ready(data: AnyDataset, steps: str) -> AnyDataset:
    return data if steps in ("", "none") else prepare(data, steps)


def coded(
    network: Network, params: Mapping[str, np.ndarray], data: AnyDataset, targets: str
) -> tuple[AnyDataset, list[str]]:
    """Return the data with targets as the model's outputs ask for, and how that was decided.

    Parameters
    ----------
    network, params
        The model's network and its weights by name.
    """
    if not network.takes(data.input_shape):
        raise InputError(
            f"the model takes examples of shape {network.input_shape} and '{data.name}' has {data.input_shape}: give "
            "it the columns that it was trained on"
        )
    outputs = network.output_shape[0] if network.output_shape else 1
    labels = data.labels
    if labels is None:
        given = data.target_shape[0] if data.target_shape else 1
        if given != outputs:
            raise InputError(f"the model has {outputs} outputs and '{data.name}' has {given} targets in a row")
        found = np.asarray(network(params, data.x)).reshape(data.n, outputs)
        return data, _far(found, data.y.reshape(data.n, outputs), data)
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
    told += _far(found, coded[best], data)
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
    if data.preparation or not np.linalg.norm(found - y) > np.linalg.norm(y):
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


def _keep(run: Run, folder: Path) -> None:
    if not (folder / RUN).exists():
        run.save(folder / RUN)
