"""A trained network with everything that new rows need: encoding, preparation, weights, and the names of classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.certificates import Certificate, load_certificate
from wideproof.data import AnyDataset, apply, encode, restore_targets
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.proving.limits import Limit, percent
from wideproof.proving.ranges import Ranges
from wideproof.training import Run

RUN, CERTIFICATE = "run", "certificate"


def at_the_start(run: Run, certificate: Certificate) -> bool:
    """Return whether a certificate is about the initial weights of a run that went on from there."""
    names = run.network.trained_names if run.step and certificate.start is None else ()
    return bool(names) and all(np.array_equal(certificate.params[name], run.initial[name]) for name in names)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A network with its weights, and the data set whose encoding and preparation are applied to new rows.

    Attributes
    ----------
    network
        The network.
    params
        Its weights, by name. If there is a `limit`, they are the weights found near it.
    data
        The rows of the proof, with the encoding and preparation of the table.
    limit
        The weights near the limit of gradient descent, with a bound on the distance; `None` if it was not computed.
    ranges
        The range of each column before preparation, to notice rows outside; `None` if it is not known.
    """

    network: Network
    params: Mapping[str, np.ndarray]
    data: AnyDataset
    limit: Limit | None = None
    ranges: Ranges | None = None

    @staticmethod
    def load(folder: str | Path) -> Predictor:
        """Read the network of a proof from the folder that `prove` wrote.

        Its weights are those near the limit of gradient descent if they were found; otherwise the certified weights, or
        else the trained ones.

        Parameters
        ----------
        folder
            The folder of the proof.

        Returns
        -------
        Predictor
            The network, ready to predict.
        """
        folder = Path(folder)
        if not (folder / RUN).is_dir():
            raise InputError(f"{folder} holds no proof with a trained network: give the folder that `prove` wrote")
        run = Run.load(folder / RUN)
        limit, ranges = Limit.read(folder), Ranges.read(folder)
        if limit is not None:
            return Predictor(run.network, limit.params, run.data, limit, ranges)
        if (folder / CERTIFICATE).is_dir():
            certificate = load_certificate(folder / CERTIFICATE)
            if certificate.theorem == "descent" and not at_the_start(run, certificate):
                return Predictor(run.network, certificate.params, run.data, ranges=ranges)
        return Predictor(run.network, run.params, run.data, ranges=ranges)

    def _raw(self, rows: Any) -> np.ndarray:
        encoding = self.data.encoding
        if encoding is None and isinstance(rows, str | Path):
            raise InputError(
                f"the network's {self.data.x[0].size} inputs are no columns of a table (those of a head are features): "
                "predict from an array of them, in Python"
            )
        return encode(encoding, rows) if encoding is not None else np.asarray(rows, np.float64)

    def _ready(self, rows: Any) -> np.ndarray:
        return apply(self.data.preparation, self._raw(rows))

    def remarks(self, rows: Any) -> tuple[str, ...]:
        """Return remarks about predictions for new rows: rows outside the range of the table, ties, doubtful classes.

        Parameters
        ----------
        rows
            New rows: a path, a DataFrame or an array.

        Returns
        -------
        tuple[str, ...]
            One sentence each.
        """
        said, encoding = [], self.data.encoding
        if self.ranges is not None:
            said.append(self.ranges.sentence(self._raw(rows), () if encoding is None else encoding.inputs))
        if self.has_classes and (tied := int((self._best(self.outputs(rows)).sum(axis=1) > 1).sum())):
            said.append(
                f"{tied} prediction{' is a tie' if tied == 1 else 's are ties'}: the network's outputs for two or more "
                "classes are equal there, and all of these are named"
            )
        sure = self.sure(rows)
        if sure is not None and not sure.all():
            other = "another class" if self.has_classes else f"other by {self._by(rows)}"
            said.append(
                f"{int((~sure).sum())} of {len(sure)} predictions may be {other} at the exact limit of gradient "
                "descent, which is known only up to a bound"
            )
        return tuple(filter(None, said))

    def _by(self, rows: Any) -> str:
        """Say by how much numbers may be other at the limit of gradient descent."""
        change, unit = None, float(np.std(self.data.y))
        if self.limit is not None and unit > 0:
            change = self.limit.change(self.network, self._ready(rows))
        most = "" if change is None else f", at most {percent(float(change.max()) / unit)} % of it,"
        return f"more than a hundredth of the standard deviation of the targets{most}"

    def outputs(self, rows: Any) -> np.ndarray:
        """Return the network's outputs for new rows, in the units of the targets.

        Parameters
        ----------
        rows
            New rows: a path, a DataFrame or an array.

        Returns
        -------
        array
            One row of outputs for each row.
        """
        ready = self._ready(rows)
        found = np.asarray(self.network(self.params, ready), np.float64)
        return restore_targets(self.data.preparation, found)

    def sure(self, rows: Any) -> np.ndarray | None:
        """Say which predictions are the same at the exact limit of gradient descent.

        A class is the same if it is the same class there; a number, if it differs by at most a hundredth of the
        standard deviation of the targets.

        Parameters
        ----------
        rows
            New rows: a path, a DataFrame or an array.

        Returns
        -------
        array | None
            One truth value for each row; `None` if the limit is not known.
        """
        if self.limit is None:
            return None
        ready = self._ready(rows)
        change = self.limit.change(self.network, ready)
        if change is None:
            return None
        outputs = np.asarray(self.network(self.params, ready), np.float64).reshape(len(change), -1)
        if not self.has_classes:
            return np.all(change <= 0.01 * float(np.std(self.data.y)), axis=1)
        if outputs.shape[1] == 1:
            middle = 0.5 if self.data.task == "regression" else 0.0
            return np.abs(outputs - middle)[:, 0] > change[:, 0]
        low, high = outputs - change, outputs + change
        first = outputs.argmax(axis=1)
        at = np.arange(len(outputs))
        best = low[at, first]
        high[at, first] = -np.inf
        return best > high.max(axis=1)

    def predict(self, rows: Any) -> np.ndarray:
        """Return class names, or numbers for regression.

        Parameters
        ----------
        rows
            New rows: a path, a DataFrame or an array.

        Returns
        -------
        array
            One prediction for each row.

        Examples
        --------
        >>> from wideproof.data import Dataset
        >>> from wideproof.networks import FullyConnected
        >>> network = FullyConnected(input_dim=2, width=8, depth=1)
        >>> data = Dataset(np.eye(2), [1, -1], "binary", classes=("no", "yes"))
        >>> Predictor(network, network.init(0), data).predict(np.eye(2)).shape
        (2,)
        """
        outputs = self.outputs(rows)
        return self.classes_of(outputs) if self.has_classes else outputs

    @property
    def has_classes(self) -> bool:
        """Whether outputs stand for classes: also of a model whose labels are 0 and 1."""
        return self.data.task != "regression" or bool(self.data.classes)

    def classes_of(self, outputs: np.ndarray) -> np.ndarray:
        """Return the names of the classes for some outputs; a tie names all of its classes, as in `no or yes`.

        Parameters
        ----------
        outputs
            Outputs, one row for each example.

        Returns
        -------
        array
            Names of classes.
        """
        if self.network.data_kind == "sequences":
            outputs = outputs[:, -1]
        best = self._best(outputs)
        plain = ("-1", "1") if self.data.task == "binary" else tuple(map(str, range(best.shape[1])))
        names = self.data.classes or plain
        found = np.asarray(names)[best.argmax(axis=1)]
        if not (tied := best.sum(axis=1) > 1).any():
            return found
        ties = [" or ".join(name for name, one in zip(names, row, strict=True) if one) for row in best[tied]]
        found = found.astype(np.dtypes.StrDType(max(found.itemsize // 4, *map(len, ties))))
        found[tied] = ties
        return found

    def _best(self, outputs: np.ndarray) -> np.ndarray:
        """Return for every row and class whether no other class has a larger output."""
        flat = outputs.reshape(len(outputs), -1)
        middle = 0.5 if self.data.task == "regression" else 0.0  # labels that a model has as 0 and 1
        each = np.column_stack([middle - flat, flat - middle]) if flat.shape[1] == 1 else flat
        return each == each.max(axis=1, keepdims=True)
