"""Certificate folders: what is written comes back, damage is named, nothing is overwritten or left half-written."""

import hashlib
import json

import numpy as np
import pytest

from tests.cases import OWN
from tests.certificates.making import at, dataset, problem
from tests.certificates.rewriting import flip, parts, put
from wideproof.certificates import Problem, certify
from wideproof.certificates.certificate import ARRAYS, DOCUMENT, FORMAT, Certificate, canonical, load_certificate
from wideproof.errors import InputError
from wideproof.networks import ConvResidual, DeepReLU, ElmanRNN, FullyConnected, get_activation
from wideproof_verify import verify

NETWORKS = {
    "fully-connected": FullyConnected(5, 8, 1, get_activation("tanh"), outputs=2),
    "conv-residual": ConvResidual(2, 3, 4, 1),
    "deep-relu": DeepReLU(5, (6, 8), 2),
    "elman-rnn": ElmanRNN(4, 10, 2, outputs=1),
    **OWN,
}


def made(network) -> Certificate:
    params, x, noise = problem(network, n=2, seed=1)
    plain = at(network, params, x, np.zeros((2, *network.output_shape)), level="float64")
    fits = plain.errors.mid.reshape(2, -1)
    y = np.zeros((2, *network.output_shape))
    if network.data_kind == "sequences":
        y[:, 1:] = fits.reshape(y[:, 1:].shape) + 1e-7 * noise[:, 1:]
    else:
        y = fits.reshape(y.shape) + 1e-7 * noise
    found = certify(
        Problem(network, dataset(network, x, y)).at(params), about={"anchor": "a start", "seed": 1}
    ).certificate
    assert found is not None
    return found


@pytest.fixture(scope="module")
def one():
    return made(NETWORKS["fully-connected"])


@pytest.mark.parametrize("name", NETWORKS)
def test_saved_and_loaded_again(tmp_path, name):
    certificate = made(NETWORKS[name])
    folder = certificate.save(tmp_path / "deep" / name)
    assert sorted(p.name for p in folder.iterdir()) == [ARRAYS, DOCUMENT]
    again = load_certificate(folder)
    assert again.graph.to_dict() == certificate.graph.to_dict()
    assert again.document() == certificate.document()
    assert again.claims == certificate.document()["claims"]
    for before, after in ((certificate.x, again.x), (certificate.y, again.y)):
        np.testing.assert_array_equal(before, after, strict=True)
    assert certificate.params.keys() == again.params.keys()
    for key, weight in certificate.params.items():
        np.testing.assert_array_equal(weight, again.params[key], strict=True)
    verdict = verify(folder)
    assert verdict.answer == "proved", verdict.reason
    assert verify(again.save(tmp_path / "again")).answer == "proved"


def test_the_document_says_what_it_is(one):
    document = one.document()
    assert document["format"] == FORMAT
    assert document["theorem"] == "descent"
    assert document["loss"] == {"name": "squared", "reduction": "half_sum"}
    assert document["anchor"]["seed"] == 1
    assert [node["scale"] for node in document["network"]["nodes"]] == [pytest.approx((2.5361754332174535 / 8) ** 0.5)]
    assert "4 units in the last place" in " ".join(document["assumptions"])
    assert "wideproof verify" in one.summary


def test_the_digest_is_of_the_canonical_text(tmp_path, one):
    """Recomputed here, key order and spaces aside."""
    folder = one.save(tmp_path / "c")
    document = json.loads((folder / DOCUMENT).read_text(encoding="utf-8"))
    rest = {key: value for key, value in document.items() if key != "digests"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical(document) == text
    assert document["digests"]["certificate"] == hashlib.sha256(text.encode()).hexdigest()
    assert document["digests"]["arrays"] == hashlib.sha256((folder / ARRAYS).read_bytes()).hexdigest()
    # Another order of keys and another layout are the same certificate.
    shuffled = dict(reversed(document.items()))
    (folder / DOCUMENT).write_text(json.dumps(shuffled, indent=4, ensure_ascii=False), encoding="utf-8")
    assert load_certificate(folder).claims == document["claims"]
    assert verify(folder).answer == "proved"


def test_canonical_text_refuses_what_is_not_a_number():
    with pytest.raises(ValueError):
        canonical({"claims": {"rho": float("nan")}})


@pytest.mark.parametrize("damage", ["cut", "empty", "no json", "no arrays", "bit", "claim", "text", "list"])
def test_damage_is_an_input_error_and_malformed(tmp_path, one, damage):
    folder = one.save(tmp_path / "c")
    document, arrays = parts(folder)
    content = (folder / ARRAYS).read_bytes()
    if damage == "cut":
        (folder / ARRAYS).write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        (folder / ARRAYS).write_bytes(b"")
    elif damage == "no json":
        (folder / DOCUMENT).unlink()
    elif damage == "no arrays":
        (folder / ARRAYS).unlink()
    elif damage == "bit":
        put(folder, document, {**arrays, "x": flip(arrays["x"], 3, 0)}, digests=False)
    elif damage == "claim":
        document["claims"]["rho"] *= 1 - 1e-9
        put(folder, document, arrays, digests=False)
    elif damage == "text":
        (folder / DOCUMENT).write_text("{not json", encoding="utf-8")
    else:
        (folder / DOCUMENT).write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(InputError) as told:
        load_certificate(folder)
    assert str(folder) in str(told.value)
    assert verify(folder).answer == "malformed"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="no certificate folder"):
        load_certificate(tmp_path / "nowhere")
    assert verify(tmp_path / "nowhere").answer == "malformed"


def test_an_existing_folder_is_left_alone(tmp_path, one):
    folder = tmp_path / "taken"
    folder.mkdir()
    (folder / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="exists already"):
        one.save(folder)
    assert [p.name for p in folder.iterdir()] == ["mine.txt"]
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_a_failure_on_the_way_leaves_nothing(tmp_path, one, monkeypatch):
    from wideproof.certificates import certificate

    written = certificate.write_bytes

    def fails(path, content):
        if path.name == DOCUMENT:
            raise OSError(28, "No space left on device")
        written(path, content)

    monkeypatch.setattr(certificate, "write_bytes", fails)
    with pytest.raises(InputError, match="No space left"):
        one.save(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_are_not_finite_are_not_written(tmp_path, one):
    import dataclasses

    bad = dataclasses.replace(one, claims={**one.claims, "rho": float("inf")})
    with pytest.raises(ValueError):
        bad.save(tmp_path / "bad")
    assert list(tmp_path.iterdir()) == []
