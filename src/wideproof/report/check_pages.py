"""The findings of a study as a page: HTML with a figure for every exponent, or Markdown for documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.papers import Check, Findings, Slope, index
from wideproof.report import check_words as words
from wideproof.report.check_figures import slope_figure
from wideproof.report.html import environment, inline_svg
from wideproof.report.proof_words import paper, versions
from wideproof.storage import write_bytes


def save_findings(found: Findings, path: str | Path) -> Path:
    """Write a page; the suffix decides between `.html` and `.md`."""
    path = require_page_path(path)
    page = findings_html(found) if path.suffix == ".html" else findings_markdown(found)
    write_bytes(path, page.encode())
    return path


def require_page_path(path: str | Path) -> Path:
    """Check the suffix of a page and that its folder is there, before hours are spent on it."""
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; create it first")
    if path.suffix not in (".html", ".md"):
        raise InputError(f"a report must be an .html or .md file, got {path.name!r}")
    return path


def findings_html(found: Findings) -> str:
    """Return the whole study as one HTML document that needs nothing else."""
    figures = {
        one.statement.name: [
            (leaf.title, inline_svg(slope_figure(slope), f"{one.statement.name.replace('.', '-')}-{k}", leaf.title))
            for k, (leaf, slope) in enumerate(_slopes(one.check))
        ]
        for one in found.measured
    }
    template = environment().get_template("checks.html")
    return template.render(found=found, words=words, figures=figures, Answer=Answer, versions=versions())


def findings_markdown(found: Findings) -> str:
    """Return counts, everything that does not hold with its reason, and the table of all statements."""
    command = f"wideproof check --study {found.study} --report docs/theory/statements.md"
    lines = ["# Statements", "", words.headline(found), ""]
    lines += [f"Study `{found.study}`, seed {found.seed}, {found.seconds:.0f} seconds. Made by `{command}`.", ""]
    lines += _table("paper, statements, checkable, implemented, hold, fail, undecided", _counts(found))
    wrong = [
        (f"`{one.statement.name}`", one.check.outcome, words.reason(one), one.check.numbers()) for one in found.open
    ]
    lines += ["## What does not hold, and why", ""]
    lines += _table("statement, outcome, why, measured", wrong)
    for key in words.papers_of(found):
        rows = [
            (f"`{row.id}`", row.check, one.check.outcome, row.title, one.check.numbers())
            for one in found.measured
            if (row := one.statement).paper == key
        ]
        lines += [f"## {paper(key)}", "", *_table("statement, check, outcome, what it says, measured", rows)]
        lines += [f"Nothing to compute by itself: {', '.join(f'`{row.id}`' for row in words.missing(key))}.", ""]
    return "\n".join(lines)


def errata_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the misprints, what is right, and the measurements that decide, one section a paper."""
    lines = ["# Errata", "", "Misprints and gaps that change a number, each decided by measuring both forms."]
    lines += ["Made by `wideproof errata --report docs/theory/errata.md`.", ""]
    for key in dict.fromkeys(row["paper"] for row in rows):
        lines += [f"## {paper(key)}", ""]
        for row in rows:
            if row["paper"] == key:
                lines += [f"### {row['where']}", ""]
                lines += [f"- Printed: {row['printed']}. Measured: {row['printed_measured']}."]
                lines += [f"- Right: {row['right']}. Measured: {row['right_measured']}.", ""]
    return "\n".join(lines)


def _counts(found: Findings) -> list[tuple[str, ...]]:
    rows = []
    for key, outcomes in found.counts().items():
        every = index(key)
        sizes = (len(every), sum(row.checkable for row in every), sum(outcomes.values()))
        rows.append((paper(key), *map(str, sizes), *(str(outcomes[o]) for o in Answer)))
    return rows


def _table(header: str, rows: Sequence[Sequence[str]]) -> list[str]:
    names = header.split(", ")
    lines = [[*names], ["---"] * len(names), *([text.replace("|", "\\|") for text in row] for row in rows)]
    return [*(f"| {' | '.join(cells)} |" for cells in lines), ""]


def _slopes(check: Check) -> list[tuple[Check, Slope]]:
    return [(leaf, leaf.slope) for leaf in check.leaves() if leaf.slope is not None]
