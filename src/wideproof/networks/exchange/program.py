"""A network as a list of operators in ONNX's words: what ONNX files and PyTorch modules are both read into.

Weights are constants like others. All floating-point constants are float64, exact copies of what came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BATCH = 2_147_483_629
"""Stands for the number of rows in shapes that a program computes with: a prime that no product of sizes meets."""
LARGEST_FOLDED = 1 << 27
ENDS = ("Softmax", "LogSoftmax", "Sigmoid")
"""Operators that make probabilities of the outputs of a last linear layer."""


@dataclass(frozen=True)
class Op:
    """One operator: its kind, the names of its inputs (empty where one is left out) and of its first output."""

    kind: str
    inputs: tuple[str, ...]
    output: str
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        kind = shown(self.kind)
        return f"{kind} {self.name!r}" if self.name else f"the {kind} that gives {self.output!r}"


@dataclass
class Program:
    """Operators in the order in which they run.

    Attributes
    ----------
    shape, batch
        Of one example, and the number of rows where it is fixed.
    bare
        Whether the input is one example without an axis of rows.
    names
        For constants that are a weight in another layout, the name of that weight.
    trained
        Names of the weights that are trained, or `None` where the file does not say.
    """

    input: str
    output: str
    shape: tuple[int, ...]
    batch: int | None
    ops: list[Op]
    constants: dict[str, np.ndarray]
    names: dict[str, str] = field(default_factory=dict)
    trained: frozenset[str] | None = None
    notes: list[str] = field(default_factory=list)
    bare: bool = False

    def uses(self) -> Counter[str]:
        """Return how often each value is read; the output is read once more."""
        return Counter([self.output, *(name for op in self.ops for name in op.inputs)])

    def keep_live(self) -> None:
        """Drop the operators that the output does not depend on."""
        self.ops = live(self.ops, [self.output])

    def scalar(self, name: str) -> float | None:
        """Return a constant of one entry, or `None` if it is none."""
        array = self.constants.get(name)
        return float(array.reshape(())) if array is not None and array.size == 1 else None


def shown(*names: str) -> str:
    """Return names from a file as a message can hold them."""
    return ", ".join(name if name.isprintable() else ascii(name) for name in names) or "none"


def live(ops: list[Op], wanted: list[str]) -> list[Op]:
    """Return the operators that the wanted values depend on, in their order."""
    makers = {op.output: op for op in ops}
    found: set[str] = set()
    rest = list(wanted)
    while rest:
        op = makers.get(rest.pop())
        if op is not None and op.output not in found:
            found.add(op.output)
            rest += op.inputs
    return [op for op in ops if op.output in found]


def before_end(ops: list[Op], name: str, notes: list[str]) -> str:
    """Return the value that a Softmax, LogSoftmax or Sigmoid at the end was taken of, or the end itself."""
    makers = {op.output: op for op in ops}
    path = [makers[name]] if name in makers else []
    while path and path[-1].kind in ("Identity", "Cast") and path[-1].inputs[0] in makers:
        path.append(makers[path[-1].inputs[0]])
    if not path or path[-1].kind not in ENDS or not path[-1].inputs:
        return name
    notes.append(f"{path[-1]} at the end is left out: the outputs are logits")
    return path[-1].inputs[0]


def axes_of(op: Op, constants: Mapping[str, Any]) -> list[int] | None:
    """Return the axes of an operator, which newer files give as an input and older ones as an attribute."""
    if op.options.get("axes") is not None:
        return [int(a) for a in op.options["axes"]]
    if len(op.inputs) > 1 and op.inputs[1]:
        return [int(a) for a in np.asarray(constants[op.inputs[1]]).reshape(-1)]
    return None
