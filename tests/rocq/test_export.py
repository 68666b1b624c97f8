"""The exported file holds the stored numbers; claims are found again, and what is not covered is refused by name."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from tests.rocq.conftest import X, Y, network
from wideproof.certificates import Certificate, Problem, Start, certify
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import get_activation
from wideproof.rocq import FailsError, NotCoveredError, export, kernel
from wideproof.rocq.covered import ACTIVATIONS
from wideproof.rocq.numbers import FIRST, SECOND


def parsed(text: str, name: str, top: int, rest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the heads and rows of a list of pairs, divided by powers of two."""
    found = re.search(rf"Definition {name} : list \(list Z \* list Z\) := (.*?)%Z\.", text, re.DOTALL)
    assert found is not None
    pairs = ast.literal_eval(found[1].replace(";", ","))
    heads = np.array([[entry / 2**top for entry in head] for head, _ in pairs])
    return heads, np.array([[entry / 2**rest for entry in row] for _, row in pairs])


def power_in(text: str, words: str) -> int:
    """Return the power of two that a field names."""
    found = re.search(rf"{words} := (\d+)", text)
    assert found is not None
    value = int(found[1])
    assert value & (value - 1) == 0
    return value.bit_length() - 1


@pytest.mark.parametrize("arithmetic", ["z", "bigz", "float"])
def test_parsing_the_file_gives_the_stored_numbers_back_bit_for_bit(
    xor: Certificate, folder: Path, arithmetic: str
) -> None:
    text = export(folder, arithmetic).text
    kx, ky, kw, ka = (power_in(text, f"over_{key}") for key in "xywa")
    y, x = parsed(text, "rows_of_table", ky, kx)
    a, w = parsed(text, "anchor_weights", ka, kw)
    for read, stored in ((x, xor.x), (y[:, 0], xor.y), (a[:, 0], np.ravel(xor.params["a"])), (w, xor.params["W1"])):
        np.testing.assert_array_equal(read, stored)


def test_several_outputs_and_equal_inputs_are_read_back_bit_for_bit(thrice: Certificate, tmp_path: Path) -> None:
    exported = export(thrice.save(tmp_path / "thrice"))
    text = exported.text
    kx, ky, kw, ka = (power_in(text, f"over_{key}") for key in "xywa")
    y, x = parsed(text, "rows_of_table", ky, kx)
    a, w = parsed(text, "anchor_weights", ka, kw)
    for read, stored in ((x, thrice.x), (y, thrice.y), (a, thrice.params["a"].T), (w, thrice.params["W1"])):
        np.testing.assert_array_equal(read, stored)
    assert "groups := [0; 1; 2; 3; 3]%nat; firsts := seq 0 4;" in " ".join(text.split())
    assert "c_least := (2 # 1); w_most := 2;" in " ".join(text.split())
    assert "converges to the least loss that any function of the inputs has, 2, on 5 rows" in exported.sentence
    assert exported.sentence.endswith("the loss is at most 1e-12 above it.")


@pytest.mark.parametrize(("claim", "value"), [("distinct", 5), ("least_loss", 2.0001), ("least_loss_at_most", 1.9999)])
def test_what_equal_inputs_cannot_avoid_is_compared(
    thrice: Certificate, tmp_path: Path, claim: str, value: float
) -> None:
    spoilt = dataclasses.replace(thrice, claims={**thrice.claims, claim: value})
    with pytest.raises(FailsError, match=rf"^{claim.removesuffix('_at_most')}: the certificate claims"):
        export(spoilt.save(tmp_path / "spoilt"))
    without = {key: v for key, v in thrice.claims.items() if key != claim}
    with pytest.raises(FailsError, match=r"^distinct: 4 of 5 inputs are different"):
        export(dataclasses.replace(thrice, claims=without).save(tmp_path / "without"))


