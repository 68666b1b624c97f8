r"""The Gram matrix of any PyTorch module, from blocks of its Jacobian; PyTorch is imported by whoever gives a module.

The rows of $J$ come from `torch.func` in float64 (`jacrev` under `vmap`; where that cannot pass through a module, from
one backward pass for each output). Every example goes through the module alone, as a batch of one. Products and their
error bound are those of `wideproof.kernels.functions`.
"""

from __future__ import annotations

import copy
import math
import operator
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from wideproof.errors import InputError
from wideproof.kernels.callables import choose
from wideproof.kernels.gram_result import Gram, why_singular
from wideproof.kernels.jacobians import MIXED, FunctionKernel, rounding
from wideproof.kernels.tiles import default_memory

MOST_TOGETHER = 256  # examples in one pass
SHARE = 8  # of a block, the part that passes through the module side by side


def is_module(function: Any) -> bool:
    """Say whether this is a PyTorch module; if it is, somebody has imported PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.nn.Module)


def gram(
    module: Any,
    x: Any,
    other: Any = None,
    *,
    names: Sequence[str] | None = None,
    by_weight: bool = False,
    batched: bool = True,
    memory: int | None = None,
) -> Gram:
    """Return the Gram matrix of a PyTorch module, in float64 and in evaluation mode; see `functions.gram`."""
    rows = Rows(module, names, batched)
    sides = [rows.examples(side) for side in (x, other) if side is not None]
    outputs = {rows.count(side) for side in sides}
    if len(outputs) > 1:
        raise InputError(f"x and other have {outputs} outputs for each example: give examples of one shape")
    leaves = tuple((k, name, weight.numel()) for k, (name, weight) in enumerate(rows.chosen.items()))
    kernel = FunctionKernel(_not_called, batched, leaves, outputs.pop(), by_weight, "float64")
    size = _per_block(kernel, sides, default_memory() if memory is None else memory)
    for side in sides:
        rows.require_values(side)
    found, squares = _assemble(kernel, rows, sides, size)
    norms = math.sqrt(math.prod(squares * (3 - len(squares))))
    total = reduce(operator.add, found.values()) if by_weight else found.pop("total")
    count = sum(numbers for *_, numbers in leaves)
    plain = tuple(leaf.cpu().numpy() for leaf in sides[0].leaves)
    singular = "" if other is not None else why_singular(plain, total.shape[0], count, "parameters")
    underflow = math.sqrt(total.size) * count * float(np.finfo(np.float64).tiny)
    error = rounding(kernel.terms, "float64") * norms + underflow
    return Gram(total, tuple(rows.chosen), "finite", "float64", rows.device, error, found, singular)


class Side:
    """Examples as tensors: one or several arguments, by place or by name, with the examples along the first axis."""

    def __init__(self, leaves: Sequence[Any], keys: tuple[str, ...] | None):
        self.leaves, self.keys = tuple(leaves), keys
        self.n = len(self.leaves[0])

    def take(self, rows: Any) -> tuple[Any, ...]:
        """Return some of the examples."""
        return tuple(leaf[rows] for leaf in self.leaves)


class Rows:
    """A module in float64 and in evaluation mode, and the rows of its Jacobian."""

    def __init__(self, module: Any, names: Sequence[str] | None, batched: bool):
        self.torch, self.batched = sys.modules["torch"], batched
        try:
            self.module = copy.deepcopy(module).to(self.torch.float64).eval()
        except Exception as error:
            raise InputError(f"the module cannot be copied to float64: {_first_line(error)}") from error
        everything = {k: p.detach() for k, p in self.module.named_parameters() if p.numel() and p.is_floating_point()}
        trained = {k for k, p in self.module.named_parameters() if p.requires_grad}
        paths = dict(enumerate(everything if names is not None else [k for k in everything if k in trained]))
        if not paths:
            raise InputError("no parameter of the module requires a gradient: say by `names` which ones count")
        self.chosen = {paths[k]: everything[paths[k]] for k in choose(paths, names, ".")}
        self.device = str(next(iter(self.chosen.values())).device)
        self.together = True  # as long as `vmap` passes through the module

    def examples(self, x: Any) -> Side:
        """Return examples as tensors on the device of the module."""
        keys = tuple(x) if isinstance(x, Mapping) else None
        leaves = [self._tensor(leaf) for leaf in (x.values() if isinstance(x, Mapping) else _tuple(x))]
        counts = {leaf.shape[:1] for leaf in leaves}
        if len(counts) != 1 or counts & {(), (0,)}:
            shapes = ", ".join(str(tuple(leaf.shape)) for leaf in leaves)
            raise InputError(f"the first axis of x counts the examples, at least one; got shapes {shapes or 'of none'}")
        for leaf in leaves:
            if leaf.is_floating_point():
                bad = self.torch.nonzero(~self.torch.isfinite(leaf).reshape(len(leaf), -1).all(dim=1))
                if len(bad):
                    raise InputError(
                        f"example {int(bad[0])} has an entry that is not a finite number: remove or fill it first"
                    )
        return Side(leaves, keys)

    def _tensor(self, leaf: Any) -> Any:
        given = leaf.detach() if self.torch.is_tensor(leaf) else self.torch.as_tensor(np.array(leaf))
        given = given.to(self.device)
        return given.to(self.torch.float64) if given.is_floating_point() else given

    def call(self, weights: Mapping[str, Any], keys: tuple[str, ...] | None, *batch: Any) -> Any:
        """Return what the module gives for a batch."""
        arguments = ((), dict(zip(keys, batch, strict=True))) if keys is not None else (batch, {})
        return self.torch.func.functional_call(self.module, dict(weights), *arguments)

    def alone(self, weights: Mapping[str, Any], keys: tuple[str, ...] | None, *example: Any) -> Any:
        """Return the outputs of one example in a row."""
        return self.call(weights, keys, *(leaf[None] if self.batched else leaf for leaf in example)).reshape(-1)

    def count(self, side: Side) -> int:
        """Check what the module returns for one example, and return its number of outputs."""
        shapes = ", ".join(str(tuple(leaf.shape[1:])) for leaf in side.leaves)
        example = [leaf[:1] if self.batched else leaf[0] for leaf in side.leaves]
        try:
            with self.torch.no_grad():
                found = self.call({}, side.keys, *example)
        except Exception as error:
            raise InputError(
                f"the module does not take examples of shape {shapes}: it raised {type(error).__name__}: "
                f"{_first_line(error)}"
            ) from error
        if not self.torch.is_tensor(found):
            raise InputError(f"the module must return one tensor, got {type(found).__name__}: wrap it in one that does")
        if found.dtype != self.torch.float64:
            raise InputError(
                f"in float64 the module returns {str(found.dtype).removeprefix('torch.')}, so it rounds inside: let it "
                "compute in the dtype of its parameters"
            )
        if self.batched and found.shape[:1] != (1,):
            raise InputError(
                f"the module returns shape {tuple(found.shape)} for one example: it must return one row for each "
                "example; if it takes one example at a time, give batched=False"
            )
        if not found.numel():
            raise InputError("the module has no outputs: return at least one number for each example")
        return found.numel()

    def require_values(self, side: Side) -> None:
        """Check that outputs are finite, and that those of two examples are the same together as alone."""
        with self.torch.no_grad():
            alone = [self.alone({}, side.keys, *side.take(i)) for i in range(side.n)]
            bad = [i for i, found in enumerate(alone) if not self.torch.isfinite(found).all()]
            if bad:
                raise InputError(
                    f"the outputs of example {bad[0]} are not finite: look for NaN or overflow in the parameters"
                )
            if not self.batched or side.n < 2:
                return
            two = [0, side.n - 1]
            together = self.call({}, side.keys, *side.take(two)).reshape(2, -1)
        own = self.torch.stack([alone[i] for i in two])
        off = float((together - own).abs().max()) if together.shape == own.shape else math.inf
        if not off <= MIXED * float(own.abs().max()) + math.sqrt(np.finfo(np.float64).eps):
            raise InputError(
                f"the outputs of examples {two[0]} and {two[1]} change by {off:.3g} when they are in one batch: each "
                "must depend on its example alone, so use normalization with stored statistics, and no random numbers"
            )

    def jacobian(self, side: Side, rows: range, outputs: int, together: int) -> list[np.ndarray]:
        """Return the gradients of all outputs of some examples: `(examples * outputs, size)` for each parameter."""
        parts = []
        for start in range(rows.start, rows.stop, together):
            parts.append(self._block(side, range(start, min(start + together, rows.stop)), outputs))
        return [np.concatenate(leaf) for leaf in zip(*parts, strict=True)]

    def _block(self, side: Side, rows: range, outputs: int) -> list[np.ndarray]:
        if self.together:
            try:
                return self._side_by_side(side, slice(rows.start, rows.stop), outputs)
            except Exception:  # what `vmap` cannot do differs by module and by version
                self.together = False
        found = [self._one(side, i) for i in rows]
        return [np.concatenate(leaf) for leaf in zip(*found, strict=True)]

    def _side_by_side(self, side: Side, rows: slice, outputs: int) -> list[np.ndarray]:
        func = self.torch.func
        examples = side.take(rows)

        def values(weights: Mapping[str, Any], *example: Any) -> Any:
            return self.alone(weights, side.keys, *example)

        axes = (None, *(0 for _ in examples))
        with self.torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that some operation has no fast way
            found = func.vmap(func.jacrev(values), in_dims=axes)(self.chosen, *examples)
        return [found[k].detach().reshape(len(examples[0]) * outputs, -1).cpu().numpy() for k in self.chosen]

    def _one(self, side: Side, i: int) -> list[np.ndarray]:
        """Return the rows of one example, a backward pass for each of its outputs."""
        weights = {name: weight.clone().requires_grad_(True) for name, weight in self.chosen.items()}
        leaves = list(weights.values())
        with self.torch.enable_grad():
            found = self.alone(weights, side.keys, *side.take(i))
            rows = [
                self.torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True, materialize_grads=True)
                if value.requires_grad
                else [self.torch.zeros_like(leaf) for leaf in leaves]
                for value in found
            ]
        return [np.stack([row[k].detach().reshape(-1).cpu().numpy() for row in rows]) for k in range(len(leaves))]


def _not_called(*_: Any) -> Any:
    raise AssertionError("the rows come from PyTorch")


def _per_block(kernel: FunctionKernel, sides: list[Side], memory: int) -> int:
    """Return how many examples a block of rows has: all of them if they take at most half of the memory."""
    count = sum(size for *_, size in kernel.leaves)
    each = kernel.outputs * count * 8
    if memory < 4 * each:
        raise InputError(
            f"memory={memory} bytes is too small: the gradients of {kernel.outputs} outputs by {count} parameters take "
            f"{each} for one example, and a pair of examples needs {4 * each}; give at least that, or use fewer "
            "parameters by `names`"
        )
    if sum(side.n for side in sides) * each <= memory / 2:
        return max(side.n for side in sides)
    return max(1, int(memory / 4 // each))


def _assemble(
    kernel: FunctionKernel, rows: Rows, sides: list[Side], size: int
) -> tuple[dict[str, np.ndarray], list[float]]:
    """Return the matrix of every key, and the squares of the norms of the Jacobians."""
    left, right = sides[0], sides[-1]
    k, together = kernel.outputs, max(1, min(MOST_TOGETHER, size // SHARE))
    found = {key: np.empty((left.n * k, right.n * k)) for key in kernel.keys}
    squares = [0.0 for _ in sides]
    for a in _blocks(left.n, size):
        first = rows.jacobian(left, a, k, together)
        squares[0] += _square(first, a, k)
        for b in _blocks(right.n, size):
            if len(sides) == 1 and b.start < a.start:
                continue
            same = len(sides) == 1 and b == a
            second = first if same else rows.jacobian(right, b, k, together)
            if len(sides) == 2 and a.start == 0:
                squares[1] += _square(second, b, k)
            for key, part in kernel.block(None, tuple(first), tuple(second)).items():
                whole = found[key]
                whole[a.start * k : a.stop * k, b.start * k : b.stop * k] = part
                if len(sides) == 1 and not same:
                    whole[b.start * k : b.stop * k, a.start * k : a.stop * k] = part.T
    return found, squares


def _blocks(n: int, size: int) -> Iterator[range]:
    return (range(start, min(start + size, n)) for start in range(0, n, size))


def _square(rows: list[np.ndarray], examples: range, outputs: int) -> float:
    """Return the sum of the squares of some rows, which must be finite."""
    square = sum((np.einsum("ij,ij->i", leaf, leaf) for leaf in rows), np.zeros(len(examples) * outputs))
    bad = np.flatnonzero(~np.isfinite(square))
    if len(bad):
        raise InputError(
            f"the gradient of example {examples[bad[0] // outputs]} is not finite, though its outputs are: look for a "
            "root or a logarithm at zero"
        )
    return float(np.sum(square))


def _tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0]
