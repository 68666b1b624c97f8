"""What notebooks show: every kind of value has a card, texts are escaped, and pictures are what they say."""

from __future__ import annotations

import base64
import importlib
import inspect
import re
import struct
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import wideproof as wp
from wideproof.cards import PIXELS, card, grid, heat, line
from wideproof.certificates import Descent, Problem, certify
from wideproof.data import Dataset, ImageDataset, SequenceDataset
from wideproof.kernels import Gram, spectrum
from wideproof.planning import Estimate
from wideproof.training import Run

EVIL = "<script>alert(1)</script>&\"'"


class Reader(HTMLParser):
    """Collects tags and text, and whether every tag is closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag != "img":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += f"{data} "


def read(value: object) -> Reader:
    found = Reader(value._repr_html_())  # pyright: ignore[reportAttributeAccessIssue]
    assert found.open == []
    assert "script" not in found.tags
    return found


def pixels(picture: str) -> np.ndarray:
    """Decode a PNG by the format's own rules: chunks, filter 0, three bytes for each pixel."""
    content = base64.b64decode(re.search(r"base64,([^\"]+)", picture)[1])  # pyright: ignore[reportOptionalSubscript]
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    place, parts = 8, {}
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        kind, body = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        (check,) = struct.unpack(">I", content[place + 8 + length : place + 12 + length])
        assert check == zlib.crc32(kind + body)
        parts[kind] = body
        place += 12 + length
    width, height = struct.unpack(">II", parts[b"IHDR"][:8])
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


@pytest.mark.parametrize(
    "data",
    [
        Dataset(np.eye(3), np.array([1, -1, 1]), "binary", name=EVIL, classes=(EVIL, "b")),
        Dataset(np.eye(3), 2 * np.eye(3) - 1, "multiclass", name=EVIL),
        ImageDataset(np.ones((2, 3, 5)), np.array([0.5, 2.0]), "regression", name=EVIL),
        SequenceDataset(np.ones((2, 4, 3)), np.zeros((2, 4, 1)), "regression", name=EVIL),
    ],
    ids=["binary", "multiclass", "images", "sequences"],
)
def test_data_sets_say_what_they_hold(data: wp.Dataset):
    said = read(data).said
    assert EVIL in said
    assert data.digest[:12] in said
    assert str(data.n) in said


def test_counts_of_classes_are_those_of_the_labels():
    data = wp.load("iris", limit=30)
    said = read(data).said
    assert data.labels is not None
    for k, name in enumerate(data.classes):
        assert f"{name}: {int((data.labels == k).sum())}" in said


def test_a_run_says_how_it_ended_and_draws_its_loss():
    data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary", name=EVIL)
    run = wp.train(wp.build("fully-connected", (3,), (), width=8, depth=1), data, wp.Recipe(steps=5))
    found = read(run)
    assert run.ending in found.said
    assert f"{run.loss:.4g}" in found.said
    assert "polyline" in found.tags
    assert isinstance(run, Run)


def test_a_gram_matrix_is_drawn_entry_by_entry():
    matrix = np.array([[2.0, -1.0], [-1.0, 0.0]])
    made = Gram(matrix, ("W1",), "finite", "float64", "cpu", 1e-15, singular=EVIL)
    assert EVIL in read(made).said
    drawn = pixels(made._repr_html_()).astype(int)
    assert drawn[1, 1].tolist() == [255, 255, 255]
    assert drawn[0, 0].tolist() == [22, 78, 121]  # the largest entry, blue
    assert drawn[0, 1].tolist() == drawn[1, 0].tolist() == [218, 170, 142]  # half as large and negative: half orange


def test_a_large_matrix_is_averaged():
    n = 3 * PIXELS
    matrix = np.arange(n)[:, None] * np.ones(n)
    drawn = pixels(heat(matrix, "")).astype(int)
    assert drawn.shape == (PIXELS, PIXELS, 3)
    means = matrix.reshape(PIXELS, 3, n).mean(axis=(1, 2))
    expected = np.rint(255 - (255 - 22) * means / means.max())
    assert np.abs(drawn[:, 0, 0] - expected).max() <= 1


def test_a_plan_lists_its_candidates():
    data = wp.load("sphere:n=10,d=3,separation=0.3")
    made = wp.plan(data, width=64, activation="erf", prepare=["none", "standardize,sphere(4)"])
    found = read(made)
    assert str(made.choice.network) in found.said
    assert made.why in found.said
    assert found.said.count("fully-connected, erf, width 64") == 2
    assert "taken" in found.said


