"""What a release needs is written down once, or everywhere alike."""

import os
import re
import runpy
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
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


def test_a_tag_says_the_version():
    """`make release-check TAG=...`, which the release workflow calls, refuses any other tag."""
    require_tag = runpy.run_path(str(ROOT / "tools" / "release_check.py"))["require_tag"]
    require_tag("v1.2.3", "1.2.3")
    require_tag("", "1.2.3")  # nothing is released
    for tag in ("1.2.3", "v1.2", "v1.2.3rc1"):
        with pytest.raises(SystemExit, match=f"tag {tag} is not v1.2.3"):
            require_tag(tag, "1.2.3")


def test_hooks_have_the_versions_of_the_tools():
    """`pre-commit` runs the ruff of `make lint`; every hook has a full version."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", hook["rev"]) for hook in hooks)
    (ruff,) = (tool for tool in PROJECT["dependency-groups"]["dev"] if "ruff" in tool)
    assert {hook["repo"].rpartition("/")[2]: hook["rev"] for hook in hooks}["ruff-pre-commit"] == f"v{ruff[6:]}"


def faults_of_workflow(text: str) -> list[str]:
    """Return what a workflow must not do: run without a limit, have more rights than it needs, take what moves."""
    flow = yaml.safe_load(text)
    found = [] if flow.get("permissions") == {"contents": "read"} else ["permissions"]
    for name, job in flow["jobs"].items():
        if not 0 < job.get("timeout-minutes", 0) <= 60:
            found.append(f"{name}: no limit of time")
        for action in (step["uses"] for step in job["steps"] if "uses" in step):
            if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action):
                found.append(f"{name}: {action} is not pinned")
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_limited_and_pinned(path):
    text = path.read_text(encoding="utf-8")
    assert faults_of_workflow(text) == []
    for planted in (("contents: read", "contents: write"), ("timeout-minutes", "name-of-none"), ("@", "@v1 #")):
        assert faults_of_workflow(text.replace(*planted)) != []


def targets(script: str) -> set[str]:
    """Return the targets that a script makes."""
    lines = re.findall(r"^(?:.*\brun: )?\s*(?:if )?(?:timeout \d+ )?make ([^;\n]+)", script, re.MULTILINE)
    return {word for line in lines for word in line.split() if "=" not in word}


GATE = {"lint", "types", "docs", "rocq", "test", "torch", "test-torch"}


def test_workflows_run_the_same_commands():
    """What must pass before a change goes in is what the forge runs, and every target is there."""
    ci = targets((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert ci == targets((ROOT / ".ci" / "run").read_text(encoding="utf-8")) == GATE
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    session = re.findall(r'"make", (.+?), external', (ROOT / "noxfile.py").read_text(encoding="utf-8"))
    called = {word.strip('"') for line in session for word in line.split(", ")}
    assert ci < called <= made
    assert set().union(*(targets(path.read_text(encoding="utf-8")) for path in WORKFLOWS)) <= made


def test_workflows_and_the_matrix_try_the_same_pythons():
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    pythons = runpy.run_path(str(ROOT / "tools" / "matrix.py"))["PYTHONS"]
    assert tuple(ci["jobs"]["test"]["strategy"]["matrix"]["python"]) == pythons
    classifiers = PROJECT["project"]["classifiers"]
    said = {one.rpartition(" ")[2] for one in classifiers if re.search(r":: 3\.\d+$", one)}
    assert said <= set(pythons)
