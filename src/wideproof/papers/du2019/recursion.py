r"""Appendix E of the paper as written: one recursion for all three networks, by tensor Gauss-Hermite quadrature.

With $X^{(h)} = D^{(h)} X^{(h-1)} + \rho^{(h)}(U^{(h)})$ and $\mathcal{W}(K)$ the covariance of the pre-activations $U$,

$$ K^{(h)}_{ij} = D K^{(h-1)}_{ij} D
   + \mathbb{E}\big[\rho(U)(D b_j)^\top + (D b_i)\rho(V)^\top + \rho(U)\rho(V)^\top\big], \qquad
   b^{(h)}_i = D b^{(h-1)}_i + \mathbb{E}\rho(U), $$

and backward $\Pi^{(H)} = I$, $\Gamma^{(h)} = \Pi^{(h)} \circ \mathbb{E}[\rho'\rho'^\top]$,
$\Pi^{(h-1)} = D\Pi^{(h)}D + \mathcal{W}^*(\Gamma^{(h)})$, so that the block of $W^{(h)}$ is
$\langle \Gamma^{(h)}, \mathcal{W}(K^{(h-1)})\rangle$. It shares no line with `wideproof.kernels`, whose limits it
checks, takes every scale from the text (`printed`), and can be told to make the paper's misprints.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from wideproof.networks import ConvResidual, Network
from wideproof.papers.du2019.functions import FUNCTIONS, Function
from wideproof.papers.du2019.printed import PRINTED, layers


@dataclass(frozen=True)
class Recursion:
    r"""What the recursion gives.

    Attributes
    ----------
    covariances
        $K^{(0)}, \dots, K^{(H)}$, arrays `(n, n, p, p)` over pairs of examples and of positions.
    means
        $b^{(0)}, \dots, b^{(H)}$, arrays `(n, p)`.
    blocks
        The limit of each weight's part of the Gram matrix, `(n, n)`.
    """

    covariances: list[np.ndarray]
    means: list[np.ndarray]
    blocks: dict[str, np.ndarray]

    @property
    def total(self) -> np.ndarray:
        """The sum of all blocks."""
        return np.sum(list(self.blocks.values()), axis=0)


def expectations(f: Function, covariance: np.ndarray, nodes: int = 48) -> np.ndarray:
    r"""Return $\mathbb{E}[f(u_a) f(u_b)]$ for every pair of coordinates of a Gaussian vector."""
    z, w = _rule(nodes)
    a, b = np.triu_indices(len(covariance))
    root = np.sqrt(np.diagonal(covariance))
    scale = root[a] * root[b]
    rho = np.clip(np.divide(covariance[a, b], scale, out=np.zeros_like(scale), where=scale > 0), -1, 1)
    u = f(root[a][:, None] * z)
    v = f(root[b][:, None, None] * (rho[:, None, None] * z[:, None] + np.sqrt(1 - rho**2)[:, None, None] * z))
    values = np.einsum("ki,i,kij,j->k", u, w, v, w)
    out = np.empty_like(covariance)
    out[a, b] = out[b, a] = values
    return out


def averages(f: Function, variances: np.ndarray, nodes: int = 96) -> np.ndarray:
    r"""Return $\mathbb{E} f(u)$ for Gaussian $u$ of every variance."""
    z, w = _rule(nodes)
    return f(np.sqrt(variances)[..., None] * z) @ w


def recursion(network: Network, x: np.ndarray, misprints: Collection[str] = (), nodes: int = 48) -> Recursion:
    r"""Run the recursion for one of Du's networks on examples `(n, d)` or images `(n, channels, p)`.

    Parameters
    ----------
    misprints
        Forms of the paper's text to follow instead of the right ones. `"index"`: the last block with the derivatives of
        the layer before (Definitions 5.1, 6.1, 7.1); `"pairing"`: $b_i$ with $\sigma(u)$ of its own example
        (Definitions 6.1, 7.1); `"patch"`: pixels added to patch sums, from $h = 3$ on (Definition 7.1); `"factor"`: no
        $c_{res}^2/H^2$ in the last block (Definition 7.1); `"rho"`: $\rho = \sigma$ (Remark E.5).
    nodes
        Of the quadrature, in each of two directions.

    Examples
    --------
    >>> from wideproof.networks import FullyConnected
    >>> recursion(FullyConnected(input_dim=2, width=1, depth=1), np.eye(2)).total.round(6)
    array([[1.318459, 0.705275],
           [0.705275, 1.318459]])
    """
    assert isinstance(network, PRINTED)
    printed = layers(network)
    sigma, slope, _ = FUNCTIONS[network.activation.name]
    window = network.filter_size if isinstance(network, ConvResidual) else 1
    pixels = x[:, :, None] if x.ndim == 2 else x
    n, _, p = pixels.shape
    k = np.einsum("icl,jcr->ijlr", pixels, pixels)
    covariances, means, patched, slopes = [k], [np.zeros((n, p))], [], []
    for h, layer in enumerate(printed, 1):
        scale = 1.0 if "rho" in misprints and not layer.skip else layer.scale
        u = patch(k, window)
        flat = u.transpose(0, 2, 1, 3).reshape(n * p, n * p)
        value, derivative = (
            expectations(f, flat, nodes).reshape(n, p, n, p).transpose(0, 2, 1, 3) for f in (sigma, slope)
        )
        mu, b = averages(sigma, np.diagonal(flat)).reshape(n, p), means[-1]
        patched.append(u)
        slopes.append(scale**2 * derivative)
        if layer.skip:
            below = u if "patch" in misprints and h >= 3 else k
            k = below + scale * _cross(b, mu, "pairing" in misprints) + scale**2 * value
            means.append(b + scale * mu)
        else:
            k, b = scale**2 * value, scale * mu
            means.append(b)
        covariances.append(k)
    blocks = {"a": np.einsum("ijll->ij", k)}
    back = np.broadcast_to(np.eye(p), (n, n, p, p))
    last = len(printed) - 1
    for h in range(last, -1, -1):
        layer, derivative = printed[h], slopes[h]
        if h == last and "index" in misprints:
            derivative = slopes[h - 1] * (layer.scale / printed[h - 1].scale) ** 2
        if h == last and "factor" in misprints:
            derivative = derivative / layer.scale**2
        gamma = back * derivative
        blocks[layer.name] = np.einsum("ijlr,ijlr->ij", gamma, patched[h])
        back = (back if layer.skip else 0) + patch(gamma, window, adjoint=True)
    return Recursion(covariances, means, blocks)


def patch(k: np.ndarray, window: int, adjoint: bool = False) -> np.ndarray:
    r"""Return $\mathcal{W}(K)_{lr} = \sum_o K_{l+o,r+o}$ over the offsets of a window, or its adjoint."""
    reach, p = window // 2, k.shape[-1]
    total = np.zeros_like(k)
    for o in range(-reach, reach + 1):
        shift = -o if adjoint else o
        to = slice(max(0, -shift), p - max(0, shift))
        source = slice(max(0, shift), p - max(0, -shift))
        total[..., to, to] += k[..., source, source]
    return total


def _cross(b: np.ndarray, mu: np.ndarray, misprinted: bool) -> np.ndarray:
    if misprinted:
        own = b * mu
        return own[:, None, :, None] + own[None, :, None, :]
    left = b[:, None, :, None] * mu[None, :, None, :]
    return left + mu[:, None, :, None] * b[None, :, None, :]


def _rule(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    z, w = hermegauss(nodes)
    return z, w / w.sum()
