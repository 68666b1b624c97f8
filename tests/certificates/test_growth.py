"""What a proof from the start is planned with: the growth of errors, how far outputs reach, and the verifier's time."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.certificates.making import TINY, Reference, problem
from wideproof.certificates import costs, growth, tables
from wideproof.certificates.passes import run
from wideproof.networks import DeepRNN, FullyConnected, get_activation
from wideproof.training import Objective, SquaredLoss

MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "from-start-cost.json"
ERF = get_activation("erf")


@pytest.mark.parametrize("name", TINY)
def test_outputs_do_not_reach_farther(name):
    """Two routes: the recursion over the layers, and the Jacobian by backward passes."""
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
    alone = [costs.seconds_to_follow(graph, params, 30, [bits]) for bits in (20.0, 60.0, 120.0, 400.0)]
    assert costs.seconds_to_follow(graph, params, 30, [20.0, 60.0, 120.0, 400.0]) == pytest.approx(sum(alone))
    assert alone[0] < alone[1] < alone[2] <= alone[3]
    assert costs.seconds_to_follow(graph, params, 30, []) == 0
    work = costs.work_of(graph, params, 30)
    plain, double, balls = (np.dot([1.5, *work[1:]], rates) for rates in (costs.PLAIN, costs.DOUBLE, costs.BALLS))
    assert alone[:3] == pytest.approx([plain, plain + double, plain + balls], rel=1e-12)


@pytest.mark.parametrize("more", [{"width": 128}, {"depth": 4}, {"rows": 60}])
@pytest.mark.parametrize("bits", [20.0, 60.0, 120.0])
def test_more_of_anything_takes_longer(more, bits):
    def seconds(width: int = 64, depth: int = 2, rows: int = 30) -> float:
        network = FullyConnected(20, width, depth, ERF)
        return costs.seconds_to_follow(network.graph, network.init(0), rows, [bits])

    assert seconds() < seconds(**more)


def test_the_work_of_one_layer_by_hand():
    """One hidden layer of m units, d inputs, n rows and one output: m d products a row forward, back and once more."""
    n, d, m = 5, 3, 16
    network = FullyConnected(d, m, 1)
    found = costs.work_of(network.graph, network.init(0), n)
    assert found == (1, 3 * n * m * d, n**2 * (m + d), d**3 + n**3 + n**3, n * m, m * d)


def test_recurrent_networks_count_every_time():
    network = DeepRNN(3, 9, 4, depth=2, outputs=1)
    found = costs.work_of(network.graph, network.init(0), 5)
    assert found == costs.work_of(network.graph.unrolled, network.init(0), 5)
    assert found.units > 5 * 9 * 4 * 2


def test_the_plan_is_near_what_was_measured():
    """The benchmark's own figures, one step in each arithmetic: within a factor of 3, and right on the whole."""
    rows = [row for row in json.loads(MEASURED.read_text())["rows"] if "counts" in row]
    planned = [costs.step_seconds(costs.Work(**row["counts"]), [row["hint"]])[0] for row in rows]
    ratios = np.array(planned) / [row["seconds"] for row in rows]
    assert len(rows) >= 18
    assert ((ratios > 1 / 3) & (ratios < 3)).all(), ratios.round(2)
    for bits in (53, 100, 192):
        own = [ratio for ratio, row in zip(ratios, rows, strict=True) if row["bits"] == bits]
        assert 0.6 < np.median(own) < 1.6


def test_within_the_flat_distance_the_factors_are_those_of_the_middle():
    """By hand: an error of 1 at the end is 1/8, 1/4 and 1 before; logarithms rise by 0.02, 0.04 and 0.3."""
    found = growth.Growth(np.array([3.0, 2.0, 4.0]), np.zeros(1), np.inf, 1.0, np.array([1.44, 0.48, 1.2]))
    shares = np.array([1 / 3 / 8, 2 / 3 / 4, 1.0])
    rises = np.array([1.44 / 3, 0.48 / 2, 1.2 / 4])
    assert found.flat == pytest.approx(1 / float(shares @ rises), rel=1e-12)


@pytest.mark.parametrize("name", ["tanh", "erf", "softplus"])
def test_the_factors_rise_no_faster_than_the_stiffness_says(name):
    """Two routes: the estimate at the middle, and the bend again at weights that are a little elsewhere."""
    network = FullyConnected(3, 16, 1, get_activation(name))
    params, x, y = problem(network)
    args = (x, np.asarray(y).reshape(len(x), -1), Objective(SquaredLoss(), "half_sum"), 0.05, 1)
    middle = growth.follow(network.graph, params, *args)
    rng, size = np.random.default_rng(3), 1e-4
    for _ in range(20):
        moves = {k: rng.standard_normal(v.shape) for k, v in params.items() if k in network.graph.trained}
        length = np.sqrt(sum(float(np.square(v).sum()) for v in moves.values()))
        there = {k: v + size * moves[k] / length if k in moves else v for k, v in params.items()}
        other = growth.follow(network.graph, there, *args)
        assert abs(other.factors[0] - middle.factors[0]) <= size * middle.stiffness[0] * 1.01


def test_the_time_of_tables_by_hand():
    """Three layers of m units: three pairs of nodes, each a product and twice three squarings of half the work."""
    network, m, steps = FullyConnected(20, 64, 3, ERF), 64, 10
    graph, params = network.graph, network.init(0)
    one = 3 * (costs.PAIR + costs.TABLE * 4 * m**3)
    assert costs.table_seconds(graph, params, 7) == pytest.approx(7 * one, rel=1e-12)
    assert costs.tables_seconds(graph, params, (), steps, 7) == 0
    assert costs.tables_seconds(graph, params, (0, 4), steps, 7) == pytest.approx(14 * one, rel=1e-12)
    batches = np.array([[0, 1], [0, 1], [2, 3]] + [[0, 1]] * 7)
    assert costs.tables_seconds(graph, params, (0, 4), steps, 7, batches) == pytest.approx(6 * one, rel=1e-12)
    assert costs.table_seconds(FullyConnected(20, 64, 1, ERF).graph, params, 7) == 0


def test_tables_that_are_carried_on_bound_the_products_there():
    """Norms of A = W D and B = D A by singular values, at weights elsewhere; one table, made again where it is worn."""
    network = FullyConnected(4, 12, 2, get_activation("tanh"))
    params, x, _ = problem(network)
    graph, rng = network.graph, np.random.default_rng(0)
    made = tables.table_of(graph, params, x)
    for size in (0.0, 1e-3, 0.1, 1.0):
        there = {k: v + size * rng.standard_normal(v.shape) for k, v in params.items()}
        passed = run(graph, there, x, tracked=False)
        names = [t.weight or "" for _, t in graph.terms()]
        found = tables.along(graph, there, x, made, dict.fromkeys(graph.terms(), 1.0),
                             {(k, t): float(np.linalg.norm(graph.matrix(there, t.weight or ""), 2))
                              for k, t in graph.terms()})  # fmt: skip
        scale = graph.layers[1].scale
        for i in range(len(x)):
            a = graph.matrix(there, names[1]) * (scale * passed.slopes[0].mid[i, 0])
            b = scale * passed.slopes[1].mid[i, 0][:, None] * a
            assert np.linalg.norm(b, 2) <= found.paths[1][graph.trained.index(names[0])] * (1 + 1e-9)
            assert np.linalg.norm(a, 2) <= found.speeds[1][graph.trained.index(names[0])] * (1 + 1e-9)
