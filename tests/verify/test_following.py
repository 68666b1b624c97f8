"""Steps followed from a start: no error grows faster than its bound, and exact gradient descent is in every tube."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from tests.verify import making, stated
from wideproof.training.losses import MarginLoss, get_loss
from wideproof_verify import floats, following
from wideproof_verify.arithmetic import BALLS, FLOATS, PURE, Arithmetic, norm
from wideproof_verify.certificate import Start
from wideproof_verify.floats import Floats
from wideproof_verify.following import Tube, follow
from wideproof_verify.functions import ACTIVATIONS, MARGIN_LOSSES
from wideproof_verify.graphs import Network
from wideproof_verify.growth import Kept, Norms, Point
from wideproof_verify.losses import Loss
from wideproof_verify.passes import Anchor
from wideproof_verify.refusals import NotProvedError

EVERY = {"squared": "half_sum"} | dict.fromkeys(MARGIN_LOSSES, "mean")
IDENTITY = {"kind": "identity"}
FAST = ("fully-connected-one", "residual", "residual-relu", "elman-rnn-all", "own-strided", "own-relu", "own-fixed")


@pytest.fixture(autouse=True)
def _precision():
    """As in a verification: 128 bits, and no warnings of float64."""
    with ctx.workprec(128), np.errstate(all="ignore"):
        yield


class Case(NamedTuple):
    """A network as its certificate states it, weights, inputs, and targets as (scored outputs, examples)."""

    config: dict[str, Any]
    weights: dict[str, np.ndarray]
    net: Network
    matrices: dict[str, np.ndarray]
    x: np.ndarray
    y: np.ndarray

    def trained(self) -> dict[str, np.ndarray]:
        return {name: self.matrices[name] for name in self.net.trained}


def case(name: str, loss: str = "squared", n: int = 4, seed: int = 0) -> Case:
    network = making.SMALL[name]
    params, x, _ = making.problem(network, n, seed)
    weights, config = {key: np.asarray(w) for key, w in params.items()}, making.config(network)
    rng, rows = np.random.default_rng(seed), stated.evaluate(config, weights, x[:1]).outputs.shape[1]
    y = rng.choice([-1.0, 1.0], (rows, n))
    if loss == "squared":  # residuals of very different sizes
        y = stated.evaluate(config, weights, x).outputs.T + 10 ** rng.uniform(-3, 0.5, n) * rng.standard_normal(y.shape)
    return Case(config, weights, *making.read(config, weights), x, y)


def margin_loss(name: str) -> MarginLoss:
    found = get_loss(name)
    assert isinstance(found, MarginLoss)
    return found


def slopes(loss: str, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return f - y if loss == "squared" else y * np.asarray(margin_loss(loss).derivative(jnp.asarray(y * f)))


def gradient(c: Case, loss: str, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of the summed loss and outputs, after a step `theta`, in plain NumPy."""
    found = stated.evaluate(c.config, stated.moved(c.config, c.weights, theta), c.x)
    return found.jacobian.T @ slopes(loss, found.outputs, c.y.T).ravel(), found.outputs


