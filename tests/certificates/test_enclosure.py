"""Rounding: every radius, eigenvalue and norm of the prover against 200-bit ball arithmetic (Arb)."""

import math
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat, ctx  # pyright: ignore[reportAttributeAccessIssue]

from tests.certificates.making import TINY, problem
from tests.networks.written import settled, written
from wideproof.certificates.anchor import gram, run
from wideproof.certificates.enclosure import (
    Ball,
    activate,
    add,
    exact,
    inner,
    largest_eigenvalue,
    lengths,
    multiply,
    product,
    scaled,
    smallest_eigenvalue,
    spectral_norm,
)
from wideproof.networks.activations import ACTIVATIONS, PARTS, RELU_CLOSED, get_activation
from wideproof.networks.twins import PROVED

BITS = 200
balls: Any = np.frompyfunc(arb, 1, 1)


@pytest.fixture(autouse=True)
def _precision():
    with ctx.workprec(BITS):
        yield


def times(a: Any, b: Any) -> Any:
    """The product of two arrays of balls."""
    matrix: Any = arb_mat
    c = matrix(*a.shape, a.ravel().tolist()) * matrix(*b.shape, b.ravel().tolist())
    return np.array(c.entries(), dtype=object).reshape(c.nrows(), c.ncols())


def definite(a):
    """Whether a symmetric array of balls is provably positive definite, by the signs of its pivots.

    Elimination widens balls with every column: entries must be known to many more bits than the size.
    """
    a = a.copy()
    for k in range(len(a)):
        if not a[k, k] > 0:
            return False
        column = a[k + 1 :, k] / a[k, k]
        for i in range(k + 1, len(a)):
            a[i, k + 1 : i + 1] -= column[i - k - 1] * a[k + 1 : i + 1, k]
    return True


def shifted(a, by):
    a = a.copy()
    for i in range(len(a)):
        a[i, i] = a[i, i] - arb(by)
    return a


def contains(ball, truth):
    """Whether every entry of the truth is provably inside, and the error along the last axis within its norm."""
    gap = np.abs(truth - balls(np.asarray(ball.mid, np.float64)))
    if not all(bool(g <= arb(float(r))) for g, r in zip(gap.ravel(), np.asarray(ball.rad).ravel(), strict=True)):
        return False
    norms = (gap * gap).sum(axis=-1)
    return all(bool(g <= arb(float(r)) ** 2) for g, r in zip(np.ravel(norms), np.ravel(ball.off), strict=True))


def radius(ball: Ball) -> np.ndarray:
    assert ball.rad is not None
    return ball.rad


def noisy(rng, shape, size=1e-9):
    """A ball, and some array inside it."""
    mid = rng.standard_normal(shape) * 10 ** rng.uniform(-4, 4, shape)
    rad = size * np.abs(mid) * rng.random(shape)
    return Ball(mid, rad), balls(mid) + balls(rad) * balls(rng.choice([-1.0, 0.3, 1.0], shape))


def random_gram(rng, n, k, condition):
    """Rows whose Gram matrix has about this condition number."""
    q = np.linalg.qr(rng.standard_normal((k, n)))[0].T
    mix = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return mix * np.geomspace(1, condition**-0.5, n) @ q


# products


@pytest.mark.parametrize(("n", "k", "m"), [(3, 4, 5), (8, 300, 6), (1, 1, 1)])
@pytest.mark.parametrize("size", [0.0, 1e-9])
def test_products_contain_the_exact_ones(rng, n, k, m, size):
    u, truth = noisy(rng, (n, k), size)
    w = rng.standard_normal((m, k))
    found = product(u, w)
    assert contains(found, times(truth, balls(w).T))
    narrow = product(u, w, spectral_norm(exact(w, True)))
    assert contains(narrow, times(truth, balls(w).T))
    assert np.all(narrow.off <= found.off * (1 + 1e-9))
    assert np.all(radius(found) <= 1e-6 * lengths(u, (1,))[:, None] * np.linalg.norm(w, axis=1) + 1e-280)  # not vacuous


