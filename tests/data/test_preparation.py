import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from wideproof.answers import Answer
from wideproof.data import (
    PAPERS_NEED,
    Dataset,
    ImageDataset,
    SequenceDataset,
    Step,
    apply,
    audit,
    load,
    prepare,
    restore_targets,
)
from wideproof.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6)) @ RNG.normal(size=(6, 6)) + 3
Y = np.where(np.arange(40) % 2, 1.0, -1.0)
VECTORS = Dataset(X, Y, "binary")
IMAGES = ImageDataset(X.reshape(40, 2, 3), Y, "binary")
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


@pytest.mark.parametrize("paper", ["du2019", "zou2018", "frei2019"])
def test_each_paper_holds_after_what_it_needs(paper):
    assert audit(VECTORS, margin="never").holds(paper) is Answer.FAILS
    assert audit(prepare(VECTORS, PAPERS_NEED[paper])).holds(paper) is Answer.HOLDS


def test_padding_makes_the_recurrent_paper_hold():
    assert audit(SEQUENCES).holds("allenzhu2018") is Answer.FAILS
    assert audit(prepare(SEQUENCES, PAPERS_NEED["allenzhu2018"])).holds("allenzhu2018") is Answer.HOLDS


@pytest.mark.parametrize(
    ("data", "steps"),
    [
        (VECTORS, "whiten,constant(0.5)"),
        (VECTORS, "center,unit"),
        (VECTORS, "standardize,whiten,unit"),
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
    np.testing.assert_array_equal(iris.y > 0, load("iris").labels == 1)  # pyright: ignore
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