def test_the_groups_of_the_exporter_are_those_of_the_verifier() -> None:
    from wideproof.rocq.covered import groups
    from wideproof_verify.certificate import grouped

    x = np.random.default_rng(0).integers(-1, 2, (40, 3)) * np.array([1.0, -0.0, 0.5])
    first, place = groups(x)
    rows = grouped(x, np.zeros((1, 40)))
    np.testing.assert_array_equal(first, rows.first)
    np.testing.assert_array_equal(np.bincount(place), rows.counts)
    np.testing.assert_array_equal(x[first][place], x)


def test_the_sentence_and_the_digests_are_those_of_the_certificate(xor: Certificate, folder: Path) -> None:
    import hashlib

    exported = export(folder)
    assert f"step size {xor.claims['eta']!r} " in exported.sentence
    assert " on 4 rows, in exact arithmetic" in exported.sentence
    assert exported.sentence in exported.text
    for name in ("certificate.json", "arrays.safetensors"):
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() in exported.text


FURTHER = {"s": 1.01, "S": 0.99, "rho": 0.9, "sigma": 1.01, "b": 0.99, "eta": 3.0, "rate": 1.01, "epsilon": 0.5}


@pytest.mark.parametrize("claim", FURTHER)
def test_a_claim_that_goes_further_is_refused_by_name(xor: Certificate, tmp_path: Path, claim: str) -> None:
    claims = {**xor.claims, claim: xor.claims[claim] * FURTHER[claim]}
    spoilt = dataclasses.replace(xor, claims=claims).save(tmp_path / "spoilt")
    with pytest.raises(FailsError, match=rf"^({claim}|kappa|b|rate): "):
        export(spoilt)


@pytest.mark.parametrize(("claim", "value"), [("radii", [0.01]), ("lipschitz", [20.0]), ("kappa", 1.2)])
def test_radii_constants_and_kappa_that_go_further_are_refused(
    xor: Certificate, tmp_path: Path, claim: str, value: object
) -> None:
    spoilt = dataclasses.replace(xor, claims={**xor.claims, claim: value}).save(tmp_path / "spoilt")
    with pytest.raises(FailsError, match=rf"^{claim}"):
        export(spoilt)


def test_fewer_steps_do_not_reach_epsilon(xor: Certificate, tmp_path: Path) -> None:
    spoilt = dataclasses.replace(xor, claims={**xor.claims, "steps": 10}).save(tmp_path / "spoilt")
    with pytest.raises(FailsError, match=r"^epsilon"):
        export(spoilt)


