"""Gradient descent to a global minimum (Theorem 1), and that one exists nearby (Theorem 2)."""

from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import balls, larger, norm, product, short, smaller
from wideproof_verify.certificate import Proof, theorem
from wideproof_verify.eigenvalues import Symmetric
from wideproof_verify.functions import ACTIVATIONS
from wideproof_verify.maps import Map
from wideproof_verify.passes import Anchor
from wideproof_verify.refusals import NotJudgedError, is_number, require
from wideproof_verify.theorems.starts import counted, origin

NEWTON, REPEATED = "D newton_h newton_radius", "distinct least_loss least_loss_at_most"


@theorem(
    "s radii lipschitz rho S sigma b eta rate h epsilon steps",
    f"{NEWTON} {REPEATED} nested kappa constant_sum jump", start=True,
)  # fmt: skip
def descent(p: Proof) -> str:
    """Theorem 1: the residual falls by a factor at every step, and the weights stay in a ball."""
    c, k, jump = p.c, p.k, getattr(p.k, "jump", arb(0))
    p.look(lambda anchor: _jump(p, anchor) if "jump" in c.claims else None)
    p.stairs()
    p.spectrum()
    if "nested" in c.claims:
        _nested(p)
    if not {"nested", "jump"} & set(c.claims) or "D" in c.claims:  # Newton's method leaves the nested sets
        p.lipschitz()
    (s, pull), end = _pull(p), p.m[-1] + jump / 2  # the slopes ½ are D/2 from any others
    swept = p.integral[-1] + 3 * jump / 2 * p.radii[-1]  # and J moves by D at most on a step
    p.need("rho", k.rho, "≥", "‖r‖", p.ops.norm(p.r))
    p.need("M_J", end, "≤", s, pull)
    off = p.off  # |r| ≤ rho + b off for every start within off
    rho, far = k.rho + (k.b + k.s) * off, "rho" if c.start is None else "(rho + (b + s) distance)"
    p.need(f"{far} − {s} t_J + ∫M", rho - pull * p.radii[-1] + swept, "<", "0", 0)
    p.need("h", k.h, "≥", f"Λ_J {far} / {s}²", p.rises[-1] * rho / (pull * pull))
    p.need("distance", off, "<", "t_J", p.radii[-1])
    if len(p.radii) == 1:
        p.need("h", k.h, "<", "1/2", 0.5)
    p.positive("sigma", "eta", "rate", "epsilon")
    p.need("sigma", k.sigma, "≤", "s − M_J", k.s - end)
    p.need("b", k.b, "≥", "S + M_J", k.S + end)
    p.need("rate", k.rate, "≤", "1", 1)
    p.need("rate", k.rate, "≤", f"eta sigma ({s} − M_J)", k.eta * k.sigma * (pull - end - jump))
    final = (1 - k.rate) ** c.claims["steps"] * (k.rho + k.b * off)
    p.need("(1 − rate)^steps rho", final, "≤", "√(2 epsilon)", (2 * k.epsilon).sqrt())
    goal, above, means = "zero loss", "", ""
    if p.rows.clash:
        goal = f"a global minimum, the least loss that any function of the inputs has, {_least(p)}"
        above, means = " more than that least loss", " from the means of equal rows"
    moved = short(c.claims["radii"][-1], ROUND_CEILING)
    said = (
        f"{origin(p)} converges to {goal}: each step multiplies the residual{means} by at most 1 - "
        f"{short(c.claims['rate'], ROUND_FLOOR)}, the weights move by less than {moved}, and after "
        f"{counted(p)} the loss is at most {short(c.claims['epsilon'], ROUND_CEILING)}{above}."
    )
    return f"{said} {_newton(p)}" if "D" in c.claims else said


@theorem(f"s radii lipschitz {NEWTON}", REPEATED)
def existence(p: Proof) -> str:
    """Theorem 2: weights with the least loss exist within a distance (Newton and Kantorovich)."""
    p.look()
    p.stairs()
    p.spectrum()
    p.lipschitz()
    return _newton(p)


