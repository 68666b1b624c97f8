"""Margins that one direction raises (Theorem 12): thousands of runs at the edge of its conditions, and its lies."""

import copy
import dataclasses
import json
import math
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.certificates.making import TINY, Reference, concluded, sphere, start
from tests.certificates.making import problem as drawn
from tests.certificates.rewriting import flip, parts, put
from wideproof.certificates import Margins, Problem, certify, load_certificate, polish
from wideproof.certificates.theorems.margins import _differences, _direction
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected, get_activation
from wideproof_verify import verify
from wideproof_verify.arithmetic import FLOATS
from wideproof_verify.graphs import Network
from wideproof_verify.passes import Anchor


def weights_of(d):
    """Losses, p and π of rows with margins d (…, rows, others): ℓ = log(1 + Σ e^−d)."""
    size = np.exp(-np.maximum(d, -700))
    total = 1 + size.sum(axis=-1)
    return np.log1p(size.sum(axis=-1)), size / total[..., None], 1 - 1 / total


def test_the_mean_of_pi_lies_between_its_bounds(rng):
    for n in (1, 2, 5, 40):
        losses = rng.exponential(size=(4000, n)) * 10 ** rng.uniform(-6, 1, (4000, 1))
        losses[:1000, 1:] = 0  # one large loss, which is the least
        losses[1000:2000] = losses[1000:2000, :1]  # all equal, which is the largest
        pi, mean = -np.expm1(-losses).mean(axis=1), losses.mean(axis=1)
        low, high = -np.expm1(-n * mean) / n, -np.expm1(-mean)
        assert np.all(low <= pi * (1 + 1e-12))
        assert np.all(pi <= high * (1 + 1e-12))
        assert np.allclose(low[:1000], pi[:1000])
        assert np.allclose(high[1000:2000], pi[1000:2000])


def integral(n, low, high, above, below):
    """The integral of L^above / Φ^below."""
    found: Any = mpmath.quad(lambda v: v**above / (-mpmath.expm1(-n * v) / n) ** below, [low, high])
    return float(found)


def test_the_integrals():
    """∫ n dL/(1 − e^−nL), its square, and the bound with L in the numerator, against quadrature."""
    for n, low, high in ((3, 0.01, 0.4), (10, 0.02, 0.12), (1, 0.3, 2.0)):
        first, second, third = (integral(n, low, high, *powers) for powers in ((0, 1), (0, 2), (1, 2)))
        assert first == pytest.approx(math.log(math.expm1(n * high) / math.expm1(n * low)), rel=1e-10)
        u, w = math.expm1(n * high), math.expm1(n * low)
        assert second == pytest.approx(n * (math.log(u / w) + 1 / w - 1 / u), rel=1e-10)
        if n * high <= 1.25:
            x = n * high
            assert third <= (x / -math.expm1(-x)) ** 2 * math.log(high / low)
            grid = np.linspace(1e-6, 1.25, 4000)
            assert np.all(np.diff(np.expm1(-grid) ** 2 / grid) > 0)


