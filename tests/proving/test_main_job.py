"""`wp.prove` from Python: every kind of source, predictions, what is printed, held out rows, nothing left behind."""

import json
import shutil
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wideproof as wp
from wideproof.certificates import certificate
from wideproof.certificates.polishing import Polished
from wideproof.data import dataset, repeats
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof.proving import Predictor, certifying

# pyright: reportOptionalMemberAccess=false
QUICK: dict[str, Any] = {"steps": 16}
NARROW: dict[str, Any] = {"steps": 16, "width": 64}  # not near a fit after so many steps
CSV = """name,age,city,joined,member,spend
ann,31,Bonn,2020-01-02,yes,10.5
bob,,Kiel,2021-05-06,no,3.25
cat,44,Bonn,2019-11-30,yes,8
dan,52,Ulm,2022-02-02,no,1.75
eve,23,,2020-08-08,yes,9.5
fay,37,Kiel,2018-03-01,no,2
"""


@pytest.fixture(scope="module")
def proof(tmp_path_factory):
    folder = tmp_path_factory.mktemp("main") / "proof"
    path = folder.parent / "shop.csv"
    path.write_text(CSV)
    return wp.prove(path, "spend", folder=folder), folder, path


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """12 rows of iris, proved once: tests take copies of the folder, and other problems of the same shapes."""
    folder = tmp_path_factory.mktemp("flowers") / "p"
    return wp.prove("iris", limit=12, folder=folder, **NARROW), folder


@pytest.fixture
def copied(flowers, tmp_path):
    return shutil.copytree(flowers[1], tmp_path / "p")


def test_a_table_with_text_blanks_dates_and_truth_values(proof, monkeypatch):
    found, folder, _ = proof
    assert found.proved, found
    assert found.exit_code == 0
    assert found.data.n == 6
    assert any("fill" in note for note in found.notes)
    assert any("name" in note for note in found.notes)
    text = str(found)
    assert all(note[:40] in text for note in found.notes)
    assert text.startswith("Proved: from its initial weights (seed 0), gradient descent with step size")
    assert found.headline.split(",")[0] in text
    assert "<svg" in found._repr_html_()
    monkeypatch.setattr("wideproof.report.html.draw", lambda proof: {})  # drawn above
    assert found.save_report() == folder / "report.html"


@pytest.mark.parametrize("steps", ["onehot,standardize,sphere(4)", "ranks,standardize,sphere(4)"])
def test_indicators_and_normal_scores_are_kept_with_a_proof(steps, tmp_path):
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 4, 24), np.exp(2 * rng.normal(size=24)), rng.normal(size=24)])
    data = dataset.Dataset(x, np.where(rng.normal(size=24) > 0, 1.0, -1.0), "binary")
    found = wp.prove(data, prepare=steps, folder=tmp_path / "p", width=256)
    assert found.proved, found
    assert wp.verify(tmp_path / "p" / "certificate").answer == "proved"
    again, new = Predictor.load(tmp_path / "p"), np.vstack([x, [[9.0, 1e9, -1e9]]])
    np.testing.assert_array_equal(again.outputs(new), found.model.outputs(new))
    np.testing.assert_array_equal(np.sign(again.outputs(x).ravel()), data.y)


def test_predictions_of_its_own_rows_are_their_targets(proof, tmp_path):
    """A network that fits exactly gives the targets back, through encoding, preparation and units."""
    found, folder, path = proof
    truth = pd.read_csv(path)["spend"].to_numpy()
    left = found.certificate.claims["rho"] * truth.std()  # in the units of the targets
    assert left < truth.std() / 2
    np.testing.assert_allclose(found.predict(path), truth, rtol=0, atol=left)
    new = pd.read_csv(path).drop(columns="spend")
    np.testing.assert_allclose(found.predict(new), truth, rtol=0, atol=left)
    np.testing.assert_allclose(Predictor.load(folder).predict(new), truth, rtol=0, atol=left)
    with pytest.raises(InputError, match="no proof with a trained network"):
        Predictor.load(tmp_path)


def rows(moved=0.0):
    """The rows of `flowers`, moved a little, as inputs and labels: nothing is compiled again."""
    data = wp.load("iris", limit=12)
    return data.x + moved * np.arange(48).reshape(12, 4), np.array(data.classes)[data.y.argmax(axis=1)]


