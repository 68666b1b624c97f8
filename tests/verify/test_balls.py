"""Everything in balls: the same answers, and float64 with radii decides nothing, as it may not even be called."""

import copy
import inspect
from typing import Any

import pytest

from tests.certificates.rewriting import parts, put
from tests.verify import corpus
from wideproof_verify import double, floats, verify
from wideproof_verify.arithmetic import FLOATS, FloatArithmetic
from wideproof_verify.eigenvalues import Symmetric

KEPT = {"moved", "balls", "__init__", "__len__", "up"}  # of `Floats`: a start is kept in one before its first step


class UsedError(Exception):
    """Something of float64 with radii was called."""


@pytest.fixture
def without_floats(monkeypatch):
    """Every method and function that computes with float64 and radii raises."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise UsedError("float64 with radii was used")

    for owner in (FloatArithmetic, Symmetric, floats.Floats):
        for name, method in list(vars(owner).items()):
            if inspect.isfunction(method) and name not in KEPT:
                monkeypatch.setattr(owner, name, refuse)
    for module in (floats, double):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and name not in KEPT | {"_low"}:
                monkeypatch.setattr(module, name, refuse)
    with pytest.raises(UsedError):
        FLOATS.product(1, 2)


@pytest.mark.parametrize("name", corpus.MAKERS)
def test_the_same_is_proved(name):
    quick, slow = verify(corpus.folder(name)), verify(corpus.folder(name), balls=True)
    assert quick.answer == slow.answer == "proved", slow.reason
    assert slow.precision >= 128
    assert all(bits >= 128 for _, bits, _, _ in slow.course)
    assert slow.digests == quick.digests
    assert [row[:2] for row in slow.checks] == [row[:2] for row in quick.checks]
    for (row, _, one), (_, _, two) in zip(slow.checks, quick.checks, strict=True):
        assert one == pytest.approx(two, rel=1e-6, abs=1e-9), row


@pytest.mark.parametrize("name", corpus.MAKERS)
def test_float64_decides_nothing(name, without_floats):
    verdict = verify(corpus.folder(name), balls=True)
    assert verdict.answer == "proved", verdict.reason


@pytest.mark.parametrize("name", [name for name in corpus.MAKERS if name != "impossible"])
def test_without_balls_it_is_used(name, without_floats):
    verdict = verify(corpus.folder(name))
    assert verdict.answer == "not judged"
    assert "UsedError" in verdict.reason


LIES = {"descent": ("s", 1.001), "descent-relu": ("s", 1.001), "basin": ("S", 0.999), "ridge": ("S", 0.999),
        "sampling": ("bend", 0.999), "epochs": ("beta", 0.999), "fit": ("margin", 1.001), "finite": ("loss", 0.999),
        "logistic": ("lipschitz", 0.99), "momentum": ("ell", 0.999), "newton": ("D", 0.999)}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused(tmp_path, name):
    document, arrays = parts(corpus.folder(name))
    lie, (claim, factor) = copy.deepcopy(document), LIES[name]
    old = lie["claims"][claim]
    lie["claims"][claim] = [factor * v for v in old] if isinstance(old, list) else factor * old
    for balls in (False, True):
        assert verify(put(tmp_path, lie, arrays, digests=True), balls=balls).answer == "not proved"
