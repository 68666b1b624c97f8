"""Theorems 1 and 2: gradient descent and SGD on real networks, from the random start to zero loss."""

from __future__ import annotations

import numpy as np

from wideproof.monitors.recurrent import tangent_kernel, unroll
from wideproof.papers.allenzhu2018 import printed
from wideproof.papers.allenzhu2018.gradients import AT_LIMIT, SMALL_DELTAS, delta_eigenvalues
from wideproof.papers.allenzhu2018.hypotheses import NARROW
from wideproof.papers.allenzhu2018.joint import AT_START, TRAINING
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, scales
from wideproof.papers.statement import Section, misprint
from wideproof.training import Run

statement = Section("convergence", "rnn")

ACCURACIES = 10.0 ** -np.arange(6, 15, 2)
AFTER = 1e-4  # steps are counted from this share of the first loss on: directions of large eigenvalues die before
RATE = 0.25  # the share of the start's rate that must be kept at every step


def training_widths(lab: Lab) -> tuple[int, ...]:
    """Return the widths that are trained."""
    return lab.grid((64, NARROW, 256), (128, 256, 512, 1024), (128, 256, 512, 1024, 2048))


def curve(run: Run) -> np.ndarray:
    """Return the objective at every step, until it is lost in rounding."""
    losses = np.asarray(run.records["loss"], float)
    return losses[losses > 1e-20 * losses[0]]


def steps_to(run: Run, accuracies: np.ndarray) -> np.ndarray:
    """Return the first step at which the loss is at most each share of its start; NaN where it never is."""
    losses = np.asarray(run.records["loss"], float) / run.records["loss"][0]
    reached = losses[None, :] <= accuracies[:, None]
    return np.where(reached.any(axis=1), reached.argmax(axis=1), np.nan)


def linear_in_log(title: str, runs: list[Run], accuracies: np.ndarray = ACCURACIES) -> Check:
    r"""Fit the number of steps from `AFTER` to $\varepsilon$ against $\log(1/\varepsilon)$ from there."""
    steps = np.array([steps_to(run, accuracies) - steps_to(run, np.array([AFTER])) for run in runs])
    return scales(title, "log(1/eps)", np.log(AFTER / accuracies), steps, 1.0)


def moved(run: Run) -> float:
    r"""Return $\|W^{(T)} - W^{(0)}\|_F$."""
    return float(np.linalg.norm(run.params["W"] - run.initial["W"]))


def predicted_distance(run: Run) -> float:
    r"""Return $(r^\top (K/m)^{-1} r)^{1/2}$ at the start, $r$ the residuals: $\sqrt m$ times the distance to zero
    loss.
    """
    seen = unroll(run.initial, run.data.x)
    residuals = (seen.outputs - run.data.y)[:, 1:].ravel()
    return float(np.sqrt(residuals @ np.linalg.solve(tangent_kernel(seen) / seen.width, residuals)))


def rate_of(run: Run) -> float:
    r"""Return $\eta\,\lambda_{\min}(K(W^{(0)}))$."""
    kernel = tangent_kernel(unroll(run.initial, run.data.x))
    return float(run.step_size * np.linalg.eigvalsh(kernel)[0])


def printed_width(lab: Lab) -> Check:
    r"""Compare the width with $\varrho$, of which the theorem asks a large power."""
    n, length = lab.training_data().x.shape[:2]
    width = training_widths(lab)[-1]
    varrho = n * length * np.log(width / ACCURACIES[-1])  # d = delta = 1
    return at_least("m, against varrho^2", width, varrho**2)