def test_what_a_plan_says_of_a_table_is_escaped():
    data = Dataset(np.eye(2)[[0, 0, 1]], np.array([1.0, -1.0, 1.0]), "binary", name=EVIL)
    found = read(wp.plan(data, width=64, activation="erf", prepare="none"))
    assert EVIL in found.said
    assert "the least loss of any function is 1" in found.said


def test_texts_are_escaped():
    for text in (card(EVIL, {EVIL: EVIL}), grid([EVIL], [[EVIL]]), line([1.0, 2.0], EVIL), heat(np.eye(2), EVIL)):
        assert "<script" not in text
        Reader(text)


def test_lines_need_two_positive_values():
    assert line([0.0, np.nan, 1.0], "") == ""
    points = re.search(r'points="([^"]+)"', line([100.0, 10.0, 1.0], ""))
    assert points is not None
    assert [tuple(map(float, one.split(","))) for one in points[1].split()] == [(4, 4), (120, 30), (236, 56)]


def test_a_spectrum_says_its_verdict_and_draws_its_eigenvalues():
    matrix = np.diag([4.0, 1.0, 0.25])
    made = spectrum(Gram(matrix, ("W1",), "finite", "float64", "cpu", 1e-15))
    found = read(made)
    assert made.verdict in found.said
    assert str(made.smallest) in found.said
    assert "at least 3" in found.said
    assert "polyline" in found.tags
    undecided = read(spectrum(Gram(np.ones((2, 2)), ("W1",), "finite", "float64", "cpu", 1e-15, singular=EVIL)))
    assert EVIL in undecided.said
    assert "at least 1" in undecided.said


def test_an_audit_lists_its_verdicts():
    data = Dataset(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.array([1.0, -1.0, 1.0]), "binary", name=EVIL)
    made = wp.audit(data)
    found = read(made)
    assert EVIL in found.said
    assert "a function fits all targets no" in found.said
    for one in made.verdicts:
        assert one.detail in found.said
        assert str(one.status) in found.said
    good = read(wp.audit(Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")))
    assert "1.41" in good.said  # the distance of unit vectors


def test_estimates_and_influences():
    made = Estimate("R²", 0.9, 0.0, 0.05, 40, "folds", typical=(1.5, 3.0))
    said = read(made).said
    for part in ("0.900 ± 0.050", "better than guessing yes", "1.5; 3 for the mean"):
        assert part in said
    assert "better than guessing no" in read(Estimate("accuracy", 0.5, 0.5, 0.1, 20)).said
    model = wp.NTKRegressor(ridge=1.0).fit(np.arange(12.0)[:, None], np.arange(12.0))
    assert "training rows 12" in read(model.influence([[2.0]])).said
    assert "R²" in read(model.estimate(np.arange(12.0)[:, None], np.arange(12.0))).said


def test_every_result_that_prints_itself_is_shown_in_notebooks():
    """Whatever a door names and has a text of its own; those left out are parts of others."""
    parts = {"Step", "Verdict", "Enclosed", "Candidate", "Slope"}
    packages = "data networks kernels training certificates papers planning sweeps proving theorems estimators"
    doors = [importlib.import_module(f"wideproof.{name}") for name in packages.split()]
    named = {value for door in doors for name in dir(door) if inspect.isclass(value := getattr(door, name))}
    own = {one for one in named if getattr(one.__str__, "__module__", "").startswith("wideproof")}
    assert {"Proof", "Attempt", "Choice", "Followed", "Exponent"} <= {one.__name__ for one in own}
    assert {one.__name__ for one in own if not hasattr(one, "_repr_html_")} == parts


def test_a_text_stays_as_it_is_printed():
    data = Dataset(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1.0, -1.0]), "binary", name=EVIL)
    network = wp.build("fully-connected", (2,), (), width=8, depth=1)
    attempt = certify(Problem(network, data).at(network.init(0)), Descent(require_zero=True))
    assert read(attempt).said.strip() == str(attempt)
    assert read(network).said.strip() == str(network)
    assert read(attempt).tags == ["pre"]
    made = wp.plan(wp.load("sphere:n=8,d=3,separation=0.3"), width=64, activation="erf", prepare="none").choice
    said = read(made).said
    assert str(made.network) in said
    assert f"{made.step_size:.4g}" in said
    estimate = Estimate("accuracy", 0.5, 0.5, 0.1, 20)
    assert str(estimate) in read(replace(made, estimate=estimate, notes=(EVIL,))).said
