"""`wideproof check`, `errata`, `cite` and `sweep` as a person types them."""

import json

import pytest

from tests.sweeps.making import TINY
from wideproof.answers import Answer
from wideproof.papers import PAPERS, statements
from wideproof.papers.check import at_most


def test_the_list_covers_every_checkable_statement(cli):
    answer = cli("check", "--list", "--json")
    rows = json.loads(answer.out)
    assert answer.code == 0
    assert len(rows) == 320
    assert {(row["paper"], row["id"]) for row in rows} == {(one.paper, one.id) for one in statements()}
    for row in rows:
        assert {"paper", "id", "kind", "check", "title"} <= row.keys()
        assert row["title"]
    assert "theorem_5_1_iii" in cli("check", "zou2018", "--list").out


def test_the_list_has_one_line_for_each_statement(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli("check", "zou2018", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == [one.name for one in statements("zou2018")]


def test_the_list_of_statements_with_words_in_them(cli):
    listed = [line.split()[0] for line in cli("check", "--list", "norm").out.splitlines()]
    assert listed == [one.name for one in statements(None, ["norm"])]
    assert "zou2018.lemma_a_8" in cli("check", "zou", "--list", "norms", "layer").out


def test_the_spelling_of_the_paper(cli):
    for words in (["zou2018.Lemma C.1"], ["zou2018.Lemma", "C.1"], ["zou", "Lemma", "C.1"]):
        assert cli("check", *words).out.startswith("holds     zou2018.lemma_c_1\n")


def test_widths_of_ones_own(cli, tmp_path):
    answer = cli("check", "zou2018.theorem_5_1_iii", "--widths", "32,64,256", "--json", "--report", "page.md")
    found = json.loads(answer.out)
    assert found["widths"] == [32, 64, 256]
    assert found["statements"][0]["slope"]["x"] == [32, 64, 256]
    assert "wideproof check --study quick --widths 32,64,256 --report" in (tmp_path / "page.md").read_text()
    answer = cli("check", "zou2018.lemma_c_1", "--widths", "32,64,256")
    assert "1 of 1 statements do not use them: zou2018.lemma_c_1" in answer.out
    assert "Exponents in the width are fitted over 32, 64, 256" in answer.out


def test_one_statement(cli):
    answer = cli("check", "zou2018.lemma_c_1")
    assert answer.code == 0, answer
    assert answer.out.startswith("holds     zou2018.lemma_c_1")
    assert "1 of 1 statements hold" in answer.out
    assert "Study quick" in answer.out


def test_a_misprint_of_one_statement(cli):
    answer = cli("check", "zou2018.lemma_a_11")
    assert "text      the printed right side repeats the left one; ½E[Z1 Z2] is meant" in answer.out
    assert "`wideproof errata zou2018.lemma_a_11` measures both forms" in answer.out
    decided = cli("errata", "zou2018.lemma_a_11")
    assert decided.code == 0
    assert decided.out.startswith("Zou et al. 2018, Lemma A.11")
    assert "1 of 1 decided by measurement: 1 misprint" in decided.out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("zou2018.lemma_b_6", "zou2018.lemma_b_6: the product shows W̃_l where W̃_r is meant.\n"),
        ("zou2018.lemma_c_1", "zou2018.lemma_c_1: no misprint is known.\n"),
    ],
)
def test_misprints_that_no_measurement_decides(cli, name, said):
    answer = cli("errata", name)
    assert (answer.code, answer.out) == (0, said)
    assert json.loads(cli("errata", name, "--json").out) == []


def test_a_statement_that_is_false_as_printed(cli):
    answer = cli("check", "zou2018.lemma_a_12")
    assert answer.code == 0
    assert "1 fails, as expected: it is false as printed." in answer.out


def test_json_and_pages(cli, tmp_path):
    answer = cli("check", "zou2018.lemma_d_2", "--json", "--report", "a.html", "--report", "a.md")
    found = json.loads(answer.out)
    assert found["counts"] == {"zou2018": {"holds": 1, "fails": 0, "undecided": 0}}
    assert "Lemma D.2" in (tmp_path / "a.html").read_text()
    assert "`lemma_d_2`" in (tmp_path / "a.md").read_text()


