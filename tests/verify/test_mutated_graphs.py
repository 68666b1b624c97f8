"""Certificates whose network was changed, digests made right: no exception, and nothing false is proved.

What is called proved is checked against a NumPy computation of the changed network that shares no code (`stated`).
"""

import copy
import math
import random
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from tests.networks.derivatives import automatic
from tests.networks.reference import VALUES
from tests.verify import making, stated
from wideproof_verify import verify
from wideproof_verify.arithmetic import BALLS
from wideproof_verify.bounds import Bounds
from wideproof_verify.passes import Anchor
from wideproof_verify.refusals import MalformedError

NETWORKS = [
    "fully-connected-outputs", "residual", "conv-residual-outputs", "deep-relu", "residual-relu", "elman-rnn-all",
    "own-dense", "own-image", "own-strided", "own-relu", "own-fixed", "own-branching", "own-tied",
]  # fmt: skip
FAST = ["deep-relu", "elman-rnn-all", "own-relu", "own-tied"]
each = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in NETWORKS]
)
JUNK: list[Any] = [
    None, True, False, -1, 0, 1, 2, 3, 10**9, 10**30, -(2**31), 1e308, 5e-324, -0.0, 0.5, math.nan, math.inf, "", "x",
    "W1", "0", [], {}, [1], [[1]], [[[0, 0]]], {"a": 1}, [None], "\ud800",
]  # fmt: skip


class Case(NamedTuple):
    document: dict[str, Any]
    weights: dict[str, np.ndarray]
    x: np.ndarray
    y: np.ndarray


@cache
def case(name: str) -> Case:
    """A certificate that holds."""
    network = making.SMALL[name]
    params, x, y = making.problem(network, n=2)
    claimed = making.claims(network, params, x, y, sharp=False)
    return Case(making.statement(network, "descent", claimed), params, x, y)


# mutations: each changes a network in place


def paths(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(path for key, part in inner for path in paths(part, (*way, key)))]


def place(network: Any, way: tuple[Any, ...], value: Any) -> None:
    for key in way[:-1]:
        network = network[key]
    network[way[-1]] = value


def junk(rng: random.Random, net: Any) -> None:
    place(net, rng.choice(paths(net)[1:]), copy.deepcopy(rng.choice(JUNK)))


def drop(rng: random.Random, net: Any) -> None:
    way = rng.choice(paths(net)[1:])
    for key in way[:-1]:
        net = net[key]
    del net[way[-1]]


def factor(rng: random.Random, net: Any) -> None:
    node = rng.choice(net["nodes"])
    node["scale"] *= rng.choice([1 + 2**-52, 1 - 1e-12, 1 + 1e-9, 1.001, 0.5, 0.0, -1.0, 1e6])


def skip(rng: random.Random, net: Any) -> None:
    rng.choice(net["nodes"])["skip"] = rng.choice([None, *range(-2, len(net["nodes"]) + 1)])


def source(rng: random.Random, net: Any) -> None:
    rng.choice(rng.choice(net["nodes"])["terms"])["source"] = rng.randint(-3, len(net["nodes"]))


def sites(rng: random.Random, net: Any) -> None:
    net["sites"] = [rng.randrange(len(net["nodes"])) for _ in range(rng.choice([1, 1, 1, 2, len(net["sites"])]))]


def activation(rng: random.Random, net: Any) -> None:
    rng.choice(net["nodes"])["activation"] = rng.choice(list(VALUES))


def windows(rng: random.Random, net: Any) -> None:
    phi = rng.choice(rng.choice(net["nodes"])["terms"])["map"]
    if "size" not in phi:
        phi["kind"] = rng.choice(["identity", "flat", "ones", "patches", "average"])
        return
    key = rng.choice(["kind", "positions", "size", "stride", "padding", "dilation"])
    if key == "dilation":
        phi["dilation"] = [rng.choice([1, 1, 2, 3, 10**9]) for _ in phi["size"]]
        return
    if key == "kind":
        phi["kind"] = rng.choice(["patches", "average", "identity", "flat"])
    elif key == "padding":
        pair = rng.choice(phi["padding"])
        pair[rng.randrange(2)] += rng.choice([-1, 1, 2, 10**6, 10**9])
    else:
        phi[key][rng.randrange(len(phi[key]))] += rng.choice([-1, 1, 1, 10**6, 10**9])


