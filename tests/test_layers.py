"""The order of the packages, their doors, and no way round in a circle.

A module imports its own layer or an earlier one; of another package it takes what that package's `__init__` names; and
following imports never leads back.
"""

import ast
import functools
import graphlib
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import wideproof

SOURCE = Path(wideproof.__file__).parent
ROOT = Path(__file__).parents[1]
BASE = (
    "answers", "arguments", "cards", "doors", "errors", "interrupts", "machine", "precision",
    "processes", "programs", "progress", "resources", "statistics", "storage", "threads", "titles", "version",
)  # fmt: skip
LAYERS = (BASE, *((name,) for name in (
    "data", "networks", "kernels", "training", "monitors", "papers", "certificates", "rocq", "planning", "sweeps",
    "report", "proving", "theorems", "estimators", "adapters", "lab", "doctor", "cli",
)))  # fmt: skip
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
OPEN = (
    "__init__",
    "__main__",
)  # `import wideproof` and `python -m wideproof` may import anything; nothing imports them

# Modules that a door names as they are, because their names are said with the module's: `relu.gradient_norms`.
NAMESPACES = {
    "wideproof.certificates": {"passes"},
    "wideproof.kernels": {"cholesky"},
    "wideproof.monitors": {"attacks", "generalization", "perturbations", "recurrent", "relu", "residual",
                           "residual_moves", "smooth"},
    "wideproof.networks": {"maps", "starts"},
    "wideproof.report": {"check_words", "proof_sentences"},
    "wideproof.sweeps": {"store"},
}  # fmt: skip
# What may be taken past a door, and why.
PAST = {
    "__init__.py wideproof.lab.widget.lab": "type checkers cannot see that the package can be called",
}


class Import(NamedTuple):
    """One imported name: `from start import name`, or `import start` with no name."""

    line: int
    start: str
    name: str
    typed: bool  # for type checkers only
    top: bool  # when the module is imported, not when a function is called

    @property
    def full(self) -> str:
        return f"{self.start}.{self.name}" if self.name else self.start


def imports(path: Path, root: Path) -> list[Import]:
    """Return every import in a file, at the top, in functions, for types; relative ones with their full names."""
    return imports_in(path.read_text(), (root.name, *path.relative_to(root).parent.parts))


@functools.cache
def imports_in(text: str, package: tuple[str, ...]) -> list[Import]:
    """Return every import in the text of a module."""
    found = []
    tree = ast.parse(text)
    typed = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If)
             and ast.unparse(node.test).endswith("TYPE_CHECKING") for inner in ast.walk(node)}  # fmt: skip
    later = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        kind = (id(node) in typed, id(node) not in typed and id(node) not in later)
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name, "", *kind) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            start = ".".join((*above, *((node.module,) if node.module else ())))
            found += [Import(node.lineno, start, alias.name, *kind) for alias in node.names]
    return found


