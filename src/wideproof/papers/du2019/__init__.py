"""Du, Lee, Li, Wang and Zhai (2019): Gradient Descent Finds Global Minima of Deep Neural Networks (ICML 2019).

Every checkable statement is a function named after it, on a shared quick laboratory or on one of any size.

>>> print(lemma_g_6().outcome)
holds
"""

from wideproof.papers.du2019.concentration import eq_4 as eq_4
from wideproof.papers.du2019.concentration import eq_5 as eq_5
from wideproof.papers.du2019.concentration import eq_18 as eq_18
from wideproof.papers.du2019.concentration import eq_19 as eq_19
from wideproof.papers.du2019.concentration import remark_e_7 as remark_e_7
from wideproof.papers.du2019.concentration import theorem_e_1 as theorem_e_1
from wideproof.papers.du2019.convergence import condition_a_1 as condition_a_1
from wideproof.papers.du2019.convergence import eq_12 as eq_12
from wideproof.papers.du2019.convergence import lemma_b_5 as lemma_b_5
from wideproof.papers.du2019.convergence import lemma_b_7 as lemma_b_7
from wideproof.papers.du2019.convergence import lemma_c_5 as lemma_c_5
from wideproof.papers.du2019.convergence import lemma_c_7 as lemma_c_7
from wideproof.papers.du2019.convergence import lemma_d_5 as lemma_d_5
from wideproof.papers.du2019.convergence import lemma_d_7 as lemma_d_7
from wideproof.papers.du2019.convergence import theorem_5_1 as theorem_5_1
from wideproof.papers.du2019.convergence import theorem_6_1 as theorem_6_1
from wideproof.papers.du2019.convergence import theorem_7_1 as theorem_7_1
from wideproof.papers.du2019.definitions import definition_5_1 as definition_5_1
from wideproof.papers.du2019.definitions import definition_6_1 as definition_6_1
from wideproof.papers.du2019.definitions import definition_7_1 as definition_7_1
from wideproof.papers.du2019.definitions import definition_e_1 as definition_e_1
from wideproof.papers.du2019.gradients import eq_13 as eq_13
from wideproof.papers.du2019.gradients import eq_14 as eq_14
from wideproof.papers.du2019.gradients import eq_15 as eq_15
from wideproof.papers.du2019.hypotheses import condition_3_1 as condition_3_1
from wideproof.papers.du2019.initialization import lemma_b_1 as lemma_b_1
from wideproof.papers.du2019.initialization import lemma_b_2 as lemma_b_2
from wideproof.papers.du2019.initialization import lemma_c_1 as lemma_c_1
from wideproof.papers.du2019.initialization import lemma_c_2 as lemma_c_2
from wideproof.papers.du2019.initialization import lemma_d_1 as lemma_d_1
from wideproof.papers.du2019.initialization import lemma_d_2 as lemma_d_2
from wideproof.papers.du2019.initialization import lemma_e_1 as lemma_e_1
from wideproof.papers.du2019.perturbation import lemma_b_3 as lemma_b_3
from wideproof.papers.du2019.perturbation import lemma_b_4 as lemma_b_4
from wideproof.papers.du2019.perturbation import lemma_c_3 as lemma_c_3
from wideproof.papers.du2019.perturbation import lemma_c_4 as lemma_c_4
from wideproof.papers.du2019.perturbation import lemma_d_3 as lemma_d_3
from wideproof.papers.du2019.perturbation import lemma_d_4 as lemma_d_4
from wideproof.papers.du2019.positivity import lemma_f_1 as lemma_f_1
from wideproof.papers.du2019.positivity import lemma_f_2 as lemma_f_2
from wideproof.papers.du2019.positivity import lemma_f_3 as lemma_f_3
from wideproof.papers.du2019.positivity import lemma_g_6 as lemma_g_6
from wideproof.papers.du2019.positivity import proposition_f_1 as proposition_f_1
from wideproof.papers.du2019.positivity import proposition_f_2 as proposition_f_2
from wideproof.papers.du2019.smoothness import lemma_b_6 as lemma_b_6
from wideproof.papers.du2019.smoothness import lemma_c_6 as lemma_c_6
from wideproof.papers.du2019.smoothness import lemma_d_6 as lemma_d_6
from wideproof.papers.du2019.tools import lemma_g_1 as lemma_g_1
from wideproof.papers.du2019.tools import lemma_g_2 as lemma_g_2
from wideproof.papers.du2019.tools import lemma_g_3 as lemma_g_3
from wideproof.papers.du2019.tools import lemma_g_4 as lemma_g_4
from wideproof.papers.du2019.tools import lemma_g_5 as lemma_g_5
