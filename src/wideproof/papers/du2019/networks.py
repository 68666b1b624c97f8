"""Equations (2) and (3) and the remarks on the common framework: the networks against the formulas, written anew."""

from __future__ import annotations

import math

import numpy as np

from wideproof.papers.check import Check, at_least, at_most, conclude, identity, sides
from wideproof.papers.du2019.functions import FUNCTIONS
from wideproof.papers.du2019.lab import KINDS, PIXELS, Kind, Lab
from wideproof.papers.du2019.printed import formula, gathered, layers
from wideproof.papers.printed import outputs_agree
from wideproof.papers.statement import Section

statement = Section("setting", "fc_smooth")

CASES = ((1, "softplus"), (3, "tanh"), (6, "gelu"))


@statement("The fully connected network, layers scaled by √(c_σ/m)", "oracle")
def eq_2(lab: Lab) -> Check:
    r"""$x^{(h)} = \sqrt{c_\sigma/m}\,\sigma(W^{(h)}x^{(h-1)})$, $f = a^\top x^{(H)}$,
    $c_\sigma = (\mathbb{E}\,\sigma(z)^2)^{-1}$.
    """
    return conclude(*_against_the_formula(lab, "fully-connected"))


@Section("setting", "resnet_smooth")("The residual network, branches scaled by c_res/(H√m)", "oracle")
def eq_3(lab: Lab) -> Check:
    r"""$x^{(h)} = x^{(h-1)} + \frac{c_{res}}{H\sqrt m}\sigma(W^{(h)}x^{(h-1)})$ for $h \ge 2$, and the first layer as
    in (2); the convolutional network of Section 7 too, with patches for vectors.
    """
    return conclude(*_against_the_formula(lab, "residual"), *_against_the_formula(lab, "conv-residual"))


def _against_the_formula(lab: Lab, kind: Kind) -> list[Check]:
    found = []
    for depth, activation in CASES:
        network, x = lab.network(kind, 24, depth, activation), lab.data(kind).x
        params = lab.draw(network, "formula")
        outputs = lab.features(network, params, x)[-1].reshape(len(x), -1) @ params["a"].ravel()
        found.append(outputs_agree(outputs, formula(network, params, x), f"{kind}, {activation}, depth {depth}"))
    return found


@Section("setting", "any")("X is √m times the features", "exact")
def remark_e_6(lab: Lab) -> Check:
    r"""$X^{(h)} = \sqrt m\,x^{(h)}$: the common framework, $X^{(h)} = DX^{(h-1)} + \rho(W^{(h)}X^{(h-1)}/\sqrt m)$, has
    the features of every network, all layers times one factor.
    """
    found = []
    for kind in KINDS:
        network, x = lab.network(kind, 24, 4), lab.data(kind).x
        params = lab.draw(network, "framework")
        sigma, root = FUNCTIONS[network.activation.name][0], math.sqrt(network.width)
        window = 3 if kind == "conv-residual" else 1
        features = lab.features(network, params, x)
        for i, example in enumerate(x):
            value = example.reshape(len(example), -1)
            for layer, feature in zip(layers(network), features, strict=True):
                below = value
                inside = params[layer.name] @ gathered(below, window) / (1.0 if layer.name == "W1" else root)
                value = layer.scale * sigma(inside) + (below if layer.skip else 0.0)
                found.append((value.ravel(), root * feature[i].ravel()))
    return conclude(identity("X^(h) against √m x^(h), all layers", *sides(found), tolerance=1e-10))


@Section("initialization", "any")(
    "How the lemmas on the least eigenvalue follow from the concentration", "bound"
)  # fmt: skip
def remark_e_8(lab: Lab) -> Check:
    r"""$\|G^{(H)}(0) - K^{(H)}\|_2 \le \frac14\lambda_0$ gives $\lambda_{\min}(G^{(H)}(0)) \ge \frac34\lambda_0$
    (Weyl), so that Theorem E.1 and Lemma E.1 give Lemmas B.2, C.2 and D.2.
    """
    off, shifts, least = [], [], []
    for kind in KINDS:
        network, x = lab.model(kind), lab.data(kind).x
        limit, lambda_0 = lab.last(network, x), lab.lambda_0(network, x)
        for block in lab.last_blocks(kind):
            smallest, distance = float(np.linalg.eigvalsh(block)[0]), float(np.linalg.norm(block - limit, 2))
            off.append(distance)
            shifts.append(abs(smallest - lambda_0))
            if distance <= lambda_0 / 4:
                least.append(smallest / lambda_0)
    return conclude(
        at_most("|λ_min(G) - λ0| <= ‖G - K‖", shifts, off),
        at_least("λ_min(G)/λ0 of the starts with ‖G - K‖ <= λ0/4", least, 0.75),
        assumptions=(f"{len(least)} of {len(off)} starts are within λ0/4", f"images of {PIXELS} pixels"),
    )
