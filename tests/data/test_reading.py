"""How tables are read: files of every dress, numbers to the last digit, frames, pairs and data sets."""

import io
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.tools import inputs, notes, written
from wideproof.data import Dataset, Encoding, encode, from_labels, load
from wideproof.data.columns import read_column
from wideproof.data.exact import NUMBER, merged
from wideproof.data.frames import as_table
from wideproof.data.tables import _cut_carefully, _cut_quickly
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


@pytest.mark.parametrize("others", ["2;1", "\n".join(f"{k},{k + 100};1" for k in range(1, 30))])
def test_marks_that_may_be_decimals_or_thousands_are_refused_and_never_left_out(tmp_path, others):
    with pytest.raises(InputError, match=r"line 2, column 'a' holds '1.*decimals or thousands: write a decimal"):
        load(written(tmp_path, f"a;b;y\n1,234;0.5;0\n{others.replace(';', ';1.5;')}\n"))


@pytest.mark.parametrize(
    ("fields", "values", "like"),
    [
        (["1.234,5", "1.234", "7"], [1234.5, 1234, 7], "1.234,5"),
        (["1,234,567", "1,234", "-7.5"], [1234567, 1234, -7.5], "1,234.5"),
        (["1 234", "12 000", "7"], [1234, 12000, 7], "1 234.5"),
        (["1'234.5", "1'000'000", "7.25"], [1234.5, 1e6, 7.25], "1'234.5"),
        (["$1,000.50", "$7", "-$1,234"], [1000.5, 7, -1234], "$1,234.5"),
        (["EUR 5.5", "EUR 7", "EUR -1.25"], [5.5, 7, -1.25], "EUR1234.5"),
        (["3 %", "4.5%", "100 %"], [3, 4.5, 100], "1234.5 %"),
        (["5 €", "1.000,50 €", "2 €"], [5, 1000.5, 2], "1.234,5 €"),
    ],
)
def test_signs_and_sure_marks_are_read(tmp_path, fields, values, like):
    rows = "\n".join(f"{field};{k}.5;{k % 2}" for k, field in enumerate(fields))
    data = load(written(tmp_path, f"a;b;y\n{rows}\n"))
    np.testing.assert_array_equal(data.x[:, 0], values)
    assert notes(data)[0] == f"2 columns: 2 numbers (a like {like})"
    assert data.encoding is not None
    np.testing.assert_array_equal(encode(data.encoding, tmp_path / "t.csv"), data.x)
    again = Encoding.from_json(data.encoding.to_json())
    assert again == data.encoding
    np.testing.assert_array_equal(encode(again, pd.DataFrame({"a": fields[:1], "b": [1]}))[0, 0], values[0])
    assert load(tmp_path / "t.csv", "a", task="regression").y.tolist() == values


def test_percentages_decide_the_decimal_mark_and_stay_percentages(tmp_path):
    data = load(written(tmp_path, "rate;y\n3,5 %;0\n4 %;1\n"))
    np.testing.assert_array_equal(data.x[:, 0], [3.5, 4])
    assert data.encoding is not None
    for new, sentence in {
        "0.03": r"holds '0.03' where the training table has numbers like '1234,5 %': write it like them",
        "3": r"holds '3' where the training table has numbers like",
        "few": r"holds 'few' where the training table has numbers like",
    }.items():
        with pytest.raises(InputError, match=sentence):
            encode(data.encoding, pd.DataFrame({"rate": [new]}))
    with pytest.raises(InputError, match=r"holds float64 where .* numbers like '1234,5 %': give it as text"):
        encode(data.encoding, pd.DataFrame({"rate": [0.03]}))


@pytest.mark.parametrize(
    ("odd", "usual", "sentence"),
    [
        ("7", "$5.{k}", r"line 2, column 'a' holds '7' where others are written like '\$5.\d+': write all"),
        ("7 €", "5.{k} %", r"holds '7 €' where others have another sign: write all of them with one sign"),
        ("12oo", "5.{k}", r"holds the text '12oo' where a number is needed"),
        ("n.k.", "$5.{k}", r"holds the text 'n.k.' where a number is needed"),
        ('"3,14"', "5.{k}", r"holds '3,14' with a decimal comma, in a table that is read with decimal points"),
        ('"1,000.5"', '"1.000,{k}"', r"holds '1.000,\d+', whose mark may stand"),
    ],
)
def test_numbers_with_a_fault_are_told_and_never_identifiers(tmp_path, odd, usual, sentence):
    rows = "\n".join(f"{usual.format(k=k + 10)},{k}.5,{k % 2}" for k in range(30))
    with pytest.raises(InputError, match=sentence):
        load(written(tmp_path, f"a,b,y\n{odd},0.5,1\n{rows}\n"))


_FIELD = st.text(alphabet="0123456789.,-+eE$% anNx'\u00e9\x1a#", max_size=6).filter(lambda one: "," not in one)


@given(st.lists(st.lists(_FIELD, min_size=3, max_size=3), min_size=1, max_size=8), st.sampled_from(",;\t|"))
def test_the_quick_parser_cuts_as_the_careful_one_does(rows, separator):
    text = "".join(separator.join(row) + "\n" + "\n" * (len(row[0]) % 2) for row in rows)
    width = rows[0] and len(rows[0])
    quick, careful = _cut_quickly(text, separator, width), _cut_carefully(text, separator, width, "t.csv")
    assert quick is not None
    pd.testing.assert_frame_equal(quick[0], careful[0])
    np.testing.assert_array_equal(quick[1], careful[1])


def test_only_sure_cases_are_cut_quickly():
    for text in ('a,"b"\n', "a,b\n1\n", "a,b\n1,2,3\n", "  \na,b\n"):
        assert _cut_quickly(text, ",", 2) is None


@given(st.lists(st.from_regex(NUMBER, fullmatch=True).filter(lambda one: len(one) < 25), min_size=1, max_size=30))
def test_numbers_are_read_one_by_one_or_together_to_the_same_bits(fields):
    values = np.array([float(one) for one in fields])
    table = as_table(np.array(fields, dtype=object)[:, None])
    np.testing.assert_array_equal(read_column(table, 0).present.view(np.int64), values.view(np.int64))
    groups: dict[float, set[Decimal]] = {}
    for one, value in zip(fields, values.tolist(), strict=True):
        if np.isfinite(value):
            groups.setdefault(value, set()).add(Decimal(one))
    assert (merged(fields, values) is None) == all(len(exact) == 1 for exact in groups.values())


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
