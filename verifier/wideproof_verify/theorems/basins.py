r"""Basins: gradient descent, and stochastic gradient descent, from all weights near a zero of the residual.

The stored weights are nearly a zero. Λ holds on the ball of radius R = t_1 around them, and every distance here is from
them. If 2Λρ < s², a zero lies within `near` = 2ρ/s (Theorem 1). A start is at most D from its nearest zero, which is at
most F from the stored weights. A macro-step (a step, or an epoch) from the distance δ to the nearest zero z lowers δ²
by at least g and moves by at most t within ker J(z), along the zeros. If 2δt ≤ a'g(1 − κ), a' < a, the nearest zero
moves by at most a times what δ falls; so σ_min(J) stays above s − Λ(F + aD) at all nearest zeros.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import above, balls, norm, short
from wideproof_verify.certificate import Proof, theorem
from wideproof_verify.eigenvalues import Symmetric
from wideproof_verify.refusals import NotJudgedError, is_number, require
from wideproof_verify.theorems.starts import counted, stochastic

NEAR = "s S rho radii lipschitz near b eta d"
REPEATED = "distinct least_loss least_loss_at_most"


@theorem(f"{NEAR} a sigma rate epsilon steps", f"t normal {REPEATED}", start=True)
def basin(p: Proof) -> str:
    """Theorem 4: gradient descent from every start within d, or from one stored start."""
    c, k = p.c, p.k
    place(p)
    require(len({"t", "normal"} & set(c.claims)) == (2 if c.begun else 0), "t and normal go with a stored start")
    far, first = reach(p, c.begun) if c.begun else (k.d + k.near, 2 * k.d + k.near)
    contract(p, far, first, 2 - k.eta * k.b * k.b, arb(1), p.rises[0], arb(1))
    begun = "the stored start" if c.begun else f"every start within {within(p)} of these weights"
    goal = "the least loss that any function of the inputs has" if p.rows.clash else "zero loss"
    return f"Gradient descent with step size {c.claims['eta']} from {begun} converges to {goal}: {ends(p, 'step')}"


@theorem(f"{NEAR} batch beta bend order a sigma rate epsilon steps", "partition", start=True)
def epochs(p: Proof) -> str:
    """Theorem 5: every epoch uses every example once, in batches of a partition, or of any, in any order at all."""
    c, k = p.c, p.k
    place(p)
    parts, fixed = partition(p), "partition" in c.claims
    far, first, radius = k.d + k.near, 2 * k.d + k.near, p.radii[0]
    rises, sides = p.bounds.parts(radius, parts), blocks(p, parts)
    sizes = balls([side.sqrt() for side in np.diag(sides)])
    least = balls([rise.min(p.rises[0]) for rise in rises])
    p.need("bend", k.bend, "≥", "(Σ Λ_j²)^½", norm(least))
    both = least[:, None] * sizes[None] + sizes[:, None] * least[None]
    across = sides + radius * both + radius * radius * (least[:, None] * least[None])
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
        f"once, in {how}: {ends(p, 'epoch')}"
    )


@theorem(f"{NEAR} batch beta bend within mu u failure rate epsilon steps late", start=True)
def sampling(p: Proof) -> str:
    """Theorem 6: every batch is drawn at random without replacement, independently of the past."""
    c, k = p.c, p.k
    place(p)
    far, first, radius, rise = k.d + k.near, 2 * k.d + k.near, p.radii[0], p.rises[0]
    c2, share = batched(p), arb(c.claims["batch"]) / p.n
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
    p.need("failure + late", k.failure + k.late, "<", "1", 1)  # or nothing would be said
    chance, later, loss = (short(c.claims[name], ROUND_CEILING) for name in ("failure", "late", "epsilon"))
    end = short(c.claims["radii"][0], ROUND_CEILING)
    return (
        f"{started(p)}, each batch {c.claims['batch']} of the {len(c.x)} examples drawn at random without replacement "
        f"and independently of the others, stays within {end} of these weights for ever and "
        f"converges to zero loss, with a probability of at least 1 - {chance}; and after {counted(p)} "
        f"the loss is at most {loss} with a probability of at least 1 - {chance} - {later}."
    )


@theorem(f"{NEAR} batch beta bend within steps")
def orders(p: Proof) -> str:
    """Proposition 7: u = ‖θ − z‖² for one zero z grows by at most w u² in a step, so 1/u falls by at most w."""
    c, k = p.c, p.k
    place(p)
    far, c2 = k.d + k.near, batched(p)
    p.need("within", k.within, ">", "d + near", far)
    p.need("R", p.radii[0], "≥", "within + near", k.within + k.near)
    w = k.eta * k.bend * k.bend / (4 * c2)
    p.need("1/within²", 1 / (k.within * k.within), "≤", "1/D² − steps w", 1 / (far * far) - c.claims["steps"] * w)
    return (
        f"{started(p)} stays within {short(c.claims['radii'][0], ROUND_CEILING)} of these weights for "
        f"{counted(p)}, whatever batches of {most(p)} are taken, in any order and however often."
    )


def ground(p: Proof) -> None:
    """The stored weights: ρ, S, s where it is claimed, and Λ on one ball."""
    require(len(p.c.claims["radii"]) == 1, "there is one radius")
    p.look()
    p.stairs()
    p.spectrum()
    p.lipschitz()
    p.need("rho", p.k.rho, "≥", "‖r‖", p.ops.norm(p.r))


def place(p: Proof) -> None:
    """The stored weights: ρ, s, S, Λ on one ball, b ≥ S + ΛR, a zero within `near`."""
    c, k = p.c, p.k
    ground(p)
    require(c.theorem == "basin" or not p.rows.repeated, f"{c.theorem!r} is for inputs that are all different")
    if p.anchor.lean and (c.theorem != "basin" or c.begun):
        raise NotJudgedError("there are too many rows for this theorem: only a part of JJᵀ is formed")
    p.need("2 Λ rho", 2 * p.rises[0] * k.rho, "<", "s²", k.s * k.s)
    p.need("near", k.near, "≥", "2 rho / s", 2 * k.rho / k.s)
    p.need("near", k.near, "≤", "R", p.radii[0])
    p.need("b", k.b, "≥", "S + Λ R", k.S + p.rises[0] * p.radii[0])
    p.need("d", k.d, "≥", "0", 0)
    p.positive("eta")


def reach(p: Proof, start: dict[str, np.ndarray]) -> tuple[arb, arb]:
    """D and F of the stored start: its nearest zero is not far from the stored weights, if θ − z̃ is nearly Jᵀw.

    With n, t the parts of x − z across and along the zeros, ‖z' − z‖(1 − Λ|n|/σ_z) ≤ 2|t| for every zero z' that is not
    farther from x than z.
    """
    c, k, ops, anchor, rise, given = p.c, p.k, p.ops, p.anchor, p.rises[0], p.c.claims.get("normal")
    right = isinstance(given, list) and len(given) == anchor.outputs.size and all(map(is_number, given))
    require(right, "normal is not a list with a number for each output")
    w = ops.lift(np.array(given, np.float64).reshape(anchor.outputs.shape))
    pulled = anchor.differentiate(w).gradient(w)  # what is needed of J itself has been taken
    gaps = {name: ops.lift(start[name]) - ops.lift(c.weights[name]) for name in c.network.trained}
    p.need("d", k.d, "≥", "‖start − weights‖", lengths(p, gaps.values()))
    rest = [gap - pulled[name] for name, gap in gaps.items()]
    p.need("t", k.t, "≥", "‖start − weights − Jᵀ normal‖", lengths(p, rest))
    far, low = k.d + k.near, k.s - rise * k.near
    p.need("Λ (d + near)", rise * far, "<", "s − Λ near", low)
    along = k.t + k.near * (1 + rise * k.d / k.s)
    return far, k.near + 2 * along / (1 - rise * far / low)


def lengths(p: Proof, arrays: Any) -> Any:
    """Return the norm of all arrays together."""
    return norm(balls([p.ops.norm(a) for a in arrays]))


def contract(p: Proof, far: arb, first: arb, c: arb, order: arb, bend: arb, swell: arb) -> None:
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
    slope = 2 * bend * far * swell.sqrt() / (low * (1 - kappa) * pull)
    p.need("a", k.a, ">", "2 Γ D √(1 + ω) / ((s − Λ F)(1 − κ) w)", slope)
    p.need("sigma", k.sigma, "≤", "s − Λ (F + a D)", low - rise * k.a * far)
    p.need("R", radius, ">", "F + max(a, √(1 + ω)) D", first + k.a.max(swell.sqrt()) * far)
    square = 1 - k.eta * k.sigma * k.sigma * (1 - kappa / 2) / order * pull
    p.need("rate", k.rate, "≤", "1", 1)
    p.need("(1 − rate)²", (1 - k.rate) ** 2, "≥", "1 − eta sigma² (1 − κ/2) w / N", square)
    final = k.b * far * (1 - k.rate) ** p.c.claims["steps"]
    p.need("b D (1 − rate)^steps", final, "≤", "√(2 epsilon)", (2 * k.epsilon).sqrt())


def partition(p: Proof) -> list[np.ndarray]:
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


def blocks(p: Proof, parts: list[np.ndarray]) -> Any:
    """Bounds of ‖J_i J_jᵀ‖ at the stored weights, for every two batches; rows of JJᵀ are (output, example)."""
    found, many = balls(np.zeros((len(parts), len(parts)))), np.arange(len(p.anchor.outputs))
    rows = [np.add.outer(p.anchor.n * many, part).ravel() for part in parts]
    g, off = (p.g.mid, arb(p.g.off)) if isinstance(p.g, Symmetric) else (p.g, arb(0))
    for i, own in enumerate(rows):
        for j, other in enumerate(rows[: i + 1]):
            block = p.ops.lift(g[np.ix_(own, other)])
            size = p.ops.norm(block) if 1 in block.shape else p.ops.spectral_norm(block)
            found[i, j] = found[j, i] = size + off
    return found


def heaviest(values: Any, count: int) -> arb:
    """Return the sum of the `count` largest."""
    return sum((arb(v) for v in np.sort(above(values).astype(np.float64))[-count:]), arb(0))


def crowd(p: Proof, sides: Any) -> arb:
    """Bound ‖J_B‖ at the stored weights for all batches: ‖J_B J_Bᵀ‖ is at most the largest sum of norms in a row."""
    sums = [heaviest(row, p.c.claims["batch"]) for row in sides]
    return max(sums, key=above).sqrt().min(p.k.S)


def crowded(p: Proof, rises: Any) -> arb:
    """Bound Λ_B for all batches: Λ_B² is at most the sum of the Λ_i², and Λ_B at most Λ."""
    return heaviest(rises * rises, p.c.claims["batch"]).sqrt().min(p.rises[0])


def batched(p: Proof) -> arb:
    """Check beta ≥ sup ‖J_B‖² and bend ≥ Λ_B for all batches of at most `batch` examples; returns 2 − eta beta."""
    k, parts = p.k, partition(p)
    rise = crowded(p, p.bounds.parts(p.radii[0], parts))
    p.need("bend", k.bend, "≥", "Λ_B", rise)
    p.need("beta", k.beta, "≥", "sup ‖J_B‖²", (crowd(p, blocks(p, parts)) + p.radii[0] * rise) ** 2)
    p.need("2 − eta beta", 2 - k.eta * k.beta, ">", "0", 0)
    return 2 - k.eta * k.beta


def within(p: Proof) -> str:
    """How far starts may be, in words."""
    return short(p.c.claims["d"], ROUND_FLOOR)


def started(p: Proof) -> str:
    """The method and its starts, in words."""
    return f"{stochastic(p, p.c.claims['eta'])}, from every start within {within(p)} of these weights"


def most(p: Proof) -> str:
    """How many examples a batch may have, in words."""
    size = p.c.claims["batch"]
    return f"at most {size} examples" if size > 1 else "one example"


def ends(p: Proof, unit: str) -> str:
    """What is left of the distance and of the loss, in words."""
    claims = p.c.claims
    radius, rate = short(claims["radii"][0], ROUND_CEILING), short(claims["rate"], ROUND_FLOOR)
    extra, ball = " more than that least loss" if p.rows.clash else "", claims["radii"][0]  # zeros beyond may be nearer
    return (
        f"each {unit} multiplies the distance to the nearest of the global minima that lie within {ball} of these "
        f"weights by at most 1 - {rate}, the weights stay "
        f"within {radius} of these weights, and after {counted(p, unit)} the loss is at most "
        f"{short(claims['epsilon'], ROUND_CEILING)}{extra}."
    )
