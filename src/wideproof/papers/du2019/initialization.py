r"""Random starts: norms of features, and the least eigenvalue of the last hidden layer's block."""

from __future__ import annotations

import math

import numpy as np

from wideproof.monitors import spectral_norm, trace
from wideproof.monitors.smooth import SmoothNetwork
from wideproof.networks import Activation
from wideproof.papers.check import Check, at_least, at_most, conclude, often, sides
from wideproof.papers.du2019.functions import FUNCTIONS
from wideproof.papers.du2019.hypotheses import data_hypotheses, norm_width, width_hypothesis
from wideproof.papers.du2019.lab import KINDS, PIXELS, Kind, Lab
from wideproof.papers.du2019.printed import layers
from wideproof.papers.du2019.recursion import averages
from wideproof.papers.statement import Section, misprint

statement = Section("initialization", "fc_smooth")


@statement("Fully connected: feature norms start between 1/2 and 2", "bound")
@misprint("3L for 2L in the growth constant; c_σ² is missing from the variance")
def lemma_b_1(lab: Lab) -> Check:
    r"""Features of a fully connected network start with norms around 1.

    $$ m = \Omega(n H g_C(H)^2/\delta) \;\Rightarrow\; \tfrac12 \le \|x^{(h)}_i(0)\|_2 \le 2
       \quad \text{for all } h, i, \text{ with probability } 1 - \delta . $$
    """
    return _norms(lab, "fully-connected", lambda network, c_w: 2.0)


@statement("Residual: feature norms start between constants free of depth", "bound", network="resnet_smooth")
@misprint("the proof takes σ(0) = 0, and (1 - c/H)^(H-1) >= e^-c, which needs c <= 1")
def lemma_c_1(lab: Lab) -> Check:
    r"""Features of a residual network start with norms between constants free of depth.

    $$ 1/c_{x,0} \le \|x^{(h)}_i(0)\|_2 \le c_{x,0}, \qquad c_{x,0} = 2\exp(c_{res} c_{w,0} L) . $$
    """
    return _norms(lab, "residual", residual_constant)


@statement(
    "Convolutional: feature norms start between constants polynomial in the pixels", "bound", network="conv_resnet"
)
@misprint("c_(σ,1/√p)² belongs above the fraction line; σ(0) = 0 is taken for granted")
def lemma_d_1(lab: Lab) -> Check:
    r"""Features of a convolutional residual network start with norms between constants polynomial in $p$.

    $$ c_{x,0} = \max\Big\{\sqrt{q c_\sigma}\, L c_{w,0}, \sqrt{2 c_{\sigma,1/\sqrt p}/c_\sigma}\Big\}
       \exp(\sqrt q\, c_{res} c_{w,0} L), \qquad
       c_{\sigma,c_0}^{-1} = \min_{c_0 \le \alpha \le 1} \mathbb{E}[\sigma(\alpha X)^2] . $$
    """
    return _norms(lab, "conv-residual", convolution_constant)


@statement("Fully connected: the last block starts with λ_min at least 3λ0/4", "bound")
def lemma_b_2(lab: Lab) -> Check:
    r"""A wide fully connected network starts with $\lambda_{\min}(G^{(H)}(0)) \ge \tfrac34\lambda_0$, with probability
    $1 - \delta$ for $m = \Omega(n^2 \log(Hn/\delta)\, 2^{O(H)}/\lambda_0^2)$.
    """
    return _least_eigenvalue(lab, "fully-connected")


@statement("Residual: the last block starts with λ_min at least 3λ0/4", "bound", network="resnet_smooth")
def lemma_c_2(lab: Lab) -> Check:
    r"""A wide residual network starts with $\lambda_{\min}(G^{(H)}(0)) \ge \tfrac34\lambda_0$, with probability
    $1 - \delta$ for $m = \Omega(n^2 \log(Hn/\delta)/\lambda_0^2)$.
    """
    return _least_eigenvalue(lab, "residual")


@statement("Convolutional: the last block starts with λ_min at least 3λ0/4", "bound", network="conv_resnet")
def lemma_d_2(lab: Lab) -> Check:
    r"""A wide convolutional residual network starts with $\lambda_{\min}(G^{(H)}(0)) \ge \tfrac34\lambda_0$, with
    probability $1 - \delta$ for $m = \Omega(n^2 p^2 \log(Hn/\delta)/\lambda_0^2)$.
    """
    return _least_eigenvalue(lab, "conv-residual")


@statement("The last block starts within λ0/4 of its limit", "bound", network="any")
@misprint("the left side is the last layer's; a tolerance of λ0/n is enough")
def lemma_e_1(lab: Lab) -> Check:
    r"""The last block starts close to its limit when the layer below does.

    $$ \max_{ij}|\hat K^{(H-1)}_{ij} - K^{(H-1)}_{ij}| \le c\,\lambda_0/n \;\Rightarrow\;
       \|G^{(H)}(0) - K^{(H)}\|_2 \le \tfrac14\lambda_0 \quad \text{with probability } 1 - \delta . $$
    """
    parts, hypotheses = [], []
    for kind in KINDS:
        network, x = lab.model(kind), lab.data(kind).x
        lambda_0, limit = lab.lambda_0(network, x), lab.limit(network, x)
        off = np.linalg.norm(lab.last_blocks(kind) - limit.blocks[f"W{network.depth}"], 2, axis=(1, 2))
        below = [_covariance(seen.features[-2]) for seen in lab.traces(kind)]
        entries = np.abs(np.stack(below) - limit.covariances[-2]).max()
        parts.append(at_most(f"{kind}: ‖G(0) - K‖ <= λ0/4 for the median start", np.median(off), lambda_0 / 4))
        parts.append(often(f"{kind}: ‖G(0) - K‖ <= λ0/4 with probability 1 - δ", off <= lambda_0 / 4, 1 - lab.delta))
        hypotheses.append(at_most(f"{kind}: entries of the layer below within λ0/n", entries, lambda_0 / len(x)))
    return conclude(*parts, hypotheses=hypotheses, assumptions=[_sizes(lab), "constant of the hypothesis: 1"])


