import json
from dataclasses import replace

import numpy as np
import pytest

from wideproof.data import Dataset, ImageDataset, SequenceDataset, Step, from_labels
from wideproof.errors import InputError

X = np.arange(6.0).reshape(3, 2)
Y = np.array([1.0, -1.0, 1.0])
SEQ = np.ones((2, 3, 4))


def test_arrays_are_read_only_float64_copies():
    x = np.arange(6).reshape(3, 2)
    data = Dataset(x, np.array([1, -1, 1]), "binary")
    x[0, 0] = 99
    assert data.x.dtype == data.y.dtype == np.float64
    assert data.x[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        data.x[0, 0] = 1


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Dataset(np.array([[0, 1], [np.nan, 2]]), Y[:2], "binary"),
            r"row 1, column 0 .*remove that row",
        ),
        (lambda: Dataset(np.array([[0, 1], [2, np.inf]]), Y[:2], "binary"), r"holds inf at row 1, column 1"),
        (lambda: Dataset(X, np.array([1, np.nan, 1]), "regression"), r"target array .* row 1"),
        (lambda: Dataset(X, Y[:2], "binary"), r"3 inputs and targets of shape \(2,\): give one target"),
        (lambda: Dataset(X[0], Y, "binary"), r"must have shape \(n, columns\), got \(2,\): reshape"),
        (lambda: Dataset(np.empty((0, 2)), np.empty(0), "binary"), r"is empty .*give at least one example"),
        (
            lambda: Dataset(X, np.ones(3), "binary", classes=("2", "3")),
            r"holds only one class \('3'\).*use more",
        ),
        (
            lambda: Dataset(X, np.array([0, 1, 1]), "binary"),
            r"must be -1 or \+1, got 0 in row 0: .*`from_labels`",
        ),
        (
            lambda: Dataset(X, np.array([[1, 1], [1, -1], [-1, 1]]), "multiclass"),
            r"exactly one \+1, row 0 has 2",
        ),
        (lambda: Dataset(X, Y, "multiclass"), r"multiclass targets .* must have shape \(3, k\), got \(3,\)"),
        (
            lambda: Dataset(X, Y, "binary", classes=("a",)),
            r"2 classes and 1 class names: give one name for each class",
        ),
        (lambda: Dataset(X, Y, "clustering"), r"one of binary, multiclass, regression, got 'clustering'"),  # pyright: ignore[reportArgumentType]
        (lambda: Dataset(np.array([["a", "b"]]), Y[:1], "regression"), r"array of real numbers.*encode text"),
        (lambda: Dataset(X + 1j, Y, "binary"), r"array of real numbers.*complex128"),
        (lambda: Dataset([[1.0], [1.0, 2.0]], Y[:2], "binary"), r"every row the same length"),  # pyright: ignore[reportArgumentType]
        (lambda: ImageDataset(X, Y, "binary"), r"\(n, channels, pixels\), got \(3, 2\)"),
        (
            lambda: SequenceDataset(SEQ[:, :1], np.ones((2, 1, 1)), "regression"),
            r"length 1.*at least two tokens",
        ),
        (lambda: SequenceDataset(SEQ, np.ones((2, 1)), "regression"), r"\(2, 3, k\).*repeat a label"),
        (lambda: SequenceDataset(SEQ, np.ones((2, 3, 2)), "binary"), r"one output at each step, got 2"),
        (
            lambda: SequenceDataset(SEQ, np.array([[[1.0], [1], [-1]], [[1], [1], [1]]]), "binary"),
            r"change along sequence 0: repeat one label",
        ),
    ],
)
def test_bad_data_gets_a_sentence(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


def test_labels_shapes_and_digest():
    many = Dataset(X, np.array([[1, -1, -1], [-1, -1, 1], [-1, 1, -1]]), "multiclass")
    assert many.labels is not None
    assert many.labels.tolist() == [0, 2, 1]
    assert many.target_shape == (3,)
    sequence = SequenceDataset(SEQ, np.repeat([[[1.0]], [[-1.0]]], 3, axis=1), "binary")
    assert sequence.labels is not None
    assert sequence.labels.tolist() == [1, 0]
    assert Dataset(X, X[:, 0], "regression").labels is None
    one, two = Dataset(X, Y, "binary", name="a"), Dataset(X.copy(), Y, "binary", name="b")
    assert one.digest == two.digest != Dataset(X + 1e-15, Y, "binary").digest
    assert "digest" in repr(one)
    assert str(one) == "a: 3 examples of 2, binary"


def test_take_keeps_order_and_rejects_bad_positions():
    data = Dataset(X, Y, "binary")
    np.testing.assert_array_equal(data.take([2, 1]).x, X[[2, 1]])
    np.testing.assert_array_equal(data.take(np.array([True, True, False])).y, Y[:2])
    for bad in ([3], [0.5], np.array([True])):
        with pytest.raises(InputError, match="examples 0 to 2"):
            data.take(np.asarray(bad))
    with pytest.raises(InputError, match="only one class"):
        data.take([0, 2])
    with pytest.raises(InputError, match="is empty"):
        data.take([])


@pytest.mark.parametrize(
    ("labels", "task", "classes"),
    [
        ([True, False, True], "binary", ("False", "True")),
        (["b", "a", "b"], "binary", ("a", "b")),
        ([0.5, 1.5, 0.5], "binary", ("0.5", "1.5")),
        ([10, 9, 2], "multiclass", ("2", "9", "10")),
        ([1.0, 2.0, 3.0], "multiclass", ("1", "2", "3")),
        ([1.0, 2.5, 3.0], "regression", ()),
        (np.array(["x", 2, "y"], dtype=object), "multiclass", ("2", "x", "y")),
    ],
)
def test_from_labels_finds_the_task(labels, task, classes):
    data = from_labels(X, labels)
    assert (data.task, data.classes) == (task, classes)


def test_from_labels_more_whole_numbers_than_classes_are_regression():
    assert from_labels(np.ones((30, 1)), np.arange(30)).task == "regression"
    assert from_labels(np.ones((30, 1)), np.arange(30) % 20).task == "multiclass"


def test_from_labels_one_against_the_rest_and_sequences():
    data = from_labels(X, ["c", "a", "b"])
    np.testing.assert_array_equal(data.y, 2 * np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]]) - 1)
    sequence = from_labels(SEQ, [1, 0], kind="sequences")
    np.testing.assert_array_equal(sequence.y, np.repeat([[[1.0]], [[-1.0]]], 3, axis=1))
    assert from_labels(SEQ, np.zeros((2, 3, 5)), kind="sequences").target_shape == (3, 5)