@pytest.mark.parametrize("size", [0.0, 1e-9])
def test_inner_products_contain_the_exact_ones(rng, size):
    rows, truth = noisy(rng, (9, 120), size)
    found = inner(rows)
    assert contains(found, times(truth, truth.T))
    norms = lengths(rows, (1,))
    assert np.all(radius(found) <= (4e-14 + 4 * size) * np.multiply.outer(norms, norms))


def test_sums_multiples_and_products_by_entry(rng):
    (a, exact_a), (b, exact_b) = noisy(rng, (30, 7)), noisy(rng, (30, 7))
    assert contains(add(a, b), exact_a + exact_b)
    assert contains(add(a, b, a), exact_a + exact_b + exact_a)
    assert contains(multiply(a, b), exact_a * exact_b)
    assert contains(scaled(a, 0.1), exact_a * arb(0.1))


def test_lengths_are_upper_bounds(rng):
    a, truth = noisy(rng, (40, 11))
    found = lengths(a, (1,))
    exact_norms = [(row * row).sum().sqrt() for row in truth]
    assert all(bool(e <= arb(f)) for e, f in zip(exact_norms, found, strict=True))
    assert np.all(found <= np.linalg.norm(a.above, axis=1) * (1 + 1e-9))


def test_a_radius_a_hundred_times_too_small_is_caught(rng):
    """The comparison can fail."""
    u, truth = noisy(rng, (8, 300))
    w = rng.standard_normal((6, 300))
    found = product(u, w)
    assert not contains(found._replace(rad=radius(found) / 1000), times(truth, balls(w).T))


def test_an_error_norm_that_is_too_small_is_caught(rng):
    u, truth = noisy(rng, (8, 300))
    w = rng.standard_normal((6, 300))
    found = product(u, w, 0.01 * float(np.linalg.norm(w, 2)))
    assert not contains(found, times(truth, balls(w).T))


def test_joined_and_rounded_balls_still_contain(rng):
    a, truth = noisy(rng, (4, 3, 5))
    assert contains(a.joined(2), truth.reshape(4, 15))
    long = Ball(a.mid.astype(np.longdouble), radius(a).astype(np.longdouble))
    assert contains(long.rounded(), truth)


# activations


def sigmoid(z):
    return 1 / (1 + (-z).exp())


def mish(z):
    t = z.exp().log1p().tanh()
    return z * t, t + z * (1 - t * t) * sigmoid(z)


def gelu(z):
    cdf = (-z / arb(2).sqrt()).erfc() / 2
    return z * cdf, cdf + z * (-z * z / 2).exp() / (2 * arb.pi()).sqrt()


def gelu_tanh(z):
    c, w = (8 / arb.pi()).sqrt(), arb("0.044715")
    s, t = sigmoid(c * (z + w * z**3)), sigmoid(-c * (z + w * z**3))
    return z * s, s + z * s * t * c * (1 + 3 * w * z * z)


EXACT = {
    "softplus": lambda z: (z.exp().log1p(), sigmoid(z)),
    "sigmoid": lambda z: (sigmoid(z), sigmoid(z) * sigmoid(-z)),
    "tanh": lambda z: (z.tanh(), 1 / z.cosh() ** 2),
    "erf": lambda z: (z.erf(), 2 / arb.pi().sqrt() * (-z * z).exp()),
    "arctan": lambda z: (z.atan(), 1 / (1 + z * z)),
    "sin": lambda z: (z.sin(), z.cos()),
    "swish": lambda z: (z * sigmoid(z), sigmoid(z) * (1 + z * sigmoid(-z))),
    "gelu": gelu,
    "elu": lambda z: (z, arb(1)) if z > 0 else (z.expm1(), z.exp()),
    "softsign": lambda z: (z / (1 + abs(z)), 1 / (1 + abs(z)) ** 2),
    "mish": mish,
    "gelu_tanh": gelu_tanh,
    "ramp": lambda z: (z, arb(1)) if z > 1 else (arb(0), arb(0)) if z < -1 else ((z + 1) ** 2 / 4, (z + 1) / 2),
    "identity": lambda z: (z, arb(1)),
    "relu": lambda z: (z, arb(1)) if z > 0 else (arb(0), arb(0)),
}
GRID = np.unique(np.concatenate([
    np.linspace(-6, 6, 241), np.linspace(-45, 45, 121), np.linspace(-800, 800, 41),
    *(sign * np.geomspace(1e-300, 1e6, 90) for sign in (-1, 1)),
    np.random.default_rng(5).standard_normal(400) * 3,
]))  # fmt: skip