def residual_constant(network: SmoothNetwork, c_w: float) -> float:
    r"""Return $c_{x,0} = 2\exp(c_{res} c_{w,0} L)$ of Lemma C.1."""
    return 2 * math.exp(layers(network)[-1].scale * network.depth * c_w * network.activation.lipschitz)


def convolution_constant(network: SmoothNetwork, c_w: float) -> float:
    r"""Return $c_{x,0}$ of Lemma D.1."""
    activation, window = network.activation, network.limit().window or 1
    c_res = layers(network)[-1].scale * network.depth
    first = math.sqrt(window * activation.c_sigma) * activation.lipschitz * c_w
    second = math.sqrt(2 * least_moment(activation, 1 / math.sqrt(PIXELS)) / activation.c_sigma)
    return max(first, second) * math.exp(math.sqrt(window) * c_res * c_w * activation.lipschitz)


def least_moment(activation: Activation, c_0: float) -> float:
    r"""Return $c_{\sigma,c_0} = 1/\min_{c_0 \le \alpha \le 1} \mathbb{E}[\sigma(\alpha X)^2]$."""
    sigma = FUNCTIONS[activation.name][0]
    alpha = np.linspace(c_0, 1, 65)
    return float(1 / averages(lambda z: sigma(z) ** 2, alpha**2).min())


def _norms(lab: Lab, kind: Kind, constant) -> Check:
    """Compare all feature norms with 1/c and c, for tanh and for softplus, whose value at zero is not zero."""
    data, parts = lab.data(kind), []
    for network in (lab.model(kind), lab.trainee(kind)):
        name, found = network.activation.name, []
        for i in range(lab.draws):
            if network == lab.model(kind):
                start, features = lab.start(kind, i), lab.traces(kind)[i].features
            else:
                start = lab.draw(network, "norms", i)
                features = trace(network, start, data.x).features  # the runs have compiled it
            c_w = max(spectral_norm(w) for key, w in start.items() if key != "a") / math.sqrt(network.width)
            sizes = np.concatenate([np.linalg.norm(layer.reshape(data.n, -1), axis=1) for layer in features])
            found.append((sizes, constant(network, c_w)))
        norms, bounds = sides(found)
        inside = [((sizes <= c) & (sizes >= 1 / c)).all() for sizes, c in found]
        parts += [
            at_most(f"{name}: norms below c", norms, bounds),
            at_least(f"{name}: norms above 1/c", norms, 1 / bounds),
            often(f"{name}: with probability 1 - δ", inside, 1 - lab.delta),
        ]
    hypotheses = [*data_hypotheses(lab, kind)[:1]]
    if kind == "fully-connected":
        hypotheses.append(norm_width(lab, lab.model(kind), data.n))
    return conclude(*parts, hypotheses=hypotheses, assumptions=[_sizes(lab), "c_w,0 as measured"])


def _norm_limit(network: SmoothNetwork, kind: Kind, c_w: float) -> float:
    if kind == "fully-connected":
        return 2.0
    return residual_constant(network, c_w) if kind == "residual" else convolution_constant(network, c_w)


def _joint(lab: Lab, kind: Kind) -> Check:
    r"""Count starts whose features, weights and last block are all as the lemmas on starts want them."""
    network, data = lab.model(kind), lab.data(kind)
    lambda_0, good = lab.lambda_0(network, data.x), []
    for i, block in enumerate(lab.last_blocks(kind)):
        start = lab.start(kind, i)
        weights = [spectral_norm(w) / math.sqrt(network.width) for name, w in start.items() if name != "a"]
        sizes = [np.linalg.norm(layer.reshape(data.n, -1), axis=1) for layer in lab.traces(kind)[i].features]
        limit = _norm_limit(network, kind, max(weights))
        read_out = np.linalg.norm(start["a"]) <= 2 * math.sqrt(start["a"].size)
        within = (np.array(sizes) <= limit).all() and (np.array(sizes) >= 1 / limit).all()
        good.append(within and read_out and np.linalg.eigvalsh(block)[0] >= 0.75 * lambda_0)
    return often("norms of all layers, ‖a‖ <= 2√m and λ_min >= 3λ0/4 at once, 1 - δ", good, 1 - lab.delta)


def _least_eigenvalue(lab: Lab, kind: Kind) -> Check:
    network, x = lab.model(kind), lab.data(kind).x
    lambda_0 = lab.lambda_0(network, x)
    least = np.linalg.eigvalsh(lab.last_blocks(kind))[:, 0]
    return conclude(
        at_least("λ_min(G^(H)(0)) >= 3λ0/4", least, 0.75 * lambda_0),
        often("with probability 1 - δ", least >= 0.75 * lambda_0, 1 - lab.delta),
        _joint(lab, kind),
        hypotheses=[*data_hypotheses(lab, kind), width_hypothesis(lab, network, kind)],
        assumptions=[_sizes(lab), f"{network.activation.name}, width {network.width}, depth {network.depth}"],
    )


def _covariance(layer: np.ndarray) -> np.ndarray:
    pixels = layer.reshape(*layer.shape[:2], -1)
    return np.einsum("icl,jcr->ijlr", pixels, pixels)


def _sizes(lab: Lab) -> str:
    return f"{lab.draws} starts, δ = {lab.delta:g}"
