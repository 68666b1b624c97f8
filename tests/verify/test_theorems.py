"""Certificates that hold are proved; one number made too favourable is refused, and the inequality is named."""

import json
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from tests.verify import making
from wideproof.networks import DeepReLU, FullyConnected, Network, get_activation
from wideproof_verify import Verdict, verify
from wideproof_verify.arithmetic import short


def judge(
    folder: Path,
    network: Network,
    theorem: str,
    claimed: dict[str, Any],
    params: Any,
    x: Any,
    y: Any,
    sharp: bool = False,
) -> Verdict:
    return verify(making.write(folder, making.statement(network, theorem, claimed, sharp=sharp), params, x, y))


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("name", making.CASES)
def test_descent_and_existence_are_proved(tmp_path, name, sharp):
    network = making.SMALL[name]
    params, x, y = making.problem(network)
    claimed = making.claims(network, params, x, y, sharp=sharp, stairs=2, newton=True)
    verdict = judge(tmp_path, network, "descent", claimed, params, x, y, sharp)
    assert verdict.answer == "proved", verdict.reason
    assert "converges to zero loss" in verdict.statement
    assert "exist" in verdict.statement
    rows = {row: (stated, found) for row, stated, found in verdict.checks}
    assert rows["rho ≥ ‖r‖"][1] == pytest.approx(claimed["rho"], rel=1e-4)
    alone = {key: claimed[key] for key in ("s", "radii", "lipschitz", "D", "newton_h", "newton_radius")}
    assert judge(tmp_path, network, "existence", alone, params, x, y, sharp).answer == "proved"


@pytest.mark.parametrize("name", making.CASES)
def test_a_relative_1e3_is_refused(tmp_path, name):
    network = making.SMALL[name]
    params, x, y = making.problem(network)
    claimed = making.claims(network, params, x, y, sharp=True)
    wrong = {"rho": 0.999, "s": 1.001, "S": 0.999, "sigma": 1.001, "b": 0.999, "rate": 1.001, "eta": 1.001}
    for key, factor in wrong.items():
        changed = {**claimed, key: claimed[key] * factor}
        assert judge(tmp_path, network, "descent", changed, params, x, y, True).answer == "not proved", key
    changed = {**claimed, "lipschitz": [0.999 * v for v in claimed["lipschitz"]]}
    assert judge(tmp_path, network, "descent", changed, params, x, y, True).answer == (
        "proved" if claimed["lipschitz"] == [0.0] else "not proved"
    )


@pytest.fixture(scope="module")
def one_layer():
    network = FullyConnected(6, 40, 1, get_activation("tanh"), trained=("hidden",))
    return network, *making.problem(network, n=4, noise=3e-2)


VIOLATIONS = {
    "rho ≥ ‖r‖": {"rho": 0.99}, "s ≤ √λ_min(JJᵀ)": {"s": 1.00001}, "S ≥ ‖J‖": {"S": 0.999999},
    "Λ_1 ≥ Λ(t_1)": {"lipschitz": 0.99999}, "rho − s t_J + ∫M < 0": {"radii": 0.5},
    "sigma ≤ s − M_J": {"sigma": 1.0001}, "b ≥ S + M_J": {"b": 0.9999}, "eta b² ≤ 1": {"eta": 1.0001},
    "rate ≤ eta sigma (s − M_J)": {"rate": 1.0001}, "h ≥ Λ_J rho / s²": {"h": 0.9999},
    "(1 − rate)^steps rho ≤ √(2 epsilon)": {"epsilon": 0.5}, "s > 0": {"s": -1},
    "eta > 0": {"eta": -1}, "sigma > 0": {"sigma": -1}, "rate > 0": {"rate": 0}, "epsilon > 0": {"epsilon": 0},
    "S > 0": {"S": 0}, "t_1 > t_0": {"radii": -1}, "Λ_1 ≥ Λ_0": {"lipschitz": -1}, "D ≥ √(rᵀG⁻¹r)": {"D": 0.9999},
    "newton_h ≥ Λ_J D / s": {"newton_h": 0.9999}, "newton_radius ≤ t_J": {"newton_radius": 1e3},
    "newton_radius ≥ 2D / (1 + √(1 − 2 newton_h))": {"newton_radius": 0.9999},
}  # fmt: skip


