"""Proofs from the initial weights: by `prove`, of a run by `follow`, by SGD; what is said where there is none."""

import dataclasses
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wideproof as wp
from wideproof.certificates import Attempt, Epochs, Problem, Sampling, certify, certify_from_start, enter, polish
from wideproof.certificates.starting import batches_of
from wideproof.errors import InputError
from wideproof.networks import to_config
from wideproof.proving import following
from wideproof.report import proof_figures
from wideproof_verify import Verdict, verify

# pyright: reportOptionalMemberAccess=false
SPHERE = "sphere:n=6,d=4,separation=0.5,seed=1"
SMALL: dict[str, Any] = {"network": "fully-connected", "width": 64, "depth": 1, "prepare": "none"}


@pytest.fixture(scope="module")
def proof(tmp_path_factory):
    return wp.prove(SPHERE, folder=tmp_path_factory.mktemp("start") / "p", **SMALL)


@pytest.fixture(scope="module")
def problem():
    data = wp.prepare(wp.load("digits", classes=(0, 1), limit=12), "whiten,unit")
    return wp.build("fully-connected", data.input_shape, data.target_shape, width=64, depth=1), data


@pytest.fixture(scope="module")
def sgd(problem):
    return wp.train(problem[0], problem[1], wp.Recipe(steps=100, batch=4, step_size=0.1))


def test_a_proof_begins_at_the_initial_weights_by_default(proof):
    assert proof.proved, proof
    assert proof.headline.startswith("Proved: from its initial weights (seed 0), gradient descent with step size")
    assert proof.start.steps == proof.run.step
    assert all(np.array_equal(proof.start.params[k], proof.run.initial[k]) for k in proof.network.trained_names)
    assert len(proof.verdict.course) == proof.run.step
    assert proof.to_dict()["start"]["steps"] == proof.run.step
    assert "initial weights" in str(proof)


def test_the_bound_of_the_loss_holds_at_every_step(proof):
    """The verifier's course has the error before every step, at most; the run is inside, and not by much."""
    bound = 0.5 * np.square([row[3] for row in proof.verdict.course])
    ran = proof.run.records["loss"][: len(bound)]
    assert (ran <= bound * (1 + 1e-12)).all()
    assert (bound <= ran * (1 + 1e-6)).all()


def test_the_tube_is_drawn(proof):
    drawn = proof_figures.draw(proof)
    assert "tube" in drawn
    assert any(line.get_label() == "proven bound" for line in drawn["loss"].figure.axes[0].lines)
    from_here = dataclasses.replace(
        proof, attempt=dataclasses.replace(
            proof.attempt, certificate=dataclasses.replace(proof.attempt.certificate, start=None)
        )
    )  # fmt: skip
    assert proof_figures.tube_figure(from_here) is None
    assert from_here.headline.startswith(f"Proved: from the weights that {proof.run.step} steps of training left")
    assert from_here.headline.endswith("The training before is not part of the proof.")


def test_from_here_leaves_it_away(proof):
    found = wp.prove(SPHERE, from_start=False, **SMALL)
    assert found.proved
    assert found.start is None
    assert not any("not proved from the initial weights" in note for note in found.notes)


def test_going_on_gives_the_same_certificate(proof):
    files = {path: path.read_bytes() for path in (proof.folder / "certificate").iterdir()}
    again = wp.prove(SPHERE, folder=proof.folder, **SMALL)
    assert again.proved
    assert {path: path.read_bytes() for path in (proof.folder / "certificate").iterdir()} == files


def test_what_takes_too_long_is_not_done_unasked():
    found = wp.prove(SPHERE, alpha=1.0, budget=0.0, **SMALL)
    assert found.proved
    assert found.start is None
    assert any("takes about" in note for note in found.notes)
    assert wp.prove(SPHERE, alpha=1.0, budget=0.0, from_start=True, **SMALL).start is not None
    lazier = wp.prove(SPHERE, budget=0.0, **SMALL)
    assert lazier.before
    assert to_config(lazier.network)["alpha"] > 1
    assert any("outputs are multiplied by alpha" in note for note in lazier.notes)


def test_a_refused_proof_from_the_start_becomes_one_from_here(monkeypatch):
    from wideproof_verify.refusals import NotProvedError
    from wideproof_verify.theorems import starts

    def lost(*_: Any) -> None:
        raise NotProvedError("nothing bounds the distance", decided=True)

    monkeypatch.setattr(starts, "follow", lost)
    found = wp.prove(SPHERE, alpha=1.0, **SMALL)
    assert found.proved
    assert found.start is None
    assert "not proved from the initial weights: nothing bounds the distance" in found.notes


def test_a_ball_that_outgrows_its_bounds_is_made_smaller(monkeypatch):
    """Factors of growth hold on a ball: where it was too large, the certificate asks for more bits, and is verified."""
    from wideproof.proving import beginning

    asked = []

    def at_first_lost(job, attempt, what):
        asked.append(max(attempt.certificate.start.bits))
        if len(asked) == 1:
            return Verdict(reason="after 3 of 9 steps nothing bounds the distance")
        return verified(job, attempt, what)

    verified = beginning.verified
    monkeypatch.setattr(beginning, "verified", at_first_lost)
    found = wp.prove(SPHERE, alpha=1.0, **SMALL)
    assert found.start is not None
    assert len(asked) == 2
    assert asked[1] > asked[0]


