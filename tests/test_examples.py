"""Every example runs to its end, with warnings as errors, in an empty folder; the gallery shows what it said."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = ROOT / "docs" / "gallery"
# The others are among the slow tests, in a process of their own.
BY_DEFAULT = [path for path in EXAMPLES if path.stem[:2] in ("01", "08")]


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("path", BY_DEFAULT, ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    require_figures(path, tmp_path)
    assert words(capsys.readouterr().out) == words(shown(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_in_a_process_of_its_own(path: Path, tmp_path: Path):
    environment = os.environ | {"PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    require_figures(path, tmp_path)
    assert words(done.stdout) == words(shown(path))


def require_figures(path: Path, folder: Path) -> None:
    """The pictures that were drawn are those of the gallery, by name."""
    figures = list(folder.glob("*.svg"))
    assert figures
    for figure in figures:
        assert "<svg" in figure.read_text(encoding="utf-8")
    stored = (ROOT / "docs" / "_static" / "gallery").glob(f"{path.stem[:2]}-*.svg")
    assert sorted(figure.name for figure in figures) == sorted(one.name[3:] for one in stored)


def shown(path: Path) -> str:
    """What an example printed, as its page has it."""
    text = (PAGES / f"{path.stem}.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def words(text: str) -> list[str]:
    """The words of a text: its numbers depend on the machine, and so does the digest of prepared data."""
    return re.findall(r"[A-Za-z]{3,}", re.sub(r"\b[0-9a-f]{64}\b", "", text))


def check_gallery(docs: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(docs / "gallery.py"), "--check"]
    return subprocess.run(command, capture_output=True, encoding="utf-8")


def test_pages_of_the_gallery_are_those_of_the_examples():
    done = check_gallery(ROOT / "docs")
    assert done.returncode == 0, done.stderr


def test_a_page_that_is_not_its_script_is_found(tmp_path: Path):
    for part in ("docs/gallery", "docs/_static/gallery", "examples"):
        shutil.copytree(ROOT / part, tmp_path / part)
    shutil.copy(ROOT / "docs" / "gallery.py", tmp_path / "docs")
    assert check_gallery(tmp_path / "docs").returncode == 0
    script = tmp_path / "examples" / EXAMPLES[0].name
    script.write_text(script.read_text(encoding="utf-8").replace("rng.normal", "rng.uniform"), encoding="utf-8")
    next((tmp_path / "docs" / "_static" / "gallery").glob("07-*.svg")).unlink()
    shutil.copy(script, script.with_name("12_another.py"))
    done = check_gallery(tmp_path / "docs")
    assert done.returncode == 1
    assert "01_audit_a_csv.md is not the page of its script" in done.stderr
    assert "07-gram.svg is missing" in done.stderr
    assert "12_another has no page" in done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_has_cells_and_a_title(path: Path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert "\n# %% [markdown]\n# # " in text
