import numpy as np
import pytest
from scipy.optimize import linprog

from wideproof.answers import Answer
from wideproof.data import generators as g
from wideproof.data import margin
from wideproof.data.margin import _onto_simplex, _program
from wideproof.errors import InputError

XOR = 0.5 * (2 / np.sqrt(np.pi) - np.sqrt(2 / np.pi))
LARGEST = 1 / np.sqrt(2 * np.pi)


def test_xor():
    data = g.xor()
    found = margin(data.x, data.y)
    assert abs(XOR - 0.16525) < 1e-5
    assert found.lower <= XOR <= found.upper
    assert found.lower > 0.9 * XOR
    assert found.upper < 1.02 * XOR
    assert abs(found.estimate - XOR) < 4 * 0.0009 * np.sqrt(20_000 / 4000)
    assert found.pair_bound == pytest.approx(np.sqrt(2) * LARGEST / 2, rel=1e-12)
    assert found.separable is Answer.HOLDS


@pytest.mark.parametrize("rho", [0.3, 0.6])
def test_linear_margin(rho):
    data = g.linear_margin(n=60, d=5, rho=rho, seed=3)
    found = margin(data.x, data.y)
    exact = rho / np.sqrt(2 * np.pi)
    assert found.pair_bound == pytest.approx(exact, rel=1e-12)
    assert found.lower <= exact <= found.upper * (1 + 1e-12)
    assert found.lower > 0.7 * exact
    assert abs(found.estimate - exact) < 4 * 0.0023


def test_contradiction_and_one_class():
    found = margin(np.array([[1.0, 0.0], [1.0, 0.0]]), [1, -1])
    assert (found.estimate, found.lower, found.upper, found.separable) == (0, 0, 0, Answer.FAILS)
    found = margin(np.eye(3), [1, 1, 1])
    assert found.pair_bound == LARGEST
    assert found.lower <= LARGEST
    assert found.lower > 0.95 * LARGEST
    assert abs(found.estimate - LARGEST) < 0.02


def test_the_program_against_its_dual():
    rng = np.random.default_rng(0)
    signed = rng.choice([-1, 1], size=(6, 1)) * np.maximum(rng.normal(size=(6, 40)), 0)
    value, weights = _program(signed)
    assert np.abs(weights @ signed).mean() == pytest.approx(value, abs=1e-9)
    # the dual as a program of its own: min mean(t), -t <= p·signed <= t, p in the simplex
    eye = np.eye(40)
    table = np.block([[signed.T, -eye], [-signed.T, -eye]])
    cost, total = np.r_[np.zeros(6), np.full(40, 1 / 40)], np.r_[np.ones(6), np.zeros(40)][None]
    dual = linprog(cost, A_ub=table, b_ub=np.zeros(80), A_eq=total, b_eq=[1])
    assert dual.fun == pytest.approx(value, abs=1e-9)


def test_projection_on_the_simplex():
    rng = np.random.default_rng(0)
    for p in rng.normal(size=(20, 7)):
        q = _onto_simplex(p)
        assert q.min() >= 0
        assert q.sum() == pytest.approx(1)
        corners = np.eye(7) - q  # optimal: no corner makes an acute angle with p - q
        assert (corners @ (p - q)).max() < 1e-12


def test_margin_falls_with_more_points_and_is_reproducible():
    data = g.linear_margin(n=40, d=4, rho=0.2)
    half = margin(data.x[:20], data.y[:20], bracket=False)
    full = margin(data.x, data.y, bracket=False)
    assert full.estimate <= half.estimate + 1e-9
    assert full == margin(data.x, data.y, bracket=False)
    assert (full.lower, full.upper) == (0.0, full.pair_bound)
    assert full.separable is Answer.UNDECIDED


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: margin(2 * np.eye(2), [1, -1]), r"row 0 has another norm: prepare with `unit`"),
        (lambda: margin(np.eye(2), [0, 1]), r"labels -1 and \+1: choose two classes"),
        (lambda: margin(np.eye(2), [1]), r"shape \(n, d\) and y of shape \(n,\)"),
        (lambda: margin(np.eye(2), [1, -1], features=0), r"at least 2 random features"),
    ],
)
def test_misuse_gets_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
