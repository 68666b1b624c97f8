r"""Basins: gradient descent, and stochastic gradient descent, from all weights near a zero of the residual.

The stored weights are nearly a zero. Λ holds on the ball of radius R = t_1 around them, and every distance here is from
them. If 2Λρ < s², a zero lies within `near` = 2ρ/s (Theorem 1). A start is at most D from its nearest zero, which is at
most F from the stored weights. A macro-step (a step, or an epoch) from the distance δ to the nearest zero z lowers δ²
by at least g and moves by at most t within ker J(z), along the zeros. If 2δt ≤ a'g(1 − κ), a' < a, the nearest zero
moves by at most a times what δ falls; so σ_min(J) stays above s − Λ(F + aD) at all nearest zeros.
"""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING, Any

import numpy as np

from wideproof_verify.arithmetic import Balls, above, arb, ball, norm, short, spectral_norm
from wideproof_verify.bounds import Bounds
from wideproof_verify.graphs import is_number, require
from wideproof_verify.near import close
from wideproof_verify.networks import Anchor
from wideproof_verify.rows import Rows, grouped

if TYPE_CHECKING:
    from wideproof_verify.theorems import Proof

SGD = (
    "Stochastic gradient descent θ ← θ − {eta} · (sum over the batch of the gradients of ½ ‖f − y‖²), that is with the "
    "step size {batch} · {eta} for the mean over a batch of {batch}, from every start within {d} of these weights"
)


def basin(p: "Proof") -> str:
    """Theorem 4: gradient descent from every start within d, or from one stored start."""
    c, k, (anchor, _, clash) = p.c, p.k, place(p)
    require(len({"t", "normal"} & set(c.claims)) == (2 if c.begun else 0), "t and normal go with a stored start")
    far, first = reach(p, anchor, c.begun) if c.begun else (k.d + k.near, 2 * k.d + k.near)
    contract(p, far, first, 2 - k.eta * k.b * k.b, arb(1), p.rises[0], arb(1))
    begun = (
        "the stored start" if c.begun else f"every start within {short(c.claims['d'], ROUND_FLOOR)} of these weights"
    )
    goal = "the least loss that any function of the inputs has" if clash else "zero loss"
    return (
        f"Gradient descent with step size {c.claims['eta']} from {begun} converges to {goal}: {ends(p, 'step', clash)}"
    )


def epochs(p: "Proof") -> str:
    """Theorem 5: every epoch uses every example once, in batches of a partition, or of any, in any order at all."""
    c, k, (anchor, g, _) = p.c, p.k, place(p)
    parts, fixed = partition(p), "partition" in c.claims
    far, first, radius = k.d + k.near, 2 * k.d + k.near, p.radii[0]
    rises, sides = p.bounds.parts(radius, parts), blocks(g, anchor, parts)
    sizes = np.array([side.sqrt() for side in np.diag(sides)])
    least = np.array([rise.min(p.rises[0]) for rise in rises])
    p.need("bend", k.bend, "≥", "(Σ Λ_j²)^½", norm(least))
    crossed = radius * (least[:, None] * sizes + sizes[:, None] * least) + radius * radius * np.outer(least, least)
    across = sides + crossed
    np.fill_diagonal(across, arb(0))
    p.need("order", k.order, "≥", "1 + eta (½ Σ T_ij²)^½", 1 + k.eta * norm(across) / arb(2).sqrt())
    if fixed:
        for j, (size, rise) in enumerate(zip(sizes, least, strict=True), 1):
            p.need("beta", k.beta, "≥", f"sup ‖J_{j}‖²", (size + radius * rise) ** 2)
    else:
        p.need("beta", k.beta, "≥", "sup ‖J_B‖²", (crowd(p, sides) + radius * crowded(p, rises)) ** 2)
    c2 = 2 - k.eta * k.beta
    p.need("2 − eta beta", c2, ">", "0", 0)
    x = k.eta * (k.bend * far) ** 2 / (4 * c2)  # 1 + ω = 2 / (1 + √(1 − 4x)) solves ω = x (1 + ω)²
    p.need("eta (bend D)² / (4 (2 − eta beta))", x, "<", "1/4", 0.25)
    contract(p, far, first, c2, k.order, k.bend, 2 / (1 + (1 - 4 * x).sqrt()))
    how = "the stored batches" if fixed else f"batches of {most(p)}, chosen in any way"
    return (
        f"{started(p)} converges to zero loss, whatever the order of the batches, if every epoch uses every example "
        f"once, in {how}: {ends(p, 'epoch', False)}"
    )


