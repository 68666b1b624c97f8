"""What a proof from the start is planned with: the growth of errors, how far outputs reach, and the verifier's time."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.certificates.making import TINY, Reference, problem
from wideproof.certificates import growth
from wideproof.certificates.passes import run
from wideproof.networks import DeepRNN, FullyConnected, get_activation

MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "from-start-cost.json"
ERF = get_activation("erf")


@pytest.mark.parametrize("name", TINY)
def test_outputs_do_not_reach_farther(name):
    """Two routes: the recursion over the layers, and the Jacobian by automatic differentiation."""
    network = TINY[name]
    params, x, _ = problem(network)
    graph, reference = network.graph.unrolled, Reference(network, params, x)
    reach = growth._reach(graph, params, run(graph, params, x, tracked=False))
    norm = np.linalg.norm(reference.jacobian(reference.theta), 2)
    assert norm <= reach * (1 + 1e-12)
    assert reach < 25 * norm


def test_the_time_is_a_sum_over_steps_and_grows_with_the_bits():
    network = FullyConnected(20, 64, 2, ERF)
    graph, params = network.graph, network.init(0)
    alone = [growth.seconds_to_follow(graph, params, 30, [bits]) for bits in (20.0, 60.0, 120.0, 400.0)]
    assert growth.seconds_to_follow(graph, params, 30, [20.0, 60.0, 120.0, 400.0]) == pytest.approx(sum(alone))
    assert alone[0] < alone[1] < alone[2] <= alone[3]
    assert growth.seconds_to_follow(graph, params, 30, []) == 0
    work = growth.work_of(graph, params, 30)
    plain, double, balls = (np.dot([1.5, *work[1:]], rates) for rates in (growth.PLAIN, growth.DOUBLE, growth.BALLS))
    assert alone[:3] == pytest.approx([plain, plain + double, plain + balls], rel=1e-12)


@pytest.mark.parametrize("more", [{"width": 128}, {"depth": 4}, {"rows": 60}])
@pytest.mark.parametrize("bits", [20.0, 60.0, 120.0])
def test_more_of_anything_takes_longer(more, bits):
    def seconds(width: int = 64, depth: int = 2, rows: int = 30) -> float:
        network = FullyConnected(20, width, depth, ERF)
        return growth.seconds_to_follow(network.graph, network.init(0), rows, [bits])

    assert seconds() < seconds(**more)


def test_the_work_of_one_layer_by_hand():
    """One hidden layer of m units, d inputs, n rows and one output: m d products a row forward, back and once more."""
    n, d, m = 5, 3, 16
    network = FullyConnected(d, m, 1)
    found = growth.work_of(network.graph, network.init(0), n)
    assert found == (1, 3 * n * m * d, n**2 * (m + d), d**3 + n**3 + n**3, n * m, m * d)


def test_recurrent_networks_count_every_time():
    network = DeepRNN(3, 9, 4, depth=2, outputs=1)
    found = growth.work_of(network.graph, network.init(0), 5)
    assert found == growth.work_of(network.graph.unrolled, network.init(0), 5)
    assert found.units > 5 * 9 * 4 * 2


def test_the_plan_is_near_what_was_measured():
    """The benchmark's own figures, one step in each arithmetic: within a factor of 3, and right on the whole."""
    rows = [row for row in json.loads(MEASURED.read_text())["rows"] if "counts" in row]
    planned = [growth.step_seconds(growth.Work(**row["counts"]), [row["hint"]])[0] for row in rows]
    ratios = np.array(planned) / [row["seconds"] for row in rows]
    assert len(rows) >= 18
    assert ((ratios > 1 / 3) & (ratios < 3)).all(), ratios.round(2)
    for bits in (53, 100, 192):
        own = [ratio for ratio, row in zip(ratios, rows, strict=True) if row["bits"] == bits]
        assert 0.6 < np.median(own) < 1.6
