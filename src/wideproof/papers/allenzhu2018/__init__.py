"""Allen-Zhu, Li and Song (2018), On the Convergence Rate of Training Recurrent Neural Networks (arXiv:1810.12065).

from wideproof.papers import allenzhu2018

print(allenzhu2018.fact_2_5())
"""

from wideproof.papers.allenzhu2018.convergence import theorem_1 as theorem_1
from wideproof.papers.allenzhu2018.convergence import theorem_2 as theorem_2
from wideproof.papers.allenzhu2018.convergence import theorem_informal as theorem_informal
from wideproof.papers.allenzhu2018.gradients import eq_6_2 as eq_6_2
from wideproof.papers.allenzhu2018.gradients import eq_6_3 as eq_6_3
from wideproof.papers.allenzhu2018.gradients import eq_6_4 as eq_6_4
from wideproof.papers.allenzhu2018.gradients import eq_6_7 as eq_6_7
from wideproof.papers.allenzhu2018.gradients import proposition_6_1 as proposition_6_1
from wideproof.papers.allenzhu2018.gradients import theorem_3 as theorem_3
from wideproof.papers.allenzhu2018.gradients import theorem_5 as theorem_5
from wideproof.papers.allenzhu2018.hypotheses import assumption_2_1 as assumption_2_1
from wideproof.papers.allenzhu2018.hypotheses import definition_2_3 as definition_2_3
from wideproof.papers.allenzhu2018.hypotheses import fact_2_5 as fact_2_5
from wideproof.papers.allenzhu2018.hypotheses import footnote_5 as footnote_5
from wideproof.papers.allenzhu2018.hypotheses import footnote_9 as footnote_9
from wideproof.papers.allenzhu2018.hypotheses import footnote_10 as footnote_10
from wideproof.papers.allenzhu2018.initialization import claim_b_4 as claim_b_4
from wideproof.papers.allenzhu2018.initialization import claim_b_5 as claim_b_5
from wideproof.papers.allenzhu2018.initialization import claim_b_10 as claim_b_10
from wideproof.papers.allenzhu2018.initialization import eq_4_1 as eq_4_1
from wideproof.papers.allenzhu2018.initialization import eq_4_2 as eq_4_2
from wideproof.papers.allenzhu2018.initialization import eq_4_3 as eq_4_3
from wideproof.papers.allenzhu2018.initialization import lemma_b_3 as lemma_b_3
from wideproof.papers.allenzhu2018.initialization import lemma_b_6 as lemma_b_6
from wideproof.papers.allenzhu2018.initialization import lemma_b_7 as lemma_b_7
from wideproof.papers.allenzhu2018.initialization import lemma_b_9 as lemma_b_9
from wideproof.papers.allenzhu2018.percentiles import corollary_a_15 as corollary_a_15
from wideproof.papers.allenzhu2018.percentiles import corollary_a_16 as corollary_a_16
from wideproof.papers.allenzhu2018.percentiles import lemma_a_13 as lemma_a_13
from wideproof.papers.allenzhu2018.percentiles import lemma_a_17 as lemma_a_17
from wideproof.papers.allenzhu2018.probability import fact_a_1 as fact_a_1
from wideproof.papers.allenzhu2018.probability import fact_a_2 as fact_a_2
from wideproof.papers.allenzhu2018.probability import fact_a_12 as fact_a_12
from wideproof.papers.allenzhu2018.probability import lemma_a_5 as lemma_a_5
from wideproof.papers.allenzhu2018.probability import lemma_a_18 as lemma_a_18
from wideproof.papers.allenzhu2018.probability import lemma_a_19 as lemma_a_19
from wideproof.papers.allenzhu2018.products import claim_b_12 as claim_b_12
from wideproof.papers.allenzhu2018.products import claim_b_13 as claim_b_13
from wideproof.papers.allenzhu2018.products import corollary_b_15 as corollary_b_15
from wideproof.papers.allenzhu2018.products import corollary_b_16 as corollary_b_16
from wideproof.papers.allenzhu2018.products import corollary_b_18 as corollary_b_18
from wideproof.papers.allenzhu2018.products import corollary_b_19 as corollary_b_19
from wideproof.papers.allenzhu2018.products import eq_4_4 as eq_4_4
from wideproof.papers.allenzhu2018.products import eq_4_5 as eq_4_5
from wideproof.papers.allenzhu2018.products import eq_4_6 as eq_4_6
from wideproof.papers.allenzhu2018.products import lemma_b_11 as lemma_b_11
from wideproof.papers.allenzhu2018.products import lemma_b_14 as lemma_b_14
from wideproof.papers.allenzhu2018.products import lemma_b_17 as lemma_b_17
from wideproof.papers.allenzhu2018.products import remark_4_1 as remark_4_1
from wideproof.papers.allenzhu2018.rectified import corollary_a_9 as corollary_a_9
from wideproof.papers.allenzhu2018.rectified import corollary_a_10 as corollary_a_10
from wideproof.papers.allenzhu2018.rectified import fact_a_11 as fact_a_11
from wideproof.papers.allenzhu2018.rectified import lemma_a_3 as lemma_a_3
from wideproof.papers.allenzhu2018.rectified import lemma_a_4 as lemma_a_4
from wideproof.papers.allenzhu2018.rectified import lemma_a_6 as lemma_a_6
from wideproof.papers.allenzhu2018.rectified import lemma_a_7 as lemma_a_7
from wideproof.papers.allenzhu2018.rectified import lemma_a_8 as lemma_a_8
from wideproof.papers.allenzhu2018.smoothness import eq_7_1 as eq_7_1
from wideproof.papers.allenzhu2018.smoothness import eq_7_2 as eq_7_2
from wideproof.papers.allenzhu2018.smoothness import theorem_4 as theorem_4
from wideproof.papers.allenzhu2018.stability import eq_5_1 as eq_5_1
from wideproof.papers.allenzhu2018.stability import eq_5_2 as eq_5_2
from wideproof.papers.allenzhu2018.stability import eq_5_3 as eq_5_3
from wideproof.papers.allenzhu2018.stability import eq_5_4 as eq_5_4
from wideproof.papers.allenzhu2018.stability import eq_5_5 as eq_5_5