def sampling(p: "Proof") -> str:
    """Theorem 6: every batch is drawn at random without replacement, independently of the past."""
    c, k, (anchor, g, _) = p.c, p.k, place(p)
    far, first, radius, rise = k.d + k.near, 2 * k.d + k.near, p.radii[0], p.rises[0]
    c2, share = batched(p, anchor, g), arb(c.claims["batch"]) / p.n
    p.positive("mu", "u", "rate", "late", "epsilon")
    p.need("within", k.within, ">", "d + near", far)
    swell = k.within * (1 + k.eta * (k.bend * k.within) ** 2 / (4 * c2)).sqrt()
    walk = first + k.within / k.mu  # how far nearest zeros get
    low = k.s - rise * walk
    p.need("Λ d̂", rise * swell, "<", "s − Λ (F + within/mu)", low)
    p.need("R", radius, "≥", "F + within/mu + d̂", walk + swell)
    drift = k.mu * 2 * k.bend / (1 - rise * swell / low)
    sigma = low - rise * k.within / 2
    gain = c2 * sigma - rise * k.within - 2 * drift * k.within / share.sqrt()
    p.need("σ", sigma, ">", "0", 0)
    p.need("γ", gain, ">", "0", 0)
    mean, top = k.eta * share * sigma * gain / 2, k.eta * (k.within * (k.bend / 2 + drift)) ** 2 / (2 * c2)
    p.need("m (1 − e^−u)", -mean * (-k.u).expm1(), "≥", "e^(uν) − 1", (k.u * top).expm1())
    p.need("failure", k.failure, "≥", "exp(−u (1 − D/within))", (-k.u * (1 - far / k.within)).exp())
    p.need("rate", k.rate, "≤", "eta p σ (c σ − Λ within)", k.eta * share * sigma * (c2 * sigma - rise * k.within))
    p.need("rate", k.rate, "≤", "1", 1)
    late = (k.b * far) ** 2 * (1 - k.rate) ** c.claims["steps"] / (2 * k.epsilon)
    p.need("late", k.late, "≥", "b² D² (1 − rate)^steps / (2 epsilon)", late)
    chance, later, loss = (short(c.claims[name], ROUND_CEILING) for name in ("failure", "late", "epsilon"))
    end = short(c.claims["radii"][0], ROUND_CEILING)
    return (
        f"{started(p)}, each batch {c.claims['batch']} of the {len(c.x)} examples drawn at random without replacement "
        f"and independently of the others, stays within {end} of these weights for ever and "
        f"converges to zero loss, with a probability of at least 1 - {chance}; and after {c.claims['steps']} "
        f"steps the loss is at most {loss} with a probability of at least 1 - {chance} - {later}."
    )


def orders(p: "Proof") -> str:
    """Proposition 7: u = ‖θ − z‖² for one zero z grows by at most w u² in a step, so 1/u falls by at most w."""
    c, k, (anchor, g, _) = p.c, p.k, place(p)
    far, c2 = k.d + k.near, batched(p, anchor, g)
    p.need("within", k.within, ">", "d + near", far)
    p.need("R", p.radii[0], "≥", "within + near", k.within + k.near)
    w = k.eta * k.bend * k.bend / (4 * c2)
    p.need("1/within²", 1 / (k.within * k.within), "≤", "1/D² − steps w", 1 / (far * far) - c.claims["steps"] * w)
    return (
        f"{started(p)} stays within {short(c.claims['radii'][0], ROUND_CEILING)} of these weights for "
        f"{c.claims['steps']} steps, whatever batches of {most(p)} are taken, in any order and however often."
    )


def place(p: "Proof") -> tuple[Anchor, Balls, bool]:
    """The stored weights: ρ, s, S, Λ on one ball, b ≥ S + ΛR, a zero within `near`; returns JJᵀ too, and rows.clash."""
    c, k, (anchor, g, _, rows) = p.c, p.k, ground(p)
    require(c.theorem == "basin" or not rows.repeated, f"{c.theorem!r} is for inputs that are all different")
    require(not p.lean or (c.theorem == "basin" and not c.begun), "there are too many rows for this theorem")
    p.need("2 Λ rho", 2 * p.rises[0] * k.rho, "<", "s²", k.s * k.s)
    p.need("near", k.near, "≥", "2 rho / s", 2 * k.rho / k.s)
    p.need("near", k.near, "≤", "R", p.radii[0])
    p.need("b", k.b, "≥", "S + Λ R", k.S + p.rises[0] * p.radii[0])
    p.need("d", k.d, "≥", "0", 0)
    p.positive("eta")
    return anchor, g, rows.clash


