r"""The widths of Theorems 6.1 and 7.1, solved from the lemmas, with their unspecified constants put to 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from wideproof.papers.check import Check, at_most, conclude, identity
from wideproof.papers.du2019.lab import Lab
from wideproof.papers.statement import Section, misprint

statement = Section("hypothesis", "resnet_smooth")


def solved(n: float, depth: float, lambda_0: float, delta: float) -> np.ndarray:
    r"""Return the least widths of: movement small for the block, for the weights; norms at the start; concentration.

    The weights move by $R' = n/(H\lambda_0\sqrt m)$ (Lemma C.5 with $\|e(0)\| = \sqrt n$), and may move by
    $c\lambda_0H^2/n$ (Lemma C.4) and by a constant; norms fail with probability $n/(m\delta)$ of $\delta$ (Lemma C.1),
    and the block is off by $H^{-2}n\sqrt{\log(Hn/\delta)/m}$ where $\lambda_0$ may contain another $H^{-2}$.
    """
    moved = lambda m: n / (depth * lambda_0 * np.sqrt(m))  # noqa: E731
    asked = (
        lambda m: moved(m) - lambda_0 * depth**2 / n,
        lambda m: moved(m) - 1,
        lambda m: n / m - delta,
        lambda m: n * np.sqrt(np.log(depth * n / delta) / m) - lambda_0,
    )
    roots: list[Any] = [brentq(lambda log_m, f=f: f(np.exp(log_m)), -30.0, 200.0) for f in asked]
    return np.exp(np.array(roots, float))


def _cases(lab: Lab) -> list[tuple[float, float, float, float]]:
    rng = lab.rng("widths")
    return [
        (float(rng.integers(2, 1000)), float(rng.integers(2, 100)), 10 ** rng.uniform(-6, 0), 10 ** rng.uniform(-3, 0))
        for _ in range(lab.pick(40, 200, 1000))
    ]


@statement("The width of the residual theorem", "exact")
@misprint("the fourth term is larger than needed: block and limit both carry 1/H²")
def eq_9(lab: Lab) -> Check:
    r"""$m = \Omega\big(\max\{\frac{n^4}{\lambda_0^4H^6}, \frac{n^2}{\lambda_0^2H^2}, \frac n\delta,
    \frac{n^2\log(Hn/\delta)}{\lambda_0^2}\}\big)$.

    Each term is the least width that its lemma asks for, solved numerically.
    """
    found = []
    for n, depth, lambda_0, delta in _cases(lab):
        log = np.log(depth * n / delta)
        printed = [
            n**4 / (lambda_0**4 * depth**6),
            n**2 / (lambda_0**2 * depth**2),
            n / delta,
            n**2 * log / lambda_0**2,
        ]
        found.append(solved(n, depth, lambda_0, delta) / printed)
    return conclude(
        identity("widths that the lemmas ask for over the four terms", found, 1.0, tolerance=1e-9),
        assumptions=("constants 1; n up to 1000, H up to 100, λ0 from 1e-6, δ from 0.001",),
    )


@Section("hypothesis", "conv_resnet")("The width of the convolutional theorem", "bound")
@misprint("n⁴/(λ0⁴H²) where the proof gives n²/(λ0²H²)")
def eq_11(lab: Lab) -> Check:
    r"""$m = \Omega\big(\max\{\frac{n^4}{\lambda_0^4H^6}, \frac{n^4}{\lambda_0^4H^2}, \frac n\delta,
    \frac{n^2\log(Hn/\delta)}{\lambda_0^2}\}\,\mathrm{poly}(p)\big)$ is enough: each term is at least what its
    lemma asks for, since $\lambda_0 \le n$.
    """
    found = []
    for n, depth, lambda_0, delta in _cases(lab):
        first, log = n**4 / lambda_0**4, np.log(depth * n / delta)
        printed = [first / depth**6, first / depth**2, n / delta, n**2 * log / lambda_0**2]
        found.append((solved(n, depth, lambda_0, delta), np.array(printed) * (1 + 1e-9)))
    needed, printed = (np.concatenate(side) for side in zip(*found, strict=True))
    return conclude(
        at_most("width that the lemma asks for <= printed term", needed, printed, counts=True),
        assumptions=("constants and poly(p) 1; n up to 1000, H up to 100, λ0 from 1e-6 to 1, δ from 0.001",),
    )
