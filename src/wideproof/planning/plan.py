"""The plan: every candidate measured and ranked, one recommended, and what stands in the way of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wideproof.answers import Answer
from wideproof.cards import card, grid
from wideproof.data import AnyDataset, Conflicts, Dataset, SequenceDataset, conflicts, first_examples, prepare
from wideproof.errors import InputError
from wideproof.planning.candidates import ACTIVATIONS, DEPTHS, candidates
from wideproof.planning.evaluation import Row, evaluate
from wideproof.planning.proof import ProofNeed, proof_needs
from wideproof.planning.recommendation import Recommendation, recommend
from wideproof.planning.width import MOST_WEIGHTS, find_width
from wideproof.progress import Progress, Watch, unwatched

MOST_ROWS = 2000  # of a Gram matrix: all eigenvectors of one take seconds
_SHOWN = 12  # candidates in a notebook


@dataclass(frozen=True, eq=False)
class Plan:
    """Candidates in order, the fewest predicted steps first and the undecided last.

    Attributes
    ----------
    data
        The examples the plan was made for, as they were given (a part of them where there are too many).
    rows
        Every candidate.
    target_loss
        Half the sum of squares that the steps lead to.
    recommendation
        `None` where no Gram matrix is known to be positive definite.
    proofs
        What a proof before training needs, the least first; empty where the closed form does not apply.
    conflicts
        Repeated and contradicting examples.
    notes
        What to know, one sentence each.
    """

    data: AnyDataset
    rows: tuple[Row, ...]
    target_loss: float
    recommendation: Recommendation | None
    proofs: tuple[ProofNeed, ...]
    conflicts: Conflicts
    notes: tuple[str, ...]

    @property
    def answer(self) -> Answer:
        """Whether there is a network to recommend; it fails if equal examples rule it out."""
        if self.recommendation is not None:
            return Answer.HOLDS
        return Answer.FAILS if self.conflicts.duplicate_groups or self.conflicts.pairs else Answer.UNDECIDED

    def ranked(self, by: str = "steps") -> tuple[Row, ...]:
        """Return the rows by `"steps"` or by `"condition"` number, the undecided last.

        >>> from wideproof.data import load
        >>> data = load("sphere:n=5,d=3,separation=0.5")
        >>> found = plan(data, networks=["deep-relu"], depths=[1, 2], preparations=["unit"])
        >>> [row.condition.value for row in found.ranked("condition")] == sorted(r.condition.value for r in found.rows)
        True
        """
        return rank(self.rows, by)

    def __str__(self) -> str:
        lines = [str(self.data)]
        for row in self.rows:
            numbers = (
                f"undecided: {row.cause}" if row.condition is None else f"{row.condition.value:.3g}, {row.steps} steps"
            )
            lines.append(f"  {row.candidate}: {numbers}")
        lines.append("nothing to recommend" if self.recommendation is None else f"recommended: {self.recommendation}")
        lines += [f"  {reason}" for reason in (self.recommendation.reasons if self.recommendation else ())]
        lines += [f"a proof before training needs {one}" for one in self.proofs[:1]]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        best = self.recommendation
        facts: dict[str, object] = {"data": self.data, "recommended": "nothing" if best is None else best}
        for name, sentences in (("why", best.reasons if best else ()), ("note", self.notes)):
            facts |= {name if k == 0 else f"{name} {k + 1}": one for k, one in enumerate(sentences)}
        if self.proofs:
            facts["a proof before training needs"] = self.proofs[0]
        rows = [
            (one.network, one.activation or "relu", one.depth, one.preparation or "as loaded",
             "undecided" if row.condition is None else f"{row.condition.value:.3g}",
             "" if row.steps is None else row.steps)
            for row, one in ((row, row.candidate) for row in self.rows[:_SHOWN])
        ]  # fmt: skip
        left = f"the first {_SHOWN} of {len(self.rows)}" if len(self.rows) > _SHOWN else "all"
        heads = ("network", "activation", "depth", "preparation", "condition", "steps")
        return card("Plan", facts | {"candidates": left}, grid(heads, rows))


def rank(rows: Sequence[Row], by: str = "steps") -> tuple[Row, ...]:
    """Sort decided rows before undecided ones, then by steps or condition number, then by depth."""
    if by not in ("steps", "condition"):
        raise InputError(f"candidates are ranked by 'steps' or by 'condition', got {by!r}")

    def key(row: Row) -> tuple[bool, float | int, float | int, int]:
        steps = math.inf if row.steps is None else row.steps
        condition = math.inf if row.condition is None else row.condition.value
        first, second = (steps, condition) if by == "steps" else (condition, steps)
        return (not row.decided, first, second, row.candidate.depth)

    return tuple(sorted(rows, key=key))


def plan(
    data: AnyDataset,
    *,
    networks: Sequence[str] | None = None,
    activations: Sequence[str] = ACTIVATIONS,
    depths: Sequence[int] = DEPTHS,
    preparations: Sequence[str] | None = None,
    target_loss: float = 1e-6,
    seed: int = 0,
    most_rows: int | None = MOST_ROWS,
    most_weights: int = MOST_WEIGHTS,
    progress: Watch | None = None,
) -> Plan:
    r"""Rank candidates by the infinite-width Gram matrices $G$ they have on `data`, and recommend one.

    Steps are the least $k$ with $\tfrac12 \sum_i (1 - \lambda_i/\lambda_{\max})^{2k} \langle v_i, y\rangle^2$ at most
    `target_loss`. The width is the smallest power of two, from $\max(64, n)$ up, at which a drawn network has
    $\lambda_{\min}(G_m) \ge \tfrac12 \lambda_{\min}(G_\infty)$.

    Parameters
    ----------
    data
        As loaded; the candidates' preparations come on top of its own.
    networks, activations, depths, preparations
        What to choose from; by default every network for this kind of data, four activations, depths 1, 2, 3 and 6, and
        data as loaded, centred and whitened (images and sequences: standardized), ended by the step that the network's
        paper needs.
    seed
        Of the networks that are drawn to find the width.
    most_rows
        With more rows the plan is made for a part of the examples, as many of each class; `None` takes all.
    most_weights
        The largest network that is drawn.
    progress
        Is told which candidate is looked at.

    Examples
    --------
    >>> from wideproof.data import load
    >>> found = plan(load("sphere:n=6,d=3,separation=0.5"), networks=["fully-connected"], activations=["tanh"])
    >>> found.recommendation.row.candidate.activation, found.rows[0].steps <= found.rows[-1].steps
    ('tanh', True)
    """
    if not (math.isfinite(target_loss) and target_loss > 0):
        raise InputError(f"target_loss must be a number > 0, got {target_loss}: use a small one, such as 1e-6")
    tell = progress or unwatched
    chosen = candidates(data, networks, activations, depths, preparations)
    data, notes = _thinned(data, most_rows)
    total = len(chosen) + 2
    prepared: dict[str, AnyDataset | InputError] = {}
    rows = []
    for done, one in enumerate(chosen):
        tell(Progress("planning", done, total, str(one)))
        try:
            if one.preparation not in prepared:
                prepared[one.preparation] = _prepared(data, one.preparation)
            ready = prepared[one.preparation]
            if isinstance(ready, InputError):
                raise ready
            rows.append(evaluate(one, ready, target_loss))
        except InputError as error:  # a zero row has no direction, a network may have one output only
            notes.append(f"left out {one.network}, prepared by {one.preparation or 'nothing'}: {error}")
    if not rows:
        raise InputError(notes[-1])
    ready = {steps: one for steps, one in prepared.items() if not isinstance(one, InputError)}
    tell(Progress("planning", len(chosen), total, "finding what a proof would need"))
    proofs = proof_needs({s: one for s, one in ready.items() if "constant" not in s}, activations)
    ranked = rank(rows)
    recommended = None
    if ranked[0].decided:
        best = ranked[0].candidate
        own = ready[best.preparation]
        tried = find_width(
            best,
            own,
            target_loss,
            seed=seed,
            most_weights=most_weights,
            progress=lambda now: tell(Progress("planning", total - 1, total, now.text)),
        )
        recommended = recommend(ranked, best.build(own, tried[-1].width), tried, seed)
    clash = conflicts(data)
    notes = [*_equal(clash, target_loss), *notes, *_simplex(ready, data.n), *_undecided(ranked)]
    return Plan(data, ranked, float(target_loss), recommended, proofs, clash, tuple(dict.fromkeys(notes)))


def _thinned(data: AnyDataset, most: int | None) -> tuple[AnyDataset, list[str]]:
    each = data.x.shape[1] - 1 if isinstance(data, SequenceDataset) else 1
    if most is None or data.n * each <= most:
        return data, []
    part = data.take(first_examples(data, max(most // each, 1)))
    return part, [
        f"the plan is for {part.n} of {data.n} examples, as many of each class; with all of them the smallest "
        "eigenvalue is smaller and the steps are more (give a limit to choose the number yourself)"
    ]


def _prepared(data: AnyDataset, steps: str) -> AnyDataset | InputError:
    try:
        return prepare(data, steps)
    except InputError as error:
        return error


def _equal(clash: Conflicts, target_loss: float) -> list[str]:
    if clash.pairs:
        reach = "" if clash.least_square <= target_loss else ", so no network reaches the target loss"
        return [f"zero training loss is impossible: {clash}{reach}: remove them, or merge their targets"]
    if clash.duplicate_groups:
        i, j = clash.duplicates[0]
        return [
            f"{clash.duplicate_groups} groups of examples are equal (first: {i} and {j}), so every Gram matrix is "
            "singular and nothing can be ranked: keep one of each"
        ]
    return []


def _simplex(prepared: dict[str, AnyDataset], n: int) -> list[str]:
    """Whitening as many directions as there are examples leaves nothing of their geometry."""
    for steps, data in prepared.items():
        if "whiten" in steps and isinstance(data, Dataset) and np.linalg.matrix_rank(data.x) >= n - 1 > 1:
            return [
                f"whitening {n} examples with as many directions puts them at equal distances, whatever they were: "
                "the condition number is good, and nothing is learned about new examples"
            ]
    return []


def _undecided(rows: Sequence[Row]) -> list[str]:
    open_ones = [row for row in rows if not row.decided]
    if not open_ones:
        return []
    causes = sorted({row.cause for row in open_ones if row.cause})
    why = f" ({'; '.join(causes[:3])})" if causes else ""
    return [
        f"{len(open_ones)} of {len(rows)} candidates are undecided: rounding leaves the sign of the smallest "
        f"eigenvalue open{why}"
    ]
