r"""The maps in front of weights, in both packages: against matrices written out, adjoints, $\kappa$ and $\omega$."""

import dataclasses
import json
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from tests.networks.written import settled, written
from wideproof.certificates.enclosure import Ball, exact
from wideproof.certificates.passes import reading, returning
from wideproof.certificates.tangents import operator_norm
from wideproof.errors import InputError
from wideproof.networks.maps import (
    FLAT,
    IDENTITY_MAP,
    ONES,
    Average,
    Patches,
    Select,
    from_runs,
    map_from_dict,
    map_to_dict,
    runs,
    same,
)
from wideproof_verify.arithmetic import BALLS, FLOATS, PURE
from wideproof_verify.maps import MAPS, Map, Ones
from wideproof_verify.refusals import MalformedError

# A map and the grid of the value that it reads.
WINDOWS: dict[str, Any] = {
    "same": same((6,), 3),
    "wider than the grid": same((2,), 5),
    "one place": Patches((4,), (1,), (1,), ((0, 0),)),
    "strided": Patches((7,), (3,), (2,), ((0, 0),)),
    "gaps": Patches((9,), (2,), (4,), ((1, 1),)),
    "uneven padding": Patches((5,), (3,), (1,), ((2, 0),)),
    "the rest is left over": Patches((8,), (3,), (2,), ((0, 0),)),
    "2-D": same((4, 3), 3),
    "2-D strided": Patches((5, 4), (3, 2), (2, 1), ((1, 1), (0, 1))),
    "2-D one place": Patches((2, 3), (1, 1), (1, 1), ((0, 0), (0, 0))),
    "2-D large": Patches((2, 2), (3, 3), (1, 1), ((2, 2), (2, 2))),
    "dilated": Patches((9,), (3,), (1,), ((2, 1),), (2,)),
    "dilated, strided": Patches((12,), (3,), (2,), ((3, 4),), (2,)),
    "dilated, strides meet all": Patches((11,), (3,), (2,), ((0, 0),), (3,)),
    "2-D dilated": Patches((5, 4), (2, 3), (1, 2), ((1, 0), (1, 1)), (3, 1)),
}
AVERAGES: dict[str, Any] = {
    "average": Average((6,), (2,), (2,), ((0, 0),)),
    "average, overlapping": Average((5,), (3,), (1,), ((0, 1),)),
    "average, 2-D": Average((4, 4), (2, 2), (2, 2), ((0, 0), (0, 0))),
    "average, 2-D uneven": Average((3, 5), (3, 2), (1, 3), ((1, 1), (1, 0))),
}
# A selection and the grid of the value that it reads; some entries are read more often, some never.
SELECTIONS: dict[str, Any] = {
    "a slice": Select((), 2, (), 1, np.array([1])),
    "vector to image": Select((), 2, (2,), 1, np.array([0, 1])),
    "reversed": Select((3,), 2, (3,), 2, np.arange(6)[::-1]),
    "padded": Select((3,), 2, (5,), 2, np.array([-1, -1, 0, 1, 2, 3, 4, 5, -1, -1])),
    "repeated": Select((3,), 2, (), 5, np.array([4, 4, 1, 4, 0])),
    "transposed": Select((2, 3), 2, (2,), 6, np.arange(12).reshape(2, 3, 2).transpose(2, 1, 0).ravel()),
    "negative": Select((3,), 2, (3,), 2, np.arange(6), (-1.0,)),
    "times numbers": Select((3,), 2, (2,), 3, np.array([5, 0, -1, 0, 0, 2]), (0.1, -3.0, 7.0)),
    "times another for each": Select((), 2, (), 4, np.array([1, 1, 0, 0]), (0.3, 0.4, 1e-3, 5.0)),
    "nothing": Select((3,), 2, (2,), 1, np.array([-1, -1])),
}
CASES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "identity": (IDENTITY_MAP, ()),
    "identity on a grid": (IDENTITY_MAP, (2, 3)),
    "flat": (FLAT, (3,)),
    "flat, 2-D": (FLAT, (2, 3)),
    "flat vector": (FLAT, ()),
    **{name: (phi, phi.positions) for name, phi in (WINDOWS | AVERAGES | SELECTIONS).items()},
}
FEATURES = 2
each = pytest.mark.parametrize("name", CASES)


def stated(phi: Any, grid: tuple[int, ...], features: int = FEATURES) -> Map:
    """The verifier's own, read as from a file."""
    given = json.loads(json.dumps(map_to_dict(phi)))
    made = MAPS[given["kind"]].read(given, grid, features)
    assert made.grid == phi.grid(grid)
    return made


