"""Gradient descent on the read-out alone (Theorem 11): its inequalities, thousands of runs, certificates, and lies."""

import copy
import dataclasses
import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.special import expit, softmax

from tests.cases import OWN
from tests.certificates.making import TINY, concluded, point, start
from tests.certificates.rewriting import flip, parts, put
from wideproof.certificates import Problem, ReadOut, certify, load_certificate
from wideproof.certificates.enclosure import Ball
from wideproof.certificates.theorems.read_out import facts_of
from wideproof.data import Dataset, ImageDataset, Task, load
from wideproof.errors import InputError
from wideproof.networks import DeepReLU, ElmanRNN, FullyConnected, Sketch, get_activation
from wideproof_verify import verify

TASKS: dict[str, Task] = {"squared": "regression", "logistic": "binary"}
BENDS = {"logistic": (0.25, 1.0), "cross_entropy": (0.5, 2.0)}


def losses(name, f, y):
    """Losses of every row and their gradients; `f` and `y` end in (rows, outputs)."""
    if name == "squared":
        return np.square(f - y).sum(axis=-1) / 2, f - y
    if name == "logistic":
        z = (y * f)[..., 0]
        return np.logaddexp(0, -z), -y * expit(-y * f)
    own = y > 0
    mine = np.where(own, f, 0).sum(axis=-1, keepdims=True)
    return np.log1p(np.where(own, 0, np.exp(np.minimum(f - mine, 700))).sum(axis=-1)), softmax(f, axis=-1) - own


def labels(rng, shape, outputs):
    if outputs == 1:
        return rng.choice([-1.0, 1.0], (*shape, 1))
    return 2 * np.eye(outputs)[rng.integers(outputs, size=shape)] - 1


@pytest.mark.parametrize("outputs", [1, 2, 3, 7])
def test_the_hessians_are_bounded(rng, outputs):
    """Largest eigenvalue of one row's second derivative: ½ and 2(1 − e^−ℓ), ¼ and 1 − e^−ℓ; both are attained."""
    name = "logistic" if outputs == 1 else "cross_entropy"
    f = rng.standard_normal((4000, outputs)) * 10 ** rng.uniform(-2, 1.5, (4000, 1))
    f[:500] = 0
    f[500:1000, :1] += rng.uniform(5, 20, (500, 1))
    y = labels(rng, (4000,), outputs)
    value, _ = losses(name, f, y)
    if outputs == 1:
        p = 1 / (1 + np.exp(-y[:, 0] * f[:, 0]))
        top = p * (1 - p)
    else:
        p = softmax(f, axis=1)
        top = np.linalg.eigvalsh(p[:, :, None] * np.eye(outputs) - p[:, :, None] * p[:, None, :])[:, -1]
    whole, each = BENDS[name]
    small = -each * np.expm1(-value)
    assert np.all(top <= whole * (1 + 1e-12))
    assert np.all(top <= small * (1 + 1e-9) + 1e-15)
    assert (top / whole).max() > (0.999 if outputs < 3 else 0.9)
    assert (top / small)[value > 1e-12].max() > 0.99


def problems(rng, name, count, n, q, outputs):
    """Features, labels and weights; some rows nearly equal with other labels, some far, some all but separated."""
    h = rng.standard_normal((count, n, q)) * 10 ** rng.uniform(-0.5, 0.5, (count, n, 1))
    near = np.flatnonzero(np.arange(count) % 4 == 0)
    h[near, min(n - 1, 1)] = h[near, 0] * (1 + 0.1 * rng.standard_normal((len(near), 1)))
    h[:, :, -1] = 1
    v = rng.standard_normal((count, outputs, q)) * 10 ** rng.uniform(-1, 0.7, (count, 1, 1))
    f = h @ v.swapaxes(1, 2)
    if name == "squared":
        return h, rng.standard_normal((count, n, outputs)) + f * rng.choice([0, 0.9], (count, 1, 1)), v
    y = np.where(f > 0, 1.0, -1.0) if outputs == 1 else 2 * np.eye(outputs)[f.argmax(axis=2)] - 1
    wrong = rng.random((count, n)) < 0.3 * (np.arange(count) % 2)[:, None]
    return h, np.where(wrong[:, :, None], labels(rng, (count, n), outputs), y), v