def files(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield every file with the package or module of the base that it belongs to."""
    for path in sorted(root.rglob("*.py")):
        yield path, path.relative_to(root).parts[0].removesuffix(".py")


def violations(root: Path) -> list[str]:
    """Return one sentence for every import against the order, and for every module that has no place in it.

    What is imported for types only does not count: `report` draws a `Proof` that `proving`, a later layer, makes.
    """
    wrong = []
    for path, own in files(root):
        if own in OPEN:
            continue
        where = path.relative_to(root)
        if own not in RANK:
            wrong.append(f"{where} belongs to no layer")
            continue
        for one in imports(path, root):
            first, _, rest = one.full.partition(".")
            if first != root.name or one.typed:
                continue
            target = rest.partition(".")[0]
            if target not in RANK:
                wrong.append(f"{where}:{one.line} imports {one.full}, which has no rank")
            elif RANK[target] > RANK[own]:
                wrong.append(f"{where}:{one.line} imports {one.full}, which is a later layer")
    return wrong


class Door(NamedTuple):
    """What a package's `__init__` names, and which of these are its own modules."""

    names: set[str]
    modules: set[str]


def doors(root: Path) -> dict[str, Door]:
    """Return the door of every package: what its `__init__` imports for others (`as`), defines or opens lazily."""
    found = {}
    for path in root.rglob("__init__.py"):
        package = ".".join((root.name, *path.parent.relative_to(root).parts))
        body = ast.parse(path.read_text()).body
        names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        names |= {node.id for one in body if isinstance(one, ast.Assign) for node in one.targets
                  if isinstance(node, ast.Name)}  # fmt: skip
        modules = set()
        for one in imports(path, root):
            names.add(one.name)
            if one.start == package and (path.parent / f"{one.name}.py").exists():
                modules.add(one.name)
        found[package] = Door({name for name in names if name and not name.startswith("_")}, modules)
    return found


def crossings(root: Path) -> tuple[int, list[str]]:
    """Return how many names packages take of other packages, and each that is taken past the door."""
    opened, count, past = doors(root), 0, []
    for path, own in files(root):
        for one in imports(path, root):
            parts = one.full.split(".")
            if parts[0] != root.name or len(parts) < 2 or parts[1] == own or f"{root.name}.{parts[1]}" not in opened:
                continue
            if len(parts) == 2:  # the package itself
                continue
            count += 1
            if one.start in opened:
                good = not one.name or one.name in opened[one.start].names or one.full in opened
            else:  # of a module: fine if the door names the module
                door, _, module = one.start.rpartition(".")
                good = door in opened and module in opened[door].modules and not one.name.startswith("_")
            if not good:
                past.append(f"{path.relative_to(root)} {one.full}")
    return count, past


def own_doors(root: Path) -> list[str]:
    """Return each import by which a module takes a name of its own package from the package's door."""
    wrong = []
    for path, _ in files(root):
        package = ".".join((root.name, *path.parent.relative_to(root).parts))
        for one in imports(path, root):
            module = (path.parent / f"{one.name}.py").exists() or (path.parent / one.name / "__init__.py").exists()
            if path.name != "__init__.py" and one.start == package and package != root.name and not module:
                wrong.append(f"{path.relative_to(root)}:{one.line} takes {one.full} through its own door")
    return wrong


def cycle(root: Path) -> list[str]:
    """Return the modules of a circle of imports at the top of modules, or none."""
    opened = doors(root)
    graph: dict[str, set[str]] = {}
    for path, _ in files(root):
        relative = path.relative_to(root).with_suffix("")
        own = ".".join((root.name, *(part for part in relative.parts if part != "__init__")))
        graph[own] = set()
        for one in imports(path, root):
            if one.top and one.start.partition(".")[0] == root.name:
                module = root.parent.joinpath(*one.full.split("."))
                named = module.with_suffix(".py").exists() or one.full in opened
                graph[own].add(one.full if named else one.start)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def test_every_import_follows_the_order():
    assert violations(SOURCE) == []


def test_every_package_has_a_rank():
    """The written order holds nothing that is not there, and misses nothing."""
    there = {own for _, own in files(SOURCE)} - set(OPEN)
    assert there == set(RANK)


def test_other_packages_are_entered_through_their_doors():
    count, past = crossings(SOURCE)
    assert count > 700
    assert sorted(set(past) - set(PAST)) == [], f"{len(past)} of {count} imports go past a door"
    assert sorted(set(PAST) - set(past)) == [], "no longer needed on the list"


def test_doors_name_few_modules_as_they_are():
    assert {package: door.modules for package, door in doors(SOURCE).items() if door.modules and
            package != "wideproof"} == NAMESPACES  # fmt: skip


def test_no_module_uses_its_own_door():
    assert own_doors(SOURCE) == []


def test_no_imports_in_a_circle():
    assert cycle(SOURCE) == []


def test_contributing_has_the_same_order():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \|", text.partition("## Layers")[2].partition("\n## ")[0], re.MULTILINE)
    assert [tuple(sorted(re.findall(r"`([^`]+)`", row))) for row in rows] == list(LAYERS)


@pytest.fixture
def planted(tmp_path):
    root = tmp_path / "wideproof"
    for name, content in {
        "__init__.py": "from wideproof.report import curve\n",
        "errors.py": "",
        "storage.py": "from wideproof.errors import InputError\n",
        "data/__init__.py": "from wideproof.data.loaders import load as load\nfrom .. import errors\n",
        "data/loaders.py": "def load(): ...\ndef _read(): ...\n",
        "data/tables.py": "from wideproof.data import loaders\n",
        "networks/__init__.py": "from wideproof.networks import maps as maps\nfrom .maps import A as A\n",
        "networks/maps.py": "A = 1\n",
        "networks/deep/__init__.py": "from wideproof.networks.deep.low import down as down\n",
        "networks/deep/low.py": "def down(): ...\n",
        "training/__init__.py": "import jax\nfrom .. import errors\nfrom wideproof.data import load\n",
        "training/loop.py": "from wideproof.networks.maps import A\nfrom wideproof.networks.deep import down\n",
        "training/run.py": "",
        "cli/__init__.py": "from wideproof.report import curve\nfrom wideproof.sweeps import sweep\n",
        "report/__init__.py": "from wideproof.report.curves import curve as curve\n",
        "report/curves.py": "def curve(): ...\n",
        "sweeps/__init__.py": "def sweep(): ...\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def plant(root: Path, file: str, line: str) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(line + "\n")


def test_nothing_is_wrong_before_something_is_planted(planted):
    assert violations(planted) == own_doors(planted) == cycle(planted) == []
    assert crossings(planted) == (6, [])


@pytest.mark.parametrize(
    ("file", "line", "sentence"),
    [
        ("data/a.py", "from wideproof.networks import build", "data/a.py:1 imports wideproof.networks.build.*later"),
        (
            "data/a.py",
            "def f():\n    import wideproof.training.run",
            "data/a.py:2 imports wideproof.training.run,",
        ),
        ("data/a.py", "from ..kernels import gram", "data/a.py:1 imports wideproof.kernels.gram.*later"),
        ("data/deep/a.py", "from ...cli import main", "data/deep/a.py:1 imports wideproof.cli.main.*later"),
        ("errors.py", "from wideproof.data import load", "errors.py:1 imports wideproof.data.load.*later"),
        ("errors.py", "from .data import load", "errors.py:1 imports wideproof.data.load.*later"),
        ("training/a.py", "from wideproof import report", "training/a.py:1 imports wideproof.report.*later"),
        ("training/a.py", "from wideproof import train", "training/a.py:1 imports wideproof.train.*no rank"),
        ("training/a.py", "import wideproof", "training/a.py:1 imports wideproof.*no rank"),
        ("sweeps/a.py", "from wideproof.report import curve", "sweeps/a.py:1 imports wideproof.report.curve.*later"),
        ("report/a.py", "from wideproof.proving import Proof", "report/a.py:1 imports wideproof.proving.Proof.*later"),
        ("estimators/a.py", "from wideproof.cli import main", "estimators/a.py:1 imports wideproof.cli.main.*later"),
        ("doctor.py", "from wideproof.cli import main", "doctor.py:1 imports wideproof.cli.main.*later"),
        ("utils.py", "", "utils.py belongs to no layer"),
    ],
)
def test_a_planted_violation_is_found(planted, file, line, sentence):
    plant(planted, file, line)
    (found,) = violations(planted)
    assert re.match(sentence, found)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from wideproof.data.loaders import load", "wideproof.data.loaders.load"),  # the door names it: use the door
        ("from wideproof.data.loaders import _read", "wideproof.data.loaders._read"),
        ("from wideproof.data import loaders", "wideproof.data.loaders"),
        ("def f():\n    from ..data import loaders", "wideproof.data.loaders"),
        ("import wideproof.data.loaders", "wideproof.data.loaders"),
        ("from wideproof.networks.maps import _B", "wideproof.networks.maps._B"),
        ("from wideproof.networks.deep.low import down", "wideproof.networks.deep.low.down"),
        ("from wideproof.networks.deep import low", "wideproof.networks.deep.low"),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from wideproof.data.tables import T",
            "wideproof.data.tables.T",
        ),
    ],
)
def test_a_planted_way_past_a_door_is_found(planted, line, name):
    plant(planted, "training/a.py", line)
    assert crossings(planted) == (7, [f"training/a.py {name}"])


