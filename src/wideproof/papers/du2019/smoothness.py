r"""The second-order part of a step: $I_2(k) = u(k+1) - u(k) - \eta\,G(k)e(k)$."""

from __future__ import annotations

import numpy as np

from wideproof.papers.check import Check, at_most, conclude, scales, sides
from wideproof.papers.du2019.lab import Kind, Lab
from wideproof.papers.statement import Section, misprint

statement = Section("smoothness", "fc_smooth")

FRACTIONS = (0.25, 0.5, 1.0)


@statement("Fully connected: the second-order part of a step is at most ηλ0/8 of the error", "bound")
@misprint("the proof's sum over blocks stops at H and leaves out the read-out")
def lemma_b_6(lab: Lab) -> Check:
    r"""Fully connected: for a small step size $\|I_2(k)\|_2 \le \tfrac18 \eta\lambda_0 \|y - u(k)\|_2$.

    The lemma asks for $\eta \le c\,\lambda_0\,(n^2 H^2 c_x^{3H} g_{2c_x}(H))^{-1}$; a far larger one is enough. $I_2$,
    over all weights and the read-out, is of order $\eta^2$.
    """
    return _second_order(lab, "fully-connected")


@statement("Residual: the second-order part of a step is at most ηλ0/8 of the error", "bound", network="resnet_smooth")
@misprint("the proof leaves out the read-out, as for Lemma B.6; λ0 Q' for Q'")
def lemma_c_6(lab: Lab) -> Check:
    r"""Residual: for $\eta \le c\lambda_0 H^2/n^2$, $\|I_2(k)\|_2 \le \tfrac18 \eta\lambda_0 \|y - u(k)\|_2$."""
    return _second_order(lab, "residual")


@statement(
    "Convolutional: the second-order part of a step is at most ηλ0/8 of the error", "bound", network="conv_resnet"
)
@misprint("the proof leaves out the read-out, as for Lemma B.6; λ0√m R' stands for Q'")
def lemma_d_6(lab: Lab) -> Check:
    r"""Convolutional residual: for $\eta \le c\lambda_0 H^2 n^{-2}\,\mathrm{poly}(1/p)$,
    $\|I_2(k)\|_2 \le \tfrac18 \eta\lambda_0 \|y - u(k)\|_2$.
    """
    return _second_order(lab, "conv-residual")


def first_steps(lab: Lab, kind: Kind) -> tuple[np.ndarray, list]:
    """Return step sizes and, for three seeds, one step with each of them."""
    sizes = lab.step_size(kind, "practical") * np.array(FRACTIONS)
    return sizes, [[lab.descend(kind, float(size), 1, seed) for size in sizes] for seed in range(3)]


def _second_order(lab: Lab, kind: Kind) -> Check:
    lambda_0 = lab.lambda_0(lab.trainee(kind), lab.data(kind).x)
    parts = []
    for rule in ("theorem", "lemma"):
        found = []
        for descent in lab.runs(kind, rule):
            residual = np.linalg.norm(descent.residuals[:-1], axis=1)
            found.append((np.linalg.norm(descent.second_order, axis=1), descent.step_size * lambda_0 * residual / 8))
        parts.append(at_most(f"‖I_2‖ <= ηλ0‖e‖/8 at η = {lab.step_size(kind, rule):.2g}", *sides(found)))
    sizes, steps = first_steps(lab, kind)
    orders = [[np.linalg.norm(descent.second_order[0]) for descent in row] for row in steps]
    parts.append(scales("‖I_2(0)‖ is of second order", "η", sizes, orders, 2.0, sense="equal"))
    note = "step sizes: the scaling of the network's theorem with constant 1, and λ0/(32 n²p²)"
    return conclude(*parts, assumptions=[note])