def check_growth(
    c: Case, loss: str, radius: float, eta: float, rng: np.random.Generator, ops: Arithmetic = FLOATS
) -> float:
    """Compare with two points of the ball, in a direction in which they are driven apart; return the best ratio."""
    point = Point(c.net, c.matrices, c.x, c.y, Loss(loss, EVERY[loss]), Norms(ops), Kept(), arb(radius))
    bound, speeds = point.growth(arb(eta), arb(radius))
    moved = float(point.moved(arb(radius)).upper())
    u = rng.standard_normal(sum(w.size for w in c.trained().values()))
    here = gradient(c, loss, 0 * u)
    kept, best = point.clear(point.anchor, speeds, arb(radius)), 0.0
    for k in range(6):
        u = u / np.linalg.norm(u)
        (g, f), (h, e) = (gradient(c, loss, sign * radius * u) for sign in (1, -1))
        assert max(np.abs(f - here[1]).max(), np.abs(e - here[1]).max()) <= moved + 1e-12
        if k == 0:
            changed = stated.matrices(c.config, stated.moved(c.config, c.weights, radius * u))
            away = Anchor(c.net, changed, c.x, ops=ops, keep=True)
            for z, old, speed in zip(away.pre, point.anchor.pre, speeds, strict=True):
                limit = radius * float(speed.upper()) / point.p.reshape(1, -1, 1)
                assert (np.abs(ops.middle(z) - ops.middle(old)) <= limit + 1e-12).all()
        if not kept:
            return 0.0
        v = u - eta * (g - h) / (2 * radius)
        best, u = max(best, float(np.linalg.norm(v)) / float(bound.upper())), v
        rounding = 1e-13 * eta * (np.linalg.norm(g) + np.linalg.norm(h) + 1) / radius
        assert best <= 1 + rounding
    return best


@pytest.mark.parametrize("name", making.CASES)
def test_no_two_points_are_driven_apart_faster(name):
    """G bounds what a step does to any two points of the ball; outputs and pre-activations move as slowly as said."""
    rng = np.random.default_rng(1)
    for k, (loss, radius) in enumerate([("squared", 0.01), ("logistic", 1e-4)]):
        check_growth(case(name, loss, seed=k), loss, radius, float(10 ** rng.uniform(-2, 0.3)), rng)


