"""Frei, Cao and Gu (2019), Algorithm-Dependent Generalization Bounds for Overparameterized Deep Residual Networks.

Every numbered statement of the paper that can be computed is a function here, under the paper's number; each returns a
`Check`. The networks are `ResidualReLU`, the data has a known margin.

Examples
--------
>>> print(eq_17().outcome)
holds
"""

from wideproof.papers.frei2019.convergence import eq_5 as eq_5
from wideproof.papers.frei2019.convergence import eq_6 as eq_6
from wideproof.papers.frei2019.convergence import eq_11 as eq_11
from wideproof.papers.frei2019.convergence import theorem_3_5 as theorem_3_5
from wideproof.papers.frei2019.generalization import corollary_3_7 as corollary_3_7
from wideproof.papers.frei2019.generalization import theorem_3_6 as theorem_3_6
from wideproof.papers.frei2019.gradients import eq_2 as eq_2
from wideproof.papers.frei2019.gradients import eq_27 as eq_27
from wideproof.papers.frei2019.gradients import eq_28 as eq_28
from wideproof.papers.frei2019.gradients import eq_29 as eq_29
from wideproof.papers.frei2019.gradients import eq_30 as eq_30
from wideproof.papers.frei2019.gradients import eq_31 as eq_31
from wideproof.papers.frei2019.gradients import eq_32 as eq_32
from wideproof.papers.frei2019.gradients import eq_33 as eq_33
from wideproof.papers.frei2019.gradients import eq_34 as eq_34
from wideproof.papers.frei2019.gradients import lemma_4_3 as lemma_4_3
from wideproof.papers.frei2019.gradients import lemma_4_4 as lemma_4_4
from wideproof.papers.frei2019.hypotheses import assumption_3_1 as assumption_3_1
from wideproof.papers.frei2019.hypotheses import assumption_3_2 as assumption_3_2
from wideproof.papers.frei2019.hypotheses import assumption_3_3 as assumption_3_3
from wideproof.papers.frei2019.hypotheses import assumption_3_4 as assumption_3_4
from wideproof.papers.frei2019.initialization import eq_8 as eq_8
from wideproof.papers.frei2019.initialization import eq_10 as eq_10
from wideproof.papers.frei2019.initialization import eq_13 as eq_13
from wideproof.papers.frei2019.initialization import eq_14 as eq_14
from wideproof.papers.frei2019.initialization import lemma_4_1 as lemma_4_1
from wideproof.papers.frei2019.initialization import lemma_b_1 as lemma_b_1
from wideproof.papers.frei2019.initialization import lemma_b_2 as lemma_b_2
from wideproof.papers.frei2019.initialization import lemma_b_3 as lemma_b_3
from wideproof.papers.frei2019.margins import eq_39 as eq_39
from wideproof.papers.frei2019.margins import eq_40 as eq_40
from wideproof.papers.frei2019.margins import eq_41 as eq_41
from wideproof.papers.frei2019.margins import eq_42 as eq_42
from wideproof.papers.frei2019.margins import lemma_b_6 as lemma_b_6
from wideproof.papers.frei2019.margins import proposition_c_5 as proposition_c_5
from wideproof.papers.frei2019.perturbation import claim_c_1 as claim_c_1
from wideproof.papers.frei2019.perturbation import eq_18 as eq_18
from wideproof.papers.frei2019.perturbation import eq_36 as eq_36
from wideproof.papers.frei2019.perturbation import lemma_b_4 as lemma_b_4
from wideproof.papers.frei2019.smoothness import eq_16 as eq_16
from wideproof.papers.frei2019.smoothness import eq_17 as eq_17
from wideproof.papers.frei2019.smoothness import eq_22 as eq_22
from wideproof.papers.frei2019.smoothness import eq_25 as eq_25
from wideproof.papers.frei2019.smoothness import eq_26 as eq_26
from wideproof.papers.frei2019.smoothness import lemma_4_2 as lemma_4_2
from wideproof.papers.frei2019.sparsity import claim_d_1 as claim_d_1
from wideproof.papers.frei2019.sparsity import lemma_b_5 as lemma_b_5
from wideproof.papers.frei2019.sparsity import lemma_c_2 as lemma_c_2
from wideproof.papers.frei2019.sparsity import lemma_c_3 as lemma_c_3
from wideproof.papers.frei2019.sparsity import lemma_c_4 as lemma_c_4
