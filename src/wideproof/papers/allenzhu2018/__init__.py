"""Allen-Zhu, Li and Song (2018), On the Convergence Rate of Training Recurrent Neural Networks (arXiv:1810.12065).

from wideproof.papers import allenzhu2018

print(allenzhu2018.fact_2_5())
"""

from wideproof.papers.statement import door

__getattr__, __dir__, _told = door("allenzhu2018")

# What nothing can be computed for by itself.
# fmt: off
_told("eq_2_1", "none", "setting", "none",
    "The objective: half squared errors summed over sequences and times from the second on", kind="definition")
_told("assumption_2_4", "none", "hypothesis", "rnn", "The width exceeds a polynomial in n, d, L, 1/δ and log(1/ε)")
_told("eq_6_1", "none", "gradient", "rnn",
    "The fake gradient: row k of the gradient with losses that are held fixed", kind="definition")
_told("definition_a_14", "none", "tool", "none", "(α,σ)-good vectors: nearly half beyond ασ on either side")
_told("definition_b_1", "none", "initialization", "rnn", "U_l: an orthonormal basis of all hidden states up to time l")
_told("definition_b_2", "none", "initialization", "rnn",
    "v_{i,l}: the direction that a hidden state adds to all earlier ones")
_told("definition_b_8", "none", "setting", "none", "δ-separable: each of two vectors is δ away from the other's line")
_told("definition_c_1", "none", "perturbation", "rnn",
    "Notation: values at the start (tilde), at the perturbed weights (plain), and their differences (prime)")
_told("definition_d_1", "none", "gradient", "none", "The two thresholds near zero: β+ = δ/ρ² and β− = δ/ρ^10")
_told("definition_d_6", "none", "gradient", "rnn",
    "Back from l to a: B times masks and weights from time a down to l+1")
_told("definition_e_3", "none", "gradient", "none", "The size θ of the split: between ρ⁴β− and β+/ρ³")
_told("eq_e_13", "proof_step", "gradient", "rnn", "The size of the sets in the proof of Theorem 5: ρ^22/β−²")
_told("definition_g_1", "none", "smoothness", "rnn",
    "Notation: values at the start, at a point W_c near it, and at W_c + W'")
# fmt: on