def _least(p: Proof) -> str:
    """The least loss, in words."""
    low = short(p.c.claims["least_loss"], ROUND_FLOOR)
    high = short(p.c.claims["least_loss_at_most"], ROUND_CEILING)
    equal = int(p.rows.counts[p.rows.counts > 1].sum())
    same = f"{equal} rows have the input of another row, and some of them another target"
    return f"between {low} and {high} ({same})"


def _pull(p: Proof) -> tuple[str, Any]:
    """What the step size leaves of s: all of it up to 1/b², (kappa s) beyond, with β = eta b² and ε = eta s²."""
    k, beta, low = p.k, p.k.eta * p.k.b * p.k.b, p.k.eta * p.k.s * p.k.s
    if "kappa" not in p.c.claims:
        p.need("eta b²", beta, "≤", "1", 1)
        return "s", k.s
    p.positive("kappa", "eta")
    p.need("eta (b² + s²)", beta + low, "<", "2", 2)
    most = beta * (2 - beta - low) / (1 - beta * low)
    p.need("kappa²", k.kappa * k.kappa, "≤", "β (2 − β − ε) / (1 − βε)", most)
    return "(kappa s)", k.kappa * k.s


def _nested(p: Proof) -> None:
    r"""One hidden layer, both trained: |a| ≤ A_j along the path, neuron by neuron; Λ_j need not hold on the ball.

    q = s₁‖X‖L1 and p = s₁‖X‖ max|x_i| L2 A_j give Λ_j ≥ p/2 + √(p²/4 + q²). T_j = T_{j-1} + Δ_j/(s − M_j) bounds
    Σ η|r_k|; a neuron's weights move by w ≤ A_j q T_j, its output weight by (s₁ max|σ(z_j)| + q w) T_j, or by t_j.
    """
    c, net, anchor, ops = p.c, p.c.network, p.anchor, p.ops
    node, (term, *others), sizes = net.nodes[0], net.nodes[0].terms, c.claims["nested"].get("A")
    plain = len(net.shape) == net.inputs == net.outputs == len(net.nodes) == 1 and net.bias is None
    plain = plain and not others and node.skip is None and type(term.phi) is Map and term.weight is not None
    require(plain and node.activation != "relu" and len(net.trained) == 2, "nested is not for this network")
    right = isinstance(sizes, list) and len(sizes) == len(p.radii) and all(map(is_number, sizes))
    require(right and len(c.claims["nested"]) == 1, "nested is not {'A': a number for each radius}")
    first, second = ACTIVATIONS[node.activation].constants()
    q = arb(node.scale) * ops.spectral_norm(anchor.weighted(anchor.values[0], 1)[:, :, 0]) * first
    far = larger.reduce(ops.norm(anchor.values[0], (0, 2)))
    start = larger.reduce(abs(balls(c.weights[net.read_out]))[0])
    hidden = anchor.weighted(anchor.values[1], 1)
    row = ops.most(hidden.reshape(len(hidden), -1), (0,), 1)
    time, before, rows = arb(0), start, zip(p.radii, p.cells, p.rises, map(arb, sizes), strict=True)
    for j, (t, cell, rise, size) in enumerate(rows, 1):
        bend = q / first * far * second * size
        p.need(f"Λ_{j}", rise, "≥", "p/2 + √(p²/4 + q²)", bend / 2 + (bend * bend / 4 + q * q).sqrt())
        p.need(f"M_{j}", p.m[j], "<", "s", p.k.s)
        p.need(f"A_{j}", size, "≥", f"A_{j - 1}", before)
        time, before = time + cell / (p.k.s - p.m[j]), size
        moved = smaller(t, p.off + (row + q * smaller(t, p.off + size * q * time)) * time)
        p.need(f"A_{j}", size, ">", "max|a| + how far it moves", start + moved)


