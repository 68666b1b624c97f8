"""Networks by name: built for the shape of a data set, written to and read from plain dictionaries."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from wideproof.errors import InputError
from wideproof.networks.activations import Activation, get_activation
from wideproof.networks.base import Network
from wideproof.networks.described import Described
from wideproof.networks.fully_connected import DeepReLU, FullyConnected
from wideproof.networks.recurrent import DeepRNN, ElmanRNN
from wideproof.networks.residual import ConvResidual, Residual, ResidualReLU

NETWORKS: dict[str, type[Network]] = {
    kind.name: kind for kind in (FullyConnected, Residual, ConvResidual, DeepReLU, ElmanRNN, DeepRNN, ResidualReLU)
}


def build(name: str, input_shape: tuple[int, ...], target_shape: tuple[int, ...], **options: object) -> Network:
    """Build a network that fits the shapes of the data.

    Parameters
    ----------
    name
        Name of the network, such as `"deep-relu"`; `NETWORKS` has all names.
    input_shape
        Shape of one example.
    target_shape
        Shape of one target; `()` for a number.
    **options
        Fields of the network: `width`, `depth`, `activation`, `trained`, ...

    Returns
    -------
    Network
        The network.

    Examples
    --------
    >>> str(build("deep-relu", (3,), (), width=8, depth=2))
    "deep-relu(input_dim=3, width=8, depth=2, trained=('hidden',))"
    """
    kind = _kind(name)
    shaped = _shape_fields(kind, input_shape, target_shape)
    return _make(kind, {**shaped, **options})


def to_config(network: Network) -> dict[str, Any]:
    """Return the network as a dictionary that JSON can hold.

    Parameters
    ----------
    network
        The network.

    Returns
    -------
    dict[str, Any]
        Its name and fields.

    Examples
    --------
    >>> to_config(DeepReLU(input_dim=3, width=8, depth=2))["width"]
    8
    """
    if isinstance(network, Described):
        return network.to_config()
    config: dict[str, Any] = {"network": network.name}
    for field in dataclasses.fields(network):
        value = getattr(network, field.name)
        config[field.name] = value.name if isinstance(value, Activation) else value
    return config


def from_config(config: Mapping[str, Any]) -> Network:
    """Rebuild the network that `to_config` described.

    Parameters
    ----------
    config
        The result of `to_config`.

    Returns
    -------
    Network
        The network.

    Examples
    --------
    >>> network = FullyConnected(input_dim=3, width=8, depth=2)
    >>> from_config(to_config(network)) == network
    True
    """
    if config["network"] == Described.name:
        return Described.from_config(config)
    return _make(_kind(config["network"]), {key: value for key, value in config.items() if key != "network"})


def _kind(name: str) -> type[Network]:
    if name not in NETWORKS:
        raise InputError(f"there is no network {name!r}: choose one of {', '.join(NETWORKS)}")
    return NETWORKS[name]


def _make(kind: type[Network], options: Mapping[str, object]) -> Network:
    known = {field.name for field in dataclasses.fields(kind)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise InputError(f"{kind.name} has no option {', '.join(unknown)}: it has {', '.join(sorted(known))}")
    made = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    if "activation" in made:
        made["activation"] = get_activation(made["activation"])  # pyright: ignore[reportArgumentType]
    missing = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.name not in made
    ]
    if missing:
        raise InputError(f"{kind.name} needs {', '.join(missing)} as well")
    return kind(**made)


def _shape_fields(kind: type[Network], input_shape: tuple[int, ...], target_shape: tuple[int, ...]) -> dict[str, int]:
    wanted = {"vectors": 1, "images": 2, "sequences": 2}[kind.data_kind]
    if len(input_shape) != wanted:
        raise InputError(
            f"{kind.name} takes {kind.data_kind}, and these examples have shape {input_shape}: "
            f"load the data as {kind.data_kind}"
        )
    if kind.data_kind == "sequences":
        length, input_dim = input_shape
        return {"length": length, "input_dim": input_dim, "outputs": target_shape[-1]}
    outputs = target_shape[0] if target_shape else 1
    known = {field.name for field in dataclasses.fields(kind)}
    if outputs > 1 and "outputs" not in known:
        raise InputError(
            f"{kind.name} has one output and the targets have {outputs}: choose two classes, or `binarize` the labels"
        )
    several = {"outputs": outputs} if "outputs" in known else {}
    if kind.data_kind == "images":
        channels, pixels = input_shape
        return {"channels": channels, "pixels": pixels, **several}
    return {"input_dim": input_shape[0], **several}