@pytest.mark.parametrize("name", ["fully-connected-one", "residual-relu", "elman-rnn-all"])
def test_no_two_points_are_driven_apart_faster_in_balls(name):
    rng = np.random.default_rng(1)
    assert check_growth(case(name), "squared", 0.01, 0.3, rng, PURE) >= 0
    c, loss = case(name), Loss("squared", "half_sum")
    pure, quick = (Point(c.net, c.matrices, c.x, c.y, loss, Norms(ops), Kept(), arb(0.01)) for ops in (PURE, FLOATS))
    for eta in (0.1, 10.0):
        exact, found = (p.growth(arb(eta), arb(0.01))[0] for p in (pure, quick))
        assert float(exact) == pytest.approx(float(found), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", making.SMALL)
def test_no_two_points_are_driven_apart_faster_with_every_loss(name):
    rng, best = np.random.default_rng(2), 0.0
    for seed in range(4):
        for loss in EVERY:
            for radius in (1e-4, 0.01, 0.1):
                best = max(
                    best, check_growth(case(name, loss, seed=seed), loss, radius, 10 ** rng.uniform(-2, 0.5), rng)
                )
    print(f"\n{name}: at most {best:.3f} of the bound")


def test_losses_are_those_of_training():
    """Values and slopes agree, and no slope is steeper than the bound of ℓ''."""
    z = np.linspace(-4, 4, 801)
    for name, (pair, curvature) in MARGIN_LOSSES.items():
        found = np.array([[float(v) for v in pair(arb(a))] for a in z])
        assert np.allclose(found[:, 0], margin_loss(name).value(jnp.asarray(z)), rtol=1e-13, atol=1e-13)
        assert np.allclose(found[:, 1], margin_loss(name).derivative(jnp.asarray(z)), rtol=1e-13, atol=1e-13)
        steep = np.diff(found[:, 1]) / np.diff(z)
        assert steep.min() >= -1e-12
        assert 0.9 * curvature <= steep.max() <= curvature * (1 + 1e-9)


@pytest.mark.parametrize("name", MARGIN_LOSSES)
def test_curvatures_of_losses(name):
    """c is not below any difference quotient of ℓ' on the interval, nor far above the largest; what is no number is."""
    rng, loss = np.random.default_rng(4), Loss(name, "mean")
    f = np.concatenate([rng.uniform(-3, 3, 120), rng.uniform(-60, 60, 20), [0.0, 1.0, -1.0, 1e-12, 1 - 1e-12]])[None]
    y, rad = rng.choice([-1.0, 1.0], f.shape), 10 ** rng.uniform(-14, -1, f.shape)
    for moved in (0.0, 1e-9, 0.05):
        outputs = Floats(f, rad)
        slopes = loss.slopes(outputs, y, FLOATS)
        found = loss.bends(outputs, slopes, y, arb(moved))
        assert found is not None
        same: Any = loss.bends(BALLS.lift(outputs), BALLS.lift(slopes), y, arb(moved))
        assert (same >= 0.999 * found).all()
        with ctx.workprec(200):
            for k in range(f.size):
                ends = np.linspace(-1, 1, 9) * (rad[0, k] + moved)
                margins = [arb(float(y[0, k])) * (arb(float(f[0, k])) + arb(float(e))) for e in ends]
                steep = [MARGIN_LOSSES[name][0](z)[1] for z in margins]
                most = max(
                    float(((b - a) / (w - z)).mid())
                    for a, b, z, w in zip(steep, steep[1:], margins, margins[1:], strict=False)
                )
                assert most <= found[0, k] * (1 + 1e-12)
                if name == "logistic":
                    assert found[0, k] <= most + 2 * (rad[0, k] + moved) + 1e-12
    odd = Floats(np.array([[np.nan, 0.0]]), np.array([[0.0, np.inf]]))
    wide: Any = loss.bends(odd, odd, np.ones((1, 2)), arb(0))
    assert (wide == MARGIN_LOSSES[name][1]).all()


def test_each_output_counts_with_its_own_curvature():
    """A logistic loss that is all but fitted: G stays below 2 for a step that sup ℓ'' would call unstable."""
    c = case("fully-connected-one", "logistic")
    f = stated.evaluate(c.config, c.weights, c.x).outputs
    weights = c.weights | {c.net.read_out: c.weights[c.net.read_out] * 8 / np.abs(f).min()}
    net, matrices = making.read(c.config, weights)
    found = stated.evaluate(c.config, weights, c.x)
    point = Point(net, matrices, c.x, np.sign(f).T.copy(), Loss("logistic", "mean"), Norms(FLOATS), Kept(), arb(0))
    eta = 40 / float(np.linalg.norm(found.jacobian, 2)) ** 2  # η sup ℓ'' ‖J‖² = 10
    assert point.growth(arb(eta), arb(0))[0] < 2


def drifted(name: str, seed: int, moves: int, ops: Arithmetic = FLOATS) -> float:
    """Form a Gram matrix, move the weights, and return the least ratio of the bound of ‖diag(c)^½ J‖ to it."""
    c, rng, least = case(name, seed=seed), np.random.default_rng(seed), math.inf
    kept, loss = Kept(), Loss("squared", "half_sum")
    first = Point(c.net, c.matrices, c.x, c.y, loss, Norms(ops), kept, arb(0))
    assert not first.drifted(arb(1)).is_finite()
    f = stated.evaluate(c.config, c.weights, c.x).outputs
    size = sum(w.size for w in c.trained().values())
    for k in range(moves):
        old, new = (10 ** rng.uniform(-2, 0, f.size) for _ in range(2))  # rows are (output, example)
        first.steepest(arb(1), old if k % 2 else None)
        theta = rng.standard_normal(size) * 10 ** rng.uniform(-4, 0.5) / math.sqrt(size) * (k > 1)
        weights = stated.moved(c.config, c.weights, theta)
        found = stated.evaluate(c.config, weights, c.x)
        there = Point(c.net, stated.matrices(c.config, weights), c.x, c.y, loss, Norms(ops), kept, arb(0))
        bound = there.drifted(arb(1), new if k % 2 else None)
        roots = np.sqrt(new.reshape(f.shape[::-1]).T.ravel() if k % 2 else np.ones(f.size))
        least = min(least, float(bound.upper()) / np.linalg.norm(roots[:, None] * found.jacobian, 2))
        if k == 0:  # nothing has moved
            assert bound < first.steep * (1 + 1e-9) + 1e-9
    return float(least)


@pytest.mark.parametrize("name", making.CASES)
def test_the_jacobian_is_bounded_away_from_its_gram_matrix(name):
    """Bounds from where a Gram matrix was formed against singular values of Jacobians written out."""
    assert drifted(name, 0, 12) >= 1 - 1e-12


def test_the_jacobian_is_bounded_away_from_its_gram_matrix_in_balls():
    assert drifted("fully-connected-one", 0, 4, PURE) >= 1 - 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", making.SMALL)
def test_jacobians_are_bounded_away_from_their_gram_matrices(name):
    for seed in range(10):
        assert drifted(name, seed, 30) >= 1 - 1e-12


@pytest.mark.parametrize("name", ["fully-connected", "own-fixed"])
def test_a_jacobian_that_is_said_to_stay_is_seen(name, monkeypatch):
    """Planted: differences count nothing."""
    monkeypatch.setattr(FLOATS, "apart", lambda a, b, axis=None: 0 * FLOATS.norm(a, axis))
    assert drifted(name, 0, 12) < 0.99


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_few_gram_matrices_and_the_same_bounds(loss, monkeypatch):
    """G is what it is with the Gram matrix of every step, which is formed at a few."""
    formed, gram = [], Anchor.gram
    monkeypatch.setattr(Anchor, "gram", lambda self, product: formed.append(1) or gram(self, product))
    c = case("fully-connected-one", loss, n=5)
    start, kind = runs(c, loss, 20, 0, None)
    formed.clear()
    course = follow(c.net, c.matrices, start(20), c.x, c.y, kind, FLOATS).course
    assert len(formed) <= 10
    monkeypatch.setattr(Point, "drifted", lambda self, eta, bends=None: arb("inf"))
    formed.clear()
    every = follow(c.net, c.matrices, start(20), c.x, c.y, kind, FLOATS).course
    assert len(formed) == 20
    assert [row[2] for row in course] == pytest.approx([row[2] for row in every], rel=1e-9)


@pytest.mark.parametrize("ops", [FLOATS, PURE])
@pytest.mark.parametrize("n", [4, 24, 25, 40])
def test_blocks_of_the_first_weight(n, ops):
    """max_j ‖Σ_i b_ji σ''(z_ji) φ_i φ_iᵀ‖_F, written out, with fewer rows than products of two inputs (25) and more."""
    c = case("fully-connected-one", n=n)
    point = Point(c.net, c.matrices, c.x, c.y, Loss("squared", "half_sum"), Norms(ops), Kept(), arb(0))
    ((_, term), found), *others = point.own.items()
    assert not others
    f = stated.evaluate(c.config, c.weights, c.x).outputs.T
    z = np.tanh(c.matrices[term.weight or ""] @ c.x.T)
    b = c.matrices[c.net.read_out].T @ (f - c.y)
    d = b * -2 * z * (1 - z * z)
    off = 1.7e-7 * np.linalg.norm(b, axis=1).max() * np.linalg.norm(c.x, axis=1).max() ** 2 * n**0.5  # σ'' by degree 4
    most = max(np.linalg.norm((row * c.x.T) @ c.x) for row in d)
    if ops is FLOATS:
        assert most * (1 - 1e-12) <= found <= (most + off) * (1 + 1e-9)
    else:
        assert abs(float(found) / most - 1) < 1e-9


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if ACTIVATIONS[name].bend])
def test_second_derivatives_of_activations(name):
    """σ'' by polynomials holds the difference quotient of σ' in balls; where z is no number it holds all."""
    rng = np.random.default_rng(3)
    z = np.concatenate([rng.uniform(-6, 6, 60), rng.uniform(-45, 45, 20), [40.0, -40.0, 0.0, 1 / 128]])
    found = floats.bent(name, Floats(z, np.full(z.shape, 1e-9)))
    assert found is not None
    with ctx.workprec(300):
        for k, a in enumerate(z):
            for off in (-1e-9, 0.0, 1e-9):
                at, h = arb(float(a)) + arb(off), arb(2) ** -60
                value = (ACTIVATIONS[name].both(at + h)[1] - ACTIVATIONS[name].both(at - h)[1]) / (2 * h)
                assert abs(value - arb(found.mid[k])) <= arb(found.rad[k]) + 1e-20
    odd = floats.bent(name, Floats(np.array([np.nan, np.inf, -np.inf])))
    assert odd is not None
    assert (odd.rad >= float(arb(ACTIVATIONS[name].constants()[1]))).all()


