import pickle
import sys
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits

from wideproof.data import ImageDataset, SequenceDataset, load
from wideproof.errors import InputError

ERROR = {"missing": "error"}
TABLE = np.array([[1.5, -2.0, 0.0], [3e-3, 4.0, 1.0], [5.0, 6.25, 0.0]])


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", "   ", ", "])
@pytest.mark.parametrize("header", ["", "a{0}b{0}t\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_text_tables_in_every_dress(tmp_path, delimiter, header, start):
    body = "\n".join(delimiter.join(repr(float(v)) for v in row) for row in TABLE)
    path = write(tmp_path, "t.csv", start + header.format(delimiter).encode() + body.encode() + b"\n\n")
    data = load(path)
    np.testing.assert_array_equal(data.x, TABLE[:, :2])
    np.testing.assert_array_equal(data.y, [-1, 1, -1])
    assert data.name == "t"


def test_target_by_name_position_and_text(tmp_path):
    path = write(tmp_path, "t.csv", '"kind",a,b\n"x, y",1,2\nz,3,4\n')
    for target in ("kind", 0, -3, "0"):
        data = load(path, target=target)
        assert data.classes == ("x, y", "z")
        np.testing.assert_array_equal(data.x, [[1, 2], [3, 4]])
    assert load(path, target="kind", header=True).n == 2
    savetxt = tmp_path / "s.txt"
    np.savetxt(savetxt, TABLE, header="a b t")
    np.testing.assert_array_equal(load(savetxt, target="t").x, TABLE[:, :2])


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ("", {}, r"t.csv is empty: give a table"),
        ("\n\n", {}, r"t.csv is empty"),
        ("a,b,c\n", {}, r"holds a header only: add one row"),
        ("1\n2\n", {}, r"has one column: give at least one input column and a target"),
        ("a,b\n1,2\n3\n", {}, r"t.csv, line 3: 1 fields where line 1 has 2: give every row"),
        (
            "a,b\n\n1,2\nx,4\n5,6\n",
            {},
            r"t.csv, line 4, column 'a' holds the text 'x'.*encode the column",
        ),
        (
            "1,2\n,4\n",
            ERROR,
            r"t.csv, line 2, column 1 \(counting from 1\) is empty, a missing value: fill it in or remove the row",
        ),
        ("1,2\nNA,4\n", ERROR, r"line 2, column 1 \(counting from 1\) holds 'NA', a missing value"),
        ("1,2\nnan,4\n", ERROR, r"line 2, column 1 \(counting from 1\) holds 'nan', a missing value"),
        ("1,2\n3,\n", ERROR, r"line 2, column 2 \(counting from 1\) is empty, a missing value"),
        ("1,2\n3,4\n", {"missing": "guess"}, r"one of fill, drop, error, got 'guess'"),
        ("1,2\ninf,4\n", {}, r"line 2, column 1 \(counting from 1\) holds inf: give a finite number"),
        (
            "1,2\n1700000000000000001,4\n",
            {},
            r"column 1 \(counting from 1\) holds 1700000000000000001, which has more digits",
        ),
        (
            "1,9007199254740993\n3,4\n",
            {},
            r"column 2 \(counting from 1\) holds 9007199254740993, which has more digits",
        ),
        ("a,b\n1,2\n3,4\n", {"target": "c"}, "no column 'c', its columns are a, b: choose"),
        ("1,2\n3,4\n", {"target": "c"}, "no column 'c', it has no header"),
        ("a,a,b\n1,2,3\n3,4,5\n", {"target": "a"}, r"2 columns called 'a': choose the target by position"),
        ("1,2\n3,4\n", {"target": 2}, r"2 columns, so there is no target at position 2: use 0 to 1"),
        ("a,b\n1,2\n3,4\n", {"header": False}, r"line 1, column 1 \(counting from 1\) holds the text 'a'"),
        ('1,"2\n3,4\n', {}, r"t.csv cannot be read as a table .*check its quotes"),
        (b"1\x00,\x002\x00", {}, r"t.csv is not text .*save it as UTF-8"),
        (b"\xff\xfe1\x00,\x002", {}, r"t.csv is not text .*save it as UTF-8"),
        ("1,2\n3,4\n", {"target": "--5"}, r"no column '--5'"),
        ("1,2\n3,4\n", {"target": 1.5}, r"must be a name or a position, got 1.5"),
        ("1,2\n3,4\n", {"target": "²"}, r"no column '²'"),
        ("1,2\n" + "3," * 80 + "4\n", {}, r"line 2: 81 fields where line 1 has 2"),
        ("1,2\n1,2\n1,2,3\n", {}, r"t.csv, line 3: 3 fields where line 1 has 2"),
        ("1,2,3\n4,5,6\n", {"kind": "images"}, r"one class|not a square image"),
        ("1,2\n3,4\n", {"kind": "graphs"}, r"one of vectors, images, sequences, got 'graphs'"),
    ],
)
def test_bad_text_gets_a_sentence(tmp_path, content, options, sentence):
    with pytest.raises(InputError, match=sentence):
        load(write(tmp_path, "t.csv", content), **options)