def test_a_weight_a_label_and_an_input_cannot_be_exchanged(xor: Certificate, folder: Path, tmp_path: Path) -> None:
    content = bytearray((folder / "arrays.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "arrays.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="altered"):
        export(folder)
    weights = {**xor.params, "W1": xor.params["W1"] * 1.5}
    inputs = xor.x.copy()
    inputs[0, 0] = 0.999  # nearer to the second row
    for at, spoilt in enumerate(
        (
            dataclasses.replace(xor, params=weights),
            dataclasses.replace(xor, y=xor.y * 1.5),
            dataclasses.replace(xor, x=inputs),
        )
    ):
        with pytest.raises(FailsError, match=r"^(s|S|rho): the certificate claims"):
            export(spoilt.save(tmp_path / f"spoilt-{at}"))


def test_what_is_not_covered_is_refused_by_name(xor: Certificate, tmp_path: Path) -> None:
    for at, (fields, words) in enumerate(
        (
            ({"theorem": "existence"}, "the theorem 'existence'"),
            ({"claims": {**xor.claims, "jump": 0.1}}, "units that switch"),
            ({"claims": {**xor.claims, "constant_sum": 1.0}}, "targets with a constant sum"),
        )
    ):
        other = dataclasses.replace(xor, **fields).save(tmp_path / f"other-{at}")
        with pytest.raises(NotCoveredError, match=words):
            export(other)
    net = network(activation="gelu", width=256)
    gelu = certify(Problem(net, Dataset(X, Y, "binary")).at(net.init(0))).certificate
    assert gelu is not None
    with pytest.raises(NotCoveredError, match=r"the activation gelu: its enclosure is not proved there"):
        export(gelu.save(tmp_path / "gelu"))


def test_nested_sets_and_sharper_constants_become_balls_or_are_refused(xor: Certificate, tmp_path: Path) -> None:
    sharper = {"lipschitz": [0.98 * v for v in xor.claims["lipschitz"]]}
    nested = {"nested": {"A": [1.0] * len(xor.claims["radii"])}}
    for at, more in enumerate((nested, sharper)):
        exported = export(dataclasses.replace(xor, claims={**xor.claims, **more}).save(tmp_path / f"more-{at}"))
        assert {"lipschitz", "radii"} <= set(exported.weakened)
        assert "but for" in exported.text
        short = {"radii": [v / 100 for v in xor.claims["radii"]]}
        found = dataclasses.replace(xor, claims={**xor.claims, **more, **short}).save(tmp_path / f"short-{at}")
        with pytest.raises(NotCoveredError, match=r"(nested|as sharp as).* its own do not suffice: radii"):
            export(found)
    assert "radii" not in export(xor.save(tmp_path / "as-it-is")).weakened


def test_a_tiny_residual_gets_tables_of_more_bits(xor: Certificate, folder: Path, tmp_path: Path) -> None:
    features = xor.graph.to_dict()["nodes"][0]["scale"] * np.tanh(xor.x @ xor.params["W1"].T)
    fitted = features @ np.ravel(xor.params["a"]) + 1e-9
    claims = {**xor.claims, "rho": float(np.linalg.norm(np.full(len(fitted), 1e-9))) * 1.001}
    tiny = dataclasses.replace(xor, y=fitted, claims=claims).save(tmp_path / "tiny")
    assert power_in(export(folder).text, "over_t") == 40
    assert power_in(export(tiny).text, "over_t") > 45
    with pytest.raises(NotCoveredError, match="bits in float: take bigz"):
        export(tiny, "float")


def test_the_constants_of_the_activations_are_those_of_the_theories_and_just_above_those_of_the_verifier() -> None:
    text = (kernel.THEORIES / "theories" / "Activations.v").read_text()
    for name, found, least in (("bound_1", FIRST, "first"), ("bound_2", SECOND, "second")):
        body = re.search(rf"Definition {name} .*? with (.*?) end", text)
        assert body is not None
        stated = dict(case.strip().split(" => ") for case in body[1].split("|"))
        assert {kind: int(stated[ACTIVATIONS[kind]]) for kind in ACTIVATIONS} == found
        assert len(stated) == len(found)
        for kind, value in found.items():
            proved = get_activation(kind).known
            constant = {"first": proved.lipschitz, "second": proved.smoothness}[least]
            assert constant <= value / 1e8 <= constant * (1 + 1e-7), (kind, name)


def test_steps_from_a_start_are_exported_with_their_weights(xor: Certificate, tmp_path: Path) -> None:
    begun = {"W1": xor.params["W1"] + 2.0**-20}
    start = Start({**xor.params, **begun}, xor.claims["eta"], 3, None, (20.0,) * 3, 1e-8)
    exported = export(dataclasses.replace(xor, start=start).save(tmp_path / "begun"))
    _, w = parsed(exported.text, "start_weights", *(power_in(exported.text, f"over_{key}") for key in "aw"))
    np.testing.assert_array_equal(w, begun["W1"])
    assert "W.check_from (F.PtoP 104)" in exported.text
    assert "comes within 1.00001e-8 of the anchor in 3 steps, and from there it" in exported.sentence
    with pytest.raises(NotCoveredError, match="take bigz"):
        export(tmp_path / "begun", "float")
    other = dataclasses.replace(start, step_size=start.step_size / 2)
    with pytest.raises(NotCoveredError, match="a step size that changes"):
        export(dataclasses.replace(xor, start=other).save(tmp_path / "changed"))
    batches = dataclasses.replace(start, batches=np.zeros((3, 1), np.int64))
    with pytest.raises(NotCoveredError, match="steps with batches"):
        export(dataclasses.replace(xor, start=batches).save(tmp_path / "batches"))
