"""Plant single-operator faults in a copy of the project, and see whether the tests notice: `make faults`.

A seed decides one fault: a module, drawn with its number of lines as weight, one kind of those that it has room for,
and one place: + and -, * and /, < and <=, == and != exchanged, min and max, a sign dropped, a whole number one larger.
Then the tests that are likely to notice run, nearest first, until one fails: the module's doctests, the tests of its
name, those that import it, those that import what imports it. A fault is caught by a test that fails, survives a
selection that passes, and is undecided where the limit of processor time ends the selection first.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "verifier")
FILES, NEAREST = 16, 3  # test files in a selection at most, besides the module's doctests; those that run first

ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}
COMPARISONS = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
               ast.Eq: ("==", "!="), ast.NotEq: ("!=", "==")}  # fmt: skip
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Fault:
    """One change: bytes `start` to `end` of a module become `new`."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str
    kind: str

    def planted(self, text: bytes) -> bytes:
        """Return the module with the fault in it.

        >>> Fault("a.py", 1, 2, 3, "+", "-", "arithmetic").planted(b"a + b")
        b'a - b'
        """
        assert text[self.start : self.end].decode() == self.old
        return text[: self.start] + self.new.encode() + text[self.end :]


def faults_in(path: str, text: bytes) -> list[Fault]:
    """List the faults that can be planted in a module, in the order of its text.

    >>> [(f.old, f.new) for f in faults_in("a.py", b"y: Literal[3] = max(-x, 1) + z  # 2 * 3")]
    [('max', 'min'), ('-', ''), ('1', '2'), ('+', '-')]
    """
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def begin(node: ast.expr) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def end(node: ast.expr) -> int:
        return starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def between(left: ast.expr, right: ast.expr, old: str, new: str, kind: str) -> Iterator[Fault]:
        gap = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), text[end(left) : begin(right)])
        found = [m for m in re.finditer(rb"[<>=!]=|[-+*/<>]", gap) if m[0].decode() == old]
        if len(found) == 1:
            at = end(left) + found[0].start()
            yield Fault(path, text[:at].count(b"\n") + 1, at, at + len(old), old, new, kind)

    def of(node: ast.AST) -> Iterator[Fault]:
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not (_text(node.left) or _text(node.right)):
            yield from between(node.left, node.right, *ARITHMETIC[type(node.op)], "arithmetic")
        elif isinstance(node, ast.Compare):
            for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                if type(op) in COMPARISONS:
                    yield from between(left, right, *COMPARISONS[type(op)], "comparison")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield Fault(path, node.lineno, begin(node), begin(node) + 1, "-", "", "sign")
        elif isinstance(node, ast.Call) and (name := _called(node.func)) in EXTREMES:
            at = end(node.func) - len(name)
            yield Fault(path, node.func.end_lineno or 1, at, at + len(name), name, EXTREMES[name], "extreme")
        elif isinstance(node, ast.Constant) and type(node.value) is int and text[begin(node) : end(node)].isdigit():
            yield Fault(path, node.lineno, begin(node), end(node), str(node.value), str(node.value + 1), "constant")

    found = {fault for node in _walk(ast.parse(text)) for fault in of(node)}
    return sorted(found, key=lambda fault: (fault.start, fault.end))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Walk through what is computed: no annotations, no formatted strings."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params") or isinstance(value, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _walk(child)


def _text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _called(function: ast.expr) -> str:
    return getattr(function, "id", "") or getattr(function, "attr", "")


def modules_of(root: Path) -> Iterator[Path]:
    """Yield the modules of both packages."""
    return (path for source in SOURCES for path in (root / source).rglob("*.py"))


def draw(seed: int, root: Path) -> Fault:
    """Return the fault of a seed."""
    paths = sorted(str(path.relative_to(root)) for path in modules_of(root))
    texts = {path: (root / path).read_bytes() for path in paths}
    rng = random.Random(seed)
    while True:
        (path,) = rng.choices(paths, weights=[text.count(b"\n") + 1 for text in texts.values()])
        if possible := faults_in(path, texts[path]):
            kind = rng.choice(sorted({fault.kind for fault in possible}))
            return rng.choice([fault for fault in possible if fault.kind == kind])


class Selection:
    """Which test files are near a module, by names and imports."""

    def __init__(self, root: Path):
        self.root = root
        self.modules = {self._dotted(path): path for path in modules_of(root)}
        self.defined: dict[str, set[str]] = {}
        for module, path in self.modules.items():
            for node in ast.parse(path.read_bytes()).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    self.defined.setdefault(node.name, set()).add(module)
        self.imports = {module: self._imported(path) for module, path in self.modules.items()}
        self.tests = {path: self._imported(path) for path in (root / "tests").rglob("test_*.py")}

    def near(self, path: str) -> list[str]:
        """Return the test files for a module, nearest first."""
        module, steps = self._dotted(self.root / path), {}
        steps[module] = 0
        for distance in (1, 2):
            for user, used in self.imports.items():
                if user not in steps and any(steps.get(name) == distance - 1 for name in used):
                    steps[user] = distance
        package, stem = Path(path).parent.name, Path(path).stem.strip("_")
        folder = "verify" if path.startswith("verifier/") else package

        def rank(test: Path) -> tuple[bool, float, bool, int]:
            far = min((steps[name] for name in self.tests[test] if name in steps), default=9.0)
            home = folder in test.relative_to(self.root).parts or ("papers" in path and "papers" in test.parts)
            named = home and (stem in test.stem or package in test.stem or test.stem.removeprefix("test_") in stem)
            named = named or test.stem == f"test_{stem}"
            return not named, min(far, 1.5) if home else far, not home, test.stat().st_size

        ranked = sorted(self.tests, key=rank)
        chosen = [test for test in ranked if not rank(test)[0] or rank(test)[1] < 9][:FILES]
        return [str(test.relative_to(self.root)) for test in chosen]

    def _dotted(self, path: Path) -> str:
        _, *parts = path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    def _imported(self, path: Path) -> set[str]:
        """Return the modules that a file imports, also through the doors of packages and by `wp.name`."""
        found: set[str] = set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("wideproof"):
                home = node.module or ""
                for alias in node.names:
                    inside = f"{home}.{alias.name}"
                    owners = {m for m in self.defined.get(alias.name, ()) if m == home or m.startswith(f"{home}.")}
                    found |= {inside} if inside in self.modules else owners or {home}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "wp":
                found |= {m for m in self.defined.get(node.attr, ()) if m.startswith("wideproof.")}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names if alias.name.startswith("wideproof.")}
        return found & set(self.modules)


