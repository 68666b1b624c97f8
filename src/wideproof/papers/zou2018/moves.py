r"""Weights within $\tau$ of the start and what Theorem 5.3 and Appendix B measure there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from wideproof.data import Dataset
from wideproof.monitors import flips, spectral_norm, union_of_flips
from wideproof.monitors.perturbations import adversarial, along, gaussian, scaled, toward
from wideproof.monitors.relu import (
    ReLUPass,
    gradients,
    interlayer_norm,
    last_layer_form,
    sparse_output,
    upper_ratios,
    worst_weights,
)
from wideproof.papers.check import Check, at_least, at_most, scales
from wideproof.papers.study import kept
from wideproof.papers.zou2018.lab import PHI, Lab, Params, coefficients, grouped, look, margin_loss, slopes
from wideproof.papers.zou2018.starts import product_lengths

FAMILIES = ("gaussian", "gradient", "adversarial", "training", "scaling")
RADII = np.array([0.01, 0.03, 0.1, 0.3])
LINEAR = np.array([1e-5, 1e-4, 1e-3, 1e-2])  # where the drift is linear in τ; the theorem asks for less still
DEPTHS = (1, 2, 4, 8)
MANY = 36
REGION = "τ up to 0.3, where the theorem asks for τ of order L⁻¹¹: its constants would leave nothing to measure"
SAMPLED = "five families of weights stand for all weights within τ"
WORST = "c* is the least ‖∇_{W_L} L_S‖²/(Σ ℓ'_i)² over all losses"


class Near(NamedTuple):
    """A start and weights near it, with the passes on both."""

    tau: float
    start: Params
    moved: Params
    before: ReLUPass
    after: ReLUPass


def near(lab: Lab, family: str, width: int, draw: int, tau: float, depth: int = 3, data: Dataset | None = None) -> Near:
    r"""Return weights at spectral distance at most $\tau$ from a start in every layer."""
    data = lab.data() if data is None else data

    def make() -> Near:
        start = lab.start(width, depth, draw)
        before = lab.seen(width, depth, draw, data)
        after = _moved(lab, family, start, before, draw, tau, data)
        return Near(tau, start, after, before, look(after, data.x))

    return lab.keep(("near", family, width, draw, tau, depth, data.digest), make) if width <= 128 else make()


def _moved(
    lab: Lab, family: str, start: Params, before: ReLUPass, draw: int, tau: float, data: Dataset
) -> dict[str, np.ndarray]:
    if family == "gaussian":
        return gaussian(start, tau, lab.rng("gaussian", draw, before.width))
    if family == "gradient":
        found = gradients(before, coefficients(before, data, margin_loss("logistic")))
        return along(start, {f"W{i}": -g for i, g in enumerate(found, 1)}, tau)
    if family == "adversarial":
        return adversarial(start, 1, data.x[0], tau)[0]
    if family == "training":
        return toward(start, lab.walk(before.width, draw, depth=before.depth, data=data).end, tau)
    return scaled(start, tau)


def deep(lab: Lab) -> Iterator[Near]:
    """Move several starts of the deep network by 0.05, one at a time, on data close enough together for its depth."""
    width, depth = lab.deep
    return (near(lab, "gaussian", width, k, 0.05, depth, lab.data(phi=2.4 / depth)) for k in range(lab.few))


def over_radii(lab: Lab, measure: Callable[[Near], float], family: str, radii: np.ndarray, width: int) -> np.ndarray:
    r"""Measure at every $\tau$, one row per draw; more draws of the family that costs little and scatters much."""
    draws = 3 * lab.few if family == "adversarial" else lab.few
    return lab.over(radii, draws, lambda tau, k: measure(near(lab, family, width, k, tau)))


def over_widths(
    lab: Lab, measure: Callable[[Near], float], family: str = "gaussian", tau: float = 0.1, draws: int | None = None
) -> np.ndarray:
    """Measure at every width, one row per draw."""
    return lab.over(lab.widths, draws or lab.few, lambda m, k: measure(near(lab, family, m, k, tau)))


@kept
def weights_stay_bounded(lab: Lab) -> list[Check]:
    r"""Compare $\|\tilde W_l\|$ with $\|W_l\| + \tau$ and fit it in $m$."""
    cases = [near(lab, family, 128, 0, 0.3) for family in FAMILIES]
    moved = [[spectral_norm(w) for w in case.after.weights] for case in cases]
    before = [[spectral_norm(w) for w in case.before.weights] for case in cases]
    norms = over_widths(lab, lambda case: max(map(spectral_norm, case.after.weights)))
    return [
        at_most("‖W̃‖ <= ‖W‖ + τ", moved, np.array(before) + 0.3 * (1 + 1e-9)),
        scales("max over layers of ‖W̃‖", "m", lab.widths, norms, 0.0),
    ]


def drift(case: Near) -> np.ndarray:
    r"""Return $\|\tilde x_{l,i} - x_{l,i}\|$: layers by examples."""
    pairs = zip(case.after.layers[1:], case.before.layers[1:], strict=True)
    return np.array([np.linalg.norm(a - b, axis=1) for a, b in pairs])


def drift_ratio(case: Near) -> float:
    r"""Return $\max_{l,i} \|\tilde x_{l,i} - x_{l,i}\| / \sum_{r \le l} \|\tilde W_r - W_r\|$."""
    moves = np.cumsum([spectral_norm(a - b) for a, b in zip(case.after.weights, case.before.weights, strict=True)])
    return float((drift(case) / moves[:, None]).max())


@kept
def outputs_move_little(lab: Lab) -> list[Check]:
    r"""Fit the drift of layer outputs in $\tau$, $m$ and $l$."""
    by_layer = np.array([drift(case).max(axis=1) for case in deep(lab)])
    layers = 1 + np.arange(by_layer.shape[1])
    families = ("gaussian", "gradient", "adversarial")
    in_radius = {f: over_radii(lab, lambda case: float(drift(case).max()), f, LINEAR, 128) for f in families[:2]}
    in_radius["adversarial"] = over_radii(lab, lambda case: float(drift(case).max()), "adversarial", RADII[:3], 256)
    radii = {**dict.fromkeys(families, LINEAR), "adversarial": RADII[:3]}
    in_width = over_widths(lab, lambda case: float(drift(case).max()) / case.tau)
    ratios = [drift_ratio(near(lab, family, 128, 0, 0.1)) for family in FAMILIES]
    return [
        *(scales(f"drift of layer outputs, {f}", "τ", radii[f], in_radius[f], 1.0, sense="at least") for f in families),
        scales("drift / τ", "m", lab.widths, in_width, 0.0),
        scales("drift / Σ‖W̃ - W‖ after l layers", "l", layers, by_layer / (0.05 * layers), 1.0),
        at_most("drift / (L Σ‖W̃ - W‖) <= 1 in every family", np.array(ratios) / 3, 1.0),
    ]


def flipped(case: Near, layer: int = 1) -> float:
    """Return the most activations of a layer that flip on one example."""
    return float(flips(case.after.mask(layer), case.before.mask(layer)).max())


def flipped_on_average(case: Near) -> float:
    """Return how many activations flip, on average over examples and layers."""
    layers = range(1, case.before.depth + 1)
    return float(np.mean([flips(case.after.mask(layer), case.before.mask(layer)) for layer in layers]))


@kept
def few_flips(lab: Lab) -> list[Check]:
    r"""Fit flips in $\tau$ (worst family first), in $m$ and in the layer."""
    wide = lab.widths[-1]
    worst = over_radii(lab, flipped, "adversarial", RADII, wide)
    random = over_radii(lab, flipped_on_average, "gaussian", RADII, 256)
    layers = range(1, lab.deep[1] + 1)
    by_layer = [[flipped(case, layer) for layer in layers] for case in deep(lab)]
    in_width = grouped(over_widths(lab, flipped, "adversarial", draws=MANY))
    scaling = [flipped(near(lab, "scaling", 128, 0, 0.3), layer) for layer in (1, 2, 3)]
    return [
        scales("flips in layer 1, adversarial", "τ", RADII, worst, 2 / 3, sense="at least"),
        scales("flips on average, gaussian", "τ", RADII, random, 2 / 3, sense="at least"),
        scales("flips in layer 1, adversarial, τ = 0.1", "m", lab.widths, in_width, 1.0),
        scales("flips in layer l, gaussian", "l", layers, by_layer, 4 / 3),
        at_most("flips under positive scaling: none", scaling, 0.0),
    ]


def union(case: Near, n: int | None = None) -> float:
    """Return how many units of the last layer flip on some of the first `n` examples."""
    last = case.before.depth
    return float(union_of_flips(case.after.mask(last)[:n], case.before.mask(last)[:n]))


@kept
def few_flips_together(lab: Lab) -> list[Check]:
    r"""Fit the union of last-layer flips in $n$, $\tau$ and $m$."""
    sizes = np.array([4, 8, 16, 32])
    data = lab.data(32)
    cases = [near(lab, "gaussian", 256, k, 0.1, data=data) for k in range(lab.few)]
    in_n = np.array([[union(case, n) for n in sizes] for case in cases])
    in_width = grouped(over_widths(lab, union, "adversarial", 0.3, MANY))
    totals = [float(flips(case.after.mask(3), case.before.mask(3)).sum()) for case in cases]
    return [
        scales("units of the last layer that flip on some example", "n", sizes, in_n, 1.0),
        scales("the same, n = 8", "τ", RADII, over_radii(lab, union, "gaussian", RADII, 256), 2 / 3, sense="at least"),
        scales("the same, adversarial, τ = 0.3", "m", lab.widths, in_width, 1.0),
        at_most("union <= sum over examples", in_n[:, -1], totals, counts=True),
    ]


@kept
def products_stay_bounded(lab: Lab) -> Check:
    r"""Fit the norm of perturbed products between layers in their number of factors."""
    lengths = product_lengths(lab)
    norms = [[interlayer_norm(case.after, 0, 2, k + 1, closed=True) for k in lengths] for case in deep(lab)]
    return scales("‖product of k perturbed weights and masks‖", "k", lengths, norms, 1.0)


def sparsity(case: Near) -> int:
    r"""Return $s = \lceil L^{4/3} \tau^{2/3} m \rceil$, the number of flips that the theorem allows, at most $m$."""
    return min(int(np.ceil(case.before.depth ** (4 / 3) * case.tau ** (2 / 3) * case.before.width)), case.before.width)


def perturbed_form(case: Near) -> float:
    r"""Return the largest perturbed output form on $s$-sparse vectors of layer 2, over $\sqrt{\log(em/s)}$."""
    s, m = sparsity(case), case.before.width
    return float(sparse_output(case.after, 2)[:, s - 1].max()) / np.sqrt(np.log(np.e * m / s))


@kept
def forms_stay_small(lab: Lab) -> list[Check]:
    r"""Fit the perturbed output form in $\tau$ and $m$."""
    radii = np.array([0.0003, 0.001, 0.003, 0.01])
    in_width = grouped(over_widths(lab, perturbed_form, "adversarial", 0.01, MANY))
    return [
        scales("perturbed output form on s-sparse vectors / √log(em/s)", "τ", radii,
               over_radii(lab, perturbed_form, "gaussian", radii, 256), 1 / 3, sense="at least"),
        scales("the same, τ = 0.01", "m", lab.widths, in_width, 1 / 2),
    ]  # fmt: skip


LOGS = "s = L^{4/3} τ^{2/3} m; √log(em/s) is divided out, which is at most the √log M of the bound"
LEAST_SHARE = 1 / (8 * np.sqrt(32 * np.e) * 16)  # the constant that the proof gives at the start


def worst_share(seen: ReLUPass, y: np.ndarray) -> float:
    r"""Return $c^*/m_L$: the least of $\|\nabla_{W_L} L_S\|_F^2 / (m_L S^2)$ over all losses."""
    return worst_weights(last_layer_form(seen, y)).value / seen.weights[-1].shape[1]


@kept
def gradients_stay_large(lab: Lab) -> list[Check]:
    r"""Fit the least last-layer gradient over all losses in $n$, $\phi$ and $m$, at perturbed weights."""
    sizes, gaps = np.array([4, 8, 16, 32]), np.array([0.05, 0.1, 0.2, 0.4])
    data = lab.data(32)
    cases = [near(lab, "gaussian", 256, k, 0.05, data=data) for k in range(lab.few)]
    in_n = [[worst_share(case.after.only(slice(n)), data.y[:n]) for n in sizes] for case in cases]
    apart = {gap: lab.data(phi=gap) for gap in gaps}

    def share(gap: float, draw: int) -> float:
        return worst_share(near(lab, "gaussian", 256, draw, 0.02, data=apart[gap]).after, apart[gap].y)

    in_phi, y = lab.over(gaps, lab.few, share), lab.data().y
    in_width = grouped(over_widths(lab, lambda case: worst_share(case.after, y), "adversarial", 0.05, MANY))
    all_families = [worst_share(near(lab, f, 256, 0, 0.1).after, y) for f in ("gaussian", "gradient", "adversarial")]
    return [
        scales("c*/m_L", "n", sizes, in_n, -5.0, sense="at least"),
        scales("c*/m_L", "φ", gaps, in_phi, 1.0, lower=True),
        scales("c*/m_L", "m", lab.widths, in_width, 0.0, sense="at least"),
        at_least("c*/m_L >= 8.4e-4 φ/n⁵ in three families", all_families, LEAST_SHARE * PHI / 8**5),
    ]


def gradient_bounds(case: Near, y: np.ndarray) -> float:
    r"""Return the largest $n\|\nabla_{W_l} L_S\|_2/(\sqrt M S)$ over layers, for the logistic loss."""
    return float(upper_ratios(case.after, slopes(margin_loss("logistic"), y * case.after.outputs), y).max())


@kept
def gradients_stay_bounded(lab: Lab) -> list[Check]:
    r"""Fit the largest layer gradient in $m$ and in the depth, and bound minibatch gradients by per-example ones."""
    data = lab.data()
    in_width = grouped(over_widths(lab, lambda case: gradient_bounds(case, data.y), "adversarial", draws=MANY))
    cases = [[near(lab, "gaussian", 128, k, 0.05, depth) for depth in DEPTHS] for k in range(lab.few)]
    in_depth = [[gradient_bounds(case, data.y) for case in row] for row in cases]
    after = near(lab, "gaussian", 256, 0, 0.1).after
    slope = slopes(margin_loss("logistic"), data.y * after.outputs)
    batches = [lab.rng("batch", k).choice(8, 3, replace=False) for k in range(20)]
    ratios = [upper_ratios(after.only(b), slope[b], data.y[b]) for b in batches]
    pairs = zip(after.layers, after.back, strict=False)
    norms = [np.linalg.norm(x, axis=1) * np.linalg.norm(b, axis=1) for x, b in pairs]
    return [
        scales("n ‖∇_W L_S‖ / (√M S)", "m", lab.widths, in_width, 0.0),
        scales("n ‖∇_W L_S‖ / (√M S)", "L", DEPTHS, in_depth, 2.0),
        at_most("minibatches: B ‖G‖/(√M S_B) <= max_i ‖x_i‖‖b_i‖/√M", ratios, np.max(norms, axis=1) / 16),
    ]