def test_residuals_of_several_sites_count_together():
    """f = C W x at two times, residuals (1, 1) and (1, −1): the second derivative by C and W is 4, not 4/√2."""
    nodes = [
        {"terms": [{"weight": "W", "source": -1 - k, "map": IDENTITY}], "activation": "identity", "scale": 1.0,
         "skip": None} for k in range(3)
    ]  # fmt: skip
    config = {
        "shape": [1], "times": 3, "columns": False, "nodes": nodes, "read_out": "C", "bias": None, "sites": [1, 2],
        "outputs": 1, "trained": ["W", "C"],
    }  # fmt: skip
    net, matrices = making.read(config, {"W": np.array([[1e-9]]), "C": np.array([[1e-9]])})
    x = np.array([[0.0, 1.0, 1.0], [0.0, 1.0, -1.0]])[:, :, None]
    y = -np.array([[1.0, 1.0], [1.0, -1.0]])
    point = Point(net, matrices, x, y, Loss("squared", "half_sum"), Norms(FLOATS), Kept(), arb(0))
    bound, _ = point.growth(arb(1), arb(0))
    assert 5 <= bound <= 5.01


@pytest.mark.parametrize("loss", ["huber_hinge", "squared_hinge"])
def test_a_batch_without_a_slope_is_followed(loss):
    """Every margin beyond 1: nothing moves, and nothing is lost."""
    c = case("fully-connected", loss)
    f = stated.evaluate(c.config, c.weights, c.x).outputs
    weights = c.weights | {c.net.read_out: c.weights[c.net.read_out] * 3 / np.abs(f).min()}
    net, matrices = making.read(c.config, weights)
    start = Start({name: matrices[name] for name in net.trained}, 0.1, 2, None, [60.0] * 2, 1.0)
    tube = follow(net, matrices, start, c.x, np.sign(f).T.copy(), Loss(loss, "mean"), FLOATS)
    assert tube.off < 1e-20
    assert all((held(tube.point[name]) == held(Floats(matrices[name]))).all() for name in net.trained)


