r"""Gradient descent run end to end: the theorems, the induction hypothesis, movement of weights, change of outputs."""

from __future__ import annotations

import numpy as np

from wideproof.monitors import distances
from wideproof.monitors.smooth import step_bound, total_bound
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, often, sides
from wideproof.papers.du2019 import printed
from wideproof.papers.du2019.hypotheses import data_hypotheses, width_hypothesis
from wideproof.papers.du2019.joint import SPEED
from wideproof.papers.du2019.lab import KINDS, Kind, Lab, Rule
from wideproof.papers.du2019.records import Descent
from wideproof.papers.statement import Section, misprint

statement = Section("convergence", "fc_smooth")

RULES: tuple[Rule, ...] = ("theorem", "practical")


@statement("Fully connected: the loss falls below (1 - ηλ0/2)^k of the first at every step", "bound")
def theorem_5_1(lab: Lab) -> Check:
    r"""Gradient descent on a wide fully connected network reaches zero loss at a linear rate.

    $$ L(\theta(k)) \le \Big(1 - \frac{\eta\lambda_0}{2}\Big)^k L(\theta(0)) \quad \text{for all } k, $$

    with probability $1 - \delta$, for $m = \Omega\big(2^{O(H)} \max\{n^4/\lambda_0^4, n/\delta,
    n^2\log(Hn/\delta)/\lambda_0^2\}\big)$ and $\eta = O(\lambda_0/(n^2 2^{O(H)}))$.
    """
    return _theorem(lab, "fully-connected")


@statement("Residual: the loss falls below (1 - ηλ0/2)^k of the first at every step", "bound", network="resnet_smooth")
@misprint(
    "the movement bound behind it lacks a factor H for W^(1) and a; the number of steps that Section 2 quotes lacks H²"
)
def theorem_6_1(lab: Lab) -> Check:
    r"""Gradient descent on a wide residual network reaches zero loss at a linear rate, the width polynomial in depth.

    $L(\theta(k)) \le (1 - \eta\lambda_0/2)^k L(\theta(0))$ for $\eta = O(\lambda_0 H^2/n^2)$ and
    $m = \Omega\big(\max\{\frac{n^4}{\lambda_0^4H^6}, \frac{n^2}{\lambda_0^2H^2}, \frac n\delta,
    \frac{n^2\log(Hn/\delta)}{\lambda_0^2}\}\big)$.
    """
    return _theorem(lab, "residual", *_at_every_depth(lab, "residual"))


@statement(
    "Convolutional: the loss falls below (1 - ηλ0/2)^k of the first at every step", "bound", network="conv_resnet"
)
@misprint("the movement bound behind it lacks a factor H for W^(1) and a")
def theorem_7_1(lab: Lab) -> Check:
    r"""Gradient descent on a wide convolutional residual network reaches zero loss at a linear rate.

    $L(\theta(k)) \le (1 - \eta\lambda_0/2)^k L(\theta(0))$ for $\eta = O(\lambda_0 H^2/(n^2\mathrm{poly}(p)))$ and a
    width polynomial in $n$, $1/\lambda_0$, $p$ and $1/\delta$.
    """
    return _theorem(lab, "conv-residual")


@statement("The squared error is below (1 - ηλ0/2)^k of the first: what the induction carries", "bound", network="any")
@misprint("k' = 0 belongs to it, trivially")
def condition_a_1(lab: Lab) -> Check:
    r"""What the induction carries from step to step: $\|y - u(k)\|_2^2 \le (1 - \eta\lambda_0/2)^k \|y - u(0)\|_2^2$.

    At every step $k \ge 1$ of every run, at the lemmas' step size too; $k = 0$ is trivial.
    """
    parts = []
    for kind in KINDS:
        for rule in ("lemma", *RULES):
            parts.append(rate_check(lab, kind, rule, lambda d: np.sum(d.residuals**2, axis=1), "‖e(k)‖²"))
    return conclude(*parts)


@statement("The squared error after one step, expanded", "exact", network="any")
@misprint("the display after it lacks η in front of λ_min")
def eq_12(lab: Lab) -> Check:
    r"""One step, expanded exactly, and the estimate of its first-order term.

    $$ \|e(k+1)\|^2 = \|e(k)\|^2 - 2\,e(k)^\top (u(k+1) - u(k)) + \|u(k+1) - u(k)\|^2, \qquad
       e(k)^\top I_1(k) \ge \eta\,\lambda_{\min}(G^{(H)}(k))\,\|e(k)\|^2 . $$
    """
    parts = []
    for kind in KINDS:
        for descent in lab.runs(kind, "practical")[:3]:
            square = np.sum(descent.residuals**2, axis=1)
            change = np.diff(descent.outputs, axis=0)
            expanded = square[:-1] - 2 * np.sum(descent.residuals[:-1] * change, axis=1) + np.sum(change**2, axis=1)
            parts.append(identity(f"{kind}: the expansion", expanded, square[1:], tolerance=1e-12))
            parts.append(at_least(f"{kind}: first-order term", *first_order_sides(descent)))
    return conclude(*parts)


