"""Many rows of the Jacobian: one matrix and one bound of its error, by blocks and where JAX computes."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wideproof.certificates import Problem, anchor, certify, devices, many, memory
from wideproof.certificates.enclosure import Ball, gamma
from wideproof.certificates.passes import run
from wideproof.certificates.polishing import polish
from wideproof.data import Dataset
from wideproof.errors import InputError, MachineError
from wideproof.networks import FullyConnected, Residual, Sketch, get_activation

ERF = get_activation("erf")
PLACES = ["blocks", "device"]
# pyright: reportOptionalMemberAccess=false, reportOptionalOperand=false, reportArgumentType=false


@pytest.fixture(params=PLACES)
def place(request, monkeypatch):
    """Both ways; the one for a device runs wherever JAX computes, here or there."""
    monkeypatch.setattr(many, "accelerated", lambda: request.param == "device")
    monkeypatch.setattr(many, "BLOCK", 7)
    return request.param


def passed(network, n=12, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, *network.input_shape))
    params = {name: np.asarray(weight, np.float64) for name, weight in network.init(seed).items()}
    return run(network.graph.unrolled, params, x), x, params


def sketched():
    """Two hidden layers and a read-out, each with a bias."""
    sketch = Sketch(3)
    return sketch.read_out(sketch.dense(sketch.dense(sketch.input, 5, "tanh"), 4, "softplus"), 2)


NETWORKS = [FullyConnected(4, 9, 1, ERF), Residual(4, 6, 2, ERF, outputs=3), sketched()]


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_it_is_the_gram_matrix_with_radii(network, place):
    """The two enclosures, of the same numbers, meet; counts weigh both sides."""
    found, x, _ = passed(network)
    counts = np.arange(1, len(x) + 1)
    weigh = anchor.weigher(counts, len(x), True)
    whole = many.gram_of(many.factors(found, weigh), found.outputs.mid.shape[1])
    radii = weigh(weigh(anchor.gram(found, found.graph.trained), 0), 1)
    mid = np.asarray(whole.mid)
    assert isinstance(whole.mid, np.ndarray) == (place == "blocks")
    assert (mid == mid.T).all()
    assert (np.abs(mid - radii.mid) <= radii.rad + whole.entry).all()
    assert np.linalg.norm(mid - radii.mid, 2) <= np.linalg.norm(radii.rad) + whole.off
    assert whole.off < 1e-11 * np.trace(mid)


def test_an_entry_is_as_far_off_as_is_said():
    """Against rational numbers: rows whose radii are used to the full."""
    rng = np.random.default_rng(3)
    u, b = rng.standard_normal((5, 4)), rng.standard_normal((5, 3))
    far = [1e-9 * np.abs(rng.standard_normal(a.shape)) for a in (u, b)]
    whole = many.gram_of([many.Factor(Ball(b, far[1]), Ball(u, far[0]))], 1)

    def inner(rows, i, j):
        return sum(Fraction(x) * Fraction(y) for x, y in zip(rows[i].tolist(), rows[j].tolist(), strict=True))

    worst = 0.0
    for signs in (1, -1):
        moved = [a + signs * f * np.sign(a) for a, f in zip((u, b), far, strict=True)]
        true = np.array([[float(inner(moved[0], i, j) * inner(moved[1], i, j) - Fraction(whole.mid[i, j]))
                          for j in range(5)] for i in range(5)])  # fmt: skip
        assert np.abs(true).max() <= whole.entry
        assert np.linalg.norm(true, 2) <= whole.off
        worst = max(worst, np.linalg.norm(true, 2) / whole.off)
    assert worst > 0.05  # and not a hundred times less


@pytest.mark.parametrize("shape", [(40, 90), (3, 5), (600, 700)], ids=str)
def test_ends_of_the_spectrum_are_bounds(place, shape):
    rows = np.random.default_rng(1).standard_normal(shape)
    matrix = rows @ rows.T
    values = np.linalg.eigvalsh(matrix)
    with jax.enable_x64(True):
        whole = many.Whole(jnp.asarray(matrix) if place == "device" else matrix, 1e-9, 1e-9)
        low, high = many.smallest(whole), many.largest(whole)
        assert values[0] * (1 - 1e-3) < low < values[0]
        assert values[-1] < high < values[-1] * (1 + 1e-3)
        lost = many.Place(whole.mid).hidden(values[0] * (1 + 1e-6), 1)
    assert lost is None or values[0] * (1 + 1e-6) - lost <= values[0]


@pytest.mark.parametrize("least", [-1.0, 0.0, 1e-13])
def test_no_matrix_is_called_positive_that_is_not(place, least):
    """Eigenvalues that are negative, zero, or positive by less than rounding can tell."""
    q = np.linalg.qr(np.random.default_rng(2).standard_normal((50, 50)))[0]
    matrix = (q * np.array([least, *np.linspace(1, 100, 49)])) @ q.T
    matrix = (matrix + matrix.T) / 2
    with jax.enable_x64(True):
        whole = many.Whole(jnp.asarray(matrix) if place == "device" else matrix, 0.0, 0.0)
        assert many.smallest(whole) <= max(np.linalg.eigvalsh(matrix)[0], 0)


def test_a_factor_of_another_matrix_proves_nothing(monkeypatch):
    """On a device factors are not trusted: one that is wrong is seen by its product."""
    rows = np.random.default_rng(4).standard_normal((30, 60))
    with jax.enable_x64(True):
        matrix = jnp.asarray(rows @ rows.T)
        right = many._cholesky
        monkeypatch.setattr(many, "_cholesky", lambda mid, level, sign: right(mid, level, sign) * 1.01)
        least = float(np.linalg.eigvalsh(np.asarray(matrix))[0])
        assert many.smallest(many.Whole(matrix, 0.0, 0.0)) < 0 < least


def test_lifting_changes_an_examples_own_block(place):
    rows = np.random.default_rng(5).standard_normal((6, 9))
    matrix = rows @ rows.T
    with jax.enable_x64(True):
        whole = many.Whole(jnp.asarray(matrix) if place == "device" else matrix.copy(), 0.0, 0.0)
        up = many.raised(whole, 2, 0.5)
    assert np.abs(np.asarray(up.mid) - matrix - np.kron(np.eye(3), np.full((2, 2), 0.5))).max() <= up.entry


@pytest.mark.parametrize("k", [1, 100, 3000])
def test_products_where_jax_computes_obey_the_bound(k):
    r"""$|\mathrm{fl}(AB) - AB| \le \gamma_k |A||B|$ against exact sums; run it on a GPU as it is."""
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((9, k)) * 10.0 ** rng.integers(-8, 8, (9, k)), rng.standard_normal((k, 7))
    found = np.asarray(devices.on_device(a, b))
    for i in range(9):
        for j in range(7):
            terms = [Fraction(x) * Fraction(y) for x, y in zip(a[i].tolist(), b[:, j].tolist(), strict=True)]
            assert abs(Fraction(float(found[i, j])) - sum(terms)) <= Fraction(gamma(k)) * sum(map(abs, terms))


def test_products_in_less_precision_are_found():
    def tf32(a, b):
        cut = [(x.view(np.uint64) & np.uint64(0xFFFFFC0000000000)).view(np.float64) for x in (a, b)]
        return cut[0] @ cut[1]

    with pytest.raises(MachineError, match="JAX_PLATFORMS=cpu"):
        devices.check_products(tf32)


def problem(n=30, outputs=1, width=24):
    rng = np.random.default_rng(7)
    x = rng.standard_normal((n, 6))
    x[4] = x[2]
    y = rng.standard_normal((n, outputs) if outputs > 1 else n)
    y[4] = y[2]
    return FullyConnected(6, width, 2, ERF, outputs=outputs), Dataset(2 * x, y, "regression")


@pytest.mark.parametrize("outputs", [1, 2])
def test_claims_are_those_of_few_rows_or_a_little_less(monkeypatch, place, outputs):
    network, data = problem(outputs=outputs)
    near = polish(network, network.init(0), data.x[np.arange(30) != 4], data.y[np.arange(30) != 4]).params
    few = certify(Problem(network, data).at(near))
    monkeypatch.setattr(anchor, "DENSE", 20)
    rows = certify(Problem(network, data).at(near))
    assert few.passed, few.obstacle
    assert rows.passed, rows.obstacle
    assert (few.anchor.many, rows.anchor.many) == (False, True)
    assert few.anchor.s * (1 - 1e-4) < rows.anchor.s <= few.anchor.s * (1 + 1e-7)
    assert few.anchor.S * (1 - 1e-6) < rows.anchor.S < few.anchor.S * (1 + 1e-4)
    assert "D" not in rows.certificate.claims
    plain = certify(Problem(network, data).at(near), level="float64").anchor
    assert np.isclose(plain.s, few.anchor.s, rtol=1e-4)


def test_polishing_many_rows_ends_at_a_fit(monkeypatch, place):
    from wideproof.certificates import polishing

    network, data = problem()
    part = np.arange(30) != 4
    monkeypatch.setattr(polishing, "DENSE", 20)
    monkeypatch.setattr(polishing, "accelerated", lambda: place == "device")
    found = polish(network, network.init(0), data.x[part], data.y[part])
    assert found.residuals[-1] < 1e-10


def test_memory_that_is_not_there_is_said_before(monkeypatch):
    network, data = problem()
    monkeypatch.setattr(anchor, "DENSE", 20)
    monkeypatch.setattr(memory, "free_memory", lambda: 1e5)
    with pytest.raises(InputError, match=r"needs 0.0 GiB, and 0.0 GiB are free: take at most \d+ examples"):
        certify(Problem(network, data).at(network.init(0)))


def test_memory_grows_with_the_square_of_the_rows():
    network = FullyConnected(784, 64, 1, ERF, outputs=10)
    small, large = (memory.memory_needed(network.graph, network.init(0), n) for n in (2000, 4000))
    assert 2 * 8 * 20_000**2 < small.prover < 1.3 * 2 * 8 * 20_000**2
    assert 3 < large.prover / small.prover < 4


def test_norms_of_very_many_forms_are_those_of_each(monkeypatch):
    from wideproof.certificates import lipschitz

    forms = np.abs(np.random.default_rng(8).standard_normal((40, 3, 3)))
    forms = forms + forms.swapaxes(1, 2)
    forms[3] = 0.0
    forms[4] = np.diag([0.0, 2.0, 0.0])
    one = [lipschitz._top(q) for q in forms]
    monkeypatch.setattr(lipschitz, "DENSE", 20)
    assert np.allclose(lipschitz._tops(forms), one, rtol=1e-14, atol=0)
    assert (np.array(one) >= np.linalg.eigvalsh(forms)[:, -1] * (1 - 1e-15)).all()
