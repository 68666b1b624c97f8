"""Balls contain the numbers, float witnesses are checked, undecided is never a yes."""

import operator
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from tests.verify import making
from wideproof.networks import FullyConnected, get_activation
from wideproof_verify.arithmetic import BALLS, FLOATS, PURE, balls, norm, positive_definite
from wideproof_verify.eigenvalues import Symmetric
from wideproof_verify.floats import Floats
from wideproof_verify.functions import ACTIVATIONS

MP = {
    "softplus": lambda z: mpmath.log1p(mpmath.exp(z)), "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
    "tanh": mpmath.tanh, "erf": mpmath.erf, "arctan": mpmath.atan, "sin": mpmath.sin,
    "swish": lambda z: z / (1 + mpmath.exp(-z)),
    "gelu": lambda z: z * mpmath.ncdf(z), "mish": lambda z: z * mpmath.tanh(mpmath.log1p(mpmath.exp(z))),
    "elu": lambda z: z if z > 0 else mpmath.expm1(z), "softsign": lambda z: z / (1 + abs(z)), "identity": lambda z: z,
    "relu": lambda z: max(z, mpmath.mpf(0)), "ramp": lambda z: z if z > 1 else max(z + 1, mpmath.mpf(0)) ** 2 / 4,
    "gelu_tanh": lambda z: z / 2 * (
        1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (z + mpmath.mpf("0.044715") * z**3))
    ),
}  # fmt: skip


def contains(ball: arb, value: object, slack: float = 0.0) -> bool:
    return bool(ball.overlaps(arb(mpmath.nstr(value, 60), slack)))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_slopes_and_constants(name):
    pair, constants = ACTIVATIONS[name].both, ACTIVATIONS[name].constants
    with ctx.workprec(150), mpmath.workdps(60):
        first, second = (arb(c) for c in constants())
        grid = [mpmath.mpf(k) / 8 + mpmath.mpf("0.01") for k in range(-64, 64)]
        slopes = []
        for z in grid:
            value, slope = pair(arb(mpmath.nstr(z, 60)))
            assert contains(value, MP[name](z), 1e-40)
            assert contains(slope, mpmath.diff(MP[name], z), 1e-20)
            assert value.rad() < 1e-35
            assert abs(slope) <= first
            slopes.append(slope)
        for a, b in pairwise(slopes):
            assert abs(a - b) <= second / 8 + 1e-30 or name == "relu"
        wide = pair(arb(0, 0.5))
        assert all(wide[0].contains(pair(arb(z))[0]) for z in (-0.4, 0.0, 0.4))
        assert all(wide[1].contains(pair(arb(z))[1]) for z in (-0.4, 0.4))


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name != "relu"])
def test_constants_are_not_below_a_fine_grid(name):
    first, second = (float(c) for c in ACTIVATIONS[name].constants())
    z = np.linspace(-12, 12, 20001)
    slope = np.asarray([float(ACTIVATIONS[name].both(arb(v))[1]) for v in z])
    assert np.abs(slope).max() <= first * (1 + 1e-12)
    assert np.abs(np.diff(slope)).max() <= second * (z[1] - z[0]) * (1 + 1e-6) + 1e-14
    assert first < 1.001 * np.abs(slope).max()
    assert second <= 1.01 * np.abs(np.diff(slope) / np.diff(z)).max() + 1e-9


def test_a_network_in_mpmath():
    network = FullyConnected(3, 4, 2, get_activation("mish"))
    params, x, y = making.problem(network, n=2)
    with ctx.workprec(200), mpmath.workdps(80):
        anchor = making.bounds(network, params, x, y, False).anchor
        for i in range(2):
            h = mpmath.matrix(x[i].tolist())
            for name, scale in zip(("W1", "W2"), making.scales(network), strict=True):
                h = (mpmath.matrix(params[name].tolist()) * h).apply(MP["mish"]) * mpmath.mpf(scale)
            f = sum(mpmath.mpf(a) * v for a, v in zip(params["a"].tolist(), h, strict=True))
            assert contains(anchor.outputs[0, i], f, 1e-50)
            assert anchor.outputs[0, i].rad() < 1e-50


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (3, 7), (300, 40), (40, 300)])
@pytest.mark.parametrize("scale", [1e-100, 1e-60, 1.0, 1e60, 1e100])
def test_gram_of_floats(rng, shape, scale):
    a = scale * rng.standard_normal(shape) * np.exp(3 * rng.standard_normal(shape))
    with np.errstate(over="ignore", under="ignore"):  # as the verifier does
        g = Symmetric.of(FLOATS.rough(Floats(a.T), Floats(a)))
    assert np.array_equal(g.mid, g.mid.T)
    with ctx.workprec(300):
        exact = balls(a).T @ balls(a)
        apart = sum(((v - arb(w)) ** 2 for v, w in zip(exact.ravel(), g.mid.ravel(), strict=True)), arb(0)).sqrt()
    assert apart <= g.off  # even in the Frobenius norm
    assert g.off <= 1e-8 * np.linalg.norm(a) ** 2 or not 1e-70 < scale < 1e70  # far out it is true, and of no use


