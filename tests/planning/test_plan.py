"""The plan by other routes: eigenvalues from NumPy, steps by running the recursion, planted faults, closed forms."""

import json
import math
import re

import jax.numpy as jnp
import numpy as np
import pytest

from wideproof.answers import Answer
from wideproof.data import Dataset, load, prepare
from wideproof.errors import InputError
from wideproof.kernels import limit_gram
from wideproof.kernels.spectrum import Enclosed
from wideproof.networks import FullyConnected, build, get_activation
from wideproof.networks.activations import SOFTPLUS
from wideproof.planning import Candidate, Row, evaluate, find_width, plan, proof_needs, recommendation
from wideproof.planning.candidates import candidates
from wideproof.planning.plan import rank
from wideproof.training import Recipe, train

SMALL = {"activations": ["erf"], "depths": [1, 2]}


@pytest.fixture(scope="module")
def digits():
    return load("digits", classes=(0, 1), limit=16)


@pytest.fixture(scope="module")
def planned(digits):
    return plan(digits, networks=["fully-connected", "deep-relu"], target_loss=1e-4, **SMALL)


def number(enclosed):
    assert enclosed is not None
    return enclosed.value


def recommended(found):
    assert found.recommendation is not None
    return found.recommendation


def spread(rng, n=8, d=5):
    return Dataset(rng.standard_normal((n, d)), np.where(np.arange(n) % 2, 1.0, -1.0), "binary", name="spread")


def test_condition_and_steps_by_another_route(digits, planned):
    """NumPy's eigenvalues of the limit, and gradient descent on the residual itself, step by step."""
    for row in planned.rows:
        one = row.candidate
        data = prepare(digits, one.preparation)
        options = {} if one.activation is None else {"activation": one.activation}
        network = build(one.network, data.input_shape, (), width=10, depth=one.depth, **options)
        matrix = np.asarray(limit_gram(network, data.x))
        values = np.linalg.eigvalsh(matrix)
        assert row.steps is not None
        assert number(row.condition) == pytest.approx(values[-1] / values[0], rel=1e-6)
        if row.steps > 3000:
            continue
        residual, steps = data.y.copy(), 0
        while 0.5 * residual @ residual > planned.target_loss:
            residual = residual - matrix @ residual / values[-1]
            steps += 1
        assert abs(row.steps - steps) <= 1


def test_left_out_error_is_that_of_n_regressions(digits):
    data = prepare(digits, "center,unit")
    row = evaluate(Candidate("fully-connected", "softplus", 1, "center,unit"), data, 1e-6)
    matrix = np.asarray(limit_gram(FullyConnected(64, 1, 1), data.x))
    missed = []
    for i in range(data.n):
        others = np.delete(np.arange(data.n), i)
        weights = np.linalg.solve(matrix[np.ix_(others, others)], data.y[others])
        missed.append(data.y[i] - matrix[i, others] @ weights)
    assert row.left_out == pytest.approx(np.linalg.norm(missed) / np.linalg.norm(data.y), rel=1e-6)


def test_rows_are_ranked_and_the_first_is_recommended(planned):
    steps = [row.steps for row in planned.rows]
    assert steps == sorted(steps)
    conditions = [row.condition.value for row in planned.ranked("condition")]
    assert conditions == sorted(conditions)
    best = planned.recommendation
    assert best.row is planned.rows[0]
    assert planned.answer is Answer.HOLDS
    assert best.network.width == best.width == best.tried[-1].width
    assert f"fewest predicted steps of {len(planned.rows)} candidates" in best.reasons[0]
    for words in ("recommended: ", "a proof before training needs m·A² > "):
        assert words in str(planned)


def test_ranking_puts_undecided_last_whatever_their_numbers():
    def row(depth, condition, steps):
        enclosed = None if condition is None else Enclosed(condition, 0.0)
        return Row(
            Candidate("deep-relu", None, depth, "unit"), Enclosed(1.0, 0.0), Enclosed(1.0, 0.0), enclosed, steps, 0.1
        )

    rows = [row(1, None, None), row(2, 5.0, 90), row(3, 9.0, 10), row(4, 9.0, None), row(5, 5.0, 90)]
    assert [r.candidate.depth for r in rank(rows)] == [3, 2, 5, 4, 1]
    assert [r.candidate.depth for r in rank(rows, "condition")] == [2, 5, 3, 4, 1]
    with pytest.raises(InputError, match="ranked by 'steps' or by 'condition', got 'luck'"):
        rank(rows, "luck")


