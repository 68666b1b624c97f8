"""Workbooks, JSON, databases, compressed text; dictionaries, records, bunches, an index of dates, several targets."""

# A data set has an encoding if it came from a table, which its type does not say.
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportAttributeAccessIssue=false

import gzip
import json
import re
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris

from wideproof.data import encode, load
from wideproof.data.loaders import SUFFIXES
from wideproof.errors import InputError


@pytest.fixture
def frame(rng):
    return pd.DataFrame({
        "size": rng.normal(size=12).round(3), "colour": rng.choice(["red", "blue"], 12),
        "price": rng.normal(size=12).round(2), "kind": list("abba" * 3),
    })  # fmt: skip


def database(path, **tables):
    with closing(sqlite3.connect(path)) as base:
        for name, table in tables.items():
            table.to_sql(name, base, index=False)
        base.commit()
    return path


def same(data, other):
    np.testing.assert_array_equal(data.x, other.x)
    np.testing.assert_array_equal(data.y, other.y)
    assert data.encoding.inputs == other.encoding.inputs
    assert data.classes == other.classes


def test_every_form_holds_the_same_table(tmp_path, frame):
    wanted = load(frame)
    frame.to_csv(tmp_path / "t.csv.gz", index=False)
    frame.to_csv(tmp_path / "u.TSV.GZ", index=False, sep="\t", compression="gzip")
    frame.to_json(tmp_path / "records.json", orient="records")
    frame.to_json(tmp_path / "columns.json")  # {"size": {"0": ...}}, pandas' own default
    (tmp_path / "lists.json").write_text(json.dumps(frame.to_dict(orient="list")))
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    database(tmp_path / "t.db", sales=frame)
    for name in (
        "t.csv.gz",
        "u.TSV.GZ",
        "records.json",
        "columns.json",
        "lists.json",
        "t.jsonl",
        "t.db",
        "t.db::sales",
    ):
        found = load(f"{tmp_path}/{name}")
        same(found, wanted)
        np.testing.assert_array_equal(encode(wanted.encoding, f"{tmp_path}/{name}"), wanted.x)
    assert [load(f"{tmp_path}/{name}").name for name in ("t.csv.gz", "t.db", "t.db::sales")] == ["t", "t", "sales"]
    same(load(frame.to_dict(orient="list")), wanted)
    same(load(frame.to_dict(orient="records")), wanted)
    np.testing.assert_array_equal(encode(wanted.encoding, frame.to_dict(orient="records")[:2]), wanted.x[:2])


def test_workbooks(tmp_path, frame):
    pytest.importorskip("openpyxl")
    frame.to_excel(tmp_path / "one.xlsx", index=False)
    same(load(tmp_path / "one.xlsx"), load(frame))
    with pd.ExcelWriter(tmp_path / "two.xlsx") as book:
        frame.to_excel(book, sheet_name="May", index=False)
        frame[::-1].to_excel(book, sheet_name="June", index=False)
    same(load(f"{tmp_path}/two.xlsx::June"), load(frame[::-1]))
    with pytest.raises(InputError, match=r"two.xlsx has 2 sheets, May and June: say which, as two.xlsx::May"):
        load(tmp_path / "two.xlsx")
    (tmp_path / "bad.xlsx").write_text("no book")
    with pytest.raises(InputError, match=r"bad.xlsx is damaged or not an Excel workbook"):
        load(tmp_path / "bad.xlsx")


def test_a_workbook_without_its_reader_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r'pip install "wideproof\[excel\]", or save the sheet as .csv'):
        load(tmp_path / "t.xlsx")


