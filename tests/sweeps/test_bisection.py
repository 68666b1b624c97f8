"""Bisection along an axis: the same thresholds as the whole grid, with fewer tasks; and the measure that is a proof."""

import dataclasses
import json

import numpy as np
import pytest

import wideproof as wp
from tests.sweeps.making import TINY
from wideproof.certificates import certify_from_start
from wideproof.errors import InputError
from wideproof.report import save_sweep_page, sweep_summary
from wideproof.sweeps import array_job, proofs, read_study, sweep, sweep_part, thresholds
from wideproof.sweeps.bisection import between
from wideproof.sweeps.measures import MEASURES
from wideproof.sweeps.proofs import proved

WIDTHS = (2, 4, 6, 8, 12, 16)
TEXT = (
    TINY.partition("[axes]")[0].replace('["loss", "distance", "reached"]', '["reached", "proved"]')
    + f"""
[axes]
n = [4, 8]
width = {list(WIDTHS)}
seed = 10

[bisect]
axis = "width"
quantities = ["reached", "proved"]
level = 0.9

[[figures]]
kind = "threshold"
quantity = "proved"
x = "n"
y = "width"
level = 0.9
printed = 4
"""
)


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(TEXT)
    return read_study(path)


@pytest.fixture
def planted(monkeypatch):
    """Measures that say where they succeed: all but one start from width 1.5 n on, or n/2; the first eight before."""
    for name, factor in (("proved", 1.5), ("reached", 0.5)):
        monkeypatch.setitem(
            MEASURES, name,
            lambda work, f=factor: float(work.recipe.seed < (9 if work.network.width >= f * work.data.n else 8)),
        )  # fmt: skip


def test_between_finds_the_threshold_whatever_it_is():
    for truth in range(len(WIDTHS) + 1):
        shares: dict[float, float] = {}
        while (value := between(WIDTHS, shares, 0.9)) is not None:
            assert value not in shares
            shares[value] = 1.0 if WIDTHS.index(value) >= truth else 0.5
        assert len(shares) <= 3
        assert truth == 0 or WIDTHS[truth - 1] in shares
        assert truth == len(WIDTHS) or WIDTHS[truth] in shares


def test_one_that_fails_above_one_that_succeeds_counts():
    assert between([2, 4, 8, 16, 24, 32], {4: 1.0, 16: 0.2, 32: 1.0}, 0.9) == 24


@pytest.mark.usefixtures("planted")
def test_the_thresholds_are_those_of_the_whole_grid(study, tmp_path):
    done = sweep(study, tmp_path / "some")
    every = sweep(study.model_copy(update={"bisect": None}), tmp_path / "all")
    for name, needed in (("proved", [6, 12]), ("reached", [2, 4])):
        for one in (done, every):
            (found,) = thresholds(one.results, name, "n", "width", 0.9)
            assert found.needed.tolist() == needed
    assert done.done < every.done == 120
    assert sweep_summary(done)["tasks"] == done.done
    tried = np.isfinite(done.results["proved"].transpose("seed", ...).values)
    assert set(tried.sum(axis=0).ravel()) == {0, 10}  # at each width that was tried, all seeds were
    again = sweep(study, tmp_path / "some")
    assert (again.kept, again.done) == (done.done, 0)
    assert f"{done.done} of {done.done} tasks" in save_sweep_page(again).read_text()


def test_a_task_that_fails_ends_it_and_is_done_again(study, tmp_path, monkeypatch, planted):
    good = MEASURES["proved"]

    def bad(work):
        if work.data.n == 4 and work.network.width == 6 and work.recipe.seed == 3:
            raise InputError("planted")
        return good(work)

    monkeypatch.setitem(MEASURES, "proved", bad)
    stopped = sweep(study, tmp_path / "out")
    assert [one.error for one in stopped.failed] == ["InputError: planted"]
    monkeypatch.setitem(MEASURES, "proved", good)
    done = sweep(study, tmp_path / "out")
    assert thresholds(done.results, "proved", "n", "width", 0.9)[0].needed.tolist() == [6, 12]
    assert done.kept == stopped.done


def test_it_has_no_parts(study, tmp_path):
    with pytest.raises(InputError, match="it has no parts"):
        sweep_part(study, tmp_path / "out", 1, 2)
    with pytest.raises(InputError, match="it has no parts"):
        array_job("least-width", study, tmp_path / "out")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('axis = "width"', 'axis = "depth"', r"`bisect.axis` \(line 26\): .*a list of numbers"),
        ('axis = "width"', 'axis = "seed"', r"`bisect.axis` \(line 26\): .*a list of numbers"),
        ('"proved"]\nlevel', '"loss"]\nlevel', r"`bisect.quantities` \(line 27\): .*'loss'"),
        ("level = 0.9\n\n", "levle = 0.9\n\n", r"`bisect.levle` \(line 28\): there is no such key"),
    ],
)
def test_mistakes(tmp_path, old, new, said):
    assert old in TEXT
    (tmp_path / "study.toml").write_text(TEXT.replace(old, new, 1))
    with pytest.raises(InputError, match=said):
        read_study(tmp_path / "study.toml")


DATA = "sphere:n=4,d=3,separation=0.5"


@pytest.fixture(scope="module")
def problem():
    return wp.build("fully-connected", (3,), (), width=32, depth=1, start="doubled"), wp.load(DATA)


def test_a_start_is_proved_only_if_the_verifier_says_so(problem, monkeypatch):
    """Within the steps, it is; with fewer steps, or where a claim is made larger than it is, it is not."""
    network, data = problem
    assert proved(network, data, wp.Recipe(steps=400, seed=1))
    assert not proved(network, data, wp.Recipe(steps=20, seed=1))
    seen = []

    def lying(run, careful=False):
        attempt = certify_from_start(run, careful=careful)
        made = attempt.certificate
        assert made is not None
        seen.append(careful)
        claims = {**made.claims, "rate": 2 * made.claims["rate"]}
        return dataclasses.replace(attempt, certificate=dataclasses.replace(made, claims=claims))

    monkeypatch.setattr(proofs, "certify_from_start", lying)
    assert not proved(network, data, wp.Recipe(steps=400, seed=1))
    assert seen == [False, True]


def test_a_narrow_network_that_cannot_fit_is_not_proved():
    network = wp.build("fully-connected", (2,), (), width=2, depth=1, start="doubled")
    data = wp.load("sphere:n=8,d=2,separation=0.3")
    assert not proved(network, data, wp.Recipe(steps=60))


def test_the_bundled_study_asks_for_proofs():
    study = read_study("least-width")
    assert study.bisect is not None
    assert set(study.bisect.quantities) == {"proved", "reached"}
    assert json.loads(study.model_dump_json())["bisect"]["level"] == 0.9