def test_from_labels_classes_and_limit():
    x, labels = np.arange(10.0)[:, None], np.array(list("abcabcabca"))
    kept = from_labels(x, labels, classes=("c", "a"), limit=5)
    assert kept.classes == ("c", "a")
    np.testing.assert_array_equal(kept.x[:, 0], [0, 2, 3, 5])
    np.testing.assert_array_equal(kept.y, [1, -1, 1, -1])
    np.testing.assert_array_equal(from_labels(x, x[:, 0] / 3, limit=4).x, x[:4])
    assert from_labels(x, labels, limit=100).n == 10


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: from_labels(X, ["a", "b", "a"], classes=("a", "z")), r"no class 'z': choose among a, b"),
        (lambda: from_labels(X, ["a", "b", "a"], classes=("a",)), r"name at least two of a, b"),
        (lambda: from_labels(X, [1, 2, 3], task="binary"), r"holds 3 \(1, 2, 3\): choose two with `classes`"),
        (lambda: from_labels(X, ["a", "b", "3"], task="regression"), r"row 0 .* is 'a'"),
        (lambda: from_labels(X, [3, 3, 3]), r"only one class"),
        (lambda: from_labels(X, ["a", "", "b"]), r"row 1 .* is missing"),
        (lambda: from_labels(X, [1.0, np.nan, 2.0]), r"row 1 .* is missing"),
        (lambda: from_labels(X, np.array(["a", None, "b"], dtype=object)), r"row 1 .* is None"),
        (lambda: from_labels(X, [1, 2]), r"3 inputs and 2 labels"),
        (lambda: from_labels(X, [1, 2, 3], limit=2), r"`limit` is 2 and 'data' has 3 classes"),
        (lambda: from_labels(X, [1, 2, 3], limit=0), r"keep at least one example"),
        (lambda: from_labels(X, np.ones((3, 2)), task="binary"), r"one label for each example"),
        (
            lambda: from_labels(np.ones((50, 1)), [f"id{k}" for k in range(50)]),
            r"50 different texts.*`target`",
        ),
        (lambda: from_labels(X, 3), r"one for each row"),
        (lambda: from_labels(X, [1, 2, 3], kind="graphs"), r"one of vectors, images, sequences"),  # pyright: ignore[reportArgumentType]
        (lambda: from_labels(X[:0], []), r"is empty"),
    ],
)
def test_bad_labels_get_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


def test_step_round_trips_through_json():
    step = Step("whiten", (("rank", 2), ("mu", 0.1)), (("mean", np.array([1 / 3])),))
    again = Step.from_json(json.loads(json.dumps(step.to_json())), dict(step.arrays))
    assert again.settings == step.settings
    np.testing.assert_array_equal(again.array("mean"), step.array("mean"))
    with pytest.raises(InputError, match="needs the array 'mean'"):
        Step.from_json(step.to_json(), {})


@pytest.mark.parametrize(("y", "said"), [([0, 1, 1], "2 classes as 0 and 1 (a, b)"), ([[-1, 1], [1, -1], [1, -1]],
                         "2 classes as -1 and 1 (a, b)"), ([0.5, 1, 2], "regression (a, b)")])  # fmt: skip
def test_classes_as_plain_numbers_are_said_as_such(y, said):
    data = Dataset(np.eye(3), y, "regression", "tumours", classes=("a", "b"))
    assert str(data) == f"tumours: 3 examples of 3, {said}"
    assert said.partition(" (")[0] in data._repr_html_()
    several = " with 2 targets" if np.ndim(y) == 2 else ""
    assert str(replace(data, classes=())) == f"tumours: 3 examples of 3, regression{several}"