def selected(rng: random.Random, net: Any) -> None:
    """A selection changed at one place, or one of everything in its place where there is none."""
    phi = rng.choice(rng.choice(net["nodes"])["terms"])["map"]
    if phi["kind"] != "select":
        return
    how = rng.randrange(4)
    if how == 0:
        rng.choice(phi["index"])[rng.randrange(3)] += rng.choice([-1, 1, 2, 10**9])
    elif how == 1:
        phi["scale"] = rng.choice([None, [], [rng.choice([-1.0, 0.5, 3.0, 1e300])], [1.0, 2.0, -1.0]])
    elif how == 2:
        phi[rng.choice(["inputs", "features"])] += rng.choice([-1, 1])
    else:
        rng.shuffle(phi["index"])


def plain(rng: random.Random, net: Any) -> None:
    """A map without windows instead of one with them."""
    rng.choice(rng.choice(net["nodes"])["terms"])["map"] = {"kind": rng.choice(["identity", "flat", "ones"])}


def names(rng: random.Random, net: Any) -> None:
    """Two weights exchanged everywhere, or one name at one place."""
    used = sorted({*(t["weight"] or "" for n in net["nodes"] for t in n["terms"]), net["read_out"], net["bias"] or ""})
    one, other = rng.choice(used), rng.choice(used)
    if rng.random() < 0.5:
        rng.choice(rng.choice(net["nodes"])["terms"])["weight"] = one or None
        return
    swapped = {one: other, other: one}
    for node in net["nodes"]:
        for term in node["terms"]:
            term["weight"] = swapped.get(term["weight"] or "", term["weight"]) or None
    net["read_out"] = swapped.get(net["read_out"], net["read_out"])
    net["bias"] = swapped.get(net["bias"] or "", net["bias"]) or None


def terms(rng: random.Random, net: Any) -> None:
    """A term twice, a term less, a term in another node, the identity as a term."""
    node, other = rng.choice(net["nodes"]), rng.choice(net["nodes"])
    term, how = rng.choice(node["terms"]), rng.randrange(4)
    if how == 0:
        node["terms"].append(copy.deepcopy(term))
    elif how == 1:
        node["terms"].remove(term)
    elif how == 2:
        other["terms"].append(copy.deepcopy(term))
    else:
        at = rng.randint(-1, len(net["nodes"]) - 1)
        node["terms"].append({"weight": None, "source": at, "map": {"kind": "identity"}})


def nodes(rng: random.Random, net: Any) -> None:
    how, k = rng.randrange(3), rng.randrange(len(net["nodes"]))
    if how == 0:
        del net["nodes"][k]
    elif how == 1:
        net["nodes"].insert(k, copy.deepcopy(net["nodes"][k]))
    else:
        rng.shuffle(net["nodes"])


def trained(rng: random.Random, net: Any) -> None:
    used = [t["weight"] for n in net["nodes"] for t in n["terms"]] + [net["read_out"], net["bias"], "none", None]
    how = rng.randrange(4)
    if how == 0:
        rng.shuffle(net["trained"])
    elif how == 1:
        net["trained"].pop(rng.randrange(len(net["trained"])))
    elif how == 2:
        net["trained"].append(rng.choice(used))
    else:
        net["trained"] = list(dict.fromkeys(rng.choice(used) for _ in range(rng.randint(0, 5))))


