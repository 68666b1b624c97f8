"""The report of a proof: complete, self-contained, safe against names that look like HTML, readable in a terminal."""

import re
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from wideproof.certificates import Descent, Problem, certify
from wideproof.certificates.polishing import polish
from wideproof.data import Dataset, audit
from wideproof.kernels import gram, predict
from wideproof.networks import FullyConnected
from wideproof.proving import Proof, Ratio
from wideproof.report import proof_sentences
from wideproof.report.html import proof_html, save_report
from wideproof.report.proof_figures import draw
from wideproof.report.proof_terminal import COLUMNS, proof_text
from wideproof.report.proof_words import checks, numbers, outcome, shown
from wideproof.training import Recipe, train
from wideproof_verify import Verdict

NAME = "<script>alert(1)</script>"
NETWORK = FullyConnected(input_dim=4, width=64, depth=1)
ALL = ["loss", "ratio", "spectrum", "distance"]
EMPTY_ELEMENTS = {"meta", "br"}


def problem() -> Dataset:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(6, 4))
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    return Dataset(x / np.linalg.norm(x, axis=1, keepdims=True), y, "binary", name=NAME)


@pytest.fixture(scope="module")
def proved() -> Proof:
    data = problem()
    run = train(NETWORK, data, Recipe(steps=300))
    near = polish(NETWORK, run.params, data.x, data.y)
    attempt = certify(Problem(NETWORK, data).at(near.params))
    assert attempt.passed
    assert attempt.certificate is not None
    claims = attempt.certificate.claims
    rows = [
        ("rho ≥ ‖r‖", claims["rho"], 3.25e-17),
        ("s > 0", claims["s"], 0.0),
        ("s ≤ √λ_min(JJᵀ)", claims["s"], 0.15625),
        ("Λ_1 ≥ Λ_0", 2.0, 0.0),
        *((f"Λ_{j} ≥ Λ(t_{j})", 2.0, 1.0 + j / 100) for j in range(1, 41)),
    ]
    starts, ends = (np.asarray(gram(NETWORK, at, data.x).matrix) for at in (run.initial, near.params))
    start = np.asarray(NETWORK(run.initial, data.x))  # pyright: ignore[reportArgumentType]
    course = predict(starts, targets=data.y, start=start, step_size=run.step_size)
    return Proof(
        data=data,
        audit=audit(data),
        network=NETWORK,
        run=run,
        ratios=tuple(Ratio(k, 2.0 / (k + 1), 0.3, 1e6 / (k + 1), 0.1 * k**0.5) for k in (0, 1, 10, 100, 300)),
        polished=near,
        attempt=attempt,
        verdict=Verdict("proved", "every inequality holds", "It converges.", rows, 128, 0.25),
        eigenvalues={"start": np.linalg.eigvalsh(starts), "end": np.linalg.eigvalsh(ends)},
        predicted=(run.steps, course.loss(run.steps)),
        seconds={"audit": 0.01, "train": 1.5},
        folder=Path("runs/with space"),
    )


@pytest.fixture(scope="module")
def unproved(proved: Proof) -> Proof:
    assert proved.run is not None
    attempt = certify(Problem(NETWORK, proved.data).at(proved.run.initial))
    assert attempt.obstacle is not None
    return replace(proved, attempt=attempt, polished=None, verdict=None)


@pytest.fixture(scope="module")
def impossible(proved: Proof) -> Proof:
    x, y = proved.data.x.copy(), proved.data.y
    x[1] = x[0]
    data = Dataset(x, y, "binary", name=NAME)
    return Proof(
        data=data, audit=audit(data), network=NETWORK, run=None, ratios=(), polished=None,
        attempt=certify(Problem(NETWORK, data).at(NETWORK.init(0)), Descent(require_zero=True)),  # pyright: ignore[reportArgumentType]
        verdict=Verdict("proved", "", "No network fits."),
        eigenvalues={}, predicted=None, seconds={}, folder=None,
    )  # fmt: skip


