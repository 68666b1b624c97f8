"""What the package is: small, alone, and calm in front of damaged files."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]
from mpmath import npdf, quad, workdps

import wideproof_verify
from tests.verify import making
from wideproof_verify import verify
from wideproof_verify.networks import ACTIVATIONS, C_SIGMA
from wideproof_verify.reading import layer_scales

SOURCE = Path(wideproof_verify.__file__).parent
NETWORK = making.SMALL["fully-connected"]


@pytest.fixture(scope="module")
def parts():
    params, x, y = making.problem(NETWORK)
    return making.statement(NETWORK, "descent", making.claims(NETWORK, params, x, y, sharp=False)), params, x, y


@pytest.fixture
def folder(tmp_path, parts):
    return making.write(tmp_path / "certificate", *parts)


def test_it_imports_neither_jax_nor_wideproof():
    code = "import sys, wideproof_verify; assert 'jax' not in sys.modules and 'wideproof' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not any("wideproof." in path.read_text() or "jax" in path.read_text() for path in SOURCE.glob("*.py"))


def test_it_is_short():
    assert sum(len(path.read_text().splitlines()) for path in SOURCE.glob("*.py")) <= 1650


def run(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "wideproof_verify", *arguments], capture_output=True, text=True, check=False
    )
    assert not done.stderr
    return done.returncode, done.stdout


def test_command_line(tmp_path, folder, parts):
    code, text = run(str(folder))
    assert code == 0
    assert text.startswith("proved: Gradient descent")
    assert "rho ≥ ‖r‖" in text
    stated, params, x, y = parts
    wrong = {**stated, "claims": {**stated["claims"], "s": 1.1 * stated["claims"]["s"]}}
    code, text = run(str(making.write(tmp_path / "wrong", wrong, params, x, y)), "--json")
    assert code == 1
    assert json.loads(text)["reason"].startswith("s ≤ √λ_min(JJᵀ) fails")
    code, text = run(str(tmp_path / "nothing"))
    assert code == 2
    assert text.startswith("malformed")


@pytest.mark.parametrize("name", ["arrays.safetensors", "certificate.json"])
def test_one_bit_is_noticed(folder, name):
    path, rng = folder / name, np.random.default_rng(0)
    data = path.read_bytes()
    for place in rng.integers(len(data), size=60):
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        verdict = verify(folder)
        same = name == "certificate.json" and _same(data, bytes(flipped))
        assert verdict.answer == ("proved" if same else "malformed"), (place, verdict.reason)


def _same(a: bytes, b: bytes) -> bool:
    """White space does not count, nor the last digit of a number that rounds to the same float."""
    try:
        return json.loads(a) == json.loads(b)
    except ValueError:
        return False


@pytest.mark.parametrize("name", ["arrays.safetensors", "certificate.json"])
@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 100, -1])
def test_truncated_files(folder, name, keep):
    path = folder / name
    path.write_bytes(path.read_bytes()[:keep])
    assert verify(folder).answer == "malformed"


def test_missing_files(folder):
    (folder / "arrays.safetensors").unlink()
    assert verify(folder).answer == "malformed"
    assert verify(folder / "elsewhere").answer == "malformed"
    assert verify(folder / "certificate.json").answer == "malformed"


def changed(stated: dict, path: str, value: object) -> dict:
    copy = json.loads(json.dumps(stated))
    *way, last = path.split("/")
    inner = copy
    for key in way:
        inner = inner[key]
    if value is KeyError:
        del inner[last]
    else:
        inner[last] = value
    return copy


MALFORMED = [
    ("format", "wideproof-certificate-2"), ("format", KeyError), ("theorem", "zorn"), ("theorem", None),
    ("theorem", []), ("level", "sure"), ("extra", 1), ("network", []), ("network/network", "transformer"),
    ("network/width", 9), ("network/width", 0),
    ("network/width", 10**30), ("network/width", -1), ("network/width", "8"), ("network/width", [8, 8, 8]),
    ("network/depth", 10**12), ("network/depth", True), ("network/depth", KeyError), ("network/more", 1),
    ("network/activation", "sine"), ("network/activation", []), ("network/outputs", 10**9), ("network/input_dim", 4),
    ("network/trained", []), ("network/trained", ["hidden", "rest"]), ("network/trained", "hidden"),
    ("network/scales", [1.0]), ("network/scales", [1.0, "x", 1.0]), ("network/scales", [1.0, -1.0, 1.0]),
    ("network/scales", KeyError), ("bound", {}), ("bound", {"sharp": 1}), ("bound", KeyError), ("loss/name", "hinge"),
    ("loss", {"name": "logistic", "reduction": "mean"}), ("claims/rho", KeyError), ("claims/rho", None),
    ("claims/rho", "1"), ("claims/rho", True), ("claims/rho", [1.0]), ("claims/colour", 1.0), ("claims/steps", 1.5),
    ("claims/steps", -1), ("claims/steps", 10**400), ("claims/radii", []), ("claims/radii", [1.0, 2.0]),
    ("claims/radii", ["1"]), ("claims/radii", 1.0), ("claims/D", 1.0), ("claims/nested", {"A": [1.0]}), ("claims", []),
    ("claims/nested", []),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), MALFORMED)
def test_malformed_claims(tmp_path, parts, path, value):
    stated, params, x, y = parts
    verdict = verify(making.write(tmp_path, changed(stated, path, value), params, x, y))
    assert verdict.answer == "malformed"
    assert verdict.reason


@pytest.mark.parametrize("name", [name for name in making.SMALL if "rnn" not in name])
def test_the_layers_have_the_factors_of_the_network(name):
    """Else a proof about the factors would be read as one about the other numbers of the network."""
    network = making.SMALL[name]
    depth = len(making.scales(network) or [])
    stated = making.config(network)
    c_sigma = C_SIGMA[stated.get("activation", "relu")]
    assert layer_scales(stated, depth, c_sigma) == making.scales(network)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("residual", "c_res", 50.0), ("residual-relu", "residual_scale", 0.75), ("fully-connected", "activation", "tanh")],
)
def test_a_network_that_is_described_as_another(tmp_path, name, key, value):
    network = making.SMALL[name]
    params, x, y = making.problem(network)
    stated = making.statement(network, "descent", making.claims(network, params, x, y, sharp=False))
    assert verify(making.write(tmp_path / "true", stated, params, x, y)).answer == "proved"
    forged = verify(making.write(tmp_path / "forged", changed(stated, f"network/{key}", value), params, x, y))
    assert (forged.answer, forged.reason) == ("malformed", "scales are not the network's")


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_the_constants_that_normalize_activations(name):
    function: Any = ACTIVATIONS[name][0]
    with workdps(20):
        square: Any = quad(lambda z: float(function(arb(float(z)))[0]) ** 2 * npdf(z), [-12, -4, -1, 0, 1, 4, 12])
    assert C_SIGMA[name] == pytest.approx(1 / float(square), rel=1e-11)


@pytest.mark.parametrize("text", ["[1]", "null", "[" * 10**5, '{"theorem": NaN}', '{"a": 1, "a": 1}', "\ud800"])
def test_malformed_json(folder, text):
    (folder / "certificate.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert verify(folder).answer == "malformed"


def test_malformed_arrays(tmp_path, parts):
    stated, params, x, y = parts
    nan = x.copy()
    nan[0, 0] = np.nan
    cases = [
        (params, nan, y), (params, x * np.inf, y), (params, x.astype(np.float32), y), (params, x[:, :4], y),
        (params, x, y[:2]), (params, x, y[:, None]), (params, x[:0], y[:0]), (params, x, y.astype(int)),
        ({**params, "W2": params["W2"][:7]}, x, y), ({**params, "W9": params["W2"]}, x, y),
        ({name: w for name, w in params.items() if name != "a"}, x, y), ({}, x, y), (params, x.ravel(), y),
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        for k, (weights, inputs, targets) in enumerate(cases):
            verdict = verify(making.write(tmp_path, stated, weights, inputs, targets))
            assert verdict.answer == "malformed", k


def test_a_header_that_promises_too_much(folder):
    path = folder / "arrays.safetensors"
    header = json.dumps({"x": {"dtype": "F64", "shape": [10**9, 10**9], "data_offsets": [0, 8 * 10**18]}}).encode()
    for size in (len(header), 2**62):
        path.write_bytes(struct.pack("<Q", size) + header)
        assert verify(folder).answer == "malformed"


def test_huge_and_tiny_numbers_are_not_proved(tmp_path, parts):
    stated, params, x, y = parts
    for scale in (1e300, 1e-300):
        weights = {name: w * scale for name, w in params.items()}
        assert verify(making.write(tmp_path, stated, weights, x, y)).answer == "not proved"
    assert verify(making.write(tmp_path, stated, params, x * 1e300, y)).answer == "not proved"
