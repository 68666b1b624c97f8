"""Proofs from many random starts: how many, what that says of all starts, and one command that verifies them all."""

import json
import shutil

import numpy as np
import pytest
from scipy import stats

import wideproof as wp
from wideproof.answers import Answer
from wideproof.certificates import load_certificate
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof.proving import OneStart, Starts, verify_starts
from wideproof.proving.starts import ROOM, sentence
from wideproof.statistics import at_least_share
from wideproof.storage import read_json, write_json
from wideproof_verify.__main__ import main

TABLE = {"classes": ("setosa", "virginica"), "limit": 6}
NETWORK = {"network": "fully-connected", "prepare": "standardize,sphere(8)", "activation": "erf", "width": 256}


def test_the_share_is_that_of_a_one_sided_interval():
    """By the binomial tail, which has 5 % left at the bound."""
    for successes, trials in ((60, 60), (57, 60), (1, 3)):
        share = at_least_share(successes, trials)
        assert stats.binom.sf(successes - 1, trials, share) == pytest.approx(0.05, rel=1e-6)
    assert at_least_share(60, 60) == pytest.approx(0.05 ** (1 / 60))


def test_the_interval_covers():
    """Of repeated studies with a known share, at most one in twenty claims more than that share."""
    rng = np.random.default_rng(0)
    for share in (0.8, 0.95):
        claims = np.array([at_least_share(int(found), 30) for found in rng.binomial(30, share, 1000)])
        wrong = np.mean(claims > share)
        assert wrong <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)


def made(outcomes):
    starts = tuple(
        OneStart(seed, not why, why, 16 if not why else None, 0.01 if not why else None, 1.0)
        for seed, why in enumerate(outcomes, 8)
    )
    return Starts(FullyConnected(2, 4, 1), ("wine", 178), ("unit",), 0.1, 7, starts, None)


def test_the_sentence():
    every = made([""] * 60)
    assert every.headline == (
        "60 of 60 random starts were proved to reach a global minimum: with 95 % confidence at least 95.1 % of all "
        "starts do."
    )
    assert every.answer is Answer.HOLDS
    assert "(seeds 8 to 67)" in every.meaning
    assert "fixed with seed 7, which is not counted" in every.meaning
    some = made(["", "the proof ratio is 3"])
    assert "1 of 2 random starts" in some.headline
    assert "start 9: the proof ratio is 3" in str(some)
    assert some.answer is Answer.UNDECIDED
    assert some.to_dict()["by_seed"][1]["why"] == "the proof ratio is 3"
    assert sentence(0, 3) == "0 of 3 random starts were proved to reach a global minimum."  # and nothing follows
    assert sentence(1, 1).startswith("1 of 1 random start was proved")


def test_the_share_is_rounded_down():
    assert at_least_share(58, 60) == pytest.approx(0.8988, abs=1e-4)
    assert "at least 89.8 %" in sentence(58, 60)


def test_the_page(tmp_path):
    page = made(["", "ratio < 3"]).save_report(tmp_path).read_text()
    assert "1 of 2 random starts were proved" in page
    assert "ratio &lt; 3" in page
    assert "1 of 2 random starts" in made(["", "ratio < 3"])._repr_html_()


class Stop(Exception):
    pass


@pytest.fixture(scope="module")
def proved(tmp_path_factory):
    """Three starts, interrupted after the first and continued."""
    folder = tmp_path_factory.mktemp("starts") / "all"

    def stop(now):
        told.append(now.text)
        if now.stage == "starts" and now.done:
            raise Stop

    told = []

    with pytest.raises(Stop):
        wp.prove("iris", seeds=3, seed=4, folder=folder, progress=stop, **TABLE, **NETWORK)
    assert "start 4, with which all was chosen, is proved; now the starts that are counted" in told
    assert sorted(one.name for one in folder.glob("start-*")) == ["start-5"]
    before = (folder / "start-5/start.json").read_bytes(), (folder / "start-5/start.json").stat().st_mtime_ns
    found = wp.prove("iris", seeds=3, seed=4, folder=folder, **TABLE, **NETWORK)
    assert before == ((folder / "start-5/start.json").read_bytes(), (folder / "start-5/start.json").stat().st_mtime_ns)
    return found, folder


def begun(place):
    """Return the start that a certificate is about."""
    start = load_certificate(place).start
    assert start is not None
    return start


@pytest.fixture
def copied(proved, tmp_path):
    return shutil.copytree(proved[1], tmp_path / "copy")


def test_every_start_has_a_certificate_of_its_own(proved, capsys):
    found, folder = proved
    assert (found.proved, found.answer, found.pilot) == (3, Answer.HOLDS, 4)
    assert [one.seed for one in found.starts] == [5, 6, 7]
    assert found.least == pytest.approx(0.05 ** (1 / 3))
    weights = [begun(folder / f"start-{k}/certificate").params["W1"] for k in (5, 6, 7)]
    assert not np.array_equal(weights[0], weights[1])
    assert main([str(folder)]) == 0
    assert "3 of 3 certificates are proved" in capsys.readouterr().out


