"""`wideproof check`, `errata`, `cite`: the papers' statements measured, their misprints, and how to cite them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wideproof.answers import Answer
from wideproof.cli.options import Json, one_of, print_json
from wideproof.cli.watching import watching
from wideproof.errors import InputError
from wideproof.titles import PAPERS

if TYPE_CHECKING:
    from rich.console import Console

    from wideproof.papers import Findings, Measured, Statement
    from wideproof.progress import Progress


Wanted = Annotated[
    str | None,
    typer.Argument(
        metavar="[PAPER[.STATEMENT]]",
        help="zou2018, du2019, allenzhu2018, frei2019, or one statement such as zou2018.theorem_5_1_iii; "
        "the beginning of a name selects all that start with it (default: everything).",
        show_default=False,
    ),
]
Study = Annotated[
    str,
    one_of(
        "quick",
        "standard",
        "deep",
        says="quick (two minutes for everything), standard (twenty), or deep (hours).",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.")]


def check_command(
    wanted: Wanted = None,
    study: Study = "quick",
    seed: Seed = 0,
    workers: Annotated[int | None, typer.Option(help="Processes; each takes one paper (default: 2).", min=1)] = None,
    listing: Annotated[bool, typer.Option("--list", help="Only list the statements.")] = False,
    report: Annotated[
        list[Path] | None,
        typer.Option(help="Write a page: .html with figures, or .md; may be given twice.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Measure the theorems, lemmas and claims of four papers on real networks.

    Each statement holds, fails, or stays undecided, with the measured slack, fitted exponents beside the printed ones,
    and the constant that it would need. Exit code 0 if nothing fails that should hold, 1 if something does, 2 if a
    computation broke off.
    """
    from rich.console import Console

    from wideproof.papers import Lab, describe, examine, statements
    from wideproof.resources import cores

    Lab(study, seed)  # refuses a study that does not exist before any process is started
    chosen = statements(wanted)
    if listing:
        _list(chosen) if not json else print_json([describe(one) for one in chosen])
        return
    for page in report or []:
        from wideproof.report import require_page_path

        require_page_path(page)
    console = Console(highlight=False)

    def line(now: Progress) -> None:
        console.print(_line(now.latest), soft_wrap=not console.is_terminal)

    with watching(json, console=console, above=line) as progress:
        found = examine(chosen, study, seed, progress, workers or min(2, cores()))
    for page in report or []:
        from wideproof.report import save_findings

        save_findings(found, page)
    if json:
        print_json(found.to_dict())
    else:
        _show(console, found)
        for page in report or []:
            console.print(f"report in {page}", markup=False, soft_wrap=True)
    raise typer.Exit(found.answer.exit_code)


def errata_command(
    paper: Annotated[str | None, typer.Argument(help="One paper (default: all four).", show_default=False)] = None,
    study: Study = "quick",
    seed: Seed = 0,
    report: Annotated[Path | None, typer.Option(help="Write the list to this .md file.")] = None,
    json: Json = False,
) -> None:
    """Print the misprints that change a number: what is printed, what is right, and the measurement that decides.

    Exit code 0 if every measurement decides as listed, 1 if one does not.
    """
    from rich.console import Console
    from rich.markup import escape

    from wideproof.papers import errata, laboratory

    if paper is not None and paper not in PAPERS:
        raise InputError(f"there is no paper {paper!r}; the papers are {', '.join(PAPERS)}")
    if report is not None and report.suffix != ".md":
        raise InputError(f"the list of errata must be an .md file, got {report.name!r}")
    console, rows, decided = Console(highlight=False), [], True
    labs = {key: laboratory(key, study, seed) for key in PAPERS}
    for entry in errata(paper):
        decision = entry.decide(labs[entry.paper])
        decided &= decision.decided
        rows.append({
            "key": entry.key, "paper": entry.paper, "where": entry.where, "printed": entry.printed,
            "right": entry.right, "decided": decision.decided, "printed_measured": str(decision.printed),
            "right_measured": str(decision.right),
        })  # fmt: skip
        if not json:
            console.print(f"[bold]{escape(PAPERS[entry.paper])}, {escape(entry.where)}[/]")
            console.print(f"  printed  {escape(entry.printed)}\n           [dim]{escape(str(decision.printed))}[/]")
            console.print(f"  right    {escape(entry.right)}\n           [dim]{escape(str(decision.right))}[/]\n")
    if report is not None:
        from wideproof.report import errata_markdown
        from wideproof.storage import write_bytes

        write_bytes(report, errata_markdown(rows).encode())
    if json:
        print_json(rows)
    else:
        console.print(f"{sum(row['decided'] for row in rows)} of {len(rows)} decided by measurement")
    raise typer.Exit(Answer.of(decided).exit_code)


def cite_command(
    papers: Annotated[
        list[str] | None, typer.Argument(help="Papers, or wideproof (default: all).", show_default=False)
    ] = None,
) -> None:
    """Print BibTeX entries for the papers and for this software."""
    from wideproof.papers import BIBTEX
    from wideproof.version import __version__

    unknown = [key for key in papers or [] if key not in BIBTEX]
    if unknown:
        raise InputError(f"there is nothing to cite as {unknown[0]!r}: choose among {', '.join(BIBTEX)}")
    print("\n\n".join(BIBTEX[key].replace("VERSION", __version__) for key in papers or BIBTEX))


def _list(chosen: tuple[Statement, ...]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("statement", "check", "role", "what it says"):
        table.add_column(column, no_wrap=column != "what it says")
    for one in chosen:
        table.add_row(one.name, one.check, one.role, one.title)
    Console(highlight=False).print(table)


def _line(one: Measured) -> Any:
    from rich.text import Text

    from wideproof.report import COLOUR

    outcome = one.check.outcome.value
    text = Text(f"{outcome:10}", style=COLOUR[one.check.outcome] if one.as_expected else "bold red")
    text.append(f"{one.statement.name:32} ", style="default")
    text.append(one.check.numbers() or one.check.note, style="dim")
    return text


def _show(console: Console, found: Findings) -> None:
    from rich.table import Table

    from wideproof.report import check_words as words

    table = Table(title="", box=None, padding=(0, 3, 0, 0))
    table.add_column("role")
    for key in words.papers_of(found):
        table.add_column(PAPERS[key], justify="right")
    for role, cells in words.matrix(found):
        table.add_row(role, *(words.cell(counted) for counted in cells))
    console.print(table)
    for one in found.open:
        mark = "" if one.as_expected else "UNEXPECTED "
        why = words.reason(one.statement, one.check.note)
        console.print(f"\n{mark}{one.check.outcome} {one.statement.name}: {why}", markup=False)
    console.print(f"\n{words.headline(found)}", style="bold", markup=False)
    console.print(f"Study {found.study}, {found.seconds:.1f} seconds.", markup=False)
