"""Allen-Zhu, Li and Song (2018), On the Convergence Rate of Training Recurrent Neural Networks (arXiv:1810.12065).

from wideproof.papers import allenzhu2018

print(allenzhu2018.fact_2_5())
"""