def _jump(p: Proof, anchor: Anchor) -> None:
    r"""One hidden layer of ReLU units before a fixed read-out: how far the Jacobian can jump in the ball of radius R.

    The unit j of example i can change its sign there only if |z_ji| ≤ R|x_i|, x_i being all that trained weights
    multiply: such a pair is open. Patterns of slopes in [0, 1] that agree on the other pairs have Jacobians with

        |(J − J')ᵀv|² = Σ_j |Σ_i v_i s a_j e_ji x_i|² ≤ |v|ᵀ P |v|,   P = (BᵀB) ∘ |XᵀX|,   B_ji = s|a_j| where open,

    because |e_ji| ≤ 1 and e_ji = 0 where not open. So ‖J − J'‖ ≤ D with D² ≥ λ_max(P), and ‖J − J'‖ ≤ D/2 if J' has the
    slope ½ at all open pairs, which is set here. With several outputs columns are (output, example), B = s|a_oj|.
    Between jumps J is constant: Λ = 0.
    """
    c, net, node, ops = p.c, p.c.network, p.c.network.nodes[0], p.ops
    require(not {"D", "nested", "constant_sum"} & set(c.claims), "jump goes with no other kind of descent")
    own = [t for t in node.terms if t.weight in net.trained]
    right = len(net.nodes) == net.inputs == 1 and node.activation == "relu" and anchor.slopes[0].shape[2] == 1
    right = right and net.read_out not in net.trained and 0 < len(own) == len({t.weight for t in own})
    require(right, "jumps are for one hidden layer of ReLU units with fixed outputs")
    p.need("jump", p.k.jump, "≥", "0", 0)
    x = ops.balls(np.concatenate([anchor.gathered(t)[:, :, 0] for t in own]))
    z = ops.balls(anchor.pre[0][:, :, 0])
    open_ = ~np.asarray(abs(z) > (arb(c.claims["radii"][-1]) * norm(x, axis=0))[None]).astype(bool)
    halves, still = (ops.lift(a[:, :, None]) for a in (0.5 * open_, 1.0 * ~open_))
    anchor.slopes[0] = still * anchor.slopes[0] + halves
    size = abs(balls(c.weights[net.read_out])) * arb(node.scale)  # outputs x units
    b = (size.T[:, :, None] * balls(open_.astype(np.float64))[:, None, :]).reshape(len(open_), -1)
    inner = np.tile(abs(product(x.T, x)), (net.outputs, net.outputs))
    most = ops.spectral_norm(anchor.weighted(product(b.T, b) * inner, 0, 1))
    p.need("jump²", p.k.jump * p.k.jump, "≥", "λ_max(BᵀB ∘ |XᵀX|)", most)


def _newton(p: Proof) -> str:
    """For any v, rᵀG⁻¹r ≤ 2vᵀr − vᵀGv + |r − Gv|²/s²; then the Newton–Kantorovich conditions."""
    k, ops, r = p.k, p.ops, p.ops.balls(p.r.ravel())
    if p.anchor.lean and len(p.g) < len(r):
        raise NotJudgedError("there are too many rows for D: only a part of JJᵀ is formed")
    if isinstance(p.g, Symmetric):
        v, image, rest = p.g.solution(ops.middle(p.r).ravel())
        v, image = balls(v), balls(image) + arb(0, 1) * rest * balls(np.ones(len(v)))
    else:
        v = balls(np.zeros(len(r)))
        for _ in range(4):  # a better v makes a tighter bound, any v a true one
            left = r - product(p.g, v[:, None])[:, 0]
            v = v + balls(np.linalg.solve(ops.middle(p.g), ops.middle(left)))
        image = product(p.g, v[:, None])[:, 0]
    size, left = 2 * (v * r).sum() - (v * image).sum(), norm(r - image) / k.s
    p.need("D", k.D, "≥", "√(rᵀG⁻¹r)", (size + left * left).nonnegative_part().sqrt())
    p.need("newton_h", k.newton_h, "≥", "Λ_J D / s", p.rises[-1] * k.D / k.s)
    p.need("newton_h", k.newton_h, "<", "1/2", 0.5)
    least = 2 * k.D / (1 + (1 - 2 * k.newton_h).sqrt())
    p.need("newton_radius", k.newton_radius, "≥", "2D / (1 + √(1 − 2 newton_h))", least)
    p.need("newton_radius", k.newton_radius, "≤", "t_J", p.radii[-1])
    loss = "the least loss that any function of the inputs has" if p.rows.clash else "zero loss"
    radius = short(p.c.claims["newton_radius"], ROUND_CEILING)
    return f"Weights with {loss} exist within the distance {radius} of these weights."
