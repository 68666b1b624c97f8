"""How tables are read: files of every dress, numbers to the last digit, frames, pairs and data sets."""

import io
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.data.tools import inputs, notes, written
from wideproof.data import Dataset, encode, from_labels, load
from wideproof.data.words import plain
from wideproof.errors import InputError

# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.tsv", "a\tb\ty\n3,14\t1\tu\n-2,5e1\t2\tv\n"),
        ("t.csv", "a;b;y\n3,14;1;u\n-2,5e1;2;v\n"),
        ("t.csv", 'a,b,y\n"3,14",1,u\n"-2,5e1",2,v\n'),
        ("t.txt", "a  b y\n3,14  1 u\n\n -2,5e1 2 v\n"),
        ("t.csv", "sep=|\na|b|y|\n3,14|1|u|\n-2,5e1|2|v|\n"),
    ],
)
def test_decimal_commas_are_found_out(tmp_path, name, content):
    data = load(written(tmp_path, content, name))
    np.testing.assert_array_equal(data.x, [[3.14, 1], [-25, 2]])
    assert data.classes == ("u", "v")
    assert notes(data) == ("2 columns: 2 numbers with decimal commas",)


def test_blanks_between_decimal_commas(tmp_path):
    np.testing.assert_array_equal(load(written(tmp_path, "3,14 1,5 0\n2,71 2,5 1\n")).x, [[3.14, 1.5], [2.71, 2.5]])


@pytest.mark.parametrize("field", ["1,234", "1.234,5", "1 234", "1'234.5"])
def test_marks_between_thousands_are_refused(tmp_path, field):
    with pytest.raises(InputError, match=r"line 2, column 'a' holds '1.*decimals or thousands: write a decimal"):
        load(written(tmp_path, f"a;y\n{field};0\n2;1\n"))


@pytest.mark.parametrize("field", ["1,5", "1,234"])
def test_targets_with_decimal_commas_beside_decimal_points_are_no_classes(tmp_path, field):
    with pytest.raises(InputError, match=rf"line 2, column 'y' holds '{field}'.* decimal point"):
        load(written(tmp_path, f"a;y\n1.5;{field}\n2.5;1,7\n"))


def test_the_name_of_a_target_decides_nothing(tmp_path):
    rows = [f"{k},{'x' if k == 5 else k % 3}" for k in range(30)]
    data = load(written(tmp_path, "\n".join(["a,decimal values of 1", *rows]) + "\n"))
    assert sorted(data.classes) == ["0", "1", "2", "x"]


