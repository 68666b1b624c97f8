"""Every example runs to its end, with warnings as errors, in an empty folder."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
# The others are among the slow tests, in a process of their own.
BY_DEFAULT = [path for path in EXAMPLES if path.stem[:2] in ("01", "08")]


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("path", BY_DEFAULT, ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    require_figures(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_in_a_process_of_its_own(path: Path, tmp_path: Path):
    environment = os.environ | {"PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    require_figures(tmp_path)


def require_figures(folder: Path) -> None:
    figures = list(folder.glob("*.svg"))
    assert figures
    for figure in figures:
        assert "<svg" in figure.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_has_cells_and_a_title(path: Path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert "\n# %% [markdown]\n# # " in text