def quadratics(rng, count, n, others, size):
    """Margins d + g·θ + θᵀBθ/2 whose second derivatives have norm λ; a third bend against the direction."""
    omega = np.zeros(size)
    omega[0] = 1.0
    d = rng.standard_normal((count, n, others)) + rng.uniform(-1, 6, (count, 1, 1))
    g = rng.standard_normal((count, n, others, size)) * 10 ** rng.uniform(-1, 0.5, (count, 1, 1, 1))
    g[..., 0] = np.abs(g[..., 0]) + 0.2
    g[: count // 3, ..., 1:] *= 0.1
    b = rng.standard_normal((count, n, others, size, size))
    b = b + b.swapaxes(-1, -2)
    b[: count // 3] = -np.multiply.outer(omega, omega)
    b /= np.linalg.norm(b, ord=2, axis=(-2, -1)).max(axis=(1, 2))[:, None, None, None, None]
    bend = 10 ** rng.uniform(-2, 0.5, count)
    return d, g, b * bend[:, None, None, None, None], g[..., 0].min(axis=(1, 2)), bend


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize(("n", "others"), [(1, 1), (4, 1), (3, 2), (2, 4)])
def test_the_loss_is_reached_on_quadratic_margins(rng, n, others, growing):
    """The condition at equality, the largest step, and no more than the steps that are allowed; the loss falls."""
    count, size = 1000, 4
    d, g, b, gamma, bend = quadratics(rng, count, n, others, size)
    first = weights_of(d)[0].mean(axis=1)
    c, used = rng.choice([0.3, 0.5, 0.9], count), rng.uniform(0.2, 0.95, count)
    inner = used * gamma / bend
    sigma, steep = gamma * (1 - used), np.linalg.norm(g, axis=-1).max(axis=(1, 2))
    outer = inner.copy()
    for _ in range(60):  # a larger ball is steeper, and its steps are shorter
        a = steep + bend * outer
        growth = (a * a + bend) / (2 * (1 - c))
        outer = np.maximum(outer, inner + a / growth)
    budget = c * (gamma * inner - bend * inner**2 / 2)
    epsilon = np.maximum(np.log1p(np.expm1(n * first) * np.exp(-budget)) / n, 1e-12)
    if growing:
        x = n * first
        steps = growth / (c * sigma**2) * (x / -np.expm1(-x)) ** 2 * np.log(first / epsilon)
    else:
        eta = 1 / (growth * -np.expm1(-first))
        u, w = np.expm1(n * first), np.expm1(n * epsilon)
        steps = n * (np.log(u / w) + 1 / w - 1 / u) / (c * eta * sigma**2)
    fits = (bend * outer <= gamma) & (steps < 1500) & ((n * first <= 1.25) | (not growing)) & (epsilon < first)
    d, g, b, first, epsilon, growth, outer = (v[fits] for v in (d, g, b, first, epsilon, growth, outer))
    steps = np.ceil(steps[fits]).astype(int)
    assert len(d) > 60
    theta, before, reached = np.zeros((len(d), size)), first, np.full(len(d), -1)
    far = np.zeros(len(d))
    for k in range(1, int(steps.max()) + 1):
        bent = np.einsum("knopq,kq->knop", b, theta)
        now = d + np.einsum("knop,kp->kno", g + bent / 2, theta)
        _, p, _ = weights_of(now)
        slope = -np.einsum("kno,knop->kp", p, g + bent) / n
        size_of = 1 / (growth * -np.expm1(-before if growing else -first))
        move = np.where(reached < 0, size_of, 0)[:, None] * slope
        theta = theta - move
        far = far + np.linalg.norm(move, axis=1)
        bent = np.einsum("knopq,kq->knop", b, theta)
        after = weights_of(d + np.einsum("knop,kp->kno", g + bent / 2, theta))[0].mean(axis=1)
        assert np.all(after <= before * (1 + 1e-13))
        reached = np.where((reached < 0) & (after <= epsilon), k, reached)
        before = after
    assert np.all(reached > 0)
    assert np.all(reached <= steps)
    assert np.all(far <= outer * (1 + 1e-12))
    share = float((reached / steps).max())
    print(f"\n{n}x{others}: {len(d)} runs, {steps.sum()} steps allowed, up to {share:.2f} of them taken")


def problem(outputs, seed=0, width=30, scale=2.0, n=6):
    """A network that was trained towards margins of some size, and its data."""
    rng = np.random.default_rng(seed)
    network = FullyConnected(4, width, 1, get_activation("tanh"), outputs=outputs)
    x = sphere(n, 4, seed)
    y = rng.choice([-1.0, 1.0], n) if outputs == 1 else 2 * np.eye(outputs)[np.arange(n) % outputs] - 1
    y[:2] = (1.0, -1.0) if outputs == 1 else y[:2]
    data = Dataset(x, y, "binary" if outputs == 1 else "multiclass")
    return network, polish(network, start(network, rng), x, scale * y).params, data


CASES = [(1, 2.0), (1, 6.0), (3, 1.0), (3, 5.0)]  # outputs, scale: constant steps, growing ones


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request, tmp_path_factory):
    network, params, data = problem(request.param[0], scale=request.param[1])
    found = certify(Problem(network, data).at(params), Margins())
    assert found.certificate is not None, str(found.obstacle)
    folder = found.certificate.save(tmp_path_factory.mktemp("margins") / "c")
    verdict = verify(folder)
    assert verdict.answer == "proved", verdict.reason
    assert verdict.precision == 53
    return network, params, data, found, folder


def course(network, params, data, found, steps):
    """Losses and lengths of gradient descent on both layers in float64, written out."""
    w, v, x = params["W1"].copy(), np.atleast_2d(params[network.graph.read_out]).copy(), data.x
    y, scale = data.y.reshape(data.n, -1), network.graph.layers[-1].scale
    seen, path = [], [0.0]
    for _ in range(steps + 1):
        h = scale * np.tanh(x @ w.T)
        f = h @ v.T
        if y.shape[1] == 1:
            seen.append(float(np.logaddexp(0, -y * f).mean()))
            slope = -y / (1 + np.exp(y * f)) / data.n
        else:
            e = np.exp(f - f.max(axis=1, keepdims=True))
            p = e / e.sum(axis=1, keepdims=True)
            seen.append(float(-np.log(p[y > 0]).mean()))
            slope = (p - (y > 0)) / data.n
        said = concluded(found)
        eta = said.eta if math.isfinite(said.eta) else 1 / (said.growth * -math.expm1(-seen[-1]))
        dv, dw = slope.T @ h, (scale * (slope @ v) * (1 - np.tanh(x @ w.T) ** 2)).T @ x
        v, w = v - eta * dv, w - eta * dw
        path.append(path[-1] + eta * math.sqrt(float(np.square(dv).sum() + np.square(dw).sum())))
    return np.array(seen), np.array(path[:-1])


def test_the_theorem_on_a_run(case):
    network, params, data, found, _ = case
    assert "W1" in params
    losses, path = course(network, params, data, found, concluded(found).steps)
    assert losses[0] == pytest.approx(concluded(found).facts.loss, rel=1e-6)
    reached = int(np.argmax(losses <= concluded(found).epsilon))
    assert losses[reached] <= concluded(found).epsilon
    assert 0 < reached <= concluded(found).steps
    assert np.all(np.diff(losses[: reached + 1]) < 0)
    assert np.all(path[: reached + 1] < concluded(found).radius)


def test_the_direction_has_the_growth_it_claims_and_no_direction_has_more(case, rng):
    """Against derivatives written out, and a linear program's dual: the mixture's own length bounds every direction."""
    network, params, data, found, _ = case
    made = found.certificate
    x, scale, y = data.x, network.graph.layers[-1].scale, data.y.reshape(data.n, -1)
    w, v = params["W1"], np.atleast_2d(params[network.graph.read_out])
    dw = made.direction["W1"]
    dv = np.atleast_2d(made.direction[network.graph.read_out])
    length = math.sqrt(np.square(dw).sum() + np.square(dv).sum())
    t = np.tanh(x @ w.T)
    along = scale * (t @ dv.T + (1 - t**2) * (x @ dw.T) @ v.T) / length
    margins = _differences(y) @ along.ravel()
    assert made.claims["gamma"] <= margins.min() * (1 + 1e-12)
    assert made.claims["gamma"] >= margins.min() * (1 - 1e-4)
    rows = np.concatenate([
        np.concatenate([np.outer(np.eye(len(v))[o], scale * t[i]).ravel(),
                        np.outer(scale * v[o] * (1 - t[i] ** 2), x[i]).ravel()])[None]
        for i in range(data.n) for o in range(len(v))
    ])  # fmt: skip
    rows = _differences(y) @ rows
    best, mix = _direction(rows @ rows.T)
    assert mix.min() >= 0
    assert np.linalg.norm(mix @ rows) >= best * (1 - 1e-9)
    assert concluded(found).gamma >= 0.999 * np.linalg.norm(mix @ rows)  # weak duality: nothing is above it
    assert made.claims["a"] >= np.linalg.norm(rows, axis=1).max()


def test_second_derivatives_of_margins_are_bounded(case):
    """Differences of a margin's gradient over small steps stay below the claimed constant."""
    network, params, data, found, _ = case
    rng, made = np.random.default_rng(0), found.certificate
    y, scale, x = data.y.reshape(data.n, -1), network.graph.layers[-1].scale, data.x

    def gradients(w, v):
        t = np.tanh(x @ w.T)
        rows = [np.concatenate([np.outer(np.eye(len(v))[o], scale * t[i]).ravel(),
                                np.outer(scale * v[o] * (1 - t[i] ** 2), x[i]).ravel()])
                for i in range(data.n) for o in range(len(v))]  # fmt: skip
        return _differences(y) @ np.array(rows)

    w, v = params["W1"], np.atleast_2d(params[network.graph.read_out])
    radius, bend, worst = made.claims["radii"][0], made.claims["lipschitz"][0], 0.0
    for _ in range(200):
        ends = []
        for _ in range(2):
            u = rng.standard_normal(w.size + v.size)
            u *= radius * rng.random() / np.linalg.norm(u)
            ends.append(u)
        at = [gradients(w + u[v.size :].reshape(w.shape), v + u[: v.size].reshape(v.shape)) for u in ends]
        far = np.linalg.norm(ends[0] - ends[1])
        worst = max(worst, float(np.linalg.norm(at[0] - at[1], axis=1).max()) / far)
    assert 0 < worst <= bend


LIES = {  # what a dishonest prover would like
    "loss": -3e-9, "epsilon": -2e-3, "gamma": 1e-4, "a": -1e-4, "radii": -1e-3, "lipschitz": -1e-4, "steps": -1e-2,
    "eta": 1e-3, "growth": -1e-3, "margin": 3e-9, "c": 1e-2,
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_better_claim_is_refused(case, tmp_path, name):
    document, arrays = parts(case[4])
    if name not in document["claims"]:
        pytest.skip("not claimed here")
    lie, value = copy.deepcopy(document), document["claims"][name]
    if name == "radii":
        lie["claims"][name] = [*value[:-1], value[-2] + 0.9 * (value[-1] - value[-2])]  # less than a step beyond R1
    elif isinstance(value, list):
        lie["claims"][name] = [v * (1 + LIES[name]) for v in value]
    else:
        value = value * (1 + LIES[name])
        lie["claims"][name] = min(math.floor(value), document["claims"][name] - 3) if name == "steps" else value
    verdict = verify(put(tmp_path / "lie", lie, arrays, digests=True))
    assert verdict.answer == "not proved", verdict.reason
    assert verify(put(tmp_path / "old", lie, arrays, digests=False)).answer == "malformed"


def rewritten(case, tmp_path, change):
    document, arrays = parts(case[4])
    document["anchor"] = {}
    change(document, arrays)
    return verify(put(tmp_path / "changed", document, arrays, digests=True))


def test_directions_that_do_not_raise_the_margins(case, tmp_path):
    names = [name for name in parts(case[4])[1] if name.startswith("direction/")]

    def turned(document, arrays):
        for name in names:
            arrays[name] = -arrays[name]

    def longer(document, arrays):  # its length does not matter
        for name in names:
            arrays[name] = 8 * arrays[name]

    def none(document, arrays):
        for name in names:
            arrays[name] = 0 * arrays[name]

    assert "gamma ≤ least growth" in rewritten(case, tmp_path / "a", turned).reason
    assert rewritten(case, tmp_path / "b", longer).answer == "proved"
    assert rewritten(case, tmp_path / "c", none).answer == "not proved"
    for name in names:
        assert rewritten(case, tmp_path / "d", lambda lie, kept, name=name: kept.pop(name)).answer == "malformed"
    beside = lambda lie, kept: kept.update({name.replace("direction", "goal"): kept[name] for name in names})  # noqa: E731
    assert rewritten(case, tmp_path / "e", beside).answer == "malformed"


def test_claims_that_do_not_go_together(case, tmp_path):
    mine, other = ("eta", "growth") if math.isfinite(concluded(case[3]).eta) else ("growth", "eta")
    for change in (
        lambda lie, kept: lie["claims"].update({other: 1.0}), lambda lie, kept: lie["claims"].pop(mine),
        lambda lie, kept: lie["claims"].update(R1=lie["claims"]["radii"][-1]),
        lambda lie, kept: lie["claims"].update(right=-1), lambda lie, kept: lie["loss"].update(name="squared"),
        lambda lie, kept: lie["loss"].update(name="logistic" if case[0].output_shape else "cross_entropy"),
    ):  # fmt: skip
        assert rewritten(case, tmp_path, change).answer == "malformed"
    for name in ("steps", "c", "gamma"):
        zero = rewritten(case, tmp_path, lambda lie, kept, name=name: lie["claims"].update({name: 0}))
        assert zero.answer == "not proved"
    assert rewritten(case, tmp_path, lambda lie, kept: lie["claims"].update(c=1.0)).answer == "not proved"


def test_steps_grow_only_where_the_loss_is_small(tmp_path):
    """With nL_0 above 1.25 Φ²/L does not increase any more, and the claim is refused whatever the steps."""
    network, params, data = problem(1, scale=1.0, n=8)
    found = certify(Problem(network, data).at(params), Margins())
    assert found.certificate is not None
    assert concluded(found).facts.loss * 8 > 1.25
    claims = {k: v for k, v in found.certificate.claims.items() if k != "eta"}
    claims |= {"growth": 1e6, "steps": 2**60}
    verdict = verify(dataclasses.replace(found.certificate, claims=claims).save(tmp_path / "c"))
    assert (verdict.answer, "n loss ≤ 1.25" in verdict.reason) == ("not proved", True)


def test_flipped_bits(case, tmp_path):
    """What is still proved is true: the run from the changed weights falls as the claims say."""
    network, _, data, found, folder = case
    document, arrays = parts(folder)
    document["anchor"] = {}
    rng, proved, refused = np.random.default_rng(1), 0, 0
    names = sorted(arrays)
    for k in range(24):
        name = names[k % len(names)]
        changed = {**arrays, name: flip(arrays[name], int(rng.integers(arrays[name].size)), int(rng.integers(64)))}
        verdict = verify(put(tmp_path / "mutant", document, changed, digests=True))
        if verdict.answer != "proved":
            refused += 1
            continue
        proved += 1
        own = {key.removeprefix("weights/"): a for key, a in changed.items() if key.startswith("weights/")}
        other = Dataset(changed["x"], changed["y"], data.task)
        losses, _ = course(network, own, other, found, concluded(found).steps)
        assert losses[0] <= concluded(found).facts.loss * (1 + 1e-9)
        assert losses.min() <= concluded(found).epsilon * (1 + 1e-9)
    assert proved > 1
    assert refused > 3


def test_a_gamma_of_its_last_digit_is_not_decided_by_53_bits(case, tmp_path):
    _network, _params, _data, found, folder = case
    made = found.certificate
    bound = next(row[2] for row in verify(folder).checks if row[0].startswith("gamma ≤"))
    assert bound is not None
    claims = {**made.claims, "gamma": bound * (1 + 1e-12)}
    verdict = verify(dataclasses.replace(made, claims=claims).save(tmp_path / "over"))
    assert verdict.answer == "not proved"
    assert "gamma ≤ least growth of a margin" in verdict.reason
    assert verdict.precision >= 128


@pytest.mark.parametrize("kind", ["fully-connected", "residual", "conv-residual-outputs", "fully-connected-relu"])
def test_derivatives_along_a_direction(kind, rng):
    """Of every kind of graph, against the product with the Jacobian of backward passes."""
    network = TINY[kind]
    params, x, _ = drawn(network)
    ref = Reference(network, params, x)
    u = rng.standard_normal(ref.theta.size)
    step = {name: a for name, a in ref.unflat(u).items() if name in network.trained_names}
    stated = json.loads(json.dumps(network.graph.to_dict()))
    read = Network.read(stated, {name: params[name].shape for name in network.graph.weights})
    weights = {name: read.matrix(name, np.asarray(params[name])) for name in network.graph.weights}
    anchor = Anchor(read, weights, x.reshape(len(x), -1), ops=FLOATS)
    found = anchor.along({name: read.matrix(name, step[name]) for name in step})
    expected = (ref.jacobian(ref.theta) @ u).reshape(len(x), -1).T
    assert np.allclose(found.mid, expected, rtol=1e-9, atol=1e-12)
    assert np.all(np.abs(found.mid - expected) <= found.plain().rad + 1e-9 * np.abs(expected) + 1e-12)


def test_what_does_not_apply_is_said():
    network, params, data = problem(1)
    with pytest.raises(InputError, match="take Descent instead"):
        certify(Problem(network, Dataset(data.x, data.y * 1.5, "regression")).at(params), Margins())
    same = Dataset(np.vstack([data.x, data.x[:1]]), np.append(data.y, -data.y[0]), "binary")
    found = certify(Problem(network, same).at(params), Margins())
    assert found.certificate is None
    assert found.obstacle is not None
    assert found.obstacle.quantity == "margins"


def test_files_are_read_back(case, tmp_path):
    again = load_certificate(case[4])
    assert again.direction is not None
    assert set(again.direction) == set(again.graph.trained)
    assert verify(again.save(tmp_path / "again")).answer == "proved"
