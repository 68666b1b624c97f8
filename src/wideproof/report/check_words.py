"""What a study of the papers' statements found, in words and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from wideproof.answers import Answer
from wideproof.papers import PAPERS, Check, Findings, Measured, Statement, errata, index

ROLES = (
    "hypothesis", "setting", "initialization", "perturbation", "gradient", "smoothness", "convergence",
    "generalization", "tool",
)  # fmt: skip
FALSE = "false as printed"  # so begins the reason of a statement that is known to be false
POINTS = 6  # of a fit that are all said


def headline(found: Findings) -> str:
    """Return the one sentence that sums the study up."""
    counted = Counter(one.check.outcome for one in found.measured)
    failed = [one.statement for one in found.measured if one.check.outcome is Answer.FAILS]
    return _summed(counted, "hold on real networks", "undecided", len(found.surprises), failed)


def by_seed(kept: Mapping[str, Any]) -> str:
    """Return the one sentence that sums a study with one seed or several up (`joined`): what holds with all of them.

    Examples
    --------
    >>> one = {"by_seed": ["holds", "undecided"], "as_expected": True}
    >>> by_seed({"seeds": [0, 1], "statements": {"zou2018.lemma_a_1": one}}).partition(";")[0]
    '0 of 1 statements hold on real networks with every seed, 1 is undecided with a seed'
    """
    rows = list(kept["statements"].values())
    counted = Counter(Answer.joined(map(Answer, row["by_seed"])) for row in rows)
    several = len(kept["seeds"]) > 1
    said = "hold on real networks" + (" with every seed" if several else "")
    surprises = sum(not row["as_expected"] for row in rows)
    known = {one.name: one for paper in PAPERS for one in index(paper)}
    failed = [known[name] for name, row in kept["statements"].items() if Answer.FAILS in row["by_seed"]]
    return _summed(counted, said, "undecided" + (" with a seed" if several else ""), surprises, failed)


def _summed(counted: Counter[Answer], hold: str, undecided: str, surprises: int, failed: Sequence[Statement]) -> str:
    said = f"{counted[Answer.HOLDS]} of {counted.total()} statements {hold}"
    fails, open_ = counted[Answer.FAILS], counted[Answer.UNDECIDED]
    failing = f"{fails} fail{'s' if fails == 1 else ''}"
    opened = [f"{open_} {'is' if open_ == 1 else 'are'} {undecided}"] if open_ else []
    if surprises:
        rest = [failing] * bool(fails) + opened
        return f"{said}{', ' if rest else ''}{' and '.join(rest)}; {surprises} of them not as expected."
    said = ", ".join([said, *opened])
    if not fails:
        return f"{said}; nothing fails that should hold."
    false = all(one.why.startswith(FALSE) for one in failed)
    why = f": {'it is' if fails == 1 else 'they are'} {FALSE}" if false else ""
    return f"{said}; {failing}, as expected{why}."


def matrix(found: Findings) -> list[tuple[str, list[Counter[Answer]]]]:
    """Return a row for each role and a cell for each paper of the study: how many came out how."""
    papers = [paper for paper in PAPERS if any(one.statement.paper == paper for one in found.measured)]
    rows = []
    for role in ROLES:
        cells = [
            Counter(o.check.outcome for o in found.measured if (o.statement.paper, o.statement.role) == (paper, role))
            for paper in papers
        ]
        if any(cells):
            rows.append((role, cells))
    return rows


def papers_of(found: Findings) -> list[str]:
    """Return the papers in the study, in order."""
    return [paper for paper in PAPERS if any(one.statement.paper == paper for one in found.measured)]


def cell(counted: Counter[Answer]) -> str:
    """Return a cell of the matrix: how many hold, then failures (✗) and undecided ones (?).

    Examples
    --------
    >>> cell(Counter({Answer.HOLDS: 12, Answer.FAILS: 1}))
    '12 ✓ 1 ✗'
    """
    marks = ((Answer.HOLDS, "✓"), (Answer.FAILS, "✗"), (Answer.UNDECIDED, "?"))
    return " ".join(f"{counted[outcome]} {mark}" for outcome, mark in marks if counted[outcome])


def reason(statement: Statement, note: str) -> str:
    """Return why a statement does not hold: what the index knows, and what this study measured."""
    return "; ".join(part for part in (statement.why, "" if note in statement.why else note) if part)


def spoken(statement: Statement) -> str:
    """Return a statement's name as one says it.

    Examples
    --------
    >>> spoken(index("zou2018")[2])
    'Assumption 3.1'
    """
    kind, *rest = statement.id.split("_")
    if rest and len(rest[0]) == 1:
        rest[0] = rest[0].upper()
    clause = f"({rest.pop()})" if len(rest) > 1 and rest[-1].isalpha() else ""
    return f"{'Eq.' if kind == 'eq' else kind.capitalize()} {'.'.join(rest)}{clause}"


def misprints(statement: Statement) -> list[str]:
    """Return what is noted on the text of a statement and of its clauses: misprints, gaps, ambiguities.

    Examples
    --------
    >>> (whole,) = (one for one in index("zou2018") if one.id == "theorem_5_1")
    >>> misprints(whole)[0]
    '(i) true only when the input dimension is at most of the order of the width'
    """
    clauses = [one for one in index(statement.paper) if one.id.startswith(f"{statement.id}_") and one.erratum]
    own = [statement.erratum] if statement.erratum else []
    return own + [f"({one.id.removeprefix(f'{statement.id}_')}) {one.erratum}" for one in clauses]


def misprinted(statement: Statement) -> list[str]:
    """Return the notes on the text, what is measured, and the command that measures both forms; or nothing."""
    said = misprints(statement)
    if not said:
        return []
    as_printed = statement.expected is Answer.FAILS
    form = "It is measured as printed" if as_printed else "Measured is what stands below"
    both = f"; `wideproof errata {statement.name}` measures both forms" if errata(statement.name) else ""
    return [*said, f"{form}{both}."]


def decisive(check: Check) -> Check:
    """Return the comparison whose numbers a check shows."""
    same = (leaf for leaf in check.leaves() if leaf.slope is check.slope and leaf.slack == check.slack)
    return next(same, check)


def compared(check: Check) -> str:
    """Return one comparison: its title, its numbers, and the points of a fit.

    Examples
    --------
    >>> from wideproof.papers.check import at_most
    >>> compared(at_most("‖W‖ <= 3", 2.0, 3.0))
    '‖W‖ <= 3: 2 against 3, holds for C >= 0.667'
    """
    said = "; ".join(text for text in (check.numbers(), check.note, _points(check)) if text)
    return f"{check.title}: {said}" if said else check.title


def _points(check: Check) -> str:
    if check.slope is None:
        return ""
    points = [figure(x) for x in check.slope.x]
    shown = ", ".join(points) if len(points) <= POINTS else f"{points[0]} to {points[-1]}, {len(points)} points"
    return f"fitted at {check.slope.variable} = {shown}"


def supposed(check: Check) -> str:
    """Return a hypothesis and whether the networks of the study meet it.

    Examples
    --------
    >>> from wideproof.papers.check import at_least
    >>> supposed(at_least("m >= n⁴", 256.0, 82_532.0))
    'not met: m >= n⁴ (256, where 82,532 is asked for)'
    """
    met = {Answer.HOLDS: "met", Answer.FAILS: "not met", Answer.UNDECIDED: "undecided"}[check.outcome]
    if check.left is None or check.right is None:
        return f"{met}: {check.title}"
    asked = f"{figure(check.left)}, where {figure(check.right)} is asked for"
    if check.outcome is Answer.HOLDS:
        asked = f"{figure(check.left)} against {figure(check.right)}"
    return f"{met}: {check.title} ({asked})"


def figure(value: float) -> str:
    """Return a number as one reads it.

    Examples
    --------
    >>> figure(82_532.4), figure(0.33333333), figure(6.42e9)
    ('82,532', '0.3333', '6.42e+09')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 10_000_000 else f"{value:.4g}"


def missing(paper: str) -> list[Statement]:
    """Return the rows of a paper's index that nothing can be computed for."""
    return [one for one in index(paper) if not one.checkable]


def command(one: Measured, found: Findings) -> str:
    """Return the command that measures one statement again."""
    study = "" if found.study == "quick" else f" --study {found.study}"
    seed = f" --seed {found.seed}" if found.seed else ""
    return f"wideproof check {one.statement.name}{study}{seed}{widths_option(found)}"


def widths_option(found: Findings) -> str:
    """Return the option that asks for the widths of a study, or nothing where they are the study's own."""
    return "" if found.widths is None else f" --widths {','.join(map(str, found.widths))}"


def widths_line(found: Findings) -> str:
    """Return at which widths exponents were fitted, and which statements do not use them.

    Parameters
    ----------
    found
        What `examine` returned.
    """
    if found.widths is None:
        return f"Widths of the study {found.study}."
    said = f"Exponents in the width are fitted over {', '.join(map(str, found.widths))}"
    own = [one.statement.name for one in found.elsewhere]
    if not own:
        return f"{said}."
    return f"{said}; {len(own)} of {len(found.measured)} statements do not use them: {', '.join(own)}."
