"""Proofs that somebody wants to keep."""

from __future__ import annotations

import shutil
from pathlib import Path


def keep(folder: Path, among: Path) -> Path:
    """Copy a proof to where proofs lie, under a name that is free, and return its place."""
    among.mkdir(parents=True, exist_ok=True)
    place, count = among / folder.name, 1
    while place.exists():
        place, count = among / f"{folder.name}-{count}", count + 1
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("stages.jsonl"))
    return place
