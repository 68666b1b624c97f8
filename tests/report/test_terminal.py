"""What commands print, from a value: whole strings at a fixed width, and nothing lost in markup."""

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from rich.console import Console

from wideproof.data import Dataset, audit
from wideproof.papers import Measured, errata, statements
from wideproof.papers.check import at_least, at_most, conclude, scales
from wideproof.report import (
    audit_view,
    erratum_summary,
    erratum_view,
    measured_view,
    part_summary,
    part_text,
    run_summary,
    run_text,
    statements_view,
    too_many,
)
from wideproof.training import Status


def printed(view, width=80, **options):
    sink = io.StringIO()
    Console(file=sink, width=width, color_system=None, highlight=False).print(view, **options)
    return sink.getvalue()


def test_an_audit_says_how_it_counts_and_keeps_brackets():
    x = np.array([[1.0, 0.0, 5.0], [0.0, 1.0, 5.0], [0.0, -1.0, 5.0]])
    found = audit(Dataset(x, np.array([1.0, -1.0, 1.0]), "binary", name="a[bold]b"), margin="never")
    text = printed(audit_view(found), 200)
    assert "a[bold]b: 3 examples of 3, binary" in text
    assert "constant columns   1: 2" in text
    assert "examples and columns are counted from 0" in text
    assert "Zero training loss is not ruled out by the data." in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_a_statement_says_stays_beside_its_name(width):
    chosen = statements("zou2018")
    lines = printed(statements_view(chosen), width).splitlines()
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if "…" in line]
    names = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert names == [one.name for one in chosen]
    whole = " ".join(" ".join(lines).split())
    for one in chosen:
        assert f"({one.check}, {one.role})" in whole


def test_a_list_in_a_file_has_one_line_for_each_statement():
    chosen = statements()
    lines = printed(statements_view(chosen, lines=True), soft_wrap=True).splitlines()
    assert len(lines) == len(chosen)
    for one, line in zip(chosen, lines, strict=True):
        assert line.split()[:3] == [one.name, one.check, one.role]
        assert line.endswith(one.title)
    assert printed(statements_view((), lines=True)).strip() == ""


def test_a_misprint_beside_its_measurements():
    entry = replace(errata("du2019")[0], where="eq. [3]", printed="a [b]", right="c")
    row = erratum_summary(entry, at_most("x", 3.0, 2.0), at_most("x", 1.0, 2.0), decided=True)
    assert (row["paper"], row["where"], row["decided"]) == ("du2019", "eq. [3]", True)
    lines = printed(erratum_view(row), 200).splitlines()
    assert lines[0].endswith(", eq. [3]: inconsistency")
    assert lines[1:7:2] == [f"  text     {entry.quotation}", "  printed  a [b]", "  right    c"]
    assert lines[2].strip() == entry.place
    assert "fails" in lines[4]
    assert "holds" in lines[6]
    assert lines[7] == f"  under    {entry.under}"


def measured(check, name="zou2018.lemma_a_11"):
    return Measured(statements(name)[0], check, 0.5)


X = np.array([32.0, 64.0, 128.0])
PARTS = conclude(
    scales("‖W‖", "m", X, [X**0.02, X**0.02, X**0.02], 0.0),
    scales("|‖x‖ - 1|", "m", X, [X**-0.48, X**-0.48, X**-0.48], -0.5),
    hypotheses=[at_least("m >= n⁴", 256.0, 82_532.0), at_most("φ <= μ", 0.3, 0.5)],
    assumptions=["d = 6"],
)


@pytest.mark.parametrize("width", [80, 100])
def test_of_one_statement_everything_is_said(width):
    lines = printed(measured_view(measured(PARTS)), width).splitlines()
    assert max(map(len, lines)) <= width
    whole = " ".join(" ".join(lines).split())
    for said in (
        "holds zou2018.lemma_a_11 says E[σ(Z1)σ(Z2)] is never below half of E[Z1 Z2]",
        r"\sigma(Z_2)",
        "text the printed right side repeats the left one; ½E[Z1 Z2] is meant",
        "`wideproof errata zou2018.lemma_a_11` measures both forms.",
        "measured holds: ‖W‖: exponent in m 0.02",
        "holds: |‖x‖ - 1|: exponent in m -0.48",
        "fitted at m = 32, 64, 128",
        "supposed not met: m >= n⁴ (256, where 82,532 is asked for) met: φ <= μ (0.3 against 0.5)",
        "chosen d = 6",
    ):
        assert said in whole, said


