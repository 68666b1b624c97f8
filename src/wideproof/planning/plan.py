"""What `prove` would do with a table, and why: the choice that it makes, and every candidate that it does not take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Context
from functools import cached_property
from typing import Any

from wideproof.answers import Answer
from wideproof.cards import card, grid
from wideproof.data import AnyDataset, Distinct, distinct, load
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.planning.candidates import Candidate
from wideproof.planning.choosing import Choice, choose
from wideproof.planning.comparing import FEW, QUICK, Compared, Merits, best_of
from wideproof.planning.estimates import Estimate
from wideproof.planning.looking import PROVABLE, Looked
from wideproof.planning.raising import raised
from wideproof.planning.scales import BUDGET, seconds_ahead, seconds_of
from wideproof.precision import double
from wideproof.progress import Progress, Watch, shown, unwatched
from wideproof.threads import threads_for

SHOWN = 12  # candidates that are listed


@dataclass(frozen=True)
class Row:
    r"""A candidate with the figures by which it was compared.

    Attributes
    ----------
    network
        The network, in words.
    preparation
        The preparation, in words.
    rows
        Number of distinct rows on which it was compared; `None` if nothing was computed.
    condition
        $\lambda_{\max}/\lambda_{\min}$ of the Gram matrix of one output.
    estimate
        Leave-one-out estimate on these rows, from that matrix.
    alpha
        Scale of the outputs; `None` without a forecast.
    steps
        Forecast number of steps to follow until a theorem applies; `None` without a forecast.
    seconds
        Forecast time that prover and verifier take to follow them; `None` without a forecast.
    why
        Why it was not chosen, or `"taken"`.
    """

    network: str
    preparation: str
    rows: int | None
    condition: float | None
    estimate: Estimate | None
    alpha: float | None
    steps: int | None
    seconds: float | None
    why: str

    def cells(self) -> tuple[str, ...]:
        """Return it as texts for a table.

        >>> Row("fully-connected, erf", "", 3, 7.25, None, 10.0, 4, 0.5, "").cells()
        ('fully-connected, erf', 'nothing', '7.2', '', '10', '4', '0.5', '')
        """
        condition, alpha = _digits(self.condition), "" if self.alpha is None else f"{self.alpha:g}"
        steps = "" if self.steps is None else f"{self.steps:,}"
        seconds = "" if self.seconds is None else f"{self.seconds:.1f}"
        prepared = self.preparation or "nothing"
        return self.network, prepared, condition, _short(self.estimate), alpha, steps, seconds, self.why


HEADS = ("network", "prepared by", "condition", "unseen", "alpha", "steps", "seconds", "")


@dataclass(frozen=True, eq=False)
class Plan:
    """What `prove` would do, and why.

    Attributes
    ----------
    data
        The data as loaded.
    choice
        The choice with which `prove` begins; the same function makes it from the same options and seed.
    budget
        Seconds that following the steps from the initial weights may take.
    asked
        The options that were given, by name.
    others
        If several networks, widths, depths, activations or preparations were given: the plans for the other
        combinations, the best first.
    left_out
        Combinations that do not fit the data, or whose options exclude each other, one sentence each.
    """

    data: AnyDataset
    choice: Choice
    budget: float
    asked: Mapping[str, Any]
    others: tuple[Plan, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def groups(self) -> Distinct:
        """The distinct inputs with their counts, and the least loss of any function."""
        return distinct(self.data)

    @property
    def taken(self) -> Compared | Looked:
        """The candidate that was taken, with what it was compared by."""
        return self.choice.looked[0]

    @property
    def estimate(self) -> Estimate | None:
        """How good predictions on unseen rows are, by folds."""
        return self.choice.estimate

    @property
    def alpha(self) -> float | None:
        """What the outputs are multiplied by; `None` where the network has no such factor."""
        return self.choice.scales[0].alpha if self.choice.scales else getattr(self.choice.network, "alpha", None)

    @property
    def steps(self) -> int | None:
        """How many steps have to be followed until a theorem takes over, 0 for a proof at once; `None`: no forecast."""
        return self.choice.scales[0].forecast if self.choice.scales else None

    @cached_property
    def seconds(self) -> float | None:
        """How long prover and verifier take to follow these steps, about; `None` where that is not forecast."""
        if not self.choice.scales:
            return None
        return _known(seconds_ahead(self.choice.scales[0], seconds_of(self.choice.network, self.groups.n)))

    @property
    def provable(self) -> bool:
        """Whether a Gram matrix was computed, and lets expect a proof."""
        return self.taken.provable and _condition(self.taken) is not None

    @property
    def answer(self) -> Answer:
        """Whether a proof is to be expected: yes, or undecided."""
        return Answer.of(True if self.provable else None)

    @property
    def merits(self) -> Merits:
        """What plans are sorted by."""
        seconds = math.inf if self.seconds is None else self.seconds
        alpha = math.inf if self.alpha is None else self.alpha
        return Merits(self.provable, self.estimate, alpha, seconds, self.steps or 0)

    @property
    def facts(self) -> dict[str, str]:
        """What would be done, by name."""
        choice, groups = self.choice, self.groups
        size = choice.step_size if isinstance(choice.step_size, str) else f"{_at_most(choice.step_size)} at most"
        found = {
            "data": str(self.data),
            "distinct rows": f"{groups.n} of {self.data.n}{_equal(groups)}",
            "prepared by": choice.preparation or "nothing",
            "network": str(choice.network),
            "seed": str(choice.seed),
            "step size": size,
        }
        if self.alpha is not None:
            found["alpha"] = f"{self.alpha:g}"
        found["steps"] = self._steps()
        found["unseen rows"] = "no estimate" if self.estimate is None else str(self.estimate)
        if len(choice.scales) > 1:
            later = " or ".join(
                f"alpha = {one.alpha:g} ({'none' if one.at_once else f'about {one.forecast:,}'} to be followed)"
                for one in choice.scales[1:]
            )
            found["if not proved"] = later
        return found

    def _steps(self) -> str:
        most = f"{self.choice.steps:,} at most"
        if self.steps is None:
            return f"{most}; how many have to be followed is not forecast for this network"
        if self.steps == 0:
            return f"none has to be followed, the initial weights themselves are expected to have a proof; {most} shown"
        took = "" if self.seconds is None else f", which takes about {self.seconds:.1f} s (allowed: {self.budget:g} s)"
        return f"about {self.steps:,} to be followed from the start{took}; {most}"

    @property
    def why(self) -> str:
        """Why this candidate is taken, in a sentence."""
        looked = self.choice.looked
        if len(looked) == 1:
            return "it is the only candidate"
        if isinstance(looked[0], Compared):
            found = [one for one in looked if isinstance(one, Compared)]
            return why_taken([one.merits for one in found], len(self.choice.left))
        return _why_looked([one for one in looked if isinstance(one, Looked)])

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every candidate, the one that is taken first."""
        looked, left = self.choice.looked, self.choice.left
        compared = [one for one in looked if isinstance(one, Compared)]
        best = best_of([one.merits for one in compared]) if compared else None
        found = []
        for place, one in enumerate((*looked, *left)):
            if place == 0:
                why = "taken"
            elif isinstance(one, Looked):
                why = _why_not_looked(one, [other for other in looked if isinstance(other, Looked)])
            elif place >= len(looked):
                why = _why_left(one, best_of([other.merits for other in left]))
            else:
                assert best is not None
                why = why_not(one.merits, compared[0].merits, best)
            found.append(_row(one, why))
        return tuple(found)

    @property
    def _how(self) -> str:
        """By which matrix candidates were compared."""
        if isinstance(self.taken, Looked):
            return "compared at infinite width (unseen: leaving out each row in turn)"
        several = isinstance(self.taken, Compared) and self.taken.ahead is not self.taken.outlook
        scale = "; alpha and steps of those as good as the best by that of all outputs" if several else ""
        return f"by the Gram matrix of one output at the start{scale} (unseen: leaving out each row in turn)"

    @property
    def combinations(self) -> tuple[Row, ...]:
        """The plans for the other combinations that were asked for, as rows of a table; estimates are by folds."""
        every = [self, *self.others]
        best = best_of([one.merits for one in every])
        return tuple(
            Row(_network(one.choice.network), one.choice.preparation, distinct(one.data).n, _condition(one.taken),
                one.estimate, one.alpha, one.steps, one.seconds, why_not(one.merits, self.merits, best))
            for one in self.others
        )  # fmt: skip

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know besides, a sentence each."""
        groups, told = self.groups, []
        if groups.least > 0:
            told.append(
                f"{len(groups.contradicting)} rows have an equal row with another target, so zero loss is impossible: "
                f"the least loss of any function is {groups.least_loss[0]:.4g}, and by proof the loss tends to it"
            )
        return (*told, *self.data.notes, *self.choice.notes, *self.left_out)

    def __str__(self) -> str:
        return self.text()

    def text(self, top: int = SHOWN) -> str:
        """Return the plan as text.

        Parameters
        ----------
        top
            Number of candidates to list; 0 lists all.

        Returns
        -------
        str
            Several lines.
        """
        wide = max(len(name) for name in self.facts)
        lines = [f"{name:{wide}}  {value}" for name, value in self.facts.items()]
        lines += ["", f"Why: {self.why}."]
        if self.others:
            lines += ["", "Other combinations that were asked for, the best first (unseen rows by folds):"]
            lines += _columns([HEADS, *(one.cells() for one in self.combinations)])
        rows = self.rows
        shown = rows[:top] if top else rows
        if len(rows) > 1:
            lines += ["", f"{len(shown)} of {len(rows)} candidates, {self._how}:"]
            lines += _columns([HEADS, *(one.cells() for one in shown)])
        return "\n".join([*lines, *([""] if self.notes else []), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        facts = {**self.facts, "why": self.why}
        facts |= {"note" if k == 0 else f"note {k + 1}": one for k, one in enumerate(self.notes)}
        rows = [*self.rows[:1], *self.combinations, *self.rows[1:]]
        return card("Plan", facts, grid(HEADS, [one.cells() for one in rows[:SHOWN]]))

    def to_dict(self) -> dict[str, Any]:
        """Return numbers and texts, ready for JSON."""
        groups = self.groups
        return {
            "answer": self.answer.truth,
            "data": {"name": self.data.name, "n": self.data.n, "distinct": groups.n, "digest": self.data.digest,
                     "least_loss": groups.least_loss[0], "contradicting": groups.contradicting.tolist()},
            "asked": dict(self.asked), "choice": self.choice.to_dict(),
            "alpha": self.alpha, "steps": self.steps, "seconds": self.seconds, "why": self.why,
            "candidates": [asdict(row) for row in self.rows],
            "others": [{"asked": dict(one.asked), **asdict(row)}
                       for one, row in zip(self.others, self.combinations, strict=True)],
            "notes": list(self.notes),
        }  # fmt: skip


@shown
@double
def plan(
    source: Any,
    target: str | int | None = None,
    *,
    network: str | Network | Sequence[str] | None = None,
    width: int | Sequence[int | None] | None = None,
    depth: int | Sequence[int | None] | None = None,
    activation: str | Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
    prepare: str | Sequence[str] = "auto",
    seed: int = 0,
    steps: int | None = None,
    alpha: float | None = None,
    budget: float = BUDGET,
    progress: Watch | None = None,
    **loading: Any,
) -> Plan:
    """Say what `prove` would do with a table, and why; nothing is trained.

    The arguments are those of `prove`, and the same functions make the choice. Several networks, widths, depths,
    activations and preparations may be given: then there is a plan for every combination, the best first.

    Parameters
    ----------
    source
        A file, the name of a bundled data set, a DataFrame, a pair `(X, y)` or a data set.
    target
        The column to predict, by name or number; by default the last one.
    network
        Name of the network, or several; `None` leaves it open. A network that is already built leaves nothing to
        choose, and is refused.
    width
        Number of hidden units in each layer, or several; `None` leaves it open.
    depth
        Number of hidden layers, or several; `None` leaves it open.
    activation
        Name of the activation, or several; `None` leaves it open.
    options
        Further options of the network, by name.
    prepare
        Preparation steps, `"none"`, or `"auto"`; or several of them.
    seed
        Seed of the initial weights.
    steps
        Maximum number of training steps; `None` leaves it open.
    alpha
        Scale of the outputs; by default the least of 1, 3, 10, 30, … whose steps are forecast to fit `budget`.
    budget
        Seconds that following the steps may take.
    progress
        Callback; receives a `Progress` with the candidate that is being compared.
    **loading
        Further arguments of `load`, such as `classes`, `limit`, `missing`.

    Returns
    -------
    Plan
        The plan. `print` shows it; `to_dict` gives its numbers.

    Examples
    --------
    >>> found = plan("iris", limit=30, prepare=["standardize,sphere(4)", "standardize,sphere(8)"], width=256)
    >>> found.choice.network.width, len(found.others), found.estimate.value > found.estimate.guess
    (256, 1, True)
    """
    if not 0 <= budget < math.inf:
        raise InputError(f"the budget must be a number of seconds, at least 0, got {budget}")
    tell, data = progress or unwatched, load(source, target=target, **loading)
    axes = {"network": network, "width": width, "depth": depth, "activation": activation, "prepare": prepare}
    grids = {name: _several(name, value) for name, value in axes.items()}
    combinations = [dict(zip(grids, values, strict=True)) for values in itertools.product(*grids.values())]
    found, left_out = [], []
    with threads_for(distinct(data).n):
        for place, one in enumerate(combinations):
            told = _beside(tell, place, len(combinations), one)
            given = {"seed": seed, "steps": steps, "alpha": alpha, "budget": float(budget), **(options or {})}
            try:
                choice = choose(data, progress=told, **one, **given)
            except InputError as error:
                if len(combinations) == 1:
                    raise
                left_out.append(f"left out {_words(one)}: {error}")
                continue
            tell(Progress("planning", place, len(combinations), "looking at the initial weights"))
            choice = choice if alpha is not None else raised(choice)
            asked = {key: value for key, value in (one | given).items() if value is not None}
            found.append(Plan(data, choice, float(budget), asked))
    if not found:
        raise InputError(left_out[0])
    best = best_of([one.merits for one in found])
    first, *others = sorted(found, key=lambda one: one.merits.key(best))
    return Plan(data, first.choice, first.budget, first.asked, tuple(others), tuple(left_out))


def why_taken(found: Sequence[Merits], left: int) -> str:
    """Say why the first of those that were compared to the end is taken.

    >>> def merits(value, alpha, seconds, steps):
    ...     return Merits(True, Estimate("accuracy", value, 0.5, 0.02, 100), alpha, seconds, steps)
    >>> why_taken([merits(0.9, 1.0, 5.0, 20), merits(0.905, 1.0, 3.0, 50), merits(0.8, 1.0, 1.0, 9)], 0)
    'of the 3 candidates compared to the end, 2 have the best estimate, 90.5 ± 2.0 \
%, or one within a standard error of it; of these it is forecast to need at most 20 steps'
    """
    first, best = found[0], best_of(found)
    behind = f" ({left} were left behind before)" if left else ""
    every = f"of the {len(found)} candidates compared to the end{behind},"
    if not first.provable:
        return f"{every} none lets expect a proof; it is the first of them"
    good = [one for one in found if one.provable and not one.below(best)]
    if len(good) == 1:
        return (
            f"{every} it has the best estimate, {_short(first.estimate)}, and no other one that lets expect a proof is "
            "within a standard error of it"
        )
    small = [one for one in good if one.alpha == first.alpha]
    quick = [one for one in small if one.slow == first.slow]
    few = [one for one in quick if one.many == first.many]
    least = [one for one in few if one.seconds == first.seconds]
    reasons = []
    if len(small) < len(good):
        reasons.append(f"needs the least alpha ({first.alpha:g})")
    if len(quick) < len(small):
        fewest = "the fewest seconds" if first.slow else f"at most {QUICK:g} s"
        reasons.append(f"is forecast to take {fewest}")
    if len(few) < len(quick):
        reasons.append(f"is forecast to need {'the fewest' if first.many else f'at most {FEW}'} steps")
    if len(least) < len(few):
        reasons.append("the fewest seconds" if reasons else "is forecast to take the fewest seconds")
    if len(least) > 1:
        reasons.append("is not behind in its estimate" if not reasons else "then is not behind in its estimate")
    return (
        f"{every} {len(good)} have the best estimate, {_short(best.estimate)}, or one within a standard error of "
        f"it; of these it {' and '.join(reasons)}"
    )


def why_not(one: Merits, taken: Merits, best: Merits) -> str:
    """Say in what a candidate is behind the one that is taken.

    >>> good = Merits(True, Estimate("accuracy", 0.9, 0.5, 0.02, 100), 1.0, 5.0)
    >>> why_not(good._replace(alpha=10.0), good, good)
    'as good, with a larger alpha'
    """
    if not one.provable:
        return "no proof is to be expected"
    if one.below(best):
        return "predicts worse: more than a standard error below the best"
    if one.alpha != taken.alpha:
        return "as good, with a larger alpha" if math.isfinite(one.alpha) else "as good, with no alpha to be forecast"
    if one.slow != taken.slow:
        return "as good, slower" if math.isfinite(one.seconds) else "as good, its seconds are not forecast"
    if one.many != taken.many:
        return "as good, with more steps"
    if one.seconds != taken.seconds:
        return "as good, slower"
    return "as good and as quick, with no better estimate"


def _why_left(one: Compared, best: Merits) -> str:
    """Say why a candidate is not among the last; `best` is the best of those that are not."""
    on = f"left behind on {one.rows} distinct rows"
    if not one.provable:
        return f"{on}: no proof is to be expected"
    if one.merits.below(best, 1.0):
        return f"{on}: predicts worse, more than a standard error below another one"
    return f"{on}: neither among the best estimates nor, of those near them, among the fewest steps"


def _why_looked(looked: Sequence[Looked]) -> str:
    """Say why the first of those that were compared at infinite width is taken; see `looking.rank`."""
    good = [one for one in looked if one.provable]
    if not good:
        return f"none of the {len(looked)} candidates lets expect a proof; it is the best conditioned{_sphere(looked)}"
    near = [one for one in good if not _worse(one, good)]
    if len(near) == 1:
        return f"of the {len(good)} candidates that let expect a proof, no other's estimate is as good as its own"
    return (
        f"of the {len(looked)} candidates, {len(near)} let expect a proof and predict as well as others, within a "
        f"standard error; of these it is the best conditioned at infinite width{_sphere(looked)}"
    )


def _why_not_looked(one: Looked, looked: Sequence[Looked]) -> str:
    good = [other for other in looked if other.provable]
    if good and not one.provable:
        return f"no proof is to be expected: its smallest eigenvalue is below {PROVABLE:g}"
    if _worse(one, good):
        return "predicts worse: more than a standard error below another one"
    return f"worse conditioned{_sphere(looked)}"


def _sphere(looked: Sequence[Looked]) -> str:
    spheres = any("sphere" in one.candidate.preparation for one in looked)
    return ", the radius of its sphere counted in" if spheres else ""


def _worse(one: Looked, others: Sequence[Looked]) -> bool:
    """Return whether another candidate's estimate is more than its standard error above."""
    known = [other.estimate for other in others if other.estimate is not None]
    return one.estimate is not None and any(one.estimate.value < other.value - other.error for other in known)


