"""What may not take longer or more memory, machines that fail the self-test, and what the command line makes of it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wideproof_verify
from tests.certificates.rewriting import parts, put
from tests.verify import corpus, making
from wideproof.certificates import Problem, certify, polish
from wideproof.data import Dataset
from wideproof.networks import ConvResidual, FullyConnected, get_activation
from wideproof_verify import Verdict, costs, verify
from wideproof_verify.__main__ import USAGE, main, seconds, shown, size
from wideproof_verify.costs import Cost, cost, self_test
from wideproof_verify.eigenvalues import FEW
from wideproof_verify.reading import read

# limits


def claimed(radius: float = 1e-6) -> dict[str, Any]:
    """Claims of Theorem 1 that have the right form."""
    return {
        "rho": 1.0, "s": 1.0, "S": 9.0, "radii": [radius], "lipschitz": [1.0], "sigma": 1.0, "b": 9.0, "eta": 0.01,
        "rate": 0.01, "h": 0.1, "epsilon": 1.0, "steps": 1,
    }  # fmt: skip


def many_rows(folder: Path) -> Path:
    """6,000 rows of one number."""
    network = FullyConnected(1, 8, 1, get_activation("tanh"))
    x = np.random.default_rng(0).standard_normal((6000, 1))
    return making.write(folder, making.statement(network, "descent", claimed()), network.init(0), x, x[:, 0])


def large_grid(folder: Path) -> Path:
    """One convolution on a grid of 40,000 cells."""
    sides: dict[str, Any] = {"positions": [200, 200], "size": [3, 3], "stride": [1, 1], "padding": [[1, 1], [1, 1]]}
    term = {"weight": "W", "source": -1, "map": {"kind": "patches", **sides}}
    nodes = [{"terms": [term], "activation": "tanh", "scale": 1.0, "skip": None}]
    network = {
        "shape": [1, 200, 200], "times": 0, "columns": False, "nodes": nodes, "read_out": "a", "bias": None,
        "sites": [0], "outputs": 1, "trained": ["W", "a"],
    }  # fmt: skip
    rng = np.random.default_rng(0)
    weights = {"W": rng.standard_normal((4, 1, 3, 3)), "a": rng.standard_normal((1, 160000))}
    document = {**making.statement(ConvResidual(1, 3, 3, 2), "descent", claimed()), "network": network}
    return making.write(folder, document, weights, rng.standard_normal((2, 40000)), np.zeros(2))


def long_start(folder: Path) -> Path:
    """A start that is a million steps away."""
    document, arrays = parts(corpus.folder("finite"))
    document["start"] |= {"steps": 10**6, "bits": [50] * 10**6}
    arrays["batches"] = np.tile(arrays["batches"][:1], (10**6, 1))
    return put(folder, document, arrays, digests=True)


def deep_chain(folder: Path) -> Path:
    """20,000 layers of one unit."""
    network = making.config(FullyConnected(1, 1, 1))
    first = network["nodes"][0]
    again = [{**first, "terms": [{"weight": None, "source": k, "map": {"kind": "identity"}}]} for k in range(19999)]
    network |= {"nodes": [first, *again], "sites": [19999]}
    document = {**making.statement(FullyConnected(1, 1, 1), "descent", claimed()), "network": network}
    return making.write(folder, document, FullyConnected(1, 1, 1).init(0), np.ones((1, 1)), np.ones(1))


LARGE = {"rows": many_rows, "grid": large_grid, "start": long_start, "chain": deep_chain}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("balls", [False, True])
def test_what_takes_too_long_is_not_judged(tmp_path, name, balls):
    told: list[Cost] = []
    folder, begun = LARGE[name](tmp_path), time.monotonic()
    verdict = verify(folder, time=2, balls=balls, tell=told.append)
    assert time.monotonic() - begun < 5
    assert verdict.answer == "not judged", verdict.reason
    assert verdict.reason.endswith("allow more with --time")
    assert len(told) == 1
    assert type(told[0]) is Cost
    assert not verdict.statement


@pytest.mark.parametrize("name", ["rows", "grid"])
def test_what_takes_too_much_memory_is_not_judged(tmp_path, name):
    folder, begun = LARGE[name](tmp_path), time.monotonic()
    verdict = verify(folder, time=1e9, memory=150e6)
    assert time.monotonic() - begun < 5
    assert verdict.answer == "not judged", verdict.reason
    assert verdict.reason.endswith("and 0.14 GiB is allowed: allow more with --memory")


@pytest.mark.parametrize("name", corpus.MAKERS)
def test_costs_are_told_once_and_no_less_than_what_it_takes(name):
    told: list[Cost] = []
    verdict = verify(corpus.folder(name), tell=told.append)
    assert verdict.answer == "proved"
    [found] = told
    assert 0 < found.seconds < 60
    assert verdict.seconds <= 2 * found.seconds + 1
    assert 0 < found.memory < 2**30
    certificate = read(corpus.folder(name))
    every = [cost(certificate, bits).seconds for bits in (53, 128, 256, 512, 1024)]
    assert every == sorted(every)
    assert math.isfinite(every[-1])


def test_an_estimate_is_refused_before_anything_is_computed(monkeypatch, tmp_path):
    monkeypatch.setattr(wideproof_verify, "prove", None)
    limits = (1e-3, None, "--time"), (3600, 1e3, "--memory"), (math.nan, None, "--time")
    for allowed, memory, words in limits:
        verdict = verify(corpus.folder("descent"), time=allowed, memory=memory)
        assert verdict.answer == "not judged"
        assert verdict.reason.endswith(words)
        assert verdict.precision == 0
        assert verdict.digests  # what was not judged


def sharp_grid(folder: Path, places: int) -> Path:
    """Two convolutions on a line, `sharp`: derivatives of all places by all places."""
    network = ConvResidual(2, places, 4, 2, 5, get_activation("tanh"))
    x = np.random.default_rng(0).standard_normal((2, 2 * places))
    stated = making.statement(network, "descent", claimed(), sharp=True)
    return making.write(folder, stated, network.init(0), x, np.zeros(2))


def test_sharp_bounds_on_a_large_grid_are_refused_before_anything_is_computed(monkeypatch, tmp_path):
    """5 seconds and 0.13 GiB were estimated for what takes minutes and 6 GiB."""
    monkeypatch.setattr(wideproof_verify, "prove", None)
    folder = sharp_grid(tmp_path, 1000)
    for allowed, memory, words in ((60.0, 1e12, "--time"), (1e9, 2.0**31, "--memory")):
        verdict = verify(folder, time=allowed, memory=memory)
        assert (verdict.answer, verdict.precision) == ("not judged", 0), verdict.reason
        assert verdict.reason.endswith(words)


def test_costs_of_sharp_bounds_are_no_less_than_what_it_takes(tmp_path):
    told: list[Cost] = []
    verdict = verify(sharp_grid(tmp_path, 150), tell=told.append)
    assert verdict.precision == 53, verdict.reason
    assert verdict.seconds / 2 <= told[0].seconds < 60


def test_more_bits_that_cannot_be_afforded_are_said(monkeypatch, tmp_path):
    """Undecided in float64, and no time for balls: not proved, with both reasons."""
    true = costs.cost

    def dear(certificate: Any, bits: int) -> Cost:
        return true(certificate, bits)._replace(seconds=1e6) if bits > 53 else true(certificate, bits)

    monkeypatch.setattr(wideproof_verify, "cost", dear)
    verdict = verify(corpus.folder("descent-relu"))
    assert verdict.answer == "not proved"
    assert "is not decided" in verdict.reason
    assert "; more bits were not tried, they would take about 11.6 days and " in verdict.reason


def test_a_lack_of_memory_and_a_failure_inside_are_no_verdicts(monkeypatch):
    for error, words in (
        (MemoryError(), "there is too little memory"),
        (RecursionError("deep"), "the verifier failed: RecursionError: deep"),
        (AssertionError("odd"), "the verifier failed: AssertionError: odd"),
        (KeyError("s"), "the verifier failed: KeyError: 's'"),
    ):

        def broken(_: Any, error: Exception = error) -> str:
            raise error

        monkeypatch.setattr(wideproof_verify, "prove", broken)
        verdict = verify(corpus.folder("descent"))
        assert (verdict.answer, verdict.reason) == ("not judged", words)


# the self-test


class Wrong(np.ndarray):
    """Arrays with an arithmetic that is a little off."""

    fault = ""

    def _plain(self) -> np.ndarray:
        return np.asarray(self)

    def __add__(self, other: Any) -> Any:
        found = self._plain() + other
        return np.nextafter(found, np.inf) if self.fault == "up" else found

    def __sub__(self, other: Any) -> Any:
        found = self._plain() - other
        return np.nextafter(found, 0) if self.fault == "cut" else found

    def __neg__(self) -> Any:
        return (-self._plain()).view(type(self))

    def __truediv__(self, other: Any) -> Any:
        found = self._plain() / other
        return np.nextafter(found, 0) if self.fault == "quotient" else found

    def __mul__(self, other: Any) -> Any:
        found = self._plain() * other
        return np.where(np.abs(found) < 2.0**-1022, 0.0, found) if self.fault == "faint" else found

    def __matmul__(self, other: Any) -> Any:
        found = self._plain() @ np.asarray(other)
        if self.fault == "product" and self.dtype == np.float64:
            found[3, 5] += 1
        if self.fault == "single" and self.dtype == np.float64:
            found = (self._plain().astype(np.float32) @ np.asarray(other).astype(np.float32)).astype(np.float64)
        if self.fault == "turned" and self.dtype == np.float64 and np.asarray(other).flags.f_contiguous:
            found[0, 0] += 1
        return found


FAULTS = {
    "up": "float64 does not round to nearest", "cut": "float64 does not round to nearest",
    "root": "√ or ÷ of float64 is not rounded", "quotient": "√ or ÷ of float64 is not rounded",
    "faint": "float64 has no subnormal numbers here", "product": "products of whole numbers are not exact",
    "single": "products of whole numbers are not exact", "turned": "products of whole numbers are not exact",
}  # fmt: skip


@pytest.fixture
def afresh():
    """Nothing is known about this machine."""
    self_test.cache_clear()
    yield
    self_test.cache_clear()


def odd_numpy(fault: str) -> Any:
    """NumPy with one fault in its arithmetic."""
    kind = type("Odd", (Wrong,), {"fault": fault})
    draws = SimpleNamespace(default_rng=lambda seed: SimpleNamespace(
        integers=lambda *given: np.random.default_rng(seed).integers(*given).view(kind)))  # fmt: skip
    root = (lambda a: np.nextafter(np.sqrt(a), 2)) if fault == "root" else np.sqrt
    ones, full = (lambda n: np.ones(n).view(kind)), (lambda n, v: np.full(n, v).view(kind))
    plain = {name: getattr(np, name) for name in ("array_equal", "ascontiguousarray", "float64")}
    return SimpleNamespace(**plain, ones=ones, full=full, sqrt=root, random=draws)


def test_this_machine_passes(afresh, monkeypatch):
    self_test()
    assert verify(corpus.folder("descent")).answer == "proved"
    monkeypatch.setattr(costs, "np", odd_numpy("none"))
    self_test.cache_clear()
    self_test()  # what stands in for NumPy is as good, but for its faults


@pytest.mark.parametrize("fault", FAULTS)
def test_a_machine_that_fails_the_self_test_judges_nothing(afresh, monkeypatch, capsys, fault):
    monkeypatch.setattr(costs, "np", odd_numpy(fault))
    verdict = verify(corpus.folder("descent"))
    assert verdict.answer == "not judged"
    assert verdict.reason == f"this machine failed the self-test: {FAULTS[fault]}"
    assert not verdict.statement
    assert main([str(corpus.folder("descent"))]) == 3
    assert capsys.readouterr().out.startswith("not judged: this machine failed the self-test")
    assert verify(corpus.folder("descent"), balls=True).answer == "not judged"


# the table


@pytest.fixture(scope="module")
def tall(tmp_path_factory) -> Path:
    """A proof with more rows of the Jacobian than eigenvalues are computed for."""
    network, rng = FullyConnected(8, 160, 1, get_activation("erf")), np.random.default_rng(0)
    x = rng.standard_normal((FEW + 4, 8))
    params = network.init(0)
    data = Dataset(x, np.asarray(network(params, x)) + 1e-6 * rng.standard_normal(len(x)), "regression")
    attempt = certify(Problem(network, data).at(polish(network, params, data.x, data.y).params))
    assert attempt.certificate is not None, str(attempt)
    return attempt.certificate.save(tmp_path_factory.mktemp("tall") / "certificate")


def test_eigenvalues_of_many_rows_are_not_computed(tall, capsys):
    verdict = verify(tall)
    assert (verdict.answer, verdict.precision) == ("proved", 53), verdict.reason
    rows = {row: right for row, _, right in verdict.checks}
    unknown = [row for row, right in rows.items() if right is None]
    assert sorted(unknown) == ["S ≥ ‖J‖", "s ≤ √λ_min(JJᵀ)"]
    text = shown(verdict)
    assert [line.split()[0] for line in text.splitlines() if line.endswith("not computed")] == ["S", "s"]
    assert main([str(tall), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [right for row, _, right in printed["checks"] if row in unknown] == [None, None]


def test_eigenvalues_of_few_rows_are_in_the_table():
    verdict = verify(corpus.folder("descent"))
    assert all(isinstance(right, float) for _, _, right in verdict.checks)
    assert "not computed" not in shown(verdict)


# the command line


@pytest.mark.parametrize(("read", "text", "value"), [
    (seconds, "90", 90), (seconds, "0.5", 0.5), (seconds, "90s", 90), (seconds, "10m", 600), (seconds, "2h", 7200),
    (seconds, "1.5h", 5400), (seconds, "1d", 86400), (seconds, "3.", 3), (size, "4GB", 4e9), (size, "512MB", 512e6),
    (size, "2GiB", 2**31), (size, "1 MiB", 2**20), (size, "4096", 4096),
])  # fmt: skip
def test_amounts(read, text, value):
    assert read(text) == value


NONE = ("", "0", "0.0h", "-1", "ten", "10x", "1e3", "nan", "inf", "h", "4 G B", "1,5", "2H")
TIME, SIZE = ("--time", "90, 10m, 2h"), ("--memory", "512MB, 4GB, 4GiB")


@pytest.mark.parametrize(("option", "text"), [
    *((option, text) for option in (TIME, SIZE) for text in NONE),
    *((TIME, text) for text in ("4GB", "1 MiB", "512MB")), *((SIZE, text) for text in ("10m", "2h", "90s", "1d")),
])  # fmt: skip
def test_amounts_that_are_none(capsys, option, text):
    """A size is no time, and a time no size."""
    with pytest.raises(SystemExit) as ended:
        main([str(corpus.folder("descent")), f"{option[0]}={text}"])
    assert ended.value.code == USAGE
    said = capsys.readouterr().err
    assert f"argument {option[0]}: {text!r} is not a positive number, with a unit if need be: {option[1]}\n" in said


@pytest.mark.parametrize("arguments", [[], ["one", "two"], ["one", "--colour"], ["one", "--time"]])
def test_a_bad_command_line_is_no_malformed_certificate(capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == USAGE == 64
    said = capsys.readouterr()
    assert said.err.startswith("usage: wideproof_verify")
    assert "wideproof_verify: error: " in said.err
    assert said.out == ""


def test_exit_codes(tmp_path, capsys):
    good = corpus.folder("descent")
    document, arrays = parts(good)
    document["claims"]["s"] *= 1.1
    wrong = put(tmp_path / "wrong", document, arrays, digests=True)
    for arguments, code, words in (
        ([good], 0, "proved: Gradient descent"), ([good, "--balls"], 0, "proved: Gradient descent"),
        ([wrong], 1, "not proved: s ≤"), ([wrong, "--balls"], 1, "not proved: s ≤"),
        ([tmp_path / "none"], 2, "malformed: there is no file"), ([good, "--time", "0.001"], 3, "not judged: it would"),
        ([good, "--memory", "1MB"], 3, "not judged: it would"), ([good, "--time=2h", "--memory=4GB"], 0, "proved:"),
    ):  # fmt: skip
        assert main([*map(str, arguments)]) == code, arguments
        assert capsys.readouterr().out.startswith(words)
        assert main([*map(str, arguments), "--json"]) == code
        printed = json.loads(capsys.readouterr().out)
        assert printed["answer"] == words.split(":")[0]
        assert Verdict(**printed).answer == printed["answer"]


def test_a_long_judgement_is_announced(tmp_path, capsys):
    assert main([str(many_rows(tmp_path)), "--time", "1m"]) == 3
    said = capsys.readouterr()
    assert said.err.startswith("this takes about ")
    assert said.out.startswith("not judged: it would take about ")
    assert main([str(corpus.folder("descent"))]) == 0
    assert capsys.readouterr().err == ""


def test_the_process_ends_with_the_code():
    for arguments, code in ((["--time", "0.001"], 3), (["--time", "soon"], 64), (["--time", "4GB"], 64), ([], 0)):
        command = [sys.executable, "-m", "wideproof_verify", str(corpus.folder("fit")), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr


def test_every_digest_is_printed():
    verdict = verify(corpus.folder("ridge"))
    names = [line.split("  ")[1] for line in shown(verdict).splitlines() if len(line.split("  ")[0]) == 64]
    _, arrays = parts(corpus.folder("ridge"))
    assert sorted(names) == sorted(["data", "graph", *arrays])