def goals(rng, name, h, y, v):
    """Somewhere with a smaller loss: after gradient descent of another kind, and the weights scaled."""
    u = v.copy()
    size = np.linalg.norm(h, ord=2, axis=(1, 2))[:, None, None] ** 2
    for _ in range(int(rng.integers(5, 200))):
        _, slope = losses(name, h @ u.swapaxes(1, 2), y)
        u = u - 1.9 * slope.swapaxes(1, 2) @ h / size / (1 if name == "squared" else 0.5)
    if name != "squared":
        scaled = np.arange(len(h)) % 3 == 0
        u[scaled] = (1 + rng.exponential(1, (scaled.sum(), 1, 1))) * v[scaled]
    return u


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize(
    ("name", "n", "q", "outputs"),
    [("squared", 5, 4, 2), ("logistic", 1, 1, 1), ("logistic", 6, 4, 1), ("cross_entropy", 1, 2, 2),
     ("cross_entropy", 6, 3, 3), ("cross_entropy", 9, 8, 5)],
)  # fmt: skip
def test_the_loss_is_reached_in_as_many_steps(rng, name, n, q, outputs, growing):
    """700 runs each with steps as large, and as few, as the theorem allows; the loss never rises on the way."""
    if growing and name == "squared":
        pytest.skip("steps of squared losses do not grow")
    count, share = 700, 1 if name == "squared" else n
    h, y, v = problems(rng, name, count, n, q, outputs)
    u = goals(rng, name, h, y, v)
    mean = lambda at: losses(name, h @ at.swapaxes(1, 2), y)[0].sum(axis=1) / share  # noqa: E731
    first, least = mean(v), mean(u)
    used = least < first * 0.98
    h, y, v, u, first, least = (a[used] for a in (h, y, v, u, first, least))
    epsilon = least + (first - least) * 10 ** rng.uniform(-2, -0.05, len(h))
    far = np.square(u - v).sum(axis=(1, 2))
    whole, each = BENDS.get(name, (1.0, 0.0))
    longest = each * np.square(h).sum(axis=2).max(axis=1)
    beta = whole * np.linalg.norm(h, ord=2, axis=(1, 2)) ** 2 / share
    if growing:
        needed = (longest * far / 2 + np.log(first / epsilon)) / (1 - least / epsilon)
    else:
        beta = beta if name == "squared" else np.minimum(beta, -longest * np.expm1(-first))
        needed = beta * far / (2 * (epsilon - least))
    steps = np.ceil(needed * (1 + 1e-9)).astype(int)
    few = steps <= 1500
    h, y, v, first, epsilon, steps, beta, longest = (a[few] for a in (h, y, v, first, epsilon, steps, beta, longest))
    before, reached = first, np.full(len(h), -1)
    for k in range(1, int(steps.max()) + 1):
        _, slope = losses(name, h @ v.swapaxes(1, 2), y)
        eta = 1 / (longest * np.maximum(-np.expm1(-before), 1e-100)) if growing else 1 / beta
        v = v - eta[:, None, None] * slope.swapaxes(1, 2) @ h / share
        now = losses(name, h @ v.swapaxes(1, 2), y)[0].sum(axis=1) / share
        assert np.all(now <= before * (1 + 1e-12) + 1e-15)
        reached = np.where((reached < 0) & (now <= epsilon * (1 + 1e-12)), k, reached)
        before = now
    assert np.all(reached > 0)
    assert np.all(reached <= steps)
    share = (reached / steps).max()
    print(f"\n{name} {n}x{q}x{outputs}: {len(h)} runs, {steps.sum()} steps, up to {share:.2f} of them")
    assert len(h) > 200
    assert share > 0.2


