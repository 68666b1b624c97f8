"""Misprints and gaps of Allen-Zhu et al. (2018) that change a number: main text and appendices."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import erfc

from wideproof.monitors.recurrent import objective
from wideproof.papers.allenzhu2018.convergence import curve
from wideproof.papers.allenzhu2018.distributions import excess_mean, good_probability, rectified_cdf, rectified_tail
from wideproof.papers.allenzhu2018.errata_appendix import erratum as appendix
from wideproof.papers.allenzhu2018.hypotheses import NARROW, sharing
from wideproof.papers.allenzhu2018.initialization import SHORT, lemma_b_7, separations
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.allenzhu2018.percentiles import lemma_a_13, lemma_a_17
from wideproof.papers.allenzhu2018.probability import fact_a_2, failing_tables, lemma_a_18
from wideproof.papers.allenzhu2018.smoothness import beyond_linear, centre, remainder
from wideproof.papers.check import agrees, at_least, at_most, frequency, identity, law
from wideproof.papers.errata import Decision, Entries

erratum = Entries("allenzhu2018")


@erratum("Definition 2.2", "h = D W h_{l-1}", "h = D (W h_{l-1} + A x_l)", "definition_2_2")
def inputs_omitted(lab: Lab) -> Decision:
    """Definition 2.2's consequence needs the inputs."""
    seen = lab.start(NARROW).seen
    before = np.concatenate([np.zeros_like(seen.h[:, :1]), seen.h[:, :-1]], axis=1)
    recurrent = before @ seen.W.T
    return Decision(
        identity("h = D W h", seen.h, seen.mask * recurrent),
        identity("h = D (W h + A x)", seen.h, seen.mask * (recurrent + seen.x @ seen.A.T)),
    )


@erratum("Theorem 1", "step size (delta/m) poly(n, d, L)", "(delta/m) / poly(n, d, L)", "theorem_1")
def step_size_reading(lab: Lab) -> Decision:
    """The polynomial of Theorem 1's step size is in the denominator."""
    data = lab.training_data()
    n, length = data.x.shape[:2]
    plain = lab.runs(NARROW)[0]
    large = n * length / NARROW / plain.step_size  # delta n L / m, over the step size in use
    wild = np.asarray(lab.runs(NARROW, steps=5, constant=large)[0].records["loss"])
    return Decision(
        at_most("loss after 5 steps of delta n L / m", wild[: 1 + int(np.isfinite(wild).sum())].max(), wild[0]),
        at_most("loss after 5 steps of 1/lambda_max", curve(plain)[5], curve(plain)[0]),
    )


@erratum("Theorems 1, 2", "T >= ... log(1/eps)", "T >= ... log(f(W(0))/eps)", "theorem_1")
def accuracy_one(lab: Lab) -> Decision:
    """At accuracy 1 the printed number of steps is 0: the start's loss belongs into the logarithm."""
    run = lab.runs(NARROW)[0]
    losses = curve(run)
    rate = 2 * np.log(losses[100] / losses[200]) / 200  # per step, after the transient
    steps = int(np.ceil(np.log(losses[0]) / rate))
    return Decision(
        at_most("f after log(1/eps) = 0 steps, eps = 1", losses[0], 1.0),
        at_most("f after log(f(0)/eps) / rate steps", losses[steps], 1.0),
    )


@erratum("Section 4", "||W|| is 2 and ||DW|| is sqrt 2", "2 sqrt 2 and 1 + sqrt 2 for variance 2/m", "eq_4_4")
def norm_of_w(lab: Lab) -> Decision:
    """The spectral norms of W and DW for variance 2/m."""
    found = []
    for seed in lab.seeds:
        seen = lab.start(lab.width, seed=seed).seen
        found.append((seen.product_norm(0, 3, 2, extra=True), seen.product_norm(0, 2, 2)))
    mean = np.mean(found, axis=0)
    return Decision(
        agrees("||W|| and ||DW||, against 2 and sqrt 2", mean, [2, np.sqrt(2)], tolerance=0.1),
        agrees("||W|| and ||DW||, against 2 sqrt 2 and 1 + sqrt 2", mean, [np.sqrt(8), 1 + np.sqrt(2)], tolerance=0.1),
    )


@erratum("Section 4, below (4.3)", "h_{i,1} and h_{j,1} are delta-separable", "delta/2-separable", "eq_4_3")
def first_layer_separable(lab: Lab) -> Decision:
    """The first hidden states are not delta-separable for first tokens delta apart, but delta/2-separable."""
    delta = 0.4
    found = [separations(lab, delta, SHORT, "zero", lab.widths[-1], seed)[1] for seed in lab.seeds]
    return Decision(
        at_least("separability of the first states, against delta", found, delta),
        at_least("separability of the first states, against delta/2", found, delta / 2),
    )


