"""Proofs before training: the certificate is about the initial weights, and the run goes on from there."""

import json
from typing import Any

import numpy as np
import pytest

import wideproof as wp
from wideproof.certificates import scale_needed
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof.planning import choose
from wideproof.proving import Predictor
from wideproof.report import proof_figures, proof_sentences
from wideproof_verify import verify

# pyright: reportOptionalMemberAccess=false, reportAttributeAccessIssue=false
DIGITS: dict[str, Any] = {"classes": (0, 1), "limit": 20, "prepare": "unit", "width": 8, "depth": 10,
                          "activation": "tanh", "options": {"start": "positive"}, "steps": 64}  # fmt: skip


@pytest.fixture(scope="module")
def proof(tmp_path_factory):
    return wp.prove("digits", folder=tmp_path_factory.mktemp("before") / "p", **DIGITS)


def test_ten_layers_are_proved_before_training(proof):
    assert proof.proved, proof
    assert proof.before
    assert proof.start is None
    assert proof.polished is None
    assert proof.run.step == 64
    assert proof.headline.startswith("Proved: from its initial weights (seed 0), gradient descent with step size")
    assert (
        "converges to an exact fit of the 20 rows of digits that are used. From the first step on, its error"
        in proof.headline
    )
    assert any("lazy training" in note for note in proof.notes)
    claims, made = proof.certificate.claims, proof.certificate
    assert all(np.array_equal(made.params[name], weight) for name, weight in proof.run.initial.items())
    assert made.about["anchor"] == "the initial weights"
    assert claims["eta"] == proof.run.step_size
    assert verify(proof.folder / "certificate").answer == "proved"
    assert proof.to_dict()["before_training"]
    assert "before any training" in dict(proof_sentences.meaning(proof))["From which weights"]


def test_the_scale_is_twice_the_smallest(proof):
    network = proof.network
    least = scale_needed(network, proof.data, start="positive", tolerance=0.01).scales[0]
    assert least is not None
    assert 1.9 * least < network.start_scale < 2.6 * least
    assert proof.attempt.h < 0.27


def test_the_run_is_under_the_proven_bound(proof):
    """Two routes: what training recorded, and what was proved before it began."""
    found, run = proof.attempt.descent, proof.run
    assert (run.records["loss"] <= found.bound(run.steps) * (1 + 1e-9)).all()
    size = np.sqrt(sum(np.sum(np.square(run.params[name] - run.initial[name])) for name in run.params))
    assert 0 < size < found.radius


def test_predictions_are_those_of_the_limit(proof):
    rows = wp.load("digits", classes=(0, 1), limit=20)
    there = Predictor.load(proof.folder)
    assert all(np.array_equal(there.params[name], proof.limit.params[name]) for name in proof.run.params)
    np.testing.assert_array_equal(there.outputs(rows.x), proof.model.outputs(rows.x))
    assert np.abs(there.outputs(rows.x)).max() > 0


def test_the_figures_begin_at_the_start(proof):
    drawn = proof_figures.draw(proof)
    assert any(line.get_label() == "proven bound" for line in drawn["loss"].figure.axes[0].lines)
    assert "at every step from the first" in drawn["loss"].caption
    assert [ratio.step for ratio in proof.ratios] == [0, 64]


def test_going_on_gives_the_same_certificate(proof):
    files = {path: path.read_bytes() for path in (proof.folder / "certificate").iterdir()}
    (proof.folder / "ratios.json").unlink()
    again = wp.prove("digits", folder=proof.folder, **DIGITS)
    assert again.before
    assert {path: path.read_bytes() for path in (proof.folder / "certificate").iterdir()} == files
    assert json.loads((proof.folder / "choice.json").read_text())["network"]["start"] == proof.network.start


def test_from_here_begins_at_the_trained_weights():
    found = wp.prove("digits", from_start=False, **DIGITS)
    assert not found.before
    assert found.start is None


def test_a_scale_of_ones_own_is_kept():
    found = choose(wp.load("digits", classes=(0, 1), limit=20), prepare="unit", width=8, depth=10, activation="tanh",
                   start="positive(2e4)")  # fmt: skip
    assert found.network.start == "positive(20000)"
    slopes = found.network.activation.c_sigma**10
    largest = np.linalg.norm(found.data.x, 2) ** 2
    assert found.step_size == pytest.approx(1 / (4e8 * slopes * largest), rel=1e-9)


def test_a_table_that_is_longer_than_wide_is_lifted():
    found = choose(wp.load("iris", classes=("setosa", "versicolor"), limit=30), start="positive")
    assert isinstance(found.network, FullyConnected)
    assert "lift" in found.preparation
    assert (found.network.start_scale or 0.0) > 1


def test_dependent_inputs_are_refused_in_a_sentence():
    with pytest.raises(InputError, match="needs linearly independent inputs, and 'iris', prepared by unit, has"):
        choose(wp.load("iris", classes=("setosa", "versicolor"), limit=30), prepare="unit", start="positive")
    with pytest.raises(InputError, match="start of residual must be normal, doubled or zero"):
        choose(wp.load("iris"), network="residual", start="positive")
    with pytest.raises(InputError, match="with one output, got 3 outputs"):
        choose(wp.load("iris"), start="positive")
