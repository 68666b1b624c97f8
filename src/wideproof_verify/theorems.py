"""The inequalities of each theorem, one by one: the claimed number against the recomputed ball."""

import math
import operator
from decimal import ROUND_CEILING, ROUND_FLOOR
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from wideproof_verify import basins, methods, starts, wide
from wideproof_verify.activations import ACTIVATIONS
from wideproof_verify.arithmetic import (
    Balls,
    above,
    arb,
    at_least,
    ball,
    balls,
    larger,
    largest,
    longest,
    middle,
    norm,
    positive_definite,
    product,
    short,
    smaller,
    spectral_norm,
)
from wideproof_verify.bounds import Bounds
from wideproof_verify.following import Tube
from wideproof_verify.graphs import is_number, require
from wideproof_verify.jumps import halve
from wideproof_verify.losses import contained
from wideproof_verify.near import Near, close
from wideproof_verify.networks import Anchor
from wideproof_verify.reading import Certificate
from wideproof_verify.rows import Rows, grouped
from wideproof_verify.wide import Wide

RELATIONS = {
    "≤": (operator.le, operator.gt), "<": (operator.lt, operator.ge),
    "≥": (operator.ge, operator.lt), ">": (operator.gt, operator.le),
}  # fmt: skip
DESCENT = (
    "{origin} converges to {goal}: each step multiplies the "
    "residual{means} by at most 1 - {rate}, the weights move by less than {end}, and after {steps} steps the loss is "
    "at most {epsilon}{above}. "
)
LEAST = (
    "a global minimum, the least loss that any function of the inputs has, between {low} and {high} "
    "({equal} rows have the input of another row, and some of them another target)"
)
LOGISTIC = (
    "{origin} lowers the mean logistic loss at every step until it is at most {epsilon}, after at most {steps} steps."
)


class NotProvedError(Exception):
    """An inequality is false; or, not `decided`, the balls are too wide to tell."""

    def __init__(self, reason: str, decided: bool):
        super().__init__(reason)
        self.decided = decided


