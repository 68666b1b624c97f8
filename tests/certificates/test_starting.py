"""Proofs from the start: what the prover claims is proved, and no lie about start, steps, batches or end is."""

from __future__ import annotations

import copy
import dataclasses
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import wideproof as wp
from tests.certificates.rewriting import flip, parts, put
from tests.verify import stated
from wideproof.certificates import Finite, Problem, certify, certify_from_start, costs, growth
from wideproof.certificates.certificate import load_certificate
from wideproof.certificates.starting import batches_of
from wideproof.data import Dataset, SequenceDataset
from wideproof.errors import InputError
from wideproof.networks import DeepReLU, ElmanRNN, FullyConnected, Network, ResidualReLU, get_activation
from wideproof.training import Recipe, Run, train
from wideproof.training.losses import MarginLoss, get_loss
from wideproof.training.train import begin
from wideproof_verify import Verdict, verify

TANH = get_activation("tanh")


def margin_loss(name: str) -> MarginLoss:
    found = get_loss(name)
    assert isinstance(found, MarginLoss)
    return found


def points(n: int = 3, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.eye(d)[:n] + 0.1 * np.random.default_rng(seed).standard_normal((n, d))


def pairs(n: int = 3) -> Dataset:
    return Dataset(points(n), np.array([1.0, -1.0, 1.0, -1.0])[:n], "binary")


RUNS: dict[str, tuple[Network, Recipe]] = {
    "descent": (FullyConnected(4, 24, 1, TANH), Recipe(target_loss=1e-6, steps=400)),
    "descent-batches": (FullyConnected(4, 24, 1, TANH), Recipe(target_loss=1e-6, steps=400, batch=2)),
    "logistic": (FullyConnected(4, 64, 1, trained=("hidden",)), Recipe(loss="logistic", steps=10)),
    "logistic-batches": (
        FullyConnected(4, 64, 1, trained=("hidden",)),
        Recipe(loss="logistic", steps=6, step_size=1.0, batch=2),
    ),
    "finite": (FullyConnected(4, 8, 2, TANH), Recipe(loss="squared_hinge", steps=6, step_size=0.2)),
    "finite-batches": (DeepReLU(4, 8, 2), Recipe(loss="logistic", steps=8, step_size=0.5, batch=2)),
}


class Case(NamedTuple):
    run: Run
    folder: Path
    document: dict[str, Any]
    arrays: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> dict[str, Case]:
    found = {}
    for name, (network, recipe) in RUNS.items():
        run = train(network, pairs(), recipe)
        attempt = certify_from_start(run, Finite() if name.startswith("finite") else None)
        assert attempt.certificate is not None, str(attempt)
        folder = attempt.certificate.save(tmp_path_factory.mktemp("starts") / name)
        found[name] = Case(run, folder, *parts(folder))
    return found


@pytest.fixture(params=RUNS)
def case(request, cases) -> Case:
    return cases[request.param]


class End(NamedTuple):
    """Distance from the anchor, loss and least margin after the stored steps, and the loss after those that follow."""

    apart: float
    loss: float
    margin: float
    later: float


def steps_of(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> End:
    """Take the stored steps, and those that are claimed to follow, in plain NumPy from the JSON alone."""
    config, start, loss = document["network"], document["start"], document["loss"]
    x, y = arrays["x"], (arrays["y"][:, 1:] if config["times"] else arrays["y"]).reshape(len(arrays["y"]), -1)
    anchor = {name.removeprefix("weights/"): a for name, a in arrays.items() if name.startswith("weights/")}
    weights = anchor | {name.removeprefix("start/"): a for name, a in arrays.items() if name.startswith("start/")}
    squared, mean = loss["name"] == "squared", loss["reduction"] == "mean"

    def stepped(weights: dict[str, np.ndarray], at: np.ndarray, step_size: float) -> dict[str, np.ndarray]:
        found = stated.evaluate(config, weights, x[at])
        f, signs = found.outputs, y[at]
        slope = (
            f - signs if squared else signs * np.asarray(margin_loss(loss["name"]).derivative(jnp.asarray(signs * f)))
        )
        factor = step_size * (1 if mean else len(x)) / len(at)
        return stated.moved(config, weights, -factor * (found.jacobian.T @ slope.ravel()))

    for k in range(start["steps"]):
        weights = stepped(
            weights, arrays["batches"][k] if "batches" in arrays else np.arange(len(x)), start["step_size"]
        )

    def value(f: np.ndarray) -> float:
        losses = 0.5 * np.square(f - y) if squared else margin_loss(loss["name"]).value(jnp.asarray(y * f))
        return float(np.sum(losses)) / (len(x) if mean else 1)

    apart = math.sqrt(sum(float(np.square(weights[name] - anchor[name]).sum()) for name in anchor))
    f = stated.evaluate(config, weights, x).outputs
    later, claims = value(f), document["claims"]
    for _ in range(min(claims.get("steps", 0), 1000)):
        if document["theorem"] == "logistic" and later <= claims["epsilon"]:
            break
        weights, before = stepped(weights, np.arange(len(x)), claims["eta"]), later
        later = value(stated.evaluate(config, weights, x).outputs)
        if document["theorem"] == "logistic" and not later < before:
            return End(apart, value(f), float((y * f).min()), math.inf)
    return End(apart, value(f), float((y * f).min()), later)


def judged(folder: Path, document: dict[str, Any], arrays: dict[str, np.ndarray]) -> Verdict:
    """Verify with digests that fit; whatever is proved has to be true of steps computed by other means."""
    verdict = verify(put(folder, document, arrays, digests=True))
    assert verdict.answer in ("proved", "not proved", "malformed")
    assert verdict.reason
    if verdict.answer == "proved":
        end, claims, far = steps_of(document, arrays), document["claims"], document["start"]["distance"]
        assert end.apart <= far * (1 + 1e-6) + 1e-10
        more = (claims["S"] + claims["s"]) * far if document["theorem"] == "logistic" else 0.0
        assert end.loss <= claims.get("loss", math.inf) * (1 + 1e-9) + more + 1e-15
        assert end.later <= claims.get("epsilon", math.inf) * (1 + 1e-9) + 1e-15
        assert end.margin >= claims.get("margin", -math.inf) - 1e-9
    return verdict


@pytest.mark.parametrize("name", ["descent", "descent-batches"])
def test_theorem_one_holds_for_every_start_within_the_distance(cases, name):
    """From the sphere around the anchor, also along the gradient: rate, path and final loss are as claimed."""
    document, arrays = cases[name].document, cases[name].arrays
    config, claims, far = document["network"], document["claims"], document["start"]["distance"]
    anchor = {key.removeprefix("weights/"): a for key, a in arrays.items() if key.startswith("weights/")}
    y, rng = arrays["y"][:, None], np.random.default_rng(0)
    here = stated.evaluate(config, anchor, arrays["x"])
    steep = here.jacobian.T @ (here.outputs - y).ravel()
    for u in [steep, -steep, *rng.standard_normal((3, len(steep)))]:
        weights, path, before = stated.moved(config, anchor, far * u / np.linalg.norm(u)), 0.0, math.inf
        for _ in range(claims["steps"] + 1):
            found = stated.evaluate(config, weights, arrays["x"])
            r = (found.outputs - y).ravel()
            assert np.linalg.norm(r) <= (1 - claims["rate"]) * before * (1 + 1e-9) + 1e-14
            before = min(float(np.linalg.norm(r)), before)
            step = -claims["eta"] * found.jacobian.T @ r
            weights, path = stated.moved(config, weights, step), path + float(np.linalg.norm(step))
            assert path < claims["radii"][-1] - far
        assert before**2 / 2 <= claims["epsilon"]


@pytest.mark.parametrize("name", ["logistic", "logistic-batches"])
def test_theorem_three_from_the_end_of_a_run(cases, name):
    """The run's own step size where there are no batches, the loss where it ends, and a lower one to come."""
    claims, run = cases[name].document["claims"], cases[name].run
    assert claims["eta"] == run.step_size
    assert run.loss <= claims["loss"] <= run.loss * (1 + 1e-9)
    assert claims["epsilon"] < 0.9 * claims["loss"]
    assert 0 < cases[name].document["start"]["distance"] <= 1e-7
    assert f"after at most {claims['steps']} more steps." in verify(cases[name].folder).statement


def with_start(case: Case, **changes: Any) -> dict[str, Any]:
    document = copy.deepcopy(case.document)
    document["start"] |= changes
    return document


def test_what_is_claimed_is_proved(case, tmp_path):
    """With the number of steps, the distance and the method in the words of the verdict."""
    verdict = judged(tmp_path / "same", case.document, case.arrays)
    assert verdict.answer == "proved", verdict.reason
    assert f"in {case.run.step} steps" in verdict.statement
    assert ("Stochastic" in verdict.statement) == ("batches" in case.arrays)
    assert ("converges to zero loss" in verdict.statement) == (case.document["theorem"] == "descent")
    again = load_certificate(case.folder)
    assert again.start is not None
    assert again.is_in(case.folder)
    assert again.start.steps == case.run.step
    assert ("batches" in case.arrays) == (again.start.batches is not None)


def test_batches_are_those_of_the_run(cases):
    """The stored rows lead from the initial weights to the trained ones."""
    assert batches_of(cases["descent"].run) is None
    for name in ("descent-batches", "logistic-batches", "finite-batches"):
        assert steps_of(cases[name].document, cases[name].arrays).apart < 1e-12


@pytest.mark.parametrize(
    "network",
    [
        FullyConnected(4, 6, 2, TANH, outputs=2),
        ResidualReLU(4, 6, 3, residual_scale=0.4),
        ElmanRNN(3, 7, 3, outputs=1, trained=("recurrent", "input", "output")),
    ],
    ids=["outputs", "residual-relu", "elman-rnn"],
)
def test_networks_with_several_outputs_or_times(tmp_path, network):
    """The loss after some steps, half the sum of squares or its mean."""
    rng = np.random.default_rng(0)
    if network.data_kind == "sequences":
        data = SequenceDataset(rng.standard_normal((3, 3, 3)), rng.standard_normal((3, 3, 1)), "regression")
    else:
        several = network.graph.outputs > 1
        y = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
        data = Dataset(points(), y if several else y[:, 0], "multiclass" if several else "binary")
    made = certify_from_start(
        train(network, data, Recipe(loss="squared", steps=4, step_size=0.02, batch=2)), Finite()
    ).certificate
    assert made is not None
    folder = made.save(tmp_path / "made")
    verdict = judged(tmp_path / "again", *parts(folder))
    assert verdict.answer == "proved", verdict.reason
    lower = dataclasses.replace(made, claims={"loss": made.claims["loss"] * 0.999})
    assert verify(lower.save(tmp_path / "lower")).answer == "not proved"


def test_lies_about_the_course_are_refused(case, tmp_path):
    """Step size, number of steps, a weight of the start, the order of batches, a distance that is too small."""
    start, steps = case.document["start"], case.document["start"]["steps"]
    lies = {
        "step size": with_start(case, step_size=start["step_size"] * 1.01),
        "a step less": with_start(case, steps=steps - 1, bits=start["bits"][1:]),
        "distance": with_start(case, distance=steps_of(case.document, case.arrays).apart * 0.5 + 1e-300),
    }
    for name, lie in lies.items():
        arrays = dict(case.arrays)
        if name == "a step less" and "batches" in arrays:
            arrays["batches"] = arrays["batches"][:-1]
        verdict = judged(tmp_path / "lie", lie, arrays)
        assert verdict.answer == "not proved", (name, verdict.reason)
    for name in [name for name in case.arrays if name.startswith("start/")]:
        moved = case.arrays[name].copy()
        moved.flat[0] += 1e-3
        verdict = judged(tmp_path / "moved", case.document, {**case.arrays, name: moved})
        assert verdict.answer == "not proved", (name, verdict.reason)
    if "batches" in case.arrays:
        other = case.arrays["batches"].copy()
        other[0] = [i for i in range(3) if i not in other[0][1:]][:1] + other[0][1:].tolist()
        if (other[0] == case.arrays["batches"][0]).all():
            other[0, 0] = next(i for i in range(3) if i not in other[0])
        assert judged(tmp_path / "order", case.document, {**case.arrays, "batches": other}).answer == "not proved"
        without = {name: a for name, a in case.arrays.items() if name != "batches"}
        assert judged(tmp_path / "without", case.document, without).answer == "not proved"
        same = {**case.arrays, "batches": case.arrays["batches"][:, ::-1]}  # the order within a batch does not matter
        assert judged(tmp_path / "same", case.document, same).answer == "proved"
    else:
        rows = np.tile(np.array([[2, 0, 1]]), (steps, 1))
        assert judged(tmp_path / "all", case.document, {**case.arrays, "batches": rows}).answer == "proved"


def test_lies_about_the_end_are_refused(cases, tmp_path):
    """A lower loss, a larger margin, another step size than that of the course, a residual without its room."""
    for name in ("finite", "finite-batches"):
        for claim, factor in (("loss", 0.999), ("margin", 1.001)):
            lie = copy.deepcopy(cases[name].document)
            lie["claims"][claim] *= factor
            assert judged(tmp_path / "lie", lie, cases[name].arrays).answer == "not proved"
    c = cases["descent"]
    lie = copy.deepcopy(c.document)
    lie["claims"] |= {"eta": lie["claims"]["eta"] * (1 - 1e-9), "rate": lie["claims"]["rate"] / 2, "steps": 1000}
    verdict = judged(tmp_path / "eta", lie, c.arrays)
    assert (verdict.answer, "step size of the start" in verdict.reason) == ("not proved", True)
    for far in (3.0, 10.0, 1e6):
        wide = with_start(c, distance=c.document["start"]["distance"] * far)
        assert judged(tmp_path / "wide", wide, c.arrays).answer == "not proved"
    lie = copy.deepcopy(c.document)
    lie["claims"]["steps"] = max(0, c.document["claims"]["steps"] - 3)
    assert judged(tmp_path / "steps", lie, c.arrays).answer == "not proved"


@pytest.mark.parametrize("name", ["logistic", "logistic-batches"])
def test_lies_about_a_lower_loss_are_refused(cases, tmp_path, name):
    """Every claim of Theorem 3 a little too good, and the room for the distance left away."""
    c = cases[name]
    better = {
        "loss": 0.999, "epsilon": 0.99, "I1": 0.999, "I2": 0.999, "s": 1.001, "S": 0.999, "lipschitz": 0.9,
        "c": 1.01, "R1": 0.9, "margin": 1.01, "steps": 0.9,
    }  # fmt: skip
    for claim, factor in better.items():
        lie = copy.deepcopy(c.document)
        if claim not in lie["claims"]:
            assert claim == "margin"
            continue
        old = lie["claims"][claim]
        new = [factor * v for v in old] if isinstance(old, list) else type(old)(factor * old)
        lie["claims"][claim] = new
        if claim == "R1":
            lie["claims"]["radii"][0] = new
        verdict = judged(tmp_path / "lie", lie, c.arrays)
        assert verdict.answer == "not proved", (claim, verdict.reason)
    lie = copy.deepcopy(c.document)
    lie["claims"]["eta"] *= 1 - 1e-9
    lie["claims"]["steps"] *= 2
    verdict = judged(tmp_path / "eta", lie, c.arrays)
    assert (verdict.answer == "proved") == (name == "logistic-batches")
    assert ("step size of the start" in verdict.reason) == (name == "logistic")
    for far in (1e3, 1e6, 1e12):
        verdict = judged(tmp_path / "far", with_start(c, distance=c.document["start"]["distance"] * far), c.arrays)
        assert verdict.answer == "not proved", far
        assert verdict.reason.startswith("I1 ≥ ∫dL/ψ fails")
    lie = copy.deepcopy(c.document)
    del lie["start"]
    lie["claims"].pop("margin", None)
    assert verify(put(tmp_path / "none", lie, c.arrays, digests=True)).answer == "malformed"
    plain = {key: a for key, a in c.arrays.items() if not key.startswith("start/") and key != "batches"}
    assert verify(put(tmp_path / "here", lie, plain, digests=True)).answer == "proved"
    lie["claims"]["margin"] = 1e-3
    assert verify(put(tmp_path / "side", lie, plain, digests=True)).reason == "a margin is claimed from a start only"


def test_too_much_work_is_refused_before_it_begins(cases, tmp_path, monkeypatch):
    """A million steps in thousands of bits: not judged, at once. The prover makes no such certificate."""
    c = cases["finite"]
    document = with_start(c, steps=10**6, bits=[4096] * 10**6)
    verdict = verify(put(tmp_path / "work", document, c.arrays, digests=True))
    assert verdict.answer == "not judged"
    assert re.fullmatch(
        r"it would take about [\d.e+]+ (hours|days) and [\d.]+ GiB, and 60 minutes is allowed: allow more with --time",
        verdict.reason,
    )
    assert verdict.seconds < 5
    monkeypatch.setattr("wideproof.certificates.starting.MOST_WORK", 1e8)
    attempt = certify_from_start(c.run, Finite())
    assert attempt.certificate is None
    assert attempt.obstacle is not None
    assert attempt.obstacle.quantity == "work"
    assert str(attempt.obstacle).startswith("to follow 6 steps is ")


def test_a_constant_sum_is_not_claimed_from_a_start(tmp_path):
    """Weights that stay balanced exactly: the certificate from there says so, that from the start does not."""
    y = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
    network, data = FullyConnected(4, 24, 1, TANH, outputs=2), Dataset(points(), y, "multiclass")
    first = begin(network, data, Recipe(target_loss=1e-6, steps=2000))
    half = np.asarray(first.initial["a"])[:1]
    even = {**first.initial, "a": np.concatenate([half, -half])}
    run = train(network, data, first.recipe, start=dataclasses.replace(first, initial=even, params=even))
    from_here = certify(Problem(network, data).at(run.params)).certificate
    from_start = certify_from_start(run).certificate
    assert from_here is not None
    assert from_start is not None
    assert "constant_sum" in from_here.claims
    assert "constant_sum" not in from_start.claims
    assert verify(from_start.save(tmp_path / "start")).answer == "proved"


def test_fields_that_are_not_right_are_malformed(case, tmp_path):
    """Each with one sentence."""
    start = case.document["start"]
    bits, steps = start["bits"], start["steps"]
    fields: list[dict[str, Any]] = [
        {"bits": bits[:-1]}, {"bits": [*bits, 9.0]}, {"bits": [5000.0] * steps}, {"bits": [-1e9] * steps}, {"bits": 60},
        {"bits": ["60"] * steps}, {"bits": [None] * steps}, {"bits": [True] * steps}, {"steps": 0, "bits": []},
        {"steps": -1}, {"steps": 10**7}, {"steps": float(steps)}, {"steps": True}, {"step_size": 0.0},
        {"step_size": -start["step_size"]}, {"step_size": "0.1"}, {"step_size": None}, {"step_size": 10**400},
        {"distance": 0.0}, {"distance": -1.0}, {"distance": [1.0]}, {"more": 1}, {"tables": []}, {"tables": 0},
        {"tables": None}, {"tables": [-1]}, {"tables": [steps]}, {"tables": [1, 0]}, {"tables": [0, 0]},
        {"tables": [0.0]}, {"tables": [True]}, {"tables": ["0"]},
    ]  # fmt: skip
    for change in fields:
        verdict = judged(tmp_path / "field", with_start(case, **change), case.arrays)
        assert verdict.answer == "malformed", (change, verdict.reason)
        assert "\n" not in verdict.reason
    for given in ([], 3, "start", {}, True):
        assert judged(tmp_path / "kind", case.document | {"start": given}, case.arrays).answer == "malformed"
    for absent in ({k: v for k, v in case.document.items() if k != "start"}, case.document | {"start": None}):
        assert judged(tmp_path / "absent", absent, case.arrays).answer == "malformed"
    for text in ("NaN", "Infinity", "-Infinity"):  # no JSON, but some readers take it
        folder = put(tmp_path / "text", with_start(case, distance=12345.5), case.arrays, digests=True)
        changed = (folder / "certificate.json").read_text(encoding="utf-8").replace("12345.5", text)
        (folder / "certificate.json").write_text(changed, encoding="utf-8")
        assert verify(folder).answer == "malformed"


def test_arrays_that_are_not_right_are_malformed(case, tmp_path):
    """Arrays of the start with other shapes, types or names; batches with other rows, types or sizes."""
    name = next(name for name in sorted(case.arrays) if name.startswith("start/"))
    first, steps = case.arrays[name], case.document["start"]["steps"]
    missing = {key: a for key, a in case.arrays.items() if key != name}
    broken: list[dict[str, Any]] = [
        missing, {**case.arrays, "start/other": first}, {**case.arrays, name: first[:-1]},
        {**case.arrays, name: first.T.copy()[None]}, {**case.arrays, name: first.ravel()},
        {**case.arrays, name: first.astype(np.float32)}, {**case.arrays, name: np.full_like(first, np.nan)},
        {**case.arrays, name: np.zeros((0, 4))}, {**case.arrays, "start/x": first},
    ]  # fmt: skip
    rows = np.tile(np.arange(2), (steps, 1))
    wrong = [
        rows.astype(np.int32), rows.astype(np.float64), rows[:-1], rows[:, :0], rows + 2, rows - 1, rows * 0, rows[0],
        np.concatenate([rows, rows[:1]]), rows.astype(np.uint64) + np.uint64(2**63), rows[:, :, None], rows > 0,
    ]  # fmt: skip
    for arrays in [*broken, *({**case.arrays, "batches": batches} for batches in wrong)]:
        verdict = judged(tmp_path / "arrays", case.document, arrays)
        assert verdict.answer == "malformed", verdict.reason
        assert "\n" not in verdict.reason


def test_a_start_elsewhere_is_malformed(cases, tmp_path):
    """Other theorems know no start, nor do targets that are no signs, nor a constant sum of outputs."""
    c = cases["finite"]
    for theorem in ("fit", "existence", "impossible", "ridge", "none"):
        assert judged(tmp_path / "other", c.document | {"theorem": theorem}, c.arrays).answer == "malformed"
    document = copy.deepcopy(c.document)
    document["anchor"] = {}
    verdict = judged(tmp_path / "signs", document, {**c.arrays, "y": c.arrays["y"] * 2})
    assert (verdict.answer, "not 1 and -1" in verdict.reason) == ("malformed", True)
    document = copy.deepcopy(cases["descent"].document)
    document["claims"]["constant_sum"] = 1.0
    assert judged(tmp_path / "sum", document, cases["descent"].arrays).answer != "proved"
    for loss in ({"name": "logistic", "reduction": "half_sum"}, {"name": "probit", "reduction": "mean"}, {}):
        assert judged(tmp_path / "loss", c.document | {"loss": loss}, c.arrays).answer == "malformed"


def test_a_loss_that_is_not_decided_is_not_proved(cases, tmp_path):
    """The claim is the loss itself: it lies within what float64 leaves open."""
    c = cases["finite"]
    close = copy.deepcopy(c.document)
    close["claims"]["loss"] = steps_of(c.document, c.arrays).loss
    verdict = judged(tmp_path / "close", close, c.arrays)
    assert (verdict.answer, "is bounded by" in verdict.reason) == ("not proved", True), verdict.reason


def test_hints_decide_nothing(cases, tmp_path):
    """Few bits may be too few, many are only slow: the answer is never wrong."""
    c = cases["finite-batches"]
    for bits in (-1000.0, 0, 30.5, 150):
        assert judged(tmp_path / "bits", with_start(c, bits=[bits] * c.run.step), c.arrays).answer == "proved"
    tight = with_start(c, bits=[-1000.0] * c.run.step, distance=steps_of(c.document, c.arrays).apart + 1e-17)
    verdict = judged(tmp_path / "tight", tight, c.arrays)
    assert (verdict.answer, "the exact steps from the start end within" in verdict.reason) == ("not proved", True)


def test_tables_decide_nothing(cases, tmp_path):
    """Tables at any steps: what is true is proved, a lie beside them is not."""
    for name in ("finite-batches", "finite"):
        c = cases[name]
        for tables in ([0], [c.run.step - 1], [0, 1, 2], list(range(0, c.run.step, 3))):
            assert judged(tmp_path / "tables", with_start(c, tables=tables), c.arrays).answer == "proved"
            lie = with_start(c, tables=tables, step_size=c.document["start"]["step_size"] * 1.01)
            lie["claims"]["loss"] *= 0.99
            assert judged(tmp_path / "lie", lie, c.arrays).answer == "not proved"


def test_tables_are_planned_where_balls_would_be_needed(monkeypatch, tmp_path):
    """Otherwise the field is not there; where it pays, less growth is proved with it, and the same claims."""
    data = wp.prepare(wp.load("iris", classes=("setosa", "virginica"), limit=12), "whiten,unit")
    network = FullyConnected(data.input_shape[0], 24, 3, get_activation("erf"))
    run = wp.train(network, data, wp.Recipe(steps=25))
    made = certify_from_start(run, Finite()).certificate
    monkeypatch.setattr(costs, "TABLE", 1e6)  # of a table, in seconds: too dear
    plain = certify_from_start(run, Finite()).certificate
    assert made is not None
    assert plain is not None
    assert made.start is not None
    assert plain.start is not None
    assert plain.start.tables == ()
    assert "tables" not in plain.document()["start"]
    assert made.start.tables[0] == 0
    assert made.start.bits[0] < plain.start.bits[0] - 10
    again = load_certificate(made.save(tmp_path / "made")).start
    assert again is not None
    assert again.tables == made.start.tables
    verdict, other = verify(tmp_path / "made"), verify(plain.save(tmp_path / "plain"))
    assert verdict.answer == other.answer == "proved"
    grown = [sum(math.log2(row[2]) for row in found.course) for found in (verdict, other)]
    assert grown[0] < 0.7 * grown[1]
    weights = {name: np.asarray(weight) for name, weight in run.initial.items()}
    planned = growth.follow(network.graph, weights, data.x, network.scored(data.y), run.recipe.objective,
                            run.step_size, run.step, tabled=True)  # fmt: skip
    assert planned.tables == made.start.tables
    assert planned.bits == pytest.approx(grown[0], rel=0.2)


def test_small_growth_needs_no_tables(cases):
    """The files are what they were without them."""
    for c in cases.values():
        assert "tables" not in c.document["start"]


@pytest.mark.parametrize("size", [1e30, 1e155, 1.7e308])
def test_numbers_out_of_range_prove_nothing(case, tmp_path, size):
    """Overflow on the way: one sentence, no exception."""
    for name in ("start/W1", "x"):
        arrays = {**case.arrays, name: np.sign(case.arrays[name]) * size}
        document = case.document | {"anchor": {}}
        assert judged(tmp_path / "large", document, arrays).answer == "not proved"
    assert judged(tmp_path / "step", with_start(case, step_size=size), case.arrays).answer == "not proved"


def mutants(case: Case, rng: np.random.Generator, count: int):
    """Single bits of arrays, and numbers of the start and the claims by random factors."""
    names = sorted(case.arrays)
    for k in range(count):
        document, arrays = copy.deepcopy(case.document), dict(case.arrays)
        document["anchor"] = {}
        if k % 3:
            name = names[int(rng.integers(len(names)))]
            a = arrays[name]
            if name == "batches":
                a = a.copy()
                a.flat[rng.integers(a.size)] = rng.integers(-1, 4)
            else:
                a = flip(a, int(rng.integers(a.size)), int(rng.integers(64)))
            yield f"{name} {k}", document, {**arrays, name: a}
            continue
        part = document["start" if k % 2 else "claims"]
        key = str(rng.choice(sorted(part)))
        if isinstance(part[key], list):
            place = int(rng.integers(len(part[key])))
            part[key][place] = float(part[key][place] * (1 + rng.standard_normal()))
        elif isinstance(part[key], int):
            part[key] += int(rng.integers(-2, 3))
        else:
            part[key] = float(part[key] * (1 + 10 ** rng.uniform(-6, 1) * rng.choice([-1, 1])))
        yield f"{key} {k}", document, arrays


def check_mutants(case: Case, folder: Path, count: int, seed: int) -> dict[str, int]:
    answers: dict[str, int] = {"proved": 0, "not proved": 0, "malformed": 0}
    for name, document, arrays in mutants(case, np.random.default_rng(seed), count):
        if document == case.document and all((arrays[k] == case.arrays[k]).all() for k in arrays):
            continue
        verdict = judged(folder, document, arrays)
        assert "\n" not in verdict.reason, name
        answers[verdict.answer] += 1
    return answers


def test_mutations(case, tmp_path):
    """Whatever is proved of a changed certificate is true."""
    assert check_mutants(case, tmp_path / "mutant", 12, seed=1)["not proved"] > 0


@pytest.mark.slow
def test_many_mutations(case, tmp_path):
    answers = check_mutants(case, tmp_path / "mutant", 400, seed=2)
    print(f"\n{case.folder.name}: {answers}")
    assert answers["not proved"] > 50


def test_what_cannot_be_followed_is_said(cases):
    """Optimizers with a memory, float32, losses without a bound of ℓ'', runs without a step: a sentence each."""
    network, data = RUNS["finite"][0], pairs()
    run = cases["finite"].run
    recipe = run.recipe
    for change, words in (
        ({"optimizer": "momentum"}, "are not followed"), ({"loss": "probit"}, "is not followed"),
        ({"precision": "float32"}, "float32"), ({"loss": "cross_entropy"}, "the loss 'cross_entropy' is not followed"),
        ({"sample_weights": [1.0] * data.n}, "weights of examples or classes are not followed"),
        ({"class_weights": "balanced"}, "weights of examples or classes are not followed"),
    ):  # fmt: skip
        try:
            other = dataclasses.replace(recipe, **change)
        except InputError:
            continue
        with pytest.raises(InputError, match=words):
            certify_from_start(dataclasses.replace(run, recipe=other), Finite())
    with pytest.raises(InputError, match="no step"):
        certify_from_start(train(network, data, dataclasses.replace(recipe, steps=0)), Finite())
    with pytest.raises(InputError, match="half the sum of squares, a lower loss for the logistic loss of one output"):
        certify_from_start(run)


def test_obstacles(cases):
    """A run that has not come near enough, one with a kink, and one whose errors grow too much, say so."""
    kinked = certify_from_start(cases["finite-batches"].run)
    assert kinked.certificate is None
    assert kinked.obstacle is not None
    assert kinked.obstacle.quantity in ("kink", "eigenvalue")
    assert str(kinked.obstacle).count("\n") == 0
    early = certify_from_start(train(RUNS["descent"][0], pairs(), Recipe(steps=1, step_size=1e-3)))
    assert early.certificate is None
    assert early.obstacle is not None
    wild = Recipe(loss="logistic", steps=500, step_size=1000.0, divergence_factor=1e300)  # ℓ'' is all but 0
    assert certify_from_start(train(FullyConnected(4, 8, 3, TANH), pairs(), wild), Finite()).certificate is not None
    attempt = certify_from_start(
        train(FullyConnected(4, 8, 3, TANH), pairs(), dataclasses.replace(wild, step_size=1e8)), Finite()
    )
    assert attempt.certificate is None
    assert attempt.obstacle is not None
    assert attempt.obstacle.quantity == "growth"
