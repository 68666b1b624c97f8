"""The widths that proofs ask for: every inequality is written out again, forwards, and holds there and not below."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from wideproof.theorems import allenzhu2018, du2019, frei2019, zou2018
from wideproof.theorems.answer import costs, traced
from wideproof.theorems.trace import Trace, geometric

SOFTPLUS = SimpleNamespace(
    name="softplus", lipschitz=1.0, smoothness=0.25, at_zero=math.log(2), c_sigma=1.0854868,
    value=lambda z: np.logaddexp(0, z),
)  # fmt: skip
DU = du2019.DuFacts(n=30, d=7, lambda_0=1e-3, label_norm=5.0)
ZOU = zou2018.ZouFacts(n=20, d=5, phi=0.3, mu=0.6)
FREI = frei2019.FreiFacts(n=25, d=6, gamma=0.08)
RNN = allenzhu2018.AllenZhuFacts(n=3, length=4, outputs=2, delta=0.3)


def du_ask(depth=3, **changes):
    return du2019.DuAsk(**{"depth": depth, "activation": SOFTPLUS, "epsilon": 0.01, "failure": 0.05} | changes)


def du_trace(write, facts=DU, **changes):
    return traced(lambda t: write(t, facts, du_ask(**changes)))


def value(trace: Trace, name: str) -> float:
    (found,) = (one.value for one in trace.constants if one.name == name)
    return found


def test_every_inequality_holds_at_the_width_and_one_of_them_fails_below_it():
    for write in (
        lambda t: du2019.fully_connected(t, DU, du_ask()),
        lambda t: du2019.residual(t, DU, du_ask()),
        lambda t: du2019.convolutional(t, du2019.DuFacts(30, 21, 1e-3, 5.0, 7, 3), du_ask()),
        lambda t: zou2018.deep_relu(t, ZOU, zou2018.ZouAsk(3, 0.01, 0.05)),
        lambda t: zou2018.deep_relu(t, ZOU, zou2018.ZouAsk(3, 0.01, 0.05, batch=4)),
        lambda t: frei2019.residual_relu(t, FREI, frei2019.FreiAsk(4, 0.1, 0.05)),
        lambda t: allenzhu2018.recurrent(t, RNN, allenzhu2018.AllenZhuAsk(0.01, 0.05)),
    ):
        trace = traced(write)
        x = trace.solve()
        below = x - math.log(2)
        assert all(need(x) <= x + 1e-9 for *_, need in trace.needs)
        assert any(need(below) > below for *_, need in trace.needs)
        assert trace.step is not None
        assert trace.iterations is not None
        assert trace.step(x) < 0 < trace.iterations(x) < math.inf


def moves_too_far(log_width: float) -> float:
    """R' over R of Theorem 5.1 for `DU`, from the displays of Lemmas B.3 to B.5, in another order than the trace."""
    n, depth, lip, beta, c = DU.n, 3, 1.0, 0.25, SOFTPLUS.c_sigma
    c_x = 2 * math.sqrt(c) * lip * 2.01
    layers = [1.0]
    for _ in range(depth - 1):
        layers.append(1 + c_x * layers[-1])  # g(h) = 1 + c_x g(h - 1)
    start = 5.0 + math.sqrt(n) * 2 * math.sqrt(2 * math.log(2 * n / 0.01))
    speed = 4 * 2 * 1.01 * c_x**depth * math.sqrt(n) * start
    radius = 4 * speed / (DU.lambda_0 * math.exp(log_width / 2))
    first = 2 * beta * 2 * 2.0 * lip * c * 4 * 1.01**2 * layers[-1]
    second = 3 * math.sqrt(c) * lip**3 * c * 4 * 1.01**2 * layers[-1]
    drift = (first + second + 12 * lip**2 * 4 * c * 1.01) * n * radius
    return drift / (DU.lambda_0 / 4)


def test_theorem_5_1_asks_for_the_width_at_which_the_gram_matrix_moves_by_a_quarter():
    x = du_trace(du2019.fully_connected).solve()
    assert moves_too_far(x) == pytest.approx(1, rel=1e-9)
    assert moves_too_far(x - math.log(4)) == pytest.approx(2, rel=1e-9)  # a quarter of the width: twice the drift