def ground(p: "Proof") -> tuple[Anchor, Balls, Balls, Rows]:
    """The stored weights: ρ, S, s where it is claimed, and Λ on one ball; returns JJᵀ and the residual too."""
    c, k, rows = p.c, p.k, grouped(p.c.x, p.c.targets)
    require(len(c.claims["radii"]) == 1, "there is one radius")
    p.least(rows)
    anchor = Anchor(c.network, c.weights, c.x[rows.first], rows.counts, p.large).differentiate()
    p.lean, p.bounds = anchor.lean, Bounds(anchor, c.sharp)
    means = close(rows.means) if p.large else rows.means
    p.stairs()
    g = anchor.features() if anchor.lean else anchor.gram()
    p.spectrum(g)
    p.lipschitz()
    r = anchor.weighted(anchor.outputs - means, 1)
    p.need("rho", k.rho, "≥", "‖r‖", norm(r.ravel()))
    return anchor, g, r, rows


def reach(p: "Proof", anchor: Anchor, start: dict[str, np.ndarray]) -> tuple[arb, arb]:
    """D and F of the stored start: its nearest zero is not far from the stored weights, if θ − z̃ is nearly Jᵀw.

    With n, t the parts of x − z across and along the zeros, ‖z' − z‖(1 − Λ|n|/σ_z) ≤ 2|t| for every zero z' that is not
    farther from x than z.
    """
    c, k, rise, given = p.c, p.k, p.rises[0], p.c.claims.get("normal")
    right = isinstance(given, list) and len(given) == anchor.outputs.size and all(map(is_number, given))
    require(right, "normal is not a list with a number for each output")
    w = anchor.lift(np.array(given, np.float64).reshape(anchor.outputs.shape))
    pulled = anchor.differentiate(w).gradient(w)  # what is needed of J itself has been taken
    gaps = [anchor.lift(start[name]) - anchor.lift(c.weights[name]) for name in c.network.trained]
    rest = [gap - pulled[name] for gap, name in zip(gaps, c.network.trained, strict=True)]
    p.need("d", k.d, "≥", "‖start − weights‖", norm(np.array([ball(norm(gap)) for gap in gaps])))
    p.need("t", k.t, "≥", "‖start − weights − Jᵀ normal‖", norm(np.array([ball(norm(gap)) for gap in rest])))
    far, low = k.d + k.near, k.s - rise * k.near
    p.need("Λ (d + near)", rise * far, "<", "s − Λ near", low)
    along = k.t + k.near * (1 + rise * k.d / k.s)
    return far, k.near + 2 * along / (1 - rise * far / low)


def contract(p: "Proof", far: arb, first: arb, c: arb, order: arb, bend: arb, swell: arb) -> None:
    """The macro-step: |v| ≥ (S − Λδ/2)δ/order, g = eta |v| (c|v| − bend δ² swell), t = eta bend δ √swell |v|."""
    k, radius, rise = p.k, p.radii[0], p.rises[0]
    p.positive("a", "sigma", "rate", "epsilon")
    p.need("c", c, ">", "0", 0)
    low = k.s - rise * first
    p.need("s − Λ F", low, ">", "0", 0)
    kappa = rise * far / low
    p.need("κ = Λ D / (s − Λ F)", kappa, "<", "1", 1)
    pull = c * (1 - kappa / 2) / order - bend * far / low * swell
    p.need("w", pull, ">", "0", 0)
    p.need(
        "a",
        k.a,
        ">",
        "2 Γ D √(1 + ω) / ((s − Λ F)(1 − κ) w)",
        2 * bend * far * swell.sqrt() / (low * (1 - kappa) * pull),
    )
    p.need("sigma", k.sigma, "≤", "s − Λ (F + a D)", low - rise * k.a * far)
    p.need("R", radius, ">", "F + max(a, √(1 + ω)) D", first + k.a.max(swell.sqrt()) * far)
    square = 1 - k.eta * k.sigma * k.sigma * (1 - kappa / 2) / order * pull
    p.need("rate", k.rate, "≤", "1", 1)
    p.need("(1 − rate)²", (1 - k.rate) ** 2, "≥", "1 − eta sigma² (1 − κ/2) w / N", square)
    final = k.b * far * (1 - k.rate) ** p.c.claims["steps"]
    p.need("b D (1 − rate)^steps", final, "≤", "√(2 epsilon)", (2 * k.epsilon).sqrt())