@pytest.mark.parametrize(
    ("outcome", "expected", "code"),
    [(at_most("a", 3.0, 2.0), "holds", 1), (at_most("a", 3.0, 2.0), "fails", 0), (at_most("a", 1.0, 2.0), "fails", 1)],
)
def test_exit_codes_say_whether_anything_is_wrong(cli, monkeypatch, outcome, expected, code):
    from wideproof.papers import zou2018

    monkeypatch.setattr(zou2018, "lemma_c_1", lambda lab: outcome)
    row = statements("zou2018.lemma_c_1")[0]
    object.__setattr__(row, "expected", Answer(expected))
    try:
        assert cli("check", "zou2018.lemma_c_1").code == code
    finally:
        object.__setattr__(row, "expected", Answer.HOLDS)


def test_a_computation_that_breaks_off(cli, monkeypatch):
    from wideproof.papers import zou2018

    def broken(lab):
        raise FloatingPointError("overflow")

    monkeypatch.setattr(zou2018, "lemma_c_1", broken)
    answer = cli("check", "zou2018.lemma_c_1")
    assert answer.code == 2
    assert "broke off with FloatingPointError: overflow" in answer.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "zou2019"), "there is no paper 'zou2019'"),
        (("check", "zou2018.theorem_99"), "no checkable statement 'theorem_99'"),
        (("check", "zou2018.lemma_4_1"), "the nearest names are theorem_4_1"),
        (("check", "--list", "normx"), "no statement has 'normx' in its name or title"),
        (("check", "zou2018", "--list", "normx"), "no statement of zou2018 has 'normx'"),
        (("check", "zou2018.lemma_c_1", "--widths", "64,256"), "at least 3 widths, got 64, 256"),
        (("check", "zou2018.lemma_c_1", "--widths", "64;256"), "--widths must be whole numbers, as in 64,256,1024"),
        (("check", "zou2018.lemma_c_1", "--widths", "63,64,65"), "use 64 for 63"),
        (("check", "zou2018.lemma_c_1", "--study", "fast"), "--study must be quick, standard or deep"),
        (("check", "zou2018.lemma_c_1", "--report", "page.pdf"), ".html or .md"),
        (("errata", "zou2019"), "there is no paper"),
        (("errata", "zou2018.theorem_99"), "no checkable statement 'theorem_99'"),
        (("errata", "zou2018", "--report", "list.txt"), ".md file"),
        (("cite", "zou2019"), "nothing to cite as 'zou2019'"),
        (("sweep", "nothing.toml"), "no study file"),
        (("sweep", "lazy-width", "--workers", "0"), "--workers"),
    ],
)
def test_mistakes_are_one_sentence(cli, tmp_path, arguments, said):
    answer = cli(*arguments)
    assert answer.code == 2
    assert said in answer.err.replace("\n", " ")
    assert not list(tmp_path.iterdir())


def test_cite(cli):
    assert cli("cite").out.count("@") == len(PAPERS) + 1
    assert "Difan" in cli("cite", "zou2018").out


@pytest.mark.slow
def test_a_sweep(cli, tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    answer = cli("sweep", "tiny.toml", "--out", "out")
    assert answer.code == 0, answer
    assert "6 tasks done, 0 kept" in answer.out
    assert (tmp_path / "out" / "report.html").exists()
    again = json.loads(cli("sweep", "tiny.toml", "--out", "out", "--json").out)
    assert (again["kept"], again["done"]) == (6, 0)
    assert again["exponents"][0]["quantity"] == "distance"


def test_a_sweep_with_too_many_tasks_asks_first(cli, tmp_path):
    (tmp_path / "many.toml").write_text(TINY.replace("seed = 3", "seed = 5000000"))
    answer = cli("sweep", "many.toml")
    assert answer.code == 2
    assert "10,000,000 tasks" in answer.err
    assert "--yes" in answer.err
    assert not (tmp_path / "tiny").exists()


def test_bundled_sweeps_are_listed(cli):
    assert "lazy-width" in cli("sweep", "--list").out
    assert "depth" in json.loads(cli("sweep", "--list", "--json").out)
