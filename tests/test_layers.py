"""The order of the layers: a module imports its own layer or an earlier one, and nothing imports what stands beside."""

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import wideproof

SOURCE = Path(wideproof.__file__).parent
BASE = ("errors", "precision", "storage", "processes", "threads", "machine", "programs", "cards")
LAYERS = (BASE, *((name,) for name in
          ("data", "networks", "kernels", "training", "monitors", "papers", "certificates", "planning",
           "report", "proving")))  # fmt: skip
BESIDE = ("sweeps", "estimators", "lab", "cli", "doctor")
OPEN = ("__init__", "__main__")  # the front door and `python -m wideproof` may import anything
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports(path: Path, root: Path) -> list[tuple[int, str]]:
    """Return line and full name of every import in a file, at the top or in functions.

    What is imported for types only does not count: `report` draws a `Proof` that `proving`, a later layer, makes.
    """
    found = []
    package = (root.name, *path.relative_to(root).parent.parts)
    tree = ast.parse(path.read_text(), str(path))
    typed = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If)
             and ast.unparse(node.test).endswith("TYPE_CHECKING") for inner in ast.walk(node)}  # fmt: skip
    for node in ast.walk(tree):
        if id(node) in typed:
            continue
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            start = ".".join((*above, *((node.module,) if node.module else ())))
            found += [(node.lineno, f"{start}.{alias.name}") for alias in node.names]
    return found


def violations(root: Path) -> list[str]:
    """Return one sentence for every import against the order, and for every module that has no place in it."""
    wrong = []
    for path in sorted(root.rglob("*.py")):
        own = path.relative_to(root).parts[0].removesuffix(".py")
        if own in OPEN or own in BESIDE:
            continue
        where = path.relative_to(root)
        if own not in RANK:
            wrong.append(f"{where} belongs to no layer")
            continue
        for line, name in imports(path, root):
            first, _, rest = name.partition(".")
            if first != root.name or rest == "__version__":
                continue
            target = rest.partition(".")[0]
            if target not in RANK:
                wrong.append(f"{where}:{line} imports {name}, which is outside the chain of layers")
            elif RANK[target] > RANK[own]:
                wrong.append(f"{where}:{line} imports {name}, which is a later layer")
    return wrong


def test_every_import_follows_the_order():
    assert violations(SOURCE) == []


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
        ("data/deep/a.py", "from ...cli import main", "data/deep/a.py:1 imports wideproof.cli.main.*outside"),
        ("errors.py", "from wideproof.data import load", "errors.py:1 imports wideproof.data.load.*later"),
        ("errors.py", "from .data import load", "errors.py:1 imports wideproof.data.load.*later"),
        ("training/a.py", "from wideproof import report", "training/a.py:1 imports wideproof.report.*later"),
        ("training/a.py", "from wideproof import train", "training/a.py:1 imports wideproof.train.*outside"),
        ("training/a.py", "import wideproof", "training/a.py:1 imports wideproof.*outside"),
        ("report/a.py", "from wideproof.sweeps import sweep", "report/a.py:1 imports wideproof.sweeps.sweep.*outside"),
        ("report/a.py", "from wideproof.proving import Proof", "report/a.py:1 imports wideproof.proving.Proof.*later"),
        ("utils.py", "", "utils.py belongs to no layer"),
    ],
)
def test_a_planted_violation_is_found(tmp_path, file, line, sentence):
    root = tmp_path / "wideproof"
    for name, content in {
        "__init__.py": "from wideproof.report import curve\n",
        "errors.py": "",
        "storage.py": "from wideproof.errors import InputError\n",
        "data/__init__.py": "from wideproof.data.loaders import load\nfrom .. import errors\n",
        "training/__init__.py": "import jax\nfrom wideproof import __version__\nfrom wideproof.data import load\n",
        "cli/__init__.py": "from wideproof.report import curve\nfrom wideproof.sweeps import sweep\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    assert violations(root) == []
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(line + "\n")
    (found,) = violations(root)
    assert re.match(sentence, found)


def test_data_never_imports_jax():
    """Neither itself nor through the base: `errors` and `storage` are free of JAX, `precision` is not."""
    free = [*(SOURCE / "data").rglob("*.py"), SOURCE / "errors.py", SOURCE / "storage.py"]
    assert len(free) > 10
    for path in free:
        for line, name in imports(path, SOURCE):
            assert name.partition(".")[0] not in ("jax", "jaxlib", "jaxtyping", "optax"), f"{path.name}:{line}: {name}"
            assert not name.startswith("wideproof.precision"), f"{path.name}:{line}: {name}"


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
