"""ONNX files as networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jax.typing import ArrayLike

from wideproof.networks.exchange.agreement import require_agreement
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.onnx_file import read_proto
from wideproof.networks.exchange.onnx_program import to_program
from wideproof.networks.exchange.shapes import build


def from_onnx(
    source: str | Path | bytes | Any, *, check: ArrayLike | None = None, output: str | None = None, logits: bool = False
) -> Model:
    r"""Read a feed-forward network from an ONNX file.

    Weights keep their names, and get one row per unit. Constants that no layer owns, such as those that normalise the
    input, become fixed weights `fixed1`, `fixed2`, ... What cannot be written as a `Graph` is refused.

    Parameters
    ----------
    source
        Path of the file, or its bytes.
    check
        Inputs on which the network must agree with ONNX's reference evaluator in float64, up to 1e-10 of the largest
        output.
    output
        Name of the value to use as the output, if the model has several outputs or if operations after it are to be
        left out.
    logits
        Leave out a Softmax, LogSoftmax or Sigmoid at the end.

    Returns
    -------
    Model
        The network with its weights.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from wideproof.networks import Sketch
    >>> from wideproof.networks.exchange import from_onnx, to_onnx
    >>> sketch = Sketch(2)
    >>> network = sketch.read_out(sketch.dense(sketch.input, 8, "gelu"), 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(network, network.init(0), f"{folder}/model.onnx")
    ...     model = from_onnx(f"{folder}/model.onnx", check=np.eye(2))
    >>> print(model)
    network of 1 hidden layer, 33 numbers in W1, b1, W2, b2
    """
    proto, folder = read_proto(source)
    model = build(to_program(proto, folder, output, logits))
    if check is not None:
        require_agreement(source, model, check)
    return model
