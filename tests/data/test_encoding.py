"""How columns become inputs, and how new rows are encoded like the rows of the table."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.data.tools import inputs, notes, written
from wideproof.data import Dataset, Encoding, encode, load, unseen
from wideproof.data.packing import pack, unpack
from wideproof.errors import InputError

HEAD = "PassengerId,Survived,Name,Sex,Age,Deck,Boarded,Alone,Fare"
SEXES, DECKS = ("male", "female"), ("A", "", "B", "C")


def passenger(k):
    """Return one line of the table: a name with a comma and a line break, every fifth age and fourth deck missing."""
    age = ("", "NA")[k % 2] if k % 5 == 0 else 20 + 1.5 * k
    alone = ("yes", "no")[k % 2]
    return (
        f'{k + 1},{k % 2},"Doe, {k}\nthe {k}th",{SEXES[k % 3 == 0]},{age},{DECKS[k % 4]},1912-04-{10 + k % 5},'
        f"{alone},{k * 7.25}"
    )


@pytest.fixture
def ship(tmp_path):
    path = tmp_path / "ship.csv"
    path.write_text("\n".join([HEAD, *(passenger(k) for k in range(30))]) + "\n")
    return path


# --- columns ------------------------------------------------------------------------------------------------------


def test_a_table_of_everything(ship):
    data = load(ship, "Survived")
    assert inputs(data) == (
        "Sex=female", "Sex=male", "Age", "Age missing", "Deck=A", "Deck=B", "Deck=C", "Deck missing", "Boarded",
        "Alone", "Fare",
    )  # fmt: skip
    k = np.arange(30)
    lost = k % 5 == 0
    ages = np.where(lost, np.median((20 + 1.5 * k)[~lost]), 20 + 1.5 * k)
    np.testing.assert_array_equal(data.x[:, 0], k % 3 == 0)
    np.testing.assert_array_equal(data.x[:, 2], ages)
    np.testing.assert_array_equal(data.x[:, 3], lost)
    decks = np.array([d or "A" for d in (DECKS[i % 4] for i in k)])  # A and B and C: A is met first
    np.testing.assert_array_equal(data.x[:, 4:7], decks[:, None] == np.array(["A", "B", "C"]))
    np.testing.assert_array_equal(data.x[:, 7], k % 4 == 1)
    np.testing.assert_array_equal(data.x[:, 8], -21084 - 1 + k % 5)
    np.testing.assert_array_equal(data.x[:, 9], k % 2 == 0)
    np.testing.assert_array_equal(data.y, np.where(k % 2, 1, -1))
    np.testing.assert_array_equal(data.rows, 3 + 2 * k)  # every record takes two lines, counted where it ends
    assert notes(data) == (
        "6 columns: 2 numbers, 1 yes/no, 2 texts as one-hot (Sex and Deck), 1 date",
        "filled 6 missing values in Age (median) and 8 in Deck (most frequent), with 2 indicator columns",
        "left out PassengerId (row numbers) and Name (all different)",
    )


def test_rows_with_missing_values_are_dropped_or_refused(ship):
    data, k = load(ship, "Survived", missing="drop"), np.arange(30)
    full = (k % 5 != 0) & (k % 4 != 1)
    np.testing.assert_array_equal(data.rows, 3 + 2 * k[full])
    assert "Age missing" not in inputs(data)
    assert notes(data)[1] == f"dropped {30 - full.sum()} rows with a missing value"
    sentence = r"has 2 problems: \(1\) line 3, column 'Age' is empty, a missing value \(and 5 more.*\(2\) line 5, "
    with pytest.raises(InputError, match=sentence):
        load(ship, "Survived", missing="error")


def test_only_the_blanks_of_used_rows_are_counted(ship):
    data = load(ship, "Survived", limit=10)  # survivors alternate: the first ten rows
    assert notes(data)[1].startswith("filled 2 missing values in Age (median) and 3 in Deck (most frequent), with 2 ")
    assert data.notes[-1] == "2 classes: 0 (5) and 1 (5); 10 of 30 rows are used (limit)"


def test_notes_without_a_blank_in_the_used_rows_fill_nothing(tmp_path):
    path = written(tmp_path, "a,y\n1,u\n2,v\n3,u\n,v\n")
    assert notes(load(path))[1].startswith("filled 1 missing value in a")
    assert notes(load(path, limit=2)) == ("1 column: 1 number",)
    assert load(path, limit=2).notes[1:] == ("2 classes: u (1) and v (1); 2 of 4 rows are used (limit)",)


def test_identifiers_are_left_out_unless_asked_for(tmp_path):
    body = "\n".join(f"{k},{k * 10 + 7},{k / 3},key{k},{k % 2}" for k in range(30))
    path = written(tmp_path, f"n,user_id,x,code,y\n{body}\n")
    data = load(path)
    assert inputs(data) == ("x",)
    assert notes(data)[-1] == "left out n (row numbers), user_id (identifiers) and code (all different)"
    kept = load(path, keep_ids=True)
    assert inputs(kept)[:4] == ("n", "user_id", "x", "code=key0")
    assert len(inputs(kept)) == 33


@pytest.mark.parametrize(
    ("head", "row", "kept"),
    [
        ("x,y", lambda k: f"{k},{k * k}", ("x",)),  # the only input, although it counts the rows
        ("id,name,y", lambda k: f"{k},n{k},{k * 0.5}", ("id",)),
        ("x,z,y", lambda k: f"{k + 0.5},{k * 3},{k % 2}", ("x", "z")),  # distinct numbers are no identifiers
        ("x,z,y", lambda k: f"{k + 2},{k % 7},{k % 2}", ("x", "z")),  # counts, but not from 0 or 1
        ("Unnamed: 0,z,y", lambda k: f"{k * 5},{k % 7},{k % 2}", ("z",)),
        (",z,y", lambda k: f"{k * 5},{k % 7},{k % 2}", ("z",)),
        ("PassengerId,z,y", lambda k: f"{k * 5},{k % 7},{k % 2}", ("z",)),
        ("humid,z,y", lambda k: f"{k * 5},{k % 7},{k % 2}", ("humid", "z")),
        ("id,z,y", lambda k: f"{k % 5},{k % 7},{k % 2}", ("id", "z")),  # an identifier does not repeat
        ("tweet_id,z,y", lambda k: f"{1700000000000000000 + k},{k % 7},{k % 2}", ("z",)),
    ],
)
def test_what_is_an_identifier(tmp_path, head, row, kept):
    data = load(written(tmp_path, "\n".join([head, *map(row, range(25))])))
    assert inputs(data) == kept


def test_texts_of_too_many_categories_and_empty_columns_are_left_out(tmp_path):
    many = "\n".join(f"w{k % 60},{k % 7},,{k % 2}" for k in range(100))
    data = load(written(tmp_path, f"word,z,nothing,y\n{many}\n"))
    assert notes(data)[-1] == "left out word (60 different texts) and nothing (empty)"
    fewer = "\n".join(f"w{k % 50},{k % 7},{k % 2}" for k in range(100))
    assert len(inputs(load(written(tmp_path, f"word,z,y\n{fewer}\n")))) == 51
    with pytest.raises(InputError, match="without any value: give at least one input"):
        load(written(tmp_path, "a,y\n,0\n?,1\n"))


@pytest.mark.parametrize(
    ("fields", "kind", "values"),
    [
        (["true", "FALSE", "True"], "boolean", [1, 0, 1]),
        (["t", "f", ""], "boolean", [1, 0, 0]),
        (["2020-01-02", "1970-01-01", "1969-12-31"], "date", [18263, 0, -1]),
        (["2020-01-02T12:00:00Z", "2020-01-02 06:00", "2020-01-01"], "date", [18263.5, 18263.25, 18262]),
        (["31.12.2019", "02.01.2020", "01.01.1970"], "date", [18261, 18263, 0]),
        (["12/31/2019", "01/02/2020", "01/01/1970"], "date", [18261, 18263, 0]),
        (["31/12/2019", "02/01/2020", "01/01/1970"], "date", [18261, 18263, 0]),
        (["2 Jan 2020", "1 Jan 1970", "NA"], "date", [18263, 0, 9131.5]),
        (["1e3", "-.5", "+2."], "number", [1000, -0.5, 2]),
    ],
)
def test_kinds_of_columns(tmp_path, fields, kind, values):
    body = "\n".join(f"{field},{k}.5" for k, field in enumerate(fields))
    data = load(written(tmp_path, f"a,y\n{body}\n"), header=True)
    assert data.encoding is not None
    assert data.encoding.columns[0].kind == kind
    np.testing.assert_array_equal(data.x[:, 0], values)


@pytest.mark.parametrize(
    "fields",
    [["true", "false", "maybe"], ["2020-01-02", "2020-13-01", "2020-01-05"], ["yes", "no", "1"], ["1_000", "b", "c"]],
)
def test_what_is_neither_date_nor_truth_value_is_text(tmp_path, fields):
    body = "\n".join(f"{field},{k}.5" for k, field in enumerate(fields))
    data = load(written(tmp_path, f"a,y\n{body}\n"), header=True)
    assert inputs(data) == tuple(f"a={field}" for field in sorted(fields))


# --- new rows -----------------------------------------------------------------------------------------------------


def test_encoding_the_training_table_gives_the_training_inputs(ship):
    data = load(ship, "Survived")
    assert data.encoding is not None
    frame = pd.read_csv(ship)
    for source in (ship, str(ship), frame, frame.drop(columns=["Survived", "Name"]), frame.iloc[:, ::-1]):
        again = encode(data.encoding, source)
        assert again.tobytes() == data.x.tobytes()
    for k in (0, 7):
        assert encode(data.encoding, frame.iloc[[k]]).tobytes() == data.x[k].tobytes()


def test_new_rows_of_a_file(ship, tmp_path):
    data = load(ship, "Survived")
    assert data.encoding is not None
    new = written(
        tmp_path, "Fare,Deck,Sex,Alone,Boarded,Age,extra\n1.5,Z,,no,,,q\n2,B,male,yes,1970-01-02,3,q\n", "new.csv"
    )
    found = encode(data.encoding, new)
    date, age = data.encoding.columns[3].fill, data.encoding.columns[1].fill
    np.testing.assert_array_equal(found, [[0, 1, age, 1, 0, 0, 0, 0, date, 0, 1.5], [0, 1, 3, 0, 0, 1, 0, 0, 1, 1, 2]])
    with pytest.raises(InputError, match=r"lacks the columns 'Sex', 'Age', 'Deck', 'Boarded' and 'Alone' \(it has"):
        encode(data.encoding, pd.DataFrame({"Fare": [1.0]}))
    bad = written(tmp_path, "Fare,Deck,Sex,Alone,Boarded,Age\ncheap,Z,male,perhaps,soon,3\n", "bad.csv")
    with pytest.raises(InputError, match=r"has 3 problems: .*'soon' where a date.*'perhaps' where yes or no.*'cheap'"):
        encode(data.encoding, bad)
    wrong = pd.read_csv(ship).assign(Age=pd.Timestamp(0), Alone=2, Boarded=3.0)
    with pytest.raises(InputError, match=r"has 3 problems: .*where numbers.*where dates.*where truth values"):
        encode(data.encoding, wrong)


@pytest.mark.parametrize("source", ["file", "frame"])
def test_unseen_texts_of_new_rows_are_told(tmp_path, source):
    data = load(written(tmp_path, "city,plan,age,y\nBonn,a,1.5,u\nUlm,b,2,v\n,a,3,u\n"), "y")
    new = written(tmp_path, "age,city,plan\n1,Kiel,a\n2,Kiel,c\n3,,b\n4,Ulm,a\n5,Bremen,a\n", "new.csv")
    assert data.encoding is not None
    found = unseen(data.encoding, new if source == "file" else pd.read_csv(new))
    assert len(found) == 2
    assert found[0].startswith(
        "column 'city': 3 rows have a value that the training table does not hold ('Kiel' and 'Br"
    )
    assert found[1].startswith(
        "column 'plan': 1 row has a value that the training table does not hold ('c'): all inputs"
    )
    assert unseen(data.encoding, tmp_path / "t.csv") == ()


def test_a_name_of_a_column_hides_no_problem(tmp_path):
    """Numbers that merge in float64 are no problem of targets and of new rows: that is not read off the message."""
    with pytest.raises(InputError, match="holds inf: give a finite number"):
        load(written(tmp_path, "a,two different\n1,2.5\n2,inf\n3,4.5\n"))
    data = load(written(tmp_path, "two different,y\n1.5,2.5\n2,3.5\n3,4.5\n"))
    assert data.encoding is not None
    with pytest.raises(InputError, match="holds inf: give a finite number"):
        encode(data.encoding, pd.DataFrame({"two different": ["1", "inf"]}))
    merging = ["0.30000000000000000001", "0.30000000000000000002"]
    assert encode(data.encoding, pd.DataFrame({"two different": merging})).tolist() == [[0.3], [0.3]]
    body = "".join(f"{k},{field}\n" for k, field in enumerate([*merging, "0.5", "0.7"]))
    assert load(written(tmp_path, f"a,y\n{body}")).y.tolist() == [0.3, 0.3, 0.5, 0.7]


def test_new_rows_without_names_are_matched_by_position(tmp_path):
    path = written(tmp_path, "0,1.5,u\n1,,v\n0,2.5,u\n")
    data = load(path, 0)
    assert data.encoding is not None
    np.testing.assert_array_equal(encode(data.encoding, path), data.x)
    new = np.array([["3.5", "v"], [None, "w"]], dtype=object)
    np.testing.assert_array_equal(encode(data.encoding, new), [[3.5, 0, 0, 1], [2, 1, 0, 0]])
    with pytest.raises(InputError, match="4 columns without names where the training table has 3 or 2 without"):
        encode(data.encoding, np.ones((2, 4)))
    with pytest.raises(InputError, match=r"shape \(2,\): give two axes"):
        encode(data.encoding, np.ones(2))
    with pytest.raises(InputError, match="cannot be read"):
        encode(data.encoding, tmp_path / "nothing.csv")


def test_the_encoding_is_plain_json(ship):
    data = load(ship, "Survived")
    assert data.encoding is not None
    again = Encoding.from_json(json.loads(json.dumps(data.encoding.to_json(), allow_nan=False)))
    assert again == data.encoding
    assert again.classes == ("0", "1")
    assert again.target == "Survived"
    with pytest.raises(InputError, match="is damaged"):
        Encoding.from_json(data.encoding.to_json() | {"columns": [{"name": "a"}]})


def test_packing_keeps_encoding_and_rows(ship):
    data = load(ship, "Survived").take([4, 1, 2])
    tensors, meta = pack(data)
    assert tensors["rows"].dtype == np.int64
    again = unpack(tensors, json.loads(json.dumps(meta)))
    assert again.encoding == data.encoding
    assert again.notes == data.notes
    assert again.rows is not None
    assert again.rows.tolist() == [11, 5, 7]
    meta.pop("encoding")
    meta.pop("remarks")
    del tensors["rows"]
    older = unpack(tensors, meta)
    assert (older.encoding, older.rows) == (None, None)


def test_rows_follow_every_choice(tmp_path):
    lines = [f"{k}.5,{'abc'[k % 3]}" for k in range(12)]
    lines[4] = "4.5,"
    path = written(tmp_path, "\n".join(["x,y", "", *lines]))
    data = load(path)
    assert data.rows is not None
    assert data.rows.tolist() == [k + 3 for k in range(12) if k != 4]
    assert notes(data)[1] == "dropped 1 row without a target"
    some = load(path, classes=("c", "a"), limit=4)
    assert some.rows is not None
    assert [lines[row - 3] for row in some.rows] == ["0.5,a", "2.5,c", "3.5,a", "5.5,c"]
    np.testing.assert_array_equal(some.x[:, 0], some.rows - 2.5)
    with pytest.raises(ValueError, match="read-only"):
        some.rows[0] = 1
    with pytest.raises(InputError, match="row numbers of shape"):
        Dataset(np.eye(2), np.array([1, -1]), "binary", rows=np.arange(3))
    assert load("xor", limit=2).rows is not None
    assert data.digest is data.digest
