"""What to use in place of operators that cannot be read."""

from __future__ import annotations

import re

from wideproof.errors import InputError
from wideproof.networks.exchange.program import Op

INSTEAD = {
    "average pooling": "MaxPool AdaptiveMaxPool FractionalMaxPool GlobalMaxPool ReduceMax LpPool GlobalLpPool",
    "ELU": "SELU CELU",
    "ReLU or GELU": "LeakyReLU PReLU RReLU ReLU6 ThresholdedReLU Threshold HardTanh Clip Clamp Max",
    "SiLU": "HardSwish",
    "the sigmoid": "HardSigmoid",
    "softplus": "LogSigmoid",
    "BatchNorm right behind a linear layer or a convolution": (
        "LayerNorm NativeLayerNorm GroupNorm NativeGroupNorm InstanceNorm RMSNorm LayerNormalization "
        "GroupNormalization InstanceNormalization RMSNormalization"
    ),
}
"""What can be read, and which operators of ONNX and of PyTorch it often replaces."""
OTHERWISE = {
    "only feed-forward networks can be read, no recurrent layers and no attention": (
        "RNN LSTM GRU RNNCell LSTMCell GRUCell RNNTanh RNNReLU Attention MultiHeadAttention ScaledDotProductAttention"
    ),
    "it can only stand at the end, where it is left out": "Softmax LogSoftmax",
    "values stay float32 or float64": "Cast",
}
READ = (
    "what can be read are linear layers, convolutions, average pooling, batch norm, sums, and activations such as "
    "ReLU, GELU and tanh"
)


def _plain(kind: str) -> str:
    """Return a name as it is in ONNX and in PyTorch, without spelling, domain and dimensions."""
    return re.sub("[123]d$", "", kind.rpartition(".")[2].replace("_", "").lower())


ADVICE = {
    **{
        _plain(kind): f"use {word} instead, and train again"
        for word, kinds in INSTEAD.items()
        for kind in kinds.split()
    },
    **{_plain(kind): advice for advice, kinds in OTHERWISE.items() for kind in kinds.split()},
}


def refusal(op: Op) -> InputError:
    """Return the error that names an operator which cannot be read, its place, and what to do."""
    return InputError(f"{op} is not supported: {ADVICE.get(_plain(op.kind), READ)}")
