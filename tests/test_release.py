"""What a release needs is written down once, or everywhere alike."""

import os
import runpy
import shutil
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def stated_version(root: Path) -> str:
    """Return what `make release-check` finds in a checkout."""
    function = runpy.run_path(str(ROOT / "tools" / "release_check.py"))["stated_version"]
    function.__globals__["ROOT"] = root
    return function()


def test_one_version_everywhere():
    assert stated_version(ROOT) == PROJECT["project"]["version"]


@pytest.mark.parametrize("name", ["CITATION.cff", "CHANGELOG.md", "README.md"])
def test_a_version_that_was_forgotten_is_named(name, tmp_path):
    for file in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md", "README.md"):
        shutil.copy(ROOT / file, tmp_path / file)
    version, place = PROJECT["project"]["version"], tmp_path / name
    text = place.read_text(encoding="utf-8")
    place.write_text(text.replace(version.rpartition(".")[0], "9.9"), encoding="utf-8")
    with pytest.raises(SystemExit, match=f"{name} does not say version {version}"):
        stated_version(tmp_path)


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="there are no workers")
def test_files_stay_in_one_worker(request):
    """Workers are told by the end of the name; a pytest that pytest-xdist does not know drops it in silence."""
    assert request.node.nodeid.endswith("@tests/test_release.py")


def test_tools_are_pinned():
    """In dependency groups each version is exact; what users install has lower bounds only."""
    groups = PROJECT["dependency-groups"].values()
    loose = [tool for group in groups for tool in group if isinstance(tool, str) and "==" not in tool]
    assert loose == []
    extras = PROJECT["project"]["optional-dependencies"].values()
    wanted = [*PROJECT["project"]["dependencies"], *(one for extra in extras for one in extra)]
    assert [one for one in wanted if ">=" not in one or "<" in one] == []
