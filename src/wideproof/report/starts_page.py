"""The page of many random starts: how many were proved, what that says of all, and a row for each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wideproof.report.html import REPORT, environment
from wideproof.report.proof_words import versions
from wideproof.storage import write_bytes

if TYPE_CHECKING:
    from wideproof.proving import Starts


def save_starts_page(starts: Starts, folder: str | Path) -> Path:
    """Write `report.html` to a folder: the statement about all starts, what was fixed, and a row for each start.

    Parameters
    ----------
    starts
        The result of `wp.prove` with `seeds`.
    folder
        The folder to write to.

    Returns
    -------
    Path
        The path of the page.
    """
    text = environment().get_template("starts.html").render(starts=starts, versions=versions())
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_bytes(Path(folder) / REPORT, text.encode())
    return Path(folder) / REPORT
