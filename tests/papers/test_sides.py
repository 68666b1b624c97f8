"""Sides of comparisons whose outcome alone would not tell a wrong one: each by another route."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from tests.papers.labs import quick
from wideproof.papers.allenzhu2018 import errata as recurrent_errata
from wideproof.papers.allenzhu2018.initialization import lemma_b_7
from wideproof.papers.du2019 import convergence as smooth
from wideproof.papers.frei2019 import convergence as residual


def test_the_printed_integral_of_the_excess():
    """The square of x - g over one side, where x² - g² over both was meant."""
    g = np.sqrt(np.log(64))
    wanted = quad(lambda x: (x - g) ** 2 * norm.pdf(x), g, np.inf)[0]
    decision = recurrent_errata.excess_integral(quick("allenzhu2018"))
    assert decision.printed.right == pytest.approx(wanted, rel=1e-9)


def test_noise_off_a_few_directions_is_no_longer_than_the_noise():
    """ReLU moves by no more than its argument does, and projecting shortens: r‖v‖ ≈ r√2 bounds what is left."""
    check = next(leaf for leaf in lemma_b_7(quick("allenzhu2018")).leaves() if "projected norm" in leaf.title)
    r = 2e-5 / (16 * np.log(10**6))
    assert check.left is not None
    assert 0.5 * r < check.left < 1.01 * np.sqrt(2) * r


def test_the_constant_of_theorem_3_5_by_a_loop():
    errors = np.array([3.0, 1.0, 2.0, 0.9, 0.1])
    lab = SimpleNamespace(rate=0.3, surrogates=lambda width, seed: errors)
    wanted = max(np.sqrt(k * 0.3) * min(errors[:k]) for k in range(1, 5))
    assert residual._constant(lab, 8, 0) == pytest.approx(wanted, rel=1e-12)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("share", "outcome"), [(0.999, "holds"), (1.001, "fails")])
def test_the_change_of_outputs_is_compared_with_an_eighth(share, outcome):
    """Outputs that move by just less, and just more, than ηλ0‖e‖²/8 allows."""
    eta, lambda_0, residuals = 0.02, 0.7, np.array([[3.0, 1.0], [2.0, -1.0], [1.5, 0.5]])
    steps = np.sqrt(share * eta * lambda_0 * np.sum(residuals[:-1] ** 2, axis=1) / 8)
    outputs = np.zeros((3, 2))
    outputs[1:, 0] = np.cumsum(steps)
    lab = SimpleNamespace(
        lambda_0=lambda network, x: lambda_0, trainee=lambda kind: None, data=lambda kind: SimpleNamespace(x=None),
        runs=lambda kind, rule: [SimpleNamespace(outputs=outputs, residuals=residuals, step_size=eta)],
        step_size=lambda kind, rule: eta,
    )  # fmt: skip
    assert smooth._change(lab, "fully-connected").outcome.value == outcome  # pyright: ignore[reportArgumentType]
