"""The command line as a function: arguments in, exit code and what was printed out."""

import sys
from typing import NamedTuple

import numpy as np
import pytest

from wideproof.cli import main


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """Run `wideproof` in this process, in an empty folder; a traceback fails the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["wideproof", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return Answer(0 if code is None else int(code), *capsys.readouterr())

    return run


@pytest.fixture
def rows():
    """Twelve examples with five features: enough for every kind of file."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((12, 5))


def pytest_assertrepr_compare(op, left, right):
    """Name the files where two listings differ; their bytes would only fill the screen."""
    if isinstance(left, dict) and isinstance(right, dict) and all(isinstance(v, bytes | None) for v in left.values()):
        return [f"files: {sorted(left)} {op} {sorted(right)}"]
    return None
