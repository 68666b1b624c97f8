"""Every network is proved from its initial weights: outputs begin at 0, times the least scale that does it."""

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import wideproof as wp
from tests.cases import each
from wideproof.certificates import Problem, certify
from wideproof.data import Dataset, ImageDataset, SequenceDataset
from wideproof.networks import FullyConnected, get_activation
from wideproof.planning.choosing import choose
from wideproof.planning.measured import least_scale, measured
from wideproof.planning.outlook import forecast
from wideproof.planning.scales import LADDER
from wideproof.proving.stages import begins_at_the_start

VECTORS, IMAGES, SEQUENCES = {"d": (5,)}, {"d": (1, 4)}, {"d": (3, 3)}
KINDS: dict[str, Any] = {
    "residual": VECTORS, "deep-relu": VECTORS, "residual-relu": VECTORS, "fully-connected": VECTORS,
    "conv-residual": IMAGES, "elman-rnn": SEQUENCES, "deep-rnn": SEQUENCES,
}  # fmt: skip


def _data(name: str, n: int = 5) -> Any:
    shape, rng = KINDS[name]["d"], np.random.default_rng(0)
    x, y = rng.standard_normal((n, *shape)), np.array([1.0, -1.0] * n)[:n]
    if len(shape) == 1:
        return Dataset(x, y, "binary")
    if name == "conv-residual":
        return ImageDataset(x, y, "binary")
    return SequenceDataset(x, np.repeat(y, 3).reshape(n, 3, 1), "binary")


SMALL: dict[str, Any] = {"width": 32, "depth": 2}


@pytest.mark.parametrize("name", each(list(KINDS), slow=["fully-connected", "residual-relu", "deep-rnn"]))
def test_a_proof_begins_at_the_initial_weights(name):
    """Whatever the budget: with no second for steps to follow the scale is so large that there are none."""
    sizes: Any = SMALL if name != "elman-rnn" else {"width": 32}
    found: Any = wp.prove(_data(name), network=name, budget=0.0, **sizes)
    assert found.proved, found
    assert found.before
    assert begins_at_the_start(found)
    assert (found.network.start, found.to_dict()["alpha"]) == ("doubled", found.network.alpha)
    assert found.network.alpha > 1
    assert sum(f"alpha = {found.network.alpha:g}:" in note for note in found.notes) == 1, found.notes
    assert f"alpha={found.network.alpha}" in str(found.network)


@pytest.mark.parametrize("name", ["residual", "elman-rnn"])
def test_the_scale_that_is_asked_for_is_kept(name):
    sizes: Any = SMALL if name != "elman-rnn" else {"width": 32}
    found: Any = choose(_data(name), network=name, alpha=5.0, **sizes)
    assert [scale.alpha for scale in found.scales] == [5.0]
    assert found.network.alpha == 5.0
    assert not any("multiplied" in note for note in found.notes)
    assert choose(_data(name), network=name, start="normal", **sizes).scales == ()


def test_an_odd_width_keeps_the_papers_start():
    found: Any = choose(_data("residual"), network="residual", width=33, depth=2)
    assert (found.network.start, found.scales) == ("normal", ())


def test_scales_rise_and_the_note_says_which():
    found: Any = choose(_data("residual"), network="residual", **SMALL)
    seen: list[Any] = [found]
    while (more := seen[-1].lazier()) is not None:
        seen.append(more)
    scales = [one.network.alpha for one in seen]
    assert scales == sorted(set(scales))
    assert seen[-1].scales[0].at_once
    for before, one in pairwise(seen):
        told = [note for note in one.notes if note.startswith("outputs are multiplied by")]
        assert told == [f"outputs are multiplied by alpha = {one.network.alpha:g}: with alpha = "
                        f"{before.network.alpha:g} no proof that begins at the initial weights was found"]  # fmt: skip
        share = (one.network.alpha / before.network.alpha) ** 2
        assert before.step_size / one.step_size == pytest.approx(share)


@pytest.mark.parametrize("name", ["residual", "deep-relu", "elman-rnn"])
def test_the_least_scale_of_the_ladder(name):
    """It passes, and the one below does not."""
    data = _data(name)
    network: Any = wp.build(name, data.input_shape, data.target_shape, start="doubled",
                       **(SMALL if name != "elman-rnn" else {"width": 32}))  # fmt: skip
    params = {key: np.asarray(weight) for key, weight in network.init(0).items()}
    least = least_scale(network, params, data)
    assert least in LADDER[1:]
    passed = []
    for alpha in (LADDER[LADDER.index(least) - 1], least):
        scaled = dataclasses.replace(network, alpha=alpha)
        passed.append(certify(Problem(scaled, data).at(params), level="float64").passed)
    assert passed == [False, True]


def test_the_forecast_is_that_of_the_formula():
    """One hidden layer, where both are known: the same spectrum and targets, a reach of the same size."""
    data = wp.prepare(_data("residual", 12), "sphere(8)")
    network = FullyConnected(6, 512, 1, get_activation("erf"), start="doubled")
    one, other = forecast(network, data), measured(network, data)
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues, rtol=1e-9)
    np.testing.assert_allclose(other.parts, one.parts, rtol=1e-6, atol=1e-9)
    assert 0.1 < other.reach / one.reach < 10


def test_a_singular_matrix_has_no_scale():
    """Two equal inputs of a network that sees no difference: nothing is promised, and training is tried."""
    x = np.array([[1.0, 0.0], [0.0, 0.0], [0.5, 0.5]])
    data = Dataset(x, np.array([1.0, -1.0, 1.0]), "binary")  # ReLU without a bias gives 0 to the row of zeros
    network = wp.build("deep-relu", data.input_shape, data.target_shape, width=8, depth=2, start="doubled")
    assert measured(network, data).reach == 0