def test_every_activation_is_here():
    assert EXACT.keys() == {*ACTIVATIONS, *PARTS} == PROVED.keys() - {RELU_CLOSED.name}
    assert all(activation.known is PROVED[name] for name, activation in ACTIVATIONS.items())
    assert RELU_CLOSED.known is PROVED["relu"]


@pytest.mark.parametrize("name", EXACT)
def test_activations_lie_within_their_radius(name):
    """This checks what is assumed of the machine: elementary functions within 4 units in the last place."""
    value, slope = activate(get_activation(name), exact(GRID, True))
    truth = np.frompyfunc(EXACT[name], 1, 2)(balls(GRID))
    assert contains(value, truth[0])
    assert contains(slope, truth[1])
    assert np.all(radius(value) <= 1e-14 * (1 + np.abs(GRID)) * (1 + np.abs(value.mid)))
    assert np.all(radius(slope) <= 1e-13 * (1 + np.abs(GRID)))


@pytest.mark.parametrize("name", EXACT)
def test_activations_of_inexact_numbers(rng, name):
    mid = GRID[np.abs(GRID) > 1e-5]
    rad = 1e-9 * np.abs(mid)  # no ReLU sign is in doubt
    value, slope = activate(get_activation(name), Ball(mid, rad))
    for shift in (-1, 1):
        truth = np.frompyfunc(EXACT[name], 1, 2)(balls(mid) + balls(rad) * arb(shift))
        assert contains(value, truth[0])
        assert contains(slope, truth[1])


@pytest.mark.parametrize("name", EXACT)
def test_constants_of_activations_are_bounds(name):
    """sup|σ'| and sup|σ''| on a fine grid; ReLU and the corner of ELU's slope inside a pattern."""
    first, second = PROVED[name].lipschitz, PROVED[name].smoothness
    z = np.linspace(-12, 12, 48_001)
    slope = PROVED[name].slope(z)
    assert np.abs(slope).max() <= first
    inside = np.abs(z[:-1]) > 1e-3 if name == "relu" else np.ones(len(z) - 1, bool)
    change = np.abs(np.diff(slope) / np.diff(z))[inside]
    assert change.max() <= second + 1e-11  # rounding of the difference: 1e-16 / 5e-4
    if second:
        assert change.max() >= 0.999 * second or name in ("swish", "gelu", "mish")
        assert change.max() >= 0.99 * second


# whole networks


def through(x, phi, grid):
    """A map, by its matrix: `n x positions x features` in and out."""
    if phi.kind == "ones":
        return np.full((len(x), math.prod(grid), 1), arb(1))
    matrix, divisor, places = written(phi, x.shape[2])
    return (times(x.reshape(len(x), -1), balls(matrix.T)) / divisor).reshape(len(x), places, -1)


def back_through(y, phi, positions, features):
    """Its adjoint, for `... x positions x features`."""
    matrix, divisor, _ = written(phi, features)
    lead = y.shape[:-2]
    return (times(y.reshape(math.prod(lead), -1), balls(matrix)) / divisor).reshape(*lead, positions, features)


