"""What a study of the papers' statements found, in words and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from wideproof.answers import Answer
from wideproof.papers import PAPERS, Findings, Measured, Statement, index

ROLES = (
    "hypothesis", "setting", "initialization", "perturbation", "gradient", "smoothness", "convergence",
    "generalization", "tool",
)  # fmt: skip


def headline(found: Findings) -> str:
    """Return the one sentence that sums the study up."""
    counted = Counter(one.check.outcome for one in found.measured)
    return _summed(counted, "hold on real networks", "undecided", len(found.surprises))


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
    return _summed(counted, said, "undecided" + (" with a seed" if several else ""), surprises)


def _summed(counted: Counter[Answer], hold: str, undecided: str, surprises: int) -> str:
    said = f"{counted[Answer.HOLDS]} of {counted.total()} statements {hold}"
    fails, open_ = counted[Answer.FAILS], counted[Answer.UNDECIDED]
    rest = [f"{fails} fail{'s' if fails == 1 else ''}"] if fails else []
    rest += [f"{open_} {'is' if open_ == 1 else 'are'} {undecided}"] if open_ else []
    said += f", {' and '.join(rest)}" if rest else ""
    return f"{said}; {surprises} of them not as expected." if surprises else f"{said}; nothing fails that should hold."


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
