import json
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import rankdata
from sklearn.decomposition import PCA
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from wideproof.answers import Answer
from wideproof.data import (
    PAPERS_NEED,
    Dataset,
    ImageDataset,
    SequenceDataset,
    Step,
    apply,
    audit,
    distinct,
    load,
    prepare,
    restore_targets,
)
from wideproof.data.packing import pack, unpack
from wideproof.data.preparation import merges
from wideproof.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6)) @ RNG.normal(size=(6, 6)) + 3
Y = np.where(np.arange(40) % 2, 1.0, -1.0)
VECTORS = Dataset(X, Y, "binary")
IMAGES = ImageDataset(X.reshape(40, 2, 3), Y, "binary")
CODED = Dataset(np.column_stack([X[:, 0], np.arange(40) * 7 % 5 / 3 - 1, Y, np.arange(40) // 3]), Y, "binary")
SEQUENCES = SequenceDataset(RNG.normal(size=(10, 4, 3)), RNG.normal(size=(10, 4, 2)) * 5 + 1, "regression")


def test_against_scikit_learn():
    np.testing.assert_allclose(prepare(VECTORS, "standardize").x, StandardScaler().fit_transform(X), atol=1e-12)
    ours, theirs = prepare(VECTORS, "whiten").x, PCA(whiten=True).fit_transform(X) * np.sqrt(40 / 39)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-10)
    np.testing.assert_allclose(ours.T @ ours / 40, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(prepare(VECTORS, "center").x, X - X.mean(axis=0))


def test_unit_constant_and_pad_do_what_their_papers_ask():
    np.testing.assert_allclose(prepare(VECTORS, "unit").x, X / np.linalg.norm(X, axis=1, keepdims=True), rtol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(prepare(IMAGES, "unit").x, axis=(1, 2)), 1, rtol=1e-14)
    mu = prepare(VECTORS, "constant(0.6)").x
    np.testing.assert_allclose(mu[:, :-1], 0.8 * X / np.linalg.norm(X, axis=1, keepdims=True), rtol=1e-13)
    assert (mu[:, -1] == 0.6).all()
    assert prepare(VECTORS, "constant").x[0, -1] == np.sqrt(0.5)
    u, padded = SEQUENCES.x, prepare(SEQUENCES, "pad").x
    scale = np.linalg.norm(u[:, 0], axis=1).max()
    np.testing.assert_allclose(np.linalg.norm(padded[:, 0], axis=1), 1, rtol=1e-15)
    np.testing.assert_allclose(padded[:, 0, :3], u[:, 0] / np.sqrt(2) / scale, rtol=1e-14)
    np.testing.assert_allclose(padded[:, 1:, :3], u[:, 1:] / np.linalg.norm(u[:, 1:], axis=2).max(), rtol=1e-14)
    assert not padded[:, 1:, 3:].any()
    assert abs(np.linalg.norm(prepare(SEQUENCES, "token_norm").x, axis=2).max() - 1) < 1e-15
    scalar = SequenceDataset(u[:, :, :1], SEQUENCES.y, "regression")
    assert prepare(scalar, "pad").input_shape == (4, 3)


@pytest.mark.parametrize(
    ("paper", "then"),
    # Frei et al. suppose something of every input that may occur, which no sample shows.
    [("du2019", Answer.HOLDS), ("zou2018", Answer.HOLDS), ("frei2019", Answer.UNDECIDED)],
)
def test_nothing_fails_after_what_a_paper_needs(paper, then):
    assert audit(VECTORS, margin="never").holds(paper) is Answer.FAILS
    assert audit(prepare(VECTORS, PAPERS_NEED[paper])).holds(paper) is then


def test_padding_makes_the_recurrent_paper_hold():
    assert audit(SEQUENCES).holds("allenzhu2018") is Answer.FAILS
    assert audit(prepare(SEQUENCES, PAPERS_NEED["allenzhu2018"])).holds("allenzhu2018") is Answer.HOLDS


@pytest.mark.parametrize(
    ("data", "steps"),
    [
        (VECTORS, "whiten,constant(0.5)"),
        (VECTORS, "center,unit"),
        (VECTORS, "standardize,whiten,unit"),
        (CODED, "onehot,standardize,sphere(4)"),
        (CODED, "onehot(14),whiten"),
        (CODED, "ranks,whiten,sphere"),
        (IMAGES, "standardize,unit"),
        (SEQUENCES, "standardize,pad,scale_targets"),
        (SEQUENCES, "center,token_norm"),
    ],
)
def test_new_points_get_the_same_bits(data, steps):
    prepared = prepare(data, steps)
    for rows in (slice(None), slice(3, 4), [5, 2], slice(None, None, -1), slice(1, 8)):
        np.testing.assert_array_equal(apply(prepared.preparation, data.x[rows]), prepared.x[rows])
    again = [Step.from_json(json.loads(json.dumps(s.to_json())), dict(s.arrays)) for s in prepared.preparation]
    np.testing.assert_array_equal(apply(again, data.x), prepared.x)


@settings(max_examples=30, deadline=None)
@given(arrays(np.float64, (5, 3), elements=st.floats(-1e150, 1e150, allow_subnormal=False)))
def test_unit_on_any_numbers(x):
    data = Dataset(x, np.arange(5) / 3, "regression")
    if x.any(axis=1).all():
        np.testing.assert_allclose(np.linalg.norm(prepare(data, "unit").x, axis=1), 1, rtol=1e-15)
    else:
        with pytest.raises(InputError, match=f"row {int(np.argmin(x.any(axis=1)))} .* is zero"):
            prepare(data, "unit")


def test_indicators_against_scikit_learn():
    """Columns with 40, 5, 2 and 14 different values: the second becomes indicators, with onehot(14) the last too."""
    theirs = OneHotEncoder(sparse_output=False).fit_transform
    x, five, fourteen = CODED.x, theirs(CODED.x[:, 1:2]), theirs(CODED.x[:, 3:])
    np.testing.assert_array_equal(prepare(CODED, "onehot").x, np.hstack([x[:, :1], five, x[:, 2:]]))
    np.testing.assert_array_equal(prepare(CODED, "onehot(14)").x, np.hstack([x[:, :1], five, x[:, 2:3], fourteen]))
    assert prepare(CODED, "onehot").preparation[0].setting("columns") == 1
    np.testing.assert_array_equal(prepare(VECTORS, "onehot").x, X)
    few = Dataset(CODED.x[:9, 1:2], np.arange(9.0), "regression")  # 5 values in 9 rows are measurements
    assert prepare(few, "onehot").input_shape == (1,)


def test_a_code_that_no_row_has_gets_no_indicator():
    steps = prepare(CODED, "onehot").preparation
    new = np.array([[9.0, -0.5, 1.0, 2.5], [9.0, CODED.x[0, 1], 3.0, 2.5]])
    np.testing.assert_array_equal(apply(steps, new)[0], [9, 0, 0, 0, 0, 0, 1, 2.5])
    assert apply(steps, new)[1].sum() == 9 + 1 + 3 + 2.5


def test_normal_scores_against_another_route():
    x = prepare(CODED, "ranks").x
    for column, scores in zip(CODED.x.T, x.T, strict=True):
        wanted = [NormalDist().inv_cdf((rank - 0.5) / 40) for rank in rankdata(column)]
        np.testing.assert_allclose(scores, wanted, atol=1e-13)
    still = Dataset(np.full((3, 1), 7.0), np.arange(3.0), "regression")
    assert not prepare(still, "ranks").x.any()


def test_new_values_are_interpolated_and_stop_at_the_ends():
    data = Dataset(np.array([[1.0], [2.0], [4.0], [4.0]]), np.arange(4.0), "regression")
    steps, (low, middle, high) = prepare(data, "ranks").preparation, map(NormalDist().inv_cdf, (1 / 8, 3 / 8, 3 / 4))
    new = apply(steps, [[-9.0], [1.0], [1.25], [3.0], [4.0], [1e300]]).ravel()
    np.testing.assert_allclose(new, [low, low, 0.75 * low + 0.25 * middle, (middle + high) / 2, high, high])


VALUES = st.one_of(st.floats(-1.7e308, 1.7e308), st.sampled_from([-1.0, 0.0, -0.0, 5e-324, 1e-323, 2.0]))


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, (8, 2), elements=VALUES), arrays(np.float64, (5, 2), elements=VALUES))
@pytest.mark.parametrize("steps", ["onehot", "onehot(3)", "ranks"])
def test_columns_on_any_numbers(steps, x, new):
    """Equal rows stay equal, different ones different; bits do not depend on the batch, scores rise with the values."""
    data = Dataset(x, np.arange(8) / 3, "regression")
    ready = prepare(data, steps)
    np.testing.assert_array_equal(distinct(ready).place, distinct(data).place)
    both = np.concatenate([x, new])
    found = apply(ready.preparation, both)
    np.testing.assert_array_equal(found[:8], ready.x)
    np.testing.assert_array_equal(np.concatenate([apply(ready.preparation, row[None]) for row in both]), found)
    if steps == "ranks":
        for column, scores, own in zip(both.T, found.T, ready.x.T, strict=True):
            assert (np.diff(scores[np.argsort(column, kind="stable")]) >= 0).all()
            assert own.min() <= scores.min()
            assert scores.max() <= own.max()


def test_a_map_that_is_not_one_to_one_is_seen():
    """Planted: two values with one score, and two codes with one indicator, make different rows equal."""
    data = Dataset(CODED.x[:, 1:2], Y, "binary")
    for name, key in (("ranks", "scores"), ("onehot", "values")):
        (step,) = prepare(data, name).preparation
        held = dict(step.arrays)
        assert not merges(data, replace(data, x=apply([step], data.x)))
        flat = held[key].copy()
        flat[:2] = flat[1] if name == "ranks" else -9
        bad = Step(name, step.settings, tuple((held | {key: flat}).items()))
        assert merges(data, replace(data, x=apply([bad], data.x)))


@pytest.mark.parametrize("data", [CODED, VECTORS])
@pytest.mark.parametrize("steps", ["onehot,standardize", "ranks,sphere(2)"])
def test_fitted_columns_are_stored(data, steps, tmp_path):
    """Where no column qualifies, too: then the arrays of a step are empty."""
    from safetensors.numpy import load_file, save_file

    ready = prepare(data, steps)
    tensors, meta = pack(ready)
    save_file(tensors, tmp_path / "data.safetensors")
    again = unpack(load_file(tmp_path / "data.safetensors"), json.loads(json.dumps(meta)))
    np.testing.assert_array_equal(apply(again.preparation, data.x), ready.x)


def test_constant_columns_and_lost_directions():
    x = np.column_stack([X, np.full(40, 0.1), X[:, 0] + X[:, 1]])
    data = Dataset(x, Y, "binary")
    standard = prepare(data, "standardize")
    assert not standard.x[:, 6].any()
    assert standard.preparation[0].setting("constant_columns") == 1
    assert not apply(standard.preparation, x + 1)[:, 6].any()
    white = prepare(data, "whiten")
    assert white.input_shape == (6,)
    assert white.preparation[0].setting("dropped") == 2


def test_targets():
    y = np.column_stack([np.arange(40.0), 3 - 10 * np.arange(40.0) ** 2])
    data = prepare(Dataset(X, y, "regression"), "unit,scale_targets")
    np.testing.assert_allclose(data.y, (y - y.mean(axis=0)) / y.std(axis=0))
    np.testing.assert_allclose(restore_targets(data.preparation, data.y), y, atol=1e-10)
    iris = prepare(load("iris"), "binarize(versicolor)")
    assert (iris.task, iris.classes) == ("binary", ("not versicolor", "versicolor"))
    np.testing.assert_array_equal(iris.y > 0, load("iris").labels == 1)
    rows = prepare(load("digits-rows"), "binarize(3)")
    assert rows.target_shape == (8, 1)


def test_the_record_is_kept_in_order():
    data = prepare(prepare(VECTORS, "unit"), ["whiten", "constant(0.25)"])
    assert [step.name for step in data.preparation] == ["unit", "whiten", "constant"]
    assert "prepared by unit, whiten, constant(mu=0.25)" in str(data)
    assert prepare(VECTORS, "").digest == VECTORS.digest


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: prepare(VECTORS, "pad"), r"`pad` prepares sequences, 'data' holds vectors: use `unit` or"),
        (
            lambda: prepare(SEQUENCES, "unit"),
            r"`unit` prepares vectors and images, .*use `pad` or `token_norm`",
        ),
        (lambda: prepare(IMAGES, "constant"), r"holds images: use `unit` for images"),
        (lambda: prepare(IMAGES, "whiten"), r"`whiten` prepares vectors, .*use `standardize`"),
        (lambda: prepare(VECTORS, "wash"), r"'wash' is not a preparation step: use center, standardize"),
        (lambda: prepare(VECTORS, "unit(3)"), r"`unit` takes no argument, got '3'"),
        (lambda: prepare(VECTORS, "constant(1.5)"), r"between 0 and 1, got '1.5': try constant\(0.5\)"),
        (lambda: prepare(VECTORS, "constant(big)"), r"between 0 and 1, got 'big'"),
        (lambda: prepare(VECTORS, "onehot(2)"), r"at least 3, got '2': try onehot\(12\)"),
        (lambda: prepare(VECTORS, "onehot(many)"), r"number of values .* got 'many'"),
        (lambda: prepare(IMAGES, "onehot"), r"`onehot` prepares vectors, .*use `standardize`"),
        (lambda: prepare(SEQUENCES, "ranks"), r"`ranks` prepares vectors, .*use `standardize`"),
        (lambda: prepare(VECTORS, "ranks(3)"), r"`ranks` takes no argument, got '3'"),
        (lambda: prepare(VECTORS, "scale_targets"), r"is for regression, 'data' is binary"),
        (lambda: prepare(VECTORS, "binarize(1)"), r"needs more than two classes"),
        (lambda: prepare(load("iris"), "binarize(rose)"), r"use one of setosa, versicolor, virginica"),
        (
            lambda: prepare(Dataset(X, np.full(40, 2.5), "regression"), "scale_targets"),
            r"is constant.*leave it out",
        ),
        (
            lambda: prepare(Dataset(np.ones((3, 2)), np.arange(3.0), "regression"), "whiten"),
            r"all rows .* are equal",
        ),
        (
            lambda: apply(prepare(VECTORS, "unit").preparation, X[:, :3]),
            r"fitted on inputs of shape 6, got .*\(40, 3\)",
        ),
        (lambda: apply(prepare(VECTORS, "unit").preparation, X[0]), r"one in each row"),
        (lambda: apply(prepare(VECTORS, "unit").preparation, X * np.nan), r"holds nan at row 0, column 0"),
        (lambda: apply([Step("wash")], X), r"step 'wash' is unknown"),
    ],
)
def test_misuse_gets_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()
