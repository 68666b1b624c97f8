"""Many rows of the Jacobian, by blocks: the matrix, its bounds, true claims and claims that are too strong."""

import numpy as np
import pytest

from tests.certificates.rewriting import parts, put
from tests.verify.making import config, read
from wideproof.certificates import Problem, anchor, certify
from wideproof.certificates.balance import balanced
from wideproof.certificates.polishing import polish
from wideproof.data import Dataset
from wideproof.networks import ConvResidual, ElmanRNN, FullyConnected, Residual, Sketch, get_activation
from wideproof_verify import bounds, eigenvalues, passes, verify
from wideproof_verify.arithmetic import FLOATS, balls
from wideproof_verify.eigenvalues import Symmetric

ERF = get_activation("erf")
# pyright: reportOptionalMemberAccess=false


@pytest.fixture(scope="module")
def few():
    """As if some rows were many, for prover and verifier, and blocks of seven rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anchor, "DENSE", 20)
        patch.setattr(passes, "DENSE", 20)
        patch.setattr(passes, "BLOCK", 7)
        patch.setattr(eigenvalues, "BLOCK", 7)
        yield patch


def sketched(outputs=3, width=14):
    """Two hidden layers and a read-out, each with a bias."""
    sketch = Sketch(5)
    return sketch.read_out(sketch.dense(sketch.dense(sketch.input, width, "tanh"), width, "erf"), outputs)


NETWORKS = {
    "fully-connected": FullyConnected(5, 12, 1, ERF), "residual": Residual(5, 6, 2, ERF, outputs=3),
    "sketch": sketched(), "convolution": ConvResidual(2, 4, 5, 2, outputs=3),
    "long-convolution": ConvResidual(1, 16, 3, 2, outputs=3), "recurrent": ElmanRNN(4, 9, 4, outputs=2),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_the_matrix_is_that_with_radii(few, name):
    network = NETWORKS[name]
    params = {name: np.asarray(weight) for name, weight in network.init(1).items()}
    x = np.random.default_rng(0).standard_normal((25 if network.graph.outputs == 1 else 10, *network.input_shape))
    made, weights = read(config(network), params)
    counts = np.ones(len(x))
    counts[[1, 3, 6]] = 3, 2, 5
    place = passes.Anchor(made, weights, x, counts, ops=FLOATS)
    assert place.many
    place.lean = False
    place.differentiate()
    exact, found = place.gram(FLOATS.product), place.matrix()
    lower = np.tril(found.mid)
    whole = lower + np.tril(lower, -1).T
    assert np.allclose(found.mid, whole, rtol=1e-15, atol=0)
    assert np.linalg.norm(whole - exact.mid) <= np.linalg.norm(exact.rad) + found.off
    assert found.off < 1e-11 * np.trace(whole)
    assert found.size() >= np.linalg.norm(whole) > 0.7 * found.size()
    if network.data_kind == "sequences":
        return
    before, outputs = found.mid.copy(), network.graph.outputs
    up = found.raised(outputs, 0.5)
    expected = whole + 0.5 * np.tile(np.eye(len(x)), (outputs, outputs))
    assert np.allclose(up.mid, expected, rtol=0, atol=1e-12)
    assert np.array_equal(found.mid, before)
    assert up.off > found.off


@pytest.mark.parametrize(("n", "known"), [(3, 500), (23, 500), (60, 500), (220, 100)])
def test_eigenvalues_are_bounded_and_no_more(few, monkeypatch, n, known):
    """True up to rounding, never beyond, with eigenvalues to guess from or without; the matrix stays as it is."""
    monkeypatch.setattr(eigenvalues, "FEW", known)
    rows = np.random.default_rng(n).standard_normal((n, 2 * n))
    matrix = np.tril(rows @ rows.T) + np.tril(rows @ rows.T, -1).T
    values = np.linalg.eigvalsh(matrix)
    g = Symmetric(matrix.copy(), 1e-9)
    assert (g.near() is None) == (known < n)
    assert g.at_least(values[0] - 1e-7)
    assert g.at_least(-values[-1] - 1e-6, -1)
    assert g.at_least(values[0] + 1e-10) is None
    assert g.at_least(-values[-1] + 1e-10, -1) is None
    assert Symmetric(g.mid, 0.1 * values[0]).at_least(values[0] * 0.95) is None
    assert g.at_least(values[0] + 1e-3) is (False if n <= known else None)
    assert g.at_least(-values[-1] + 1e-3, -1) is (False if n <= known else None)
    assert values[-1] + 1e-9 <= g.largest() <= values[-1] * (1 + 1e-5)
    assert np.array_equal(g.mid, matrix)


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [0.0, 3.0]])
def test_few_different_eigenvalues_of_many_rows_are_bounded_closely(values):
    """As of orthogonal weights: the search for the largest one ends early."""
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((510, 510)))[0]
    for q in (np.eye(510), basis):
        matrix = (q * np.resize(values, 510)) @ q.T
        assert max(values) <= Symmetric((matrix + matrix.T) / 2, 0.0).largest() <= max(values) * 1.01


@pytest.mark.parametrize("block", [5, 7, 8, 29, 64])
def test_what_is_left_of_a_factor_is_bounded(few, monkeypatch, block):
    """Of another matrix' factor nothing is hidden, in whichever block it is off."""
    monkeypatch.setattr(eigenvalues, "BLOCK", block)
    rows = np.random.default_rng(2).standard_normal((29, 60))
    g = Symmetric(rows @ rows.T, 0.0)
    right = g.residual(0.5, 1)
    assert right is not None
    assert 0 < right < 1e-10
    factor = np.linalg.cholesky(g.mid - 0.5 * np.eye(29))
    for i, j in ((0, 0), (28, 0), (28, 28), (13, 6), (7, 7)):
        other = factor.copy()
        other[i, j] += 1e-3
        monkeypatch.setattr(np.linalg, "cholesky", lambda a, other=other: other)
        found, truth = g.residual(0.5, 1), np.linalg.norm(g.mid - 0.5 * np.eye(29) - other @ other.T)
        assert found is not None
        assert truth <= found <= 2 * truth


