"""What a proof says is true of the rows that are used, of the step size that is printed, and in stated units."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import wideproof as wp
from wideproof.certificates import Descent, Problem, certify
from wideproof.report import proof_sentences
from wideproof.report.proof_terminal import COLUMNS, proof_text
from wideproof.report.proof_words import NO_ESTIMATE, numbers, squares

SMALL = {"prepare": "standardize,sphere(4)", "width": 256, "activation": "erf"}


@pytest.fixture(scope="module")
def clashing(tmp_path_factory) -> wp.Proof:
    """Seven rows of a file of nine, of which two lack a target and two contradict each other; steps are followed."""
    x = np.random.default_rng(0).normal(size=(6, 2)).round(3)
    lines = [f"{a},{b},{'uv'[k % 2]}" for k, (a, b) in enumerate(x)]
    path = tmp_path_factory.mktemp("table") / "t.csv"
    path.write_text("\n".join(["a,b,y", *lines, f"{x[0, 0]},{x[0, 1]},v", "1,2,", "2,1,"]) + "\n")
    return wp.prove(path, "y", alpha=1.0, **SMALL)


@pytest.fixture(scope="module")
def at_once() -> wp.Proof:
    """Twelve rows of a bundled table, proved before training: the largest step size is a claim."""
    return wp.prove("iris", classes=("setosa", "versicolor"), limit=12, alpha=3000.0, steps=2, **SMALL)


def test_a_file_with_unused_rows_is_not_all_rows(clashing, at_once):
    assert clashing.proved, clashing
    assert "a global minimum on the 7 rows of t that are used" in clashing.headline
    assert "dropped 2 rows" in " ".join(clashing.notes)
    assert "an exact fit of the 12 rows of iris that are used" in at_once.headline
    whole = wp.Dataset(at_once.data.x, at_once.data.y, "binary", name="mine")
    assert not whole.partial
    assert clashing.data.partial


def test_with_contradicting_labels_nothing_is_called_the_error(clashing):
    """The residual that is proved to vanish is not f - y, which cannot."""
    assert clashing.groups.least == 1.0
    assert "the distance of its outputs from the best ones shrinks by" in clashing.headline
    assert "the least loss of any function is 1 (half the sum of squares, labels -1 and +1)" in clashing.headline
    (rho,) = (row for row in numbers(clashing) if row.symbol == "ρ")
    assert "best outputs" in rho.name
    assert "‖f − y‖" not in proof_text(clashing)


def test_a_followed_step_size_is_printed_exactly(clashing):
    assert clashing.start is not None
    exact = repr(clashing.start.step_size)
    (eta,) = (row for row in numbers(clashing) if row.symbol == "η")
    assert eta.claimed == exact
    assert f"with step size {exact}," in dict(proof_sentences.meaning(clashing))["What is proved"]
    (h,) = (row for row in numbers(clashing) if row.symbol == "h")
    assert h.name.endswith("ρ with room for the steps' error")
    assert "suffices" not in h.name


def test_the_printed_step_size_and_rate_are_covered_by_the_claims(at_once):
    assert at_once.proved, at_once
    assert at_once.start is None
    claims = at_once.certificate.claims
    found = re.search(r"step size (\S+) converges.*at least (\S+) % a step", at_once.headline)
    assert found is not None
    size, rate = (float(re.sub(r"×10(.*)", r"e\1", text).translate(_PLAIN)) for text in found.groups())
    assert 0.99 * claims["eta"] < size <= claims["eta"] * (1 + 1e-15)
    assert 0.98 * claims["rate"] < rate / 100 <= claims["rate"] * size / claims["eta"] * (1 + 1e-12)


def test_a_proof_without_an_estimate_says_so(clashing, at_once):
    assert not clashing.estimates
    assert NO_ESTIMATE in proof_text(clashing)
    assert at_once.estimates
    assert NO_ESTIMATE not in proof_text(at_once)


def test_losses_are_in_stated_units(at_once):
    """Of labels, of real targets as they are and scaled, and of sequences, whose first time does not count."""
    x, y = np.eye(3), np.array([1.0, 5.0, 9.0])
    plain = wp.Dataset(x, y, "regression")
    scaled = replace(at_once, data=wp.prepare(plain, "scale_targets"))
    later = replace(scaled, network=SimpleNamespace(data_kind="sequences"))
    assert squares(at_once) == "half the sum of squares, labels -1 and +1"
    assert squares(replace(at_once, data=plain)) == "half the sum of squares"
    assert squares(scaled) == "half the sum of squares, targets scaled to standard deviation 1"
    assert squares(later) == "half the sum of squares, from the second time on, targets scaled to standard deviation 1"
    assert max(map(len, proof_text(at_once).splitlines())) <= COLUMNS


def test_one_row_is_not_the_remedy_where_several_contradict():
    x = np.repeat(np.eye(2), 2, axis=0)
    data = wp.Dataset(x, np.array([1.0, -1.0, 1.0, -1.0]), "binary", name="twice")
    network = wp.build("fully-connected", (2,), (), width=2, depth=1)
    attempt = certify(Problem(network, data).at(network.init(0)), Descent(require_zero=True))
    assert attempt.obstacle is not None
    assert attempt.obstacle.advice == ("correct or remove rows until those with equal inputs have equal targets",)


_PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