@pytest.mark.parametrize("ops", [FLOATS, BALLS, PURE], ids=["floats", "balls", "pure"])
def test_norms_out_of_range_are_no_smaller(ops):
    """What overflows has no bound, what underflows one that is too large; of nothing at all it is as good as 0."""
    with np.errstate(all="ignore"):
        assert not ops.spectral_norm(np.full((2, 2), 1e200)) < 2e200
        assert ops.spectral_norm(np.full((2, 2), 1e-200)) >= 2e-200 * (1 - 1e-15)
        assert not ops.spectral_norm(np.full((2, 2), np.nan)) < 1e300
    assert 0 <= ops.spectral_norm(np.zeros((2, 3))) <= 1e-74


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (60, 20), (20, 60), (120, 120)])
@pytest.mark.parametrize("ops", [FLOATS, BALLS, PURE], ids=["floats", "balls", "pure"])
def test_spectral_norm_is_above_and_close(rng, shape, ops):
    a = rng.standard_normal(shape)
    with ctx.workprec(200):
        found = ops.spectral_norm(a)
        shifted = ops.spectral_norm(balls(a) + arb(0, 1e-20))
        exact = balls(a).T @ balls(a)
        assert positive_definite(found * found * balls(np.eye(shape[1])) - exact) is True
    top = np.linalg.norm(a, 2)
    assert top * (1 - 1e-13) <= float(found) <= top * (1 + 3e-8)
    assert float(shifted) == pytest.approx(top, rel=3e-8)
    assert PURE.spectral_norm(np.zeros(shape)).is_zero()


def test_radii_count_in_a_norm():
    wide = Floats(np.eye(3), np.full((3, 3), 0.5))
    assert FLOATS.spectral_norm(wide) >= 2.5
    assert BALLS.spectral_norm(wide).upper() >= 2.5
    assert PURE.spectral_norm(wide).upper() >= 2.5


@pytest.mark.parametrize("radius", [1e-30, 1.0])
def test_a_norm_of_wide_zeros_has_a_root(radius):
    with ctx.workprec(128):
        for ops in (BALLS, PURE):
            found = ops.spectral_norm(balls(np.zeros((2, 2))) + arb(0, radius))
            assert found.upper() >= 2 * radius
            assert found.sqrt().is_finite()


def test_largest_eigenvalue_covers_the_error(rng):
    g = np.cov(rng.standard_normal((9, 30)))
    with np.errstate(all="ignore"):
        assert Symmetric(g, 0.5).largest() >= np.linalg.eigvalsh(g)[-1] + 0.5
        assert Symmetric(g, np.inf).largest() == np.inf
        assert not Symmetric(np.full((2, 2), np.nan), 0.0).largest() < 1e300


@pytest.mark.parametrize("ops", [FLOATS, BALLS, PURE], ids=["floats", "balls", "pure"])
def test_norms_of_small_forms(rng, ops):
    q = rng.random((6, 4, 4))
    q = q + q.transpose(0, 2, 1)
    q[0], q[1, 2:], q[1, :, 2:] = 0.0, 0.0, 0.0
    found = [float(ops.spectral_norm(balls(m))) for m in q]
    exact = np.linalg.eigvalsh(q)[:, -1]
    assert found[0] <= 1e-74
    for top, bound in zip(exact[1:], found[1:], strict=True):
        assert top * (1 - 1e-13) <= bound <= top * (1 + 1e-8)