def test_one_statement_in_a_file_has_a_line_for_everything():
    lines = printed(measured_view(measured(PARTS), lines=True), 20, soft_wrap=True).splitlines()
    assert lines[0] == "holds     zou2018.lemma_a_11"
    assert "supposed  not met: m >= n⁴ (256, where 82,532 is asked for)" in lines
    assert "          met: φ <= μ (0.3 against 0.5)" in lines


def test_a_statement_that_is_false_is_measured_as_printed():
    one = measured(at_most("a", 3.0, 2.0), "zou2018.lemma_a_12")
    text = " ".join(printed(measured_view(one)).split())
    assert "It is measured as printed; `wideproof errata zou2018.lemma_a_12` measures both forms." in text
    assert "note false as printed: two inputs" in text
    assert "text" not in printed(measured_view(measured(PARTS, "zou2018.lemma_c_1")))


def test_of_many_statements_the_part_is_named_before_its_numbers():
    joined = conclude(PARTS, title="both")
    line = printed(measured_view(measured(joined), 9, lines=True), 20, soft_wrap=True)
    assert line.startswith("holds     zou2018.lemma_a_11               ‖W‖: exponent in m 0.02")
    assert line.count("\n") == 1
    first, *more = printed(measured_view(measured(joined), 9), 80).splitlines()
    assert first == "holds     zou2018.lemma_a_11"
    assert more[0].startswith("          ‖W‖: exponent in m 0.02")


FAILED = SimpleNamespace(task=SimpleNamespace(chosen=(("width", 8), ("seed", 1))), error="too narrow")


class Part(NamedTuple):
    kept: int = 2
    done: int = 3
    failed: tuple[Any, ...] = (FAILED,)
    seconds: float = 1.25


def test_a_part_of_a_sweep():
    assert part_text(Part(), "3/10", "depth").splitlines() == [
        "failed at width 8, seed 1: too narrow",
        "part 3/10 of depth: 3 tasks done, 2 kept from before, 1 failed, 1.2 s",
    ]
    assert part_summary(Part(), "3/10") == {
        "part": "3/10", "kept": 2, "done": 3, "failed": ["too narrow"], "seconds": 1.25,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("each", "time"), [(0.002, "40 seconds"), (0.01, "3.33 minutes"), (1, "5.56 hours"), (60, "13.9 days")]
)
def test_how_long_a_sweep_would_take(each, time):
    text = too_many(SimpleNamespace(name="depth", count=20_000), each)  # pyright: ignore[reportArgumentType]
    assert "depth has 20,000 tasks" in text
    assert f"about {time} one after another: give --yes" in text


def a_run(**changes):
    there = {
        "steps": np.array([0, 1, 2]), "records": {"loss": np.array([1.0, 0.1, 0.01])}, "error": float("nan"),
        "step": 2, "seconds": 0.5, "loss": 0.01, "step_size": 0.25, "advice": "", "ending": "reached the step limit",
        "status": Status.LIMIT,
    }  # fmt: skip
    return SimpleNamespace(**there | changes)


def test_a_run_that_ended():
    folder, said = Path("my runs"), "reached the step limit at step 2: loss 0.01 (step size 0.25, 0.5 s, 4 steps/s)"
    assert run_text(a_run(), folder, drawn=False).splitlines() == [said, "saved in my runs"]  # pyright: ignore[reportArgumentType]
    drawn = run_text(a_run(), folder, plot=Path("a.svg")).splitlines()  # pyright: ignore[reportArgumentType]
    assert drawn[0] == "training loss against step"
    assert drawn[-2:] == [said, "saved in my runs, curve in a.svg"]


def test_a_run_that_was_interrupted_says_how_it_goes_on():
    run = a_run(status=Status.RUNNING, error=0.5, advice="wait", ending="interrupted", seconds=0.0)
    assert run_text(run, Path("my runs"), drawn=False).splitlines() == [  # pyright: ignore[reportArgumentType]
        "interrupted at step 2: loss 0.01, training error 0.5 (step size 0.25, 0.0 s)",
        "wait",
        "resume it with: wideproof resume 'my runs'",
    ]


def test_nothing_recorded_is_nothing_drawn(monkeypatch):
    monkeypatch.setattr("wideproof.networks.to_config", lambda network: {})
    run = a_run(
        steps=np.array([]), records={}, network=None, succeeded=SimpleNamespace(truth=None),
        recipe=SimpleNamespace(to_config=dict), data=SimpleNamespace(name="a", n=1, digest="", preparation=()),
    )  # fmt: skip
    assert "against step" not in run_text(run, Path("a"))  # pyright: ignore[reportArgumentType]
    assert run_summary(run, Path("a"))["history"] == {"step": [], "loss": []}  # pyright: ignore[reportArgumentType]