@pytest.fixture(params=["proved", "unproved", "impossible"])
def proof(request) -> Proof:
    return request.getfixturevalue(request.param)


class Balanced(HTMLParser):
    """Notes every element, and fails where an end tag does not close what was opened last."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in EMPTY_ELEMENTS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@cache
def page_of(proof: Proof) -> str:
    return proof_html(proof)


def parsed(page: str) -> Balanced:
    parser = Balanced()
    parser.feed(page)
    parser.close()
    return parser


def test_the_page_is_balanced_self_contained_and_runs_nothing(proof):
    page = page_of(proof)
    found = parsed(page)
    assert found.open == []
    tags = {tag for tag, _ in found.seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert not any(name.startswith("on") for _, attributes in found.seen for name in attributes)
    addresses = re.findall(r"(\S*?)\bhttps?://", page)
    assert all(before.startswith("xmlns") for before in addresses)
    assert re.search(r"url\((?!#)|@import|src=", page) is None


def test_identifiers_are_unique_and_references_are_met(proved):
    page = page_of(proved)
    names = [attributes["id"] for _, attributes in parsed(page).seen if "id" in attributes]
    assert len(names) == len(set(names))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', page)) <= set(names)


def test_names_are_escaped(proof):
    page = page_of(proof)
    assert NAME not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<b>more" not in page
    assert NAME in parsed(page).text


def test_the_verdict_comes_first_and_in_its_colour(proof):
    page = page_of(proof)
    answer = outcome(proof)
    assert f'<main class="{answer.replace(" ", "-")}">' in page
    assert page.index('class="badge"') < page.index("<h1") < page.index('class="meaning"') < page.index("<h2")


def test_a_proved_report_says_everything(proved):
    page = page_of(proved)
    text = parsed(page).text
    assert outcome(proved) == "proved"
    assert proved.headline in text
    assert list(draw(proved)) == ALL
    positions = [page.index(f'<section id="{name}"') for name in
                 [*ALL, "numbers", "verify", "problem", "training", "audit", "times", "trust"]]  # fmt: skip
    assert positions == sorted(positions)
    found = proved.attempt.descent
    assert found is not None
    for number in (found.rho, found.radius, found.h):  # upper bounds are rounded up, lower ones down
        assert shown(number, 6, ROUND_CEILING) in text
    for number in (found.s, found.eta):
        assert shown(number, 6, ROUND_FLOOR) in text
    assert "0.15625" in text
    assert "wideproof verify 'runs/with space/certificate'" in text
    assert "the tightest of 40" in text
    assert "unseen" in text or "not seen" in text
    assert 'id="obstacle"' not in page


def test_claims_meet_the_verifiers_values(proved):
    rows = {row.symbol: row for row in numbers(proved)}
    assert rows["ρ"].found == shown(3.25e-17, 6, ROUND_CEILING)
    assert rows["s"].found == "0.15625"  # and not the 0 of "s > 0"
    # 1.01 is no float, and what bounds from above is rounded up; and it is not the 0 of "Λ_1 ≥ Λ_0".
    assert rows["Λ"].found == "1.01001"
    assert rows["b"].found == ""
    assert [row.count for row in checks(proved)] == [1, 1, 1, 1, 40]
    assert checks(proved)[-1].name == "Λ_40 ≥ Λ(t_40)"


def test_an_unproved_report_says_what_is_in_the_way(unproved):
    text = parsed(page_of(unproved)).text
    assert outcome(unproved) == "not proved"
    obstacle = unproved.attempt.obstacle
    assert obstacle.reason[1:] in text
    for line in obstacle.advice:
        assert line in text
    assert "Check it yourself" not in text
    assert list(draw(unproved)) == ALL


def test_a_refused_certificate_is_not_called_proved(proved):
    refused = replace(proved, verdict=Verdict("not proved", "h < 1/2 fails"))
    text = parsed(proof_html(refused)).text
    assert outcome(refused) == "not proved"
    assert "h < 1/2 fails" in text
    assert "proven bound" not in text
    assert "What is proved" not in text
    assert "not proved" in proof_text(refused)


def test_an_impossible_problem_has_no_figures(impossible):
    page = page_of(impossible)
    assert outcome(impossible) == "impossible"
    assert draw(impossible) == {}
    assert "<svg" not in page
    assert impossible.headline in parsed(page).text


MISSING = {"ratios": (), "eigenvalues": {}, "predicted": None, "polished": None, "run": None, "folder": None}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_part_leaves_out_its_figure(proved, name):
    lacking = replace(proved, **{name: MISSING[name]})
    gone = {"ratios": {"ratio"}, "eigenvalues": {"spectrum"}}.get(name, set())
    assert set(draw(lacking)) == set(ALL) - gone
    assert "An exact fit of all 6 rows" in proof_text(lacking) or name in ("polished", "run")


def test_all_of_them_missing_still_leaves_a_report(proved):
    page = proof_html(replace(proved, **MISSING))
    assert parsed(page).open == []
    assert "wideproof verify FOLDER/certificate" in page
    assert "FOLDER" not in proof_text(replace(proved, **MISSING))


def test_a_contradiction_that_nobody_verified_is_not_played_down(impossible):
    attempt = replace(impossible.attempt, certificate=None)
    text = parsed(proof_html(replace(impossible, attempt=attempt, verdict=None))).text
    assert "Zero loss does not exist" in text
    assert "may well" not in text


def test_the_terminal_text_fits(proof):
    text = proof_text(proof)
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert outcome(proof) in text.lower()


def test_the_terminal_text_has_numbers_curve_and_files(proved):
    text = proof_text(proved)
    assert "training loss against step" in text
    assert shown(3.25e-17) in text
    assert "runs/with space/report.html" in text


def test_files_are_written(proved, tmp_path):
    report = save_report(proved, tmp_path)
    assert report == tmp_path / "report.html"
    assert report.read_text() == page_of(proved)
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {"report.html"} | {f"figures/{name}.{kind}" for name in ALL for kind in ("svg", "png")}
    for name in ALL:
        assert (tmp_path / f"figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (tmp_path / f"figures/{name}.svg").read_bytes()


def test_a_least_loss_is_taken_off_the_figure(proved):
    """The theorem bounds what is above the least loss: run and bound are drawn in the same units."""
    x, y = proved.data.x.copy(), proved.data.y
    x[1] = x[0]
    data = Dataset(x, y, "binary", name="clash")
    run = train(NETWORK, data, Recipe(steps=50))
    found = replace(proved, data=data, run=run, polished=None, predicted=None, ratios=(), eigenvalues={})
    drawn = draw(found)["loss"]
    axes = drawn.figure.axes[0]
    assert "above the least, 1" in axes.get_ylabel()
    assert "above the least" in drawn.caption
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata(), float), run.records["loss"] - 1.0, rtol=1e-12)


def test_rows_that_only_a_left_out_column_tells_apart_are_not_called_equal():
    class Groups:
        least, least_loss, contradicting = 0.5, (0.5, 0.5), (1, 2)

    def said(*notes):
        data, network = SimpleNamespace(n=6, notes=notes, task="binary"), SimpleNamespace(data_kind="vectors")
        proof = SimpleNamespace(groups=Groups, data=data, network=network)
        return proof_sentences._least(proof)  # pyright: ignore[reportArgumentType]

    assert "so no function fits them all: the least loss of any function is 0.5" in said("2 columns: 2 numbers")
    assert "left out" not in said("left out b (empty)")
    text = said("2 columns: 2 numbers", "left out b (empty) and note (all different)")
    assert "an equal row with another target in the columns that are used, so no function of these columns" in text
    assert text.endswith("What was left out b (empty) and note (all different) may tell them apart.")
