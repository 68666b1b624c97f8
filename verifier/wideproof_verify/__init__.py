"""An independent verifier of certificates: reads weights, data and claims, and proves the claims again.

It shares no code with the program that wrote the certificate. Numbers are float64 with rigorous radii; where those do
not decide, balls of more and more bits. What has to be trusted is this package, Arb, NumPy, Python, the proofs on the
pages, and that float64 rounds to nearest and adds whole numbers below 2^53 exactly, which a self-test asks of the
machine first. The result is about gradient descent in exact arithmetic.
"""

import time as clock
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from flint import ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import BALLS, FLOATS, PURE
from wideproof_verify.certificate import Certificate, Proof
from wideproof_verify.costs import HOUR, Cost, cost, memory_here, require_within, self_test
from wideproof_verify.reading import read
from wideproof_verify.refusals import MalformedError, NotJudgedError, NotProvedError, limited
from wideproof_verify.theorems import prove

__all__ = ["Verdict", "verify"]
PRECISIONS = (53, 128, 256, 512, 1024)  # 53: float64 with radii
PATIENCE = 60.0  # seconds that more bits may be expected to take


@dataclass
class Verdict:
    """The answer of the verifier.

    Attributes
    ----------
    answer
        `"proved"`, `"not proved"`, `"malformed"` or `"not judged"` (limits, or a machine that fails the self-test).
    reason
        Why it is not proved, or that every inequality holds.
    statement
        What is proved, in words.
    checks
        Rows (inequality, left side, right side); the right side is `None` if it was compared without being computed.
    precision
        Bits of the arithmetic that was used last; 53 is float64.
    seconds
        Time that it took.
    course
        A row for every step that was followed from a start: the distance from exact gradient descent after it, the bits
        that were used, the factor by which an error may have grown, and a bound on the error ‖f − y‖ (‖ℓ'‖) before it.
    digests
        SHA-256 of every array, of the graph and of the data (x and y).
    """

    answer: str = "not proved"
    reason: str = ""
    statement: str = ""
    checks: list[tuple[str, float, float | None]] = field(default_factory=list)
    precision: int = 0
    seconds: float = 0.0
    course: list[tuple[float, int, float, float]] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)


def verify(
    folder: str | Path,
    *,
    time: float = HOUR,
    memory: float | None = None,
    balls: bool = False,
    tell: Callable[[Cost], None] | None = None,
) -> Verdict:
    """Verify a certificate; the precision is raised as long as a comparison is undecided.

    Parameters
    ----------
    folder
        The folder with `certificate.json` and `arrays.safetensors`.
    time
        Limit in seconds; an hour by default. A certificate that would take more, or takes more, is not judged.
    memory
        Limit in bytes; by default three quarters of this machine's memory.
    balls
        Whether to decide everything in ball arithmetic; this is slow. Bounds of single numbers, such as weights of
        examples, may come from float64, rounded up with room.
    tell
        Callback; receives the estimated cost before anything is computed.

    Returns
    -------
    Verdict
        The verdict, with every inequality that was checked.
    """
    begun, verdict = clock.perf_counter(), Verdict()
    try:
        with limited(time):
            _verify(verdict, Path(folder), begun, time, memory, balls, tell)
    except MalformedError as error:
        verdict.answer, verdict.reason = "malformed", str(error)
    except NotJudgedError as error:
        verdict.answer, verdict.reason = "not judged", str(error)
    except MemoryError:
        verdict.answer, verdict.reason = "not judged", "there is too little memory"
    except (ArithmeticError, ValueError, TypeError, np.linalg.LinAlgError) as error:
        verdict.answer, verdict.reason = "not proved", f"the numbers are out of range: {type(error).__name__}: {error}"
    except Exception as error:  # whatever else goes wrong here is no verdict
        verdict.answer, verdict.reason = "not judged", f"the verifier failed: {type(error).__name__}: {error}"
    verdict.seconds = clock.perf_counter() - begun
    return verdict


def _verify(
    verdict: Verdict, folder: Path, begun: float, time: float, memory: float | None, balls: bool, tell: Callable | None
) -> None:
    """Read, estimate, and judge in more and more bits."""
    self_test()
    certificate = read(folder)
    verdict.digests = certificate.digests
    first = cost(certificate, PRECISIONS[1] if balls else PRECISIONS[0])
    if tell is not None:
        tell(first)
    memory = memory_here() if memory is None else memory
    require_within(first, time, memory)
    with np.errstate(all="ignore"):
        for bits in PRECISIONS[1:] if balls else PRECISIONS:
            left = time - (clock.perf_counter() - begun)
            if verdict.precision and not _affordable(cost(certificate, bits), left, memory, verdict):
                break
            verdict.precision = bits
            if _judged(verdict, certificate, bits, balls):
                break


def _judged(verdict: Verdict, certificate: Certificate, bits: int, balls: bool) -> bool:
    """Judge in so many bits, and return whether that is the end."""
    with ctx.workprec(max(bits, 128)):
        proof = Proof(certificate, PURE if balls else FLOATS if bits == 53 else BALLS)
        verdict.checks = proof.checks
        try:
            verdict.statement = prove(proof)
        except NotProvedError as error:
            verdict.reason = str(error)
            return error.decided
        verdict.answer, verdict.reason, verdict.course = "proved", "every inequality holds", proof.course
        return True


def _affordable(wanted: Cost, seconds: float, memory: float, verdict: Verdict) -> bool:
    """Return whether more bits can be afforded, and say so if not."""
    if wanted.seconds <= min(seconds, PATIENCE) and wanted.memory <= memory:
        return True
    verdict.reason += f"; more bits were not tried, they would take {wanted}"
    return False