def exact_pass(graph, params, x):
    """Pre-activations, cotangents, outputs and the Jacobian in balls."""
    seen = {-1 - t: balls(part) for t, part in enumerate(graph.inputs(x))}
    matrices = {key: balls(graph.matrix(params, key)) for key in params}
    layers, inputs = graph.layers, {}
    z, values, slopes = [], [], []
    for k, node in enumerate(layers):
        terms = []
        for t in node.terms:
            inputs[k, t] = u = through(seen[t.source], settled(t.map, graph.grids[t.source]), graph.grids[k])
            m = None if t.weight is None else matrices[t.weight]
            terms.append(u if m is None else times(u.reshape(-1, u.shape[-1]), m.T).reshape(*u.shape[:2], -1))
        z.append(sum(terms))
        value, slope = np.frompyfunc(EXACT[node.activation.name.removesuffix("_closed")], 1, 2)(z[-1])
        seen[k] = arb(node.scale) * value + (0 if node.skip is None else seen[node.skip])
        values.append(seen[k])
        slopes.append(slope)
    flat = matrices[graph.read_out]  # over features, then positions
    n, c, sites = len(x), len(flat), len(graph.sites)
    read = [values[k].swapaxes(1, 2).reshape(n, -1) for k in graph.sites]
    level = 0 if graph.bias is None else matrices[graph.bias].T
    outputs = np.concatenate([times(r, flat.T) + level for r in read], axis=1)
    b = [np.full((n, c * sites, *v.shape[1:]), arb(0)) for v in values]
    g = list(b)
    for site, k in enumerate(graph.sites):
        b[k][:, site * c : (site + 1) * c] += flat.reshape(c, values[k].shape[2], -1).swapaxes(1, 2)
    for k in reversed(range(len(values))):
        node = layers[k]
        g[k] = b[k] * slopes[k][:, None]
        if node.skip is not None and node.skip >= 0:
            b[node.skip] = b[node.skip] + b[k]
        for t in node.terms:
            if t.source >= 0 and t.map.kind != "ones":
                back = arb(node.scale) * g[k]
                if t.weight is not None:
                    back = times(back.reshape(-1, back.shape[-1]), matrices[t.weight]).reshape(*back.shape[:-1], -1)
                phi = settled(t.map, graph.grids[t.source])
                b[t.source] = b[t.source] + back_through(back, phi, *values[t.source].shape[1:])
    columns = []
    for key in graph.trained:
        if key in (graph.read_out, graph.bias):
            part: Any = np.full((n, sites, c, c, 1 if key == graph.bias else flat.shape[1]), arb(0))
            for site, features in enumerate(read):
                for o in range(c):
                    part[:, site, o, o] = arb(1) if key == graph.bias else features
        else:
            uses = [(k, t) for k, node in enumerate(layers) for t in node.terms if t.weight == key]
            part = sum(
                arb(layers[k].scale) * (g[k][..., :, None] * inputs[k, t][:, None, :, None, :]).sum(axis=2)
                for k, t in uses
            )
        columns.append(part.reshape(n * c * sites, -1))
    return z, b, g, outputs, np.concatenate(columns, axis=1)


@pytest.mark.parametrize("name", TINY)
def test_a_pass_through_a_network_contains_the_exact_one(name):
    """Pre-activations, cotangents, outputs and the Gram matrix."""
    network, nodes = TINY[name], TINY[name].graph.unrolled
    params, x, _ = problem(network, n=2)
    found = run(nodes, params, x)
    z, b, g, outputs, jacobian = exact_pass(nodes, params, x)
    for k in range(len(z)):
        assert contains(found.z[k], z[k])
        assert contains(found.b[k], b[k])
        assert contains(found.g[k], g[k])
    assert contains(found.outputs, outputs)
    enclosed = gram(found, nodes.trained)
    assert contains(enclosed._replace(norm=None), times(jacobian, jacobian.T))
    assert radius(enclosed).max() < 1e-11 * np.abs(enclosed.mid).max()  # not vacuous


# eigenvalues


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e8, 1e12, 1e16])
@pytest.mark.parametrize("n", [5, 40, 100])
def test_smallest_eigenvalues_are_lower_bounds(rng, n, condition):
    rows = random_gram(rng, n, 3 * n, condition)
    found = smallest_eigenvalue(inner(exact(rows, True)))
    truth = times(balls(rows), balls(rows).T)
    assert definite(shifted(truth, found))
    estimate = float(np.linalg.svd(rows, compute_uv=False)[-1]) ** 2
    assert found >= estimate - 1e-14 * n * n - 1e-9 * estimate  # of a matrix with norm 1
    if condition <= 1e8:
        assert found > 0
        assert not definite(shifted(truth, estimate * (1 + 1e-6)))  # the comparison can fail


