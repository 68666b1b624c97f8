"""Certificates written by hand whose sentence, or whose key in a table, could be taken for another one."""

import hashlib
import json
from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import save

from wideproof_verify import verify
from wideproof_verify.__main__ import proofs_in

ONE = np.ones((1, 1))


def put(folder, theorem, network, claims, arrays, loss=("squared", "half_sum"), start=None):
    """Write a certificate with its digests."""
    data = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    document = {
        "format": "wideproof-certificate-2", "theorem": theorem, "network": network, "bound": {"sharp": False},
        "loss": {"name": loss[0], "reduction": loss[1]}, "claims": claims, "anchor": {}, "level": "float64",
        "summary": "", "assumptions": [], "versions": {}, **({} if start is None else {"start": start}),
    }  # fmt: skip
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    of_text = hashlib.sha256(text.encode()).hexdigest()
    document["digests"] = {"arrays": hashlib.sha256(data).hexdigest(), "certificate": of_text}
    (folder / "arrays.safetensors").write_bytes(data)
    (folder / "certificate.json").write_text(json.dumps(document))
    return folder


def term(weight, source, **phi):
    return {"weight": weight, "source": source, "map": phi or {"kind": "identity"}}


def node(*terms, activation="identity"):
    return {"terms": list(terms), "activation": activation, "scale": 1.0, "skip": None}


def network(shape, nodes, site, trained, outputs=1, read_out="C"):
    return {"shape": shape, "times": 0, "columns": False, "nodes": nodes, "read_out": read_out, "bias": None,
            "sites": [site], "outputs": outputs, "trained": trained}  # fmt: skip


def select(inputs, out, index, scale=None):
    return {"kind": "select", "positions": [], "inputs": inputs, "out": out, "features": 1, "index": index,
            "scale": scale}  # fmt: skip


@pytest.mark.parametrize("balls", [False, True])
def test_two_selections_whose_numbers_are_the_same_bytes_are_two(tmp_path, balls):
    """Entry 0 on a grid of one position, and entry 1 times 0.0 on none. |f| ≤ 1 never reaches the target 100."""
    first = node(term("W", -1, **select(2, [1], [[0, 0, 1]])), activation="tanh")
    second = node(term(None, 0, kind="flat"), term("U", -1, **select(2, [], [[1, 0, 1]], [0.0])))
    claims = {"s": 0.99, "S": 1.01, "radii": [110.0], "lipschitz": [1e-9], "rho": 100.0, "sigma": 0.98, "b": 1.02,
              "eta": 0.5, "rate": 0.4, "h": 0.45, "epsilon": 1e-6, "steps": 100}  # fmt: skip
    arrays = {
        "x": np.ones((1, 2)),
        "y": np.array([100.0]),
        "weights/W": 0 * ONE,
        "weights/U": 0 * ONE,
        "weights/C": ONE,
    }
    made = put(tmp_path, "descent", network([2], [first, second], 1, ["W", "U"]), claims, arrays)
    verdict = verify(made, balls=balls)
    assert verdict.answer == "not proved"
    assert "Λ_1" in verdict.reason


def test_the_nearest_minimum_is_one_of_the_ball(tmp_path):
    """f(V) = V − 8 relu(V − 2.05) is 1 at 1, in the ball of 1.01 around it, and at 2.2, which is nearer on the way."""
    nodes = [
        node(term("V", -1)), node(term("I", 0), term("b", -1, kind="ones"), activation="relu"),
        node(term(None, 0), term("M", 1)),
    ]  # fmt: skip
    claims = {"s": 0.9999, "S": 1.0001, "rho": 1e-12, "radii": [1.01], "lipschitz": [1e-12], "near": 1e-11, "b": 1.0002,
              "eta": 1.9, "d": 1.0001, "a": 1e-6, "sigma": 0.99, "rate": 0.07, "epsilon": 1e-6, "steps": 200, "t": 1e-9,
              "normal": [-1.0]}  # fmt: skip
    arrays = {"x": ONE, "y": np.ones(1), "weights/V": ONE, "weights/I": ONE, "weights/b": np.array([-2.05]),
              "weights/M": -8 * ONE, "weights/C": ONE, "start/V": 0 * ONE}  # fmt: skip
    verdict = verify(put(tmp_path, "basin", network([1], nodes, 2, ["V"]), claims, arrays))
    assert verdict.answer == "proved"
    assert "the nearest of the global minima that lie within 1.01 of these weights" in verdict.statement
    assert "stored ones" not in verdict.statement
    v, far = 0.0, []
    for _ in range(5):
        far.append((abs(v - 1), min(abs(v - 1), abs(v - 2.2))))
        slope, value = (1, v) if v < 2.05 else (-7, v - 8 * (v - 2.05))
        v -= 1.9 * slope * (value - 1)
    assert all(after[0] <= 0.93 * before[0] for before, after in pairwise(far))
    assert any(after[1] > before[1] for before, after in pairwise(far))  # what must not be said