@statement("Fully connected: weights stay within R'√m of the start", "bound")
@misprint("the last lines of the proof carry one η too many")
def lemma_b_5(lab: Lab) -> Check:
    r"""While the induction holds, a fully connected network stays near its start.

    $$ \|W^{(h)}(s) - W^{(h)}(0)\|_F,\ \|a(s) - a(0)\|_2 \le R'\sqrt m, \qquad
       \|W^{(h)}(s) - W^{(h)}(s-1)\|_F \le \eta Q'(s-1), $$

    $R' = 16 c_{x,0} a_{2,0} c_x^H \sqrt n\,\|e(0)\| / (\lambda_0\sqrt m)$,
    $Q'(s) = 4 c_{x,0} a_{2,0} c_x^H \sqrt n\,\|e(s)\|$.
    """
    return _movement(lab, "fully-connected")


@statement("Residual: weights stay within R'√m of the start", "bound", network="resnet_smooth")
@misprint("c_res/H holds for W^(2)..W^(H) only; checked without it for W^(1) and a")
def lemma_c_5(lab: Lab) -> Check:
    r"""While the induction holds, a residual network stays near its start.

    $Q'(s) = 4 c_{res} c_{x,0} a_{2,0} L\, e^{2 c_{res} c_{w,0} L} \sqrt n\,\|e(s)\| / H$ for $W^{(2)}..W^{(H)}$ and
    $R'\sqrt m = 4Q'(0)/\lambda_0$. For $W^{(1)}$ and $a$ the factor $c_{res}/H$ has to go (the first has
    $\sqrt{c_\sigma}$ instead); that form is checked.
    """
    return _movement(lab, "residual")


@statement("Convolutional: weights stay within R'√m of the start", "bound", network="conv_resnet")
@misprint("c_res/H as in Lemma C.5")
def lemma_d_5(lab: Lab) -> Check:
    r"""While the induction holds, a convolutional residual network stays near its start.

    As for the residual network with $\sqrt{pq}$ more and $L\sqrt q$ in the exponent, and again without the factor
    $c_{res}/H$ for $W^{(1)}$ and $a$.
    """
    return _movement(lab, "conv-residual")


@statement("Fully connected: the outputs' squared change is at most ηλ0/8 of the squared error", "bound")
def lemma_b_7(lab: Lab) -> Check:
    r"""Fully connected: for a small step size $\|u(k+1) - u(k)\|^2 \le \tfrac18 \eta\lambda_0 \|y - u(k)\|^2$."""
    return _change(lab, "fully-connected")


@statement(
    "Residual: the outputs' squared change is at most ηλ0/8 of the squared error", "bound", network="resnet_smooth"
)
@misprint("η <= cλ0H²/n² cannot have one c for all depths; checked with η <= cλ0/n²")
def lemma_c_7(lab: Lab) -> Check:
    r"""Residual: for a small step size $\|u(k+1) - u(k)\|^2 \le \tfrac18 \eta\lambda_0 \|y - u(k)\|^2$.

    The paper allows $\eta \le c\lambda_0 H^2/n^2$ with one constant for all depths. The read-out's block does not
    shrink with $H$, so the factor $H^2$ has to go: $\eta \le c\lambda_0/n^2$ is checked.
    """
    return conclude(SPEED.check(lab), _change(lab, "residual"))


@statement(
    "Convolutional: the outputs' squared change is at most ηλ0/8 of the squared error", "bound", network="conv_resnet"
)
@misprint("the factor H² in η, as in Lemma C.7")
def lemma_d_7(lab: Lab) -> Check:
    r"""Convolutional residual: for a small step size $\|u(k+1) - u(k)\|^2 \le \tfrac18 \eta\lambda_0 \|y - u(k)\|^2$,
    in the form $\eta \le c\lambda_0/(n^2p^2)$, without the factor $H^2$ that the paper allows.
    """
    return _change(lab, "conv-residual")


def rate_check(lab: Lab, kind: Kind, rule: Rule, value, title: str) -> Check:
    r"""Compare a value along every run with $(1 - \eta\lambda_0/2)^k$ times the first."""
    full = f"{kind}, {rule} step: {title} <= (1 - ηλ0/2)^k of the first"
    return at_most(full, *sides(_against_the_rate(lab, kind, rule, value)))


def _against_the_rate(lab: Lab, kind: Kind, rule: Rule, value) -> list[tuple[np.ndarray, np.ndarray]]:
    lambda_0 = lab.lambda_0(lab.trainee(kind), lab.data(kind).x)
    paths = [(1 - descent.step_size * lambda_0 / 2, value(descent)) for descent in lab.runs(kind, rule)]
    return [(values[1:], rate ** np.arange(1, len(values)) * values[0]) for rate, values in paths]