def exact_course(name, h, y, v, claims):
    """Losses of the claimed steps in 40 digits."""
    n, share = len(h), 1 if name == "squared" else len(h)

    def look(v):
        total, slope = mpmath.mpf(0), mpmath.zeros(v.rows, v.cols)
        for i in range(n):
            f = v * h[i]
            if name == "squared":
                p = [f[c] - mpmath.mpf(float(y[i][c])) for c in range(v.rows)]
                total += sum(d * d for d in p) / 2
            elif name == "logistic":
                z = float(y[i][0]) * f[0]
                total, p = total + mpmath.log1p(mpmath.exp(-z)), [-float(y[i][0]) / (1 + mpmath.exp(z))]
            else:
                own, parts_ = int(np.argmax(y[i])), [mpmath.exp(f[c]) for c in range(v.rows)]
                total += mpmath.log(sum(parts_)) - f[own]
                p = [part / sum(parts_) - (c == own) for c, part in enumerate(parts_)]
            slope += mpmath.matrix(p) * h[i].T
        return total / share, slope / share

    found = []
    for _ in range(claims["steps"] + 1):
        loss, slope = look(v)
        found.append(loss)
        eta = claims["eta"] if "eta" in claims else 1 / (mpmath.mpf(claims["growth"]) * -mpmath.expm1(-loss))
        v = v - eta * slope
    return found


SMALL = list(itertools.product(("squared", "logistic", "cross_entropy"), (None, 0.5), (0, 1)))


@pytest.mark.parametrize(("name", "size", "seed"), SMALL)
def test_the_claimed_course_in_40_digits(tmp_path, name, size, seed):
    """Loss at the weights, at the end, and the fall on the way, against a run in mpmath; a verifier agrees."""
    rng = np.random.default_rng(seed)
    outputs = 3 if name == "cross_entropy" else 1
    network = FullyConnected(3, 5, 1, get_activation("tanh"), outputs=outputs)
    params, x = start(network, rng), rng.standard_normal((4, 3))
    y = rng.standard_normal((4, 1)) if name == "squared" else labels(rng, (4,), outputs)
    y = y[:, 0] if outputs == 1 else y
    data = Dataset(x, y, TASKS.get(name, "multiclass"))
    first = certify(Problem(network, data).at(params), ReadOut())
    if size is not None:
        size *= concluded(first).eta if math.isfinite(concluded(first).eta) else 1 / concluded(first).growth
    found = certify(
        Problem(network, data).at(params), ReadOut(target_loss=0.7 * concluded(first).facts.loss, step_size=size)
    )
    assert found.certificate is not None
    claims = found.certificate.claims
    assert verify(found.certificate.save(tmp_path / "c")).answer == "proved"
    with mpmath.workdps(40):
        graph = network.graph
        scale = mpmath.mpf(graph.layers[-1].scale)
        h = [mpmath.matrix([scale * mpmath.tanh(sum(mpmath.mpf(float(w)) * mpmath.mpf(float(a))
                                                    for w, a in zip(row, point, strict=True)))
                            for row in params["W1"]]) for point in x]  # fmt: skip
        v = mpmath.matrix(np.asarray(params[graph.read_out]).reshape(outputs, -1).tolist())
        course = exact_course(name, h, y.reshape(4, -1), v, claims)
    assert 0 <= claims["loss"] / course[0] - 1 < 1e-8
    assert all(b <= a for a, b in itertools.pairwise(course))
    assert course[-1] <= claims["epsilon"]
    assert course[0] > claims["epsilon"]


def _case(kind):
    """A network, weights, data: every loss, ReLU and smooth, vectors and images, with and without biases."""
    rng = np.random.default_rng(7)
    if kind in OWN or kind in TINY:
        network = {**TINY, **OWN}[kind]
        shape = network.input_shape
        x = rng.standard_normal((5, *shape))
        x = x.reshape(5, shape[0], -1) if network.data_kind == "images" else x
        outputs = network.output_shape[0] if network.output_shape else 1
        y = labels(rng, (5,), outputs)
        y = y[:, 0] if not network.output_shape else y
        task = "binary" if outputs == 1 else "multiclass"
        made = (ImageDataset if network.data_kind == "images" else Dataset)(x, y, task)
        return network, start(network, rng), made
    network = DeepReLU(4, 10, 2)
    x, y = rng.standard_normal((6, 4)), rng.standard_normal(6)
    return network, start(network, rng), Dataset(x, y, "regression")


KINDS = ["fully-connected-tanh-outputs", "fully-connected-relu", "deep-relu-widths", "conv-residual-outputs",
         "residual-relu", "squared", *OWN]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_any_network_is_certified_and_verified(tmp_path, kind):
    network, params, data = _case(kind)
    found = certify(Problem(network, data).at(params), ReadOut())
    assert found.certificate is not None, str(found.obstacle)
    verdict = verify(found.certificate.save(tmp_path / "c"))
    assert verdict.answer == "proved", verdict.reason
    assert verdict.precision == 53
    assert "read-out alone" in verdict.statement
    assert f"after {concluded(found).steps} steps" in verdict.statement
    again = load_certificate(tmp_path / "c")
    assert again.goal is not None
    assert set(again.goal) == set(again.graph.trained)
    assert verify(again.save(tmp_path / "again")).answer == "proved"


