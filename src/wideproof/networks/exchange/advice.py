"""What to use in place of operators that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wideproof.errors import InputError
from wideproof.networks.exchange.program import Op

INSTEAD = {
    "average pooling or max pooling": "AdaptiveMaxPool FractionalMaxPool LpPool GlobalLpPool",
    "LeakyReLU": "RReLU",
    "ReLU or GELU": "ThresholdedReLU Threshold",
    "BatchNorm": (
        "LayerNorm NativeLayerNorm GroupNorm NativeGroupNorm InstanceNorm RMSNorm LayerNormalization "
        "GroupNormalization InstanceNormalization RMSNormalization LRN LocalResponseNorm"
    ),
}
"""What can be read, and which operators of ONNX and of PyTorch it often replaces."""
OTHERWISE = {
    "only feed-forward networks can be read, no recurrent layers and no attention": (
        "RNN LSTM GRU RNNCell LSTMCell GRUCell RNNTanh RNNReLU Attention MultiHeadAttention ScaledDotProductAttention"
    ),
    "it can only stand at the end, where it is left out": "Softmax LogSoftmax",
    "values stay float32 or float64": "Cast",
    "it is not continuous, so that nothing before it can be trained": "Sign Floor Ceil Round Equal Greater Less",
}
READ = (
    "what can be read are linear layers, convolutions, pooling, batch norm, sums, slices and other layouts, and "
    "activations such as ReLU, GELU and tanh"
)
SHOWN = 8
"""How many obstacles a sentence has, at most."""


class ObstaclesError(InputError):
    """A model that cannot be read, with everything that is in the way.

    Attributes
    ----------
    obstacles
        One sentence for each: the operator, what is wrong, what to do.
    head
        The last layer, where it is one of weights: everything before it can stay as it is. Empty where it is none.
    """

    def __init__(self, obstacles: Sequence[str], head: str = "") -> None:
        self.obstacles, self.head = tuple(obstacles), head
        shown, rest = self.obstacles[:SHOWN], len(self.obstacles) - SHOWN
        many = f"{len(self.obstacles)} things are in the way: "
        listed = "; ".join(f"({k}) {said}" for k, said in enumerate(shown, 1))
        more = f"; and {rest} more, which `wideproof models FILE` lists" if rest > 0 else ""
        instead = (
            f". What stands before the last layer can stay as it is, whatever it is: with --head {head} (in Python "
            f"head={head!r}) that layer is trained, and the rest makes its inputs"
        )
        said = shown[0] if len(self.obstacles) == 1 else many + listed + more
        super().__init__(said + instead * bool(head))


def plain(kind: str) -> str:
    """Return a name as it is in ONNX and in PyTorch, without spelling, domain and dimensions."""
    return re.sub("[123]d$", "", kind.rpartition(".")[2].replace("_", "").lower())


ADVICE = {
    **{
        plain(kind): f"use {word} instead, and train again" for word, kinds in INSTEAD.items() for kind in kinds.split()
    },
    **{plain(kind): advice for advice, kinds in OTHERWISE.items() for kind in kinds.split()},
}


def refusal(op: Op) -> InputError:
    """Return the error that names an operator which cannot be read, its place, and what to do."""
    return InputError(f"{op} is not supported: {ADVICE.get(plain(op.kind), READ)}")
