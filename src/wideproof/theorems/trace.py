r"""Constants with their places in a proof, the widths that its steps ask for, and the least width that meets all.

A proof says "for a small enough constant" where it needs an inequality. Here each inequality is solved for the width,
and each constant in it is a number with a name, a place in the paper, and how it was come by:

* `data`: measured on the table; `asked`: a choice of who asks (depth, accuracy, probability);
* `proof`: follows from the proof's own steps, with textbook inequalities in their explicit form;
* `printed`: what a printed step gives although that step has a gap, named beside it;
* `taken as 1`: the text gives no way to a value.

Widths may exceed the largest float: everything is computed with $x = \ln m$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

How = Literal["data", "asked", "proof", "printed", "taken as 1"]
Needed = Callable[[float], float]  # ln of the width that is asked for, where ln m = x
LN10 = math.log(10)
_ROUNDS = 10_000


@dataclass(frozen=True)
class Constant:
    """A constant of a proof, with its value and origin.

    Costs do not add up, since one constant can enter another.

    Attributes
    ----------
    name
        Name of the constant.
    value
        Its value.
    place
        Where it stands in the paper.
    how
        Its origin: `"data"` (measured), `"asked"` (an argument), `"proof"` (it follows from the proof), `"printed"`
        (the paper states it), or `"taken as 1"`.
    cost
        How many powers of ten of the width it costs: by how much the width would shrink if it were 1.
    """

    name: str
    value: float
    place: str
    how: How
    cost: float = math.nan


@dataclass(frozen=True)
class Requirement:
    """One inequality of a proof, solved for the width.

    Attributes
    ----------
    lemma
        The lemma that needs it.
    says
        The inequality in words.
    log10_width
        Logarithm to base 10 of the width at which it holds, with all other inequalities met.
    """

    lemma: str
    says: str
    log10_width: float


@dataclass
class Trace:
    """What a proof needs, collected while its constants are computed; the number called `without` is 1.

    >>> trace = Trace()
    >>> c = trace.let("C", 3.0, "Lemma 1")
    >>> trace.need("Lemma 1", "m >= 3 log m", lambda x: math.log(c * x))
    >>> round(math.exp(trace.solve()), 3), trace.binding(trace.solve()).lemma  # the least m >= 2 with m >= 3 log m
    (4.536, 'Lemma 1')
    """

    without: str | None = None
    constants: list[Constant] = field(default_factory=list)
    needs: list[tuple[str, str, Needed]] = field(default_factory=list)
    step: Needed | None = None  # ln of the step size
    iterations: Needed | None = None  # ln of the number of iterations
    notes: list[str] = field(default_factory=list)

    def let(self, name: str, value: float, place: str, how: How = "proof") -> float:
        """Write a constant down and return its value, or 1 where the proof is to be read without it."""
        self.constants.append(Constant(name, float(value), place, how))
        return 1.0 if name == self.without else float(value)

    def need(self, lemma: str, says: str, log_width: Needed | float) -> None:
        """Write an inequality down: the logarithm of the width that it asks for, given that of the width."""
        asked: Needed = log_width if callable(log_width) else lambda _, fixed=float(log_width): fixed
        self.needs.append((lemma, says, asked))

    def solve(self) -> float:
        r"""Return the least $\ln m \ge \ln 2$ that meets every inequality; infinity where none does.

        Right sides grow like logarithms of the width, so that rising to what is asked for ends at the least solution.
        """
        x = math.log(2)
        for _ in range(_ROUNDS):
            asked = max([x, *(need(x) for *_, need in self.needs)])
            if math.isnan(asked) or asked == math.inf:
                return math.inf
            if asked - x <= 1e-13 * max(1.0, asked):
                return asked
            x = asked
        return math.inf

    def requirements(self, x: float) -> tuple[Requirement, ...]:
        """Return every inequality with the width that it asks for there, the largest first."""
        found = [Requirement(lemma, says, need(x) / LN10) for lemma, says, need in self.needs]
        return tuple(sorted(found, key=lambda one: -one.log10_width))

    def binding(self, x: float) -> Requirement:
        """Return the inequality that asks for most."""
        return self.requirements(x)[0]


def geometric(ratio: float, terms: int) -> float:
    r"""Return $g_\alpha(n) = \sum_{i<n} \alpha^i$, as Du et al. write it.

    >>> geometric(2.0, 4), geometric(1.0, 3), geometric(2.0, 0)
    (15.0, 3.0, 0)
    """
    return sum(ratio**i for i in range(terms))