def test_a_wrong_factor_proves_nothing(few, monkeypatch):
    """The factor is not trusted: one of another matrix is seen by its product."""
    rows = np.random.default_rng(1).standard_normal((30, 60))
    g, least = Symmetric(rows @ rows.T, 1e-10), np.linalg.eigvalsh(rows @ rows.T)[0]
    right = np.linalg.cholesky
    assert g.at_least(0.9 * least)
    monkeypatch.setattr(np.linalg, "cholesky", lambda a: right(a) * (1 + 1e-6))
    assert g.at_least(0.9 * least) is None
    monkeypatch.setattr(np.linalg, "cholesky", lambda a: np.full_like(a, np.nan))
    assert g.at_least(0.9 * least) is None
    assert g.largest() >= np.linalg.eigvalsh(g.mid)[-1]


def made(network, folder, outputs=1, one_hot=False):
    rng = np.random.default_rng(5)
    n = 36
    x = 2 * rng.standard_normal((n, 5))
    y = rng.standard_normal((n, outputs) if outputs > 1 else n)
    if one_hot:
        y = 2.0 * np.eye(outputs)[rng.integers(0, outputs, n)] - 1
    data = Dataset(x, y, "multiclass" if one_hot else "regression")
    near = polish(network, network.init(0), data.x, data.y).params
    attempt = certify(Problem(network, data).at(balanced(network.graph, near, data.y) or near))
    assert attempt.passed, attempt.obstacle
    assert attempt.anchor.many
    return attempt, attempt.certificate.save(folder / "certificate")


@pytest.fixture(scope="module")
def case(few, tmp_path_factory):
    return made(FullyConnected(5, 30, 1, ERF), tmp_path_factory.mktemp("wide"))[1]


def test_it_is_proved(case):
    verdict = verify(case)
    assert (verdict.answer, verdict.precision) == ("proved", 53), verdict.reason


def test_labels_of_a_constant_sum_are_proved(few, tmp_path):
    attempt, folder = made(sketched(width=8), tmp_path, outputs=3, one_hot=True)
    assert attempt.certificate.claims["constant_sum"] == attempt.anchor.lifted > 0
    verdict = verify(folder)
    assert verdict.answer == "proved", verdict.reason
    document, arrays = parts(folder)
    document["claims"].pop("constant_sum")
    assert verify(put(tmp_path / "c", document, arrays, digests=True)).answer == "not proved"


@pytest.mark.parametrize("change", [
    {"s": 1.0001}, {"S": 0.9999}, {"rho": 1e-4}, {"eta": 1.01}, {"rate": 1.01}, {"sigma": 1.01}, {"b": 0.99},
], ids=lambda change: next(iter(change)))  # fmt: skip
def test_stronger_claims_are_refused(case, tmp_path, change):
    document, arrays = parts(case)
    for name, factor in change.items():
        document["claims"][name] *= factor
    assert verify(put(tmp_path / "c", document, arrays, digests=True)).answer == "not proved"


def test_smaller_lipschitz_constants_are_refused(case, tmp_path):
    document, arrays = parts(case)
    document["claims"]["lipschitz"] = [0.9999 * value for value in document["claims"]["lipschitz"]]
    assert verify(put(tmp_path / "c", document, arrays, digests=True)).answer == "not proved"


def test_a_sum_that_is_not_constant_is_refused(case, tmp_path):
    document, arrays = parts(case)
    document["claims"]["constant_sum"] = 1.0
    assert verify(put(tmp_path / "c", document, arrays, digests=True)).answer == "not proved"


@pytest.mark.parametrize("name", ["x", "y", "weights/W1", "weights/a"])
def test_moved_numbers_are_refused(case, tmp_path, name):
    document, arrays = parts(case)
    document["anchor"] = {}
    arrays[name][(0,) * arrays[name].ndim] += 1e-4
    assert verify(put(tmp_path / "c", document, arrays, digests=True)).answer == "not proved"


def test_norms_of_nonnegative_forms_are_bounded():
    forms = np.abs(np.random.default_rng(9).standard_normal((3, 20, 3)))
    forms = forms + forms.swapaxes(0, 2)
    forms[:, 4] = 0.0
    forms[:, 5] = np.diag([0.0, 2.0, 0.0])
    found = bounds._perron(balls(forms))
    values = np.linalg.eigvalsh(forms.swapaxes(0, 1))[:, -1]
    assert all(float(bound.upper()) >= value * (1 - 1e-15) for bound, value in zip(found, values, strict=True))
    assert np.allclose([float(bound) for bound in found], values, rtol=1e-9, atol=0)