def test_a_misspelt_number_among_the_targets_is_named(tmp_path):
    rows = [f"{k},{1.5 * k if k != 5 else '12oo'}" for k in range(30)]
    with pytest.raises(InputError, match=r"line 7, column 'rent' holds the text '12oo' where a number is needed"):
        load(written(tmp_path, "\n".join(["area,rent", *rows]) + "\n"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends(tmp_path, encoding, newline):
    content = newline.join(["größe,y", "1,früh", "", "2,spät", ""])
    data = load(written(tmp_path, content, encoding=encoding))
    assert (inputs(data), data.classes) == (("größe",), ("früh", "spät"))
    assert data.rows is not None
    assert data.rows.tolist() == [2, 4]


def test_quoted_separators_and_line_breaks(tmp_path):
    data = load(written(tmp_path, 'a,t,y\n1,"x\ny",0\n2,"x, ""z""",1\n\n3,q,1\n'))
    assert inputs(data) == ("a", "t=q", "t=x\\ny", 't=x, "z"')
    assert data.rows is not None
    assert data.rows.tolist() == [3, 4, 6]


def test_a_header_of_a_table_of_texts(tmp_path):
    body = "red,round,apple\nred,long,pepper\ngreen,round,apple\ngreen,long,pepper\n"
    assert load(written(tmp_path, "color,shape,kind\n" + body)).n == load(written(tmp_path, body)).n == 4


def test_all_complaints_come_at_once(tmp_path):
    columns = "abcdefg"
    rows = ["1,2,3,4,5,6,7,0", *("x,inf,1700000000000000001,x,x,x,x,1" for _ in range(1)), "1,2,3,4,5,6,7,1"]
    path = written(tmp_path, "\n".join([",".join([*columns, "y"]), *rows]))
    with pytest.raises(InputError) as caught:
        load(path)
    sentence = str(caught.value)
    assert sentence.startswith("t.csv has 7 problems: (1) line 3, column 'a' holds the text 'x'")
    assert "(2) line 3, column 'b' holds inf: give a finite number; (3)" in sentence
    assert "more digits than float64 keeps" in sentence
    assert sentence.endswith("; and 2 more")
    assert "\n" not in sentence


def test_control_characters_never_reach_a_terminal(tmp_path):
    data = load(written(tmp_path, "a\x1b[31m,y\n1,\x1b[31mred\n2,blue\n"), name="evil\x07")
    assert (data.name, data.classes, inputs(data)) == ("evil\\x07", ("\\x1b[31mred", "blue"), ("a\\x1b[31m",))
    with pytest.raises(InputError) as caught:
        load(written(tmp_path, "a\x1b[31m,b,y\n1,2,3\n\x1b[2Jx,4,5\n5,5,5\n"), target="b")
    assert str(caught.value).isprintable()
    assert Dataset(np.eye(2), np.array([1, -1]), "binary", classes=("\x1b", "b")).classes == ("\\x1b", "b")
    assert plain("tab\tand\u202eturn") == "tab\\tand\\u202eturn"


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("0.1234567890123456789", "0.1234567890123456788"),
        ("1.00000000000000000001", "1"),
        ("1e-400", "0"),
        ("12345678901234567.5", "12345678901234567.25"),
    ],
)
def test_decimals_that_only_float64_merges_are_refused(tmp_path, one, two):
    assert float(one) == float(two)
    assert Decimal(one) != Decimal(two)
    for separator, mark in ((",", "."), (";", ",")):
        lines = [f"{value}{separator}{label}" for value, label in ((one, 0), ("0.5", 1), (two, 1))]
        path = written(tmp_path, "\n".join(["a" + separator + "y", *lines]).replace(".", mark))
        with pytest.raises(InputError, match=r"column 'a' holds in lines 2 and 4 two different numbers, .*offset"):
            load(path)


def test_decimals_written_differently_are_one_number(tmp_path):
    data = load(written(tmp_path, "a,y\n1.0000000000000000000,0\n1,0\n1.00,0\n10e-1,0\n0.12345678901234567891,1\n"))
    np.testing.assert_array_equal(data.x[:, 0], [1, 1, 1, 1, 0.12345678901234567891])


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.longdouble])
def test_numbers_beyond_float64_are_refused_wherever_they_come_from(tmp_path, dtype):
    good, bad = np.array([[2**53, 1], [2**53 + 2, 2]], dtype=dtype), np.array([[2**53, 1], [2**53 + 1, 2]], dtype=dtype)
    if bad.dtype.itemsize == 8 and bad.dtype.kind == "f":
        pytest.skip("long double is float64 here")
    np.testing.assert_array_equal(load((good, [0, 1])).x, [[2.0**53, 1], [2.0**53 + 2, 2]])
    sources: list = [(bad, [0, 1])]
    np.save(tmp_path / "bad.npy", np.column_stack([bad, np.array([0, 1], dtype=dtype)]))
    np.savez(tmp_path / "bad.npz", x=bad, y=[0, 1])
    sources += [tmp_path / "bad.npy", tmp_path / "bad.npz"]
    if np.dtype(dtype).kind in "iu":
        sources += [pd.DataFrame({"a": bad[:, 0], "y": [0, 1]}), pa.table({"a": bad[:, 0], "y": [0, 1]})]
        sources += [pa.table({"a": [2**53 + 1, None, 1], "y": [0, 1, 0]})]  # no detour over float64 beside a null
        sources += [pd.DataFrame({"a": pd.array([2**53 + 1, None], dtype="Int64"), "y": [0, 1]})]
    for source in sources:
        with pytest.raises(InputError, match="which has more digits than float64 keeps"):
            load(source)
    with pytest.raises(InputError, match="which has more digits than float64 keeps"):
        Dataset(bad, np.zeros(2), "regression")


def test_whole_labels_beyond_float64_stay_apart():
    labels = [2**53, 2**53 + 1, 2**53]
    assert from_labels(np.eye(3), labels).classes == (str(2**53), str(2**53 + 1))
    with pytest.raises(InputError, match="more digits"):
        from_labels(np.eye(3), labels, task="regression")


