"""Few small values and short sparse images: the counts and sparse forms behind the semi-smoothness."""

from __future__ import annotations

import numpy as np
from scipy.special import erf

from wideproof.monitors import flips, small_values, sparse_form, top_norms
from wideproof.monitors.residual import Pass, interlayer
from wideproof.papers.check import Check, at_most, conclude, law, scales
from wideproof.papers.frei2019.hypotheses import width_conditions
from wideproof.papers.frei2019.initialization import circle
from wideproof.papers.frei2019.lab import Lab
from wideproof.papers.statement import Section, misprint, tool
from wideproof.papers.study import kept

statement = Section("initialization", "resnet_relu")

DENSITY = float(1 / np.sqrt(np.pi))
"""Units with |w·x| <= β number m erf(β √m / (2 ‖x‖)) in the mean: m^(3/2) β/(√π ‖x‖) for small β."""

UNION = "C = 3: a union over units, inputs and layers gives √(2 log(2mnL/δ)/log m) = 2.4 at m = 64"


@statement("At most C m^(3/2) β units of a layer have a value below β, for all inputs", "scale")
@misprint("the set lacks its argument x, the condition a log L")
def lemma_c_2(lab: Lab) -> Check:
    r"""At most $C m^{3/2}\beta$ units have $|w_{l,j}^\top x_{l-1}| \le \beta$, for every input and layer."""
    net, wide = circle(lab, 12), lab.pick(2**13, 2**14, 2**16)
    betas = np.array([0.05, 0.1, 0.2, 0.4]) / np.sqrt(wide)
    by_beta, by_width, means = [], [], []
    for draw in lab.draws:
        seen = lab.in_law(wide, draw, net)
        counts = np.stack([small_values(seen.u(layer), betas) for layer in seen.steps])
        by_beta.append(counts.max(axis=(0, 1)))
        means.append(counts[0, 0] / (wide**1.5 * betas * DENSITY))
        narrow = [lab.in_law(m, draw, net) for m in lab.law_widths]
        by_width.append([max(small_values(s.u(k), 0.5 / np.sqrt(len(s.signs))).max() for k in s.steps) for s in narrow])
    return conclude(
        scales("largest count", "β", betas, by_beta, 1.0, sense="at least"),
        scales("largest count at β = 0.5/√m", "m", lab.law_widths, by_width, 1.0),
        law("count over m^(3/2) β/√π", means, erf(betas * np.sqrt(wide) / 2) / (betas * np.sqrt(wide) * DENSITY)),
        at_most("largest count <= m^(3/2) β", by_beta, wide**1.5 * betas),
        hypotheses=width_conditions(lab, wide),
        assumptions=["C = 1", "all inputs: a net of a great circle", "m^(3/2) β is m/2 at β = 0.5/√m"],
    )


