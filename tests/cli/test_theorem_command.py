"""`wideproof theorem`: a table, one theorem in detail, JSON and a figure."""

import json

SOURCE = "sequences:n=3,length=3,features=4,separation=0.3"


def test_a_table_of_the_theorems(cli):
    found = cli("theorem", SOURCE)
    assert (found.code, found.err) == (0, "")
    assert "Theorem 2" in found.out
    assert "taken as 1" in found.out
    assert "the theorem is about vectors or images, and these are sequences" in found.out


def test_one_theorem_in_detail(cli):
    found = cli("theorem", SOURCE, "--details", "Theorem 1")
    assert found.code == 0
    assert "Lemma E.10" in found.out
    assert "10^6 (B.9)" in found.out
    assert "no theorem called" in cli("theorem", SOURCE, "--details", "Lemma 1").err


def test_json_and_figure(cli, tmp_path):
    found = cli("theorem", SOURCE, "--json", "--figure", "widths.svg")
    assert found.code == 0
    asks = {one["theorem"]: one for one in json.loads(found.out)["asks"]}
    assert asks["Theorem 1"]["log10_width"] > 100
    assert asks["Theorem 5.1"]["log10_width"] is None
    assert (tmp_path / "widths.svg").stat().st_size > 5000


def test_no_theorem_applies(cli, tmp_path):
    (tmp_path / "clash.csv").write_text("1,0,0\n1,0,1\n0,1,1\n0.6,0.8,0\n")
    assert cli("theorem", "clash.csv").code == 1
    assert "equal rows carry different targets" in cli("theorem", "clash.csv").out.replace("\n", " ")
