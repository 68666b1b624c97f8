r"""What a proof before training would need: one hidden layer, fixed outputs $\pm A$, doubled initialization.

Let $f(x) = \sqrt{c_\sigma/m} \sum_r a_r \sigma(w_r^\top x)$ with $a_r = \pm A$ fixed and every unit there twice with
opposite signs, so that the outputs start at 0 and the residual is $\rho = \|y\|$ ($\sqrt n$ for labels $\pm1$). Its
Jacobian is Lipschitz with $\Lambda = L_2 \sqrt{c_\sigma/m}\, A \max_i \|x_i\|\, \|X\|_2$ everywhere, and
$s^2 = \lambda_{\min} = A^2 \lambda_{\min}(G^1)$, $G^1$ being the Gram matrix of the hidden weights at $A = 1$. Gradient
descent then reaches zero loss if $\Lambda \rho / s^2 < \tfrac12$, which is

$$ m A^2 > \frac{4\, c_\sigma L_2^2\, \|y\|^2 \max_i \|x_i\|^2 \|X\|_2^2}{\lambda_{\min}(G^1)^2} . $$

Here $G^1$ is that of infinite width: a network of finite width has its own, which is close where $m$ is large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wideproof.data import AnyDataset, Dataset
from wideproof.kernels import Enclosed, limit_gram, spectrum
from wideproof.networks import FullyConnected, get_activation


@dataclass(frozen=True)
class ProofNeed:
    """What a proof before training needs for one activation and preparation.

    Attributes
    ----------
    need
        The bound that $m A^2$ must exceed, with the lower end of the eigenvalue.
    smallest
        The smallest eigenvalue of $G^1$ with its radius.
    """

    activation: str
    preparation: str
    need: float
    smallest: Enclosed

    @property
    def width(self) -> int:
        """The least even width at scale $A = 1$ (units come in pairs)."""
        return 2 * (math.floor(self.need / 2) + 1)

    def scale(self, width: int) -> float:
        """Return the scale of the outputs $A$ that makes `width` units enough.

        >>> ProofNeed("softplus", "unit", 400.0, Enclosed(0.1, 0.0)).scale(100)
        2.0
        """
        return math.sqrt(self.need / width)

    def __str__(self) -> str:
        return (
            f"m·A² > {self.need:.3g}: width {self.width:.3g} at scale 1, or width 1024 at outputs "
            f"±{self.scale(1024):.3g} (one hidden layer, {self.activation}, prepared by "
            f"{self.preparation or 'nothing'}; λmin of the hidden weights {self.smallest})"
        )


def proof_needs(prepared: Mapping[str, AnyDataset], activations: Sequence[str]) -> tuple[ProofNeed, ...]:
    r"""Return what a proof before training needs, the least first; empty for images, sequences and several outputs.

    Pairs whose smallest eigenvalue is undecided, and activations without a Lipschitz derivative, are left out.

    Parameters
    ----------
    prepared
        Data sets by the steps that prepared them.

    Examples
    --------
    Orthonormal inputs have $G^1 = c_\sigma \mathbb{E}[\sigma'^2] I$:

    >>> data = Dataset(np.eye(4), [1, -1, 1, -1], "binary")
    >>> (found,) = proof_needs({"unit": data}, ["softplus"])
    >>> round(found.smallest.value, 3), found.width
    (0.318, 12)
    """
    found = []
    for steps, data in prepared.items():
        if not isinstance(data, Dataset) or data.y.size != data.n:
            continue
        size = float(np.linalg.norm(data.x, 2) * np.linalg.norm(data.x, axis=1).max() * np.linalg.norm(data.y))
        for name in activations:
            activation = get_activation(name)
            if activation.smoothness is None:
                continue
            network = FullyConnected(data.x.shape[1], 1, 1, activation)
            smallest = spectrum(limit_gram(network, data.x, names=["W1"])).smallest
            if smallest.low > 0:
                need = activation.c_sigma * (2 * activation.smoothness * size / smallest.low) ** 2
                found.append(ProofNeed(name, steps, need, smallest))
    return tuple(sorted(found, key=lambda one: one.need))
