"""The fuzzer of the verifier: mutants of two small certificates, and false sentences that its judge has to catch."""

import importlib
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.verify import corpus as every
from tests.verify import making
from wideproof.certificates.basins import certify_basin
from wideproof.certificates.polishing import polish
from wideproof.data import Dataset
from wideproof.networks import FullyConnected, get_activation
from wideproof_verify import verify

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture(scope="module")
def tool() -> Any:
    """The modules of the tool, which lie in no package; its processes look for them in the same places."""
    sys.path.insert(0, str(TOOLS))
    try:
        names = ("fuzz_verifier", "fuzz_mutants", "fuzz_judge")
        yield SimpleNamespace(**{name[5:]: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Theorem 1, and Theorem 4 from a stored start."""
    folder = tmp_path_factory.mktemp("corpus")
    network = making.SMALL["own-tied"]
    params, x, y = making.problem(network, n=2, noise=1e-6)
    claimed = making.claims(network, params, x, y, sharp=False, newton=True)
    making.write(folder / "descent", making.statement(network, "descent", claimed), params, x, y)
    wide = FullyConnected(4, 8, 1, get_activation("tanh"), start="positive(30)")
    begun = {name: np.array(weight) for name, weight in wide.init().items()}
    data = Dataset(np.eye(4)[:2], np.array([1.0, -1.0]), "binary")
    near = polish(wide, begun, data.x, data.y).params
    found = certify_basin(wide, near, data, start=begun, share=0.5).certificate
    assert found is not None
    found.save(folder / "basin")
    return folder


def said(tool: Any, folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    parts, verdict = tool.mutants.load_parts(folder), verify(folder)
    assert verdict.answer == "proved", verdict.reason
    return parts.document, parts.arrays, verdict.statement


def test_mutants_are_answered_and_judged(tool, corpus, tmp_path):
    records = []
    for name in ("descent", "basin"):
        for index in range(30):
            records.append(tool.verifier.attempt(corpus / name, 0, index, verify, tmp_path / "mutant", 20.0))
    table = tool.verifier.count(records)
    assert table["all"]["mutants"] == 60
    assert table["all"]["judged"] > 3
    assert table["descent"]["false"] == 0
    assert all(table["all"][key] == 0 for key in ("raised", "other", "too long", "unread"))
    assert "slowest" in tool.verifier.shown(table)


def test_a_mutant_is_decided_by_its_number(tool, corpus, tmp_path):
    original = tool.mutants.load_parts(corpus / "basin")
    for name in ("one", "other"):
        tool.mutants.write(tmp_path / name, tool.mutants.mutate(original, "basin", 7, 3))
    files = [[(tmp_path / name / file).read_bytes() for file in ("certificate.json", "arrays.safetensors")]
             for name in ("one", "other")]  # fmt: skip
    assert files[0] == files[1]


def test_true_sentences_hold(tool, corpus):
    for name in ("descent", "basin"):
        assert tool.judge.judge(*said(tool, corpus / name)) == ("holds", "")


@pytest.mark.parametrize("name", every.MAKERS)
def test_the_sentence_of_every_theorem_is_read_and_holds(tool, name):
    assert tool.judge.judge(*said(tool, every.folder(name))).answer == "holds"


LIES = {
    "descent": [(r"1 - [\d.e-]+,", "1 - 0.9999,"), (r"less than [\d.e-]+,", "less than 1e-12,"),
                (r"at most [\d.e-]+\. W", "at most 1e-40. W"), (r"distance [\d.e-]+ of", "distance 1e-12 of"),
                (r"about 2 rows", "about 3 rows"), (r"step size [\d.e-]+", "step size 100"),
                (r"all weights trained", "trained: a"), (r"half the sum", "half the mean"), (r"tanh", "erf"),
                (r"0\.9 tanh", "0.9000000000000001 tanh"), (r"x2 = x1 \+ ", "x2 = "), (r"T x3 \+ x3", "T x3 + x2"),
                (r"padding 1\+0", "padding 0+1"), (r"f = C x5", "f = C x4"), (r" \+ c ", " "),
                (r"data [0-9a-f]{64}", "data " + 64 * "0"), (r"of 2 units", "of 3 units"),
                (r"after (\d+) s", r"after \1 more s")],
    "basin": [(r"1 - [\d.e-]+,", "1 - 0.9999,"), (r"within [\d.e-]+ of", "within 1e-9 of")],
}  # fmt: skip


@pytest.mark.parametrize(("name", "pattern", "lie"), [(name, *lie) for name, lies in LIES.items() for lie in lies])
def test_false_sentences_are_caught(tool, corpus, name, pattern, lie):
    document, arrays, statement = said(tool, corpus / name)
    false = re.sub(pattern, lie, statement, count=1)
    assert false != statement
    if "at most" in pattern:  # the loss is then asked for after the first step
        false = re.sub(r"after \d+ steps", "after 1 steps", false)
    assert tool.judge.judge(document, arrays, false).answer == "violated"


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
    always = SimpleNamespace(answer="proved", reason="", statement=statement)
    records = [
        tool.verifier.attempt(corpus / "descent", 0, k, lambda folder: always, tmp_path / "m", 20.0) for k in range(20)
    ]
    table = tool.verifier.count(records)["all"]
    assert table["proved"] == 20
    assert table["false"] > 3


def test_exceptions_and_other_answers_are_counted(tool, corpus, tmp_path):
    def broken(folder: Path) -> Any:
        raise RecursionError("too deep")

    strange = SimpleNamespace(answer="perhaps", reason="", statement="")
    records = [
        tool.verifier.attempt(corpus / "descent", 0, 0, kind, tmp_path / "m", 20.0)
        for kind in (broken, lambda f: strange)
    ]
    table = tool.verifier.count(records)["all"]
    assert (table["raised"], table["other"], table["false"]) == (1, 1, 0)
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
