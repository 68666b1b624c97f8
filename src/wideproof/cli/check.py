"""`wideproof check`, `errata`, `cite`: the papers' statements measured, their errata, and how to cite them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wideproof.answers import Answer
from wideproof.cli.options import Json, one_of, print_json
from wideproof.cli.stopping import continuable, say_nothing_is_kept
from wideproof.cli.watching import watching
from wideproof.errors import InputError
from wideproof.titles import PAPERS

if TYPE_CHECKING:
    from wideproof.papers import Statement
    from wideproof.progress import Progress


Wanted = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PAPER[.STATEMENT]",
        help="zou2018, du2019, allenzhu2018, frei2019, or one statement such as zou2018.theorem_5_1_iii, also as the "
        "paper spells it, zou2018.Theorem 5.1; the beginning of a name selects all that start with it "
        "(default: everything).",
        show_default=False,
    ),
]
Study = Annotated[
    str,
    one_of(
        "quick",
        "standard",
        "deep",
        says="How large the networks are: quick (two minutes for everything), standard (twenty), or deep (hours).",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.")]


def check_command(
    wanted: Wanted = None,
    study: Study = "quick",
    seed: Seed = 0,
    widths: Annotated[
        str | None,
        typer.Option(
            help="Widths over which exponents are fitted, as in 64,256,1024; three or more (default: the study's).",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes, each for one paper (default: 2).", min=1)] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Only list the statements, or those with the given words in name or title.")
    ] = False,
    report: Annotated[
        list[Path] | None,
        typer.Option(help="Write a page: .html with figures, or .md; may be given twice.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Measure the theorems, lemmas and claims of four papers on real networks.

    Each statement holds, fails, or stays undecided, with the measured slack, fitted exponents beside the printed ones,
    and the constant that it would need. Sizes are those of the --study; --widths replaces the widths over which
    exponents are fitted, and the answer says which statements do not use them. Exit code 0 if nothing fails that
    should hold, 1 if something does, 2 if a computation broke off.
    """
    from rich.console import Console

    from wideproof.papers import Lab, describe, examine
    from wideproof.report import check_words as words
    from wideproof.report import findings_view, measured_view, require_page_path, statements_view
    from wideproof.resources import cores

    sizes = None if widths is None else _widths(widths)
    Lab(study, seed, sizes)  # refuses what there is not before any process is started
    chosen = _chosen(wanted or [], listing)
    console = Console(highlight=False)
    piped = not console.is_terminal
    if listing:
        if json:
            print_json([describe(one) for one in chosen])
        else:
            console.print(statements_view(chosen, lines=piped), soft_wrap=piped)
        return
    for page in report or []:
        require_page_path(page)

    def line(now: Progress) -> None:
        console.print(measured_view(now.latest, len(chosen), lines=piped), soft_wrap=piped)

    with continuable(say_nothing_is_kept), watching(json, console=console, above=line) as progress:
        found = examine(chosen, study, seed, progress, workers or min(2, cores()), sizes)
    if report:
        from wideproof.report import save_findings  # not above: pages need certificates, and these JAX

        for page in report:
            save_findings(found, page)
    if json:
        print_json(found.to_dict())
    else:
        console.print(findings_view(found))
        if sizes is not None:
            console.print(words.widths_line(found), markup=False, soft_wrap=True)
        for page in report or []:
            console.print(f"report in {page}", markup=False, soft_wrap=True)
    raise typer.Exit(found.answer.exit_code)


def _chosen(wanted: list[str], listing: bool) -> tuple[Statement, ...]:
    """Return the statements of a name, which may have blanks; for a list, also those with these words in them."""
    from wideproof.papers import statements

    if not wanted or not listing:
        return statements(" ".join(wanted) or None)
    try:
        first, words = statements(wanted[0]), wanted[1:]
    except InputError as error:
        first, words, why = statements(), wanted, f"{error}; no statement has"
    else:
        why = f"no statement of {wanted[0]} has"
    names = {one.name for one in statements(None, words)}
    if found := tuple(one for one in first if one.name in names):
        return found
    raise InputError(f"{why} {' and '.join(map(repr, words))} in its name or title")


def _widths(text: str) -> tuple[int, ...]:
    """Read widths.

    >>> _widths("64, 256,1024")
    (64, 256, 1024)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--widths must be whole numbers, as in 64,256,1024, got {text!r}")
    return tuple(map(int, parts))


def errata_command(
    wanted: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER[.STATEMENT]",
            help="One paper, or one statement such as zou2018.theorem_5_1_i (default: all four papers).",
            show_default=False,
        ),
    ] = None,
    study: Study = "quick",
    seed: Seed = 0,
    report: Annotated[Path | None, typer.Option(help="Write the list to this .md file.")] = None,
    json: Json = False,
) -> None:
    """Print the errata: the printed words, their kind, what is right, and the measurement that decides.

    For a statement without such a one, print what is noted at it. Exit code 0 if every measurement decides as
    listed, 1 if one does not.
    """
    from rich.console import Console

    from wideproof.papers import Fault, counted, errata, laboratory, noted
    from wideproof.report import errata_markdown, erratum_summary, erratum_view
    from wideproof.storage import write_bytes

    entries = errata(wanted)
    if report is not None and report.suffix != ".md":
        raise InputError(f"the list of errata must be an .md file, got {report.name!r}")
    console, rows = Console(highlight=False), []
    labs = {key: laboratory(key, study, seed) for key in PAPERS}
    for entry in entries:
        decision = entry.decide(labs[entry.paper])
        rows.append(erratum_summary(entry, *decision, decided=decision.decided))
        if not json:
            console.print(erratum_view(rows[-1]))
    if report is not None:
        write_bytes(report, errata_markdown(rows).encode())
    decided = sum(row["decided"] for row in rows)
    said = f"{decided} of {len(rows)} decided by measurement: {counted(Fault(row['fault']) for row in rows)}"
    if wanted is not None and not rows:
        said = "\n".join(noted(wanted))
    print_json(rows) if json else console.print(said, markup=False, soft_wrap=True)
    raise typer.Exit(Answer.of(decided == len(rows)).exit_code)


def cite_command(
    papers: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER", help="Papers, or wideproof (default: all).", show_default=False),
    ] = None,
) -> None:
    """Print BibTeX entries for the papers and for this software."""
    from wideproof.papers import BIBTEX
    from wideproof.version import __version__

    unknown = [key for key in papers or [] if key not in BIBTEX]
    if unknown:
        raise InputError(f"there is nothing to cite as {unknown[0]!r}: choose among {', '.join(BIBTEX)}")
    print("\n\n".join(BIBTEX[key].replace("VERSION", __version__) for key in papers or BIBTEX))