def test_a_planted_use_of_ones_own_door_is_found(planted):
    plant(planted, "data/a.py", "from wideproof.data import load")
    assert own_doors(planted) == ["data/a.py:1 takes wideproof.data.load through its own door"]


@pytest.mark.parametrize(
    ("file", "line", "modules"),
    [
        ("data/loaders.py", "from wideproof.data import tables", {"wideproof.data.tables", "wideproof.data.loaders"}),
        ("data/loaders.py", "from wideproof.report import curve", None),
        ("errors.py", "from . import storage", {"wideproof.errors", "wideproof.storage"}),
    ],
)
def test_a_planted_circle_is_found(planted, file, line, modules):
    if modules is None:  # between packages
        plant(planted, "report/curves.py", "from wideproof.data import load")
        modules = {"wideproof.data", "wideproof.data.loaders", "wideproof.report", "wideproof.report.curves"}
    plant(planted, file, line)
    assert set(cycle(planted)) == modules
    plant(planted, file, "def f():\n    " + line)  # inside a function it is no circle while modules are imported
    assert cycle(planted) == []


def test_data_never_imports_jax():
    """Neither itself nor through the base: `errors` and `storage` are free of JAX, `precision` is not."""
    free = [*(SOURCE / "data").rglob("*.py"), SOURCE / "errors.py", SOURCE / "storage.py"]
    assert len(free) > 10
    for path in free:
        for one in imports(path, SOURCE):
            assert one.full.partition(".")[0] not in ("jax", "jaxlib", "jaxtyping", "optax"), f"{path.name}: {one}"
            assert not one.full.startswith("wideproof.precision"), f"{path.name}: {one}"


