r"""How a network looks at infinite width: the list of its layers, free of matrices.

For vectors and images the features of layer $h$ are

$$ x^{(h)} = [\text{skip}]\, x^{(h-1)} + \frac{s_h}{\sqrt m}\, \sigma(W^{(h)} x^{(h-1)}), \qquad
   W^{(h)}_{rs} \sim N(0, 1), $$

and the paper's own weight is $W^{(h)}$ times a constant, which multiplies its part of the Gram matrix by
`factor` (1 for Du et al.; half the width for Zou et al. and Frei et al., whose entries are $N(0, 2/m)$).
"""

from __future__ import annotations

from dataclasses import dataclass

from wideproof.networks.activations import Activation


@dataclass(frozen=True)
class LimitLayer:
    """One layer: its weight's name, whether it has a skip, the scale $s_h$, the factor of its Gram part."""

    name: str
    skip: bool
    scale: float
    factor: float = 1.0


@dataclass(frozen=True)
class LayeredLimit:
    """A feed-forward network at infinite width.

    Attributes
    ----------
    output : name of the read-out weights.
    signs : whether the read-out is fixed with balanced signs, which removes the mean of the features from the
        covariance of the outputs.
    window : filter size of a convolution over positions, or `None` for vectors.
    """

    activation: Activation
    layers: tuple[LimitLayer, ...]
    output: str
    signs: bool = False
    window: int | None = None

    @property
    def homogeneous(self) -> bool:
        """Whether the network scales with its input: then only correlations matter."""
        return self.activation.name in ("relu", "relu_closed", "identity")


@dataclass(frozen=True)
class RecurrentLimit:
    """A ReLU recurrent network at infinite width: names of the recurrent and input weights of each layer.

    `factor` multiplies the parts of the hidden weights: width / (2 outputs); `output_scale` the covariance of outputs.
    """

    recurrent: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str
    factor: float
    output_scale: float


Limit = LayeredLimit | RecurrentLimit
