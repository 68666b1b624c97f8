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
from wideproof.training import Run

RUN, CERTIFICATE = "run", "certificate"


def at_the_start(run: Run, certificate: Certificate) -> bool:
    """Return whether a certificate is about the initial weights of a run that went on from there."""
    names = run.network.trained_names if run.step and certificate.start is None else ()
    return bool(names) and all(np.array_equal(certificate.params[name], run.initial[name]) for name in names)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A network, its weights, and the data set whose encoding and preparation new rows get."""

    network: Network
    params: Mapping[str, np.ndarray]
    data: AnyDataset

    @staticmethod
    def load(folder: str | Path) -> Predictor:
        """Read the network of a proof from the folder that `prove` wrote, with the certified or the trained weights."""
        folder = Path(folder)
        if not (folder / RUN).is_dir():
            raise InputError(f"{folder} holds no proof with a trained network: give the folder that `prove` wrote")
        run = Run.load(folder / RUN)
        if (folder / CERTIFICATE).is_dir():
            certificate = load_certificate(folder / CERTIFICATE)
            if certificate.theorem == "descent" and not at_the_start(run, certificate):
                return Predictor(run.network, certificate.params, run.data)
        return Predictor(run.network, run.params, run.data)

    def outputs(self, rows: Any) -> np.ndarray:
        """Return the network's outputs for new rows, in the units of the targets."""
        encoding = self.data.encoding
        raw = encode(encoding, rows) if encoding is not None else np.asarray(rows, np.float64)
        ready = apply(self.data.preparation, raw)
        found = np.asarray(self.network(self.params, ready), np.float64)
        return restore_targets(self.data.preparation, found)

    def predict(self, rows: Any) -> np.ndarray:
        """Return class names, or numbers for regression.

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
        """Return the names of the classes that the outputs stand for."""
        if self.network.data_kind == "sequences":
            outputs = outputs[:, -1]
        flat = outputs.reshape(len(outputs), -1)
        middle = 0.5 if self.data.task == "regression" else 0.0  # labels that a model has as 0 and 1
        which = (flat[:, 0] > middle).astype(int) if flat.shape[1] == 1 else flat.argmax(axis=1)
        plain = ("-1", "1") if self.data.task == "binary" else tuple(map(str, range(flat.shape[1])))
        return np.asarray(self.data.classes or plain)[which]