def traced(c: Case, start: Start, loss: Loss, monkeypatch: pytest.MonkeyPatch) -> tuple[list[dict], Tube]:
    """Return the point before every step and the last one, and the tube."""
    points, rounded = [], following.rounded

    def spy(here: Any, ops: Arithmetic, fine: bool = False) -> Any:
        points.extend([] if fine else [here])
        return rounded(here, ops, fine)

    with monkeypatch.context() as patch:
        patch.setattr(following, "rounded", spy)
        tube = follow(c.net, c.matrices, start, c.x, c.y, loss, FLOATS)
    return [*points, tube.point], tube


def held(a: Any) -> Any:
    """Balls of the numbers."""
    return BALLS.lift(a) if isinstance(a, Floats) else a


def distance(a: dict[str, Any], b: dict[str, Any]) -> arb:
    with ctx.workprec(1000):
        return norm(np.array([norm(held(a[name]) - held(b[name])) for name in a]))


def runs(c: Case, loss: str, steps: int, seed: int, batch: int | None) -> tuple[Any, Loss]:
    """A maker of starts with so many bits, and the loss."""
    kind, rng, n = Loss(loss, EVERY[loss]), np.random.default_rng(seed), len(c.x)
    batches = None if batch is None else np.array([rng.permutation(n)[:batch] for _ in range(steps)])
    point = Point(c.net, c.matrices, c.x, c.y, kind, Norms(FLOATS), Kept(), arb(0))
    eta = 1 / float(FLOATS.largest(FLOATS.symmetric(point.gram))) * (1 if loss == "squared" else n / kind.curvature)
    return lambda bits, weights=None: Start(weights or c.trained(), eta, steps, batches, [bits] * steps, 1.0), kind