class Proof:
    """One attempt at one precision: `checks` are rows (inequality, claimed, found); `large` is float64 with radii."""

    def __init__(self, certificate: Certificate, large: bool = False):
        self.c, self.checks, self.large = certificate, [], large
        self.k = SimpleNamespace(**{name: arb(v) for name, v in certificate.claims.items() if is_number(v)})
        self.n, self.tube = arb(len(certificate.x)), Tube({}, arb(0))

    def record(self, name: str, holds: bool | None, claimed: Balls, found: Balls) -> None:
        """Note an inequality, and stop unless it is proved; norms of large arrays are bounds, which refute nothing."""
        self.checks.append((name, float(arb(claimed)), float(arb(found))))
        if not holds:
            holds = None if self.large and "λ_min" not in name else holds
            how = "is not decided" if holds is None else "fails"
            text = f"{name} {how}: claimed {self.checks[-1][1]:.17g}, recomputed {self.checks[-1][2]:.17g}"
            raise NotProvedError(text, holds is not None)

    def need(self, left: str, claimed: Balls, relation: str, right: str, found: Balls) -> None:
        """Require `claimed relation found`."""
        true, false = RELATIONS[relation]
        holds = True if true(arb(claimed), arb(found)) else False if false(arb(claimed), arb(found)) else None
        self.record(f"{left} {relation} {right}", holds, claimed, found)

    def refuse(self, reason: str) -> NoReturn:
        """Stop where no further bits would help."""
        raise NotProvedError(reason, decided=True)

    def positive(self, *names: str) -> None:
        """Require each of these claims to be positive."""
        for name in names:
            self.need(name, getattr(self.k, name), ">", "0", 0)

    def prove(self) -> str:
        """Check everything and return what was proved about what, in words."""
        own = {"fit": Proof.fit, "logistic": Proof.logistic, "impossible": Proof.impossible}
        theorems = {**own, **basins.THEOREMS, **methods.THEOREMS, **starts.THEOREMS}
        said = theorems.get(self.c.theorem, Proof.squared)(self)
        if self.c.start is not None and self.c.theorem in basins.THEOREMS:
            said = f"{starts.entered(self)} {said}"
        return f"{said} {self.c.subject}"

    def stairs(self) -> None:
        """M_j = Σ_{i≤j} Λ_i Δ_i and its integral Σ_{i≤j} (M_{i-1} Δ_i + Λ_i Δ_i²/2), Δ_i = t_i − t_{i-1}."""
        self.radii, self.rises = [arb(t) for t in self.c.claims["radii"]], [arb(v) for v in self.c.claims["lipschitz"]]
        self.m, self.integral, self.cells, t, before = [arb(0)], [arb(0)], [], arb(0), arb(0)
        for j, (radius, rise) in enumerate(zip(self.radii, self.rises, strict=True), 1):
            self.need(f"t_{j}", radius, ">", f"t_{j - 1}", t)
            self.need(f"Λ_{j}", rise, "≥", f"Λ_{j - 1}", before)
            cell, t, before = radius - t, radius, rise
            self.cells.append(cell)
            self.integral.append(self.integral[-1] + self.m[-1] * cell + rise * cell * cell / 2)
            self.m.append(self.m[-1] + rise * cell)

    def raised(self, g: Any) -> Any:
        """Return what is checked for s: JJᵀ, with `constant_sum` added to every entry of an example's own block.

        If the rows of C add up to exactly 0 and its biases to the sum of every row of targets, the residuals of a row
        add up to 0, gradient descent keeps all that, and vectors which do not add up to 0 need not be looked at.
        """
        net, y = self.c.network, self.c.targets
        if "constant_sum" not in self.c.claims:
            return g
        level = self.c.weights[net.bias].ravel() if net.bias is not None else np.zeros(net.outputs)
        even = all(math.fsum(column) == 0 for column in self.c.weights[net.read_out].T)
        even = even and all(math.fsum([*row, *-level]) == 0 for row in y.T)
        even = even and not self.lean and not net.times and net.outputs > 1
        self.record("outputs and targets of a row have the same sum", even, 1, even)
        self.positive("constant_sum")
        if isinstance(g, Wide):
            return g.raised(net.outputs, self.c.claims["constant_sum"])
        n = len(g) // net.outputs  # rows are (output, example)
        own = np.tile(np.eye(n), (net.outputs, net.outputs)) * self.c.claims["constant_sum"]
        return g + (Near(own) if isinstance(g, Near) else balls(own))

    def spectrum(self, g: Any) -> None:
        """0 < s, s² ≤ λ_min(JJᵀ), raised where sums are constant, and S² ≥ λ_max(JJᵀ), if they are claimed."""
        self.positive(*(name for name in ("s", "S") if name in self.c.claims))
        s, S = getattr(self.k, "s", None), getattr(self.k, "S", None)
        if isinstance(g, Wide):  # both are claimed where there are many rows
            s, S = self.k.s, self.k.S
            self.record("S ≥ ‖J‖", wide.at_least(g, above(-S * S), -1), S, S)
            self.record("s ≤ √λ_min(JJᵀ)", wide.at_least(self.raised(g), above(s * s)), s, s)
            return
        up = self.raised(g)
        if isinstance(g, Near):
            low, high = above(s * s) if s is not None else 0.0, -above(-(S * S)) if S is not None else 0.0
            near = np.linalg.eigvalsh((up.mid + up.mid.T) / 2) if len(g) <= 500 else (low, high)
            if s is not None:
                self.record("s ≤ √λ_min(JJᵀ)", at_least(up, low), s, max(near[0], 0) ** 0.5)
            if S is not None and self.lean:
                self.need("S", S, "≥", "‖J‖", self.bounds.steepest(arb(largest(g))))
            elif S is not None:
                self.record("S ≥ ‖J‖", at_least(-g, -high), S, max(near[-1], 0) ** 0.5)
            return
        near, one = np.sqrt(np.maximum(np.linalg.eigvalsh(middle(up)), 0)), balls(np.eye(len(g)))
        if s is not None:
            self.record("s ≤ √λ_min(JJᵀ)", positive_definite(up - s * s * one), s, near[0])
        if S is not None:
            self.record("S ≥ ‖J‖", positive_definite(S * S * one - g), S, near[-1])

    def lipschitz(self) -> None:
        """Λ_j ≥ Λ(t_j); with ReLU, every sign is kept in the ball of radius t_J."""
        bounds = self.bounds
        if any(node.activation == "relu" for node in bounds.net.nodes):
            self.record("|z| > how far z can move in the ball of radius t_J", *bounds.sign(self.radii[-1]))
        for j, (radius, rise) in enumerate(zip(self.radii, self.rises, strict=True), 1):
            self.need(f"Λ_{j}", rise, "≥", f"Λ(t_{j})", bounds.lipschitz(radius))

    def squared(self) -> str:
        """Gradient descent (Theorem 1) and existence (Theorem 2)."""
        c, k, said, rows = self.c, self.k, "", grouped(self.c.x, self.c.targets)
        self.least(rows)
        anchor = Anchor(c.network, c.weights, c.x[rows.first], rows.counts, self.large)
        jump = self.jump(anchor)
        anchor.differentiate()
        self.lean, self.bounds = anchor.lean, Bounds(anchor, c.sharp)
        means = close(rows.means) if self.large else rows.means
        g = wide.matrix(anchor, c.claims)
        r = anchor.weighted(anchor.outputs - means, 1).ravel()
        self.stairs()
        self.spectrum(g)
        if "nested" in c.claims:
            self.nested(anchor)
        if not {"nested", "jump"} & set(c.claims) or "D" in c.claims:  # Newton's method leaves the nested sets
            self.lipschitz()
        if c.theorem == "descent":
            (s, pull), end = self.pull(), self.m[-1] + jump / 2  # the slopes ½ are D/2 from any others
            self.integral[-1] += 3 * jump / 2 * self.radii[-1]  # and J moves by D at most on a step
            self.need("rho", k.rho, "≥", "‖r‖", norm(r))
            self.need("M_J", end, "≤", s, pull)
            off = arb(0 if c.start is None else c.start.distance)  # |r| ≤ rho + b off for every start within off
            rho, far = k.rho + (k.b + k.s) * off, "rho" if c.start is None else "(rho + (b + s) distance)"
            self.need(f"{far} − {s} t_J + ∫M", rho - pull * self.radii[-1] + self.integral[-1], "<", "0", 0)
            self.need("h", k.h, "≥", f"Λ_J {far} / {s}²", self.rises[-1] * rho / (pull * pull))
            self.need("distance", off, "<", "t_J", self.radii[-1])
            if len(self.radii) == 1:
                self.need("h", k.h, "<", "1/2", 0.5)
            self.positive("sigma", "eta", "rate", "epsilon")
            self.need("sigma", k.sigma, "≤", "s − M_J", k.s - end)
            self.need("b", k.b, "≥", "S + M_J", k.S + end)
            self.need("rate", k.rate, "≤", "1", 1)
            self.need("rate", k.rate, "≤", f"eta sigma ({s} − M_J)", k.eta * k.sigma * (pull - end - jump))
            final = (1 - k.rate) ** c.claims["steps"] * (k.rho + k.b * off)
            self.need("(1 − rate)^steps rho", final, "≤", "√(2 epsilon)", (2 * k.epsilon).sqrt())
            rate, most = short(c.claims["rate"], ROUND_FLOOR), short(c.claims["epsilon"], ROUND_CEILING)
            end, goal, above = short(c.claims["radii"][-1], ROUND_CEILING), "zero loss", ""
            means = ""
            if rows.clash:
                low, high = short(c.claims["least_loss"], ROUND_FLOOR), c.claims["least_loss_at_most"]
                equal = int(rows.counts[rows.counts > 1].sum())
                goal = LEAST.format(low=low, high=short(high, ROUND_CEILING), equal=equal)
                above, means = " more than that least loss", " from the means of equal rows"
            said = DESCENT.format(
                eta=c.claims["eta"], goal=goal, rate=rate, end=end, steps=c.claims["steps"], epsilon=most, above=above,
                means=means, origin=starts.origin(self),
            )  # fmt: skip
        if "D" in c.claims:
            self.newton(self.raised(g), r)
            radius = short(c.claims["newton_radius"], ROUND_CEILING)
            least = "the least loss that any function of the inputs has" if rows.clash else "zero loss"
            said += f"Weights with {least} exist within the distance {radius}."
        return said.strip()

    def jump(self, anchor: Anchor) -> arb:
        """Return the claim D, checked with the slopes ½ at open pairs, or 0. Between jumps J is constant: Λ = 0."""
        claims, jump = self.c.claims, getattr(self.k, "jump", arb(0))
        if "jump" in claims:
            require(not {"D", "nested", "constant_sum"} & set(claims), "jump goes with no other kind of descent")
            self.need("jump", jump, "≥", "0", 0)
            self.need("jump²", jump * jump, "≥", "λ_max(BᵀB ∘ |XᵀX|)", halve(anchor, arb(claims["radii"][-1])))
        return jump

    def least(self, rows: Rows) -> None:
        """Repeated inputs are claimed as such: their number, and bounds of the least loss of any function."""
        named = {"distinct", "least_loss", "least_loss_at_most"} & set(self.c.claims)
        require(len(named) == (3 if rows.repeated else 0), "distinct and least_loss are claimed where rows repeat only")
        if rows.repeated:
            count, k = len(rows.first), self.k
            self.record("distinct = number of different inputs", self.c.claims["distinct"] == count, k.distinct, count)
            self.need("least_loss", k.least_loss, "≥", "0", 0)
            self.need("least_loss", k.least_loss, "≤", "½ Σ |y_i − mean|²", rows.least)
            self.need("least_loss_at_most", k.least_loss_at_most, "≥", "½ Σ |y_i − mean|²", rows.least)

    def pull(self) -> tuple[str, Balls]:
        """What the step size leaves of s: all of it up to 1/b², (kappa s) beyond, with β = eta b² and ε = eta s²."""
        k, beta, low = self.k, self.k.eta * self.k.b * self.k.b, self.k.eta * self.k.s * self.k.s
        if "kappa" not in self.c.claims:
            self.need("eta b²", beta, "≤", "1", 1)
            return "s", k.s
        self.positive("kappa", "eta")
        self.need("eta (b² + s²)", beta + low, "<", "2", 2)
        most = beta * (2 - beta - low) / (1 - beta * low)
        self.need("kappa²", k.kappa * k.kappa, "≤", "β (2 − β − ε) / (1 − βε)", most)
        return "(kappa s)", k.kappa * k.s

    def nested(self, anchor: Anchor) -> None:
        r"""One hidden layer, both trained: |a| ≤ A_j along the path, neuron by neuron; Λ_j need not hold on the ball.

        q = s₁‖X‖L1 and p = s₁‖X‖ max|x_i| L2 A_j give Λ_j ≥ p/2 + √(p²/4 + q²). T_j = T_{j-1} + Δ_j/(s − M_j) bounds
        Σ η|r_k|; a neuron's weights move by w ≤ A_j q T_j, its output weight by (s₁ max|σ(z_j)| + q w) T_j, or by t_j.
        """
        c, net, sizes = self.c, self.c.network, self.c.claims["nested"].get("A")
        node, plain = net.nodes[0], len(net.shape) == net.inputs == net.outputs == len(net.nodes) == 1
        plain = plain and len(node.terms) == 1 and node.skip is None and node.terms[0].phi.kind == "identity"
        right = plain and net.bias is None and node.activation != "relu" and len(net.trained) == 2
        require(right and node.terms[0].weight is not None, "nested is not for this network")
        right = isinstance(sizes, list) and len(sizes) == len(self.radii) and all(map(is_number, sizes))
        require(right and len(c.claims["nested"]) == 1, "nested is not {'A': a number for each radius}")
        first, second = ACTIVATIONS[node.activation][1]()
        q = arb(node.scale) * spectral_norm(anchor.weighted(anchor.values[0], 1)[:, :, 0]) * first
        far = larger.reduce(norm(anchor.values[0], axis=(0, 2)))
        start = larger.reduce(abs(balls(c.weights[net.read_out]))[0])
        row = longest(anchor.weighted(anchor.values[1], 1).reshape(len(anchor.values[1]), -1), 1, (0,))
        off = arb(0 if c.start is None else c.start.distance)
        time, before, rows = arb(0), start, zip(self.radii, self.cells, self.rises, map(arb, sizes), strict=True)
        for j, (t, cell, rise, size) in enumerate(rows, 1):
            p = q / first * far * second * size
            self.need(f"Λ_{j}", rise, "≥", "p/2 + √(p²/4 + q²)", p / 2 + (p * p / 4 + q * q).sqrt())
            self.need(f"M_{j}", self.m[j], "<", "s", self.k.s)
            self.need(f"A_{j}", size, "≥", f"A_{j - 1}", before)
            time, before = time + cell / (self.k.s - self.m[j]), size
            moved = smaller(t, off + (row + q * smaller(t, off + size * q * time)) * time)
            self.need(f"A_{j}", size, ">", "max|a| + how far it moves", start + moved)

    def newton(self, g: Balls, r: Balls) -> None:
        """For any v, rᵀG⁻¹r ≤ 2vᵀr − vᵀGv + |r − Gv|²/s²; then the Newton–Kantorovich conditions."""
        lift, centre = (Near, lambda a: a.mid) if self.large else (balls, middle)
        k, w, v = self.k, r[:, None], lift(np.zeros((len(r), 1)))
        for _ in range(1 if self.large else 4):  # a better v makes a tighter bound, any v a true one
            v = v + lift(np.linalg.solve(centre(g), centre(w - product(g, v))))
            v = lift(centre(v)) if self.large else v
        image = product(g, v)
        size = 2 * ball((v * w).sum(axis=(0, 1))) - ball((v * image).sum(axis=(0, 1)))
        rest = ball(norm(w - image, axis=(0, 1))) / k.s
        self.need("D", k.D, "≥", "√(rᵀG⁻¹r)", (size + rest * rest).nonnegative_part().sqrt())
        self.need("newton_h", k.newton_h, "≥", "Λ_J D / s", self.rises[-1] * k.D / k.s)
        self.need("newton_h", k.newton_h, "<", "1/2", 0.5)
        least = 2 * k.D / (1 + (1 - 2 * k.newton_h).sqrt())
        self.need("newton_radius", k.newton_radius, "≥", "2D / (1 + √(1 − 2 newton_h))", least)
        self.need("newton_radius", k.newton_radius, "≤", "t_J", self.radii[-1])

    def margins(self, f: Balls) -> Balls:
        """y_i f_i, or with several outputs the own one minus the best other one."""
        y = self.c.targets
        right = (np.abs(y) == 1).all() and (len(y) == 1 or ((y == 1).sum(axis=0) == 1).all())
        require(right and self.c.network.inputs == 1, "the targets are not labels 1 and -1, one 1 for each example")
        if len(y) == 1:
            return (balls(y) * f)[0]
        own = enumerate(y.argmax(axis=0))
        return np.array([f[j, i] - larger.reduce(np.delete(f[:, i], j)) for i, j in own], dtype=object)

    def loss(self, margins: Balls) -> None:
        """The mean logistic loss."""
        mean = sum((-m).exp().log1p() for m in margins) / self.n
        self.need("loss", self.k.loss, "≥", "mean log(1 + exp(−y f))", mean)

    def fit(self) -> str:
        """Loss and margin at the stored weights."""
        c, single = self.c, len(self.c.targets) == 1
        margins = self.margins(Anchor(c.network, c.weights, c.x).outputs)
        require(c.claims.get("loss_name") == ("logistic" if single else None), "loss_name does not fit the outputs")
        require(("loss" in c.claims) == single, "a loss is claimed for one output, and for one only")
        self.need("margin", self.k.margin, "≤", "least margin", smaller.reduce(margins))
        if single:
            self.loss(margins)
        said = "The training error is zero. " if c.claims["margin"] > 0 else ""
        said += f"Every margin is at least {short(c.claims['margin'], ROUND_FLOOR)}."
        return said + (f" The logistic loss is at most {short(c.claims['loss'], ROUND_CEILING)}." if single else "")

    def logistic(self) -> str:
        """Theorem 3, Θ(t) = st − ∫M and ψ(L) = max{(1 − 1/e) min(1, √n L), (1 − e^{−nL})/√n, 1 − e^{−L}}.

        Starts within `distance` have a loss of at most L = loss + b distance/√n, and the path is counted from there.
        Every |ℓ'| is at most q = 1 − e^{−nL}, all together at most P = (n q (1 − e^{−L}))^½, and ℓ'' ≤ q (1 − q) ≤ ¼.
        """
        c, k, n = self.c, self.k, self.n
        anchor = Anchor(c.network, c.weights, c.x, large=self.large).differentiate()
        require(len(c.targets) == 1 and c.claims["R1"] in c.claims["radii"][:-1], "R1 is not a radius before the last")
        require(c.start is not None or "margin" not in c.claims, "a margin is claimed from a start only")
        at, margins = c.claims["radii"].index(c.claims["R1"]) + 1, self.margins(contained(anchor.outputs))
        self.lean, self.bounds = anchor.lean, Bounds(anchor, c.sharp)
        self.stairs()
        self.spectrum(wide.matrix(anchor, c.claims))
        self.lipschitz()
        self.loss(margins)
        self.positive("epsilon", "c", "eta")
        self.need("epsilon", k.epsilon, "<", "loss", k.loss)
        self.need("c", k.c, "<", "1", 1)
        b, sigma, off = k.S + self.m[-1], k.s - self.m[at], arb(0 if c.start is None else c.start.distance)
        most = k.loss + b * off / n.sqrt()
        ratio, left, first, second = (most / k.epsilon).root(4096), k.epsilon, arb(0), arb(0)
        for _ in range(4096):
            psi = (1 - arb(-1).exp()) * (n.sqrt() * left).min(arb(1))
            psi = psi.max(-(-n * left).expm1() / n.sqrt()).max(-(-left).expm1())
            first, second = first + left * (ratio - 1) / psi, second + left * (ratio - 1) / (psi * psi)
            left = left * ratio
        self.need("I1", k.I1, "≥", "∫dL/ψ", first)
        self.need("I2", k.I2, "≥", "∫dL/ψ²", second)
        q = -(-n * most).expm1()
        slope, q, far = (-n * q * (-most).expm1()).sqrt(), q.min(arb(0.5)), "R1" if off == 0 else "(R1 − distance)"
        beta = (q * (1 - q) * b * b + self.rises[-1] * slope) / n
        self.need("M_J", self.m[-1], "≤", "s", k.s)
        self.need("s − M(R1)", sigma, ">", "0", 0)
        self.need("n I1 / c", n * k.I1 / k.c, "≤", f"s {far} − ∫M", k.s * (k.R1 - off) - self.integral[at])
        self.need("t_J", self.radii[-1], "≥", "R1 + eta b P/n", k.R1 + k.eta * b * slope / n)
        self.need("eta", k.eta, "≤", "2(1 − c)/β", 2 * (1 - k.c) / beta)
        self.need("steps", k.steps, "≥", "n² I2 / (c eta σ²)", n * n * k.I2 / (k.c * k.eta * sigma * sigma))
        epsilon, origin = short(c.claims["epsilon"], ROUND_CEILING), starts.origin(self, most)
        more = "" if c.start is None else " more"
        return LOGISTIC.format(origin=origin, epsilon=epsilon, steps=f"{c.claims['steps']}{more}")

    def impossible(self) -> str:
        """Equal inputs with different targets: no weights fit both."""
        c, least, groups = self.c, arb(0), self.c.claims["groups"]
        require(all(isinstance(group, list) for group in groups), "groups are not lists")
        members = [i for group in groups for i in group]
        right = all(type(i) is int and 0 <= i < len(c.x) for i in members) and len(set(members)) == len(members)
        require(right and min(map(len, groups), default=0) > 1, "groups are not disjoint lists of two or more examples")
        require(c.network.inputs == 1, "the theorem 'impossible' is not about sequences")
        for group in groups:
            same = bool((c.x[group] == c.x[group[0]]).all())
            self.record("inputs of a group are equal", same, 1, same)
            y = balls(c.targets[:, group])
            apart = y - y.sum(axis=1, keepdims=True) / len(group)
            least += (apart * apart).sum() / 2
        self.positive("least_loss")
        self.need("least_loss", self.k.least_loss, "≤", "½ Σ |y_i − mean|²", least)
        least = short(c.claims["least_loss"], ROUND_FLOOR)
        return f"Equal inputs have different targets: the loss is never below {least}."
