"""Every erratum quotes words that stand in a stored excerpt of its paper; an altered quotation is not found."""

from dataclasses import replace
from pathlib import Path
from unicodedata import normalize

import pytest

from wideproof.papers import PAPERS, TEXTS, Erratum, Fault, counted, errata

FOLDER = Path(__file__).parent / "excerpts"
WORDS = 25  # of a quotation; an excerpt has a few dozen
ERRATA = [pytest.param(entry, id=entry.key) for entry in errata()]


def excerpts(paper: str) -> dict[str, tuple[str, str]]:
    """The place and the words of each excerpt: `[name]`, a line with the place, a line with the words."""
    blocks = (FOLDER / f"{paper}.txt").read_text(encoding="utf-8").strip().split("\n\n")
    found = [block.split("\n") for block in blocks]
    assert all(len(lines) == 3 for lines in found)
    names = [lines[0].strip("[]") for lines in found]
    assert len(set(names)) == len(names)
    return {name: (place, words) for name, (_, place, words) in zip(names, found, strict=True)}


def plain(text: str) -> str:
    return " ".join(normalize("NFC", text).split())


def stands(entry: Erratum) -> bool:
    place, words = excerpts(entry.paper)[entry.decide.__name__]
    return place == entry.place and plain(entry.quotation) in plain(words)


@pytest.mark.parametrize("entry", ERRATA)
def test_the_quotation_stands_in_the_excerpt(entry):
    assert stands(entry), (entry.quotation, excerpts(entry.paper)[entry.decide.__name__])
    assert len(entry.quotation.split()) <= WORDS


@pytest.mark.parametrize("entry", ERRATA)
def test_an_altered_quotation_does_not(entry):
    words = entry.quotation
    middle = len(words) // 2
    for altered in (words[:middle] + "§" + words[middle:], words[:middle] + words[middle + 1 :], words[::-1]):
        changed = replace(entry, quotation=altered)
        assert plain(altered) == plain(words) or not stands(changed), altered
    assert not stands(replace(entry, place=f"{entry.place}, elsewhere"))


@pytest.mark.parametrize("paper", PAPERS)
def test_excerpts_are_short_and_belong_to_an_entry(paper):
    kept = excerpts(paper)
    assert set(kept) == {entry.decide.__name__ for entry in errata(paper)}
    assert all(len(words.split()) <= WORDS + 30 for _, words in kept.values())


def test_the_page_has_every_entry():
    page = (Path(__file__).parents[2] / "docs/theory/errata.md").read_text(encoding="utf-8")
    parts = page.split("\n### ")[1:]
    assert len(parts) == len(errata())
    for part, entry in zip(parts, errata(), strict=True):
        for said in (entry.where, entry.quotation, entry.place, entry.printed, entry.right, entry.under):
            assert said in part, (entry.key, said)
        assert part.split("\n")[2].startswith(f"- {entry.fault.capitalize()}. ")


def test_every_entry_says_what_it_is():
    found = errata()
    assert all(isinstance(entry.fault, Fault) and entry.place and entry.under for entry in found)
    assert len({entry.key for entry in found}) == len(found)
    assert len({(entry.paper, entry.where) for entry in found}) == len(found)
    assert set(TEXTS) == set(PAPERS)
    assert counted(entry.fault for entry in found) == "5 errors, 19 inconsistencies, 8 gaps, 31 misprints"