@pytest.mark.parametrize("inequality", VIOLATIONS)
def test_each_violation_is_named(tmp_path, one_layer, inequality):
    network, params, x, y = one_layer
    claimed = making.claims(network, params, x, y, sharp=False, newton=True)
    assert 0.01 < claimed["h"] < 0.4
    for key, factor in VIOLATIONS[inequality].items():
        old = claimed[key]
        claimed[key] = [factor * v for v in old] if isinstance(old, list) else factor * old
    verdict = judge(tmp_path, network, "descent", claimed, params, x, y)
    assert verdict.answer == "not proved"
    assert verdict.reason.startswith(inequality), verdict.reason
    assert "claimed" in verdict.reason
    assert "recomputed" in verdict.reason


def test_slope_of_the_path_is_refused(tmp_path, one_layer):
    network, params, x, y = one_layer
    claimed = making.claims(network, params, x, y, sharp=False, radius=30.0)
    verdict = judge(tmp_path, network, "descent", claimed, params, x, y)
    assert verdict.reason.startswith("M_J ≤ s fails")


def at_larger_step(claimed: dict[str, Any], beta: float) -> dict[str, Any]:
    """The same claims at the step size beta / b², beyond 1/b²: less of s counts."""
    s, b, eta = claimed["s"], claimed["b"], beta / claimed["b"] ** 2
    kappa = math.sqrt(1 - (beta - 1) ** 2 / (1 - beta * eta * s**2)) * (1 - 1e-12)
    m = sum(np.diff([0.0, *claimed["radii"]]) * claimed["lipschitz"])
    rate = eta * claimed["sigma"] * (kappa * s - m) * (1 - 1e-9)
    h = claimed["lipschitz"][-1] * claimed["rho"] / (kappa * s) ** 2 * (1 + 1e-12)
    steps = math.ceil(math.log(claimed["rho"] / math.sqrt(2 * claimed["epsilon"])) / -math.log1p(-rate)) + 1
    assert eta * (b**2 + s**2) < 2
    return {**claimed, "eta": eta, "kappa": kappa, "rate": float(rate), "h": h, "steps": steps}


@pytest.mark.parametrize("beta", [1.001, 1.3, 1.6])
@pytest.mark.parametrize("name", ["fully-connected", "fully-connected-fixed", "residual"])
def test_larger_steps_are_proved(tmp_path, name, beta):
    network = making.SMALL[name]
    params, x, y = making.problem(network)
    claimed = at_larger_step(making.claims(network, params, x, y, sharp=False, stairs=2), beta)
    assert 0.5 < claimed["kappa"] < 1
    verdict = judge(tmp_path, network, "descent", claimed, params, x, y)
    assert verdict.answer == "proved", verdict.reason


