"""The result of `wideproof prove` in the terminal: verdict, main numbers, loss curve, where the files are."""

from __future__ import annotations

import io
import shlex
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wideproof.report import proof_sentences
from wideproof.report import proof_words as words
from wideproof.report.html import REPORT
from wideproof.report.terminal import curve

if TYPE_CHECKING:
    from wideproof.proving import Followed, Proof

COLUMNS = 100
LISTED = 10  # contradicting rows that are named
_MAIN = ("ρ", "s", "Λ", "R", "h", "η", "ησ²", "ε", "k", "L*")


def proof_text(proof: Proof) -> str:
    """Return the result of a proof as text of at most 100 columns; only a long path is never broken.

    Parameters
    ----------
    proof
        The result of `wp.prove`.

    Returns
    -------
    str
        Several lines.
    """
    parts = [_wrapped(proof_sentences.headline(proof))]
    parts += [_wrapped(str(estimate)) for estimate in proof.estimates]
    if proof.proved and not proof.estimates and not proof.given:
        parts.append(words.NO_ESTIMATE)
    parts += ["\n".join(_wrapped(note, "  ") for note in proof.notes)] if proof.notes else []
    parts += [_clashes(proof)] if proof.groups.least > 0 else []
    obstacle = words.obstacle(proof)
    if obstacle is not None and obstacle["advice"]:
        parts.append(
            "\n".join(["What would change it:", *(_wrapped(f"- {line}", "  ") for line in obstacle["advice"])])
        )
    run = proof.run
    if run is not None and len(run.steps) > 1:
        title = _wrapped(f"training loss against step ({words.squares(proof)})")
        parts.append(f"{title}\n{curve(run.steps, run.records['loss'], height=9)}")
    numbers = [row for row in words.numbers(proof) if row.symbol in _MAIN]
    if numbers:
        parts.append(_table(numbers))
    verdict = proof.verdict
    if verdict is not None:
        parts.append(f"Independent verifier: {verdict.answer} ({verdict.precision} bits, {verdict.seconds:.3g} s).")
    if proof.seconds:
        parts.append(_wrapped("seconds: " + ", ".join(f"{name} {took:.1f}" for name, took in proof.seconds.items())))
    if proof.folder is not None:
        again = [f"verify again  {line}" for line in words.commands(proof)[:1]]
        parts.append("\n".join([f"report        {proof.folder / REPORT}", *again]))
    return "\n\n".join(parts)


def followed_text(found: Followed) -> str:
    """Return what is proved about a training run, and the command that verifies it again.

    Parameters
    ----------
    found
        The result of `follow`.

    Returns
    -------
    str
        Several lines.
    """
    said = _wrapped(str(found))
    if found.verdict is None or found.folder is None:
        return said
    return f"{said}\n\nverify again  wideproof verify {shlex.quote(str(found.folder))}"


def _clashes(proof: Proof) -> str:
    """Name the first rows that contradict each other, as they are numbered in the source."""
    found, word = words.clashes(proof), words.row_word(proof)
    lines, shown = [], 0
    for clash in found:
        if shown >= LISTED:
            break
        pairs = list(zip(clash.rows, clash.targets, strict=True))[: LISTED - shown]
        shown += len(pairs)
        lines.append(_wrapped("equal inputs: " + "; ".join(f"{word} {row} is {target}" for row, target in pairs), "  "))
    total = sum(len(clash.rows) for clash in found)
    if total > shown:
        lines.append(f"and {total - shown} more rows: all of them in the report and in contradictions.csv")
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, COLUMNS, subsequent_indent=indent, break_on_hyphens=False)


def _table(numbers: Sequence[words.Number]) -> str:
    from rich.console import Console
    from rich.table import Table

    verified = any(row.found for row in numbers)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("", "", "claimed" if verified else "value", "verifier's own")[: 3 + verified]:
        table.add_column(heading, justify="right" if heading else "left")
    for row in numbers:
        table.add_row(*row[: 3 + verified])
    sink = io.StringIO()
    Console(file=sink, width=COLUMNS, color_system=None, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines())
