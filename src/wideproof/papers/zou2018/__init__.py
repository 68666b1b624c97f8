"""Zou, Cao, Zhou and Gu (2018), Stochastic Gradient Descent Optimizes Over-parameterized Deep ReLU Networks.

arXiv:1811.08888. Every checkable statement is a function named as in the paper; it takes a laboratory, or uses a quick
one:

>>> from wideproof.papers import zou2018
>>> print(zou2018.lemma_a_11().outcome)
holds
"""

from wideproof.papers.statement import door

__getattr__, __dir__, _told = door("zou2018")

# What nothing can be computed for by itself.
# fmt: off
_told("eq_3_1", "none", "setting", "none",
    "Products of matrices are ordered: the later layer stands to the left, and an empty product is the identity",
    kind="definition")
_told("eq_3_2", "none", "setting", "relu",
    "What is minimized: the average of ℓ(y f(x)) over the training examples", kind="definition")
# fmt: on
