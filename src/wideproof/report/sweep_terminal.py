"""What `wideproof sweep` prints: exponents in a table, what failed, how much was done; a dictionary for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from wideproof.sweeps import fitted

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from wideproof.sweeps import Exponent, Figure, Study, Sweep

MOST_FAILED = 5


class _Ended(Protocol):
    """A sweep or a part of one: how many tasks were done before and now, those that failed, and the time."""

    @property
    def kept(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def failed(self) -> tuple[Any, ...]: ...
    @property
    def seconds(self) -> float: ...


def sweep_table(done: Sweep) -> Table | None:
    """Return a table of the exponents in the figures of a study, beside those of the theory.

    Parameters
    ----------
    done
        A sweep, finished or not.

    Returns
    -------
    Table | None
        The table; `None` if the study has no such figure.
    """
    from rich.table import Table

    rows = [_row(wanted, one) for wanted, one in _exponents(done)]
    if not rows:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0))
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(row[name] for name in columns))
    return table


def sweep_text(done: Sweep, page: Path) -> str:
    """Return the first failed tasks of a sweep, and how many were done, kept and failed.

    Parameters
    ----------
    done
        A sweep, finished or not.
    page
        The path of its report.

    Returns
    -------
    str
        Several lines.
    """
    ending = f"\n{_counts(done)}, {done.seconds:.1f} s; results in {done.folder}, report in {page}"
    return "\n".join([*_failures(done)[:MOST_FAILED], ending])


def part_text(done: _Ended, part: str, name: str) -> str:
    """Return the failed tasks of one part of a sweep, and how many were done, kept and failed.

    Parameters
    ----------
    done
        The result of `sweep_part`.
    part
        The number of the part and of all parts, as in `"3/10"`.
    name
        Name of the study.

    Returns
    -------
    str
        Several lines.
    """
    return "\n".join([*_failures(done), f"part {part} of {name}: {_counts(done)}, {done.seconds:.1f} s"])


def sweep_summary(done: Sweep) -> dict[str, Any]:
    """Return a sweep as plain values, as `--json` prints it.

    Parameters
    ----------
    done
        A sweep, finished or not.

    Returns
    -------
    dict[str, Any]
        The values by name.
    """
    exponents = [
        {
            "quantity": _quantity(wanted), "axis": wanted.x, "where": one.where,
            "kind": "factor" if wanted.kind == "factor" else "exponent", "value": one.value,
            "interval": [one.low, one.high] if one.interval else None, "predicted": wanted.printed_at(one.where),
            "left_out": list(one.left_out),
        }
        for wanted, one in _exponents(done)
    ]  # fmt: skip
    return {
        "study": done.study.name, "folder": str(done.folder), "tasks": done.count, "kept": done.kept,
        "done": done.done, "failed": [one.error for one in done.failed], "seconds": done.seconds,
        "exponents": exponents,
    }  # fmt: skip


def part_summary(done: _Ended, part: str) -> dict[str, Any]:
    """Return the result of one part of a sweep as plain values, as `--json` prints it.

    Parameters
    ----------
    done
        The result of `sweep_part`.
    part
        The number of the part and of all parts, as in `"3/10"`.

    Returns
    -------
    dict[str, Any]
        The values by name.
    """
    failed = [one.error for one in done.failed]
    return {"part": part, "kept": done.kept, "done": done.done, "failed": failed, "seconds": done.seconds}


def too_many(study: Study, each: float) -> str:
    """Return why a study is not run without a confirmation.

    Parameters
    ----------
    study
        A study with very many tasks.
    each
        Seconds that one task takes.

    Returns
    -------
    str
        A sentence.
    """
    return (
        f"{study.name} has {study.count:,} tasks; the first takes {each:.2g} s, so all would take "
        f"about {_duration(each * study.count)} one after another: give --yes to run them, or shorten the axes"
    )


def _exponents(done: Sweep) -> list[tuple[Figure, Exponent]]:
    return [(wanted, one) for wanted in done.study.figures for one in fitted(done.results, wanted)]


def _row(wanted: Figure, one: Exponent) -> dict[str, str]:
    predicted = wanted.printed_at(one.where)
    return {
        "quantity": _quantity(wanted), "against": wanted.x, "where": one.label,
        "exponent": f"{one.value:.2f}" + (" per unit" if wanted.kind == "factor" else ""),
        "95 % interval": one.interval, "predicted": "" if predicted is None else f"{predicted:g}",
        "left out": ", ".join(f"{value:g}" for value in one.left_out),
    }  # fmt: skip


def _quantity(wanted: Figure) -> str:
    return f"{wanted.y} needed" if wanted.kind == "threshold" else wanted.quantity


def _failures(done: _Ended) -> list[str]:
    chosen = [", ".join(f"{k} {v}" for k, v in outcome.task.chosen) for outcome in done.failed]
    return [f"failed at {where}: {outcome.error}" for where, outcome in zip(chosen, done.failed, strict=True)]


def _counts(done: _Ended) -> str:
    return f"{done.done} tasks done, {done.kept} kept from before, {len(done.failed)} failed"


def _duration(seconds: float) -> str:
    """Return a length of time in its natural unit.

    >>> _duration(7200)
    '2 hours'
    """
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} seconds"