@pytest.fixture(scope="module", params=["logistic", "cross_entropy", "squared", "constant"])
def case(request, tmp_path_factory):
    """A certificate of each loss, and one with a constant step size; network with a bias."""
    rng = np.random.default_rng(3)
    sketch = Sketch(3)
    outputs = 1 if request.param in ("logistic", "squared") else 3
    network = sketch.read_out(sketch.dense(sketch.input, 7, "relu", bias=True), outputs, bias=True)
    params = {name: np.asarray(a) + 0.1 for name, a in network.init(1).items()}
    x, y = rng.standard_normal((6, 3)), labels(rng, (6,), outputs)
    y = rng.standard_normal(6) if request.param == "squared" else y[:, 0] if outputs == 1 else y
    data = Dataset(x, y, TASKS.get(request.param, "multiclass"))
    size = (
        certify(Problem(network, data).at(params), ReadOut(step_size=1e9)).obstacle
        if request.param == "constant"
        else None
    )
    found = certify(Problem(network, data).at(params), ReadOut(step_size=None if size is None else size.needed))
    assert found.certificate is not None
    folder = found.certificate.save(tmp_path_factory.mktemp("read-out") / request.param)
    assert verify(folder).answer == "proved"
    return request.param, folder, *parts(folder)


LIES = {  # what a dishonest prover would like, and how little is already refused
    "loss": -3e-9, "margin": 3e-9, "epsilon": -0.03, "steps": -1e-3, "eta": 1e-6, "growth": -1e-6, "separates": 3e-9,
}  # fmt: skip


@pytest.mark.parametrize("name", [*LIES, "right"])
def test_a_better_claim_is_refused(case, tmp_path, name):
    _, _, document, arrays = case
    if name not in document["claims"]:
        pytest.skip("not claimed here")
    lie = copy.deepcopy(document)
    value = lie["claims"][name]
    if name in ("steps", "right"):
        value = value + 1 if name == "right" else min(value - 2, math.floor(value * (1 + LIES[name])))
    else:
        value += LIES[name] * abs(value)
    lie["claims"][name] = value
    verdict = verify(put(tmp_path / "lie", lie, arrays, digests=True))
    refused = "malformed" if name == "right" and value > len(arrays["y"]) else "not proved"
    assert verdict.answer == refused, verdict.reason
    assert verify(put(tmp_path / "old", lie, arrays, digests=False)).answer == "malformed"


def test_margins_and_rows_just_right_are_not_just_wrong(case, tmp_path):
    """The same claims a little weaker are proved: what refuses a lie is the inequality."""
    kind, _, document, arrays = case
    weaker = copy.deepcopy(document)
    claims = weaker["claims"]
    for name, relative in LIES.items():
        if name in claims and name not in ("eta", "growth", "steps"):
            claims[name] -= relative * abs(claims[name])
    claims["steps"] += 10 + claims["steps"] // 100
    if kind != "squared":
        claims["right"] = max(claims["right"] - 1, 0)
    assert verify(put(tmp_path / "weaker", weaker, arrays, digests=True)).answer == "proved"


