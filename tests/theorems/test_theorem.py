"""What `theorem` measures on a table, how it brings it into a theorem's form, what it says where one is silent."""

import io
import json
import math

import numpy as np
import pytest

from wideproof.data import Dataset, load
from wideproof.errors import InputError
from wideproof.kernels import limit_gram
from wideproof.networks import FullyConnected
from wideproof.report import theorem_figure, theorem_view
from wideproof.theorems import theorem
from wideproof.theorems.facts import Table
from wideproof.theorems.widths import proves

SMALL = "sphere:n=4,d=3,separation=0.5"


def ring(n: int = 8) -> Dataset:
    turn = 2 * np.pi * np.arange(n) / n
    return Dataset(np.column_stack([np.cos(turn), np.sin(turn)]), np.where(np.arange(n) % 2, 1.0, -1.0), "binary")


def test_lambda_0_is_the_least_eigenvalue_of_the_limit():
    data = load(SMALL)
    found = Table(data).du("fully-connected", 2, "softplus", 0.5)
    gram = np.asarray(limit_gram(FullyConnected(3, 8, 2), data.x, names=["W2"]))
    assert found.facts.lambda_0 == pytest.approx(np.linalg.eigvalsh(gram)[0], rel=1e-6)
    assert (found.facts.n, found.facts.d, found.prepared) == (4, 3, ())


def test_separations_and_margins_are_those_of_the_prepared_rows():
    zou, frei = Table(ring()).zou(), Table(ring()).frei()
    assert zou.facts.phi == pytest.approx(2 * math.sin(math.pi / 8) / math.sqrt(2))  # the chord, over √2 by `constant`
    assert zou.facts.mu == pytest.approx(math.sqrt(0.5))
    assert zou.prepared == ("prepared with `constant`",)
    assert 0 < frei.facts.gamma <= 2 * math.sin(math.pi / 8) / (2 * math.sqrt(2 * math.pi)) * 1.1
    assert "all rows that may occur" in frei.estimate


def test_opposite_rows_are_moved_and_that_is_said():
    found = Table(ring()).du("fully-connected", 1, "softplus", 0.5)
    assert found.prepared == ("prepared with `sphere`: some rows were parallel",)
    assert found.facts is not None


def test_repeated_rows_are_left_out_and_contradictions_are_named():
    x, y = ring().x, ring().y
    twice = Table(Dataset(np.concatenate([x, x[:2]]), np.concatenate([y, y[:2]]), "binary")).zou()
    assert twice.facts.n == 8
    assert "2 repeated rows left out" in twice.prepared
    clash = Table(Dataset(np.concatenate([x, x[:1]]), np.concatenate([y, -y[:1]]), "binary"))
    for found in (clash.zou(), clash.frei(), clash.du("residual", 2, "softplus", 0.5)):
        assert found.facts is None
        assert "equal rows carry different targets" in found.unmet


def test_each_theorem_says_what_it_cannot_speak_of():
    numbers = Table(Dataset(ring().x, np.arange(8.0), "regression"))
    assert "these targets are numbers" in numbers.zou().unmet
    tokens = Table(load("sequences:n=4,length=3,features=4,separation=0.3"))
    assert tokens.allen_zhu().facts.delta == pytest.approx(0.3)
    assert "sequences" in tokens.du("residual", 2, "softplus", 0.5).unmet
    assert "depth of at least 2" in Table(ring()).du("residual", 1, "softplus", 0.5).unmet
    same = load("sequences:n=4,length=3,features=4,separation=0.3")
    x = same.x.copy()
    x[1, 0] = x[0, 0]
    assert "begin with the same" in Table(type(same)(x, same.y, "regression")).allen_zhu().unmet


def test_an_eigenvalue_within_its_error_gives_no_width():
    line = Dataset(np.linspace(-1, 1, 40)[:, None] * np.array([[1.0, 0.5]]), np.sin(np.arange(40.0)), "regression")
    found = Table(line).du("fully-connected", 2, "softplus", 0.5)
    assert found.facts is None
    assert "within its error" in found.unmet


@pytest.fixture(scope="module")
def answer():
    return theorem(SMALL, depth=2)


def test_the_answer_has_all_eight_theorems(answer):
    numbers = [one.theorem.removeprefix("Theorem ") for one in answer]
    assert numbers == ["5.1", "6.1", "7.1", "4.1", "4.5", "1", "2", "3.5"]
    assert [one.method for one in answer if one.theorem in ("Theorem 4.5", "Theorem 2")] == ["SGD", "SGD"]
    assert answer["Theorem 5.1"].exact
    assert not answer["Theorem 4.1"].exact  # steps with gaps, as printed
    assert not answer["Theorem 1"].exact
    assert answer["Theorem 5.1"].costliest.how == "proof"
    assert json.loads(json.dumps(answer.to_dict()))["asks"][0]["log10_width"] > 10
    with pytest.raises(InputError, match="no theorem called 'Theorem 9'"):
        answer["Theorem 9"]


def test_more_is_asked_for_more_accuracy_and_less_failure():
    loose, strict = (theorem(ring(), depth=1, epsilon=e, failure=f) for e, f in ((0.1, 0.1), (0.001, 0.001)))
    for one in ("Theorem 4.1", "Theorem 4.5", "Theorem 3.5"):
        low, high = loose[one].log10_width, strict[one].log10_width
        assert low is not None
        assert high is not None
        assert low < high
    less, more = (found["Theorem 5.1"].log10_iterations for found in (loose, strict))
    assert less is not None
    assert more is not None
    assert less < more


def test_it_can_be_seen(answer):
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO())
    console.print(theorem_view(answer))
    console.print(theorem_view(answer, details="Theorem 4.1"))
    text = console.export_text()
    assert "the theorem is about sequences" in text
    assert "Lemma 5.5 and (C.8)" in text
    assert "c_0" in text
    axes = theorem_figure(answer).axes[0]
    assert len(axes.get_yticks()) == 6
    with pytest.raises(InputError, match="nothing to draw"):
        theorem_figure(type(answer)("none", 1, 2, 0.1, 0.1, "tanh", tuple(answer)[5:7]))


@pytest.mark.parametrize(
    ("asked", "advice"),
    [
        ({"epsilon": 2.0}, "`epsilon` must be"),
        ({"depth": 0}, "`depth` and `batch`"),
        ({"activation": "relu"}, "smooth"),
    ],
)
def test_bad_questions(asked, advice):
    with pytest.raises(InputError, match=advice):
        theorem(ring(), **asked)


def test_a_width_that_is_proved_is_looked_for():
    width, about = proves(load(SMALL), width=64, budget=20.0)
    assert width == 64
    assert "seed 0" in about
