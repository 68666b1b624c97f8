"""What the papers' theorems ask for on one table: widths, steps and iterations, with the constants of their proofs."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from wideproof.doors import lazily as _lazily

if _TYPE_CHECKING:
    from wideproof.theorems.answer import Answer as Answer
    from wideproof.theorems.answer import Asks as Asks
    from wideproof.theorems.answer import theorem as theorem
    from wideproof.theorems.trace import Constant as Constant
    from wideproof.theorems.trace import Requirement as Requirement

__getattr__, __dir__ = _lazily(  # constants need no JAX
    __name__,
    {
        "wideproof.theorems.answer": "Answer Asks theorem",
        "wideproof.theorems.trace": "Constant Requirement",
    },
)
