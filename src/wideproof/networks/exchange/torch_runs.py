"""What PyTorch itself makes of a module: its outputs, its graph, and the values inside."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from wideproof.errors import InputError


def require_torch() -> Any:
    """Import PyTorch, or say how to get it.

    Returns
    -------
    module
        The package `torch`.
    """
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("PyTorch modules need the package torch: pip install torch") from None
    return torch


def as_array(value: Any) -> np.ndarray:
    """Return a tensor, or what NumPy takes, as an array."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def outputs(module: Any, rows: Any) -> Any:
    """Return what a module gives for rows, or say which rows it takes."""
    try:
        with require_torch().no_grad():
            return module(rows)
    except Exception as error:
        raise InputError(_not_taken(module, rows, error)) from error


def _not_taken(module: Any, rows: Any, error: Exception) -> str:
    width = int(rows.shape[1])
    if rows.ndim > 2:
        return f"the module does not take examples of shape {tuple(rows.shape[1:])}: {_first_line(error)}"
    sizes = {size for tensor in module.state_dict().values() for size in tensor.shape} - {width}
    taken = [size for size in sorted(sizes) if _takes(module, rows.new_zeros(len(rows), size))]
    if len(taken) != 1:
        return (
            f"the module does not take rows of {width} features: {_first_line(error)}; give images, "
            "signals and sequences in their own shape, or make the model with from_torch(module, example)"
        )
    return f"the module takes {taken[0]} features and the rows have {width}: give it the columns that it was trained on"


def _takes(module: Any, rows: Any) -> bool:
    try:
        with require_torch().no_grad():
            module(rows)
    except Exception:
        return False
    return True


def exported(module: Any, rows: Any) -> Any:
    """Return a module as `torch.export` writes it."""
    torch = require_torch()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.export(module, (rows,)).run_decompositions({})
    except Exception as error:
        raise InputError(f"torch.export cannot export the module: {_first_line(error)}") from error


def inside(program: Any, rows: Any, name: str) -> Any:
    """Return the value that an exported module computes under a name."""
    torch = require_torch()
    tensors = {**program.state_dict, **program.constants}
    specs = program.graph_signature.input_specs
    runner = torch.fx.Interpreter(program.graph_module, garbage_collect_values=False)
    with torch.no_grad():
        runner.run(*(rows if s.target is None else tensors[s.target] for s in specs), enable_io_processing=False)
    return next(value for node, value in runner.env.items() if node.name == name)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
