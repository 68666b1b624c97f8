r"""How far random starts are from their limits: in the width, and through the depth."""

from __future__ import annotations

import math

import numpy as np

from wideproof.monitors.smooth import SmoothNetwork
from wideproof.papers.check import Check, conclude, scales
from wideproof.papers.du2019.functions import FUNCTIONS
from wideproof.papers.du2019.hypotheses import growth_constant
from wideproof.papers.du2019.joint import CLOSE
from wideproof.papers.du2019.lab import KINDS, Kind, Lab
from wideproof.papers.du2019.records import Params
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("initialization", "any")

ROWS = 8  # independent rows of a fit; each is a mean over several starts


@statement("Covariances and means of every layer come as close to their limits as 1/√m", "scale")
@misprint("A_(h) is printed with one too many; factors 2 of the proof are dropped")
def theorem_e_1(lab: Lab) -> Check:
    r"""Covariances and means of all layers come within $\mathcal{E}\sqrt{\log(Hn\max p/\delta)/m}$ of their limits."""
    return conclude(*(trials.check(lab) for trials in CLOSE), eq_18(lab), eq_19(lab))


@statement("Layer covariances come as close to their limits as 1/√m", "scale")
def eq_18(lab: Lab) -> Check:
    r"""Layer covariances:
    $\big\|\tfrac1m \sum_\alpha X_i^{(h),(\alpha)\top} X_j^{(h),(\alpha)} - K^{(h)}_{ij}\big\|_\infty
    \le \mathcal{E}\sqrt{\log(Hn\max p/\delta)/m}$, so the largest error of an entry falls like $m^{-1/2}$.
    """
    return _in_the_width(lab, 0, "largest error of a covariance")


@statement("Layer means come as close to their limits as 1/√m", "scale")
def eq_19(lab: Lab) -> Check:
    r"""Layer means: $\big\|\tfrac1m \sum_\alpha X_i^{(h),(\alpha)} - b^{(h)}_i\big\|_\infty
    \le \mathcal{E}\sqrt{\log(Hn\max p/\delta)/m}$, so the largest error of a mean falls like $m^{-1/2}$.
    """
    return _in_the_width(lab, 1, "largest error of a mean")


@statement(
    "Fully connected: errors of the start grow by a constant factor per layer at most", "scale", network="fc_smooth"
)
def eq_4(lab: Lab) -> Check:
    r"""Fully connected: an error of the first layer grows by at most a constant factor from layer to layer.

    $$ \mathcal{E}_H = \|G^{(H)}(0) - K^{(H)}\|_2 \lesssim 2^{O(H)}\, \mathcal{E}_1 . $$

    The factor is put to $C = c_\sigma L(2|\sigma(0)|\sqrt{2/\pi} + 3L)$ of Lemma B.1: the exponent of $2^H$ is
    compared with $\log_2 C$.
    """
    parts = []
    for activation in lab.pick(("gelu",), ("softplus", "tanh", "gelu"), ("softplus", "tanh", "gelu", "swish")):
        deep = lab.network("fully-connected", lab.pick(128, 256, 1024), lab.pick(6, 8, 10), activation)
        growth = math.log2(growth_constant(deep.activation))
        layers = np.arange(1, deep.depth + 1)
        title = f"{activation}: E_H in 2^H, the factor per layer at most {2**growth:.3g}"
        parts.append(scales(title, "2^H", 2.0**layers, _prefix_errors(lab, deep), growth))
    return conclude(*parts, assumptions=["the O(H) in the exponent is H log2 C with C of Lemma B.1"])


@statement("Residual: errors of the start keep the order of the first layer's", "scale", network="resnet_smooth")
def eq_5(lab: Lab) -> Check:
    r"""Residual: an error of the first layer stays of its order at every depth.

    $$ \mathcal{E}_H \lesssim (1 + O(1/H))^H\, \mathcal{E}_1 = O(\mathcal{E}_1), $$

    both for the last block, which the paper writes, and for the features' covariance, relative to the first layer.
    """
    return conclude(*_in_the_depth(lab, "residual"), assumptions=[f"depths {_depths(lab)}"])


@statement("What width follows: exponential in depth without skips, free of depth with them", "scale")
@misprint("needs A_(h) = max{...}, that is 0 or 1")
def remark_e_7(lab: Lab) -> Check:
    r"""The width that concentration asks for: $2^{O(H)}$ for fully connected networks, free of depth for residual ones.

    $\mathcal{E}$ is a product over layers of $A_{(h)} + \Lambda\mathcal{W} + C A_{(h)} B \mathcal{W} +
    C A_{(h)}\sqrt{\mathcal{W} M}$ with $A = 0$ without skips and $A = 1$, $C, \Lambda = O(1/H)$ with them. The errors
    themselves are measured, and the logarithm of the product is followed to depths where it has settled.
    """
    depths = np.array([1e5, 1e6, 1e7])
    settled = scales("logarithm of the product for skips", "H", depths, log_amplification(depths), 0.0)
    image = _in_the_depth(lab, "conv-residual") if lab.study != "quick" else []
    note = f"the product for residual networks settles at exp({log_amplification(1e7):.0f})"
    return conclude(eq_4(lab), eq_5(lab), settled, *image, note=note)