def true_claims(document, arrays):
    """Whether loss, rows, margins and the inequality of the steps hold for these arrays, in float64."""
    claims, name = document["claims"], document["loss"]["name"]
    take = lambda kind: {k.split("/")[1]: a for k, a in arrays.items() if k.startswith(kind)}  # noqa: E731
    weights, goal, x, y = take("weights/"), take("goal/"), arrays["x"], arrays["y"].reshape(len(arrays["y"]), -1)
    (node,), network = document["network"]["nodes"], document["network"]
    z = sum(x @ weights[t["weight"]].T if t["map"]["kind"] != "ones" else weights[t["weight"]].ravel()
            for t in node["terms"])  # fmt: skip
    h = np.concatenate([np.maximum(z, 0) * node["scale"], np.ones((len(x), 1))], axis=1)
    cut = lambda at: np.concatenate(  # noqa: E731
        [at[network["read_out"]].reshape(network["outputs"], -1), at[network["bias"]].reshape(-1, 1)], axis=1
    )
    v, u, share = cut(weights), cut(goal), 1 if name == "squared" else len(x)
    first, least = (float(losses(name, h @ at.T, y)[0].sum()) / share for at in (v, u))
    far, tiny = float(np.square(u - v).sum()), 1e-9
    true = first <= claims["loss"] * (1 + tiny) and claims["epsilon"] < claims["loss"]
    whole, each = BENDS.get(name, (1.0, math.inf))
    longest, beta = each * np.square(h).sum(axis=1).max(), whole * np.linalg.norm(h, 2) ** 2 / share
    if "eta" in claims:
        beta = min(beta, -longest * math.expm1(-first)) if name != "squared" else beta
        true &= claims["eta"] * beta <= 1 + tiny
        true &= 2 * claims["eta"] * claims["steps"] * (claims["epsilon"] - least) >= far * (1 - tiny)
    else:
        true &= claims["growth"] >= longest * (1 - tiny)
        needed = claims["growth"] * far / 2 + math.log(first / claims["epsilon"])
        true &= claims["steps"] * (1 - least / claims["epsilon"]) >= needed * (1 - tiny)
    if name == "squared":
        return true
    margins = [(y * f)[:, 0] if f.shape[1] == 1 else f[y > 0] - np.where(y > 0, -np.inf, f).max(axis=1)
               for f in (h @ v.T, h @ u.T)]  # fmt: skip
    true &= claims["right"] <= (margins[0] > -tiny).sum() and claims["margin"] <= margins[0].min() + tiny
    return true and claims.get("separates", -math.inf) <= margins[1].min() + tiny