@tool("At most C m^(3/2) β units have a value below β on a finite set of vectors", "scale")
@misprint("called a lemma where it is used")
def claim_d_1(lab: Lab) -> Check:
    r"""The same for a finite set of vectors of norm at least $\xi$: at most $C m^{3/2}\beta$ units below $\beta$."""
    rng = lab.rng("claim D.1")
    vectors = rng.standard_normal((16, 8))
    vectors *= rng.uniform(0.5, 1, (16, 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    widths, wide = np.array(lab.law_widths), lab.pick(2**14, 2**15, 2**17)
    betas = np.array([0.05, 0.1, 0.2, 0.4]) / np.sqrt(wide)

    def counts(m: int, beta: np.ndarray, label: int) -> np.ndarray:
        weights = np.sqrt(2 / m) * lab.rng("units", m, label).standard_normal((8, m))
        return small_values(vectors @ weights, beta).max(axis=0)

    by_beta = [counts(wide, betas, draw) for draw in lab.draws]
    by_width = [[counts(m, np.array([0.3 * m**-0.5]), draw)[0] for m in widths] for draw in lab.draws]
    return conclude(
        scales("largest count", "β", betas, by_beta, 1.0, sense="at least"),
        scales("largest count at β = 0.3/√m", "m", widths, by_width, 1.0),
        at_most("largest count <= 2 m^(3/2) β", by_beta, 2 * wide**1.5 * betas),
        assumptions=["16 vectors with norms in [1/2, 1], C = 2"],
    )


@kept
def _last_forms(lab: Lab, width: int, seed: int) -> np.ndarray:
    """Return W^T ξ with ξ = H_2^L of the first input, which does not depend on the last layer."""
    seen = lab.at_start(width, seed)
    return seen.weights[-1].T @ interlayer(seen, 2, seen.depth).dense()


@statement("The last weights, between vectors with s entries, have norm C √(s log m/m)", "scale")
@misprint("the variance has the wrong index; the count of the net needs s >= 22")
def lemma_c_3(lab: Lab) -> Check:
    r"""$\sup |b^\top W_{L+1}^\top \xi_l a| \le C\sqrt{s\log m/m}$ over $s$-sparse unit vectors $a, b$.

    Exact for $s = 1$ (the largest entry) and $s = m$ (the norm); in between the supremum is reached from below.
    """
    widths, draws = lab.some(lab.start_widths, stop=3), lab.draws
    sparsities = np.array([1, 4, 16, 64])
    forms = {(m, s): _last_forms(lab, m, s) for m in widths for s in lab.many}
    single = [[np.abs(forms[m, s]).max() / np.sqrt(np.log(m)) for m in widths] for s in lab.many]
    whole = [[np.linalg.norm(forms[m, s], 2) / np.sqrt(np.log(m)) for m in widths] for s in draws]
    middle = [[sparse_form(forms[m, s], 8, restarts=2).value / np.sqrt(np.log(m)) for m in widths] for s in draws]
    by_sparsity = [[sparse_form(forms[widths[-1], s], int(k), restarts=2).value for k in sparsities] for s in draws]
    return conclude(
        scales("s = 1, over √log m", "m", widths, single, -0.5),
        scales("s = 8 from below, over √log m", "m", widths, middle, -0.5),
        scales("s = m, over √log m", "m", widths, whole, 0.0),
        scales("from below", "s", sparsities, by_sparsity, 0.5),
        assumptions=["ξ = H_2^L of one input", "s = 4, 8, 16, 64: alternating truncated power steps, a lower estimate"],
    )


@statement("The signed last layer has norm C √(s log m) on vectors with s entries", "scale")
@misprint("the sum is printed with σ, which would not be linear")
def lemma_c_4(lab: Lab) -> Check:
    r"""$\sup |v^\top\Sigma_{L+1}(x) W_{L+1}^\top \xi_l a| \le C\sqrt{s\log m}$ over $s$-sparse unit vectors: exact
    by sorting.
    """
    widths = lab.start_widths
    sparsities = np.array([1, 4, 16, 64])
    tops = {(m, s): _largest(lab.at_start(m, s)) for m in widths for s in lab.draws}
    by_width = [[(tops[m, s] / _size(m)).max() for m in widths] for s in lab.draws]
    return conclude(
        scales("largest over s of sup/√(s log m)", "m", widths, by_width, 0.0),
        scales("supremum", "s", sparsities, [tops[widths[-1], s][sparsities - 1] for s in lab.draws], 0.5),
        at_most("sup <= 3√(s log m)", [(tops[key] / _size(key[0])).max() for key in tops], 3.0),
        assumptions=["ξ_l = H_l^L of the training inputs, all l", UNION],
    )


def _largest(seen: Pass) -> np.ndarray:
    """Return, for each s, the largest norm of s entries of q_1 .. q_L over examples and layers."""
    return np.max([top_norms(seen.q(layer)).max(axis=0) for layer in range(1, seen.depth + 1)], axis=0)


def _size(width: int) -> np.ndarray:
    return np.sqrt(np.arange(1, width + 1) * np.log(width))


@statement(
    "The moved output map has norm C (τ √m + √(s log m)) on vectors with s entries", "scale", role="perturbation"
)
@misprint("the proof treats moved matrices as independent of the last layer")
def lemma_b_5(lab: Lab) -> Check:
    r"""$\sup |v^\top \tilde H_l^{L+1}(x) a| \le C[\tau\sqrt m + \sqrt{s\log m}]$ over $s$-sparse unit $a$, for
    moved weights.

    $s$ is at least the number of units that flip. For given $x$ the supremum is the norm of the $s$ largest entries of
    $\tilde q_{l-1}$. The moved weights depend on the last layer: trained ones, and an attack on every layer. Both stay
    below $\sqrt{s\log m}$ without the first term.
    """
    radius = 0.1
    attacked = [
        [_forms(lab.moved(m, s, "attack", radius), lab.at_start(m, s)) for m in lab.start_widths] for s in lab.draws
    ]
    trained = [[_forms(lab.trained(m, s), lab.trained(m, s, 0)) for m in lab.widths] for s in lab.seeds]
    sparsities = np.array([s for s in (128, 192, 256, 384, 512) if s <= lab.start_widths[-1]], int)
    by_sparsity = [row[-1][0][sparsities - 1] for row in attacked]
    return conclude(
        scales("attacked weights: sup/√(s log m)", "m", lab.start_widths, _ratios(attacked), 0.0),
        scales("trained weights: sup/√(s log m)", "m", lab.widths, _ratios(trained), 0.0),
        scales("attacked weights", "s", sparsities, by_sparsity, 0.5),
        at_most("sup <= 3√(s log m)", np.concatenate([np.ravel(_ratios(attacked)), np.ravel(_ratios(trained))]), 3.0),
        hypotheses=width_conditions(lab, lab.start_widths[-1], radius),
        assumptions=["all inputs: the training inputs", "the largest over s from the number of flips up to m", UNION],
    )


def _forms(moved: Pass, start: Pass) -> tuple[np.ndarray, int]:
    """Return the supremum for every s, and the largest number of flips of a layer and an example."""
    return _largest(moved), max(int(flips(moved.mask(k), start.mask(k)).max()) for k in start.steps)


def _ratios(forms: list[list[tuple[np.ndarray, int]]]) -> list[list[float]]:
    return [[float((tops / _size(tops.size))[max(least, 1) - 1 :].max()) for tops, least in row] for row in forms]
