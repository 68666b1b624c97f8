"""The findings of a study as a page: HTML with a figure for every exponent, or Markdown for documentation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wideproof.answers import Answer
from wideproof.papers import TEXTS, Check, Fault, Findings, Slope, Statement, counted, index, joined, statements
from wideproof.report import check_words as words
from wideproof.report.check_figures import slope_figure
from wideproof.report.check_room import room, totals
from wideproof.report.html import environment, inline_svg
from wideproof.report.page_path import require_page_path
from wideproof.report.proof_words import paper, versions
from wideproof.storage import write_bytes

ROOM = (
    "The last column says how much room is left: the exponent with the most of it, where that is a power or more; the "
    "share of a constant fixed before that is used; and a constant below 0.01, with which a bound could hardly fail."
)


def save_findings(found: Findings, path: str | Path) -> Path:
    """Write a page about a study; the suffix decides between `.html` and `.md`.

    Parameters
    ----------
    found
        The result of `examine`.
    path
        The file to write.

    Returns
    -------
    Path
        The path.
    """
    path = require_page_path(path)
    page = findings_html(found) if path.suffix == ".html" else findings_markdown(found)
    write_bytes(path, page.encode())
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
    command = f"wideproof check --study {found.study}{words.widths_option(found)} --report page.md"
    return study_markdown(joined([found.to_dict()]), command, [one.statement for one in found.measured])


def study_markdown(
    kept: Mapping[str, Any],
    command: str,
    rows: Sequence[Statement] | None = None,
    *,
    errata: str = "`wideproof errata`",
) -> str:
    """Return the page of a study that was measured with one or several seeds.

    Parameters
    ----------
    kept
        The stored study, as `joined` returns it.
    command
        The command that measures it again.
    rows
        The statements to list; by default all.
    errata
        Name of the command or page that decides the errata.

    Returns
    -------
    str
        The page in Markdown.
    """
    rows = statements() if rows is None else rows
    seeds, found = kept["seeds"], kept["statements"]
    lines = ["# Statements", "", words.by_seed(kept), ""]
    lines += [f"Study `{kept['study']}`. Made by `{command}`.", ""]
    if any(row.erratum for row in rows):
        lines += [f"Notes on the printed text stand beside what a statement says; {errata} decides most of them.", ""]
    counts = [[found[row.name]["by_seed"][k] for row in rows] for k in range(len(seeds))]
    lines += _table("seed, hold, fail, undecided, seconds", [
        (str(seed), *(str(outcomes.count(o)) for o in Answer), f"{seconds:.0f}")
        for seed, outcomes, seconds in zip(seeds, counts, kept["seconds"], strict=True)
    ])  # fmt: skip
    keys = list(dict.fromkeys(row.paper for row in rows))
    head = "paper, statements, checkable, measured" + "".join(f", hold{_with(seed, seeds)}" for seed in seeds)
    lines += _table(head, [_counts(key, rows, found) for key in keys])
    lines += [totals(found[row.name] for row in rows), ROOM, ""]
    lines += ["## What does not hold, and why", "", *_open(rows, kept)]
    for key in keys:
        table = [
            (f"`{row.id}`", row.check, _said(row, found[row.name]), _titled(row), found[row.name]["numbers"],
             room(found[row.name]))
            for row in rows
            if row.paper == key
        ]  # fmt: skip
        head = f"statement, check, outcome, what it says, measured{_with(seeds[0], seeds)}, room"
        lines += [f"## {paper(key)}", "", *_table(head, table)]
        lines += [f"Nothing to compute by itself: {', '.join(f'`{row.id}`' for row in words.missing(key))}.", ""]
    return "\n".join(lines)


def errata_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a page of errata: the printed words, the correct form, and the measurements that decide, paper by paper.

    Parameters
    ----------
    rows
        Entries, as `erratum_summary` returns them.

    Returns
    -------
    str
        The page in Markdown.
    """
    lines = [
        "# Errata",
        "",
        "Places where the text of a paper and a computation, or two places of a text, do not agree. Each entry quotes",
        "the printed words and is decided by computing both forms, on drawn networks or from the inequalities of the",
        "paper's own proof. The conclusions that the papers draw about training are not in question.",
        "Made by `wideproof errata --report docs/theory/errata.md`.",
        "",
        *_table("kind, what it says", [(str(fault), fault.meaning) for fault in Fault]),
    ]
    keys = list(dict.fromkeys(row["paper"] for row in rows))
    table = [(paper(key), counted(Fault(row["fault"]) for row in rows if row["paper"] == key)) for key in keys]
    lines += [*_table("paper, entries", table), f"Together: {counted(Fault(row['fault']) for row in rows)}.", ""]
    for key in keys:
        lines += [f"## {paper(key)}", "", f"The text that was read is {TEXTS[key]}.", ""]
        for row in rows:
            if row["paper"] == key:
                lines += [f"### {row['where']}", ""]
                lines += [f"- {row['fault'].capitalize()}. {row['place']}: {_verbatim(row['quotation'])}"]
                lines += [f"- Printed: {row['printed']}. Measured: {row['printed_measured']}."]
                lines += [f"- Right: {row['right']}. Measured: {row['right_measured']}."]
                lines += [f"- Measured under: {row['under']}.", ""]
    return "\n".join(lines)


