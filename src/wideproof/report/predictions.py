"""Predictions for new rows as a CSV: the class or the number, and the outputs that it was read off."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from wideproof.proving import Predictor


def predictions_csv(model: Predictor, rows: Any) -> str:
    """Return a CSV with a prediction for each row; for classes also with the outputs, such as `output(yes)`.

    Parameters
    ----------
    model
        The network of a proof.
    rows
        New rows: a path, a DataFrame or an array.

    Returns
    -------
    str
        The text of the file.
    """
    outputs = model.outputs(rows)
    flat = np.asarray(outputs).reshape(len(outputs), -1)
    data, sink = model.data, io.StringIO()
    table = csv.writer(sink, lineterminator="\n")
    encoding = data.encoding
    target = (encoding.target if encoding is not None else None) or "prediction"
    if not model.has_classes:
        names = [target] if flat.shape[1] == 1 else [f"{target}_{k}" for k in range(flat.shape[1])]
        table.writerow(names)
        table.writerows([f"{value:.10g}" for value in row] for row in flat)
        return sink.getvalue()
    classes = data.classes or tuple(map(str, range(max(2, flat.shape[1]))))
    shown = [f"output({name})" for name in (classes[1:2] if flat.shape[1] == 1 else classes)]
    table.writerow([target, *shown])
    for answer, row in zip(model.classes_of(outputs), flat, strict=True):
        table.writerow([answer, *(f"{value:.10g}" for value in row[: len(shown)])])
    return sink.getvalue()
