"""Certificates that were tampered with: no changed bit passes unnoticed, and no false claim is ever proved."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.cases import OWN
from tests.certificates.making import Reference, at, dataset, problem
from tests.certificates.rewriting import flip, parts, put
from wideproof.certificates import Problem, certify
from wideproof.certificates.anchor import SPARE
from wideproof.certificates.lipschitz import lipschitz
from wideproof.certificates.squared_loss import descent
from wideproof.certificates.staircase import Staircase
from wideproof.certificates.theorems.descent import claims_of
from wideproof.networks import DeepReLU, FullyConnected, Network
from wideproof_verify import verify

FAMILIES: dict[str, tuple[Network, float]] = {
    "fully-connected": (FullyConnected(5, 8, 2), 1e-5),
    "deep-relu": (DeepReLU(5, 10, 2), 1e-7),
    "own-tied": (OWN["own-tied"], 1e-7),
}

# What a dishonest prover would like: the direction of each claim, and by how much. The first four are rounded outward
# by up to 1e-6 when they are computed; the others follow from them by exact arithmetic.
MEASURED = {"rho": -1e-5, "s": 1e-5, "S": -1e-5, "lipschitz": -1e-5, "radii": -1e-5, "D": -2 * SPARE}
DERIVED = {"h": -1e-9, "sigma": 1e-9, "b": -1e-9, "eta": 1e-9, "rate": 1e-9, "newton_h": -1e-9, "newton_radius": -1e-9}


class Case(NamedTuple):
    network: Network
    folder: Path
    document: dict[str, Any]
    arrays: dict[str, np.ndarray]


@pytest.fixture(scope="module", params=FAMILIES)
def case(request, tmp_path_factory) -> Case:
    network, off = FAMILIES[request.param]
    params, x, noise = problem(network, n=3, seed=4)
    y = Reference(network, params, x).both(Reference(network, params, x).theta)[0] + off * noise
    attempt = certify(Problem(network, dataset(network, x, y)).at(params))
    assert attempt.certificate is not None, str(attempt)
    folder = attempt.certificate.save(tmp_path_factory.mktemp("certificates") / request.param)
    assert verify(folder).answer == "proved"
    return Case(network, folder, *parts(folder))


def scaled(value: Any, factor: float) -> Any:
    return [v * factor for v in value] if isinstance(value, list) else value * factor


def holds(network: Network, document: dict[str, Any], arrays: dict[str, np.ndarray]) -> bool:
    """Whether the claims about the changed arrays are true, up to rounding, by backward passes in NumPy."""
    claims = document["claims"]
    assert document["network"] == json.loads(json.dumps(network.graph.to_dict()))
    params = {name.removeprefix("weights/"): a for name, a in arrays.items() if name.startswith("weights/")}
    ref = Reference(network, params, arrays["x"])
    out, jacobian = ref.both(ref.theta)
    values = np.linalg.svd(jacobian, compute_uv=False)
    slack = 1e-12
    return bool(
        np.linalg.norm(out - arrays["y"]) <= claims["rho"] * (1 + 1e-9) + 1e-15
        and claims["s"] <= values[-1] + slack * values[0]
        and claims["S"] >= values[0] * (1 - slack)
        and claims["lipschitz"][-1] >= ref.curvature(ref.theta, starts=1) * (1 - slack)
        and claims["lipschitz"][-1]
        >= lipschitz(at(network, params, arrays["x"], arrays["y"], level="float64"), claims["radii"][-1]).value
        * (1 - 1e-6)
    )


def mutants(case: Case, rng: np.random.Generator, count: int):
    """Names, statements and arrays: single bits of weights, inputs and labels."""
    names = sorted(case.arrays)
    for k in range(count):
        name = names[k % len(names)]
        entry, bit = int(rng.integers(case.arrays[name].size)), int(rng.integers(64))
        changed = flip(case.arrays[name], entry, bit)
        yield f"{name}[{entry}] bit {bit}", case.document, {**case.arrays, name: changed}


def check_bits(case: Case, folder: Path, count: int, seed: int) -> tuple[int, int]:
    """Return how many mutants were proved (all of them true), and how many were not."""
    rng, proved, refused = np.random.default_rng(seed), 0, 0
    for name, document, arrays in mutants(case, rng, count):
        assert verify(put(folder, document, arrays, digests=False)).answer == "malformed", name
        verdict = verify(put(folder, document, arrays, digests=True))
        if verdict.answer == "proved":
            assert holds(case.network, document, arrays), name
            proved += 1
        else:
            refused += 1
    return proved, refused


def test_flipped_bits(case, tmp_path):
    proved, refused = check_bits(case, tmp_path / "mutant", 12, seed=1)
    assert refused > 0
    assert proved + refused == 12


@pytest.mark.slow
def test_a_thousand_mutations(case, tmp_path):
    """Five hundred for each family: bits of arrays, and claims of every size of lie."""
    proved, refused = check_bits(case, tmp_path / "mutant", 420, seed=2)
    print(f"\n{case.folder.name}: of 420 flipped bits {proved} left the statement true, {refused} were refused")
    assert refused > 100
    rng, count = np.random.default_rng(3), 0
    while count < 80:
        name, relative = list({**MEASURED, **DERIVED}.items())[count % 13]
        count += 1
        if name not in case.document["claims"]:
            continue
        lie = copy.deepcopy(case.document)
        size = relative * 10 ** rng.uniform(0, 4) if name in MEASURED else relative * 10 ** rng.uniform(0, 8)
        lie["claims"][name] = scaled(lie["claims"][name], 1 + size)
        assert verify(put(tmp_path / "lie", lie, case.arrays, digests=False)).answer == "malformed"
        assert verify(put(tmp_path / "lie", lie, case.arrays, digests=True)).answer != "proved", (name, size)


@pytest.mark.parametrize(("name", "relative"), [*MEASURED.items(), *DERIVED.items()])
def test_a_claim_made_better_is_refused(case, tmp_path, name, relative):
    if name not in case.document["claims"]:
        pytest.skip("not claimed here")
    lie = copy.deepcopy(case.document)
    lie["claims"][name] = scaled(lie["claims"][name], 1 + relative)
    assert verify(put(tmp_path / "lie", lie, case.arrays, digests=True)).answer == "not proved"
    tiny = copy.deepcopy(case.document)
    tiny["claims"][name] = scaled(tiny["claims"][name], 1 + math.copysign(1e-9, relative))
    assert verify(put(tmp_path / "tiny", tiny, case.arrays, digests=False)).answer == "malformed"


def test_a_step_less_and_a_loss_less_are_refused(case, tmp_path):
    claims = case.document["claims"]
    fewer, lower = copy.deepcopy(case.document), copy.deepcopy(case.document)
    # Ties may add one step too many, so two less are too few.
    fewer["claims"]["steps"] = max(claims["steps"] - 2, 0)
    lower["claims"]["epsilon"] = claims["epsilon"] * (1 - claims["rate"]) ** 5
    if claims["rho"] > math.sqrt(2 * claims["epsilon"]):
        assert verify(put(tmp_path / "fewer", fewer, case.arrays, digests=True)).answer == "not proved"
        assert verify(put(tmp_path / "lower", lower, case.arrays, digests=True)).answer == "not proved"


def test_two_swapped_labels_are_refused(case, tmp_path):
    y = case.arrays["y"].copy()
    y[[0, 1]] = y[[1, 0]]
    swapped = {**case.arrays, "y": y}
    assert verify(put(tmp_path / "old", case.document, swapped, digests=False)).answer == "malformed"
    named = verify(put(tmp_path / "named", case.document, swapped, digests=True))
    assert (named.answer, "digest of the data" in named.reason) == ("malformed", True)
    unnamed = {**case.document, "anchor": {}}
    assert verify(put(tmp_path / "new", unnamed, swapped, digests=True)).answer == "not proved"


def test_every_byte_of_the_statement_counts(case, tmp_path):
    """Text, network, sharpness: whatever is changed without the digest is malformed."""
    for key in case.document:
        if key == "digests":
            continue
        changed = copy.deepcopy(case.document)
        changed[key] = {**changed[key], "more": 1} if isinstance(changed[key], dict) else "another"
        assert verify(put(tmp_path / key, changed, case.arrays, digests=False)).answer == "malformed"
    other = copy.deepcopy(case.document)
    other["digests"]["arrays"] = "0" * 64
    assert verify(put(tmp_path / "digests", other, case.arrays, digests=False)).answer == "malformed"


def weaker(case: Case, factor: float) -> dict[str, Any]:
    """The same theorem from weaker measurements: larger rho, S and Lipschitz constant, smaller s."""
    claims = case.document["claims"]
    rho, s, most = claims["rho"] * factor, claims["s"] / factor, claims["S"] * factor
    constant = claims["lipschitz"][-1] * factor
    radius = 2 * rho / s
    root = math.sqrt(max(s * s - 2 * constant * rho, 0.0))
    radius = 2 * rho / (s + root) * (1 + 1e-6)
    found = descent(rho, s, most, Staircase((radius,), (constant,)), epsilon=claims["epsilon"])
    document = copy.deepcopy(case.document)
    if found is not None:
        document["claims"] = claims_of(found, None)
    else:  # state it all the same
        document["claims"] |= {"rho": rho, "s": s, "S": most, "lipschitz": [constant], "radii": [radius]}
    return document


@pytest.mark.parametrize("factor", [1.0001, 1.01])
def test_weaker_claims_are_proved_while_the_inequalities_hold(case, tmp_path, factor):
    document = weaker(case, factor)
    assert len(document["claims"]["radii"]) == 1
    assert verify(put(tmp_path / "weaker", document, case.arrays, digests=True)).answer == "proved"


def test_claims_that_are_too_weak_prove_nothing(case, tmp_path):
    """rho so large that h ≥ 1/2: true, but no theorem applies."""
    claims = case.document["claims"]
    factor = (0.6 / claims["h"]) ** 0.25
    document = weaker(case, factor)
    assert verify(put(tmp_path / "weak", document, case.arrays, digests=True)).answer == "not proved"


def test_a_larger_radius_needs_its_own_constant(case, tmp_path):
    """The constant of the small ball is not claimed for a ball a thousand times as large."""
    document = copy.deepcopy(case.document)
    claims = document["claims"]
    far = claims["radii"][-1] * 1000
    document["claims"]["radii"] = [far]
    for name in ("D", "newton_h", "newton_radius"):
        document["claims"].pop(name, None)
    assert verify(put(tmp_path / "far", document, case.arrays, digests=True)).answer == "not proved"


def test_dataclass_replacement_is_no_way_around(case, tmp_path):
    """A certificate object with a better claim, saved by the program itself with right digests."""
    network, off = FAMILIES[case.folder.name]
    params, x, noise = problem(network, n=3, seed=4)
    y = Reference(network, params, x).both(Reference(network, params, x).theta)[0] + off * noise
    made = certify(Problem(network, dataset(network, x, y)).at(params)).certificate
    assert made is not None
    better = dataclasses.replace(made, claims={**made.claims, "rate": made.claims["rate"] * 2})
    assert verify(better.save(tmp_path / "better")).answer == "not proved"