def check_run(name: str, loss: str, batch: int | None, bits: int, steps: int, seed: int, patch: Any) -> float:
    """Follow with few bits, with many, and from a start nearby; return the largest share of the bound."""
    c = case(name, loss, n=5, seed=seed)
    start, kind = runs(c, loss, steps, seed, batch)
    (rough, tube), (fine, other) = (traced(c, start(b), kind, patch) for b in (bits, 170))
    share = 0.0
    for k in range(1, steps + 1):
        apart, allowed = distance(rough[k], fine[k]), arb(tube.course[k - 1][0]) + arb(other.course[k - 1][0])
        assert apart <= allowed
        share = max(share, float(apart / allowed))
    rng = np.random.default_rng(seed)
    away = {key: w + 1e-10 * rng.standard_normal(w.shape) / math.sqrt(w.size) for key, w in c.trained().items()}
    beside, _ = traced(c, start(170, away), kind, patch)
    grown = distance(fine[0], beside[0])
    for k in range(1, steps + 1):
        grown = grown * other.course[k - 1][2]
        assert distance(fine[k], beside[k]) <= grown * (1 + 1e-6)
    return share


@pytest.mark.parametrize("name", FAST)
def test_exact_steps_stay_in_the_tube(name, monkeypatch):
    """Points of float64 and of far more bits differ by less than their bounds; a start nearby stays as near as said."""
    check_run(name, "squared", None, 20, 2, 0, monkeypatch)
    check_run(name, "logistic", 3, 50, 2, 1, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", making.SMALL)
def test_long_runs_stay_in_the_tube(name, monkeypatch):
    """Runs that float64 loses are left out; most are not."""
    kinds, kept = [("squared", None), ("squared", 3), ("logistic", None), ("logistic", 2), ("huber_hinge", 3)], 0
    for seed, (loss, batch) in enumerate(kinds):
        for bits in (30, 70):
            try:
                share = check_run(name, loss, batch, bits, 20, seed, monkeypatch)
            except NotProvedError:
                continue
            kept += 1
            print(f"\n{name}, {loss}, {bits} bits: at most {share:.2g} of the bound")
    assert kept > 4


def written_steps(c: Case, eta: float, steps: int) -> dict[str, np.ndarray]:
    """Gradient descent on half the sum of squares for layers one after the other, by formula, in 400 bits."""
    ball: Any = np.frompyfunc(arb, 1, 1)
    with ctx.workprec(400):
        names = [node["terms"][0]["weight"] for node in c.config["nodes"]]
        w = {name: ball(a) for name, a in c.matrices.items()}
        for _ in range(steps):
            values, bends = [ball(c.x.T)], []
            for name, node in zip(names, c.config["nodes"], strict=True):
                value, slope = np.frompyfunc(ACTIVATIONS[node["activation"]].both, 1, 2)(w[name] @ values[-1])
                values.append(arb(node["scale"]) * value)
                bends.append(arb(node["scale"]) * slope)
            r = w[c.net.read_out] @ values[-1] - ball(c.y)
            change, back = {c.net.read_out: r @ values[-1].T}, w[c.net.read_out].T @ r
            for k in reversed(range(len(names))):
                g = back * bends[k]
                change[names[k]], back = g @ values[k].T, w[names[k]].T @ g
            w |= {name: w[name] - arb(eta) * change[name] for name in c.net.trained}
    return {name: w[name] for name in c.net.trained}


@pytest.mark.parametrize("name", ["fully-connected", "fully-connected-fixed", "fully-connected-relu", "deep-relu"])
@pytest.mark.parametrize(("bits", "ops"), [(-1000, FLOATS), (60, FLOATS), (200, FLOATS), (60, PURE), (200, PURE)])
def test_steps_written_out_end_in_the_tube(name, bits, ops):
    """Backpropagation by formula in 400 bits: float64, double-double and balls hold its end, whatever the hint."""
    c = case(name, n=4, seed=2)
    start, kind = runs(c, "squared", 6, 0, None)
    tube = follow(c.net, c.matrices, start(bits), c.x, c.y, kind, ops)
    apart = distance(tube.point, written_steps(c, start(bits).step_size, 6))
    assert apart <= tube.off
    assert tube.off < {-1000: 1e-10, 60: 1e-20, 200: 1e-55}[bits]
    assert tube.course[-1][1] == {-1000: 53, 60: 100 if ops is FLOATS else 128}.get(bits, tube.course[-1][1])
    outputs = tube.outputs(c.net, c.matrices, c.x, ops)
    with ctx.workprec(400):
        moved = Anchor(c.net, {**c.matrices, **written_steps(c, start(bits).step_size, 6)}, c.x, ops=BALLS).outputs
    assert all(a.contains(b.mid()) for a, b in zip(outputs.ravel(), moved.ravel(), strict=True))


def test_outputs_need_no_gram_matrix(monkeypatch):
    """A forward pass bounds how far outputs move: the Jacobian of all rows is not formed."""
    c = case("fully-connected", n=4)
    tube = Tube({name: Floats(w) for name, w in c.trained().items()}, arb(1e-3))
    monkeypatch.setattr(Anchor, "gram", None)
    monkeypatch.setattr(Anchor, "differentiate", None)
    outputs, rng = tube.outputs(c.net, c.matrices, c.x, FLOATS), np.random.default_rng(0)
    for u in rng.standard_normal((20, sum(w.size for w in c.trained().values()))):
        moved = stated.moved(c.config, c.weights, 1e-3 * u / np.linalg.norm(u))
        found = stated.evaluate(c.config, moved, c.x).outputs.T
        assert all(a.contains(arb(float(b))) for a, b in zip(outputs.ravel(), found.ravel(), strict=True))


def test_batches_have_as_many_bits_as_asked_for():
    """n/|B| = 5/3 is no float64 number, nor one of 128 bits."""
    c = case("fully-connected-one", n=5)
    start, kind = runs(c, "squared", 2, 0, 3)
    assert follow(c.net, c.matrices, start(300), c.x, c.y, kind, FLOATS).off < 1e-80


def kink(low: float) -> tuple[Network, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """One ReLU unit whose first step ends `low` beside a kink of the first example, closer than float64 can say."""
    term = {"weight": "W", "source": -1, "map": IDENTITY}
    config = {
        "shape": [3], "times": 0, "columns": False, "read_out": "C", "bias": None, "sites": [0], "outputs": 1,
        "nodes": [{"terms": [term], "activation": "relu", "scale": 1.0, "skip": None}], "trained": ["W"],
    }  # fmt: skip
    g, q, a = 0.2 * 2.0**-52, 1.1, 1.3
    net, matrices = making.read(config, {"W": np.array([[1.0, -1.0, low * g]]), "C": np.array([[a]])})
    y = np.array([[1.0, -a * q * low * g + g / (a * q)]])  # the step adds (g, g, −g)
    return net, matrices, np.array([[2.0**20] * 3, [q, q, -q]]), y


@pytest.mark.parametrize("bits", [60, 250])
def test_a_side_that_rounding_changes_is_not_used(bits):
    """After one step z is positive, at the float64 weights next to it negative: a growth bounded there is too small.

    With the first example on, two points are driven apart 10^12 times; with it off, about 5 times.
    """
    net, matrices, x, y = kink(-0.5)
    once, twice = (Start({"W": matrices["W"]}, 1.0, k, None, [bits] * k, 1.0) for k in (1, 2))
    tube = follow(net, matrices, once, x, y, Loss("squared", "half_sum"), FLOATS)
    w = held(tube.point["W"])[0]
    assert w.sum() > arb(2) ** -60
    assert np.array([float(a) for a in w]) @ np.ones(3) < -(2.0**-60)
    with pytest.raises(NotProvedError, match="so near 0 that its side is not known"):
        follow(net, matrices, twice, x, y, Loss("squared", "half_sum"), FLOATS)


def test_a_pre_activation_near_its_kink_is_refused_or_followed_with_more_bits():
    """z = 10^-20 at the start: balls say its side. Where z = 0 no number of bits does."""
    net, matrices, x, _ = kink(1.0)
    weights = {"W": np.array([[1.0, 1e-20, 0.5]])}
    x = np.array([[1.0, 1.0, -2.0], [0.3, 0.2, 0.1]])
    y = np.array([[0.0, 0.0]])
    start = lambda bits: Start(weights, 1e-3, 2, None, [bits] * 2, 1.0)  # noqa: E731
    assert follow(net, matrices, start(300), x, y, Loss("squared", "half_sum"), FLOATS).off < 1e-80
    exact = {"W": np.array([[1.0, 0.0, 0.5]])}
    with pytest.raises(NotProvedError, match="pre-activation is so near 0"):
        follow(net, matrices, Start(exact, 1e-3, 2, None, [300.0] * 2, 1.0), x, y, Loss("squared", "half_sum"), FLOATS)


@pytest.mark.parametrize("name", ["fully-connected", "deep-relu", "own-dense"])
@pytest.mark.parametrize("size", [1e160, 1e308])
def test_weights_out_of_range_are_lost(name, size):
    """Overflow ends with a sentence: neither a bound nor another exception."""
    c = case(name)
    start = Start({key: size * np.sign(w) for key, w in c.trained().items()}, 0.1, 2, None, [50.0] * 2, 1.0)
    with pytest.raises((NotProvedError, ArithmeticError, ValueError)):
        follow(c.net, c.matrices, start, c.x, c.y, Loss("squared", "half_sum"), FLOATS)


@pytest.mark.parametrize("name", ["fully-connected-fixed", "fully-connected-outputs", "own-dense"])
def test_the_jacobian_turns_no_faster(name):
    """What G takes for the change of ‖J‖ in the ball, recovered from a tiny and a huge step, against Jacobians."""
    c, radius, rng = case(name), 0.3, np.random.default_rng(3)
    point = Point(c.net, c.matrices, c.x, c.y, Loss("squared", EVERY["squared"]), Norms(FLOATS), Kept(), arb(radius))
    tiny, huge = arb(2) ** -40, arb(2) ** 40
    bend = (point.growth(tiny, arb(radius))[0] - 1) / tiny
    grown = ((point.growth(huge, arb(radius))[0] + 1 - huge * bend) / huge).sqrt() - point.steepest(huge)
    here, best = stated.evaluate(c.config, c.weights, c.x).jacobian, 0.0
    for _ in range(20):
        u = rng.standard_normal(here.shape[1])
        there = stated.moved(c.config, c.weights, radius * u / np.linalg.norm(u))
        turned = np.linalg.norm(stated.evaluate(c.config, there, c.x).jacobian - here, 2)
        best = max(best, float(turned) / float(grown.lower()))
    assert 1e-4 < best <= 1  # within four orders: residuals of very different sizes weigh the examples
    print(f"\n{name}: at most {best:.3g} of the bound")
