"""The findings of a study as a page: HTML with a figure for every exponent, or Markdown for documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.papers import Check, Findings, Slope, Statement, index, joined, statements
from wideproof.report import check_words as words
from wideproof.report.check_figures import slope_figure
from wideproof.report.html import environment, inline_svg
from wideproof.report.proof_words import paper, versions
from wideproof.storage import write_bytes


def save_findings(found: Findings, path: str | Path) -> Path:
    """Write a page; the suffix decides between `.html` and `.md`.

    Parameters
    ----------
    found
        What was measured.
    path
        The file to write.
    """
    path = require_page_path(path)
    page = findings_html(found) if path.suffix == ".html" else findings_markdown(found)
    write_bytes(path, page.encode())
    return path


def require_page_path(path: str | Path) -> Path:
    """Check the suffix of a page and that its folder is there, before hours are spent on it.

    Parameters
    ----------
    path
        Of the page to write later.
    """
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
    command = f"wideproof check --study {found.study}{words.widths_option(found)} --report page.md"
    return study_markdown(joined([found.to_dict()]), command, [one.statement for one in found.measured])


def study_markdown(
    kept: Mapping[str, Any],
    command: str,
    rows: Sequence[Statement] | None = None,
    *,
    errata: str = "`wideproof errata`",
) -> str:
    """Return the page of a study that was measured with one seed or with several (`joined`).

    Parameters
    ----------
    kept
        The stored study.
    command
        What measures it again.
    rows
        The statements; by default all.
    errata
        Where the misprints that change a number are decided.
    """
    rows = statements() if rows is None else rows
    seeds, found = kept["seeds"], kept["statements"]
    lines = ["# Statements", "", words.by_seed(kept), ""]
    lines += [f"Study `{kept['study']}`. Made by `{command}`.", ""]
    if any(row.erratum for row in rows):
        lines += [f"A misprint stands beside what a statement says; {errata} decides those that change a number.", ""]
    counts = [[found[row.name]["by_seed"][k] for row in rows] for k in range(len(seeds))]
    lines += _table("seed, hold, fail, undecided, seconds", [
        (str(seed), *(str(outcomes.count(o)) for o in Answer), f"{seconds:.0f}")
        for seed, outcomes, seconds in zip(seeds, counts, kept["seconds"], strict=True)
    ])  # fmt: skip
    keys = list(dict.fromkeys(row.paper for row in rows))
    head = "paper, statements, checkable, measured" + "".join(f", hold{_with(seed, seeds)}" for seed in seeds)
    lines += _table(head, [_counts(key, rows, found) for key in keys])
    lines += ["## What does not hold, and why", "", *_open(rows, kept)]
    for key in keys:
        table = [
            (f"`{row.id}`", row.check, _said(found[row.name]), _titled(row), found[row.name]["numbers"])
            for row in rows
            if row.paper == key
        ]
        head = f"statement, check, outcome, what it says, measured{_with(seeds[0], seeds)}"
        lines += [f"## {paper(key)}", "", *_table(head, table)]
        lines += [f"Nothing to compute by itself: {', '.join(f'`{row.id}`' for row in words.missing(key))}.", ""]
    return "\n".join(lines)


def errata_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the misprints, what is right, and the measurements that decide, one section a paper.

    Parameters
    ----------
    rows
        What `errata` returned.
    """
    lines = [
        "# Errata",
        "",
        "Misprints and gaps that change a number. Each is decided by computing both forms, on drawn",
    ]
    lines += ["networks or from the inequality of the paper's own proof."]
    lines += ["Made by `wideproof errata --report docs/theory/errata.md`.", ""]
    for key in dict.fromkeys(row["paper"] for row in rows):
        lines += [f"## {paper(key)}", ""]
        for row in rows:
            if row["paper"] == key:
                lines += [f"### {row['where']}", ""]
                lines += [f"- Printed: {row['printed']}. Measured: {row['printed_measured']}."]
                lines += [f"- Right: {row['right']}. Measured: {row['right_measured']}.", ""]
    return "\n".join(lines)


def _with(seed: int, seeds: Sequence[int]) -> str:
    return f" with seed {seed}" if len(seeds) > 1 else ""


def _said(found: Mapping[str, Any]) -> str:
    """Return the outcome, or all of them where it depends on the seed."""
    outcomes = found["by_seed"]
    return outcomes[0] if len(set(outcomes)) == 1 else ", ".join(outcomes)


def _titled(row: Statement) -> str:
    """Return what a statement says, and its misprint."""
    misprint = row.erratum.replace("*", "\\*")
    return f"{row.title} (*misprint*: {misprint})" if misprint else row.title


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
                lines.append((f"`{row.name}`", outcome, ", ".join(which), why, found["numbers"]))
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
