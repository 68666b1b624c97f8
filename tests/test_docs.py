"""The documentation is code that ran: every Python block of every page, and every link inside the project."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.cases import each

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAMED = {str(page.relative_to(ROOT / "docs").with_suffix("")): page for page in PAGES}
EXTERNAL = ("https://", "http://", "mailto:")
LINKED = [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\!)\[[^\]]+\]\(([^)\s]+)\)")


def blocks(text: str) -> list[tuple[int, str]]:
    """Return the Python blocks of a page with the line each begins on.

    >>> blocks("a\\n```python\\nx = 1\\n```\\n")
    [(3, 'x = 1\\n')]
    """
    return [(text[: found.start(1)].count("\n") + 1, found[1]) for found in _BLOCK.finditer(text)]


def anchors(text: str) -> set[str]:
    """Return the anchors that a page's headings make.

    >>> sorted(anchors("# Sharp bits\\n## float64, no flags\\n"))
    ['float64-no-flags', 'sharp-bits']
    """
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


@pytest.mark.parametrize("page", each(NAMED, slow=["start/one-page"]))
def test_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": f"docs_{page.stem}"}
    for line, code in blocks(page.read_text(encoding="utf-8")):
        program = compile("\n" * (line - 1) + code, str(page), "exec")  # errors name the page and the line
        with contextlib.redirect_stdout(io.StringIO()):
            exec(program, namespace)


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(EXTERNAL):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.stem)
def test_links_resolve(page: Path):
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# Here\n[a](missing.md) [b](#here) [c](#there) [d](https://example.org)\n")
    assert broken_links(page) == ["missing.md", "#there"]


def test_every_page_is_in_the_navigation():
    lists = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page.name == "index.md")
    missing = [page for page in PAGES if page.name != "index.md" and not re.search(rf"(?m)^(\S*/)?{page.stem}$", lists)]
    assert missing == []


def test_every_command_is_on_the_page_of_the_command_line():
    from wideproof.cli import PANELS

    text = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    table = "\n".join(line for line in text.splitlines() if line.startswith("| `wideproof "))
    names = [name for commands in PANELS.values() for name in commands]
    assert [name for name in names if not re.search(rf"`(wideproof )?{name}\b", table)] == []


@pytest.mark.parametrize("module", ["docstrings", "names", "public", "formulas", "links", "inventory"])
def test_examples_of_what_builds_the_site(monkeypatch: pytest.MonkeyPatch, module: str):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    pytest.importorskip("sphinx", reason="make docs installs it")
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_every_word_of_the_glossary_is_linked_from_a_page_and_stands_in_order():
    glossary = ROOT / "docs" / "reference" / "glossary.md"
    words = re.findall(r"^### (.+)$", glossary.read_text(encoding="utf-8"), re.MULTILINE)
    assert words == sorted(words, key=str.lower)
    others = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page != glossary)
    assert [word for word in words if f"glossary.md#{next(iter(anchors(f'# {word}')))})" not in others] == []


def test_every_package_is_in_the_reference():
    """And every module that a door names as it is."""
    import wideproof
    from tests.test_layers import NAMESPACES

    root = Path(wideproof.__file__).parent
    packages = {f"wideproof.{path.parent.name}" for path in root.glob("*/__init__.py")} - {"wideproof.cli"}
    packages |= {f"{package}.{module}" for package, modules in NAMESPACES.items() for module in modules}
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference/api").glob("*.md"))
    assert [
        name for name in sorted({*packages, "wideproof", "wideproof_verify"}) if f".. public:: {name}\n" not in text
    ] == []


def test_tables_list_everything_there_is():
    from wideproof.data import BUNDLED, GENERATORS
    from wideproof.data.preparation import STEPS
    from wideproof.networks import ACTIVATIONS, NETWORKS
    from wideproof.training import LOSSES

    for page, names in (
        ("reference/networks.md", [*NETWORKS, *ACTIVATIONS]),
        ("reference/training.md", list(LOSSES)),
        ("reference/data.md", [*BUNDLED, *GENERATORS, *STEPS]),
    ):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert [name for name in names if f"`{name}" not in text] == [], page


def test_the_format_of_certificates_has_every_claim_of_the_verifier():
    from wideproof_verify.functions import ACTIVATIONS, MARGIN_LOSSES
    from wideproof_verify.graphs import FIELDS
    from wideproof_verify.maps import MAPS
    from wideproof_verify.reading import KEYS, TYPES
    from wideproof_verify.theorems import THEOREMS

    text = (ROOT / "docs" / "reference" / "certificate-format.md").read_text(encoding="utf-8")
    words = {int: "integer", list: "array", dict: "object", str: "string"}
    found = {}
    for part in re.split(r"^### ", text, flags=re.MULTILINE):
        if name := re.match(r"`(\w+)`\n", part):
            found[name[1]] = set(re.findall(r"^\| `(\w+)` \| (needed|optional) \| (\w+)", part, re.MULTILINE))
    assert found == {
        theorem: {
            (claim, how, words.get(TYPES.get(claim), "number"))
            for how, claims in (("needed", known.needed), ("optional", known.allowed))
            for claim in claims
        }
        for theorem, known in THEOREMS.items()
    }
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert {*KEYS, "start", *FIELDS, *MAPS, *ACTIVATIONS, *MARGIN_LOSSES, "squared"} <= rows
    assert [name for phi in MAPS.values() for name in phi.fields if f'"{name}": ' not in text] == []


def test_activation_table_has_the_constants_of_the_code():
    from wideproof.networks import ACTIVATIONS

    text = (ROOT / "docs" / "reference" / "networks.md").read_text(encoding="utf-8")
    for name, activation in ACTIVATIONS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        smoothness = "–" if activation.smoothness is None else f"{activation.smoothness:.5g}"
        yes = {True: "yes", False: "no"}
        expected = [f"{activation.c_sigma:.6f}", f"{activation.lipschitz:.5g}", smoothness]
        assert cells[2:] == [*expected, yes[activation.condition_3_1], yes[activation.condition_3_2]], name


def test_the_statement_in_contributing_runs(monkeypatch: pytest.MonkeyPatch):
    from wideproof.answers import Answer
    from wideproof.papers import laboratory
    from wideproof.papers.statement import REGISTERED

    (_, code), _ = blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    module = ModuleType("wideproof.papers.zou2018.norms")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(REGISTERED, "zou2018", {})
    exec(compile(code, "CONTRIBUTING.md", "exec"), vars(module))
    check = module.lemma_z_1(laboratory("zou2018"))
    assert check.outcome is Answer.HOLDS, str(check)
    assert REGISTERED["zou2018"]["lemma_z_1"].erratum


def check_notebooks(docs: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(docs / "notebooks.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True)


def test_notebooks_are_those_of_the_tutorials():
    done = check_notebooks(ROOT / "docs")
    assert (done.returncode, done.stderr) == (0, "")
    for path in (ROOT / "docs" / "notebooks").iterdir():
        assert path.suffix == ".ipynb"
        assert path.stat().st_size < 64_000
        found = json.loads(path.read_text(encoding="utf-8"))
        ids = [cell["id"] for cell in found["cells"]]
        assert len(set(ids)) == len(ids)
        assert {cell["cell_type"] for cell in found["cells"]} == {"code", "markdown"}
        assert any(cell.get("outputs") for cell in found["cells"])  # it was run


def test_stale_notebooks_are_found(tmp_path: Path):
    """Code that is another, a notebook too many, one that is missing; and nothing else."""
    shutil.copytree(ROOT / "docs" / "start", tmp_path / "start")
    shutil.copytree(ROOT / "docs" / "notebooks", tmp_path / "notebooks")
    shutil.copy(ROOT / "docs" / "notebooks.py", tmp_path)
    assert check_notebooks(tmp_path).returncode == 0
    page = tmp_path / "start" / "first-proof.md"
    page.write_text(page.read_text(encoding="utf-8").replace("range(24)", "range(25)"), encoding="utf-8")
    shutil.copy(tmp_path / "notebooks" / "pytorch.ipynb", tmp_path / "notebooks" / "other.ipynb")
    (tmp_path / "notebooks" / "pytorch.ipynb").unlink()
    done = check_notebooks(tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "other.ipynb has no page; run `make notebooks`",
        "first-proof.ipynb is not the notebook of its page; run `make notebooks`",
        "pytorch has no notebook; run `make notebooks`",
    ]


def test_examples_of_what_makes_notebooks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    module = importlib.import_module("notebooks")
    assert doctest.testmod(module).failed == 0
    long = module.notebook("first-proof", "# A\n\n```python\nx\n```\n", ["", "line\n" * 3000])
    assert "".join(long["cells"][-1]["outputs"][0]["text"]).endswith("line\n… (cut here)\n")
    assert len(json.dumps(long)) < 40_000


def test_the_theorem_in_contributing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """It is certified and verified where weights nearly fit, and says what is in the way where they do not."""
    import numpy as np

    import wideproof as wp

    _, (_, code) = blocks((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    module = ModuleType("wideproof.certificates.theorems.existence")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, "CONTRIBUTING.md", "exec"), vars(module))
    network = wp.build("fully-connected", (3,), (), width=64, depth=1)
    problem = wp.Problem(network, wp.Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary"))
    near = wp.polish(network, network.init(0), problem.data.x, problem.data.y).params
    made = wp.certify(problem.at(near), module.Existence()).certificate
    assert made is not None
    assert wp.verify(made.save(tmp_path / "near")).answer == "proved"
    off = problem.at({name: weight + 1e-3 for name, weight in near.items()})
    assert wp.certify(off, module.Existence()).passed
    assert wp.certify(off, module.Existence(distance=1e-9)).obstacle is not None
    assert wp.certify(problem.at(network.init(0)), module.Existence()).obstacle is not None
    with pytest.raises(wp.InputError, match="distance"):
        module.Existence(distance=-1.0)