def matrix(phi: Any, grid: tuple[int, ...], features: int = FEATURES) -> np.ndarray:
    found, divisor, _ = written(settled(phi, grid), features)
    return found / divisor


@each
def test_gather_is_the_matrix_in_jax_and_numpy(rng, name):
    phi, grid = CASES[name]
    x = rng.standard_normal((3, *([math.prod(grid)] if grid else []), FEATURES))
    truth = x.reshape(3, -1) @ matrix(phi, grid).T
    for xp in (np, jnp):
        found = np.asarray(phi.gather(xp.asarray(x)))
        np.testing.assert_allclose(found.reshape(3, -1), truth, rtol=0, atol=1e-14)
    assert phi.gather(x).reshape(3, -1).shape[1] == len(truth[0])
    assert math.prod(phi.grid(grid)) == written(settled(phi, grid), FEATURES)[2]


@each
def test_readings_and_their_adjoints(rng, name):
    r"""$\langle \varphi(x), y \rangle = \langle x, \varphi^*(y) \rangle$ in the prover and, twice, in the verifier."""
    phi, grid = CASES[name]
    positions, truth = math.prod(grid), matrix(phi, grid)
    x = rng.standard_normal((3, positions, FEATURES))
    forward = reading(exact(x, True), phi, 0)
    np.testing.assert_allclose(forward.mid.reshape(3, -1), x.reshape(3, -1) @ truth.T, rtol=0, atol=1e-14)
    y = rng.standard_normal((3, 2, *forward.mid.shape[1:]))  # with an axis for outputs
    back = returning(exact(y, True), phi, positions)
    np.testing.assert_allclose(back.mid.reshape(6, -1), y.reshape(6, -1) @ truth, rtol=0, atol=1e-13)
    inner = np.einsum("npf,ncpf->nc", forward.mid, y)
    np.testing.assert_allclose(inner, np.einsum("npf,ncpf->nc", x, back.mid), atol=1e-12)
    other = stated(phi, grid)
    for ops in (BALLS, FLOATS):
        seen = other.gather(ops.lift(x.transpose(2, 0, 1)), ops)  # features, examples, positions
        assert seen.shape == (other.features, 3, other.places)
        np.testing.assert_allclose(ops.middle(seen).transpose(1, 2, 0), forward.mid, rtol=0, atol=1e-14)
        given = ops.lift(np.ascontiguousarray(y.transpose(3, 1, 0, 2)))  # features, outputs, examples, positions
        pulled = other.scatter(given, positions, ops)
        np.testing.assert_allclose(ops.middle(pulled).transpose(2, 1, 3, 0), back.mid, rtol=0, atol=1e-13)


def test_what_a_bias_reads():
    x = np.zeros((3, 4, 2))
    assert reading(exact(x, True), ONES, 5).mid.tolist() == np.ones((3, 5, 1)).tolist()
    for ops in (BALLS, FLOATS):
        seen = Ones((5,), 1).gather(ops.lift(x.transpose(2, 0, 1)), ops)
        assert ops.middle(seen).tolist() == np.ones((1, 3, 5)).tolist()
    assert ONES.factor == 0
    assert Ones((5,), 1).kappa.is_zero()


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_are_enclosed(rng, name):
    """Quotients by 3 or 6 are rounded: the balls around them hold the exact ones."""
    phi = AVERAGES[name]
    x = rng.standard_normal((2, math.prod(phi.positions), FEATURES))
    ones, divisor, places = written(settled(phi, phi.positions), FEATURES)
    with ctx.workprec(200):
        for ball, factor in ((reading(exact(x, True), phi, 0), ones), (None, ones.T)):
            given = x if ball is not None else rng.standard_normal((2, places, FEATURES))
            found = ball if ball is not None else returning(exact(given, True), phi, math.prod(phi.positions))
            assert found.rad is not None
            for row, mid, rad in zip(
                given.reshape(2, -1), found.mid.reshape(2, -1), found.rad.reshape(2, -1), strict=True
            ):
                truth = [sum((arb(v) for v in row[line > 0]), arb(0)) / divisor for line in factor]
                assert all(abs(t - m) <= r for t, m, r in zip(truth, mid, rad, strict=True))
            assert found.rad.max() < 1e-14


@each
def test_kappa_is_above_the_norm_and_close(name):
    """Exactly the norm where some position is in as many windows as any can be in; else at most a factor above."""
    phi, grid = CASES[name]
    truth = float(np.linalg.norm(matrix(phi, grid), 2))
    theirs = float(stated(phi, grid).kappa.upper())
    assert truth * (1 - 1e-14) <= theirs <= phi.factor <= theirs * (1 + 1e-14)
    attained = {
        "dilated, strided",
        "dilated, strides meet all",
        "2-D dilated",
        "wider than the grid",
        "2-D large",
        "2-D strided",
        "average, 2-D uneven",
        "average, overlapping",
    }
    assert phi.factor <= truth * (2 if name in attained else 1 + 1e-14)


