"""Where a page may be written; apart from the pages, so that a list of statements needs no certificates."""

from __future__ import annotations

from pathlib import Path

from wideproof.errors import InputError


def require_page_path(path: str | Path) -> Path:
    """Check that a page can be written to a path before the work is done: its suffix, and its folder.

    Parameters
    ----------
    path
        The file to write later.

    Returns
    -------
    Path
        The same path.

    Examples
    --------
    >>> require_page_path("findings.txt")
    Traceback (most recent call last):
    ...
    wideproof.errors.InputError: a report must be an .html or .md file, got 'findings.txt'
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; create it first")
    if path.suffix not in (".html", ".md"):
        raise InputError(f"a report must be an .html or .md file, got {path.name!r}")
    return path