def test_planted_parallel_examples_are_undecided_and_last(rng, undrawn):
    """Parallel inputs are one point on the sphere, but not after centring: only the first kind is undecided."""
    data = spread(rng)
    x = data.x.copy()
    x[5] = 3 * x[2]
    found = plan(
        Dataset(x, data.y, "binary"), networks=["fully-connected"], preparations=["unit", "center,unit"], **SMALL
    )
    assert [row.decided for row in found.rows] == [True, True, False, False]
    for row in found.rows[2:]:
        assert row.candidate.preparation == "unit"
        assert (row.condition, row.steps, row.left_out) == (None, None, None)
        assert "examples 2 and 5 are" in row.cause
    assert recommended(found).row.candidate.preparation == "center,unit"
    assert any("2 of 4 candidates are undecided" in note for note in found.notes)
    assert {one.preparation for one in found.proofs} == {"center,unit"}


@pytest.mark.parametrize(
    ("sign", "words"),
    [
        (1, "groups of examples are equal.*3 and 6.*keep one"),
        (-1, "zero training loss is impossible.*3 and 6.*no network reaches"),
    ],
)
def test_planted_equal_examples_leave_nothing_to_recommend(rng, sign, words):
    data = spread(rng)
    x, y = data.x.copy(), data.y.copy()
    x[6], y[6] = x[3], sign * y[3]
    found = plan(Dataset(x, y, "binary"), networks=["fully-connected"], **SMALL)
    assert (found.recommendation, found.answer, found.proofs) == (None, Answer.FAILS, ())
    assert not any(row.decided for row in found.rows)
    assert re.search(words, found.notes[0])
    assert "nothing to recommend" in str(found)


def test_too_many_examples_are_thinned_out_in_balance(digits, undrawn):
    found = plan(digits, networks=["deep-relu"], depths=[1], preparations=["unit"], most_rows=6)
    assert found.data.n == 6
    assert found.data.y.sum() == 0
    assert found.notes[0].startswith("the plan is for 6 of 16 examples")
    whole = evaluate(found.rows[0].candidate, prepare(digits, "unit"), 1e-6)
    assert number(whole.condition) > number(found.rows[0].condition)  # as the note says


def test_whitening_as_many_directions_as_examples_is_told(planned):
    assert any("whitening 16 examples" in note for note in planned.notes)


def test_what_cannot_be_prepared_is_left_out_and_told(rng, undrawn):
    data = spread(rng)
    x = data.x.copy()
    x[1] = 0
    found = plan(Dataset(x, data.y, "binary"), networks=["fully-connected"], **SMALL)
    assert {row.candidate.preparation for row in found.rows} == {"center,unit", "whiten,unit"}
    assert any(note.startswith("left out fully-connected, prepared by unit: row 1") for note in found.notes)
    with pytest.raises(InputError, match=r"row 1.*is zero"):
        plan(Dataset(x, data.y, "binary"), networks=["fully-connected"], preparations=["unit"], **SMALL)


def test_several_outputs(undrawn):
    data = load("iris", limit=9)
    found = plan(data, networks=["fully-connected", "deep-relu"], preparations=["center,unit"], **SMALL)
    assert {row.candidate.network for row in found.rows} == {"fully-connected"}
    assert any("deep-relu has one output" in note for note in found.notes)
    assert found.proofs == ()
    assert recommended(found).network.output_shape == (3,)


def test_the_default_candidates_end_as_the_papers_need(digits):
    found = candidates(digits)
    assert {one.preparation for one in found if one.network == "deep-relu"} == {
        "constant", "center,constant", "whiten,constant"}  # fmt: skip
    assert {one.preparation for one in found if one.network != "deep-relu"} == {"unit", "center,unit", "whiten,unit"}
    assert not [one for one in found if (one.network, one.depth) == ("residual", 1)]
    assert len(set(found)) == len(found) == 3 * (4 * 4 + 4 * 3 + 4 + 4)


@pytest.mark.parametrize("candidate", [Candidate("fully-connected", "erf", 2, "whiten,unit"),
                                       Candidate("deep-relu", None, 2, "whiten,unit")])  # fmt: skip
def test_the_width_found_is_the_first_that_is_enough_and_trains_as_said(digits, candidate):
    data = prepare(digits, candidate.preparation)
    tried = find_width(candidate, data, 1e-4)
    assert [one.enough for one in tried] == [False] * (len(tried) - 1) + [True]
    assert [one.width for one in tried] == [64 * 2**k for k in range(len(tried))]
    last = tried[-1]
    run = train(candidate.build(data, last.width), data, Recipe(step_size=last.step_size, target_loss=1e-4))
    assert run.ending == "reached the target loss"
    assert last.steps is not None
    assert abs(run.step - last.steps) <= 0.3 * run.step