def test_flipped_bits_and_changed_claims(case, tmp_path):
    """Whatever is changed and still proved is true; and much is refused."""
    _, _, document, arrays = case
    rng, proved, refused = np.random.default_rng(5), 0, 0
    names, claims = sorted(arrays), sorted(document["claims"])
    for k in range(60):
        changed, lie = dict(arrays), copy.deepcopy(document)
        lie["anchor"] = {}
        if k % 2:
            name = names[k // 2 % len(names)]
            changed[name] = flip(arrays[name], int(rng.integers(arrays[name].size)), int(rng.integers(64)))
        else:
            name = claims[k // 2 % len(claims)]
            factor = 1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-9, 0)
            value = lie["claims"][name] * factor
            lie["claims"][name] = round(value) if name in ("steps", "right") else value
        verdict = verify(put(tmp_path / "mutant", lie, changed, digests=True))
        if verdict.answer == "proved":
            assert true_claims(lie, changed), name
        proved, refused = proved + (verdict.answer == "proved"), refused + (verdict.answer != "proved")
    assert proved > 5
    assert refused > 15


def rewritten(case, tmp_path, change):
    _, _, document, arrays = case
    lie, kept = copy.deepcopy(document), dict(arrays)
    lie["anchor"] = {}
    change(lie, kept)
    return verify(put(tmp_path / "changed", lie, kept, digests=True))


def test_a_goal_goes_with_this_theorem_and_has_every_trained_array(case, tmp_path):
    goal = sorted(name for name in case[3] if name.startswith("goal/"))
    for name in goal:
        verdict = rewritten(case, tmp_path, lambda lie, kept, name=name: kept.pop(name))
        assert verdict.answer == "malformed"
        verdict = rewritten(case, tmp_path, lambda lie, kept, name=name: kept.update({name: kept[name][..., None]}))
        assert verdict.answer == "malformed"
        verdict = rewritten(case, tmp_path, lambda lie, kept, name=name: kept.update({name: kept[name] + 0.5}))
        assert verdict.answer == "not proved"
    first = next(name for name in case[3] if name.startswith("weights/") and f"goal/{name[8:]}" not in goal)
    verdict = rewritten(case, tmp_path, lambda lie, kept: kept.update({f"goal/{first[8:]}": kept[first]}))
    assert verdict.answer == "malformed"


def test_what_is_trained_is_the_read_out(case, tmp_path):
    hidden = case[2]["network"]["nodes"][0]["terms"][0]["weight"]

    def more(lie, kept):
        lie["network"]["trained"] += [hidden]
        kept[f"goal/{hidden}"] = kept[f"weights/{hidden}"]

    def fixed(lie, kept):  # with a bias that is fixed, multiples of the goal are no multiples of its outputs
        bias = lie["network"]["bias"]
        lie["network"]["trained"].remove(bias)
        kept[f"weights/{bias}"] = kept.pop(f"goal/{bias}")
        lie["claims"] |= {"loss": 1e6, "epsilon": 1e5, "right": 0, "margin": -1e6}
        lie["claims"]["steps"] = 2**60

    verdict = rewritten(case, tmp_path, more)
    assert (verdict.answer, "more than the read-out" in verdict.reason) == ("malformed", True)
    if "separates" in case[2]["claims"]:
        verdict = rewritten(case, tmp_path, fixed)
        assert (verdict.answer, "linear in the trained" in verdict.reason) == ("not proved", True), verdict.reason


def test_claims_that_do_not_go_together(case, tmp_path):
    kind, _, document, _ = case
    other = {"eta": "growth", "growth": "eta"}
    mine = next(name for name in other if name in document["claims"])
    for change in (
        lambda lie, kept: lie["claims"].update({other[mine]: 1.0}), lambda lie, kept: lie["claims"].pop(mine),
        lambda lie, kept: lie["claims"].pop("loss"), lambda lie, kept: lie["claims"].update(radii=[1.0]),
        lambda lie, kept: lie["claims"].update(right=1.5), lambda lie, kept: lie["claims"].update(right=True),
        lambda lie, kept: lie["claims"].update(right=-1),
    ):  # fmt: skip
        assert rewritten(case, tmp_path, change).answer == "malformed"
    assert rewritten(case, tmp_path, lambda lie, kept: lie["claims"].update(steps=0)).answer == "not proved"
    if kind == "squared":
        assert rewritten(case, tmp_path, lambda lie, kept: lie["claims"].update(right=1)).answer == "malformed"
    wrong = {"logistic": "cross_entropy", "cross_entropy": "logistic", "constant": "logistic", "squared": "logistic"}
    told = rewritten(case, tmp_path, lambda lie, kept: lie["loss"].update(name=wrong[kind], reduction="mean"))
    assert told.answer == "malformed"
    told = rewritten(case, tmp_path, lambda lie, kept: lie["loss"].update(name="huber_hinge", reduction="mean"))
    assert told.answer == "malformed"


def test_half_the_mean_of_squares_is_judged_too(tmp_path):
    """The format has it, as other programs train with it; the numbers are those of the sum divided by the rows."""
    network, params, data = _case("squared")
    made = certify(Problem(network, data).at(params), ReadOut()).certificate
    assert made is not None
    claims = dict(made.claims)
    claims |= {"loss": claims["loss"] / 6, "epsilon": claims["epsilon"] / 6, "eta": claims["eta"] * 6 * (1 - 1e-9)}
    claims["steps"] += 1
    mean = dataclasses.replace(made, claims=claims, loss={"name": "squared", "reduction": "mean"})
    assert verify(mean.save(tmp_path / "mean")).answer == "proved"
    claims["eta"] *= 1.001
    assert verify(dataclasses.replace(mean, claims=claims).save(tmp_path / "large")).answer == "not proved"


def test_what_53_bits_do_not_decide_more_bits_do(tmp_path):
    """Margin and loss with the last digit of their claims right need balls."""
    network, params, data = _case("fully-connected-relu")
    found = certify(Problem(network, data).at(params), ReadOut())
    assert found.certificate is not None
    sure = verify(found.certificate.save(tmp_path / "sure"))
    tight = dict(found.certificate.claims)
    margin = next(row[2] for row in sure.checks if row[0].startswith("margin"))
    assert margin is not None
    tight["margin"] = margin - 1e-16 * abs(margin) * 4
    verdict = verify(dataclasses.replace(found.certificate, claims=tight).save(tmp_path / "tight"))
    assert (verdict.answer, verdict.precision) == ("proved", 128)
    tight["margin"] = margin + 1e-13 * abs(margin)
    assert verify(dataclasses.replace(found.certificate, claims=tight).save(tmp_path / "over")).answer == "not proved"


def test_balls_alone_agree(tmp_path):
    for kind in ("squared", "fully-connected-tanh-outputs"):
        network, params, data = _case(kind)
        made = certify(Problem(network, data).at(params), ReadOut()).certificate
        assert made is not None
        verdict = verify(made.save(tmp_path / kind), balls=True)
        assert (verdict.answer, verdict.precision) == ("proved", 128)


def test_a_margin_of_exactly_0_is_undecided(tmp_path):
    """tanh(1) − tanh(1) is 0, and no ball of any size says whether it is above: the row does not count as right."""
    sketch = Sketch(1)
    network = sketch.read_out(sketch.dense(sketch.input, 2, "tanh", bias=False), 1, bias=False)
    hidden, out = network.init(0)
    params = {hidden: np.ones((2, 1)), out: np.array([1.0, -1.0]).reshape(network.laws()[out].shape)}
    found = certify(
        Problem(network, Dataset(np.array([[1.0], [2.0]]), np.array([1.0, -1.0]), "binary")).at(params), ReadOut()
    )
    assert found.certificate is not None
    assert (concluded(found).facts.right, concluded(found).facts.wrong) == (0, 0)
    assert verify(found.certificate.save(tmp_path / "none")).answer == "proved"
    one = dataclasses.replace(found.certificate, claims={**found.certificate.claims, "right": 1})
    verdict = verify(one.save(tmp_path / "one"))
    assert verdict.answer == "not proved"
    assert "rows on the right side is not decided" in verdict.reason
    assert verdict.precision == 1024


def test_nothing_to_gain_is_an_obstacle(tmp_path):
    """Labels that features do not tell apart: one feature for all rows, and as many labels of each kind."""
    sketch = Sketch(2)
    network = sketch.read_out(sketch.dense(sketch.input, 3, "relu"), 1, bias=False)
    params = {name: np.ones_like(a) * (0.5 if a.size > 3 else 0.0) for name, a in network.init(0).items()}
    data = Dataset(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]), "binary")
    found = certify(Problem(network, data).at(params), ReadOut())
    assert found.certificate is None
    assert found.obstacle is not None
    assert found.obstacle.quantity == "read-out"
    assert concluded(found).facts.loss == pytest.approx(math.log(2))
    steep = certify(point(*_case("squared")), ReadOut(step_size=1e3))
    assert steep.certificate is None
    assert steep.obstacle is not None
    assert steep.obstacle.quantity == "step"