def _verbatim(text: str) -> str:
    """Return text as code: more backticks around it than there are in it.

    >>> _verbatim("rΩ ` n")
    '`` rΩ ` n ``'
    """
    runs = re.findall(r"`+", text)
    fence = "`" * (1 + max(map(len, runs), default=0))
    return f"{fence} {text} {fence}" if runs else f"`{text}`"


def _with(seed: int, seeds: Sequence[int]) -> str:
    return f" with seed {seed}" if len(seeds) > 1 else ""


def _said(row: Statement, found: Mapping[str, Any]) -> str:
    """Return the outcome, or all of them where it depends on the seed."""
    outcomes = [outcome_word(row, outcome) for outcome in found["by_seed"]]
    return outcomes[0] if len(set(outcomes)) == 1 else ", ".join(outcomes)


def outcome_word(row: Statement, outcome: str) -> str:
    """Return the word for an outcome: a conjecture does not fail, there is evidence against it.

    Parameters
    ----------
    row
        The statement.
    outcome
        The outcome.

    Returns
    -------
    str
        The word.
    """
    against = "evidence against"
    return against if outcome == Answer.FAILS and row.why.startswith(against) else outcome


def _titled(row: Statement) -> str:
    """Return what a statement says, and what is noted on its text."""
    noted = row.erratum.replace("*", "\\*")
    return f"{row.title} (*on the text*: {noted})" if noted else row.title


def _open(rows: Sequence[Statement], kept: Mapping[str, Any]) -> list[str]:
    """Return the table of what fails or is undecided with one seed or more: a line for every outcome."""
    lines = []
    for row in rows:
        one = kept["statements"][row.name]
        seeds: dict[str, list[str]] = {}
        for seed, outcome in zip(kept["seeds"], one["by_seed"], strict=True):
            seeds.setdefault(outcome, []).append(str(seed))
        for outcome, which in seeds.items():
            if outcome != Answer.HOLDS:
                found = one if outcome == one["outcome"] else one["others"][which[0]]
                why = words.reason(row, found.get("note", ""))
                lines.append((f"`{row.name}`", outcome_word(row, outcome), ", ".join(which), why, found["numbers"]))
    return _table("statement, outcome, seeds, why, measured", lines)


def _counts(key: str, rows: Sequence[Statement], found: Mapping[str, Any]) -> tuple[str, ...]:
    every, own = index(key), [found[row.name]["by_seed"] for row in rows if row.paper == key]
    sizes = (len(every), sum(row.checkable for row in every), len(own))
    return (paper(key), *map(str, sizes), *(str(list(column).count("holds")) for column in zip(*own, strict=True)))


def _table(header: str, rows: Sequence[Sequence[str]]) -> list[str]:
    names = header.split(", ")
    lines = [[*names], ["---"] * len(names), *([text.replace("|", "\\|") for text in row] for row in rows)]
    return [*(f"| {' | '.join(cells)} |" for cells in lines), ""]


def _slopes(check: Check) -> list[tuple[Check, Slope]]:
    return [(leaf, leaf.slope) for leaf in check.leaves() if leaf.slope is not None]
