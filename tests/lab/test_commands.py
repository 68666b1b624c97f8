"""What a page may ask for: no command ends the bench, and what cannot be is refused in one sentence."""

import json
import math
import random
import string
from typing import Any

import numpy as np
import pytest

from tests.lab.benching import SETTINGS, library_run, points
from wideproof.lab.bench import Bench
from wideproof.lab.settings import DataSettings, NetworkSettings


def test_a_failure_while_it_runs_pauses_with_a_sentence(bench, heard, monkeypatch):
    def broken(self):
        raise np.linalg.LinAlgError("Eigenvalues did not converge\nand more")

    bench.do({"do": "run"})
    monkeypatch.setattr("wideproof.lab.lane.Lane.look", broken)
    bench.turn()
    assert heard.of("error")[-1][0]["text"] == "that did not work: Eigenvalues did not converge"
    assert heard[-1][0] == "paused"
    assert not bench.running


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"kind": "generator", "name": "/etc/passwd"}, "there is no generator"),
        ({"kind": "generator", "name": "http://evil.example/a.csv"}, "there is no generator"),
        ({"kind": "bundled", "name": "../secret.csv"}, "there is no bundled data set"),
        ({"kind": "file", "name": "../../etc/passwd"}, "no longer available"),
        ({"kind": "file", "name": "0123456789abcdef"}, "no longer available"),
        ({"kind": "generator", "name": "sphere:n=100000000,d=3,separation=0.1"}, "at most 5000 examples"),
        ({"kind": "generator", "name": "sphere:n=100,d=100000000,separation=0.1"}, "at most 5000 examples"),
        ({"points": [[0, 0, 1]] * 501}, "data.points"),
        ({"points": [[0, float("nan"), 1]] * 5}, "data.points"),
        ({"points": []}, "data.points"),
        ({"name": "\0"}, "there is no set of points"),
    ],
)
def test_data_that_are_refused(bench, heard, data, sentence):
    bench.do({"do": "configure", "settings": {"data": data}})
    assert sentence in heard.of("error")[-1][0]["text"]
    bench.do({"do": "step"})
    assert heard.of("points"), "what was there before goes on"


def test_a_network_that_is_too_large_is_refused(bench, heard):
    bench.do({"do": "configure", "settings": {"networks": [{"width": 8192, "depth": 30}]}})
    assert "at most 100,000,000 weights" in heard.of("error")[-1][0]["text"]


def anything(rng: random.Random, depth: int = 3):
    """A value that JSON can hold, or that Python reads from it."""
    leaf = [None, True, False, 0, -1, 1, 10**30, 10**400, 0.5, -1e308, math.inf, -math.inf, math.nan, "", "\0",
            "\ud800", "circles", "__class__", "x" * 300, "<script>", "0", "1e5"]  # fmt: skip
    kind = rng.randrange(10 if depth else 8)
    if kind < 8:
        return rng.choice([*leaf, "".join(rng.choices(string.printable, k=8))])
    if kind == 8:
        return [anything(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(["lane", "step", "data", "x"]): anything(rng, depth - 1) for _ in range(rng.randrange(3))}


def any_command(rng: random.Random):
    do = rng.choice(
        ["configure", "run", "pause", "step", "reset", "pace", "steer", "move", "prove", "ack", "choose", "?"]
    )
    command = {"do": do if rng.random() < 0.95 else anything(rng)}
    for key in ("lane", "step", "steps", "pace", "points", "from_start", "settings"):
        if rng.random() < 0.5:
            command[key] = anything(rng)
    if do in ("configure", "choose") and rng.random() < 0.8:  # settings that are right but for one
        data: dict[str, Any] = {"name": "blobs", "n": 6}
        network: dict[str, Any] = {"width": 16, "depth": 1}
        part = rng.choice([data, network])
        part[rng.choice([*data, *network, *DataSettings.model_fields, *NetworkSettings.model_fields])] = anything(rng)
        command["settings"] = {"data": data, "networks": [network]}
    if do == "move" and rng.random() < 0.5:
        command["points"] = [[rng.uniform(-1, 1), rng.uniform(-1, 1), anything(rng, 0)] for _ in range(6)]
    return command


@pytest.mark.slow  # hundreds of hostile commands
def test_no_command_ends_the_bench(bench, heard, monkeypatch):
    monkeypatch.setattr("wideproof.lab.proofs.Proofs.ask", lambda *_: None)
    monkeypatch.setattr(Bench, "_grow", lambda *_: None)
    rng = random.Random(0)
    sentences = 0
    for _ in range(300):
        heard.clear()
        command = any_command(rng)
        bench.do(command)
        bench.turn()
        for fields, _ in heard.of("error"):
            sentences += 1
            assert 0 < len(fields["text"]) < 700, command
            assert "\n" not in fields["text"], command
            json.dumps(fields["text"]).encode()
    assert sentences > 100
    heard.clear()
    bench.do({"do": "configure", "settings": SETTINGS})
    bench.do({"do": "step", "steps": 4})
    np.testing.assert_array_equal(points(heard)[1], library_run(4).records["loss"][:4].astype("f4"))