def test_positive_definite_when_only_one_half_is_wide():
    """The distance from the centre counts for both halves, though a ball of the upper one may be a point."""
    true = np.full((3, 3), -0.5001) + 1.5001 * np.eye(3)
    assert np.linalg.eigvalsh(true)[0] < 0
    wide = balls(true)
    for i, j in ((1, 0), (2, 0), (2, 1)):
        wide[i, j] = arb(true[i, j] + 0.1, 0.10001)
    assert positive_definite(wide) is not True


def test_positive_definite_of_plain_matrices(rng):
    a = np.cov(rng.standard_normal((8, 30)))
    least = np.linalg.eigvalsh(a)[0]
    for factor, answer in ((1 - 1e-9, True), (1 + 1e-9, False)):
        assert positive_definite(balls(a - factor * least * np.eye(8))) is answer
    assert positive_definite(balls(np.zeros((2, 2)))) is False
    assert positive_definite(balls(np.full((2, 2), np.nan))) is not True


def test_an_ill_conditioned_matrix_is_still_decided():
    with ctx.workprec(256):
        hilbert = np.array([[arb(1) / (i + j + 1) for j in range(14)] for i in range(14)], dtype=object)
        eye = balls(np.eye(14))
        with mpmath.workdps(60):
            true = min(mpmath.eigsy(mpmath.hilbert(14), eigvals_only=True))
        assert true < 1e-17
        lower, upper = (arb(mpmath.nstr(true * f, 50)) for f in (mpmath.mpf("0.999"), mpmath.mpf("1.001")))
        assert positive_definite(hilbert - lower * eye) is True
        assert positive_definite(hilbert - upper * eye) is False
        assert positive_definite(hilbert + arb(0, 1e-15)) is None


def wrong_shapes(make):
    """Pairs of arrays that NumPy would broadcast."""
    one = lambda *shape: make(np.ones(shape))  # noqa: E731
    yield from ((one(3, 4), one(1, 4)), (one(3, 4), one(3, 1)), (one(3, 4), one(4)), (one(2, 3, 4), one(3, 4)))
    yield from ((one(4), one(1)), (one(1, 1), one(5, 5)), (one(4), one(1, 4)))


@pytest.mark.parametrize("make", [Floats, lambda a: Floats(a, None, 0 * a), balls], ids=["floats", "fine", "balls"])
def test_arrays_of_different_shapes_are_not_added(make):
    for a, b in wrong_shapes(make):
        for one, two in ((a, b), (b, a)):
            with pytest.raises(ValueError, match="of the shapes"):
                operator.add(one, two)
            with pytest.raises(ValueError, match="of the shapes"):
                operator.sub(one, two)


@pytest.mark.parametrize("make", [Floats, lambda a: Floats(a, None, 0 * a), balls], ids=["floats", "fine", "balls"])
def test_arrays_with_different_numbers_of_axes_are_not_multiplied(make):
    for a, b in wrong_shapes(make):
        for one, two in ((a, b), (b, a)):
            if a.ndim == b.ndim:
                assert (one * two).shape == np.broadcast_shapes(a.shape, b.shape)
            else:
                with pytest.raises(ValueError, match="of the shapes"):
                    operator.mul(one, two)
    one = make(np.ones((3, 4)))
    assert (one * arb(2)).shape == (arb(2) * one).shape == (3, 4)  # a number is no array


def test_matrices_that_do_not_fit_are_not_multiplied():
    for a, b in (((2, 3), (1, 2)), ((2, 3), (2, 3)), ((2, 1), (3, 2))):
        with pytest.raises(ValueError, match=r"shapes|incompatible|mismatch"):
            FLOATS.product(Floats(np.ones(a)), Floats(np.ones(b)))
        with pytest.raises(ValueError, match=r"shapes|incompatible|mismatch"):
            FLOATS.rough(Floats(np.ones(a)), Floats(np.ones(b)))
        with pytest.raises(ValueError, match=r"shapes|incompatible|mismatch"):
            BALLS.product(balls(np.ones(a)), balls(np.ones(b)))


def test_balls_stay_balls():
    """Comparisons, norms and pieces of what meets only what fits meet only what fits again."""
    a = balls(np.ones((3, 4)))
    for found in (a + a, a * arb(2), -a, a[:2], a.T, a.sum(axis=0), norm(a, axis=1), abs(a), a * a[:1]):
        assert type(found) is type(a)
        with pytest.raises(ValueError, match="of the shapes"):
            operator.add(found, balls(np.ones((7, 7))))