def shape(rng: random.Random, net: Any) -> None:
    how = rng.randrange(4)
    if how == 0:
        rng.shuffle(net["shape"])
    elif how == 1:
        net["shape"].append(1)
    elif how == 2:
        net["shape"] = [math.prod(net["shape"])]
    else:
        net["shape"][rng.randrange(len(net["shape"]))] += rng.choice([-1, 1, 10**9])


def sizes(rng: random.Random, net: Any) -> None:
    key = rng.choice(["times", "columns", "outputs", "read_out", "bias"])
    net[key] = {
        "times": rng.choice([0, 2, 3, 4, 10**9]), "columns": not net["columns"], "outputs": rng.randint(0, 4),
        "read_out": net["bias"] or "a", "bias": rng.choice([None, net["read_out"], *net["trained"]]),
    }[key]  # fmt: skip


MUTATIONS = [
    junk, drop, factor, skip, source, sites, activation, windows, plain, names, terms, nodes, trained, shape, sizes,
]  # fmt: skip


def mutate(rng: random.Random, net: Any) -> Any:
    net = copy.deepcopy(net)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        try:
            rng.choice(MUTATIONS)(rng, net)
        except (TypeError, KeyError, IndexError, ValueError, AttributeError):
            return net  # what an earlier mutation left cannot be changed like that: it is broken enough
    return net


# what is true