@erratum(
    "Footnote 10",
    "different targets at one of the shared times leave a loss",
    "at one of the shared times from the second on",
    "footnote_10",
)
def first_target(lab: Lab) -> Decision:
    """Targets at time 1 never enter the loss, so that a contradiction there costs nothing."""
    data = sharing(lab, 2)
    y = data.y.copy()
    y[1, 1] = y[0, 1]  # equal targets at time 2, different ones at time 1
    best = y.copy()
    best[:2, 0] = y[:2, 0].mean(axis=0)
    floor = objective(best, y)
    other = data.y.copy()
    other[:2, 1] = data.y[:2, 1].mean(axis=0)
    return Decision(
        at_least("least loss, targets differ at time 1", floor, 1e-6),
        at_least("least loss, targets differ at time 2", objective(other, data.y), 1e-6),
    )


@erratum("(7.2)", "f(W) and its gradient at W", "f and its gradient at W_c", "eq_7_2")
def remainder_at_end(lab: Lab) -> Decision:
    """Formula (7.2) is for f and its gradient at W_c, not at W = W_c + W'."""
    at = centre(lab, NARROW, 0)
    change = 4 / NARROW * lab.rng("erratum").standard_normal((NARROW, NARROW)) / 2
    terms = beyond_linear(at, change)
    return Decision(
        identity("remainder at W, against the sum", -at.at(change).gradient.pair(change), terms, tolerance=1e-9),
        identity("remainder at W_c, against the sum", remainder(at, change), terms, tolerance=1e-9),
    )


@erratum("Fact A.2", "any f", "f >= 0", "fact_a_2")
def negative_values(lab: Lab) -> Decision:
    """Fact A.2 needs a nonnegative function."""
    table = failing_tables(lab, 0.25)[0]
    values = np.where(table > 0, 1.0, -1.0)
    share = (values.mean(axis=1) >= table.mean() / 2).mean()
    return Decision(
        at_least("share of X with E_Y f >= a eps/2, f = -1 or 1", share, table.mean() / 2),
        fact_a_2(lab),
    )


@erratum("Lemma A.5, proof", "E y is an integral of (x - g)^2 above g", "of x^2 - g^2, on both sides", "lemma_a_5")
def excess_integral(lab: Lab) -> Decision:
    """The mean of the excess in Lemma A.5 is an integral of x^2 - g^2 over both sides."""
    m = 64
    drawn = np.maximum(lab.rng("excess mean").standard_normal((400, 2000)) ** 2 - np.log(m), 0).mean(axis=1)
    g = np.sqrt(np.log(m))
    printed = (g * g + 1) * erfc(g / np.sqrt(2)) / 2 - np.exp(-g * g / 2) * g / np.sqrt(2 * np.pi)
    return Decision(
        law("mean excess, m = 64, against the printed integral", drawn, printed),
        law("mean excess, m = 64, against 2 [g phi(g) + (1 - g^2) Q(g)]", drawn, excess_mean(m)),
    )


@erratum("Lemma A.8", "phi(a) = max(a, 0)^2", "phi(a) = max(a, 0)", "lemma_a_8")
def squared_relu(lab: Lab) -> Decision:
    """Lemma A.8 is for the ReLU, not for its square."""
    x = np.maximum(lab.rng("squared").standard_normal((200, 1000)), 0)
    limit, claimed = np.sqrt(500), 1 - 2 * np.exp(-0.25 * 1000 / 100)
    counts = [int((np.abs(np.linalg.norm(x**power, axis=1) / limit - 1) < 0.5).sum()) for power in (2, 1)]
    return Decision(
        frequency("||max(x, 0)^2|| within half of sqrt(n/2)", counts[0], 200, claimed),
        frequency("||max(x, 0)|| within half of sqrt(n/2)", counts[1], 200, claimed),
    )


@erratum("Corollary A.9, proof", "probability 1 - 2 exp(-eps m/100)", "1 - 2 exp(-eps^2 m/100)", "corollary_a_9")
def deviation_exponent(lab: Lab) -> Decision:
    """The exponent in the proof of Corollary A.9 is quadratic in the deviation."""
    m, epsilon = 100_000, 0.01
    tail = float(rectified_tail((1 + epsilon) ** 2 * m / 2, m) + rectified_cdf((1 - epsilon) ** 2 * m / 2, m))
    return Decision(
        at_most("both tails at eps = 0.01, m = 1e5, against 2 exp(-eps m/100)", tail, 2 * np.exp(-epsilon * m / 100)),
        at_most("the same, against 2 exp(-eps^2 m/100)", tail, 2 * np.exp(-(epsilon**2) * m / 100)),
    )