def test_numpy_files(tmp_path):
    np.save(tmp_path / "t.npy", TABLE)
    np.savez(tmp_path / "t.npz", X=TABLE[:, :2], Target=np.array(["u", "v", "u"]))
    np.savez(tmp_path / "s.npz", data=np.ones((3, 4, 2)), other=[0, 1, 0], y=[[1.0], [2.0], [3.5]])
    assert load(tmp_path / "t.npy").digest == load(tmp_path / "t.npz").digest
    assert load(tmp_path / "t.npy", target=0).task == "regression"
    assert isinstance(load(tmp_path / "s.npz", kind="images"), ImageDataset)
    assert load(tmp_path / "s.npz", kind="images", target="other").task == "binary"
    assert load(tmp_path / "s.npz", kind="sequences").target_shape == (4, 1)


def test_bad_numpy_files_get_a_sentence(tmp_path):
    np.save(tmp_path / "object.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "object.npz", x=np.array([{}], dtype=object), y=[1])
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "text.npy", np.array([["a", "b"]]))
    np.savez(tmp_path / "keys.npz", a=[1], b=[2])
    np.savez(tmp_path / "both.npz", x=TABLE, X=TABLE, y=[1, 2, 3])
    np.savez(tmp_path / "ok.npz", x=TABLE, y=[1, 2, 3])
    np.savez(tmp_path / "three.npz", x=np.ones((3, 4, 2)), y=[1, 2, 3])
    np.savez(tmp_path / "row.npz", x=np.ones(3), y=[1, 2, 3])
    write(tmp_path, "cut.npz", (tmp_path / "ok.npz").read_bytes()[:-60])
    np.save(tmp_path / "whole.npy", TABLE)
    write(tmp_path, "cut.npy", (tmp_path / "whole.npy").read_bytes()[:-8])
    write(tmp_path, "short.npy", b"\x93NUMPY\x01")
    write(tmp_path, "empty.npy", b"")
    write(tmp_path, "text.npz", b"not a zip file")
    (tmp_path / "single.npz").write_bytes((tmp_path / "whole.npy").read_bytes())
    write(tmp_path, "plain.npy", pickle.dumps([1, 2]))
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("x.npy", b"garbage")
        archive.writestr("y.npy", b"garbage")
    expected = {
        "object.npy": r"object.npy is refused: it needs pickle, which can run code",
        "plain.npy": r"refused: it needs pickle, which can run code",
        "object.npz": r"refused: it needs pickle, which can run code",
        "text.npz": r"text.npz is damaged .*neither an array nor an archive",
        "cut.npz": r"cut.npz is damaged or not a NumPy file .*write it again",
        "cut.npy": r"cut.npy is damaged or not a NumPy file",
        "short.npy": r"damaged or not a NumPy file",
        "empty.npy": r"damaged or not a NumPy file",
        "other.npz": r"other.npz is damaged .*a member is no array",
        "flat.npy": r"array of shape \(3,\): give two axes",
        "text.npy": r"give real numbers",
        "keys.npz": r"holds a, b: save the inputs under the key 'x'",
        "both.npz": r"holds both 'x' and 'X': keep one",
        "three.npz": r"say what they are with `kind`",
        "row.npz": r"give one row for each example",
        "single.npz": r"rename it to .npy",
    }
    for name, sentence in expected.items():
        with pytest.raises(InputError, match=sentence):
            load(tmp_path / name)
    with pytest.raises(InputError, match=r"no array 'z': choose the target among x, y"):
        load(tmp_path / "ok.npz", target="z")