def holds(document: dict[str, Any], weights: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> None:
    """Assert rho, s, S, the Lipschitz constant in the ball, and some steps of gradient descent."""
    net, claims = document["network"], document["claims"]
    found = stated.evaluate(net, weights, x)
    scored = (y[:, 1:] if net["times"] else y).reshape(len(x), -1)
    r, j = (found.outputs - scored).ravel(), found.jacobian
    values = np.linalg.svd(j, compute_uv=False)
    assert len(values) == len(r)
    slack = 1e-12 * values[0]
    size = 1e-15 * math.sqrt(r.size) * np.abs(scored).max()  # rounding of the outputs here
    assert np.linalg.norm(r) <= claims["rho"] * (1 + 1e-9) + 100 * size
    assert claims["s"] <= values[-1] + slack
    assert claims["S"] >= values[0] - slack
    for radius, rise in zip(claims["radii"], claims["lipschitz"], strict=True):
        rounding = 1e-13 * (values[0] + 1) / radius
        assert stated.curvature(net, weights, x, 0.999 * radius) <= rise * (1 + 1e-9) + rounding
    before, here = float(np.linalg.norm(r)), weights
    for _ in range(2):
        here = stated.moved(net, here, -claims["eta"] * (j.T @ r))
        found = stated.evaluate(net, here, x)
        r, j = (found.outputs - scored).ravel(), found.jacobian
        after = float(np.linalg.norm(r))
        assert after <= (1 - claims["rate"]) * before + 100 * size
        before = after


def put(folder: Path, one: Case, net: Any, **more: Any) -> Path:
    return making.write(folder, {**one.document, "network": net, **more}, one.weights, one.x, one.y)


def attack(folder: Path, name: str, count: int, seed: int) -> dict[str, int]:
    """Mutate a network under the claims of the true one; return how often each answer came."""
    one, rng, answers = case(name), random.Random(f"{name} {seed}"), {"proved": 0, "not proved": 0, "malformed": 0}
    for k in range(count):
        net = mutate(rng, one.document["network"])
        try:
            put(folder, one, net)
        except UnicodeEncodeError:  # a lone surrogate is no text
            continue
        verdict = verify(folder)
        answers[verdict.answer] += 1
        assert verdict.seconds < 30, (k, net)
        if verdict.answer == "proved":
            holds({**one.document, "network": net}, one.weights, one.x, one.y)
    return answers


def test_the_numpy_network_is_the_certificates():
    """The judge itself: outputs and Jacobian of the unchanged networks, by automatic differentiation."""
    for name in FAST:
        one, network = case(name), making.SMALL[name]
        found = stated.evaluate(one.document["network"], one.weights, one.x)
        weights = sum(one.weights[key].size for key in network.trained_names)
        truth, j, _ = automatic(network, one.weights, one.x, np.zeros(weights))
        np.testing.assert_allclose(found.outputs.ravel(), truth, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(found.jacobian @ found.jacobian.T, j @ j.T, rtol=1e-11, atol=1e-12)
        step = 1e-6 * np.random.default_rng(0).standard_normal(found.jacobian.shape[1])
        there = stated.evaluate(
            one.document["network"], stated.moved(one.document["network"], one.weights, step), one.x
        )
        change = (there.outputs - found.outputs).ravel()
        np.testing.assert_allclose(change, found.jacobian @ step, rtol=1e-4, atol=1e-10)
        holds(one.document, one.weights, one.x, one.y)


def test_the_judge_can_fail():
    """Each claim made a thousandth too good is seen by the NumPy computation alone."""
    one = case("own-tied")
    better = {"rho": 0.999, "s": 1.001, "S": 0.999, "rate": 2.0}
    for key, by in better.items():
        lie = {**one.document, "claims": {**one.document["claims"], key: by * one.document["claims"][key]}}
        with pytest.raises(AssertionError):
            holds(lie, one.weights, one.x, one.y)
    low = {**one.document, "claims": {**one.document["claims"], "lipschitz": [1e-3]}}
    with pytest.raises(AssertionError):
        holds(low, one.weights, one.x, one.y)


@each
def test_changed_networks(tmp_path, name):
    """Under the claims of the network as it was."""
    answers = attack(tmp_path, name, 60, seed=1)
    assert min(answers["malformed"], answers["not proved"]) > 3


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_thousand_changed_networks(tmp_path, name):
    answers = attack(tmp_path, name, 1000, seed=2)
    print(f"\n{name}: {answers}")
    assert min(answers.values()) > 0


def restated(net: Any, one: Case) -> tuple[dict[str, Any], Case] | None:
    """Claims about a changed network that are made to fit it: true rho, s and S, the verifier's own constants."""
    try:
        read, matrices = making.read(net, one.weights)
        found = stated.evaluate(net, one.weights, one.x)
    except (MalformedError, TypeError, KeyError, ValueError, AttributeError):
        return None
    outputs, j = found.outputs, found.jacobian
    values = np.linalg.svd(j, compute_uv=False)
    if not np.isfinite(outputs).all() or len(values) < outputs.size or not values[-1] > 1e-6 * values[0]:
        return None
    noise = 1e-9 * np.random.default_rng(0).standard_normal(outputs.shape)
    shape = (len(one.x), read.times, read.outputs) if read.times else (len(one.x), read.outputs)
    y = np.zeros(shape)
    if read.times:
        y[:, 1:] = (outputs + noise).reshape(y[:, 1:].shape)
    else:
        y = (outputs + noise).reshape(shape)
    y = y if read.times or read.outputs > 1 else y[:, 0]
    rho, s, most = (
        float(np.linalg.norm(noise)) * (1 + 1e-4),
        float(values[-1]) * (1 - 1e-6),
        float(values[0]) * (1 + 1e-9),
    )
    radius = 2 * rho / s
    with ctx.workprec(128):
        bounds = Bounds(Anchor(read, matrices, one.x, ops=BALLS).differentiate(), sharp=True)
        rise = float(bounds.lipschitz(arb(radius)).upper()) * (1 + 1e-6)
    m = rise * radius
    if not m < s / 4:
        return None
    sigma, b = (s - m) * (1 - 1e-12), (most + m) * (1 + 1e-12)
    eta = (1 - 1e-9) / b**2
    claims = {
        "rho": rho, "s": s, "S": most, "radii": [radius], "lipschitz": [rise], "sigma": sigma, "b": b, "eta": eta,
        "rate": eta * sigma**2 * (1 - 1e-12), "h": rise * rho / s**2 * (1 + 1e-12), "epsilon": rho**2, "steps": 1,
    }  # fmt: skip
    document = {**one.document, "network": net, "claims": claims, "bound": {"sharp": True}}
    return document, one._replace(y=np.ascontiguousarray(y))


def restate(folder: Path, name: str, count: int, seed: int) -> tuple[int, int]:
    """Claims that fit each changed network: return how many were stated, and how many of them proved."""
    one, rng, made, proved = case(name), random.Random(f"{name} {seed}"), 0, 0
    for _ in range(count):
        found = restated(mutate(rng, one.document["network"]), one)
        if found is None:
            continue
        document, other = found
        verdict = verify(making.write(folder, document, other.weights, other.x, other.y))
        made += 1
        if verdict.answer == "proved":
            proved += 1
            holds(document, other.weights, other.x, other.y)
    return made, proved


@each
def test_changed_networks_with_claims_of_their_own(tmp_path, name):
    """Random networks: what the verifier's own bounds allow is true of them."""
    made, proved = restate(tmp_path, name, 40, seed=3)
    assert made >= proved > 3


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_hundreds_of_changed_networks_with_claims_of_their_own(tmp_path, name):
    made, proved = restate(tmp_path, name, 400, seed=4)
    print(f"\n{name}: {proved} of {made} proved")
    assert proved > 20


FIRST = ("nodes", 0, "terms", 0, "map")


@pytest.mark.parametrize(
    ("name", "way", "value"),
    [
        ("own-image", (*FIRST, "padding", 0), [10**9, 10**9]),
        ("own-image", (*FIRST, "padding"), [[2**30, 2**30], [2**30, 2**30]]),
        ("own-image", (*FIRST, "stride"), [10**9, 10**9]),
        ("own-image", (*FIRST, "size"), [2**30, 2**30]),
        ("own-image", ("shape",), [1, 2**15, 2**15]),
        ("elman-rnn-all", ("times",), 2**30),
        ("own-tied", ("outputs",), 2**30),
    ],
)
def test_huge_sizes_cost_nothing(tmp_path, name, way, value):
    """A window, a padding or a number of times that would take hours or gigabytes is refused at once."""
    net = copy.deepcopy(case(name).document["network"])
    place(net, way, value)
    verdict = verify(put(tmp_path, case(name), net))
    assert verdict.answer in ("malformed", "not proved")
    assert verdict.seconds < 1


def test_windows_that_see_only_zeros(tmp_path):
    """Padding as wide as the window or wider is refused: it adds nothing, and makes the circle of its norm longer."""
    net = copy.deepcopy(case("own-strided").document["network"])
    phi = net["nodes"][0]["terms"][0]["map"]
    phi |= {"stride": [12], "padding": [[5, 6]]}
    verdict = verify(put(tmp_path, case("own-strided"), net))
    assert verdict.answer == "malformed"


def test_one_network_in_many_ways(tmp_path):
    """What is the same network is proved under the same claims: another order of trained weights, a grid of one."""
    one = case("own-dense")
    other = copy.deepcopy(one.document["network"])
    other["trained"].reverse()
    other["shape"] = [4, 1]
    other["nodes"][0]["terms"].reverse()
    verdict = verify(put(tmp_path, one, other))
    assert verdict.answer == "proved", verdict.reason
    split = copy.deepcopy(one.document["network"])  # the skip as a node of its own
    last = split["nodes"][1]
    last["skip"] = None
    split["nodes"].append({
        "terms": [{"weight": None, "source": k, "map": {"kind": "identity"}} for k in (0, 1)],
        "activation": "identity", "scale": 1.0, "skip": None,
    })  # fmt: skip
    split["sites"] = [2]
    again, first = (stated.evaluate(net, one.weights, one.x) for net in (split, one.document["network"]))
    np.testing.assert_allclose(again.jacobian, first.jacobian, rtol=1e-12, atol=1e-14)
    found = restated(split, one)
    assert found is not None
    document, changed = found
    verdict = verify(making.write(tmp_path, document, changed.weights, changed.x, changed.y))
    assert verdict.answer == "proved", verdict.reason
