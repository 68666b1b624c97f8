"""Zou, Cao, Zhou and Gu (2018), Stochastic Gradient Descent Optimizes Over-parameterized Deep ReLU Networks.

arXiv:1811.08888. Every checkable statement is a function named as in the paper; it takes a laboratory, or uses a quick
one:

>>> print(lemma_a_11().outcome)
holds
"""

from wideproof.papers.zou2018.concentration import corollary_a_2 as corollary_a_2
from wideproof.papers.zou2018.concentration import corollary_a_5 as corollary_a_5
from wideproof.papers.zou2018.concentration import lemma_a_1 as lemma_a_1
from wideproof.papers.zou2018.concentration import lemma_a_3 as lemma_a_3
from wideproof.papers.zou2018.concentration import lemma_a_4 as lemma_a_4
from wideproof.papers.zou2018.concentration import lemma_a_6 as lemma_a_6
from wideproof.papers.zou2018.concentration import lemma_a_7 as lemma_a_7
from wideproof.papers.zou2018.concentration import lemma_a_8 as lemma_a_8
from wideproof.papers.zou2018.concentration import lemma_a_9 as lemma_a_9
from wideproof.papers.zou2018.concentration import lemma_a_10 as lemma_a_10
from wideproof.papers.zou2018.confinement import lemma_5_4 as lemma_5_4
from wideproof.papers.zou2018.confinement import lemma_5_5 as lemma_5_5
from wideproof.papers.zou2018.confinement import lemma_5_6 as lemma_5_6
from wideproof.papers.zou2018.confinement import lemma_5_7 as lemma_5_7
from wideproof.papers.zou2018.convergence import corollary_4_3 as corollary_4_3
from wideproof.papers.zou2018.convergence import corollary_4_6 as corollary_4_6
from wideproof.papers.zou2018.convergence import remark_4_2 as remark_4_2
from wideproof.papers.zou2018.convergence import remark_4_7 as remark_4_7
from wideproof.papers.zou2018.convergence import theorem_4_1 as theorem_4_1
from wideproof.papers.zou2018.convergence import theorem_4_5 as theorem_4_5
from wideproof.papers.zou2018.correlation import corollary_a_13 as corollary_a_13
from wideproof.papers.zou2018.correlation import lemma_a_11 as lemma_a_11
from wideproof.papers.zou2018.correlation import lemma_a_12 as lemma_a_12
from wideproof.papers.zou2018.correlation import lemma_a_14 as lemma_a_14
from wideproof.papers.zou2018.correlation import lemma_a_15 as lemma_a_15
from wideproof.papers.zou2018.descent import eq_c_1 as eq_c_1
from wideproof.papers.zou2018.descent import eq_c_2 as eq_c_2
from wideproof.papers.zou2018.descent import eq_c_3 as eq_c_3
from wideproof.papers.zou2018.descent import eq_c_5 as eq_c_5
from wideproof.papers.zou2018.descent import eq_c_6 as eq_c_6
from wideproof.papers.zou2018.descent import eq_c_7 as eq_c_7
from wideproof.papers.zou2018.descent import eq_c_8 as eq_c_8
from wideproof.papers.zou2018.descent import eq_c_9 as eq_c_9
from wideproof.papers.zou2018.descent import lemma_c_1 as lemma_c_1
from wideproof.papers.zou2018.descent import lemma_c_2 as lemma_c_2
from wideproof.papers.zou2018.hypotheses import assumption_3_1 as assumption_3_1
from wideproof.papers.zou2018.hypotheses import assumption_3_2 as assumption_3_2
from wideproof.papers.zou2018.hypotheses import assumption_3_3 as assumption_3_3
from wideproof.papers.zou2018.hypotheses import assumption_3_4 as assumption_3_4
from wideproof.papers.zou2018.hypotheses import assumption_3_5 as assumption_3_5
from wideproof.papers.zou2018.hypotheses import assumption_3_6 as assumption_3_6
from wideproof.papers.zou2018.hypotheses import assumption_4_4 as assumption_4_4
from wideproof.papers.zou2018.initialization import theorem_5_1 as theorem_5_1
from wideproof.papers.zou2018.initialization import theorem_5_1_i as theorem_5_1_i
from wideproof.papers.zou2018.initialization import theorem_5_1_ii as theorem_5_1_ii
from wideproof.papers.zou2018.initialization import theorem_5_1_iii as theorem_5_1_iii
from wideproof.papers.zou2018.initialization import theorem_5_1_iv as theorem_5_1_iv
from wideproof.papers.zou2018.initialization import theorem_5_1_v as theorem_5_1_v
from wideproof.papers.zou2018.initialization import theorem_5_1_vi as theorem_5_1_vi
from wideproof.papers.zou2018.initialization import theorem_5_1_vii as theorem_5_1_vii
from wideproof.papers.zou2018.initialization import theorem_5_1_viii as theorem_5_1_viii
from wideproof.papers.zou2018.perturbation import theorem_5_3 as theorem_5_3
from wideproof.papers.zou2018.perturbation import theorem_5_3_i as theorem_5_3_i
from wideproof.papers.zou2018.perturbation import theorem_5_3_ii as theorem_5_3_ii
from wideproof.papers.zou2018.perturbation import theorem_5_3_iii as theorem_5_3_iii
from wideproof.papers.zou2018.perturbation import theorem_5_3_iv as theorem_5_3_iv
from wideproof.papers.zou2018.perturbation import theorem_5_3_v as theorem_5_3_v
from wideproof.papers.zou2018.perturbation import theorem_5_3_vi as theorem_5_3_vi
from wideproof.papers.zou2018.perturbation import theorem_5_3_vii as theorem_5_3_vii
from wideproof.papers.zou2018.perturbation import theorem_5_3_viii as theorem_5_3_viii
from wideproof.papers.zou2018.region import corollary_b_4 as corollary_b_4
from wideproof.papers.zou2018.region import lemma_b_1 as lemma_b_1
from wideproof.papers.zou2018.region import lemma_b_2 as lemma_b_2
from wideproof.papers.zou2018.region import lemma_b_3 as lemma_b_3
from wideproof.papers.zou2018.region import lemma_b_5 as lemma_b_5
from wideproof.papers.zou2018.region import lemma_b_6 as lemma_b_6
from wideproof.papers.zou2018.stochastic import eq_d_2 as eq_d_2
from wideproof.papers.zou2018.stochastic import eq_d_3 as eq_d_3
from wideproof.papers.zou2018.stochastic import eq_d_7 as eq_d_7
from wideproof.papers.zou2018.stochastic import eq_d_8 as eq_d_8
from wideproof.papers.zou2018.stochastic import eq_d_9 as eq_d_9
from wideproof.papers.zou2018.stochastic import eq_d_10 as eq_d_10
from wideproof.papers.zou2018.stochastic import eq_d_11 as eq_d_11
from wideproof.papers.zou2018.stochastic import eq_e_2 as eq_e_2
from wideproof.papers.zou2018.stochastic import eq_e_8 as eq_e_8
from wideproof.papers.zou2018.stochastic import lemma_d_1 as lemma_d_1
from wideproof.papers.zou2018.stochastic import lemma_d_2 as lemma_d_2
from wideproof.papers.zou2018.stochastic import lemma_d_3 as lemma_d_3