BEYOND = {
    "kappa² ≤ β (2 − β − ε) / (1 − βε)": {"kappa": 1.0001}, "kappa > 0": {"kappa": -1}, "eta > 0": {"eta": -1},
    "eta (b² + s²) < 2": {"eta": 1.5}, "rate ≤ eta sigma ((kappa s) − M_J)": {"rate": 1.0001},
    "h ≥ Λ_J rho / (kappa s)²": {"h": 0.9999}, "rho − (kappa s) t_J + ∫M < 0": {"radii": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("inequality", BEYOND)
def test_each_violation_of_a_larger_step_is_named(tmp_path, inequality):
    network = making.SMALL["fully-connected-fixed"]
    params, x, y = making.problem(network)
    claimed = at_larger_step(making.claims(network, params, x, y, sharp=False), 1.5)
    for key, factor in BEYOND[inequality].items():
        old = claimed[key]
        claimed[key] = [factor * v for v in old] if isinstance(old, list) else factor * old
    verdict = judge(tmp_path, network, "descent", claimed, params, x, y)
    assert verdict.reason.startswith(inequality), verdict.reason


def test_a_larger_step_needs_kappa(tmp_path):
    network = making.SMALL["fully-connected-fixed"]
    params, x, y = making.problem(network)
    claimed = at_larger_step(making.claims(network, params, x, y, sharp=False), 1.5)
    bare = {key: value for key, value in claimed.items() if key != "kappa"}
    assert judge(tmp_path, network, "descent", bare, params, x, y).reason.startswith("eta b² ≤ 1 fails")
    whole = {**claimed, "kappa": "1"}
    assert judge(tmp_path, network, "descent", whole, params, x, y).answer == "malformed"


def with_ratio(h: float) -> tuple[Any, ...]:
    """A one-layer network whose proof ratio is `h`: targets at exactly the distance that gives it."""
    network = FullyConnected(6, 40, 1, get_activation("tanh"), trained=("hidden",))
    params, x, y = making.problem(network, n=4, noise=0.0)
    claimed = making.claims(network, params, x, y + 1e-3, sharp=False)
    s, rise = claimed["s"], claimed["lipschitz"][0]
    rho = h * s**2 / rise
    y = y + rho / math.sqrt(len(y)) * (1 - 1e-12)
    end = s / rise * (1 - 1e-13)  # where rho − s t + Λ t²/2 is least
    m = rise * end
    b, sigma = claimed["S"] + m * (1 + 1e-9), max((s - m) * (1 - 1e-3), 1e-300)
    eta = (1 - 1e-9) / b**2
    claimed |= {"rho": rho, "radii": [end], "sigma": sigma, "b": b, "eta": eta, "rate": eta * sigma**2 * (1 - 1e-9)}
    claimed |= {"h": rise * rho / s**2 * (1 + 1e-15), "epsilon": rho**2, "steps": 0}
    return network, claimed, params, x, y


@pytest.mark.parametrize("h", [0.491, 0.499, 0.4999999])
def test_ratio_below_one_half_is_proved(tmp_path, h):
    network, claimed, params, x, y = with_ratio(h)
    verdict = judge(tmp_path, network, "descent", claimed, params, x, y)
    assert verdict.answer == "proved", verdict.reason


def test_ratio_above_one_half_is_refused(tmp_path):
    network, claimed, params, x, y = with_ratio(0.5 + 1e-12)
    verdict = judge(tmp_path, network, "descent", claimed, params, x, y)
    assert verdict.answer == "not proved"
    assert verdict.reason.startswith("rho − s t_J + ∫M < 0 fails")
    changed = {**claimed, "h": 0.5 + 1e-12, "rho": claimed["rho"] * 0.9, "epsilon": 1.0}
    verdict = judge(tmp_path, network, "descent", changed, params, x, np.array(y) * 0 + network(params, x))
    assert verdict.reason.startswith("h < 1/2 fails")


def test_no_residual_needs_no_steps(tmp_path, one_layer):
    network, params, x, _ = one_layer
    y = np.array(network(params, x))
    claimed = making.claims(network, params, x, y + 1e-6, sharp=False) | {"steps": 0, "epsilon": 1.0}
    assert judge(tmp_path, network, "descent", claimed, params, x, y).answer == "proved"


def nested_claims(network: FullyConnected, params: Any, x: Any, y: Any, cells: int, end: float) -> dict[str, Any]:
    claimed = making.claims(network, params, x, y, sharp=False, stairs=cells, radius=end)
    s, activation = claimed["s"], network.activation
    scale, whole = making.scales(network)[0], np.linalg.norm(x, 2)
    start = np.abs(params["a"]).max()
    row = scale * np.linalg.norm(np.asarray(activation(jnp.asarray(x @ params["W1"].T))), axis=0).max()
    q = scale * whole * activation.lipschitz
    rises, sizes, m, time, before = [], [], 0.0, 0.0, 0.0
    for t in claimed["radii"]:
        size = (sizes[-1] if sizes else start) * (1 + 1e-9)
        for _ in range(200):
            p = q / activation.lipschitz * np.linalg.norm(x, axis=1).max() * activation.smoothness * size
            rise = (p / 2 + math.sqrt(p**2 / 4 + q**2)) * (1 + 1e-6)
            after = time + (t - before) / (s - m - rise * (t - before))
            moved = min(t, (row + q * min(t, size * q * after)) * after)
            size = max(size, (start + moved) * (1 + 1e-6))
        m, time, before = m + rise * (t - before), after, t
        rises.append(float(rise))
        sizes.append(float(size))
    m = m * (1 + 1e-12)
    sigma, b = s - m, claimed["S"] + m
    eta = (1 - 1e-9) / b**2
    claimed |= {"lipschitz": rises, "sigma": sigma, "b": b, "eta": eta, "rate": eta * sigma**2 * (1 - 1e-9)}
    claimed |= {"h": rises[-1] * claimed["rho"] / s**2 * (1 + 1e-9), "nested": {"A": sizes}}
    claimed["steps"] = math.ceil(math.log(1e3) / -math.log1p(-claimed["rate"])) + 1
    return claimed


def test_nested_sets(tmp_path):
    network = FullyConnected(8, 400, 1)
    params, x, y = making.problem(network, n=4, noise=0.1)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.array(network(params, x)) + 0.1 * np.array([1.0, -1, 1, -1])
    rough = making.claims(network, params, x, y, sharp=False)
    claimed = nested_claims(network, params, x, y, 30, 1.6 * rough["rho"] / rough["s"])
    verdict = judge(tmp_path, network, "descent", claimed, params, x, y)
    assert verdict.answer == "proved", verdict.reason
    ball = making.claims(network, params, x, y, sharp=True, stairs=30, radius=claimed["radii"][-1])
    assert claimed["lipschitz"][-1] < ball["lipschitz"][-1]
    smaller = {**claimed, "nested": {"A": [0.999 * a for a in claimed["nested"]["A"]]}}
    assert "A_1" in judge(tmp_path, network, "descent", smaller, params, x, y).reason
    flat = {**claimed, "lipschitz": [0.999 * v for v in claimed["lipschitz"]]}
    assert "Λ_1 ≥ p/2" in judge(tmp_path, network, "descent", flat, params, x, y).reason
    short = {**claimed, "nested": {"A": claimed["nested"]["A"][1:]}}
    assert judge(tmp_path, network, "descent", short, params, x, y).answer == "malformed"
    # Newton's method is not confined to the nested sets: there Λ has to hold on the ball.
    newton = {
        k: ball_v
        for k, ball_v in making.claims(network, params, x, y, sharp=False, newton=True).items()
        if "newton" in k or k == "D"
    }
    assert "≥ Λ(t_" in judge(tmp_path, network, "descent", {**claimed, **newton}, params, x, y).reason
    deeper = making.SMALL["fully-connected"]
    problem = making.problem(deeper)
    wrong = making.claims(deeper, *problem, sharp=False) | {"nested": {"A": [9.0]}}
    assert judge(tmp_path, deeper, "descent", wrong, *problem).answer == "malformed"


def test_a_zero_pre_activation_is_refused(tmp_path):
    network = DeepReLU(5, 8, 2)
    params, x, y = making.problem(network)
    claimed = making.claims(network, params, x, y, sharp=False)
    assert judge(tmp_path, network, "descent", claimed, params, x, y).answer == "proved"
    params["W1"][:, 3] = 0.0
    y = np.array(network(params, x)) + 1e-10
    claimed = making.claims(network, params, x, y, sharp=False)
    verdict = judge(tmp_path, network, "descent", claimed, params, x, y)
    assert verdict.answer == "not proved"
    assert verdict.reason.startswith("|z| >")


def test_a_unit_that_cannot_move_may_be_zero(tmp_path):
    network = making.SMALL["elman-rnn"]
    params, x, y = making.problem(network)
    x[:, 0] = 0.0  # A x_1 = 0 for every unit, and A is not trained; h_1 = 0 leaves W no use at time 2
    y = np.array(network(params, x)) + 1e-9
    claimed = making.claims(network, params, x, y, sharp=False)
    claimed["s"] = 1e-3
    verdict = judge(tmp_path, network, "descent", claimed, params, x, y)
    assert not verdict.reason.startswith("|z| >")


def test_too_large_a_ball_flips_a_sign(tmp_path):
    network = making.SMALL["deep-relu"]
    params, x, y = making.problem(network)
    claimed = making.claims(network, params, x, y, sharp=False, radius=1.0)
    assert judge(tmp_path, network, "descent", claimed, params, x, y).reason.startswith("|z| >")


def labelled(network: Network, n: int = 5) -> tuple[Any, Any, Any, np.ndarray]:
    params, x, y = making.problem(network, n=n, noise=0.0)
    return params, x, np.where(y > 0, 1.0, -1.0), y


def test_fit(tmp_path):
    network = making.SMALL["residual"]
    params, x, y, f = labelled(network)
    loss = float(np.log1p(np.exp(-y * f)).mean())
    claimed = {"loss_name": "logistic", "loss": loss * (1 + 1e-9), "margin": float(np.abs(f).min()) * (1 - 1e-9)}
    verdict = judge(tmp_path, network, "fit", claimed, params, x, y)
    assert verdict.answer == "proved", verdict.reason
    assert "error is zero" in verdict.statement
    for key, factor in {"loss": 0.999, "margin": 1.001}.items():
        verdict = judge(tmp_path, network, "fit", {**claimed, key: claimed[key] * factor}, params, x, y)
        assert verdict.reason.startswith(key)
    y[0] = -y[0]
    assert judge(tmp_path, network, "fit", claimed, params, x, y).answer == "not proved"
    y[0] = 0.5
    assert judge(tmp_path, network, "fit", claimed, params, x, y).answer == "malformed"


def test_fit_of_several_outputs(tmp_path):
    network = making.SMALL["fully-connected-outputs"]
    params, x, _, f = labelled(network)
    y = np.where(np.arange(2) == f.argmax(axis=1)[:, None], 1.0, -1.0)
    margin = float(np.abs(f[:, 0] - f[:, 1]).min())
    assert judge(tmp_path, network, "fit", {"margin": margin * 0.999}, params, x, y).answer == "proved"
    assert judge(tmp_path, network, "fit", {"margin": margin * 1.001}, params, x, y).answer == "not proved"
    assert judge(tmp_path, network, "fit", {"margin": margin, "loss": 1.0}, params, x, y).answer == "malformed"


def psi(value: float, n: int) -> float:
    return max(
        (1 - math.exp(-1)) * min(1, math.sqrt(n) * value), -math.expm1(-n * value) / math.sqrt(n), -math.expm1(-value)
    )


def test_logistic(tmp_path):
    network = FullyConnected(12, 6000, 1, trained=("hidden",))
    params, x, y, _ = labelled(network, n=4)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    params["a"][1::2] = -params["a"][::2]
    params["W1"][1::2] = params["W1"][::2]
    y = np.array([1.0, -1, 1, -1])
    n, f = 4, np.array(network(params, x))
    rough = making.claims(network, params, x, y, sharp=False, stairs=2, radius=2.0)
    s, largest = rough["s"], rough["S"]
    rise = rough["lipschitz"][-1]
    loss, epsilon, c = float(np.log1p(np.exp(-y * f)).mean()) * (1 + 1e-9), 0.35, 0.5
    grid = epsilon * (loss / epsilon) ** (np.arange(4097) / 4096)
    first = sum((b - a) / psi(a, n) for a, b in pairwise(grid)) * (1 + 1e-9)
    second = sum((b - a) / psi(a, n) ** 2 for a, b in pairwise(grid)) * (1 + 1e-9)
    radius = next(t for t in np.linspace(0.01, s / rise, 4000) if c / n * (s * t - rise * t**2 / 2) >= first * 1.001)
    end = radius * 1.2
    b = largest + rise * end
    eta = 2 * (1 - c) * n / (b**2 / 4 + rise * math.sqrt(n * min(1, loss))) * (1 - 1e-9)
    eta = min(eta, (end - radius) / (b * math.sqrt(loss / n)) * (1 - 1e-9))
    steps = math.ceil(n**2 * second / (c * eta * (s - rise * radius) ** 2)) + 1
    claimed = {
        "loss": loss, "epsilon": epsilon, "c": c, "s": s, "S": largest, "radii": [float(radius), float(end)],
        "lipschitz": [rise, rise], "R1": float(radius), "eta": float(eta), "steps": steps, "I1": first, "I2": second,
    }  # fmt: skip
    verdict = judge(tmp_path, network, "logistic", claimed, params, x, y)
    assert verdict.answer == "proved", verdict.reason
    worse = {"loss": 0.99, "I1": 0.99, "I2": 0.99, "eta": 1.5, "s": 1.001, "S": 0.99, "lipschitz": 0.9, "c": 0.7}
    for key, factor in worse.items():
        old = claimed[key]
        changed = [factor * v for v in old] if isinstance(old, list) else factor * old
        assert judge(tmp_path, network, "logistic", {**claimed, key: changed}, params, x, y).answer == "not proved", key
    assert judge(tmp_path, network, "logistic", {**claimed, "steps": steps - 10}, params, x, y).reason.startswith(
        "steps"
    )
    assert judge(tmp_path, network, "logistic", {**claimed, "R1": 0.123}, params, x, y).answer == "malformed"


def test_sentences_are_rounded_to_the_side_on_which_they_are_true():
    margin, loss = 0.9999997999999438, 0.12345649999
    assert (short(margin, ROUND_FLOOR), short(loss, ROUND_CEILING)) == ("0.999999", "0.123457")
    assert short(-margin, ROUND_FLOOR) == "-1"
    assert short(3.0, ROUND_FLOOR) == short(3.0, ROUND_CEILING) == "3"
    for value in (1.6e-13, 1 / 3, 2 / 3e7, 123456.5, 9.999999e22):
        assert Decimal(short(value, ROUND_FLOOR)) <= Decimal(value) <= Decimal(short(value, ROUND_CEILING))


def test_equal_inputs_may_differ_in_the_sign_of_zero(tmp_path):
    network = making.SMALL["fully-connected"]
    params, x, y = making.problem(network)
    x, y = x[[0, 0]].copy(), np.array([1.0, -1.0])
    x[:, 0] = [0.0, -0.0]
    claimed = {"groups": [[0, 1]], "least_loss": 1.0}
    assert judge(tmp_path, network, "impossible", claimed, params, x, y).answer == "proved"


def test_impossible(tmp_path):
    network = making.SMALL["fully-connected"]
    params, x, y = making.problem(network, n=4)
    x[3] = x[1]
    y = np.array([1.0, 2, 3, 4.5])
    claimed = {"groups": [[1, 3]], "least_loss": 0.5 * 2 * 1.25**2 * (1 - 1e-12)}
    found = judge(tmp_path, network, "impossible", claimed, params, x, y)
    assert found.answer == "proved"
    assert "any function of them" in found.statement  # and not this network alone
    more = {**claimed, "least_loss": 1.5626}
    assert judge(tmp_path, network, "impossible", more, params, x, y).reason.startswith("least_loss ≤")
    other = {**claimed, "groups": [[1, 2]]}
    assert judge(tmp_path, network, "impossible", other, params, x, y).reason.startswith("inputs of a group")
    for groups in ([[1]], [], [[1, 3], [3, 0]], [[1, 9]], [[1, True]], [1, 3], [["1", "3"]]):
        assert judge(tmp_path, network, "impossible", {**claimed, "groups": groups}, params, x, y).answer == "malformed"
    equal = {"groups": [[1, 3]], "least_loss": 0.0}
    assert judge(tmp_path, network, "impossible", equal, params, x, y * 0).answer == "not proved"


def test_a_tie_is_decided_by_more_bits(tmp_path, one_layer):
    network, params, x, y = one_layer
    claimed = making.claims(network, params, x, y, sharp=False)
    f = np.array(network(params, x))
    with ctx.workprec(400):
        anchor = making.bounds(network, params, x, y, False).anchor
        residual = [abs(a - arb(b)) for a, b in zip(anchor.outputs[0], f, strict=True)]
        exact = sum((r * r for r in residual), arb(0)).sqrt()
    rho = math.nextafter(float(exact.lower()), 0)
    below = {**claimed, "rho": rho}
    verdict = judge(tmp_path, network, "descent", below, params, x, f)
    assert verdict.answer == "not proved"
    assert verdict.reason.startswith("rho ≥ ‖r‖ fails")
    assert json.loads(json.dumps(verdict.checks))