def log_amplification(depth, skip: float = 1.0, c_res: float = 0.5):
    r"""Return the logarithm of the product over layers in Theorem E.1, for the softplus residual network.

    `skip` is $A_{(h)}$: 1 as Remark E.7 uses it, 2 as the theorem defines it. $M$ and $B$ are those of unit inputs in
    the deep limit, $S \le 1.89$ and $b \le 1.263$; $\Lambda$ is put to $C$.
    """
    h = np.asarray(depth, float)
    c, w, m, b = c_res / h * (math.log(2) + 1), 2.0, 1 + 100 * 1.89, 1 + 100 * 1.263
    return (h - 2) * (math.log(skip) + np.log1p((c * w + c * skip * (b * w + math.sqrt(w * m))) / skip))


def _in_the_width(lab: Lab, which: int, title: str) -> Check:
    found = {kind: width_errors(lab, kind) for kind in KINDS}
    parts = [trials.check(lab, ("E.18", "E.19")[which]) for trials in CLOSE]
    parts += [scales(f"{kind}: {title}", "m", widths, errors[which], -0.5) for kind, (widths, errors) in found.items()]
    return conclude(*parts, assumptions=["all layers of networks of depth 2; each row is a mean over several starts"])


@kept
def width_errors(lab: Lab, kind: Kind) -> tuple[tuple[int, ...], np.ndarray]:
    """Return widths and the largest errors of covariances and means, `(2, rows, widths)`."""
    widths = lab.grid(
        *(((32, 128, 512), (64, 128, 256, 512, 1024), (64, 256, 1024, 4096))
          if kind != "conv-residual" else ((16, 64, 256), (32, 64, 128, 256, 512), (64, 256, 1024)))
    )  # fmt: skip
    each = lab.pick(5, 8, 16)
    x = lab.data(kind).x
    errors = np.zeros((2, ROWS, len(widths)))
    for k, width in enumerate(widths):
        network = lab.network(kind, width, 2)
        limit = lab.limit(network, x)
        for i in range(ROWS * each):
            features = lab.features(network, lab.draw(network, "width", i), x)
            errors[:, i % ROWS, k] += np.max([_errors(layer, limit, h) for h, layer in enumerate(features, 1)], axis=0)
    return widths, errors / each


def _errors(layer: np.ndarray, limit, h: int) -> tuple[float, float]:
    pixels = layer.reshape(*layer.shape[:2], -1)
    covariance = np.einsum("icl,jcr->ijlr", pixels, pixels)
    mean = math.sqrt(layer.shape[1]) * pixels.mean(axis=1)
    return np.abs(covariance - limit.covariances[h]).max(), np.abs(mean - limit.means[h]).max()


@kept
def _prefix_errors(lab: Lab, deep: SmoothNetwork) -> np.ndarray:
    r"""Return $\|G^{(h)}(0) - K^{(h)}\|_2$ of the networks that end after layer $h$ of a deep one, `(rows, H)`."""
    x, each = lab.data("fully-connected").x, lab.pick(3, 6, 6)
    prefixes = [lab.network("fully-connected", 1, h, deep.activation.name) for h in range(1, deep.depth + 1)]
    limits = [lab.last(prefix, x) for prefix in prefixes]
    errors = np.zeros((ROWS, deep.depth))
    for i in range(ROWS * each):
        params = lab.draw(deep, "deep", i)
        features = [x, *lab.features(deep, params, x)]
        for h in range(1, deep.depth + 1):
            block = _last_block(deep, params, features[h - 1], h, deep.activation.c_sigma)
            errors[i % ROWS, h - 1] += np.linalg.norm(block - limits[h - 1], 2)
    return errors / each


def _last_block(network: SmoothNetwork, params: Params, below: np.ndarray, h: int, scale: float) -> np.ndarray:
    """The closed forms (13) and (14) for the layer `h` that the read-out follows."""
    slope = FUNCTIONS[network.activation.name][1](below @ params[f"W{h}"].T) * params["a"]
    return scale / network.width * (below @ below.T) * (slope @ slope.T)


def _depths(lab: Lab) -> list[int]:
    return lab.pick([4, 8, 16], [4, 8, 16, 32], [4, 8, 16, 32, 64])


def _in_the_depth(lab: Lab, kind: Kind) -> list[Check]:
    x, depths, each = lab.data(kind).x, _depths(lab), lab.pick(6, 8, 16)
    width = lab.pick(64, 128, 512) if kind == "residual" else lab.pick(16, 48, 256)
    blocks, layers = np.zeros((ROWS, len(depths))), np.zeros((ROWS, len(depths)))
    for k, depth in enumerate(depths):
        network = lab.network(kind, width, depth)
        limit, first = lab.limit(network, x), np.zeros(ROWS)
        last = np.zeros(ROWS)
        for i in range(ROWS * each):
            params = lab.draw(network, "depth", i)
            features = lab.features(network, params, x)
            first[i % ROWS] += _errors(features[0], limit, 1)[0]
            last[i % ROWS] += _errors(features[-1], limit, depth)[0]
            if kind == "residual":
                block = _last_block(network, params, features[-2], depth, 0.25 / depth**2)
                blocks[i % ROWS, k] += np.linalg.norm(block - limit.blocks[f"W{depth}"], 2) / each
        layers[:, k] = last / first
    parts = [scales(f"{kind}: error of the last covariance over that of the first", "H", depths, layers, 0.0)]
    if kind == "residual":
        parts.append(scales("residual: E_H of the last block", "H", depths, blocks, 0.0))
    return parts
