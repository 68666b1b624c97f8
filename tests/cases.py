"""Every network once, small: contract tests run over this table."""

import pytest

from wideproof.networks import (
    ConvResidual,
    DeepReLU,
    DeepRNN,
    ElmanRNN,
    FullyConnected,
    Network,
    Residual,
    ResidualReLU,
    get_activation,
)

NETWORKS: dict[str, Network] = {
    "fully-connected": FullyConnected(input_dim=5, width=7, depth=3),
    "fully-connected-tanh-outputs": FullyConnected(5, 7, 2, get_activation("tanh"), outputs=3),
    "residual": Residual(input_dim=5, width=7, depth=4, c_res=0.7),
    "residual-one-layer": Residual(input_dim=5, width=7, depth=1, activation=get_activation("swish")),
    "conv-residual": ConvResidual(channels=2, pixels=6, width=5, depth=3),
    "conv-residual-outputs": ConvResidual(channels=2, pixels=6, width=5, depth=2, filter_size=5, outputs=2),
    "deep-relu": DeepReLU(input_dim=5, width=8, depth=3),
    "deep-relu-widths": DeepReLU(input_dim=5, width=(7, 9, 8), depth=3, trained=("hidden", "output")),
    "elman-rnn": ElmanRNN(input_dim=4, width=8, length=5, outputs=2),
    "elman-rnn-all": ElmanRNN(4, 8, 5, outputs=1, trained=("recurrent", "input", "output")),
    "deep-rnn": DeepRNN(input_dim=4, width=8, length=4, depth=3, outputs=2),
    "deep-rnn-all": DeepRNN(4, 8, 4, depth=2, trained=("recurrent", "input", "between", "output")),
    "residual-relu": ResidualReLU(input_dim=5, width=8, depth=3, residual_scale=0.4),
}

# Second members of a family, which take as long to compile as the first.
VARIANTS = ("residual-one-layer", "conv-residual-outputs", "deep-relu-widths", "elman-rnn-all", "deep-rnn-all")


def each_network(values: str = "networks") -> list:
    """Return every network (or its name) as a parameter, with the variants as slow tests."""
    return [
        pytest.param(
            name if values == "names" else network, id=name, marks=pytest.mark.slow if name in VARIANTS else ()
        )
        for name, network in NETWORKS.items()
    ]