def test_parquet(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3], "kind": ["u", "v", "u"], "b": [0.5, 1.5, 2.5]}), path)
    data = load(path, target="kind")
    np.testing.assert_array_equal(data.x, [[1, 0.5], [2, 1.5], [3, 2.5]])
    assert data.classes == ("u", "v")
    assert load(path).encoding.inputs == ("a", "kind=u", "kind=v")  # pyright: ignore[reportOptionalMemberAccess]
    pq.write_table(pa.table({"a": [1, None, 3], "b": [1, 2, 3]}), path)
    with pytest.raises(InputError, match=r"row 1 .*column 'a' is a missing value"):
        load(path, missing="error")
    pq.write_table(pa.table({"a": [1, 2]}), path)
    with pytest.raises(InputError, match=r"2 rows and 1 columns"):
        load(path)
    write(tmp_path, "t.parquet", b"PAR1 nothing")
    with pytest.raises(InputError, match=r"damaged or not a Parquet file"):
        load(path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r'pip install "wideproof\[parquet\]"'):
        load(path)


def test_places_that_are_no_data(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*: give a path .*digits.*sphere"):
        load(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match=r"is a directory: name one file"):
        load(tmp_path)
    with pytest.raises(InputError, match=r"ends in '.ods': save it as one of .csv"):
        load(write(tmp_path, "t.ods", "1,2"))


def test_what_is_misspelt_gets_a_hint(tmp_path, monkeypatch):
    path = write(tmp_path, "prices.csv", "size,price,kind\n1,2,large\n2,3.5,small\n")
    np.savez(tmp_path / "t.npz", x=np.eye(2), labels=[0, 1])
    monkeypatch.chdir(tmp_path)
    alike: list[tuple[Any, dict[str, Any], str]] = [
        (path, {"target": "prise"}, "price"),
        (path, {"target": "Price"}, "price"),
        ("t.npz", {"target": "label"}, "labels"),
        ("iris", {"classes": ("Setosa", "virginica")}, "setosa"),
        (tmp_path / "price.csv", {}, "prices.csv"),
        ("prices.cvs", {}, "prices.csv"),
        ("breast-cancer", {}, "breast_cancer"),
        ("spere:n=6,d=3,separation=0.5", {}, "sphere"),
    ]
    for source, options, name in alike:
        with pytest.raises(InputError, match=rf" \(did you mean '{name}'\?\)"):
            load(source, **options)
    other: list[dict[str, Any]] = [
        {"source": path, "target": "city"},
        {"source": "digits", "classes": (0, 12)},
        {"source": "nowhere.csv"},
    ]
    for options in other:
        with pytest.raises(InputError) as refused:
            load(**options)
        assert "did you mean" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "shape", "task"),
    [
        ("digits", (64,), "multiclass"),
        ("digits-images", (8, 8), "multiclass"),
        ("digits-rows", (8, 8), "multiclass"),
        ("breast_cancer", (30,), "binary"),
        ("wine", (13,), "multiclass"),
        ("iris", (4,), "multiclass"),
        ("diabetes", (10,), "regression"),
    ],
)
def test_bundled(name, shape, task):
    data = load(name)
    assert (data.input_shape, data.task, data.name) == (shape, task, name)