HEAVY = {"jax", "sklearn", "scipy", "pandas", "matplotlib", "wideproof.networks", "wideproof.certificates"}
# What a command may load of all that is heavy, in this order in one process.
WEIGHTS = {
    "import wideproof.data": set(),
    "--help": set(),
    "cite": set(),
    "check --list": set(),
    "check --list zou2018 width": set(),
    "data": {"sklearn", "scipy", "pandas"},
    "networks": {"sklearn", "scipy", "pandas", "jax", "wideproof.networks"},
}


def test_commands_that_only_list_load_little():
    """What is heavy takes seconds to load, and the layers do not limit it: one constant can bring all of it."""
    script = f"""
        import contextlib, io, json, sys

        heavy, seen = {HEAVY}, {{}}
        for command in {list(WEIGHTS)}:
            with contextlib.redirect_stdout(io.StringIO()):
                if command.startswith("import "):
                    __import__(command.split()[1])
                else:
                    from wideproof.cli import main

                    sys.argv = ["wideproof", *command.split()]
                    try:
                        main()
                    except SystemExit as end:
                        assert not end.code, (command, end.code)
            seen[command] = sorted(heavy & sys.modules.keys())
        print(json.dumps(seen))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    loaded = {command: set(names) for command, names in json.loads(done.stdout).items()}
    assert {command: names - WEIGHTS[command] for command, names in loaded.items() if names - WEIGHTS[command]} == {}
    assert "jax" in loaded["networks"]  # this count sees what is there


def test_help_does_not_import_jax():
    """Help, and a mistyped command, answer at once."""
    script = """
        import sys
        from wideproof.cli import main

        sys.argv = ["wideproof", "--help"]
        try:
            main()
        except SystemExit as end:
            assert end.code == 0
        loaded = {"jax", "sklearn", "scipy", "matplotlib", "wideproof.networks"} & sys.modules.keys()
        assert not loaded, loaded
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "train" in done.stdout
