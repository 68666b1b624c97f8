"""Du, Lee, Li, Wang and Zhai (2019): Gradient Descent Finds Global Minima of Deep Neural Networks (ICML 2019).

Every checkable statement is a function named after it, on a shared quick laboratory or on one of any size.

>>> from wideproof.papers import du2019
>>> print(du2019.lemma_g_6().outcome)
holds
"""

from wideproof.papers.statement import door

__getattr__, __dir__, _told = door("du2019")

# What nothing can be computed for by itself.
# fmt: off
_told("condition_3_2", "none", "hypothesis", "any", "The activation is analytic and no polynomial")
_told("eq_1", "none", "setting", "any", "The loss: half the sum of squared errors, not a mean", kind="definition")
_told("eq_6", "none", "perturbation", "any", "How far training has gone: ‖W(k) - W(0)‖_F/√m", kind="definition")
_told("remark_e_1", "none", "setting", "any", "How many positions a layer has in the common framework")
_told("remark_e_2", "none", "setting", "conv_resnet",
    "A convolution's weights are a space of as many dimensions as the filter has pixels")
_told("remark_e_3", "none", "setting", "any",
    "The skip map D: nothing for fully connected, the identity for residual layers")
_told("remark_e_4", "none", "setting", "any", "How many channels the input has in the common framework")
_told("remark_e_5", "none", "setting", "any", "Which ρ and D give which network",
    erratum="ρ = σ is printed for √c_σ σ, also in the first layer of residual networks")
# fmt: on