def test_sgd_from_the_start_by_prove(tmp_path):
    found = wp.prove(SPHERE, batch=3, from_start=True, folder=tmp_path / "p", **SMALL)
    assert found.proved, found
    assert found.start.batches.shape == (found.run.step, 3)
    assert found.headline.startswith(
        f"Proved: from its initial weights (seed 0), {found.start.steps} steps of SGD in batches of 3, "
    )


def test_sgd_into_a_basin_and_on_in_any_order(sgd, tmp_path):
    """Theorem 5 takes over where the stored steps end, for a run of SGD by default; a lie about where is refused."""
    found = wp.follow(sgd, tmp_path / "c")
    assert found.proved, found
    assert found.minimum
    made = found.attempt.certificate
    assert made is not None
    assert made.start is not None
    assert made.theorem == "epochs"
    assert "whatever the order of the batches" in str(found)
    assert made.start.distance <= made.claims["d"]
    comes, basin = (float(text) for text in re.findall(r"within ([0-9.e-]+) of these weights", str(found))[:2])
    assert comes <= basin
    same = dataclasses.replace(made, start=dataclasses.replace(made.start, distance=made.claims["d"]))
    assert verify(same.save(tmp_path / "same")).reason.startswith("distance ≤ d fails")
    wide = dataclasses.replace(made, start=dataclasses.replace(made.start, distance=1.01 * made.claims["d"]))
    verdict = verify(wide.save(tmp_path / "wide"))
    assert verdict.answer == "not proved"
    assert verdict.reason.startswith("distance ≤ d")


def test_random_batches_from_the_start(sgd):
    network, data = sgd.network, sgd.data
    near = polish(network, sgd.params, data.x, data.y).params
    assert enter(sgd, certify(Problem(network, data).at(near), Sampling(4))).certificate.start.steps == 100
    early = wp.train(network, data, wp.Recipe(steps=2, batch=4, step_size=0.1))
    far = enter(early, certify(Problem(network, data).at(near), Epochs(4)))
    assert far.certificate is None
    assert far.obstacle.quantity == "distance"


@pytest.mark.parametrize(("share", "claimed"), [(0.89, True), (0.91, False)])
def test_a_loss_is_claimed_to_fall_where_it_falls_by_a_tenth(monkeypatch, share, claimed):
    made: Any = SimpleNamespace(claims={"loss": 2.0, "epsilon": 2.0 * share})
    monkeypatch.setattr(following, "certify_from_start", lambda run, sharp: Attempt(None, made, None))
    run: Any = None
    found = following._lower(run, sharp=False)
    assert (found.certificate is made) == claimed
    assert claimed or (found.obstacle.quantity, found.obstacle.value) == ("gain", 2.0 * share)


@pytest.mark.parametrize("batch", [None, 4])
def test_the_logistic_loss_goes_on_from_the_end_of_a_run(problem, tmp_path, batch):
    """Theorem 3 takes over where the steps end, and the verdict says the loss there and the one to come."""
    data = problem[1]
    network = wp.build("fully-connected", data.input_shape, data.target_shape, width=1024, depth=1, activation="erf")
    run = wp.train(network, data, wp.Recipe(loss="logistic", steps=60, step_size=9.0, batch=batch))
    found = wp.follow(run, tmp_path / "c")
    assert found.proved, found
    assert not found.minimum
    made = found.attempt.certificate
    assert made.theorem == "logistic"
    assert made.claims["epsilon"] <= 0.9 * run.loss
    assert "lowers the mean logistic loss at every step until it is at most" in str(found)
    assert "every example is on the right side by at least" in str(found)
    assert ("and from there gradient descent with step size" in str(found)) == (batch is not None)


def test_where_theorem_three_ends_the_loss_after_the_steps_is_proved(problem, tmp_path):
    """A narrow network: the obstacle is one sentence, and `follow` falls back on finite time."""
    run = wp.train(problem[0], problem[1], wp.Recipe(loss="logistic", steps=5))
    attempt = certify_from_start(run)
    assert attempt.certificate is None or attempt.certificate.claims["epsilon"] > 0.9 * run.loss
    found = wp.follow(run, tmp_path / "c")
    assert found.proved
    assert found.attempt.certificate.theorem == "finite"
    steep = wp.train(problem[0], problem[1], wp.Recipe(loss="logistic", steps=2, step_size=17.0))
    large = certify_from_start(steep)
    assert large.certificate is None
    assert large.obstacle.quantity == "step size"
    assert re.search(r"the step size 17 is not below 2n/\(ℓ''S²\) = [0-9.]+, beyond which", str(large.obstacle))