def test_the_exponents_of_theorem_5_1():
    def width(**changes):
        facts = du2019.DuFacts(**{"n": 30, "d": 7, "lambda_0": 1e-3, "label_norm": 0.0} | changes)
        return du_trace(du2019.fully_connected, facts).solve() / math.log(10)

    assert width(lambda_0=1e-4) - width() == pytest.approx(4)
    more = width(n=3000, lambda_0=1e-3) - width()  # n⁴, and a little for the logarithm in ‖y - u(0)‖
    assert 8 < more < 8.5


def test_powers_of_two_to_the_depth_come_from_the_recursion():
    widths = [du_trace(du2019.fully_connected, depth=h).solve() for h in range(2, 8)]
    growth = np.diff(widths)
    c_x = value(du_trace(du2019.fully_connected), "c_x")
    assert growth[-1] == pytest.approx(4 * math.log(c_x), rel=0.02)  # c_x^H and g_cx(H), both squared
    deep = [du_trace(du2019.residual, depth=h).solve() for h in (8, 16, 32)]
    assert np.diff(deep).max() < 1e-6  # at a fixed λ0 the bounds of Lemma C.4 and C.5 do not grow with the depth


def test_the_polynomial_in_the_pixels_comes_from_the_sums():
    widths = [
        du_trace(du2019.convolutional, du2019.DuFacts(30, 3 * p, 1e-3, 5.0, p, 3)).solve() for p in (8, 32, 128, 512)
    ]
    assert all(np.diff(widths) > 0)
    powers = np.diff(widths) / math.log(4)
    assert 3 < powers[-1] < 8  # a polynomial: the last two ratios agree
    assert powers[-1] == pytest.approx(powers[-2], abs=1)


def test_the_step_of_theorem_5_1_is_where_the_square_is_an_eighth():
    trace = du_trace(du2019.fully_connected)
    assert trace.step is not None
    eta = math.exp(trace.step(trace.solve()))
    c_x, n, depth = value(trace, "c_x"), 30, 3
    speed, start = 8 * 1.01 * c_x**depth * math.sqrt(n), value(trace, "‖y - u(0)‖")
    twice = geometric(2 * c_x, depth)
    root = math.sqrt(SOFTPLUS.c_sigma)
    second = math.sqrt(n) * 16 * depth**2 * root * 4 * 1.01 * c_x**depth * twice * 0.25 * eta**2 * speed**2 * start**2
    square = (8 * n * 4 + 4 * n * (2 * root * 2 * 1.01**2 * twice) ** 2) * eta**2 * speed**2 * start**2
    assert second <= eta * 1e-3 * start / 8 * (1 + 1e-9)
    assert square <= eta * 1e-3 * start**2 / 8 * (1 + 1e-9)
    assert max(second / (eta * 1e-3 * start / 8), square / (eta * 1e-3 * start**2 / 8)) == pytest.approx(1)


def test_covariances_move_no_faster_than_the_constants_of_lemma_g_4():
    """Difference quotients of E[σσ] and E[σ'σ'] over random covariances, by quadrature."""
    common = du2019._Common(Trace(), DU, du_ask())
    values, slopes = common.slopes(0.5, 1.5)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = np.outer(weights, weights) / weights.sum() ** 2
    rng = np.random.default_rng(0)

    def means(a: float, b: float, rho: float) -> tuple[float, float]:
        u = math.sqrt(a) * nodes[:, None]
        v = math.sqrt(b) * (rho * nodes[:, None] + math.sqrt(1 - rho**2) * nodes)
        slope = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
        product = SOFTPLUS.value(u) * SOFTPLUS.value(v), slope(u) * slope(v)
        return float((weights * product[0]).sum()), float((weights * product[1]).sum())

    worst = [0.0, 0.0]
    for _ in range(40):
        a, b = rng.uniform(0.5, 1.5, 2)
        c = rng.uniform(-0.9, 0.9) * math.sqrt(a * b)
        gap = 1e-4
        near = means(a, b, c / math.sqrt(a * b))
        far = means(a + gap, b + gap, (c + gap) / math.sqrt((a + gap) * (b + gap)))
        worst = [max(w, abs(f - n) / gap) for w, f, n in zip(worst, far, near, strict=True)]
    assert 0.1 * values < worst[0] <= values
    assert 0.02 * slopes < worst[1] <= slopes