def convolution(weight: np.ndarray, phi: Any) -> np.ndarray:
    """The matrix of $x \\mapsto M \\varphi(x)$."""
    features = weight.shape[1] // phi.count
    return np.kron(np.eye(math.prod(phi.out)), weight) @ matrix(phi, phi.positions, features)


@pytest.mark.parametrize("name", WINDOWS)
def test_the_norm_of_a_convolution(rng, name):
    """Above the norm of the matrix, and not above kappa times the norm of the weight, in both packages."""
    phi = WINDOWS[name]
    for turn in range(6):
        weight = rng.standard_normal((3, 2 * phi.count))
        if turn == 5:  # all frequencies but one are silent: nothing to be gained from the others
            weight = np.ones((1, phi.count)) * (-1.0) ** np.indices(phi.size).sum(axis=0).ravel()
        truth = float(np.linalg.norm(convolution(weight, phi), 2))
        ours = operator_norm(weight, phi, True)
        loose = operator_norm(weight, phi, False)
        theirs, *others = (float(stated(phi, phi.positions).norm(weight, ops).upper()) for ops in (FLOATS, BALLS, PURE))
        most = math.sqrt(phi.count) * float(np.linalg.norm(weight, 2))  # of stride 1
        for found in (ours, loose, theirs, *others):
            assert truth * (1 - 1e-12) <= found <= most * (1 + 1e-6)
        assert ours == pytest.approx(theirs, rel=1e-6)
        if max(phi.stride) == 1 and min(phi.positions) >= max(phi.size):
            assert ours <= 1.9 * truth  # half of it would be too little


def test_a_shorter_circle_would_be_too_short():
    """Padding on one side only, windows longer than the grid: an edge must not meet the other edge."""
    phi = Patches((2,), (3,), (1,), ((2, 2),))
    weight = np.array([[1.0, 0.0, -1.0]])
    truth = float(np.linalg.norm(convolution(weight, phi), 2))
    assert truth == pytest.approx(math.sqrt(2))
    assert operator_norm(weight, phi, True) >= truth
    for ops in (FLOATS, BALLS, PURE):
        assert stated(phi, (2,)).norm(weight, ops) >= truth * (1 - 1e-15)


@pytest.mark.parametrize("phi", [IDENTITY_MAP, FLAT, ONES, *WINDOWS.values(), *AVERAGES.values(), *SELECTIONS.values()])
def test_written_and_read_again(phi):
    assert map_from_dict(json.loads(json.dumps(map_to_dict(phi)))) == phi


@pytest.mark.parametrize(
    "change",
    [
        {"size": (0,)}, {"size": (-1,)}, {"size": (3, 3)}, {"stride": (0,)}, {"stride": (-2,)}, {"padding": ((-1, 1),)},
        {"padding": ((3, 0),)}, {"padding": ((0, 3),)}, {"positions": (0,)}, {"positions": (-4,)}, {"size": (9,)},
        {"padding": ()}, {"positions": (3, 3, 3)},
    ],
    ids=str,
)  # fmt: skip
def test_windows_that_are_none(change):
    with pytest.raises(InputError, match="patches"):
        dataclasses.replace(same((6,), 3), **change)


def test_windows_on_another_grid():
    with pytest.raises(InputError, match=r"grid of \(6,\) meet a value on a grid of \(5,\)"):
        same((6,), 3).grid((5,))


def test_an_unknown_map():
    with pytest.raises(InputError, match="there is no map 'fourier': choose one of identity, flat"):
        map_from_dict({"kind": "fourier"})


def test_radii_go_through_maps_like_values(rng):
    """What only moves entries moves their radii."""
    phi = WINDOWS["2-D strided"]
    x = rng.random((2, math.prod(phi.positions), FEATURES))
    found = reading(Ball(x, x), phi, 0)
    assert found.rad is not None
    np.testing.assert_array_equal(found.mid, found.rad)


@pytest.mark.parametrize("name", SELECTIONS)
def test_one_unit_of_a_selection(rng, name):
    """With a weight, a unit at one position moves by at most its row times `once`; without one it reads one entry."""
    phi = SELECTIONS[name]
    rows = matrix(phi, phi.positions).reshape(math.prod(phi.out), phi.features, -1)
    for weighted, truth in (
        (True, max(np.linalg.norm(r, 2) for r in rows)),
        (False, np.linalg.norm(rows, axis=2).max()),
    ):
        found, theirs = phi.once(weighted), float(stated(phi, phi.positions).once(weighted).upper())
        assert truth * (1 - 1e-14) <= min(found, theirs)
        assert max(found, theirs) <= phi.factor
    assert stated(phi, phi.positions).once(False) == abs(rows).max()