def test_what_is_fixed_is_the_pilots(proved):
    """The counted starts have one step size, below the pilot's, which is not among them."""
    found, folder = proved
    pilot = begun(folder / "pilot/proof/certificate")
    assert found.step_size == pilot.step_size * ROOM
    assert np.array_equal(pilot.params["W1"], found.network.init(4)["W1"])
    for k in (5, 6, 7):
        one = begun(folder / f"start-{k}/certificate")
        assert one.step_size == found.step_size
        assert np.array_equal(one.params["W1"], found.network.init(k)["W1"])


def test_they_are_verified_together(proved):
    found, folder = proved
    seen = []
    checked = verify_starts(folder, lambda seed, verdict: seen.append((seed, verdict.answer)))
    assert seen == [(5, "proved"), (6, "proved"), (7, "proved")]
    assert checked.confirmed
    assert found.headline in str(checked)
    assert checked.to_dict()["starts"]["least"] == found.least


def test_a_start_that_was_counted_twice_is_told(copied):
    shutil.rmtree(copied / "start-6/certificate")
    shutil.copytree(copied / "start-5/certificate", copied / "start-6/certificate")
    checked = verify_starts(copied)
    assert checked.wrong == {6: "its initial weights are not those that seed 6 draws"}
    assert "with 95 % confidence" not in str(checked)


def test_a_pilot_among_the_counted_starts_is_told(copied):
    """Its step size is another one."""
    shutil.rmtree(copied / "start-6/certificate")
    shutil.copytree(copied / "pilot/proof/certificate", copied / "start-6/certificate")
    assert "about the step size" in verify_starts(copied).wrong[6]


def test_a_start_without_its_certificate_is_told(copied):
    shutil.rmtree(copied / "start-7/certificate")
    assert verify_starts(copied).wrong == {7: "its certificate is missing"}


def test_one_bad_certificate_is_told_among_many(copied, capsys):
    place = copied / "start-6/certificate/certificate.json"
    place.write_text("{}")
    assert main([str(copied), "--json"]) == 2
    verdicts = json.loads(capsys.readouterr().out)
    assert {name: one["answer"] for name, one in verdicts.items()} == {
        "start-5": "proved", "start-6": "malformed", "start-7": "proved",
    }  # fmt: skip
    assert "malformed" in verify_starts(copied).wrong[6]


def test_a_start_whose_certificate_was_changed_is_proved_again(copied):
    place = copied / "start-6/certificate/certificate.json"
    kept = place.read_bytes()
    place.write_bytes(kept.replace(b'"rate"', b'"ratf"', 1))
    assert place.read_bytes() != kept
    again = wp.prove("iris", seeds=3, seed=4, folder=copied, **TABLE, **NETWORK)
    assert again.proved == 3
    assert place.read_bytes() == kept


def test_starts_that_are_not_finished_say_nothing_about_all(copied):
    (copied / "start-7/start.json").unlink()
    checked = verify_starts(copied)
    assert not checked.confirmed
    assert "1 of 3 starts are not finished" in str(checked)
    assert "with 95 % confidence" not in str(checked)


def test_the_number_of_starts_is_fixed_before(proved):
    with pytest.raises(InputError, match="begun for 3 starts, now 4"):
        wp.prove("iris", seeds=4, seed=4, folder=proved[1], **TABLE, **NETWORK)


def test_folders_of_something_else(proved, copied, tmp_path):
    with pytest.raises(InputError, match=r"another (problem|recipe)"):
        wp.prove("iris", seeds=3, seed=4, folder=copied, **(TABLE | {"limit": 8}), **NETWORK)
    write_json(copied / "starts.json", read_json(copied / "starts.json") | {"digest": "another"})
    with pytest.raises(InputError, match="starts of another problem"):
        wp.prove("iris", seeds=3, seed=4, folder=copied, **TABLE, **NETWORK)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("")
    with pytest.raises(InputError, match="holds no proofs of random starts"):
        wp.prove("iris", seeds=3, folder=tmp_path / "mine", **TABLE, **NETWORK)
    with pytest.raises(InputError, match="holds no proof"):
        wp.prove("iris", folder=proved[1], **TABLE, **NETWORK)
    with pytest.raises(InputError, match="wideproof prove --seeds"):
        verify_starts(tmp_path)


def test_starts_without_a_proof_are_counted_as_such():
    """Two units cannot fit twelve rows of random targets."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((12, 2)), rng.standard_normal(12)
    found = wp.prove(
        table, seeds=2, network=wp.build("fully-connected", (2,), (), width=2, depth=1), prepare="none", steps=20
    )
    assert found.proved == 0
    assert all(one.why and one.followed is None for one in found.starts)
    assert found.answer is Answer.UNDECIDED


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"seeds": 0}, "seeds must be a whole number of at least 1"),
        ({"seeds": 2, "polish": True}, "leave polish out"),
        ({"seeds": 2, "require_zero": True}, "leave require_zero out"),
        ({"seeds": 2, "holdout": 0.2}, "leave holdout out"),
        ({"seeds": 2, "from_start": False}, "leave from_start"),
        ({"seeds": 2, "options": {"start": "positive"}, "depth": 1, "activation": "tanh", **TABLE}, "is not random"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_for_many_starts(options, advice):
    with pytest.raises(InputError, match=advice):
        wp.prove("iris", **options)