def test_digits_are_the_scans_and_limit_is_balanced():
    scans: Any = load_digits()
    data = load("digits-images", classes=(0, 1), limit=10)
    chosen = np.sort(np.concatenate([np.flatnonzero(scans.target == k)[:5] for k in (0, 1)]))
    np.testing.assert_array_equal(data.x, scans.images[chosen])
    np.testing.assert_array_equal(data.y, np.where(scans.target[chosen] == 1, 1, -1))
    assert load("digits", kind="images", classes=(0, 1), limit=10).digest == data.digest
    assert isinstance(load("digits", kind="sequences", limit=20), SequenceDataset)
    with pytest.raises(InputError, match=r"no class '12': choose among 0, 1, 2"):
        load("digits", classes=(1, 12))
    with pytest.raises(InputError, match=r"own target: leave out `target`"):
        load("digits", target="x")


def test_rows_that_are_not_used_are_told():
    assert load("breast_cancer", limit=200).notes == (
        "2 classes: benign (100) and malignant (100); 200 of 569 rows are used (limit)",
    )
    assert (
        load("iris", classes=("setosa", "virginica"), limit=20)
        .notes[0]
        .endswith("20 of 150 rows are used (classes and limit)")
    )
    assert load("iris", classes=("setosa", "virginica")).notes[0].endswith("; 100 of 150 rows are used (classes)")
    assert load("digits").notes == ()  # too many classes for a line, and every row
    assert load("diabetes", limit=42).notes == ("42 of 442 rows are used (limit)",)
    assert load("sphere:n=6,d=3,separation=0.5", limit=4).notes == ("4 of 6 rows are used (limit)",)
    assert load((np.eye(3), np.ones((3, 2))), limit=2).notes == ("2 of 3 rows are used (limit)",)


def test_classes_that_differ_only_in_case_are_told(tmp_path):
    rows = "".join(f"{k},{answer}\n" for k, answer in enumerate(["No", "no ", "yes", "no"] * 3))
    data = load(write(tmp_path, "t.csv", "a,answer\n" + rows))
    assert data.classes == ("No", "no", "yes")
    assert data.notes[1] == "3 classes: No (3), no (6) and yes (3)"
    assert data.notes[2].startswith("'No' and 'no' are two classes: ")
    assert "write them alike" in data.notes[2]
    many = load((np.eye(4), ["A b", "a  B", "A B", "c"])).notes
    assert many[1].startswith("'A B', 'A b' and 'a B' are 3 classes: ")
    assert not any("alike" in note for note in load("iris").notes)


def test_generator_specs():
    data = load("sphere:n=20,d=3,separation=0.1", seed=4, limit=4)
    assert data.n == 4
    assert load("sphere:n=6,d=3,separation=0.3,seed=4").digest == load("sphere:n=6,d=3,separation=0.3", seed=4).digest
    assert load("xor").n == 4
    assert load("two_classes:n=4,d=3,separation=0.3,mu=0.5").x[0, -1] == 0.5
    assert load("sequences:n=4,length=3,features=4,separation=0.3,tail=zero").input_shape == (3, 4)
    assert load("teacher:n=9,d=3", limit=5).n == 5
    for spec, sentence in {
        "sphere:n=6": r"needs d, separation: write sphere:n=\.\.\.,d=",
        "sphere:n=6,d=3,separation=0.3,colour=1": r"does not understand 'colour=1': write sphere",
        "sphere:n=6.5,d=3,separation=0.3": r"needs a whole number for `n`, got '6.5'",
        "sphere:n=6,d=3,separation=wide": r"needs a number for `separation`, got 'wide'",
        "sphere:6": r"does not understand '6'",
    }.items():
        with pytest.raises(InputError, match=sentence):
            load(spec)
    with pytest.raises(InputError, match=r"makes its own targets: leave out `classes`"):
        load("xor", classes=(0, 1))