def test_which_table_of_a_database(tmp_path, frame):
    path = database(tmp_path / "two.db", sales=frame, orders=frame.iloc[:6])
    assert load(f"{path}::orders").n == 6
    with pytest.raises(InputError, match=r"two.db has 2 tables, sales and orders: say which, as two.db::sales"):
        load(path)
    with pytest.raises(
        InputError, match=r"no table 'order' \(did you mean 'orders'\?\): choose among sales and orders"
    ):
        load(f"{path}::order")
    with pytest.raises(InputError, match=r"there is no file .*nowhere.db"):
        load(f"{tmp_path}/nowhere.db::sales")
    assert not (tmp_path / "nowhere.db").exists()  # SQLite makes a file that it does not find
    with pytest.raises(InputError, match="no table"):  # a name is quoted, not run
        load(f'{path}::sales" where 1=0; drop table sales; --')
    assert load(f"{path}::sales").n == 12
    with pytest.raises(InputError, match=r"empty.db has no table"):
        load(database(tmp_path / "empty.db"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.json", "{", r"bad.json is not JSON \(.*line 1 column 2"),
        ("bad.jsonl", '{"a": 1}\n{"a"\n', "bad.jsonl is not JSON"),
        ("number.json", "3", "number.json is no table: give a list of records, or a dictionary of columns"),
        ("none.json", "[]", "is no table"),
        ("ragged.json", '{"a": [1, 2], "b": [1]}', "not of columns of one length .a: 2, b: 1."),
        ("nest.json", '[{"a": [1], "b": 2}]', r"row 0 \(counting from 0\), column 'a' holds a list"),
        ("bad.db", "SQL " * 300, "bad.db is damaged or not an SQLite database"),
        ("bad.csv.gz", "a,b", "bad.csv.gz is damaged or not compressed by gzip"),
        ("t.json.gz", "a", "ends in '.gz': save it as one of"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        load(tmp_path / name)


def test_a_compressed_file_that_ends_early(tmp_path):
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 1000)
    (tmp_path / "t.csv.gz").write_bytes(whole[:-12])
    with pytest.raises(InputError, match="damaged or not compressed"):
        load(tmp_path / "t.csv.gz")


def test_a_small_file_cannot_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("wideproof.data.formats.MOST_UNPACKED", 1000)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 1000))
    with pytest.raises(InputError, match=r"t.csv.gz holds more than 0 GB: give fewer rows"):
        load(tmp_path / "t.csv.gz")


def test_bunches():
    iris = load(load_iris())
    assert iris.classes == ("setosa", "versicolor", "virginica")
    assert iris.encoding.inputs[0] == "sepal length (cm)"
    np.testing.assert_array_equal(iris.x, load("iris").x)
    np.testing.assert_array_equal(load(load_iris(as_frame=True)).y, iris.y)
    assert load(load_diabetes()).task == "regression"
    plain = load({"data": np.eye(4), "target": [0, 1, 0, 1]})
    assert plain.x.shape == (4, 4)
    assert load({"data": [1.0, 2.0, 3.0], "target": [0, 1, 0]}).encoding.inputs == ("data",)  # a column called data
    with pytest.raises(InputError, match="a dictionary of columns, a list of records"):
        load(3)


def test_an_index_of_dates_is_a_column(frame):
    days = pd.date_range("2026-01-01", periods=12, name="day")
    data = load(frame.set_index(days))
    assert data.encoding.inputs[0] == "day"
    assert data.encoding.columns[0].kind == "date"
    assert np.diff(data.x[:, 0]).tolist() == [1.0] * 11
    np.testing.assert_array_equal(encode(data.encoding, frame.set_index(days)), data.x)
    assert load(frame.set_index(pd.date_range("2026-01-01", periods=12))).encoding.inputs[0] == "date"
    taken = frame.assign(date=1.0).set_index(pd.date_range("2026-01-01", periods=12))
    assert "date of the index" in load(taken, "kind").encoding.inputs


def test_several_targets(tmp_path, frame):
    data = load(frame, ["size", "price"])
    assert data.task == "regression"
    np.testing.assert_array_equal(data.y, frame[["size", "price"]])
    assert data.encoding.inputs == ("colour=blue", "colour=red", "kind=a", "kind=b")
    np.testing.assert_array_equal(encode(data.encoding, frame), data.x)
    frame.to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_array_equal(load(tmp_path / "t.csv", "size, price").y, data.y)
    np.testing.assert_array_equal(load(tmp_path / "t.csv", [0, -2]).y, data.y)
    odd = frame.rename(columns={"kind": "size,price"})  # a name with a comma is a name
    assert load(odd, "size,price").classes == ("a", "b")
    gap = frame.assign(price=frame["price"].where(frame.index != 3))
    assert load(gap, ["size", "price"]).n == 11
    with pytest.raises(InputError, match="column 'kind' holds text, and several targets are numbers"):
        load(frame, ["size", "kind"])
    with pytest.raises(InputError, match="must be different columns"):
        load(frame, ["size", "size"])
    with pytest.raises(InputError, match=re.escape("all 2 columns")):
        load(frame[["size", "price"]], ["size", "price"])


def test_every_suffix_is_named_in_the_help():
    from wideproof.cli.options import Source

    says = Source.__metadata__[0].help
    assert [suffix for suffix in SUFFIXES if suffix not in says and suffix not in (".tsv.gz", ".txt.gz")] == []
