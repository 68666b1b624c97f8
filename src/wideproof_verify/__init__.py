"""An independent verifier of certificates: reads weights, data and claims, and proves the claims again.

It shares no code with the program that wrote the certificate. Numbers are float64 with rigorous radii; where those do
not decide, balls of more and more bits. What has to be trusted is this package, Arb, Python, and that float64 rounds to
nearest and adds whole numbers below 2^53 exactly. The result is about gradient descent in exact arithmetic.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from flint import ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.graphs import MalformedError
from wideproof_verify.reading import read
from wideproof_verify.theorems import NotProvedError, Proof

__all__ = ["Verdict", "verify"]
PRECISIONS = (53, 128, 256, 512, 1024)  # 53: float64 with radii


@dataclass(frozen=True)
class Verdict:
    """`answer` is "proved", "not proved" or "malformed"; `checks` are rows (inequality, left side, right side).

    `course` has a row for every step that was followed from a start: the distance from exact gradient descent after it,
    the bits that were used, the factor by which an error may have grown, and the error ‖f − y‖ (‖ℓ'‖) before it, at
    most.
    """

    answer: str
    reason: str
    statement: str = ""
    checks: list[tuple[str, float, float]] = field(default_factory=list)
    precision: int = 0
    seconds: float = 0.0
    course: list[tuple[float, int, float, float]] = field(default_factory=list)


def verify(folder: str | Path) -> Verdict:
    """Verify the certificate in `folder`, with more bits as long as a comparison is not decided."""
    start, bits, checks, answer, reason, statement = time.perf_counter(), 0, [], "not proved", "", ""
    course: list[tuple[float, int, float, float]] = []
    try:
        certificate = read(folder)
        for bits in PRECISIONS:
            if bits == 53 and not certificate.smooth:
                continue
            if bits > 53 and certificate.smooth and not certificate.small:
                break
            with np.errstate(all="ignore"), ctx.workprec(max(bits, 128)):
                proof = Proof(certificate, large=bits == 53)
                checks = proof.checks
                try:
                    answer, reason, statement = "proved", "every inequality holds", proof.prove()
                    course = proof.tube.course
                    break
                except NotProvedError as error:
                    answer, reason = "not proved", str(error)
                    if error.decided:
                        break
    except MalformedError as error:
        answer, reason = "malformed", str(error)
    except (ArithmeticError, ValueError, TypeError, MemoryError, np.linalg.LinAlgError) as error:
        answer, reason = "not proved", f"the numbers are out of range: {type(error).__name__}: {error}"
    return Verdict(answer, reason, statement, checks, bits, time.perf_counter() - start, course)
