"""Weights back to PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.described import Described
from wideproof.networks.exchange.agreement import LARGEST_DIFFERENCE
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.torch_in import difference, logits_of
from wideproof.networks.exchange.torch_runs import outputs, require_torch
from wideproof.storage import write_bytes


def to_torch(network: Described, params: Mapping[str, Any], module: Any) -> None:
    """Load weights into the PyTorch module from which the network was read, in the module's own precision.

    A copy of the module in float64 is loaded first. If its outputs are not those of the network, the module stays as it
    is.

    Parameters
    ----------
    network
        The network.
    params
        Its weights, under the module's own names.
    module
        The `torch.nn.Module` to change.

    Examples
    --------
    >>> model = from_torch(module, example)  # doctest: +SKIP
    >>> to_torch(model.network, model.params, module)  # doctest: +SKIP
    """
    torch = require_torch()
    state = module.state_dict()
    arrays = {name: np.asarray(array, np.float64) for name, array in params.items() if name in state}
    lost = [name for name in network.trained_names if name not in arrays]
    if lost:
        raise InputError(f"the module has no weight {', '.join(lost)}: give the module that the network was read from")
    for name, array in arrays.items():
        if tuple(state[name].shape) != array.shape:
            raise InputError(
                f"the weight {name!r} has the shape {array.shape}, in the module {tuple(state[name].shape)}"
            )
    exact = copy.deepcopy(module).cpu().double().eval()
    exact.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()}, strict=False)
    rows = torch.tensor(np.random.default_rng(0).standard_normal((4, *network.input_shape)))
    given = Model(network, {name: np.asarray(array, np.float64) for name, array in params.items()})
    worst = difference(outputs(exact, rows), given, rows)
    if not worst <= LARGEST_DIFFERENCE:
        worst = difference(logits_of(exact, rows), given, rows)
    if not worst <= LARGEST_DIFFERENCE:
        raise InputError(
            f"with these weights the module differs from the network by {worst:.1e} of the largest output: something "
            "was folded on the way, such as a BatchNorm; build a module without it"
        )
    module.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()}, strict=False)


def to_safetensors(params: Mapping[str, Any], path: str | Path) -> None:
    """Write weights under their names as a safetensors file, which PyTorch loads with `safetensors.torch.load_file`.

    Parameters
    ----------
    params
        Weights by name.
    path
        The file to write.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from safetensors.numpy import load_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_safetensors({"0.weight": np.eye(2)}, f"{folder}/weights.safetensors")
    ...     sorted(load_file(f"{folder}/weights.safetensors"))
    ['0.weight']
    """
    from safetensors.numpy import save

    write_bytes(Path(path), save({name: np.asarray(array, order="C") for name, array in params.items()}))
