"""What was understood of a file: layers, shapes, weights, what its end says about the loss; or what is in the way."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wideproof.errors import InputError
from wideproof.networks.exchange.advice import ObstaclesError
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.onnx_file import read_proto
from wideproof.networks.exchange.onnx_in import from_onnx
from wideproof.networks.graph import Node

LOSSES = {"Softmax": "cross_entropy", "LogSoftmax": "cross_entropy", "Sigmoid": "logistic"}
MOST = 40
"""How many layers are written out."""


@dataclass(frozen=True)
class Overview:
    """What was understood of a model.

    Attributes
    ----------
    file
        Its name.
    input_shape
        The shape of one example.
    outputs
        The number of outputs.
    layers
        One sentence for each layer.
    read_out
        The weights of the outputs, with their shapes.
    trained
        The shapes of the weights that would be trained, by name.
    fixed
        The shapes of the weights that stay fixed, by name.
    parameters
        How many numbers are trained.
    loss
        The loss that the end of the file belongs to, or an empty string where it says none.
    notes
        What was changed or left out.
    obstacles
        What is in the way, one sentence each; nothing else is known then.

    Examples
    --------
    >>> import tempfile
    >>> from wideproof.networks import Sketch
    >>> from wideproof.networks.exchange import to_onnx
    >>> sketch = Sketch(2)
    >>> network = sketch.read_out(sketch.dense(sketch.input, 8, "tanh"), 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(network, network.init(0), f"{folder}/model.onnx")
    ...     print(overview(f"{folder}/model.onnx"))
    model.onnx: 2 numbers in, 3 out, 51 trained in 4 arrays
      1  tanh of 8 units: W1 (8, 2), b1 (8,)
      outputs: W2 (3, 8), b2 (3,)
      the end of the file says no loss
    """

    file: str
    input_shape: tuple[int, ...] = ()
    outputs: int = 0
    layers: tuple[str, ...] = ()
    read_out: str = ""
    trained: dict[str, tuple[int, ...]] | None = None
    fixed: dict[str, tuple[int, ...]] | None = None
    parameters: int = 0
    loss: str = ""
    notes: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self) | {"readable": not self.obstacles}

    def __str__(self) -> str:
        if self.obstacles:
            count = len(self.obstacles)
            first = f"{self.file}: cannot be read, {count} thing{'s are' if count > 1 else ' is'} in the way"
            return "\n".join([first, *(f"  {k}  {said}" for k, said in enumerate(self.obstacles, 1))])
        size = " x ".join(map(str, self.input_shape))
        fixed = f", {len(self.fixed or {})} fixed" if self.fixed else ""
        count = len(self.trained or {})
        first = (
            f"{self.file}: {size} numbers in, {self.outputs} out, {self.parameters} trained in {count} arrays{fixed}"
        )
        shown = (
            self.layers
            if len(self.layers) <= MOST
            else (*self.layers[: MOST - 1], f"and {len(self.layers) - MOST + 1} more")
        )
        lines = [f"  {k}  {said}" for k, said in enumerate(shown, 1)]
        ends = (
            f"the end of the file belongs to the loss {self.loss}" if self.loss else "the end of the file says no loss"
        )
        return "\n".join(
            [first, *lines, f"  outputs: {self.read_out}", f"  {ends}", *(f"  {note}" for note in self.notes)]
        )


def overview(source: str | Path) -> Overview:
    """Return what is understood of an ONNX file, or everything that is in the way of reading it.

    Parameters
    ----------
    source
        Path of the file.

    Returns
    -------
    Overview
        Layers, shapes, weights, loss and notes; or the obstacles.
    """
    name = Path(source).name
    read_proto(source)  # what is no model at all is an error
    try:
        model = from_onnx(source, logits=True)
    except InputError as error:
        return Overview(name, obstacles=error.obstacles if isinstance(error, ObstaclesError) else (str(error),))
    graph, arrays = model.network.graph, {key: array.shape for key, array in model.params.items()}
    trained = {key: shape for key, shape in arrays.items() if key in graph.trained}
    end = next(
        (kind for note in model.notes for kind in LOSSES if note.startswith(f"{kind} ") and "logits" in note), ""
    )
    read = [graph.read_out, *([] if graph.bias is None else [graph.bias])]
    return Overview(
        name, graph.shape, graph.outputs, tuple(_layer(model, k) for k in range(len(graph.nodes))),
        ", ".join(_weight(model, key) for key in read), trained,
        {key: shape for key, shape in arrays.items() if key not in graph.trained},
        sum(math.prod(shape) for shape in trained.values()), LOSSES.get(end, ""), model.notes,
    )  # fmt: skip


def _weight(model: Model, name: str) -> str:
    fixed = "" if name in model.network.graph.trained else ", fixed"
    return f"{name} {model.params[name].shape}{fixed}"


def _layer(model: Model, k: int) -> str:
    """Return a layer in words: activation, units, positions, weights, and what it only moves or adds."""
    graph = model.network.graph
    node, grid = graph.layers[k], graph.grids[k]
    assert isinstance(node, Node)
    weights = [_weight(model, t.weight) for t in node.terms if t.weight is not None]
    plain = sum(t.weight is None for t in node.terms)
    units = next((str(len(model.params[t.weight])) for t in node.terms if t.weight is not None), "")
    kind = "a sum" if node.activation.name == "identity" else node.activation.name
    many = f" of {units} units" if units else ""
    places = f" at {' x '.join(map(str, grid))} positions" if grid else ""
    moved = f"{plain} earlier value{'s' * (plain > 1)}" if plain else ""
    skip = "" if node.skip is None else f", added to {'the input' if node.skip < 0 else f'layer {node.skip + 1}'}"
    return f"{kind}{many}{places}: {', '.join([*weights, *([moved] if moved else [])])}{skip}"
