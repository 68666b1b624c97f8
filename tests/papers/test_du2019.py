"""Du et al. (2019): planted violations are found."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.papers.labs import plant, quick
from wideproof.answers import Answer
from wideproof.monitors.smooth import feature_bound, feature_movement, step_bound
from wideproof.networks import ACTIVATIONS, FullyConnected, Residual, get_activation
from wideproof.papers.check import at_most, conclude, identity, law, scales
from wideproof.papers.du2019.concentration import width_errors
from wideproof.papers.du2019.convergence import condition_a_1, lemma_b_7, lemma_c_5, rate_check, theorem_5_1
from wideproof.papers.du2019.definitions import definition_5_1
from wideproof.papers.du2019.gradients import closed_form
from wideproof.papers.du2019.hypotheses import lipschitz_checks
from wideproof.papers.du2019.initialization import lemma_b_2
from wideproof.papers.du2019.lab import FOUR, Lab
from wideproof.papers.du2019.positivity import positive_check, tensor_rank
from wideproof.papers.du2019.records import draws_of
from wideproof.papers.du2019.recursion import recursion

pytestmark = pytest.mark.xdist_group("du2019")

LAB = quick("du2019")


# ---- planted violations ---------------------------------------------------------------------------------------------


def planted():
    """A laboratory that shares everything measured so far, until something is planted in it."""
    lab = Lab("quick")
    lab._kept.update(LAB._kept)
    return lab


def with_runs(kind, rule, change):
    """A laboratory in which the runs of one rule are changed."""
    lab = planted()
    plant(lab, [change(descent) for descent in LAB.runs(kind, rule)], Lab.runs, kind, rule)
    return lab


def with_records(descent, **records):
    return replace(descent, run=replace(descent.run, records={**descent.run.records, **records}))


def test_wrong_variance_of_the_weights_is_seen_in_the_definition():
    found = LAB.finite("fully-connected")
    wrong = draws_of(found.network, found.x, (LAB.draw(found.network, "wrong", i, scale=1.2) for i in range(40)))
    lab = planted()
    plant(lab, wrong, Lab.finite, "fully-connected")
    assert definition_5_1(lab).outcome is Answer.FAILS


def test_wrong_variance_of_the_weights_is_seen_in_the_least_eigenvalue():
    lab = planted()
    plant(lab, 0.7 * LAB.last_blocks("fully-connected"), Lab.last_blocks, "fully-connected")
    assert lemma_b_2(lab).outcome is Answer.FAILS


def test_a_single_draw_decides_nothing():
    found = LAB.finite("fully-connected")
    one = draws_of(found.network, found.x, [LAB.draw(found.network, "one")])
    lab = planted()
    plant(lab, one, Lab.finite, "fully-connected")
    assert definition_5_1(lab).outcome is Answer.UNDECIDED


def test_wrong_exponent_of_the_width():
    widths, errors = LAB.keep(("widths", "fully-connected"), lambda: width_errors(LAB, "fully-connected"))
    assert scales("covariance", "m", widths, errors[0], -0.5).outcome is Answer.HOLDS
    assert scales("covariance", "m", widths, errors[0], -1.0).outcome is Answer.FAILS


def test_too_large_a_step_breaks_the_theorem():
    eta = 6 * LAB.step_size("fully-connected", "practical")
    runs = [LAB.descend("fully-connected", eta, 30, seed) for seed in range(LAB.draws)]
    lab = planted()
    plant(lab, runs, Lab.runs, "fully-connected", "practical")
    assert theorem_5_1(lab).outcome is Answer.FAILS
    assert lemma_b_7(with_runs("fully-connected", "lemma", lambda d: runs[0])).outcome is Answer.FAILS


def test_a_rising_loss_is_found_at_its_step():
    def change(descent):
        loss = descent.run.records["loss"].copy()
        loss[7] = loss[0]
        return with_records(descent, loss=loss)

    lab = with_runs("fully-connected", "practical", change)
    check = rate_check(lab, "fully-connected", "practical", lambda d: d.run.records["loss"], "loss")
    assert check.outcome is Answer.FAILS
    assert check.left in [d.run.records["loss"][0] for d in LAB.runs("fully-connected", "practical")]


def test_a_nan_decides_nothing():
    def change(descent):
        outputs = descent.outputs.copy()
        outputs[5] = np.nan
        return with_records(descent, outputs=outputs)

    assert condition_a_1(with_runs("residual", "lemma", change)).outcome is Answer.UNDECIDED


def test_off_by_one_layer_in_the_closed_form():
    network, start, seen = LAB.model("residual"), LAB.start("residual", 0), LAB.traces("residual")[0]
    deeper = {**seen.inputs, f"W{network.depth}": [seen.features[-1]]}
    block = LAB.last_blocks("residual")[0]
    assert identity("right", closed_form(network, start, seen), block).outcome is Answer.HOLDS
    wrong = closed_form(network, start, replace(seen, inputs=deeper))
    assert identity("wrong", wrong, block).outcome is Answer.FAILS


def test_larger_movement_than_claimed_breaks_the_feature_bound():
    network, x = LAB.model("fully-connected"), LAB.data("fully-connected").x
    for moved in LAB.moved("fully-connected", 0, 1.0):
        left = feature_movement(network, moved.params, moved.start, x)
        right = feature_bound(network, moved.constants, 1e-3)[:, None]
        assert at_most(moved.direction, left, right).outcome is Answer.FAILS


def test_larger_gradients_break_the_movement_bound():
    def change(descent):
        name = "gradient.W2"
        return with_records(descent, **{name: 100 * descent.run.records[name]})

    assert lemma_c_5(with_runs("residual", "practical", change)).outcome is Answer.FAILS


def test_printed_movement_bound_has_one_factor_for_all():
    network = Residual(8, 16, 4)
    printed = step_bound(network, LAB.constants("residual", 0), 4, printed=True)
    assert len(set(printed.values())) == 1


def test_relu_has_no_lipschitz_derivative():
    relu = conclude(*lipschitz_checks(LAB, (ACTIVATIONS["relu"],)))
    assert relu.outcome is Answer.FAILS
    assert "σ'" in relu.title


@pytest.mark.parametrize("other", [1.0, -1.0], ids=["equal", "antipodal"])
def test_parallel_inputs_are_not_positive_definite(other):
    x = np.vstack([FOUR, other * FOUR[:1]])
    network = FullyConnected(3, 1, 2, get_activation("tanh"))
    coarse, fine = (recursion(network, x, nodes=nodes).blocks["W2"] for nodes in (48, 64))
    assert positive_check("parallel", coarse, fine).outcome is Answer.FAILS


def test_a_polynomial_has_finite_rank():
    angle = np.pi * np.arange(5) / 5
    x = np.column_stack([np.cos(angle), np.sin(angle)])
    network = FullyConnected(2, 1, 1, get_activation("identity"))
    coarse, fine = (recursion(network, x, nodes=nodes).blocks["W1"] for nodes in (8, 16))
    assert positive_check("identity", coarse, fine).outcome is Answer.FAILS


def test_parallel_vectors_have_dependent_powers():
    assert tensor_rank(np.array([[1, 2], [2, 4], [1, 0]]), 3) == 2


@pytest.mark.parametrize("misprint", ["index", "rho"])
def test_misprinted_limit_is_rejected(misprint):
    found = LAB.finite("fully-connected", "unit")
    wrong = recursion(found.network, found.x, (misprint,), nodes=96)
    assert law("W2", found.blocks["W2"], wrong.blocks["W2"]).outcome is Answer.FAILS


@pytest.mark.parametrize("kind", ["fully-connected", "conv-residual"])
def test_weights_are_moved_as_far_as_asked_and_along_the_gradient(kind):
    network, data = LAB.model(kind), LAB.data(kind)
    found = {moved.direction: moved for moved in LAB.moved(kind, 0, 0.5)}
    assert set(found) == {"random", "gradient", "rank one"}
    for moved in found.values():
        for name, weight in moved.start.items():
            size = np.linalg.norm(moved.params[name] - weight)
            assert size == pytest.approx(0.5 * np.sqrt(network.width), rel=1e-10)
    moved = found["gradient"]
    outputs = lambda params: jnp.sum(jnp.asarray(data.y) * network(params, data.x))  # noqa: E731
    slopes = jax.grad(outputs)({name: jnp.asarray(weight) for name, weight in moved.start.items()})
    for name, slope in slopes.items():
        change = moved.params[name] - moved.start[name]
        cosine = float(np.sum(slope * change) / (np.linalg.norm(slope) * np.linalg.norm(change)))
        assert cosine == pytest.approx(1, abs=1e-10)
