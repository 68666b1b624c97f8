"""Equal rows as one weighted example: the identity of the losses, and what is claimed about them."""

import json
import re

import numpy as np
import pytest

from wideproof.certificates import Problem, certify
from wideproof.certificates.polishing import polish
from wideproof.data import Dataset
from wideproof.data.repeats import distinct
from wideproof.networks import FullyConnected, Residual
from wideproof_verify import verify
from wideproof_verify.certificate import grouped

# pyright: reportOptionalMemberAccess=false
NETWORKS = [FullyConnected(3, 64, 1), FullyConnected(3, 32, 2, outputs=2), Residual(3, 32, 2)]


def problem(network, contradicting: bool):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((9, 3))
    x[4], x[7], x[8] = x[0], x[1], x[0]
    y = rng.standard_normal((9, network.outputs) if network.outputs > 1 else 9)
    if not contradicting:
        y[4], y[7], y[8] = y[0], y[1], y[0]
    return Dataset(x, y, "regression")


@pytest.mark.parametrize("contradicting", [False, True])
def test_the_loss_of_any_function_splits(contradicting):
    data = problem(NETWORKS[0], contradicting)
    found = distinct(data)
    f = np.random.default_rng(0).standard_normal(found.n)
    whole = 0.5 * np.square(f[found.place] - data.y).sum()
    parts = 0.5 * (found.counts * np.square(f - found.y)).sum() + float(found.least)
    assert whole == pytest.approx(parts, rel=1e-13)
    assert (found.least == 0) == (not contradicting)
    rows = grouped(data.x, data.y[None])
    assert rows.counts.tolist() == found.counts.tolist()
    assert float(rows.least) == pytest.approx(float(found.least), rel=1e-15, abs=0)
    low, high = found.least_loss
    assert low <= found.least <= high


@pytest.mark.parametrize(
    ("network", "contradicting"),
    [
        (NETWORKS[0], True),
        (NETWORKS[0], False),
        pytest.param(NETWORKS[1], False, marks=pytest.mark.slow),
        (NETWORKS[2], True),
    ],
    ids=str,
)
def test_gradient_descent_on_rows_obeys_the_certificate(network, contradicting, tmp_path):
    """The certificate of the groups bounds a float64 run on all rows, and it is verified."""
    data = problem(network, contradicting)
    groups = distinct(data)
    near = polish(network, network.init(0), groups.x, groups.y).params
    rng = np.random.default_rng(1)
    start = {name: weight + 1e-5 * rng.standard_normal(weight.shape) for name, weight in near.items()}
    attempt = certify(Problem(network, data).at(start))
    assert attempt.passed, attempt.obstacle
    found = attempt.descent
    now, least = {k: np.array(v) for k, v in start.items()}, float(groups.least)
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        loss = jax.jit(jax.value_and_grad(lambda p: 0.5 * jnp.sum(jnp.square(
            network.forward(network.linear(p), jnp.asarray(data.x)).outputs - jnp.asarray(data.y)))))  # fmt: skip
        for k in range(60):
            value, slope = loss({name: jnp.asarray(w) for name, w in now.items()})
            assert float(value) - least <= float(found.bound(k)) * (1 + 1e-9) + 1e-14 * (1 + least)
            now = {name: w - found.eta * np.asarray(slope[name]) for name, w in now.items()}
    assert float(value) - least < 0.9 * float(found.bound(0))
    verdict = verify(attempt.certificate.save(tmp_path / "c"))
    assert verdict.answer == "proved", verdict.reason
    assert ("a global minimum, the least loss" in verdict.statement) == contradicting
    if contradicting:
        low, high = re.findall(r"between (\S+) and (\S+)", verdict.statement)[0]
        assert float(low) <= least <= float(high)
        assert "more than that least loss" in verdict.statement


@pytest.fixture(scope="module")
def certificate():
    data = problem(NETWORKS[0], True)
    groups = distinct(data)
    near = polish(NETWORKS[0], NETWORKS[0].init(0), groups.x, groups.y)
    return data, certify(Problem(NETWORKS[0], data).at(near.params)).certificate


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"distinct": 7}, "not proved"),
        ({"least_loss": 1.001}, "not proved"),
        ({"least_loss_at_most": 0.999}, "not proved"),
        ({"least_loss": -1.0}, "not proved"),
        ({"least_loss": None}, "malformed"),
        ({"distinct": 6.0}, "malformed"),
    ],
)
def test_planted_claims_about_rows_are_refused(certificate, tmp_path, change, answer):
    from tests.certificates.rewriting import put

    data, right = certificate
    folder = right.save(tmp_path / "right")
    document = json.loads((folder / "certificate.json").read_text())
    claims = document["claims"]
    for name, value in change.items():
        if value is None:
            del claims[name]
        else:
            claims[name] = value * claims[name] if name.startswith("least") else value
    arrays = {"x": data.x, "y": data.y} | {f"weights/{k}": v for k, v in right.params.items()}
    assert verify(put(tmp_path / "wrong", document, arrays, digests=True)).answer == answer
