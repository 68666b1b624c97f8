r"""The kernel of an infinitely wide network for inputs of norm 1: one function of the angle between them.

$k(x, z) = \kappa(\theta)$ with $\theta \in [0, \pi]$. At infinite width $\kappa$ is smooth in $\theta$, also for ReLU
units, whose kernel has a kink in the inner product; so a polynomial in $\theta$ holds it to rounding. Other libraries
for Gaussian processes need no more than these coefficients: they evaluate and differentiate the polynomial themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev
from scipy.fft import dct

from wideproof.errors import InputError
from wideproof.kernels.finite import check_names
from wideproof.kernels.recursion import COVARIANCE, Groups, moments, node_recursion
from wideproof.networks import LayeredLimit, Network

ACCURACY = 1e-13  # of the polynomial between its nodes, as a share of the largest value
DEGREES = (32, 64, 128, 256, 512)


@dataclass(frozen=True, eq=False)
class Angular:
    r"""A kernel on the unit sphere as a Chebyshev series in $2\theta/\pi - 1$.

    Attributes
    ----------
    coefficients
        The coefficients, that of degree 0 first.
    error
        The largest difference from the recursion between the nodes, as a share of the largest value.
    """

    coefficients: Float[np.ndarray, "terms"]
    error: float

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Return the kernel of inputs at the angles `theta`."""
        return chebyshev.chebval(2 / math.pi * np.asarray(theta) - 1, self.coefficients)


def angular(network: Network, *, names: Sequence[str] | None = None, covariance: bool = False) -> Angular:
    """Return the kernel of an infinitely wide network for inputs of norm 1, as a function of the angle.

    Parameters
    ----------
    network
        A network of vectors.
    names
        The weights to sum over; by default the trained ones.
    covariance
        Return the covariance of the outputs (NNGP) instead of the tangent kernel.

    Returns
    -------
    Angular
        The function, with its coefficients.

    Examples
    --------
    >>> from wideproof.kernels import limit_gram
    >>> from wideproof.networks import FullyConnected
    >>> network, angles = FullyConnected(2, 8, 2, "relu"), np.array([0.0, 0.7])
    >>> x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> bool(np.allclose(angular(network)(angles), limit_gram(network, x).matrix[0], rtol=1e-12))
    True
    """
    limit = network.limit()
    if not isinstance(limit, LayeredLimit) or limit.window is not None:
        raise InputError(f"the kernel of {network} is no function of an angle: only networks of vectors have one")
    groups: Groups = ((COVARIANCE, ()),) if covariance else (("total", check_names(network, names)),)
    known, key = moments(limit, np.ones((1, 1))), groups[0][0]
    last = float(known.last_offset.ravel()[0]) ** 2 if covariance and limit.signs else 0.0

    def exact(theta: np.ndarray) -> np.ndarray:
        found = node_recursion(limit, groups, known, theta)[key]
        return np.broadcast_to(0.0 if found is None else np.asarray(found) - last, theta.shape)

    for degree in DEGREES:
        nodes = np.cos((np.arange(degree + 1) + 0.5) * (math.pi / (degree + 1)))
        values = exact((nodes + 1) * (math.pi / 2))
        series = np.asarray(dct(values, type=2)) / (degree + 1)
        series[0] /= 2
        between = np.concatenate([[1.0], (nodes[1:] + nodes[:-1]) / 2, [-1.0]])
        off = np.abs(chebyshev.chebval(between, series) - exact((between + 1) * (math.pi / 2))).max()
        scale = max(np.abs(values).max(), np.finfo(float).tiny)
        if off <= ACCURACY * scale:
            return Angular(series, float(off / scale))
    raise InputError(f"no polynomial of degree {DEGREES[-1]} holds the kernel of {network} to {ACCURACY:g}")