@pytest.mark.parametrize("t", [0.15, 0.3])
def test_norms_of_layers_deviate_no_more_than_bernstein_says(t):
    m, draws = 200, 20_000
    rng = np.random.default_rng(1)
    ratios = 2 / m * rng.chisquare(np.maximum(rng.binomial(m, 0.5, draws), 1))  # the law of ‖x_l‖²/‖x_{l-1}‖²
    seen = np.mean(np.abs(ratios - 1) >= t)
    assert seen <= 2 * math.exp(-m * t**2 / zou2018.BERNSTEIN)


def zou_step(x: float, trace: Trace, depth: int = 3) -> float:
    """What the first-order term of (C.4) takes of the descent at the radius that the proof needs, by Lemma 5.5."""
    n, phi = ZOU.n, value(trace, "φ")
    c_0, c_1, first = value(trace, "c_0"), value(trace, "c_1"), value(trace, "C_1 (C.4)")
    loss = value(trace, "L_S(W(0))")
    work = loss / zou2018.SHARE**2 + 1 / (0.01 * (n * zou2018.SHARE) ** 2)
    log_eta_k = math.log(2 * n**5 / (c_0 * phi) * work) - x  # (C.8): Kη for which the loss is ε
    # Lemma 5.5: the distance √(2Kη c1² L⁴ M n³ L_S(0)/(c0 m φ)) is the radius
    log_tau = 0.5 * (math.log(2 * c_1**2 * depth**4 * n**3 * loss / (c_0 * phi)) + log_eta_k)
    log_taken = math.log(first) + 20 / 3 * math.log(depth) + log_tau / 3 + 0.5 * math.log(x)
    return log_taken - math.log(c_0 * phi / (4 * n**3))


def test_theorem_4_1_asks_for_the_width_at_which_a_step_still_descends():
    trace = traced(lambda t: zou2018.deep_relu(t, ZOU, zou2018.ZouAsk(3, 0.01, 0.05)))
    x = trace.solve()
    assert trace.binding(x).lemma == "Lemma 5.5 and (C.8)"
    assert zou_step(x, trace) == pytest.approx(0, abs=1e-6)
    assert zou_step(x - 6 * math.log(2), trace) > 0.6  # m^(1/6): 64 times narrower, twice too much is taken


def test_the_constants_of_lemma_b_5_are_the_paper_s():
    trace = traced(lambda t: zou2018.deep_relu(t, ZOU, zou2018.ZouAsk(2, 0.01, 0.05)))
    assert value(trace, "c_0") == pytest.approx(1 / (8 * math.sqrt(32 * math.e) * 16 * 8), rel=1e-3)
    assert value(trace, "C_1 (C.4)") == pytest.approx(value(trace, "C_3 (E.3)") * value(trace, "C' (5.3 vi)"))


def test_the_exponents_of_theorems_4_1_and_4_5():
    def width(batch=None, **changes):
        facts = zou2018.ZouFacts(**{"n": 20, "d": 5, "phi": 0.3, "mu": 0.6} | changes)
        ask = zou2018.ZouAsk(2, 1e-9, 0.05, batch)
        return traced(lambda t: zou2018.deep_relu(t, facts, ask)).solve() / math.log(10)

    # With 1/ε in front: n^(26 - 2p) φ^-8 and n^(28 - 4p) φ^-8 (Theorems 4.1 and 4.5 at p = 1), logarithms aside
    assert width(n=2000) - width() == pytest.approx(2 * 24, abs=0.7)
    assert width(phi=0.03) - width() == pytest.approx(8, abs=0.3)
    assert width(batch=1, n=2000) - width(batch=1) == pytest.approx(2 * 24, abs=0.7)


