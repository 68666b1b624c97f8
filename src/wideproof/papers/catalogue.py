"""The index of each paper as a file: `python -m wideproof.papers.catalogue` writes it from what is registered.

Rows stay in the order they have, which is the paper's; a new one comes after the statement above it in its module.
"""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from wideproof.papers.statement import PAPERS, REGISTERED, Statement, index
from wideproof.storage import write_bytes

COLUMNS = tuple(field.name for field in fields(Statement) if field.name != "paper")


def registered(paper: str) -> dict[str, Statement]:
    """Return what the modules of a paper register, by name.

    Examples
    --------
    >>> registered("zou2018")["lemma_c_1"].check
    'bound'
    """
    package = import_module(f"wideproof.papers.{paper}")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return REGISTERED[paper]


def ordered(found: dict[str, Statement], known: list[str]) -> list[Statement]:
    """Return statements in the order in which they are known; one that is not comes after the one before it.

    Examples
    --------
    >>> rows = {one.id: one for one in index("zou2018")[:3]}
    >>> [one.id for one in ordered(rows, ["eq_3_2", "eq_3_1"])]
    ['eq_3_2', 'assumption_3_1', 'eq_3_1']
    """
    names, before = [name for name in known if name in found], None
    for name in found:
        if name not in names:
            names.insert(names.index(before) + 1 if before else len(names), name)
        before = name
    return [found[name] for name in names]


def table(paper: str) -> str:
    """Return the text of a paper's `statements.csv`."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in ordered(registered(paper), [one.id for one in index(paper)]))
    return file.getvalue()


def main() -> None:
    """Write the four files."""
    for paper in PAPERS:
        write_bytes(Path(__file__).parent / paper / "statements.csv", table(paper).encode())


if __name__ == "__main__":
    main()
