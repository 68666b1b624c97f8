"""The theorems, one function each: its claims, its inequalities one by one, and its sentence."""

from wideproof_verify.certificate import THEOREMS, Proof
from wideproof_verify.theorems import basins, classification, descent, margins, methods, newton, read_outs, starts
from wideproof_verify.theorems.starts import entered

__all__ = [
    "THEOREMS", "basins", "classification", "descent", "margins", "methods", "newton", "prove", "read_outs", "starts",
]  # fmt: skip


def prove(p: Proof) -> str:
    """Check everything and return what was proved about what, in words."""
    said = THEOREMS[p.c.theorem].prove(p)
    if p.c.start is not None and THEOREMS[p.c.theorem].prove.__module__ == basins.__name__:
        said = f"{entered(p)} {said}"
    return f"{said} {p.c.subject}"
