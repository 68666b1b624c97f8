"""Pages of a study: the verdict first, every statement with its command, reasons for what does not hold."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.papers.test_findings import BAD, FITTED, GOOD, OPEN, made
from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.papers.check import conclude
from wideproof.papers.statement import statements
from wideproof.papers.stored import joined, stored
from wideproof.report import check_words as words
from wideproof.report.check_pages import findings_html, findings_markdown, save_findings, study_markdown

FOUND = made(conclude(GOOD, FITTED, hypotheses=[OPEN], assumptions=["C <b> = 1"]), BAD, OPEN)


class Balanced(HTMLParser):
    VOID = ("meta", "br", "img")

    def __init__(self):
        super().__init__()
        self.open, self.ids = [], []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for key, value in attrs if key == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_whole_and_needs_nothing_else():
    page = findings_html(FOUND)
    parser = Balanced()
    parser.feed(page)
    assert not parser.open
    assert len(set(parser.ids)) == len(parser.ids)
    assert "<svg" in page
    assert "C &lt;b&gt; = 1" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    for one in FOUND.measured:
        assert f"wideproof check {one.statement.name}" in page


def test_markdown_counts_and_explains():
    page = findings_markdown(FOUND)
    assert words.headline(FOUND) in page
    assert "| 0 | 1 | 1 | 1 | 1 |" in page
    assert "| Zou et al. 2018 | 84 | 82 | 3 | 1 |" in page
    assert page.count(f"`{FOUND.measured[1].statement.name}`") == 1
    widths = {line.count("|") - line.count("\\|") for line in page.splitlines() if line.startswith("| `zou2018.")}
    assert widths == {6}


def test_outcomes_by_seed():
    other = replace(made(conclude(OPEN, GOOD, note="few draws"), BAD, GOOD), seed=7)
    kept = joined([FOUND.to_dict(), other.to_dict()])
    names = [one.statement.name for one in FOUND.measured]
    assert [kept["statements"][name]["by_seed"] for name in names] == [
        ["holds", "undecided"], ["fails", "fails"], ["undecided", "holds"],
    ]  # fmt: skip
    page = study_markdown(kept, "made", [one.statement for one in FOUND.measured])
    assert page.splitlines()[2] == (
        "0 of 3 statements hold on real networks with every seed, 1 fails and 2 are undecided with a seed; "
        "1 of them not as expected."
    )
    assert "| 0 | 1 | 1 | 1 | 1 |" in page
    assert "| 7 | 1 | 1 | 1 | 1 |" in page
    assert f"| `{names[0]}` | undecided | 7 | w; a tie within rounding; few draws | 2 against 2," in page
    assert f"| `{names[1]}` | fails | 0, 7 |" in page
    assert f"| `{names[2]}` | undecided | 0 |" in page
    first, last = (name.partition(".")[2] for name in (names[0], names[2]))
    assert f"| `{first}` | bound | holds, undecided |" in page
    assert f"| `{last}` | bound | undecided, holds |" in page


def test_a_misprint_stands_beside_what_a_statement_says():
    rows = [replace(one.statement, erratum="(i*, l*) is printed") for one in FOUND.measured[:1]]
    page = study_markdown(joined([FOUND.to_dict()]), "made", rows)
    assert r"(*on the text*: (i\*, l\*) is printed)" in page
    assert "`wideproof errata` decides most of them." in page


def test_different_studies_are_not_joined():
    with pytest.raises(InputError, match="the same statements"):
        joined([FOUND.to_dict(), made(GOOD).to_dict()])
    with pytest.raises(InputError, match="the same size"):
        joined([FOUND.to_dict(), replace(FOUND, study="deep").to_dict()])


def test_the_page_of_statements_is_what_is_stored():
    page = (Path(__file__).parents[2] / "docs/theory/statements.md").read_text(encoding="utf-8")
    made_by = "python tools/statements.py FOLDER"
    again = study_markdown(stored(), made_by, errata="[Errata](errata.md)")
    assert page == again, "`python tools/statements.py` does it"
    assert "half of E[Z1 Z2] (*on the text*: the printed right side repeats the left one; ½E[Z1 Z2] is meant)" in page
    assert "[Errata](errata.md) decides most of them." in page
    assert list(stored()["statements"]) == [one.name for one in statements()]


def test_headline():
    assert words.headline(FOUND) == (
        "1 of 3 statements hold on real networks, 1 fails and 1 is undecided; 1 of them not as expected."
    )
    assert words.headline(made(GOOD)).endswith("nothing fails that should hold.")
    false = made(BAD, expected=Answer.FAILS)
    assert words.headline(false) == "0 of 1 statements hold on real networks; 1 fails, as expected."
    (row,) = statements("zou2018.lemma_a_12")
    known = replace(false, measured=(replace(false.measured[0], statement=row),))
    assert words.headline(known).endswith("; 1 fails, as expected: it is false as printed.")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("theorem_4_1", "Theorem 4.1"), ("theorem_5_1_iii", "Theorem 5.1(iii)"), ("lemma_a_12", "Lemma A.12"),
        ("eq_c_8", "Eq. C.8"), ("remark_4_2", "Remark 4.2"),
    ],
)  # fmt: skip
def test_names_as_one_says_them(name, said):
    (row,) = (one for one in statements("zou2018") if one.id == name)
    assert words.spoken(row) == said


def test_pages_are_files(tmp_path):
    for name in ("page.html", "page.md"):
        assert save_findings(FOUND, tmp_path / name).read_text()
    with pytest.raises(InputError, match=r"\.html or \.md"):
        save_findings(FOUND, tmp_path / "page.pdf")
    assert not (tmp_path / "page.pdf").exists()
