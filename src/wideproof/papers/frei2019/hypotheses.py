"""What the paper supposes: inputs, margin, widths, start; and its conditions on the width as numbers."""

from __future__ import annotations

import numpy as np

from wideproof.data import margin, xor
from wideproof.papers.check import Check, agrees, at_least, at_most, conclude, identity, law
from wideproof.papers.frei2019.lab import Lab
from wideproof.papers.statement import Section, misprint

statement = Section("hypothesis", "any")

XOR_MARGIN = float((2 / np.sqrt(np.pi) - np.sqrt(2 / np.pi)) / 2)


@statement("Every input has norm 1", "exact")
@misprint("wording rebuilt from the proofs")
def assumption_3_1(lab: Lab) -> Check:
    r"""The inputs lie on the unit sphere: $\|x\|_2 = 1$."""
    inputs = np.concatenate([lab.data().x, lab.data(sample="test", n=1000).x, lab.inputs(100)])
    return conclude(identity("‖x‖ = 1", np.linalg.norm(inputs, axis=1), 1.0, tolerance=1e-12))


@statement("Some bounded mixture of infinitely many ReLU units separates the data with margin γ", "oracle")
def assumption_3_2(lab: Lab) -> Check:
    r"""A function $f(x) = \int c(u)\,\sigma(u^\top x)\, p(u)\,du$, $|c| \le 1$, has $y f(x) \ge \gamma$ on the support.

    The largest such $\gamma$ of a sample is a linear program on random features; for two data sets it is known.
    """
    features = lab.pick(2000, 8000, 40000)
    linear = lab.data(n=lab.pick(24, 64, 200))
    found, crossed = margin(linear.x, linear.y, features=features, bracket=False), margin(xor().x, xor().y)
    rng = lab.rng("features")
    half = rng.standard_normal((50_000, lab.input_dim))
    point = linear.x[0]
    drawn = [np.sign(u[:, 0]) * np.maximum(u @ point, 0) for u in (half, -half)]
    return conclude(
        agrees("linear program, labels by a hyperplane", found.estimate, lab.margin(), tolerance=0.06),
        agrees("linear program, exclusive or", crossed.estimate, XOR_MARGIN, tolerance=0.03),
        at_most("bracket of the exclusive or, below", crossed.lower, XOR_MARGIN),
        at_least("bracket of the exclusive or, above", crossed.upper, XOR_MARGIN),
        law("c(u) = sign u_1 gives y f(x) = |x_1|/√(2π)", np.mean(drawn, axis=0), lab.margin(), kind="oracle"),
        assumptions=[f"{features} random features, exact to about 1/√features = {features**-0.5:.3f}"],
    )


@statement("All widths of one size, half of the output signs positive", "bound", network="resnet_relu")
@misprint("wording rebuilt from the proofs")
def assumption_3_3(lab: Lab) -> Check:
    r"""Widths are comparable, $\max_l m_l \le C \min_l m_l$, and the output width is even."""
    sizes = np.array([lab.network(width).sizes()[1:] for width in lab.widths])
    halves = [float(lab.run(width, 0).initial["v"].sum()) for width in lab.widths]
    return conclude(
        at_most("max m_l <= min m_l", sizes.max(axis=1), sizes.min(axis=1), counts=True),
        at_most("odd output widths", sizes[:, -1] % 2, 0, counts=True),
        identity("the signs v add up to 0", halves, 0.0),
        assumptions=["all widths equal, so C = 1"],
    )


@Section("initialization", "resnet_relu")("Weights start as independent N(0, 2/m_l), m_l the width above", "exact")
@misprint("wording rebuilt from the proofs")
def assumption_3_4(lab: Lab) -> Check:
    r"""The start: entries of $W_l$ are independent $N(0, 2/m_l)$, with the width of the layer above, the first too."""
    network = lab.network(lab.widths[-1])
    start = lab.run(network.width, 0).initial
    drawn = {name: w * np.sqrt(network.width / 2) for name, w in start.items() if name != "v"}
    parts = []
    for name, entries in drawn.items():
        flat = entries.ravel()
        moments = np.stack([flat, flat**2, flat**3, flat**4], axis=1)
        parts.append(law(f"moments 1 to 4 of the entries of {name}·√(m/2)", moments, [0.0, 1.0, 0.0, 3.0]))
        neighbours = np.stack([(entries[:-1] * entries[1:]).ravel(), (entries**2)[1:].ravel() - 1], axis=1)
        parts.append(law(f"neighbouring entries of {name} are uncorrelated", neighbours, [0.0, 0.0]))
    return conclude(*parts)


def width_conditions(lab: Lab, width: int, radius: float | None = None, margin: float | None = None) -> list[Check]:
    r"""The paper's conditions on the width with every constant 1; those on $\tau$ and $\gamma$ where these are
    given.
    """
    d, depth, delta = lab.input_dim, lab.depth, lab.failure_prob
    found = [at_least("m >= d log(mL/δ)", width, d * np.log(width * depth / delta))]
    if radius is not None:
        wide = radius ** (-4 / 3) * d * np.log(width / (radius * delta))
        found.append(at_least("m >= τ^(-4/3) d log(m/τδ)", width, wide))
        sparse = radius ** (-2 / 3) / np.log(width) * np.log(depth / delta)
        found.append(at_least("m >= τ^(-2/3) log(L/δ)/log m", width, sparse))
    if margin is not None:
        features = (d * np.log(1 / margin) + np.log(depth / delta)) / margin**2
        found.append(at_least("m >= γ^-2 (d log 1/γ + log L/δ)", width, features))
        found.append(at_least("m >= log(n/δ)", width, np.log(lab.n / delta)))
    return found
