"""Many outputs, whose Gram matrix is not formed: claims a little too strong are refused, true ones are proved."""

import numpy as np
import pytest

from tests.certificates.rewriting import parts, put
from tests.verify.making import config, read
from wideproof.certificates import Problem, anchor, certify
from wideproof.certificates.polishing import fit_read_out
from wideproof.data import Dataset
from wideproof.data.repeats import distinct
from wideproof.networks import FullyConnected, Residual, get_activation
from wideproof_verify import costs, passes, verify
from wideproof_verify.arithmetic import BALLS, FLOATS
from wideproof_verify.passes import Anchor

ERF = get_activation("erf")
NETWORKS = [FullyConnected(4, 96, 1, ERF, outputs=40), Residual(4, 96, 2, ERF, outputs=40)]
# pyright: reportOptionalMemberAccess=false


def made(network, folder):
    """60 rows, two of them equal and contradicting, 40 targets each: 2,360 rows of the Jacobian."""
    rng = np.random.default_rng(5)
    x, y = 2 * rng.standard_normal((60, 4)), rng.standard_normal((60, 40))
    x[7] = x[3]
    data = Dataset(x, y, "regression")
    groups = distinct(data)
    near = fit_read_out(network, network.init(0), groups.x, groups.y)
    attempt = certify(Problem(network, data).at(near.params))
    assert attempt.passed, attempt.obstacle
    assert attempt.anchor.lean
    return network, data, attempt, attempt.certificate.save(folder / "certificate")


@pytest.fixture(scope="module", autouse=True)
def few():
    """Call fewer rows many, so that there is less to compute."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (anchor, passes, costs):
            patch.setattr(module, "DENSE", 2000)
        yield


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return made(NETWORKS[0], tmp_path_factory.mktemp("lean"))


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_it_is_proved(network, case, tmp_path):
    _, data, _, folder = case if network is NETWORKS[0] else made(network, tmp_path)
    verdict = verify(folder)
    assert (verdict.answer, verdict.precision) == ("proved", 53), verdict.reason
    assert data.y.size > passes.DENSE
    assert "a global minimum" in verdict.statement
    assert "60 rows of 4 prepared inputs" in verdict.statement


def test_bounds_are_bounds(case):
    """Against the whole Jacobian: s below its smallest singular value, S above its largest."""
    import jax
    import jax.numpy as jnp

    network, data, attempt, _ = case
    groups = distinct(data)
    with jax.enable_x64(True):
        trained = {name: jnp.asarray(attempt.certificate.params[name]) for name in network.trained_names}
        rows = jax.jit(jax.jacrev(lambda p: network.forward(network.linear(p), jnp.asarray(groups.x[:10])).outputs))(
            trained
        )
        jacobian = np.concatenate([np.asarray(a).reshape(10 * 40, -1) for a in rows.values()], axis=1)
    roots = np.sqrt(groups.counts[:10]).repeat(40)
    values = np.linalg.svd(jacobian * roots[:, None], compute_uv=False)
    assert values[-1] >= attempt.anchor.s  # more rows only make the smallest one smaller
    assert values[0] <= attempt.anchor.S


@pytest.mark.parametrize("change", [
    {"s": 1.001}, {"S": 0.5}, {"rho": 1e-3}, {"eta": 1.01}, {"rate": 1.01}, {"least_loss": 1.0001}, {"distinct": 60},
], ids=lambda change: next(iter(change)))  # fmt: skip
def test_stronger_claims_are_refused(case, tmp_path, change):
    document, arrays = parts(case[3])
    for name, factor in change.items():
        document["claims"][name] = factor if name == "distinct" else factor * document["claims"][name]
    assert verify(put(tmp_path / "c", document, arrays, digests=True)).answer == "not proved"


def test_smaller_lipschitz_constants_are_refused(case, tmp_path):
    document, arrays = parts(case[3])
    document["claims"]["lipschitz"] = [0.9 * value for value in document["claims"]["lipschitz"]]
    assert verify(put(tmp_path / "c", document, arrays, digests=True)).answer == "not proved"


@pytest.mark.parametrize("name", ["x", "y", "weights/W1", "weights/a"])
def test_moved_numbers_are_refused(case, tmp_path, name):
    document, arrays = parts(case[3])
    document["anchor"] = {}
    arrays[name][(0,) * arrays[name].ndim] += 1e-3
    assert verify(put(tmp_path / "c", document, arrays, digests=True)).answer == "not proved"


def test_large_and_small_arithmetic_agree():
    """The same pass in float64 with radii and in balls: outputs, Gram matrix, cotangents."""
    network = FullyConnected(3, 12, 2, ERF, outputs=2)
    params = {name: np.asarray(weight) for name, weight in network.init(1).items()}
    x = np.random.default_rng(0).standard_normal((5, 3))
    made, weights = read(config(network), params)
    counts = np.array([1, 3, 1, 2, 1])
    exact, near = (Anchor(made, weights, x, counts, ops).differentiate() for ops in (BALLS, FLOATS))
    grams = exact.gram(BALLS.product), near.gram(FLOATS.product)
    for a, b in ((exact.outputs, near.outputs), grams, (exact.backs[0], near.backs[0])):
        apart = np.abs(BALLS.middle(a) - b.mid)
        assert (apart <= b.rad + 1e-15 * np.abs(b.mid)).all()
        assert b.rad.max() < 1e-11