def first_order_sides(descent: Descent, with_step: bool = True) -> tuple[np.ndarray, np.ndarray]:
    r"""Return $e^\top I_1$ and $\eta\lambda_{\min}(G^{(H)})\|e\|^2$, or the latter as printed, without $\eta$."""
    eta = descent.step_size
    left = eta * np.sum(descent.residuals * descent.first_order, axis=1)
    least = np.linalg.eigvalsh(descent.blocks)[:, 0]
    right = least * np.sum(descent.residuals**2, axis=1)
    return left, eta * right if with_step else right


def _theorem(lab: Lab, kind: Kind, *more: Check) -> Check:
    network, data = lab.trainee(kind), lab.data(kind)
    lambda_0, parts = lab.lambda_0(network, data.x), []
    for rule in RULES:
        check = rate_check(lab, kind, rule, lambda d: d.run.records["loss"], "loss")
        losses = _against_the_rate(lab, kind, rule, lambda d: d.run.records["loss"])
        good = [(loss <= bound).all() for loss, bound in losses]
        parts += [check, often(f"{rule} step: with probability 1 - δ", good, 1 - lab.delta)]
    steps = {rule: len(lab.runs(kind, rule)[0].outputs) - 1 for rule in RULES}
    return conclude(
        *parts,
        *printed.trained(lab.runs(kind, "practical")[0].run),
        *more,
        hypotheses=[
            *data_hypotheses(lab, kind),
            at_least("λ0 > 0", lambda_0, 0.0),
            width_hypothesis(lab, network, kind),
        ],
        assumptions=[
            f"{lab.draws} seeds, δ = {lab.delta:g}, width {network.width}, depth {network.depth}",
            f"η = {lab.step_size(kind, 'theorem'):.3g} (the theorem's, constant 1) for {steps['theorem']} steps",
            f"η = {lab.step_size(kind, 'practical'):.3g} (half the inverse of λ_max) for {steps['practical']} steps",
        ],
    )


def _at_every_depth(lab: Lab, kind: Kind) -> list[Check]:
    r"""Compare the loss with the rate at depths up to 32: $\eta = \lambda_0H^2/n^2$ with the constant 1 at each."""
    found, run, data = [], lab.runs(kind, "practical")[0].run, lab.data(kind)
    for depth in lab.pick((2, 8), (2, 8, 32), (2, 8, 32)):
        network = lab.trainee(kind, depth)
        lambda_0 = lab.lambda_0(network, data.x)
        eta = lambda_0 * depth**2 / data.n**2
        for run in lab.at_depth(kind, depth, eta):
            losses = np.asarray(run.records["loss"])
            rate = (1 - eta * lambda_0 / 2) ** np.arange(1, len(losses))
            found.append((np.nan_to_num(losses[1:], nan=np.inf), rate * losses[0]))
    title = "loss <= (1 - ηλ0/2)^k of the first, η = λ0H²/n² at every depth"
    return [at_most(title, *sides(found)), *printed.trained(run)]


def _movement(lab: Lab, kind: Kind) -> Check:
    data = lab.data(kind)
    network, lambda_0 = lab.trainee(kind), lab.lambda_0(lab.trainee(kind), data.x)
    one, path, ends = [], [], []
    for descent in lab.runs(kind, "practical"):
        residual = np.linalg.norm(descent.residuals, axis=1)
        step = step_bound(network, descent.constants, data.n)
        total = total_bound(step, float(residual[0]), lambda_0)
        moved = distances(descent.run.params, descent.run.initial)
        for name in network.laws():
            gradient = descent.gradients(name)
            end = moved[name].frobenius if name != "a" else np.linalg.norm(_change_of(descent, "a"))
            one.append((gradient, step[name] * residual))
            path.append((descent.step_size * np.cumsum(gradient[:-1]), total[name]))
            ends.append((end, total[name]))
    return conclude(
        at_most("one step: ‖∇L(s)‖ <= Q'(s)", *sides(one)),
        at_most("length of the path up to every step <= R'√m", *sides(path)),
        at_most("distance from the start at the end <= R'√m", *sides(ends)),
        hypotheses=[rate_check(lab, kind, "practical", lambda d: np.sum(d.residuals**2, axis=1), "‖e(k)‖²")],
        assumptions=["the path is no shorter than the distance", "constants of each start as measured"],
    )


def _change_of(descent: Descent, name: str) -> np.ndarray:
    return np.asarray(descent.run.params[name]) - np.asarray(descent.run.initial[name])


def _change(lab: Lab, kind: Kind) -> Check:
    lambda_0 = lab.lambda_0(lab.trainee(kind), lab.data(kind).x)
    left, right = [], []
    for descent in lab.runs(kind, "lemma"):
        left.append(np.sum(np.diff(descent.outputs, axis=0) ** 2, axis=1))
        right.append(descent.step_size * lambda_0 * np.sum(descent.residuals[:-1] ** 2, axis=1) / 8)
    eta = lab.step_size(kind, "lemma")
    return conclude(
        at_most("‖u(k+1) - u(k)‖² <= ηλ0‖e(k)‖²/8", np.concatenate(left), np.concatenate(right)),
        assumptions=[f"η = λ0/(32 n²p²) = {eta:.3g}, p = 1 for vectors"],
    )
