"""Frei, Cao and Gu (2019), Algorithm-Dependent Generalization Bounds for Overparameterized Deep Residual Networks.

Every numbered statement of the paper that can be computed is a function here, under the paper's number; each returns a
`Check`. The networks are `ResidualReLU`, the data has a known margin.

Examples
--------
>>> from wideproof.papers import frei2019
>>> print(frei2019.eq_17().outcome)
holds
"""

from wideproof.papers.statement import door

__getattr__, __dir__, _told = door("frei2019")

# What nothing can be computed for by itself.
# fmt: off
_told("eq_1", "none", "setting", "resnet_relu",
    "Definition of the matrices H that carry layer l-1 to layer l': residual factors, the latest on the left",
    kind="definition")
_told("eq_4", "proof_step", "convergence", "resnet_relu",
    "Proof of Theorem 3.5: one more step does not leave the τ-ball", erratum="the radius is now τ/2, now τ")
_told("eq_9", "none", "generalization", "resnet_relu",
    "Definition of the Rademacher complexity of the networks within τ of the start", kind="definition")
_told("eq_19", "proof_step", "smoothness", "resnet_relu",
    "Proof of Lemma 4.2: few flips keep the last layer's first part small",
    erratum="the inequality quoted for vectors is false; it is meant for diagonals")
_told("eq_23", "proof_step", "smoothness", "resnet_relu",
    "Proof of Lemma 4.2: what residual layers add to the remainder", erratum="limits of the sums are garbled")
_told("eq_24", "proof_step", "smoothness", "resnet_relu",
    "Proof of Lemma 4.2: what the first layer adds to the remainder", erratum="a transpose is missing")
_told("eq_38", "proof_step", "perturbation", "resnet_relu",
    "Proof of Lemma B.5: moved residual products stay bounded", erratum="covers the layers up to L only")
# fmt: on