def test_labels_with_leading_zeros_are_text(tmp_path):
    assert load(written(tmp_path, "a,y\n1,007\n2,7\n3,007\n")).classes == ("007", "7")
    assert load(written(tmp_path, "a,y\n1,3\n2,3.0\n3,4\n")).classes == ("3", "4")
    assert load(written(tmp_path, "a,y\n1,0\n2,0.5\n3,0.25\n")).task == "regression"
    assert load(written(tmp_path, "a,y\n1,007\n2,7\n3,008\n"), classes=("008", "007")).classes == ("008", "007")


def header_of(shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(64)


def test_a_header_of_eight_terabytes(tmp_path):
    written(tmp_path, header_of((10**6, 10**6)), "t.npy")
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("x.npy", header_of((10**6, 10**6)))
        archive.writestr("y.npy", header_of((8,)))
    for name in ("t.npy", "t.npz"):
        with pytest.raises(InputError, match=r"declares 8000000000000 bytes and it has 192\): write it again"):
            load(tmp_path / name)
    written(tmp_path, header_of((4, 2)), "t.npy")
    assert load(tmp_path / "t.npy", task="regression").n == 4


# --- what else can be loaded --------------------------------------------------------------------------------------


def test_frames_of_every_type():
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 5], dtype="Int64"),
            "kind": pd.Categorical(["u", None, "u"]),
            "yes": [True, False, True],
            "when": pd.to_datetime(["1970-01-02", None, "1970-01-04"]),
            "object": [1, 2.5, None],
            "took": pd.to_timedelta([1, 2, 1.5], unit="D"),
            "y": ["a", "b", "a"],
        },
        index=[7, 7, 9],
    )
    data = load(frame, "y")
    np.testing.assert_array_equal(
        data.x,
        [[1, 0, 1, 0, 1, 1, 0, 1, 0, 1], [3, 1, 1, 1, 0, 2, 1, 2.5, 0, 2], [5, 0, 1, 0, 1, 3, 0, 1.75, 1, 1.5]],
    )
    assert data.rows is not None
    assert data.rows.tolist() == [0, 1, 2]
    assert load((frame.drop(columns="y"), frame["y"])).digest == data.digest
    assert load(frame, "yes").classes == ("False", "True")
    for bad, sentence in {
        "list": ([[1], [2], [3]], "holds values of list: give numbers, text or dates"),
        "complex": ([1j, 2, 3], "holds complex numbers: give real numbers"),
        "infinite": ([1.0, np.inf, 2.0], "holds inf: give a finite number"),
        "times": (pd.to_datetime([10**18, 10**18 + 1, 0]), "different times that are equal as days"),
    }.values():
        with pytest.raises(InputError, match=sentence):
            load(frame.assign(kind=bad))


def test_frames_that_narwhals_reads():
    table = pa.table({"a": [1, 2, None], "t": ["u", "v", "u"], "y": [0, 1, 0]})
    data = load(table, "y", name="arrow")
    np.testing.assert_array_equal(data.x, [[1, 0, 1, 0], [2, 0, 0, 1], [1.5, 1, 1, 0]])
    assert data.encoding is not None
    np.testing.assert_array_equal(encode(data.encoding, table), data.x)

    class Odd:
        columns = ("a",)

    with pytest.raises(InputError, match="cannot be read as a table"):
        load(Odd())


def test_pairs_and_data_sets(tmp_path):
    x, y = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 7.0]]), ["u", "v", None]
    assert load((x[::2], [0, 1])).encoding is None
    data = load((x, y))
    np.testing.assert_array_equal(data.x, [[1, 2, 0], [3, 2, 1]])
    np.save(tmp_path / "t.npy", np.column_stack([x, [0, 1, 0]]))
    np.testing.assert_array_equal(load(tmp_path / "t.npy").x, [[1, 2, 0], [3, 4.5, 1], [5, 7, 0]])
    assert load(data) is data
    for call, sentence in {
        lambda: load(data, limit=2): "a data set already: leave out `limit`",
        lambda: load(data, classes=("u", "v")): "a data set already: leave out `classes`",
        lambda: load((x, y), target="a"): "has its own target: leave out `target`",
        lambda: load((x, y), missing="error"): "has 2 problems.*has no target",
        lambda: load((x, [1, 2])): "3 rows and 2 labels",
        lambda: load(([[1], [1, 2]], [0, 1])): "ragged: give every row",
        lambda: load(3): "data cannot be read from int: give a file",
        lambda: load((1, 2, 3)): "cannot be read from tuple",
    }.items():
        with pytest.raises(InputError, match=sentence):
            call()