def frei_distance(x: float, trace: Trace) -> float:
    """The surrogate error that A.1 guarantees over ε, when Kη is what keeps the weights within τ/2."""
    gamma, low, high = 0.08, value(trace, "C_3 (Lemma 4.3)"), value(trace, "C (Lemma 4.4)")
    rough, path, loss = value(trace, "C τ^(1/3) (Lemma 4.2)"), value(trace, "C' (5)"), value(trace, "L_S(W(0))")
    log_tau = 3 * (math.log(low * gamma**4 / (4 * rough * path)) - 0.5 * math.log(x))
    log_length = 2 * (log_tau - math.log(2)) - math.log(2 * loss * high**2 / low) + 4 * math.log(gamma)
    log_error = 0.5 * (math.log(2 * loss / (low * gamma**4)) - log_length - x)
    return log_error - math.log(0.1)


def test_theorem_3_5_asks_for_the_width_at_which_the_error_is_epsilon():
    trace = traced(lambda t: frei2019.residual_relu(t, FREI, frei2019.FreiAsk(4, 0.1, 0.05)))
    x = trace.solve()
    assert frei_distance(x, trace) == pytest.approx(0, abs=1e-6)
    assert frei_distance(x - 2 * math.log(2), trace) > 0.6


def test_the_exponents_of_theorem_3_5():
    def width(epsilon=0.1, gamma=0.08):
        facts, ask = frei2019.FreiFacts(25, 6, gamma), frei2019.FreiAsk(4, epsilon, 0.05)
        return traced(lambda t: frei2019.residual_relu(t, facts, ask)).solve() / math.log(10)

    assert width(gamma=0.008) - width() == pytest.approx(32, abs=1)  # γ^-32, and (log m)³
    assert width(epsilon=0.01) - width() == pytest.approx(2, abs=0.2)


def test_the_residual_scale_keeps_the_margin_and_the_products():
    theta = frei2019.residual_relu(Trace(), FREI, frei2019.FreiAsk(4, 0.1, 0.05))
    drift = 1.024 * 2 / math.sqrt(math.pi) + 0.05 + 3 * 1.01 * 3 / 2
    assert theta * 4 * drift <= FREI.gamma / 4 + 1e-12
    assert math.exp(3 * theta * 4) <= 1.01 + 1e-12


def rnn_ratio(x: float) -> float:
    """Lemma E.10, forwards: ρ^11 θ^(1/3) |N| m^(-1/6) over ρ^8, and Theorem 4's first-order term over its second."""
    delta = min(0.3, 1 / (1e6 * 4**2 * x**3))
    rho = math.log(3 * 4 * 2 * x)
    varrho = math.log(3 * 4 * 2 / delta * (x + math.log(100)))
    log_delta = math.log(delta)
    flips = 11 * rho + (log_delta - 5 * rho) / 3 + 42 * rho - 2 * log_delta - x / 6 - 8 * rho
    eta = log_delta - 44 * rho - x
    first = 11 * rho + 50 / 3 * varrho + x / 3 + 6 * rho + x / 2 + eta
    return max(flips, first - (30 * rho + 2 * eta + 2 * x))


def test_theorem_1_asks_for_what_its_powers_ask():
    trace = traced(lambda t: allenzhu2018.recurrent(t, RNN, allenzhu2018.AllenZhuAsk(0.01, 0.05)))
    x = trace.solve()
    assert rnn_ratio(x) == pytest.approx(0, abs=1e-6)
    assert rnn_ratio(x * 0.99) > 0.1
    assert {one.name for one in trace.constants if one.how == "taken as 1"} == {"O and Ω"}


def test_a_constant_costs_what_the_width_loses_without_it():
    write = lambda t: du2019.fully_connected(t, DU, du_ask())  # noqa: E731
    trace = traced(write)
    priced = {one.name: one.cost for one in costs(write, trace, trace.solve())}
    assert priced["λ0"] == pytest.approx(12)  # λ0^-4 at 1e-3
    assert priced["‖ΔG‖/(nR)"] == pytest.approx(2 * math.log10(value(trace, "‖ΔG‖/(nR)")))
    assert priced["C_2"] == 0  # Lemma B.1 does not bind


def test_requirements_that_no_width_meets_are_infinite():
    trace = Trace()
    trace.need("nowhere", "m >= 2m", lambda x: x + math.log(2))
    assert trace.solve() == math.inf