def test_widths_end_where_networks_become_too_large(digits):
    data = prepare(digits, "unit")
    tried = find_width(Candidate("deep-relu", None, 1, "unit"), data, most_weights=65 * 40)
    assert [one.width for one in tried] == [32]
    found = plan(digits, networks=["deep-relu"], depths=[1], preparations=["unit"], most_weights=65 * 40)
    assert not recommended(found).wide_enough
    assert any("less than half" in reason for reason in recommended(found).reasons)
    assert any("grows with the width" in reason for reason in recommended(found).reasons)


@pytest.mark.parametrize("name", ["softplus", "erf"])
def test_proof_needs_the_closed_form(rng, name):
    """The proof ratio Λρ/s² of the network itself, from the bound on its Jacobian, is ½ at the width that is named."""
    data = prepare(spread(rng, n=6, d=20), "unit")
    (found,) = proof_needs({"unit": data}, [name])
    activation = get_activation(name)
    assert activation.smoothness is not None
    network = FullyConnected(20, 2, 1, activation)
    s2 = np.linalg.eigvalsh(np.asarray(limit_gram(network, data.x, names=["W1"])))[0]
    for width, scale in ((found.need, 1.0), (100.0, found.scale(100))):
        lipschitz = activation.smoothness * math.sqrt(activation.c_sigma / width) * scale * np.linalg.norm(data.x, 2)
        ratio = lipschitz * math.sqrt(data.n) / (scale**2 * s2)
        assert ratio == pytest.approx(0.5, rel=1e-6)
    assert found.width > found.need
    assert found.width % 2 == 0


def test_proof_needs_of_orthonormal_inputs_by_hand():
    z, w = np.polynomial.hermite_e.hermegauss(96)
    slope = (w / math.sqrt(2 * math.pi)) @ np.square(np.asarray(SOFTPLUS.derivative(jnp.asarray(z))))
    (found,) = proof_needs({"": Dataset(np.eye(5), np.array([1, -1, 1, -1, 1]), "binary")}, ["softplus", "relu"])
    assert found.smallest.value == pytest.approx(SOFTPLUS.c_sigma * slope, rel=1e-9)
    assert found.need == pytest.approx(SOFTPLUS.c_sigma * 4 * 0.25**2 * 5 / found.smallest.value**2, rel=1e-9)


def test_progress_counts_to_the_end(digits, undrawn):
    seen = []
    plan(digits, networks=["deep-relu"], depths=[1, 2], preparations=["unit"],
         progress=lambda now: seen.append((now.done, now.total, now.text)))  # fmt: skip
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert {total for _, total, _ in seen} == {4}
    assert seen[0][2] == "deep-relu, depth 1, prepared by unit"
    json.dumps(seen)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"networks": ["transformer"]}, "no network 'transformer'.*choose among fully-connected"),
        ({"networks": ["elman-rnn"]}, "elman-rnn takes sequences, 'digits' holds vectors"),
        ({"networks": []}, "networks must be a list of at least one"),
        ({"activations": ["swishy"]}, "no activation 'swishy'"),
        ({"depths": [0]}, "a depth must be a number of hidden layers >= 1, got 0"),
        ({"preparations": ["wash"]}, "'wash' is not a preparation step"),
        ({"target_loss": 0.0}, "target_loss must be a number > 0"),
    ],
)
def test_misuse_is_one_sentence(digits, options, words):
    with pytest.raises(InputError, match=words):
        plan(digits, **options)


@pytest.mark.parametrize(("own", "said"), [(0.1, False), (0.2, False), (0.201, True)])
def test_a_fast_network_that_learns_by_heart_is_told_from_twice_the_least_error(own, said):
    """The other candidate's error is 0.1: the sentence comes above 0.2, and names both errors and the steps."""
    one, ten = Enclosed(1.0, 0.0), Enclosed(10.0, 0.0)
    first = Row(Candidate("deep-relu", None, 3, "unit"), one, one, one, 7, own)
    slower = Row(Candidate("fully-connected", "erf", 2, "unit"), one, ten, ten, 900, 0.1)
    sentences = recommendation._left_out(first, [first, slower])
    assert len(sentences) == said
    if said:
        assert f"its error is 0.2 of the targets, and 0.1 with {slower.candidate}, in 900 steps" in sentences[0]
