r"""Weights moved by $R\sqrt m$: how far the features and the last hidden layer's block follow."""

from __future__ import annotations

from wideproof.monitors.smooth import feature_bound, feature_movement, gram_bound, gram_drift
from wideproof.papers.check import Check, at_most, conclude, sides
from wideproof.papers.du2019.lab import Kind, Lab
from wideproof.papers.statement import Section, misprint

statement = Section("perturbation", "fc_smooth")

MOVEMENTS = (1e-3, 1e-1, 1.0)


@statement("Fully connected: features follow the weights with a bounded factor", "bound")
def lemma_b_3(lab: Lab) -> Check:
    r"""Fully connected features move at most in proportion to the weights.

    $$ \|W^{(h)}(k) - W^{(h)}(0)\|_F \le R\sqrt m,\; R \le c_{w,0} \;\Rightarrow\;
       \|x^{(h)}(k) - x^{(h)}(0)\|_2 \le \sqrt{c_\sigma}\, L\, c_{x,0}\, g_{c_x}(h)\, R . $$
    """
    return _features(lab, "fully-connected")


@statement("Residual: features follow the weights with a factor free of depth", "bound", network="resnet_smooth")
@misprint("c_res is missing in the recursion that the proof announces")
def lemma_c_3(lab: Lab) -> Check:
    r"""Residual features move at most in proportion to the weights, with a factor free of depth.

    $$ \|x^{(h)}(k) - x^{(h)}(0)\|_2 \le \Big(\sqrt{c_\sigma} L + \frac{c_{x,0}}{c_{w,0}}\Big)
       e^{2 c_{res} c_{w,0} L}\, R . $$
    """
    return _features(lab, "residual")


@statement("Convolutional: features follow the weights with a factor free of depth", "bound", network="conv_resnet")
def lemma_d_3(lab: Lab) -> Check:
    r"""Convolutional residual features move at most in proportion to the weights.

    $$ \|x^{(h)}(k) - x^{(h)}(0)\|_F \le \Big(\sqrt{c_\sigma q}\, L + \frac{c_{x,0}}{c_{w,0}}\Big)
       e^{2\sqrt q\, c_{res} c_{w,0} L}\, R . $$
    """
    return _features(lab, "conv-residual")


@statement("Fully connected: the last block drifts by λ0/4 at most", "bound")
def lemma_b_4(lab: Lab) -> Check:
    r"""The last block of a fully connected network moves by at most $\lambda_0/4$ while all weights and $a$ move by at
    most $R\sqrt m$, $R \le c\, g_{c_x}(H)^{-1} \min(1, \lambda_0/n)$; in the proof by at most a constant times $nR$.
    """
    return _gram(lab, "fully-connected")


@statement("Residual: the last block drifts by λ0/4 at most", "bound", network="resnet_smooth")
@misprint("true as printed; the induction needs λ0/4, as in Lemma B.4, which a smaller c gives")
def lemma_c_4(lab: Lab) -> Check:
    r"""The last block of a residual network moves by at most $\lambda_0/4$ for $R \le c \lambda_0 H^2/n$.

    The paper writes $\lambda_0/2$, which leaves the induction too little. In the proof
    $\|\Delta G\|_F \le \frac{c_{res}^2 L^2 n R}{H^2}\big[3 c_{x,0} c_x a_{2,0}^2
    + 2\beta c_{x,0}^2 (2 c_x c_{w,0} + c_{x,0}) a_{4,0}^2 + 12 c_{x,0}^2 a_{2,0}\big]$.
    """
    return _gram(lab, "residual")


@statement("Convolutional: the last block drifts by λ0/4 at most", "bound", network="conv_resnet")
@misprint("true as printed; the induction needs λ0/4, as in Lemma C.4")
def lemma_d_4(lab: Lab) -> Check:
    r"""The last block of a convolutional residual network moves by at most $\lambda_0/4$ for
    $R \le c \lambda_0 H^2/(n\,\mathrm{poly}(p))$; the paper writes $\lambda_0/2$, as for the residual network.
    """
    return _gram(lab, "conv-residual")


def _count(lab: Lab) -> int:
    return lab.pick(1, 2, 5)


def _features(lab: Lab, kind: Kind) -> Check:
    network, x = lab.model(kind), lab.data(kind).x
    found = []
    for i in range(_count(lab)):
        for movement in MOVEMENTS:
            for moved in lab.moved(kind, i, movement):
                far = feature_movement(network, moved.params, moved.start, x)
                found.append((far, feature_bound(network, moved.constants, movement)[:, None]))
    return conclude(
        at_most("movement of features", *sides(found)),
        hypotheses=[at_most("R <= c_w,0", max(MOVEMENTS), lab.constants(kind, 0).weights)],
        assumptions=[
            f"R in {MOVEMENTS}; random, gradient and rank-one directions of all weights at once",
            "c_w,0 and c_x,0 as measured",
        ],
    )


def _gram(lab: Lab, kind: Kind) -> Check:
    network, data = lab.model(kind), lab.data(kind)
    name, lambda_0 = f"W{network.depth}", lab.lambda_0(network, data.x)
    inside, explicit, small = [], [], []
    for i in range(_count(lab)):
        c = lab.constants(kind, i)
        enough = lambda_0 / (4 * gram_bound(network, c, data.n, 1.0))
        small.append(enough)
        for movement in (enough, 10 * enough, 100 * enough):
            if feature_bound(network, c, movement).max() > c.features or movement > c.read_out:
                continue
            for moved in lab.moved(kind, i, movement):
                drift = gram_drift(network, moved.params, moved.start, data.x)[name]
                if movement == enough:
                    inside.append(drift)
                explicit.append((drift, gram_bound(network, c, data.n, movement)))
    return conclude(
        at_most("‖ΔG^(H)‖ <= λ0/4 at the largest R of the proof", inside, lambda_0 / 4),
        at_most("‖ΔG^(H)‖ against the proof's multiple of nR", *sides(explicit)),
        assumptions=[f"R = {min(small):.3g} and up to a hundred times that, while features move by less than c_x,0"],
    )