def _row(one: Compared | Looked, why: str) -> Row:
    if isinstance(one, Looked):
        return Row(_of(one.candidate), one.candidate.preparation, _rows_of(one), _condition(one), one.estimate,
                   None, None, None, why)  # fmt: skip
    return Row(_network(one.outlook.network), one.preparation, one.rows, _condition(one), one.estimate,
               one.scale.alpha, one.scale.forecast, _known(one.seconds), why)  # fmt: skip


def _rows_of(one: Looked) -> int | None:
    return None if one.estimate is None else one.estimate.rows


def _condition(one: Compared | Looked) -> float | None:
    """Return the condition number where it is known: one that nothing was compared with has none."""
    if isinstance(one, Compared):
        return _known(one.outlook.condition)
    return _known(one.turns) if one.largest > 0 else None


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _of(one: Candidate) -> str:
    return str(one).partition(", prepared by")[0]


def _network(network: Network) -> str:
    activation, depth, width = (getattr(network, name, None) for name in ("activation", "depth", "width"))
    words = [network.name, *([] if activation is None else [activation.name])]
    words += [] if depth in (None, 1) else [f"depth {depth}"]
    return ", ".join([*words, *([] if width is None else [f"width {width}"])])


def _equal(groups: Distinct) -> str:
    if not groups.repeated:
        return ""
    return ": equal rows count as one with a weight"


