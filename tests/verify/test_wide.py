"""Many rows of the Jacobian, by blocks: the matrix, its bounds, true claims and claims that are too strong."""

import numpy as np
import pytest

from tests.certificates.rewriting import parts, put
from tests.verify.making import config
from wideproof.certificates import anchor
from wideproof.certificates.balance import balanced
from wideproof.certificates.certifying import certify
from wideproof.certificates.polishing import polish
from wideproof.data import Dataset
from wideproof.networks import FullyConnected, Residual, Sketch, get_activation
from wideproof_verify import bounds, networks, verify, wide
from wideproof_verify.arithmetic import balls
from wideproof_verify.graphs import build

ERF = get_activation("erf")
# pyright: reportOptionalMemberAccess=false


@pytest.fixture(scope="module")
def few():
    """As if some rows were many, for prover and verifier, and blocks of seven rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anchor, "DENSE", 20)
        patch.setattr(networks, "DENSE", 20)
        patch.setattr(wide, "BLOCK", 7)
        patch.setattr(wide, "PANEL", 5)
        yield patch


def sketched(outputs=3, width=14):
    """Two hidden layers and a read-out, each with a bias."""
    sketch = Sketch(5)
    return sketch.read_out(sketch.dense(sketch.dense(sketch.input, width, "tanh"), width, "erf"), outputs)


@pytest.mark.parametrize("network", [FullyConnected(5, 12, 1, ERF), Residual(5, 6, 2, ERF, outputs=3), sketched()],
                         ids=["fully-connected", "residual", "sketch"])  # fmt: skip
def test_the_matrix_is_that_with_radii(few, network):
    params = {name: np.asarray(weight) for name, weight in network.init(1).items()}
    x = np.random.default_rng(0).standard_normal((10, 5))
    made, weights = build(config(network), params)
    counts = np.array([1, 3, 1, 2, 1, 1, 5, 1, 1, 1])
    place = networks.Anchor(made, weights, x, counts, large=True)
    place.lean = False
    place.differentiate()
    assert wide.plain(place)
    exact, found = place.gram(), wide.gram(place)
    lower = np.tril(found.mid)
    whole = lower + np.tril(lower, -1).T
    assert np.linalg.norm(whole - exact.mid) <= np.linalg.norm(exact.rad) + found.off
    assert found.off < 1e-11 * np.trace(whole)
    assert found.size() >= np.linalg.norm(whole) > 0.7 * found.size()
    up = found.raised(network.graph.outputs, 0.5).mid.copy()
    outputs = network.graph.outputs
    expected = whole + 0.5 * np.tile(np.eye(len(x)), (outputs, outputs))
    assert np.allclose(np.tril(up), np.tril(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [3, 23, 60])
def test_eigenvalues_are_bounded_and_no_more(few, n):
    """True up to rounding, never beyond; the upper triangle is not read, the lower one stays as it is."""
    rows = np.random.default_rng(n).standard_normal((n, 2 * n))
    matrix = rows @ rows.T
    values = np.linalg.eigvalsh(matrix)
    g = wide.Wide(np.tril(matrix) + np.triu(np.full((n, n), np.nan), 1), 1e-9)
    before = g.mid.copy()
    assert wide.at_least(g, values[0] - 1e-7)
    assert wide.at_least(g, -values[-1] - 1e-6, -1)
    assert wide.at_least(g, values[0] + 1e-10) is None
    assert wide.at_least(g, -values[-1] + 1e-10, -1) is None
    assert wide.at_least(wide.Wide(g.mid, 0.1 * values[0]), values[0] * 0.95) is None
    assert np.array_equal(np.tril(g.mid), np.tril(before))


@pytest.mark.parametrize(("block", "panel"), [(7, 5), (8, 4), (64, 5), (5, 64)])
def test_the_factor_stands_above_the_matrix(few, block, panel):
    few.setattr(wide, "BLOCK", block)
    few.setattr(wide, "PANEL", panel)
    rows = np.random.default_rng(2).standard_normal((29, 60))
    a = np.tril(rows @ rows.T)
    corners = wide.cholesky(a, 0.5, 1)
    assert corners is not None
    r = np.zeros((29, 29))
    for i in range(0, 29, block):
        part = wide.factor_rows(a, corners, i)
        r[i : i + block, : part.shape[1]] = part
    few.setattr(wide, "BLOCK", 7)
    few.setattr(wide, "PANEL", 5)
    assert np.allclose(r, np.linalg.cholesky(rows @ rows.T - 0.5 * np.eye(29)), rtol=1e-9, atol=1e-12)


def test_a_wrong_factor_proves_nothing(few, monkeypatch):
    """The factor is not trusted: one of another matrix is seen by its product."""
    rows = np.random.default_rng(1).standard_normal((30, 60))
    g, least = wide.Wide(rows @ rows.T, 1e-10), np.linalg.eigvalsh(rows @ rows.T)[0]
    right = wide.cholesky

    def wrong(*given):
        return [corner * (1 + 1e-6) for corner in right(*given) or []]

    assert wide.at_least(g, 0.9 * least)
    monkeypatch.setattr(wide, "cholesky", wrong)
    assert wide.at_least(g, 0.9 * least) is None


def made(network, folder, outputs=1, one_hot=False):
    rng = np.random.default_rng(5)
    n = 36
    x = 2 * rng.standard_normal((n, 5))
    y = rng.standard_normal((n, outputs) if outputs > 1 else n)
    if one_hot:
        y = 2.0 * np.eye(outputs)[rng.integers(0, outputs, n)] - 1
    data = Dataset(x, y, "multiclass" if one_hot else "regression")
    near = polish(network, network.init(0), data.x, data.y).params
    attempt = certify(network, balanced(network.graph, near, data.y) or near, data)
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
