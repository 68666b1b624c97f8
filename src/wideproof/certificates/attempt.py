"""What came of an attempt to prove convergence: a certificate, or the obstacle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeVar

from wideproof.cards import Told
from wideproof.certificates.anchor import Anchor
from wideproof.certificates.certificate import Certificate
from wideproof.certificates.lipschitz import lipschitz
from wideproof.certificates.squared_loss import Convergence, proof_ratio

Level = Literal["float64", "enclosed"]
F = TypeVar("F")


@dataclass(frozen=True)
class Obstacle(Told):
    """Why there is no proof.

    Attributes
    ----------
    quantity
        The quantity that prevents the proof: `"contradiction"`, `"parameters"`, `"eigenvalue"`, `"ratio"`, `"kink"`,
        `"divergence"`, `"polishing"`; of basins also `"distance"`, `"repeats"` or `"rows"`; of weight decay `"decay"`
        or `"gradient"`.
    value
        Its value.
    needed
        The value that the proof needs.
    reason
        The reason, in one sentence.
    advice
        What to change, the most promising first.
    """

    quantity: str
    value: float
    needed: float
    reason: str
    advice: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.reason}: {'; or '.join(self.advice)}" if self.advice else self.reason


@dataclass(frozen=True, eq=False)
class Attempt(Told, Generic[F]):
    """The result of an attempt to prove something: a certificate or an obstacle, and the numbers at the anchor.

    An impossible problem has both: a certificate that zero loss does not exist, and an obstacle that says so.

    Attributes
    ----------
    anchor
        The numbers at the anchor; `None` if they were not computed.
    certificate
        The certificate; `None` if there is none.
    obstacle
        Why there is no proof; `None` if there is one.
    conclusion
        What the theorem says about the weights, in numbers; its type depends on the theorem.
    """

    anchor: Anchor | None
    certificate: Certificate | None
    obstacle: Obstacle | None
    conclusion: F | None = None

    @property
    def descent(self) -> Convergence | None:
        """The conclusion of Theorem 1, where it was asked for (`Descent`) and holds."""
        return self.conclusion if isinstance(self.conclusion, Convergence) else None

    @cached_property
    def h(self) -> float:
        r"""The proof ratio $\Lambda \rho / s^2$: at the radius of the proof, or at $2 \rho / s$ where there is none."""
        if self.descent is not None:
            return self.descent.h
        if self.anchor is None or not self.anchor.s > 0:
            return math.inf
        a = self.anchor
        return proof_ratio(a.residual, a.s, lipschitz(a, 2 * a.residual / a.s).value)

    @property
    def passed(self) -> bool:
        """Whether convergence is certified."""
        return self.certificate is not None and self.obstacle is None

    def __str__(self) -> str:
        if self.certificate is not None:
            return self.certificate.summary
        return str(self.obstacle)