@erratum("Fact A.12", "both bounds for every mean", "the lower bound for every mean, both for mean 0", "fact_a_12")
def other_means(lab: Lab) -> Decision:
    """With another mean only the lower bound of Fact A.12 is true."""
    t = np.linspace(0.1, 1, 10)
    far = stats.norm.sf(t, loc=3) + stats.norm.cdf(-t, loc=3)
    return Decision(
        at_most("Pr[|x| >= t] at mean 3 sigma, from above", far, 1 - 2 * t / 3),
        at_least("Pr[|x| >= t] at mean 3 sigma, from below", far, 1 - 4 * t / 5),
    )


@erratum("Lemma A.13", "every m and alpha < 1/2", "alpha m >= 1", "lemma_a_13")
def odd_sizes(lab: Lab) -> Decision:
    """For odd m and alpha below 1/m, Lemma A.13 asks for more coordinates than there are."""
    m, alpha = 101, 0.005
    return Decision(
        at_least(
            "probability at m = 101, alpha = 0.005",
            good_probability(m, alpha, 5 * alpha / 16),
            -np.expm1(-(alpha**2) * m / 100),
        ),
        lemma_a_13(lab),
    )


@erratum("Lemma A.17", "d <= s", "n <= s", "lemma_a_17")
def too_many_columns(lab: Lab) -> Decision:
    """Lemma A.17 needs as many as n columns' worth of sparsity, not d."""
    m = n = 4096
    row = np.sqrt(2 / m) * lab.rng("row").standard_normal(n)
    rest = np.linalg.norm(row) - np.log(m) / np.sqrt(m)  # x along the row: the entry beyond what y_2 can hold
    return Decision(
        at_most("||y_1|| for n = m, s = d = 1", rest, np.log(m) ** 2 / np.sqrt(m)),
        lemma_a_17(lab),
    )


@erratum("Lemma A.18", "tails at least exp(-2t^2/...) and exp(+2t^2/...)", "at most exp(-2t^2/...), both", "lemma_a_18")
def reversed_tails(lab: Lab) -> Decision:
    """McDiarmid's inequality bounds the tails from above, with a negative exponent on both sides."""
    n, t = 100, np.linspace(0.05, 0.3, 6)
    upper = stats.binom.sf(np.ceil(n * (0.5 + t) - 1e-9) - 1, n, 0.5)
    return Decision(
        at_least("upper tail of 100 tosses, against exp(-2 n t^2)", upper, np.exp(-2 * n * t**2)),
        lemma_a_18(lab),
    )


@erratum("Lemma B.3", "(1 - 1/(4L))^l", "(1 - 1/(4L))^(l+1)", "lemma_b_3")
def first_step(lab: Lab) -> Decision:
    """Lemma B.3's lower bound at the first time is 1 - 1/(4L), not 1."""
    seeds, width = lab.many, lab.widths[-1]
    norms = np.array([np.linalg.norm(lab.start(width, seed=seed).seen.h[:, 0], axis=-1) for seed in seeds])
    return Decision(
        at_least("||h_1||, against (1 - 1/(4L))^0", norms, 1.0),
        at_least("||h_1||, against (1 - 1/(4L))^1 for L = 2", norms, 1 - 1 / 8),
    )


@erratum("Lemma B.7", "alpha >= 1/(100 L^4)", "m large enough for alpha; used with smaller alpha", "lemma_b_7")
def alpha_range(lab: Lab) -> Decision:
    """Lemma B.6 uses Lemma B.7 with an alpha below the range that it is stated for."""
    length, m = lab.length, lab.widths[-1]
    return Decision(
        at_least(
            "alpha of Lemma B.6, against 1/(100 L^4)",
            1 / (2e4 * length**2 * np.log(m) ** 2),
            1 / (100 * length**4),
        ),
        lemma_b_7(lab),
    )


@erratum("Claim B.10", "factor 1 - 3 alpha", "1 - 2 alpha - 1/(4L)", "claim_b_10")
def one_step_factor(lab: Lab) -> Decision:
    """One step of separability keeps 1 - 2 alpha - 1/(4L), not 1 - 3 alpha."""
    delta, width = 1e-6, lab.widths[-1]
    found = np.array([separations(lab, delta, SHORT, "zero", width, seed) for seed in lab.seeds])
    alpha = 16 * delta * np.log(width)
    return Decision(
        at_least("separability one step later, against 1 - 3 alpha", found[:, 1:], (1 - 3 * alpha) * found[:, :-1]),
        at_least(
            "separability one step later, against 1 - 2 alpha - 1/(4L)",
            found[:, 1:],
            (1 - 2 * alpha - 1 / (4 * SHORT)) * found[:, :-1],
        ),
    )


erratum += appendix