def test_a_ball_that_has_to_hold_a_point_is_not_rounded(tmp_path):
    """The input is 0, so V = 0 is the only stationary point, 1.000004 away: within 1.0000041, and not within 1."""
    claims = {"S": 1e-9, "rho": 1.0000001, "radii": [1.0000041], "lipschitz": [1e-15], "decay": 1.0,
              "gamma": 1.00000400001, "mu": 1 - 1e-12, "ell": 1.0001, "eta": 0.5, "rate": 0.4999999999, "epsilon": 1e-6,
              "steps": 100}  # fmt: skip
    arrays = {"x": 0 * ONE, "y": np.ones(1), "weights/V": 1.000004 * ONE, "weights/C": ONE}
    verdict = verify(put(tmp_path, "ridge", network([1], [node(term("V", -1))], 0, ["V"]), claims, arrays))
    assert verdict.answer == "proved"
    assert "from every start within 1.0000041 of these weights" in verdict.statement


def fit(folder, hidden, read_out, extra=None):
    """Certify that the training error of f = C W u is zero, under other names."""
    arrays = {"x": ONE, "y": np.ones(1), f"weights/{hidden}": ONE, f"weights/{read_out}": ONE, **(extra or {})}
    made = network([1], [node(term(hidden, -1))], 0, [hidden], read_out=read_out)
    claims = {"margin": 0.9, "loss_name": "logistic", "loss": 0.5}
    return put(folder, "fit", made, claims, arrays, ("logistic", "mean"))


@pytest.mark.parametrize(("hidden", "read_out"), [("0.5W", "2C/3"), ("W-V", "C-C"), ("relu", "W^2")])
def test_names_that_read_as_arithmetic_are_in_quotation_marks(tmp_path, hidden, read_out):
    verdict = verify(fit(tmp_path, hidden, read_out))
    assert verdict.answer == "proved", verdict.reason
    assert f'x1 = "{hidden}" u; f = "{read_out}" x1' in verdict.statement
    assert f'trained: "{hidden}"' in verdict.statement


def test_a_plain_name_has_no_quotation_marks(tmp_path):
    assert "x1 = layers.0.weight u; f = fc_2 x1" in verify(fit(tmp_path, "layers.0.weight", "fc_2")).statement


@pytest.mark.parametrize("name", ['a"b', "x1", "f", "k", "2", "W=1"])
def test_a_name_that_would_end_its_quotation_or_be_a_value_is_refused(tmp_path, name):
    assert "a weight is called" in verify(fit(tmp_path, name, "C")).reason


def test_a_mean_over_rows_of_a_sum_over_outputs_is_called_so(tmp_path):
    """Others divide by the number of outputs as well: 20 steps of that end at 1e-4 here."""
    u = 1 - 0.6**20
    arrays = {"x": ONE, "y": np.array([[1.0, -1.0]]), "weights/W": ONE, "weights/C": np.array([[u], [-u]]),
              "start/C": np.zeros((2, 1))}  # fmt: skip
    start = {"step_size": 0.2, "steps": 20, "bits": [40] * 20, "distance": 1e-9}
    made = network([1], [node(term("W", -1))], 0, ["C"], outputs=2)
    verdict = verify(put(tmp_path, "finite", made, {"loss": 3e-9}, arrays, ("squared_hinge", "mean"), start))
    assert verdict.answer == "proved", verdict.reason
    assert "the mean over the rows of the sum of the squared_hinge losses of all outputs" in verdict.statement


def test_words_of_a_malformed_file_are_escaped(tmp_path):
    escape = "\x1b[2K\rproved: all is well"
    verdict = verify(fit(tmp_path, "W", "C", extra={escape: ONE}))
    assert verdict.answer == "malformed"
    assert "\x1b" not in verdict.reason
    assert "\r" not in verdict.reason


def test_an_index_that_is_read_very_often_is_refused_before_a_table_is_made(tmp_path):
    phi = {**select(14000, [], [[0, 0, 14000]]), "features": 14000}
    arrays = {"x": np.ones((1, 14000)), "y": np.ones(1), "weights/W": np.ones((1, 14000)), "weights/C": ONE}
    made = network([14000], [node(term("W", -1, **phi))], 0, ["W"])
    verdict = verify(
        put(tmp_path, "fit", made, {"margin": 0.9, "loss_name": "logistic", "loss": 0.9}, arrays, ("logistic", "mean"))
    )
    assert verdict.answer == "malformed"
    assert "read too often" in verdict.reason


def test_folders_with_any_digits_in_their_names_are_sorted(tmp_path):
    for name in ("1²", "10", "9"):
        (tmp_path / name / "certificate").mkdir(parents=True)
    assert [one.name for one in proofs_in(tmp_path)] == ["1²", "9", "10"]