def partition(p: "Proof") -> list[np.ndarray]:
    """The examples of each batch: the stored partition, or every example alone where batches are free."""
    given, n, size = p.c.claims.get("partition"), len(p.c.x), p.c.claims["batch"]
    require(1 <= size <= n, f"a batch of {size} examples is not one of {n}")
    if given is None:
        return [np.array([i]) for i in range(n)]
    require(len(given) == n and all(type(j) is int for j in given), "partition is not a batch for every example")
    numbers = sorted(set(given))
    require(numbers == list(range(len(numbers))), "the batches are not numbered from 0 without a gap")
    parts = [np.flatnonzero(np.array(given) == j) for j in numbers]
    require(max(map(len, parts)) == size, "batch is not the size of the largest batch")
    return parts


def blocks(g: Balls, anchor: Anchor, parts: list[np.ndarray]) -> Balls:
    """Bounds of ‖J_i J_jᵀ‖ at the stored weights, for every two batches; rows of JJᵀ are (output, example)."""
    found = np.full((len(parts), len(parts)), arb(0))
    rows = [np.add.outer(anchor.n * np.arange(len(anchor.outputs)), part).ravel() for part in parts]
    for i, own in enumerate(rows):
        for j, other in enumerate(rows[: i + 1]):
            block = g[np.ix_(own, other)]
            found[i, j] = found[j, i] = arb(norm(block) if 1 in block.shape else spectral_norm(block))
    return found


def heaviest(values: Any, count: int) -> arb:
    """Return the sum of the `count` largest."""
    return sum((arb(v) for v in np.sort(above(values).astype(np.float64))[-count:]), arb(0))


def crowd(p: "Proof", sides: Balls) -> arb:
    """Bound ‖J_B‖ at the stored weights for all batches: ‖J_B J_Bᵀ‖ is at most the largest sum of norms in a row."""
    sums = [heaviest(row, p.c.claims["batch"]) for row in sides]
    return max(sums, key=above).sqrt().min(p.k.S)


def crowded(p: "Proof", rises: Balls) -> arb:
    """Bound Λ_B for all batches: Λ_B² is at most the sum of the Λ_i², and Λ_B at most Λ."""
    return heaviest(np.array([rise * rise for rise in rises]), p.c.claims["batch"]).sqrt().min(p.rises[0])


def batched(p: "Proof", anchor: Anchor, g: Balls) -> arb:
    """Check beta ≥ sup ‖J_B‖² and bend ≥ Λ_B for all batches of at most `batch` examples; returns 2 − eta beta."""
    k, parts = p.k, partition(p)
    rise = crowded(p, p.bounds.parts(p.radii[0], parts))
    p.need("bend", k.bend, "≥", "Λ_B", rise)
    p.need("beta", k.beta, "≥", "sup ‖J_B‖²", (crowd(p, blocks(g, anchor, parts)) + p.radii[0] * rise) ** 2)
    p.need("2 − eta beta", 2 - k.eta * k.beta, ">", "0", 0)
    return 2 - k.eta * k.beta


def started(p: "Proof") -> str:
    """The method and its starts, in words."""
    claims = p.c.claims
    return SGD.format(eta=claims["eta"], batch=claims["batch"], d=short(claims["d"], ROUND_FLOOR))


def most(p: "Proof") -> str:
    """How many examples a batch may have, in words."""
    size = p.c.claims["batch"]
    return f"at most {size} examples" if size > 1 else "one example"


def ends(p: "Proof", unit: str, clash: bool) -> str:
    """What is left of the distance and of the loss, in words."""
    claims = p.c.claims
    radius, rate = short(claims["radii"][0], ROUND_CEILING), short(claims["rate"], ROUND_FLOOR)
    above_that = " more than that least loss" if clash else ""
    return (
        f"each {unit} multiplies the distance to the nearest global minimum by at most 1 - {rate}, the weights stay "
        f"within {radius} of the stored ones, and after {claims['steps']} {unit}s the loss is at most "
        f"{short(claims['epsilon'], ROUND_CEILING)}{above_that}."
    )


THEOREMS: dict[str, Callable[[Any], str]] = {"basin": basin, "epochs": epochs, "sampling": sampling, "orders": orders}
