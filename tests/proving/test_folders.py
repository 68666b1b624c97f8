"""`prove` on a folder that exists: it goes on with the same problem, refuses another, and verifies what it reports."""

import json

import numpy as np
import pytest

from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof.proving import prove

# pyright: reportOptionalMemberAccess=false
NETWORK = FullyConnected(input_dim=3, width=64, depth=1)
DATA = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary", name="three")


def stored(folder):
    return json.loads((folder / "certificate" / "certificate.json").read_text())


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proving") / "proof"
    return folder, prove(DATA, network=NETWORK, folder=folder, steps=1, polish=True)


def test_another_problem_is_refused_before_anything_is_done(begun):
    folder, _ = begun
    before = stored(folder)
    clash = Dataset(np.eye(3)[[0, 0, 1]], DATA.y, "binary", name="clash")
    flipped = Dataset(np.eye(3), -DATA.y, "binary", name="flipped")
    wide = FullyConnected(input_dim=3, width=48, depth=1)
    for data, network in ((clash, NETWORK), (flipped, NETWORK), (DATA, wide)):
        with pytest.raises(InputError, match="holds a proof of another problem"):
            prove(data, network=network, folder=folder, steps=1, polish=True)
    with pytest.raises(InputError, match=r"another recipe \(seed 0, now 7\)"):
        prove(DATA, network=NETWORK, folder=folder, steps=1, seed=7, polish=True)
    assert stored(folder) == before


def test_another_problem_is_refused_where_only_a_certificate_is_left(begun, tmp_path):
    _, proof = begun
    proof.attempt.certificate.save(tmp_path / "certificate")
    with pytest.raises(InputError, match="holds a proof of another problem"):
        prove(Dataset(np.eye(3), -DATA.y, "binary"), network=NETWORK, folder=tmp_path, steps=1, polish=True)


def test_what_is_reported_is_what_was_verified(begun):
    folder, first = begun
    assert first.proved
    assert first.attempt.certificate.is_in(folder / "certificate")
    more = prove(DATA, network=NETWORK, folder=folder, steps=200, polish=True)
    assert more.proved
    assert more.run.step > first.run.step
    assert more.attempt.certificate.is_in(folder / "certificate")
    assert not first.attempt.certificate.is_in(folder / "certificate")
    assert stored(folder)["claims"]["rho"] == more.attempt.certificate.claims["rho"]


def test_training_goes_on_from_no_step(tmp_path):
    assert prove(DATA, network=NETWORK, folder=tmp_path / "proof", steps=0).run.step == 0
    assert prove(DATA, network=NETWORK, folder=tmp_path / "proof", steps=40).run.step > 0
