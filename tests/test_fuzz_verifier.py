"""The fuzzer of the verifier: mutants of small certificates, and false sentences that its judges have to catch."""

import importlib
import json
import random
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wideproof.certificates import Basin, Finite, Newton, Problem, certify, certify_from_start
from wideproof.certificates.polishing import polish
from wideproof.data import Dataset
from wideproof.networks import FullyConnected, get_activation
from wideproof.training import Recipe, train
from wideproof_verify import verify

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture(scope="module")
def tool() -> Any:
    """The modules of the tool, which lie in no package; its processes look for them in the same places."""
    sys.path.insert(0, str(TOOLS))
    try:
        names = ("fuzz_verifier", "fuzz_mutants", "fuzz_same", "fuzz_judge", "fuzz_exact", "fuzz_words")
        yield SimpleNamespace(**{name[5:]: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Theorem 1, Theorem 4 from a stored start, and the loss after two steps of stochastic gradient descent."""
    folder = tmp_path_factory.mktemp("corpus")
    deep = FullyConnected(3, 12, 2, get_activation("tanh"))
    near = {k: a + 1e-6 for k, a in polish(deep, deep.init(0), PAIR.x, PAIR.y).params.items()}
    found = certify(Problem(deep, PAIR).at(near)).certificate
    assert found is not None
    found.save(folder / "descent")
    wide = FullyConnected(4, 8, 1, get_activation("tanh"), start="positive(30)")
    begun = {name: np.array(weight) for name, weight in wide.init().items()}
    data = Dataset(np.eye(4)[:2], np.array([1.0, -1.0]), "binary")
    near = polish(wide, begun, data.x, data.y).params
    found = certify(Problem(wide, data).at(near), Basin(start=begun, share=0.5)).certificate
    assert found is not None
    found.save(folder / "basin")
    run = train(FullyConnected(3, 4, 1, get_activation("tanh")), THREE, Recipe(steps=2, step_size=0.1, batch=2))
    certificate = certify_from_start(run, Finite()).certificate
    assert certificate is not None
    certificate.save(folder / "finite")
    return folder


PAIR = Dataset(np.eye(3)[:2], np.array([1.0, -1.0]), "binary")
THREE = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
ALL = ("descent", "basin", "finite")


def said(tool: Any, folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    parts, verdict = tool.mutants.load_parts(folder), verify(folder)
    assert verdict.answer == "proved", verdict.reason
    return parts.document, parts.arrays, verdict.statement


def test_mutants_are_answered_and_judged(tool, corpus, tmp_path):
    records = []
    for name in ALL:
        for index in range(20):
            records.append(tool.verifier.attempt(corpus / name, 0, index, verify, tmp_path / "mutant", 20.0))
    table = tool.verifier.count(records)
    assert table["all"]["mutants"] == 60
    assert table["all"]["judged"] > 3
    assert all(table["all"][key] == 0 for key in ("false", "failed", "raised", "other", "unread"))
    assert "slowest" in tool.verifier.shown(table)


def test_a_mutant_is_decided_by_its_number(tool, corpus, tmp_path):
    original = tool.mutants.load_parts(corpus / "basin")
    for name in ("one", "other"):
        tool.mutants.write(tmp_path / name, tool.mutants.mutate(original, "basin", 7, 3))
    files = [[(tmp_path / name / file).read_bytes() for file in ("certificate.json", "arrays.safetensors")]
             for name in ("one", "other")]  # fmt: skip
    assert files[0] == files[1]


def test_the_first_mutant_is_the_certificate(tool, corpus):
    for name in ALL:
        original = tool.mutants.load_parts(corpus / name)
        same = tool.mutants.mutate(original, name, 7, 0)
        assert (same.document, same.did) == (original.document, [])


@pytest.mark.parametrize("name", ALL)
def test_true_sentences_hold(tool, corpus, name):
    document, arrays, statement = said(tool, corpus / name)
    assert tool.judge.judge(document, arrays, statement, verify(corpus / name).digests) == ("holds", "")


def test_true_sentences_hold_in_300_bits(tool, corpus):
    found = {name: tool.exact.judge_exactly(*said(tool, corpus / name)).answer for name in ALL}
    assert found == {"descent": "holds", "basin": "none", "finite": "holds"}


def test_digests_are_compared(tool, corpus):
    document, arrays, statement = said(tool, corpus / "finite")
    digests = verify(corpus / "finite").digests
    assert {"data", "graph", "x", "y", "batches"} < set(digests)
    for name in digests:
        found = tool.judge.judge(document, arrays, statement, {**digests, name: "0" * 64})
        assert found.answer == "violated"
        assert name in found.why
    assert tool.judge.judge(document, arrays, statement, dict(list(digests.items())[1:])).answer == "violated"


def test_arrays_are_read_without_the_library(tool, corpus):
    for name in ALL:
        arrays = tool.verifier.unpacked((corpus / name / "arrays.safetensors").read_bytes())
        known = tool.mutants.load_parts(corpus / name).arrays
        assert set(arrays) == set(known)
        assert all(np.array_equal(arrays[key], known[key]) for key in known)


LIES = {
    "descent": [(r"1 - [\d.e-]+,", "1 - 0.9999,"), (r"less than [\d.e-]+,", "less than 1e-12,"),
                (r"at most [\d.e-]+\. W", "at most 1e-40. W"),
                (r"distance [\d.e-]+ of these weights\. T", "distance 1e-12 of these weights. T"),
                (r"about 2 rows", "about 3 rows"), (r"step size [\d.e-]+", "step size 100"),
                (r"all weights trained", "trained: a"), (r"half the sum of squares", "the mean logistic loss"),
                (r"data [0-9a-f]{4}", "data 0000"), (r"after \d+ steps?", "after 1 steps"),
                (r"after (\d+) step", r"after \1 more step"), (r"x2 = [\d.]+", "x2 = 0.25"),
                (r"f = (\S+) x\d", r"f = \1 x1"), (r"tanh|softplus", "sin"), (r"of \d+ units", "of 99 units")],
    "basin": [(r"1 - [\d.e-]+,", "1 - 0.9999,"), (r"within [\d.e-]+ of", "within 1e-9 of"),
              (r"the network x1", "the network x2"), (r"W1 u", "W1 u + W1 u")],
    "finite": [(r"loss of at most [\d.e-]+", "loss of at most 1e-9"),
               (r"− [\d.]+ · 3/2", "− 0.2 · 3/2"), (r"3/2", "1/2"), (r"batches of 2", "batches of 1"),
               (r"½‖f − y‖²", "ℓ(y f), ℓ being the logistic loss"), (r"in 2 steps", "in 3 steps"),
               (r"squares\.$", "squares from the second time on (the targets at the first time are not used).")],
}  # fmt: skip


@pytest.mark.parametrize(("name", "pattern", "lie"), [(name, *lie) for name, lies in LIES.items() for lie in lies])
def test_false_sentences_are_caught(tool, corpus, name, pattern, lie):
    document, arrays, statement = said(tool, corpus / name)
    false = re.sub(pattern, lie, statement, count=1)
    assert false != statement
    if "at most" in pattern:  # the loss is then asked for after the first step
        false = re.sub(r"after \d+ steps", "after 1 step", false)
    assert tool.judge.judge(document, arrays, false).answer == "violated"


@pytest.mark.parametrize(
    ("pattern", "lie", "answer"),
    [
        ("^", "", "holds"), (r"within [\d.e-]+ of these", "within 1e-6 of these", "violated"),
        (r"at most [\d.e-]+ times", "at most 1e-9 times", "violated"),
        (r"after \d+ steps?", "after 0 steps", "violated"),
        (r"zero loss", "the least loss that any function of the inputs has", "violated"),
        (r"the shortest", "the shorter", "unread"), (r"whole steps", "half steps", "unread"),
    ],
)  # fmt: skip
def test_false_sentences_about_gauss_newton_are_caught(tool, tmp_path, pattern, lie, answer):
    network = FullyConnected(3, 24, 1, get_activation("tanh"))
    params = network.init(0)
    off = np.asarray(network(params, PAIR.x)) + np.array([0.05, -0.05])
    made = certify(Problem(network, Dataset(PAIR.x, off, "regression")).at(params), Newton()).certificate
    assert made is not None
    document, arrays, statement = said(tool, made.save(tmp_path / "newton"))
    assert tool.judge.judge(document, arrays, re.sub(pattern, lie, statement, count=1)).answer == answer


@pytest.mark.parametrize(
    "lie", [(r"− [\d.]+ · 3/2", "− 0.1000000001 · 3/2"), (r"within [\d.e-]+ of", "within 1e-30 of")]
)
def test_false_steps_are_caught_in_300_bits(tool, corpus, lie):
    """A step size that is off by a billionth leads elsewhere: 1e-8 where 1e-12 is said."""
    document, arrays, statement = said(tool, corpus / "finite")
    ends = re.sub(r"within [\d.e-]+ of", "within 1e-12 of", statement)
    assert tool.exact.judge_exactly(document, arrays, ends).answer == "holds"
    assert tool.exact.judge_exactly(document, arrays, re.sub(lie[0], lie[1], ends)).answer == "violated"


def test_what_writes_the_same_function_stays_proved(tool, corpus, tmp_path):
    kinds = ("relay", "turned", "reshaped", "gridded", "ordered", "again", "stairs")
    for name, kind in [("descent", kind) for kind in kinds] + [("finite", kind) for kind in kinds[:-1]]:
        mutant = tool.mutants.load_parts(corpus / name)
        getattr(tool.same, kind)(random.Random(1), mutant)
        tool.mutants.write(tmp_path / kind / name, mutant)
        verdict = verify(tmp_path / kind / name)
        assert verdict.answer == "proved", (kind, verdict.reason)
        assert tool.verifier.judged(tmp_path / kind / name, verdict.statement, verdict.digests)[0].answer == "holds"


def test_much_is_written_and_answered(tool, corpus, tmp_path):
    for kind in ("much_bits", "much_stairs", "much_nodes", "much_units"):
        name = "finite" if kind == "much_bits" else "descent" if kind != "much_units" else "basin"
        mutant = tool.mutants.load_parts(corpus / name)
        getattr(tool.same, kind)(random.Random(4), mutant)
        tool.mutants.write(tmp_path / kind, mutant)
        assert verify(tmp_path / kind, time=2.0).answer in tool.verifier.ANSWERS


GRAPH = {
    "shape": [2, 6], "times": 0, "columns": False, "read_out": "C", "bias": "c", "outputs": 1, "sites": [1],
    "trained": ["W"],
    "nodes": [
        {"terms": [{"weight": "W", "source": -1, "map": {"kind": "patches", "positions": [6], "size": [3],
                                                         "stride": [2], "padding": [[1, 0]]}},
                   {"weight": "b", "source": -1, "map": {"kind": "ones"}}],
         "activation": "tanh", "scale": 0.5, "skip": None},
        {"terms": [{"weight": None, "source": 0, "map": {"kind": "identity"}}],
         "activation": "identity", "scale": 1.0, "skip": 0},
    ],
}  # fmt: skip
FORMULAS = (
    "the network x1 = 0.5 tanh(W windows(u; size 3, stride 2, padding 1+0) + b); x2 = x1 + x1; f = C x2 + c "
    "(2 hidden layers of 4 units, 1 output, trained: W)"
)


@pytest.mark.parametrize("lie", [("", ""), ("1+0", "1"), ("size 3", "size 2"), ("windows", "means"), (" + b)", ")"),
                                 ("x1 + x1", "x1"), ("C x2", "C x1"), (" + c ", " "), ("0.5 ", ""), ("2 hid", "3 hid"),
                                 ("x1 + x1", "x1 + flat(x1)"), ("1 output", "2 outputs")])  # fmt: skip
def test_formulas_are_read_back(tool, lie):
    sizes = [((3,), 4), ((3,), 4)]
    if not lie[0]:
        tool.words.network_fits(FORMULAS, GRAPH, sizes)
        return
    with pytest.raises(tool.words.WordsError):
        tool.words.network_fits(FORMULAS.replace(*lie), GRAPH, sizes)


@pytest.mark.parametrize("shape", [(1, 4), (4,), (8, 1), (2, 16)])
def test_a_start_of_another_shape_is_false(tool, corpus, shape):
    document, arrays, statement = said(tool, corpus / "basin")
    start = np.resize(arrays["start/W1"], shape)
    found = tool.judge.judge(document, {**arrays, "start/W1": start}, statement)
    assert found.answer == "violated"
    assert "start/W1" in found.why


def test_a_verifier_that_always_says_proved_is_caught(tool, corpus, tmp_path):
    """Its sentence is that of the certificate as it was; most mutants make it false, or cannot be read."""
    _, _, statement = said(tool, corpus / "descent")
    always = SimpleNamespace(
        answer="proved", reason="", statement=statement, digests=verify(corpus / "descent").digests
    )
    records = [
        tool.verifier.attempt(corpus / "descent", 0, k, lambda folder: always, tmp_path / "m", 20.0) for k in range(20)
    ]
    table = tool.verifier.count(records)["all"]
    assert table["proved"] == 20
    assert table["false"] > 3


def test_exceptions_and_other_answers_are_counted(tool, corpus, tmp_path):
    def broken(folder: Path) -> Any:
        raise RecursionError("too deep")

    strange = SimpleNamespace(answer="perhaps", reason="", statement="", digests={})
    lost = SimpleNamespace(answer="not judged", reason="the verifier failed: KeyError", statement="", digests={})
    records = [
        tool.verifier.attempt(corpus / "descent", 0, 0, kind, tmp_path / "m", 20.0)
        for kind in (broken, lambda f: strange, lambda f: lost)
    ]
    table = tool.verifier.count(records)["all"]
    assert [table[key] for key in ("raised", "other", "failed", "false")] == [1, 1, 1, 0]
    assert "RecursionError" in records[0]["why"]


def test_what_is_not_decided_is_not_false(tool, corpus, monkeypatch):
    document, arrays, statement = said(tool, corpus / "basin")

    def lost(self: Any, theta: np.ndarray) -> np.ndarray:
        raise tool.judge.UndecidedError("no zero was found near")

    assert tool.judge.judge(document, arrays, "All is well. This is about 2 rows.").answer == "unread"
    monkeypatch.setattr(tool.judge.Case, "nearest", lost)
    found = tool.judge.judge(document, arrays, statement)
    assert found.answer == "undecided"
    record = {"theorem": "basin", "answer": "proved", "judged": found.answer, "seconds": 0.0}
    table = tool.verifier.count([record])["all"]
    assert (table["undecided"], table["judged"], table["false"]) == (1, 0, 0)


def test_a_run_is_taken_up_again(tool, corpus, tmp_path, capsys):
    out = tmp_path / "results.jsonl"
    options = [str(corpus), "--match", "descent", "--out", str(out), "--workers", "1", "--mutants"]
    assert tool.verifier.main([*options, "3"]) == 0
    out.write_text(out.read_text() + '{"certificate": "desc')  # cut off
    before = tool.verifier.read_results(out)
    assert tool.verifier.main([*options, "5"]) == 0
    after = tool.verifier.read_results(out)
    assert [record["index"] for record in before] == [0, 1, 2]
    assert sorted(record["index"] for record in after) == [0, 1, 2, 3, 4]
    assert "mutants" in capsys.readouterr().out
    assert json.dumps(before[0]) == json.dumps(after[0])


def test_tolerances_are_on_the_side_of_the_bound(tool):
    """Minus a margin is negative: a bound times 1 + 1e-15 is then the stricter one."""
    long, at_most = tool.judge.LONG, tool.judge.at_most
    for bound in (-1.0, 0.0, 1.0):
        at_most((long(bound) - long(1e-17), long(1e-18)), bound, "just below")
        at_most((long(bound), long(0)), bound, "equal")
        with pytest.raises(tool.judge.ViolatedError):
            at_most((long(bound) + long(1e-12), long(0)), bound, "above")


def test_time_to_write_a_mutant_is_not_the_verifiers(tool, corpus, tmp_path, monkeypatch):
    """A mutant of 640 MB took 25 seconds to write, and was counted as a verdict that came too late."""
    blank = {"certificate": "descent", "seed": 0, "index": 0, "theorem": "descent", "judged": "", "why": ""}
    done = blank | {"answer": "malformed", "seconds": 0.01}

    class Slow:
        """Writes for half a minute, by the clock of the run."""

        def __init__(self) -> None:
            self.said = [("written", blank), ("verified", done), ("done", done)]

        def send(self, task: Any) -> None:
            pass

        def poll(self) -> bool:
            return clock["now"] > 30 and bool(self.said)

        def recv(self) -> Any:
            return self.said.pop(0)

    def wait(connections: Any, timeout: float) -> None:
        clock["now"] += 10.0

    clock, found = {"now": 0.0}, []
    worker = tool.verifier.Worker(SimpleNamespace(is_alive=lambda: True, kill=lambda: None, join=lambda: None), Slow())
    monkeypatch.setattr(tool.verifier, "hire", lambda options: worker)
    monkeypatch.setattr(tool.verifier.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(tool.verifier.multiprocessing.connection, "wait", wait)
    options = SimpleNamespace(workers=1, corpus=str(corpus), time=20.0, match="", seed=0)
    tool.verifier.run(options, iter([("descent", 0)]), found.append)
    assert found == [done]
