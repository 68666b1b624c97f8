"""Tables of norms of products: never below dense matrices, wherever they were made, and the same in both programs."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from tests.verify import making, stated
from tests.verify import test_random_graphs as random_graphs
from tests.verify.test_following import EVERY, Case, case, distance, runs, traced
from wideproof.certificates import growth
from wideproof.certificates import tables as planned
from wideproof.certificates.passes import run
from wideproof_verify import tables
from wideproof_verify.arithmetic import FLOATS, PURE, Arithmetic
from wideproof_verify.floats import Floats
from wideproof_verify.following import follow
from wideproof_verify.growth import Kept, Norms, Point
from wideproof_verify.losses import Loss
from wideproof_verify.tables import Near, Tables

KINDS = ("fully-connected", "fully-connected-outputs", "residual", "conv-residual", "residual-relu", "deep-rnn",
         "own-strided", "own-fixed")  # fmt: skip


@pytest.fixture(autouse=True)
def _precision():
    with ctx.workprec(128), np.errstate(all="ignore"):
        yield


def elsewhere(c: Case, away: float, seed: int = 0) -> dict[str, np.ndarray]:
    """The weights after every trained one has moved by `away` of its length."""
    rng = np.random.default_rng(seed)
    return {
        name: w + away * np.linalg.norm(w) * (u := rng.standard_normal(w.shape)) / np.linalg.norm(u)
        if name in c.net.trained else w
        for name, w in c.matrices.items()
    }  # fmt: skip


def at(c: Case, made: Tables | None, radius: float = 0.0, ops: Arithmetic = FLOATS) -> Point:
    return Point(c.net, c.matrices, c.x, c.y, Loss("squared", "half_sum"), Norms(ops), Kept(), arb(radius), made)


def bend(point: Point, radius: float = 0.0) -> float:
    """N, from a tiny step."""
    tiny = arb(2) ** -60
    return float((point.growth(tiny, arb(radius))[0] - 1) / tiny)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (40, 40), (200, 30)])
@pytest.mark.parametrize("size", [1e-60, 1.0, 1e30])
def test_norms_of_matrices(shape, size):
    """Not below the largest singular value, and at most (Σ λ^16)^(1/16), also where entries are known roughly only."""
    m = size * np.random.default_rng(1).standard_normal(shape)
    values = np.linalg.svd(m, compute_uv=False)
    found = float(tables.steep(Floats(m), FLOATS))
    assert values[0] <= found
    assert found <= values[0] * ((values / values[0]) ** 16).sum() ** 0.0625 * (1 + 1e-9)
    assert tables.steep(Floats(m, np.full(shape, size)), FLOATS) >= values[0] + size * math.sqrt(m.size)
    assert float(tables.steep(Floats(np.array([[np.nan, 1.0]])), FLOATS)) != 0  # not a number, nor below anything


def test_the_norms_are_those_of_the_products_written_out():
    """A = W D W D and B = D A of three layers, with e = s |b σ''|."""
    c = case("fully-connected", n=3)
    made = Tables(c.net, c.matrices, c.x, FLOATS)
    scale, names = [node.scale for node in c.net.nodes], [node.terms[0].weight or "" for node in c.net.nodes]
    w, read = [c.matrices[name] for name in names], c.matrices[c.net.read_out]
    for i, row in enumerate(made.of(np.arange(3))):
        x, d, curve = c.x[i], [], []
        for s, weight in zip(scale, w, strict=True):
            z = weight @ x
            d.append(s / (1 + np.exp(-z)))  # softplus
            curve.append(np.exp(-z) / (1 + np.exp(-z)) ** 2)
            x = s * np.log1p(np.exp(z))
        b = [((read * d[2]) @ w[2] * d[1]) @ w[1], (read * d[2]) @ w[2], read]
        for h, k in ((1, 0), (2, 1), (2, 0)):
            a = w[h] * d[k] if h == k + 1 else w[2] @ (d[1][:, None] * (w[1] * d[0]))
            e = scale[h] * np.abs(b[h][0]) * curve[h]
            for bound, dense in ((row.alpha[h, k], np.sqrt(e)[:, None] * a), (row.beta[h, k], d[h][:, None] * a)):
                true = np.linalg.norm(dense, 2)
                assert true <= float(bound.upper()) <= 1.2 * true
        assert all(float(row.beta[h, h]) == pytest.approx(d[h].max(), rel=1e-12) for h in range(3))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("away", [0.0, 1e-4, 0.1])
def test_tables_only_help(name, away):
    """Tables of any point give a bound that is not above the one without; of this point itself it is far below."""
    c = case(name)
    made = Tables(c.net, elsewhere(c, away), c.x, FLOATS)
    without, found = bend(at(c, None, 1e-6), 1e-6), bend(at(c, made, 1e-6), 1e-6)
    assert found <= without * (1 + 1e-9)
    if away == 0 and name in ("fully-connected", "fully-connected-outputs"):
        assert found < 0.8 * without


@pytest.mark.parametrize("name", ["fully-connected", "residual", "deep-rnn"])
def test_balls_and_float64_agree(name):
    c = case(name, n=2)
    found = [bend(at(c, Tables(c.net, elsewhere(c, 0.01), c.x, ops), 1e-6, ops), 1e-6) for ops in (FLOATS, PURE)]
    assert found[1] <= found[0] <= 1.3 * found[1]  # balls have the spectral norms themselves


def curved(name: str, away: float, seed: int) -> tuple[float, float]:
    """‖S‖ by differences, and its bound by tables of another point."""
    c = case(name, n=3, seed=seed)
    found = stated.evaluate(c.config, c.weights, c.x)
    one = random_graphs.Drawn(c.config, c.weights, c.x, c.y, "squared", 1.0, 0.0)
    size = sum(c.matrices[key].size for key in c.net.trained)
    dense = random_graphs.hessian(one, np.zeros(size)) - found.jacobian.T @ found.jacobian
    return float(np.linalg.norm(dense, 2)), bend(at(c, Tables(c.net, elsewhere(c, away, seed), c.x, FLOATS)))


@pytest.mark.parametrize("seed", range(3))
def test_second_derivatives_are_bounded_from_elsewhere(seed):
    dense, bound = curved("fully-connected-outputs", 10.0 ** -(seed + 1), seed)
    assert dense <= bound * (1 + 1e-6)


def thin(w: float, c: float) -> Case:
    """f = c tanh(w tanh(x / 2)), one unit a layer: bounds are nearly attained."""
    nodes = [
        {"terms": [{"weight": name, "source": k - 1, "map": {"kind": "identity"}}], "activation": "tanh", "scale": 1.0,
         "skip": None} for k, name in enumerate(("V", "W"))
    ]  # fmt: skip
    config = {
        "shape": [1], "times": 0, "columns": False, "nodes": nodes, "read_out": "C", "bias": None, "sites": [1],
        "outputs": 1, "trained": ["V", "W", "C"],
    }  # fmt: skip
    weights = {"V": np.array([[0.5]]), "W": np.array([[w]]), "C": np.array([[c]])}
    f = c * np.tanh(w * np.tanh(0.5))
    return Case(config, weights, *making.read(config, weights), np.ones((1, 1)), np.array([[f - 1]]))


@pytest.mark.parametrize(("lie", "w", "c"), [("weights", 2.0, 0.01), ("slopes", 2.0, 0.01), ("norms", 2.0, 0.01),
                                             ("curves", 1.0, 30.0)])  # fmt: skip
def test_tables_that_lie_about_the_way_are_seen(lie, w, c, monkeypatch):
    """Planted: weights, slopes or curvatures are said to be those of the table, or its norms are too small."""
    one, start = thin(w, c), Near.__init__
    away = {**one.matrices, "W": one.matrices["W"] * (1.0 if lie == "norms" else 1e-3)}
    found = stated.evaluate(one.config, one.weights, one.x)
    drawn = random_graphs.Drawn(one.config, one.weights, one.x, one.y, "squared", 1.0, 0.0)
    dense = float(np.linalg.norm(random_graphs.hessian(drawn, np.zeros(3)) - found.jacobian.T @ found.jacobian, 2))
    assert dense <= bend(at(one, Tables(one.net, away, one.x, FLOATS))) < 4 * dense

    def says(self, point, given, rows):
        start(self, point, given, rows)
        zero = 0 * self.zero
        if lie == "weights":
            self.gap, self.turned = dict.fromkeys(self.gap, arb(0)), [zero] * len(self.turned)
        if lie == "slopes":
            self.slope = self.old = self.turned = [zero] * len(self.turned)
        if lie == "curves":
            self.bows = [(zero, zero, zero)] * len(self.bows)

    if lie == "norms":
        monkeypatch.setattr(tables, "steep", lambda a, ops: arb("1e-3"))
    monkeypatch.setattr(Near, "__init__", says)
    assert bend(at(one, Tables(one.net, away, one.x, FLOATS))) < 0.9 * dense


@pytest.mark.parametrize("name", ["fully-connected", "fully-connected-outputs", "residual", "conv-residual",
                                  "elman-rnn-all", "deep-rnn-all"])  # fmt: skip
def test_both_programs_carry_tables_alike(name):
    """The plan's sums and the verifier's, from the same table, for residuals of one size: they share no code."""
    network = making.SMALL[name]
    c, graph = case(name, n=3), network.graph.unrolled
    f = stated.evaluate(c.config, c.weights, c.x).outputs.T
    c = c._replace(y=f - np.ones(f.shape) / math.sqrt(len(f)))
    rng = np.random.default_rng(0)
    there = {key: w + 0.01 * (key in c.net.trained) * rng.standard_normal(w.shape) for key, w in c.weights.items()}
    point = at(c, Tables(c.net, making.read(c.config, there)[1], c.x, FLOATS))
    speeds, paths, _, bent = point.tangents(arb(0))
    passed = run(graph, c.weights, c.x, tracked=False)
    _, _, reads, omega = growth._tangents(graph, c.weights, passed, point.p)
    found = planned.along(graph, c.weights, c.x, planned.table_of(graph, there, c.x), reads, omega)
    assert bent is not None
    for k in range(len(graph.layers)):
        for mine, own in ((paths[c.net.inputs + k], found.paths[k]), (speeds[k], found.speeds[k])):
            assert np.array(mine, float) == pytest.approx(own, rel=1e-6, abs=1e-12)
        side = math.sqrt(c.net.nodes[k].scale * float(point.bends[k])) * found.speeds[k]
        assert np.array(bent[k], float) == pytest.approx(np.minimum(found.bent[k], side), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize(("name", "loss", "batch"), [("fully-connected", "squared", 3), ("residual", "logistic", 2),
                                                     ("elman-rnn-all", "squared", None)])  # fmt: skip
def test_exact_steps_stay_in_the_tube_whatever_the_tables(name, loss, batch, monkeypatch):
    """Tables at any steps: the tube holds steps with far more bits, and rows of a batch are those of its table."""
    c = case(name, loss, n=5, seed=3)
    start, kind = runs(c, loss, 4, 3, batch)
    fine, _ = traced(c, start(170), kind, monkeypatch)
    for given in ((), (0,), (1, 3), (0, 1, 2, 3)):
        points, tube = traced(c, dataclasses.replace(start(40), tables=frozenset(given)), kind, monkeypatch)
        for k in range(1, 5):
            assert distance(points[k], fine[k]) <= arb(tube.course[k - 1][0]) * (1 + 1e-9) + 1e-40


def test_tables_lower_the_growth_and_nothing_else_changes():
    c = case("fully-connected", n=5)
    start, kind = runs(c, "squared", 4, 0, None)
    plain = follow(c.net, c.matrices, start(40), c.x, c.y, kind, FLOATS)
    tabled = follow(c.net, c.matrices, dataclasses.replace(start(40), tables=frozenset({0})), c.x, c.y, kind, FLOATS)
    for name in plain.point:
        assert (plain.point[name].mid == tabled.point[name].mid).all()
    assert math.prod(row[2] for row in tabled.course) < math.prod(row[2] for row in plain.course)


def test_batches_make_rows_of_their_own():
    """Only the examples that are met are worked out, once for each table."""
    c = case("fully-connected", n=5)
    made = Tables(c.net, c.matrices, c.x, FLOATS)
    made.of(np.array([3, 1]))
    assert set(made.rows) == {1, 3}
    first = made.rows[3]
    rows = made.of(np.array([3, 4]))
    assert set(made.rows) == {1, 3, 4}
    assert rows[0] is first
    every = Tables(c.net, c.matrices, c.x, FLOATS).of(np.arange(5))
    for pair, bound in rows[1].beta.items():
        assert float(bound) == pytest.approx(float(every[4].beta[pair]), rel=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_no_two_points_are_driven_apart_faster_than_tables_say(loss):
    """Along two opposite directions in the ball, with the table of a point nearby."""
    c, radius, eta = case("fully-connected-outputs", loss), 1e-3, 0.5
    made = Tables(c.net, elsewhere(c, 1e-2), c.x, FLOATS)
    kind = Loss(loss, EVERY[loss])
    point = Point(c.net, c.matrices, c.x, c.y, kind, Norms(FLOATS), Kept(), arb(radius), made)
    bound, _ = point.growth(arb(eta), arb(radius))
    one = random_graphs.Drawn(c.config, c.weights, c.x, c.y, loss, eta, radius)
    u = np.random.default_rng(0).standard_normal(sum(w.size for w in c.trained().values()))
    for _ in range(6):
        u = u / np.linalg.norm(u)
        g, h = (random_graphs.gradient(one, sign * radius * u) for sign in (1, -1))
        u = u - eta * (g - h) / (2 * radius)
        assert np.linalg.norm(u) <= float(bound.upper()) * (1 + 1e-9)


def test_a_term_that_is_there_twice_counts_twice():
    """f = C (W x + W x): the second derivative by C and W is 2 |residual| |x|."""
    term = {"weight": "W", "source": -1, "map": {"kind": "identity"}}
    nodes = [{"terms": [term, term], "activation": "identity", "scale": 1.0, "skip": None}]
    config = {
        "shape": [1], "times": 0, "columns": False, "nodes": nodes, "read_out": "C", "bias": None, "sites": [0],
        "outputs": 1, "trained": ["W", "C"],
    }  # fmt: skip
    net, matrices = making.read(config, {"W": np.array([[1e-9]]), "C": np.array([[1e-9]])})
    c = Case(config, matrices, net, matrices, np.array([[3.0]]), np.array([[-5.0]]))
    assert 30 <= bend(at(c, Tables(net, matrices, c.x, FLOATS))) <= 30.01
