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
_told("eq_9", "none", "generalization", "resnet_relu",
    "Definition of the Rademacher complexity of the networks within τ of the start", kind="definition")
# fmt: on