def test_facts_are_bounds(rng):
    for name, outputs in (("logistic", 1), ("cross_entropy", 4), ("squared", 2)):
        mid, rad = rng.standard_normal((50, outputs)) * 3, rng.uniform(0, 1e-3, (50, outputs))
        y = rng.standard_normal((50, outputs)) if name == "squared" else labels(rng, (50,), outputs)
        found = facts_of(name, Ball(mid, rad), y)
        for _ in range(20):
            f = mid + rad * rng.choice([-1, 1], rad.shape)
            value = losses(name, f, y)[0]
            assert value.sum() / (1 if name == "squared" else 50) <= found.loss
            if name != "squared":
                margins = (y * f)[:, 0] if outputs == 1 else f[y > 0] - np.where(y > 0, -np.inf, f).max(axis=1)
                assert found.margin <= margins.min()
                assert found.right <= (margins > 0).sum()
                assert found.wrong <= (margins < 0).sum()
    far = facts_of("cross_entropy", Ball(np.array([[0.0, 1e4, 2e3]]), None), np.array([[1.0, -1, -1]]))
    assert 1e4 <= far.loss < 1e4 + 3


def test_what_does_not_go_together_is_refused():
    network, params, data = _case("fully-connected-relu")
    with pytest.raises(InputError, match="take 'logistic'"):
        certify(Problem(network, data).at(params), ReadOut(loss="cross_entropy"))
    with pytest.raises(InputError, match="loss must be"):
        certify(Problem(network, data).at(params), ReadOut(loss="hinge"))
    network, params, data = _case("squared")
    with pytest.raises(InputError, match="needs class labels"):
        certify(Problem(network, data).at(params), ReadOut(loss="logistic"))
    recurrent = ElmanRNN(3, 4, 3)
    sequences = load("sequences:n=4,length=3,features=3,separation=0.3")
    with pytest.raises(InputError, match="several times"):
        certify(Problem(recurrent, sequences).at(recurrent.init(0)), ReadOut())