@dataclass(frozen=True)
class Result:
    """What became of one fault."""

    seed: int
    path: str
    line: int
    fault: str
    code: str
    outcome: str
    by: str
    seconds: float
    files: tuple[str, ...]


def attempt(seed: int, fault: Fault, root: Path, selection: Selection, limit: int) -> Result:
    """Plant a fault in `root`, run its tests, and take it out again."""
    place = root / fault.path
    text = place.read_bytes()
    tests = selection.near(fault.path)
    code = text.decode().splitlines()[fault.line - 1].strip()
    only, began = _of_its_paper(fault.path), time.monotonic()
    place.write_bytes(fault.planted(text))
    try:
        # The nearest alone first: most faults need no more, and collecting the others takes longer than running these.
        status, said = tested([fault.path, *tests[:NEAREST]], only, root, limit)
        if status in (0, 5) and tests[NEAREST:]:
            status, said = tested(tests[NEAREST:], only, root, limit)
    finally:
        place.write_bytes(text)
    outcome = {0: "survived", 1: "caught", 2: "caught", 4: "caught", 5: "survived"}.get(status, "undecided")
    failing = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
    if outcome == "caught" and failing and tested(failing[:1], [], root, limit)[0]:
        outcome = "undecided"  # that test fails without the fault as well
    passed = sum(line.count(".") for line in re.findall(r"^[.sxX]+", said, re.MULTILINE))
    by = failing[0] if failing else f"{passed} tests passed, exit {status}"
    change = f"{fault.old} -> {fault.new or 'nothing'}"
    seconds = round(time.monotonic() - began, 1)
    return Result(seed, fault.path, fault.line, change, code, outcome, by, seconds, tuple(tests))