def test_indices_as_sequences(rng):
    for turn in range(200):
        index = rng.integers(-1, 4, 1 + turn % 9) if turn % 2 else np.sort(rng.integers(-1, 30, 1 + turn % 9))
        parts = runs(index)
        np.testing.assert_array_equal(from_runs(parts), index)
        assert all(start >= 0 <= start + step * (count - 1) or (start, step) == (-1, 0) for start, step, count in parts)
    assert runs(np.arange(3072).reshape(3, 32, 32)[:, 4:8, ::2].reshape(3, 4, 16)[:, :2].ravel())[0] == [128, 2, 32]


@pytest.mark.parametrize(
    "change",
    [
        {"positions": [2]}, {"inputs": 3}, {"out": [4]}, {"features": 3}, {"index": [[0, 1, 5]]},
        {"index": [[1, 1, 6]]}, {"index": [[-1, 1, 6]]}, {"index": [[5, -1, 7]]}, {"index": [[0, 0, 0], [0, 1, 6]]},
        {"index": [[0, 1]]}, {"index": [[0.0, 1, 6]]}, {"index": [[0, 9, 1], [1, 1, 5]]}, {"index": [[0, 10**30, 6]]},
        {"index": [[-2, 0, 6]]}, {"index": None}, {"scale": []}, {"scale": [1.0] * 4}, {"scale": ["1"]}, {"scale": 1.0},
        {"scale": [float("nan")]}, {"scale": [float("inf")] * 6}, {"out": [2**20, 2**20]}, {"features": -2},
    ],
    ids=str,
)  # fmt: skip
def test_selections_that_the_verifier_refuses(change):
    given = map_to_dict(SELECTIONS["reversed"])
    assert MAPS["select"].read({**given, "index": [[0, 1, 6]]}, (3,), FEATURES).places == 3
    with pytest.raises(MalformedError):
        MAPS["select"].read({**given, **change}, (3,), FEATURES)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"index": np.array([0, 1, 2, 3, 4, 6])}, "reads the entry 6 or 0 of 6"),
        ({"index": np.array([0, 1, 2, 3, 4, -2])}, "reads the entry 4 or -2"),
        ({"index": np.arange(5)}, "has 5 entries for 2 features"),
        ({"scale": (1.0, 2.0, 3.0, 4.0)}, "multiplies 6 entries by 4 numbers"),
        ({"scale": (float("nan"),)}, "multiplies 6 entries"),
        ({"out": (0,)}, "a selection has 6 entries"),
    ],
)
def test_selections_that_are_none(change, sentence):
    with pytest.raises(InputError, match=sentence):
        dataclasses.replace(SELECTIONS["reversed"], **change)


def test_a_selection_on_another_grid():
    with pytest.raises(InputError, match=r"on a grid of \(3,\) meets a value on a grid of \(4,\)"):
        SELECTIONS["reversed"].grid((4,))


@pytest.mark.parametrize("name", ["times numbers", "times another for each"])
def test_products_of_a_selection_are_enclosed(rng, name):
    """0.1 x is rounded: the balls around it hold the exact product, forward and back, in both packages."""
    phi = SELECTIONS[name]
    x = rng.standard_normal((2, math.prod(phi.positions), FEATURES))
    y = rng.standard_normal((2, math.prod(phi.out), phi.features))
    whole = matrix(phi, phi.positions)
    theirs = stated(phi, phi.positions)
    back = theirs.scatter(FLOATS.lift(y.transpose(2, 0, 1)[:, :, None, :].copy()), math.prod(phi.positions), FLOATS)
    sides = [
        (reading(exact(x, True), phi, 0), whole, x),
        (returning(exact(y, True), phi, math.prod(phi.positions)), whole.T, y),
        (theirs.gather(FLOATS.lift(x.transpose(2, 0, 1).copy()), FLOATS).transpose(1, 2, 0), whole, x),
        (back[:, :, 0].transpose(1, 2, 0), whole.T, y),
    ]
    with ctx.workprec(200):
        for ball, rows, given in sides:
            assert ball.rad is not None
            for row, mid, rad in zip(
                given.reshape(2, -1), ball.mid.reshape(2, -1), ball.rad.reshape(2, -1), strict=True
            ):
                truth = [sum((arb(c) * arb(v) for c, v in zip(line, row, strict=True)), arb(0)) for line in rows]
                assert all(abs(t - m) <= r for t, m, r in zip(truth, mid, rad, strict=True))
            assert 0 < ball.rad.max() < 1e-13