@pytest.mark.slow
@pytest.mark.parametrize("condition", [1e3, 1e13])
def test_smallest_eigenvalue_of_five_hundred_rows(rng, condition):
    rows = random_gram(rng, 500, 600, condition)
    found = smallest_eigenvalue(inner(exact(rows, True)))
    with ctx.workprec(4 * 500 + BITS):
        assert definite(shifted(times(balls(rows), balls(rows).T), found))
    assert (found > 0) == (condition < 1e10)


def test_an_eigenvalue_below_rounding_is_not_called_positive(rng):
    """λ_min < n u tr(G): nothing positive can be known, and nothing positive is said."""
    rows = random_gram(rng, 60, 200, 1e18)
    assert smallest_eigenvalue(inner(exact(rows, True))) <= 0


def test_slightly_indefinite_matrices_are_never_positive(rng):
    for k in range(300):
        n = int(rng.integers(2, 25))
        values = np.concatenate([[-(10.0 ** rng.uniform(-17, -2))], 10 ** rng.uniform(-12, 0, n - 1)])
        q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        a = (q * values) @ q.T
        a = (a + a.T) / 2
        found = smallest_eigenvalue(exact(a, True))
        assert found <= values[0] + 1e-15 * n  # rounding of the entries, norm 1
        if k < 20 or found > 0:
            assert definite(shifted(balls(a), found))


def test_singular_matrices_are_not_positive(rng):
    for n in (2, 7, 30):
        rows = rng.standard_normal((n, n))
        rows[-1] = rows[0]
        assert smallest_eigenvalue(inner(exact(rows, True))) <= 0


def test_radii_and_asymmetry_are_subtracted(rng):
    """λ_min of the worst matrix inside the ball, and of the symmetric part."""
    a = np.diag([2.0, 3.0, 4.0])
    rad = np.full((3, 3), 0.1)
    assert 1.6999 < smallest_eigenvalue(Ball(a, rad)) <= 1.7
    tilted = a.copy()
    tilted[0, 1] = 1e-3
    found = smallest_eigenvalue(exact(tilted, True))
    assert found <= 2 - 0.5e-3
    assert found > 2 - 2e-3


@pytest.mark.parametrize("shape", [(1, 1), (4, 9), (60, 45), (450, 460)])
def test_spectral_norms_are_upper_bounds_within_a_millionth(rng, shape):
    a = rng.standard_normal(shape)
    found = spectral_norm(exact(a, True))
    truth = float(np.linalg.svd(a, compute_uv=False)[0])
    assert truth <= found <= truth * (1 + 1e-6)
    if min(shape) <= 60:
        small = a if shape[0] <= shape[1] else a.T
        gap = shifted(-times(balls(small), balls(small).T), -(arb(found) ** 2))
        assert definite(gap)
    assert spectral_norm(exact(a, False)) == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("ratio", [0.0, 1e-14, 1.0])
def test_spectral_norms_of_special_matrices(ratio):
    """A zero matrix, rank one, and a multiple eigenvalue on top."""
    assert spectral_norm(exact(np.zeros((4, 3)), True)) < 1e-100
    a = np.diag([2.0, 2.0 * ratio, 2.0 * ratio, 2.0 * ratio])
    assert 2 <= spectral_norm(exact(a, True)) <= 2 * (1 + 1e-6)


def test_largest_eigenvalues_cover_the_radius(rng):
    found = largest_eigenvalue(Ball(np.eye(3), np.full((3, 3), 0.1)))
    assert 1.3 <= found <= 1.3001


def test_not_a_number_is_never_a_bound():
    a = np.eye(3)
    a[1, 2] = a[2, 1] = math.nan
    for find in (smallest_eigenvalue,):
        try:
            found = find(exact(a, True))
        except (ValueError, np.linalg.LinAlgError):
            continue
        assert not found > 0
