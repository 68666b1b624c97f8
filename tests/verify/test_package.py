"""What the package is: small, alone, and calm in front of damaged files."""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wideproof_verify
from tests.verify import making
from wideproof_verify import verify
from wideproof_verify.__main__ import main

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
    assert not any("wideproof." in path.read_text() or "jax" in path.read_text() for path in SOURCE.rglob("*.py"))


def test_it_is_short():
    assert sum(len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")) <= 5242


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


def test_the_folder_of_a_proof_will_do(folder, capsys):
    assert main([str(folder)]) == main([str(folder.parent)]) == 0
    first, second = capsys.readouterr().out.split("proved: ")[1:]
    assert re.sub(r"[\d.]+ s\n", "", first) == re.sub(r"[\d.]+ s\n", "", second)
    assert "left side" in first


def changed(stated: dict, path: str, value: object) -> dict:
    copy = json.loads(json.dumps(stated))
    *way, last = (int(key) if key.isdigit() else key for key in path.split("/"))
    inner = copy
    for key in way:
        inner = inner[key]
    if value is KeyError:
        del inner[last]
    else:
        inner[last] = value
    return copy


TERM, WINDOWS = "network/nodes/1/terms/0", {"kind": "patches", "positions": [], "size": [], "stride": [], "padding": []}
MALFORMED = [
    ("format", "wideproof-certificate-1"), ("format", "wideproof-certificate-3"), ("format", KeyError),
    ("theorem", "zorn"), ("theorem", None), ("theorem", []), ("level", "sure"), ("extra", 1),
    ("network", []), ("network", None), ("network/more", 1), ("network/nodes", []), ("network/nodes", 7),
    ("network/nodes", KeyError), ("network/nodes/0", []), ("network/nodes/0", None), ("network/nodes/0/more", 1),
    ("network/nodes/0/terms", []), ("network/nodes/0/terms", None), ("network/nodes/0/terms", {}),
    ("network/nodes/0/activation", "sine"), ("network/nodes/0/activation", []), ("network/nodes/0/activation", None),
    ("network/nodes/0/scale", "x"), ("network/nodes/0/scale", -1.0), ("network/nodes/0/scale", None),
    ("network/nodes/0/scale", True), ("network/nodes/0/scale", [1.0]), ("network/nodes/0/scale", KeyError),
    ("network/nodes/0/scale", 10**400), ("network/nodes/0/scale", 2**53 + 1), ("network/nodes/0/skip", 0),
    ("network/nodes/0/skip", -1),
    ("network/nodes/1/skip", 5), ("network/nodes/1/skip", "0"), ("network/nodes/1/skip", False),
    ("network/nodes/1/skip", -1), ("network/nodes/1/skip", -2), (f"{TERM}/more", 1), (f"{TERM}/weight", "W9"),
    (f"{TERM}/weight", 3), (f"{TERM}/weight", "a"), (f"{TERM}/weight", "W1"), (f"{TERM}/weight", []),
    (f"{TERM}/source", 1), (f"{TERM}/source", -2), (f"{TERM}/source", 0.0), (f"{TERM}/source", True),
    (f"{TERM}/source", -1), (f"{TERM}/source", None), (f"{TERM}/map", "identity"), (f"{TERM}/map", None),
    (f"{TERM}/map", {}), (f"{TERM}/map/kind", "fourier"), (f"{TERM}/map/kind", []), (f"{TERM}/map/more", 1),
    (f"{TERM}/map/kind", "patches"), (f"{TERM}/map", WINDOWS), (f"{TERM}/map/kind", "ones"),
    ("network/shape", [4]), ("network/shape", []), ("network/shape", [5.0]), ("network/shape", ["5"]),
    ("network/shape", [5, 1, 1, 1]), ("network/shape", [10**30]), ("network/shape", [-5]), ("network/shape", 5),
    ("network/shape", [5, 2]), ("network/times", 1), ("network/times", 2), ("network/times", -1),
    ("network/times", 10**9), ("network/times", 0.0), ("network/times", False), ("network/columns", 1),
    ("network/columns", True), ("network/outputs", 0), ("network/outputs", 2), ("network/outputs", 10**9),
    ("network/outputs", True), ("network/read_out", "W1"), ("network/read_out", "b"), ("network/read_out", None),
    ("network/read_out", []), ("network/bias", "a"), ("network/bias", "c"), ("network/bias", []),
    ("network/sites", []), ("network/sites", [0, 1]), ("network/sites", [3]), ("network/sites", [-1]),
    ("network/sites", ["2"]), ("network/sites", [2.0]), ("network/sites", None), ("network/sites", 2),
    ("network/trained", []), ("network/trained", ["W1", "rest"]), ("network/trained", "W1"),
    ("network/trained", ["W1", "W1"]), ("network/trained", [1]), ("network/trained", {"W1": 1}),
    ("bound", {}), ("bound", {"sharp": 1}), ("bound", KeyError), ("loss/name", "hinge"),
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


@pytest.mark.parametrize("name", [name for name in making.SMALL if not name.startswith("own")])
def test_the_layers_have_the_factors_of_the_network(name):
    """The prover's description against the papers' formulas, and both against what the verifier reads."""
    network = making.SMALL[name]
    params, _, _ = making.problem(network, n=1)
    stated = making.config(network)
    read, _ = making.read(stated, params)
    assert [node["scale"] for node in stated["nodes"]] == [node.scale for node in read.nodes] == making.scales(network)


@pytest.mark.parametrize("name", ["W1, W2, a", "W1\nproved: ", "W 1", "a" * 200, "", "W\u0001", "größe"])
def test_a_name_that_would_be_misread_is_refused(tmp_path, parts, name):
    stated, params, x, y = parts
    text = json.dumps(stated["network"]).replace('"W1"', json.dumps(name))
    renamed = {name if key == "W1" else key: weight for key, weight in params.items()}
    folder = making.write(tmp_path / "c", {**stated, "network": json.loads(text)}, renamed, x, y)
    assert verify(folder).answer == "malformed"


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