def _several(name: str, value: Any) -> list[Any]:
    if isinstance(value, Network):
        raise InputError("a plan is for networks by name: of one that is built there is nothing left to choose")
    if value is None or isinstance(value, str | int):
        return [value]
    found = list(dict.fromkeys(value))
    if not found:
        raise InputError(f"{name} names at least one choice, got {value!r}")
    return found


def _beside(tell: Watch, place: int, total: int, one: Mapping[str, Any]) -> Watch:
    if total == 1:
        return lambda now: tell(Progress("planning", now.done, now.total, now.text))
    return lambda now: tell(Progress("planning", place, total, f"{_words(one)}: {now.text}"))


def _words(one: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in one.items() if value is not None)


def _short(estimate: Estimate | None) -> str:
    if estimate is None or not math.isfinite(estimate.value):
        return ""
    if estimate.kind == "accuracy":
        return f"{100 * estimate.value:.1f} ± {100 * estimate.error:.1f} %"
    return f"R² {estimate.value:.3f} ± {estimate.error:.3f}"


def _digits(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2g}" if not 10 <= value < 1e6 else f"{value:,.0f}"


def _at_most(value: float) -> str:
    """Return a number with four digits, rounded up.

    >>> _at_most(0.01133484), _at_most(0.25)
    ('0.01134', '0.25')
    """
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(value)):.4g}"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