def test_a_run_far_from_a_fit_is_proved_in_finite_time(problem, tmp_path):
    run = wp.train(problem[0], problem[1], wp.Recipe(steps=5))
    found = wp.follow(run, tmp_path / "c")
    assert found.proved
    assert not found.minimum
    assert found.attempt.certificate.claims["loss"] >= run.loss
    assert " has a loss of at most " in str(found)
    assert found.to_dict()["theorem"] == "finite"


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"steps": 0}, "the run has taken no step: its start is its end"),
        ({"steps": 3, "optimizer": "momentum", "step_size": 0.01}, "the steps of 'momentum' are not followed"),
        ({"steps": 40, "step_size": 1e3, "divergence_factor": 10.0}, "the run diverged after"),
        ({"steps": 3, "loss": "hinge", "step_size": 0.01}, "the loss 'hinge' is not followed: use one of squared"),
        ({"steps": 3, "loss": "cross_entropy"}, "the loss 'cross_entropy' is not followed: use one of squared"),
        (
            {"steps": 3, "class_weights": "balanced"},
            "weights of examples or classes are not followed: train without them",
        ),
        ({"steps": 3, "precision": "float32"}, "not close enough to exact ones: train in float64"),
        ({"steps": 3, "optimizer": "nesterov", "momentum": 0.5}, "the steps of 'nesterov' are not followed"),
        ({"steps": 3, "optimizer": "adamw", "step_size": 0.01}, "the steps of 'adamw' are not followed"),
        ({"steps": 3, "weight_decay": 0.1}, "weight decay are not followed: train with weight_decay=0"),
        ({"steps": 3, "schedule": "milestones(2)"}, "one step size for all steps, .* changes it at step 2"),
        ({"steps": 3, "batch": 5, "shuffle": True}, "with 12 examples in batches of 5 the last batch of every epoch"),
    ],
)
def test_what_cannot_be_followed_is_one_sentence(problem, recipe, words):
    with pytest.raises(InputError, match=words):
        wp.follow(wp.train(problem[0], problem[1], wp.Recipe(**recipe)))


def test_epochs_of_shuffled_batches_are_followed(problem, tmp_path):
    """They are stored batches: every example once an epoch; with another order of them nothing is proved."""
    network, data = problem
    run = wp.train(network, data, wp.Recipe(steps=60, batch=4, step_size=0.1, shuffle=True))
    found = wp.follow(run, tmp_path / "c")
    assert found.proved
    assert found.minimum
    assert " with the stored batches of 4 in their order" in str(found)
    made = found.attempt.certificate
    assert made is not None
    assert made.start is not None
    own, drawn = made.start.batches, batches_of(dataclasses.replace(run, recipe=wp.Recipe(steps=60, batch=4)))
    assert own is not None
    assert drawn is not None
    assert np.array_equal(np.sort(own.reshape(20, 12), axis=1), np.tile(np.arange(12), (20, 1)))
    for k, other in enumerate((own[::-1].copy(), drawn)):
        lie = dataclasses.replace(made, start=dataclasses.replace(made.start, batches=other))
        lie.save(tmp_path / f"lie{k}")
        assert verify(tmp_path / f"lie{k}").answer == "not proved"


def test_a_schedule_that_has_not_begun_is_one_step_size(problem):
    network, data = problem
    run = wp.train(network, data, wp.Recipe(steps=12, step_size=0.05, schedule="milestones(12)"))
    assert wp.follow(run).proved


@pytest.mark.parametrize(
    "recipe", [{"optimizer": "adamw", "step_size": 0.01}, {"optimizer": "nesterov"}, {"schedule": "warmup(5)"}]
)
def test_gradient_descent_from_the_weights_that_another_method_left(problem, tmp_path, recipe):
    """From there on it is proved; asked for the start, one sentence says why not."""
    run = wp.train(problem[0], problem[1], wp.Recipe(steps=400, **recipe))
    found = wp.prove_run(run, tmp_path / "p", from_start=None)
    assert found.proved, found
    assert found.headline.startswith("Proved: from the weights that 400 steps of training left, gradient descent")
    assert any(note.startswith("not proved from the initial weights: ") for note in found.notes)
    assert found.predicted is None  # what the Gram matrix predicts is the course of gradient descent
    with pytest.raises(InputError, match=r"are not followed|one step size for all"):
        wp.prove_run(run, tmp_path / "q", from_start=True)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"loss": "cross_entropy"}, "this run was trained with the loss 'cross_entropy': use `follow`"),
        ({"class_weights": (1.0, 2.0)}, "this run was trained with weights of examples"),
    ],
)
def test_a_minimum_of_another_objective_is_not_proved_as_one_of_the_squared_loss(problem, tmp_path, recipe, words):
    with pytest.raises(InputError, match=words):
        wp.prove_run(wp.train(problem[0], problem[1], wp.Recipe(steps=3, **recipe)), tmp_path / "proof")


def test_too_many_steps_are_one_sentence(problem, monkeypatch):
    monkeypatch.setattr("wideproof.certificates.starting.MOST_STEPS", 3)
    with pytest.raises(InputError, match="the run has 5 steps, and at most 3 are followed"):
        wp.follow(wp.train(problem[0], problem[1], wp.Recipe(steps=5)))