@statement("Gradient descent: linear rate, steps ∝ log(1/ε) and free of m, distance ∝ 1/√m", "scale")
@misprint("the polynomial of the step size belongs into its denominator, as in Appendix H; log(1/ε) is log(f(W(0))/ε)")
def theorem_1(lab: Lab) -> Check:
    r"""Gradient descent with $\eta = \tilde\Theta(\delta/m)$ reaches $f(W^{(T)}) \le \varepsilon$ after
    $T = \mathrm{poly}\cdot\delta^{-2}\log(1/\varepsilon)$ steps.

    Linear rate at every step, steps proportional to $\log(1/\varepsilon)$ and independent of $m$ at fixed $\eta m$, and
    $\|W^{(T)} - W^{(0)}\|_F \le O(1/\sqrt m)$.
    """
    widths = training_widths(lab)
    runs = [lab.runs(m) for m in widths]
    every = [run for several in runs for run in several]
    growth = [(curve(run)[1:] / curve(run)[:-1]).max() for run in every]
    steps = np.array([[steps_to(run, np.array([1e-6]))[0] for run in several] for several in runs])
    far = np.array([[moved(run) / predicted_distance(run) for run in several] for several in runs])
    step_sizes = np.array([[run.step_size * m for run in several] for several, m in zip(runs, widths, strict=True)])
    return conclude(
        at_most("worst f(t+1)/f(t), against 1 - eta lambda_min/4", growth, [1 - RATE * rate_of(run) for run in every]),
        linear_in_log("steps to eps f(0)", every),
        scales("steps to 1e-6 f(0)", "m", widths, steps.T, 0.0),
        scales("distance from the start over (r' (K/m)^-1 r)^(1/2)", "m", widths, far.T, -0.5),
        scales("eta m at the step size used", "m", widths, step_sizes.T, 0.0, sense="at least"),
        scales("rate per step over eta m, at infinite width", "delta", SMALL_DELTAS, delta_eigenvalues(lab), 1.0,
            lower=True),
        TRAINING.check(lab),
        *printed.trained(runs[0][0]),
        hypotheses=[printed_width(lab)],
        assumptions=(
            "eta = 1/lambda_max(K(W(0))): the printed delta/(rho^44 m) is below 1e-60",
            f"eps relative to f(W(0)), {ACCURACIES[0]:g} to {ACCURACIES[-1]:g}", AT_LIMIT,
        ),
    )  # fmt: skip


def radius(lab: Lab) -> float:
    r"""Return $\log_{10} \varrho^{50}$, $\sqrt m$ times the radius that (I.1) allows, at the width that SGD trains."""
    n, length = lab.training_data().x.shape[:2]
    return float(50 * np.log10(n * length * np.log(NARROW / ACCURACIES[-1])))


def sgd_runs(lab: Lab, batch: int) -> list[Run]:
    """Return the runs with minibatches of this size, at one width."""
    return lab.runs(NARROW, batch, steps=2400 // batch)


@statement("SGD with any batch size: linear rate without a noise floor", "scale")
@misprint("the batch sums ∇f_i, scaled by n over its size; printed once with ∇f")
def theorem_2(lab: Lab) -> Check:
    r"""SGD with minibatches, $W^{(t+1)} = W^{(t)} - \eta\frac{n}{|S_t|}\sum_{i\in S_t}\nabla f_i(W^{(t)})$, converges
    at the same kind of rate.

    Batches of 1, 2 and 4 of 4 sequences. There is no noise floor, since one $W$ minimizes every $f_i$; a batch of all
    sequences is gradient descent.
    """
    parts = []
    for batch in (1, 2, 4):
        runs = sgd_runs(lab, batch)
        parts.append(linear_in_log(f"steps to eps f(0), batch {batch}", runs))
        ends = np.array([curve(run)[-1] / curve(run)[0] for run in runs])
        parts.append(at_most(f"loss at the end over the start, batch {batch}", ends, 1e-3))
        jumps = [(curve(run)[1:] / curve(run)[:-1]).max() for run in runs]
        # one step changes the batch's residuals by at most eta n/b lambda_max of themselves
        parts.append(at_most(f"worst f(t+1)/f(t), batch {batch}", jumps, (1 + lab.training_data().n / batch) ** 2))
        far = [np.log10(moved(run) * np.sqrt(NARROW)) for run in runs]
        parts.append(at_most(f"log10 of the distance times sqrt(m), against (I.1), batch {batch}", far, radius(lab)))
    whole, plain = sgd_runs(lab, 4), lab.runs(NARROW)
    paths = [[run.records["loss"] for run in runs] for runs in (whole, plain[: len(whole)])]
    parts.append(identity("batch of all sequences, against gradient descent", *paths, tolerance=1e-15))
    return conclude(
        *parts,
        *printed.trained(plain[0]),
        hypotheses=[printed_width(lab)],
        assumptions=("eta = b/(n max_i lambda_max(K_ii)) or 1/lambda_max(K): the printed step is below 1e-15",),
    )


@statement("Enough width makes GD and SGD fit sequences to any accuracy at a linear rate", "scale")
def theorem_informal(lab: Lab) -> Check:
    r"""If $m \ge \mathrm{poly}(n, d, L, \delta^{-1}, \log\varepsilon^{-1})$, GD and SGD reach error $\varepsilon$ in
    $\mathrm{poly}\cdot\delta^{-2}\log\varepsilon^{-1}$ steps.
    """
    return conclude(
        theorem_1(lab),
        theorem_2(lab),
        AT_START.check(lab),
        hypotheses=[printed_width(lab)],
        title="GD and SGD converge linearly",
    )
