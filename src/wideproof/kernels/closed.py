r"""Gram matrices in closed form and plain NumPy: erf, sin and ReLU at infinite width, the positive start at any.

With $\Sigma^{(0)} = X X^\top$ and the dual $T(\Sigma) = c_\sigma \mathbb{E}[\sigma(u)\sigma(v)]$ for normal $(u, v)$ of
covariance $\Sigma$,

$$ \Sigma^{(h)} = T(\Sigma^{(h-1)}), \quad \Theta^{(0)} = 0, \quad
   \Theta^{(h)} = (\Theta^{(h-1)} + \Sigma^{(h-1)}) \circ T'(\Sigma^{(h-1)}), \quad G = \Sigma^{(H)} + \Theta^{(H)} . $$

With outputs multiplied by $\alpha$ it is $\alpha^2 G$; from the zero start only $\Sigma^{(H)}$ is there. From the
positive start (`networks.starts`) it is $A^2 (c_\sigma \sigma'(0)^2)^H X X^\top$, at every width.
Nothing is compiled: this is what choosing a network looks at, many small matrices in a moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wideproof.networks import FullyConnected, Network
from wideproof.networks.starts import ZERO


class Closed(NamedTuple):
    r"""The part of the read-out, $\Sigma^{(H)}$, and the sum over all weights."""

    read_out: np.ndarray
    total: np.ndarray


Duals = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _erf(sigma: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Williams: (2/π) asin(2 Σ_ij / √((1 + 2 Σ_ii)(1 + 2 Σ_jj))), and its derivative's counterpart."""
    size = np.multiply.outer(1 + 2 * diagonal, 1 + 2 * diagonal)
    cosine = np.clip(2 * sigma / np.sqrt(size), -1, 1)
    return 2 / np.pi * np.arcsin(cosine), 4 / np.pi / np.sqrt(size - np.square(2 * sigma))


def _relu(sigma: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cho and Saul: (√(Σ_ii Σ_jj) / 2π)(sin θ + (π − θ) cos θ) and (π − θ) / 2π."""
    size = np.sqrt(np.multiply.outer(diagonal, diagonal))
    cosine = np.clip(np.divide(sigma, size, out=np.zeros_like(sigma), where=size > 0), -1, 1)
    angle = np.arccos(cosine)
    value = size / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * cosine)
    return value, (np.pi - angle) / (2 * np.pi)


def _sin(sigma: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By sin u sin v = ½ (cos(u − v) − cos(u + v)), and E cos of a normal number of variance v is e^(−v/2)."""
    both = np.add.outer(diagonal, diagonal)
    apart, together = np.exp(sigma - both / 2), np.exp(-sigma - both / 2)
    return (apart - together) / 2, (apart + together) / 2


DUALS: dict[str, Duals] = {"erf": _erf, "relu": _relu, "sin": _sin}


def has_closed_gram(network: Network) -> bool:
    """Return whether `closed_gram` supports a network.

    Parameters
    ----------
    network
        Any network of this package.

    Returns
    -------
    bool
        Whether its Gram matrix has a closed form.

    Examples
    --------
    >>> has_closed_gram(FullyConnected(2, 8, 1)), has_closed_gram(FullyConnected(2, 8, 1, "tanh", start="positive"))
    (False, True)
    """
    return isinstance(network, FullyConnected) and (network.start_scale is not None or network.activation.name in DUALS)


def closed_gram(network: FullyConnected, x: np.ndarray) -> Closed:
    """Return the Gram matrix of one output coordinate in closed form, at infinite width or for the positive start.

    Parameters
    ----------
    network
        A fully-connected network for which `has_closed_gram` is true.
    x
        Inputs, one example in each row.

    Returns
    -------
    Closed
        The part of the read-out layer, `read_out`, and the sum over all weights, `total`.

    Examples
    --------
    >>> from wideproof.kernels import limit_gram
    >>> from wideproof.networks import get_activation
    >>> network = FullyConnected(input_dim=2, width=1, depth=2, activation=get_activation("erf"))
    >>> x = np.array([[1.0, 0.0], [0.6, 0.8]])
    >>> bool(np.allclose(closed_gram(network, x).total, limit_gram(network, x).matrix, rtol=1e-10))
    True
    """
    scale, sigma = network.activation.c_sigma, np.asarray(x, np.float64) @ np.asarray(x, np.float64).T
    if network.start_scale is not None:
        slope = float(network.activation.known.slope(np.zeros(1))[0])
        size = network.alpha * network.start_scale
        return Closed(np.zeros_like(sigma), size**2 * (scale * slope**2) ** network.depth * sigma)
    dual = DUALS[network.activation.name]
    theta = np.zeros_like(sigma)
    for _ in range(network.depth):
        value, slope = dual(sigma, np.diagonal(sigma).copy())
        theta = (theta + sigma) * (scale * slope)
        sigma = scale * value
    sigma, theta = network.alpha**2 * sigma, network.alpha**2 * theta
    return Closed(sigma, sigma if network.start == ZERO else sigma + theta)