@pytest.mark.parametrize("source", [
    lambda: pd.DataFrame(rows()[0], columns=list("abcd")).assign(kind=rows()[1]),
    lambda: rows(),
    lambda: wp.load("iris", limit=12),
    pytest.param(lambda: wp.prepare(wp.load("sphere:n=6,d=3,separation=0.5"), "unit"), marks=pytest.mark.slow),
    lambda: "iris",
], ids=["frame", "pair", "data set", "prepared", "bundled"])  # fmt: skip
def test_every_kind_of_source(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = source()
    more = {"limit": 12} if isinstance(given, str) else {}
    found = wp.prove(given, **more, **QUICK)
    assert found.proved, found
    assert found.folder is None
    assert list(tmp_path.iterdir()) == []


def test_held_out_rows_are_not_in_the_proof():
    found = wp.prove("iris", limit=15, holdout=0.2, **QUICK)
    assert found.data.n == 12
    assert "15 of 150 rows are used (limit)" in found.notes[0]
    assert [estimate.how for estimate in found.estimates] == ["folds, chosen anew", "held out"]
    assert found.estimates[1].rows == 3
    assert "the 12 rows of iris that are used" in found.headline
    with pytest.raises(InputError, match="holdout must be a share"):
        wp.prove("iris", holdout=1.5)
    with pytest.raises(InputError, match=r"holdout 0.01 of 15 .* less than half a row.*hold out more"):
        wp.prove("iris", limit=15, holdout=0.01)


def test_a_proof_goes_on_without_choosing_again(flowers, copied, monkeypatch):
    first = flowers[0]

    def never(*args, **options):
        raise AssertionError("chosen again")

    monkeypatch.setattr("wideproof.proving.stages.choose", never)
    again = wp.prove("iris", limit=12, folder=copied, **NARROW)
    assert again.proved
    assert again.data.digest == first.data.digest
    assert again.headline == first.headline
    with pytest.raises(InputError, match="another problem"):
        wp.prove("iris", limit=15, folder=copied, **NARROW)


def test_each_thing_is_done_once(monkeypatch, tmp_path):
    """12 rows: grouped once for each version of the data, hashed a few times, no run read back, one certificate."""
    count: Counter[str] = Counter()
    given = rows(moved=1e-3)

    def counted(owner, name, label):
        before = getattr(owner, name)

        def wrapped(*args, **options):
            count[label] += 1
            return before(*args, **options)

        monkeypatch.setattr(owner, name, wrapped)

    import hashlib
    import sys

    from wideproof.training import run

    counted(sys.modules["wideproof.data.conflicts"], "_conflicts", "conflicts")
    counted(repeats, "_distinct", "distinct")
    counted(run, "_load", "run loads")
    counted(certificate, "to_bytes", "certificates")
    counted(dataset.Examples, "__post_init__", "data sets")
    own = SimpleNamespace(sha256=hashlib.sha256)
    monkeypatch.setattr(dataset, "hashlib", own)
    counted(own, "sha256", "digests")
    found = wp.prove(given, folder=tmp_path / "p", **QUICK)
    assert found.proved
    assert count["run loads"] == 0
    assert count["certificates"] == 1
    assert count["conflicts"] <= 2
    assert count["digests"] <= 3, count
    assert count["data sets"] <= 11 * 70, count  # two for each candidate, for all rows and without each of ten parts


@pytest.mark.parametrize(("whole", "part", "taken"), [(1.0, 2.0, "all"), (2.0, 1.0, "read-out"), (1.0, None, "all")])
@pytest.mark.parametrize("dense", [0, 1200])
def test_polishing_that_stalls_is_not_done_again(whole, part, taken, dense, monkeypatch):
    called = []

    def stalls(kind, left):
        called.append(kind)
        return None if left is None else Polished({}, (3.0, left), 0.0, kind)

    monkeypatch.setattr(certifying, "polish", lambda *given: stalls("all", whole))
    monkeypatch.setattr(certifying, "fit_read_out", lambda *given: stalls("read-out", part))
    monkeypatch.setattr(certifying, "DENSE", dense)
    network = FullyConnected(2, 4, 1)
    found = certifying._polished(wp.Problem(network, wp.load((np.eye(2), [0, 1]))).at(network.init(0)))
    assert found.kind == taken
    assert sorted(called) == ["all", "read-out"]


def test_a_certificate_that_is_replaced_is_never_half_there(tmp_path, monkeypatch):
    """Killed between taking the old one away and putting the new one there: the folder is still usable."""
    import os

    folder, real, calls = tmp_path / "p", os.rename, []
    polished: dict[str, Any] = {"width": 64, "alpha": 1.0, "from_start": False, "polish": True}
    assert wp.prove("iris", limit=12, folder=folder, steps=16, **polished).proved

    def dies(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise SystemError("killed")
        return real(source, target)

    monkeypatch.setattr("wideproof.storage.os.rename", dies)
    with pytest.raises(SystemError):
        wp.prove("iris", limit=12, folder=folder, steps=64, **polished)
    monkeypatch.undo()
    assert not (folder / "certificate").exists()
    assert wp.prove("iris", limit=12, folder=folder, steps=64, **polished).proved
    assert json.loads((folder / "certificate" / "certificate.json").read_text())["theorem"] == "descent"


def test_any_number_of_outputs(tmp_path):
    """4,050 rows of the Jacobian: its Gram matrix is not formed, the read-out's part bounds it."""
    rng = np.random.default_rng(1)
    x, labels = rng.standard_normal((90, 3)), np.arange(90) % 45
    found = wp.prove((x, [f"c{k}" for k in labels]), network="fully-connected", folder=tmp_path / "p", **QUICK)
    assert found.attempt.anchor.lean
    assert found.proved, found
    assert found.verdict.precision == 53
    assert found.predict(x).shape == (90,)


@pytest.mark.slow  # five seconds; the balance itself is in certificates/test_balance
def test_a_read_out_with_fewer_features_than_rows(tmp_path):
    """As many rows, and 86 features: the whole Gram matrix is bounded, and what it takes is said before."""
    rng, told = np.random.default_rng(1), []
    x, labels = rng.standard_normal((90, 20)), np.arange(90) % 25
    found = wp.prove(
        (x, [f"c{k}" for k in labels]), network="fully-connected", width=86, options={"start": "normal"}, polish=True,
        folder=tmp_path / "p", progress=lambda now: told.append(str(now)), **QUICK,
    )  # fmt: skip
    assert any("certifying this many rows takes about" in text for text in told)
    assert found.attempt.anchor.many
    assert found.proved, found