def tested(files: list[str], only: list[str], root: Path, limit: int) -> tuple[int, str]:
    """Run test files until one fails, in a fork of this process; return the exit code and what was said."""
    # Without `addopts`: checking shapes at every call takes longer than most selections.
    arguments = ["-x", "-q", "--no-header", "--tb=line", "-o", "addopts=", "-m", "not slow", *only, "--doctest-modules",
                 "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # fmt: skip
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            code = 3
            try:
                os.setpgid(0, 0)
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                os.chdir(root)
                sources = [str(root / source) for source in SOURCES]
                os.environ["PYTHONPATH"] = os.pathsep.join(sources)
                sys.path[:0] = [str(root), *sources]
                code = int(pytest.main([*arguments, *files]))
                sys.stdout.flush()
            finally:
                os._exit(code)  # nothing of the parent's is unwound here
        began, ended = time.monotonic(), 0
        while not ended:
            time.sleep(0.1)
            ended, status = os.waitpid(child, os.WNOHANG)
            if time.monotonic() - began > 15 * limit:
                os.killpg(child, signal.SIGKILL)
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read()


def preload() -> None:
    """Import what nearly all tests import, none of it from here: a fork has it at once."""
    import jax.numpy  # noqa: ICN001, bound for `del` only
    import mpmath
    import pandas
    import scipy.optimize
    import sklearn.base
    import xarray
    import zarr

    del jax, mpmath, pandas, scipy, sklearn, xarray, zarr
    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # no thread of JAX's runs before its first array


def _of_its_paper(path: str) -> list[str]:
    """Leave out the other papers' statements, for a module of one paper.

    >>> _of_its_paper("src/wideproof/papers/du2019/bounds.py")
    ['-k', 'not (allenzhu2018 or frei2019 or zou2018)']
    """
    papers = {"allenzhu2018", "du2019", "frei2019", "zou2018"}
    others = sorted(papers - set(Path(path).parts))
    return ["-k", f"not ({' or '.join(others)})"] if len(others) < len(papers) else []


def copied(root: Path, target: Path) -> Path:
    """Copy what git knows of the working tree."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    return target


def read(path: Path) -> list[dict]:
    """Return the results that a file holds."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    """Plant faults and write down what became of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="1-51", help="first and last seed")
    parser.add_argument("--limit", type=int, default=150, help="processor seconds for the tests of one fault")
    parser.add_argument("--out", type=Path, default=Path("faults.jsonl"), help="one JSON object a line, appended")
    parser.add_argument("--list", action="store_true", help="say what would be planted, and run nothing")
    options = parser.parse_args()
    first, last = (int(part) for part in options.seeds.split("-"))
    known = {result["seed"] for result in read(options.out)}
    planted: dict[Fault, int] = {}
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        root = copied(ROOT, Path(folder))
        selection = Selection(root)
        if not options.list:
            preload()
        for seed in range(first, last + 1):
            fault = draw(seed, root)
            if planted.setdefault(fault, seed) != seed:
                print(f"{seed:4} is the fault of seed {planted[fault]}")
            elif options.list:
                print(f"{seed:4} {fault.path}:{fault.line} {fault.old} -> {fault.new or 'nothing'}",
                      *selection.near(fault.path), sep="\n       ")  # fmt: skip
            elif seed not in known:
                result = attempt(seed, fault, root, selection, options.limit)
                with options.out.open("a") as stream:
                    stream.write(json.dumps(asdict(result), ensure_ascii=False) + "\n")
                where = f"{result.path}:{result.line} {result.fault}"
                print(f"{seed:4} {result.outcome:9} {result.seconds:6} s  {where}  {result.by}", flush=True)
    if not options.list:
        results = read(options.out)
        counted = {name: sum(r["outcome"] == name for r in results) for name in ("caught", "survived", "undecided")}
        print(", ".join(f"{count} {name}" for name, count in counted.items()))


if __name__ == "__main__":
    main()
