"""Errata of Allen-Zhu et al. (2018), version 4 of the preprint: main text and appendices A and B."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import erfc

from wideproof.monitors.recurrent import objective
from wideproof.papers.allenzhu2018.convergence import curve
from wideproof.papers.allenzhu2018.distributions import excess_mean, good_probability
from wideproof.papers.allenzhu2018.errata_appendix import erratum as appendix
from wideproof.papers.allenzhu2018.hypotheses import NARROW, sharing
from wideproof.papers.allenzhu2018.initialization import lemma_b_7
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.allenzhu2018.percentiles import lemma_a_13, lemma_a_17
from wideproof.papers.allenzhu2018.probability import fact_a_2, failing_tables, lemma_a_18
from wideproof.papers.allenzhu2018.smoothness import beyond_linear, centre, remainder
from wideproof.papers.check import agrees, at_least, at_most, frequency, identity, law
from wideproof.papers.errata import Decision, Entries, Fault

erratum = Entries("allenzhu2018")


@erratum(
    "Definition 2.2",
    "h = D W h_{l-1}",
    "h = D (W h_{l-1} + A x_l)",
    "definition_2_2",
    fault=Fault.MISPRINT,
    place="Section 2.1, Definition 2.2, again in Appendix B",
    quotation=r"As a result, we can write $h_{i,\ell} = D_{i,\ell} W h_{i,\ell-1}$ .",
    under="networks as in Definition 2.3, tokens of norm 1",
)
def inputs_omitted(lab: Lab) -> Decision:
    """Definition 2.2's consequence needs the inputs."""
    seen = lab.start(NARROW).seen
    before = np.concatenate([np.zeros_like(seen.h[:, :1]), seen.h[:, :-1]], axis=1)
    recurrent = before @ seen.W.T
    return Decision(
        identity("h = D W h", seen.h, seen.mask * recurrent),
        identity("h = D (W h + A x)", seen.h, seen.mask * (recurrent + seen.x @ seen.A.T)),
    )


@erratum(
    "Theorem 1",
    "step size (delta/m) poly(n, d, L)",
    "(delta/m) / poly(n, d, L), as in Appendix H",
    "theorem_1",
    fault=Fault.INCONSISTENCY,
    place="Section 3, Theorem 1; Theorem 2 has the same",
    quotation=r"Suppose $\eta = \tilde{\Theta}(\frac{\delta}{m} \text{poly}(n, d, L))$",
    under="the polynomial n L, far narrower networks than the theorem asks for",
)
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


@erratum(
    "Theorems 1, 2",
    "T >= ... log(1/eps) for every eps in (0, 1], that is 0 steps for eps = 1",
    "T >= ... log(f(W(0))/eps); the proofs have log(n L^2/eps). For eps <= 1/2 the difference is a logarithmic factor",
    "theorem_1",
    fault=Fault.INCONSISTENCY,
    place="Appendix H, Theorem 1 restated; Theorem 2 restated has the same",
    quotation=r"T \in \left[ \frac{\rho^{59}}{\delta^2} \log \frac{1}{\varepsilon},",
    under="eps = 1, the end of the interval that is allowed; far narrower networks than the theorem asks for",
)
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


@erratum(
    "Section 4",
    "||W|| is 2 and ||DW|| is sqrt 2",
    "2 sqrt 2 and 1 + sqrt 2 for variance 2/m; the argument there needs no more than that they exceed 1",
    "eq_4_4",
    fault=Fault.MISPRINT,
    place="Section 4, below (4.5)",
    quotation=r"the spectral norm of $W$ is 2, and even if ReLU activations cancel half of its mass,",
    under="entries N(0, 2/m) as in Definition 2.3, the laboratory's width, to 10 %",
)
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


@erratum(
    "Footnote 10",
    "different targets at one of the shared times leave a loss",
    "at one of the shared times from the second on",
    "footnote_10",
    fault=Fault.MISPRINT,
    place="Section 4, footnote 10",
    quotation=r"if $y_{i,\ell}^* \neq y_{j,\ell}^*$ for even just one of these layers, then there is no hope",
    under="sequences that agree at times 1 and 2; the objective sums from time 2 on",
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


@erratum(
    "(7.2)",
    "f(W) and its gradient at W",
    "f and its gradient at W_c, as in the next line of Appendix G",
    "eq_7_2",
    fault=Fault.MISPRINT,
    place="Section 7, (7.2), again in Appendix G",
    quotation=r"f(\check{W} + W') - f(W) - \langle \nabla f(W), W' \rangle",
    under="W = W_c + W' as Section 7 defines it, a narrow network",
)
def remainder_at_end(lab: Lab) -> Decision:
    """Formula (7.2) is for f and its gradient at W_c, not at W = W_c + W'."""
    at = centre(lab, NARROW, 0)
    change = 4 / NARROW * lab.rng("erratum").standard_normal((NARROW, NARROW)) / 2
    terms = beyond_linear(at, change)
    return Decision(
        identity("remainder at W, against the sum", -at.at(change).gradient.pair(change), terms, tolerance=1e-9),
        identity("remainder at W_c, against the sum", remainder(at, change), terms, tolerance=1e-9),
    )


@erratum(
    "Fact A.2",
    "any f",
    "f >= 0",
    "fact_a_2",
    fault=Fault.GAP,
    place="Appendix A.1, Fact A.2",
    quotation=r"If $\Pr_{X, Y} [f(X, Y) \geq a] \geq \varepsilon$ , then*",
    under="a function with values -1 and 1 on a table, a = 1",
)
def negative_values(lab: Lab) -> Decision:
    """Fact A.2 needs a nonnegative function."""
    table = failing_tables(lab, 0.25)[0]
    values = np.where(table > 0, 1.0, -1.0)
    share = (values.mean(axis=1) >= table.mean() / 2).mean()
    return Decision(
        at_least("share of X with E_Y f >= a eps/2, f = -1 or 1", share, table.mean() / 2),
        fact_a_2(lab),
    )


@erratum(
    "Lemma A.5, proof",
    "E y is an integral of (x - g)^2 above g",
    "of x^2 - g^2, on both sides; the bound 1/sqrt m that follows holds for m = 64 too",
    "lemma_a_5",
    fault=Fault.MISPRINT,
    place="Appendix A.2, proof of Lemma A.5",
    quotation=r"\exp\left(-\frac{x^2}{2}\right) (x-g)^2",
    under="m = 64, y = max(x^2 - log m, 0) as the lemma defines it",
)
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


@erratum(
    "Lemma A.8",
    "phi(a) = max(a, 0)^2",
    "phi(a) = max(a, 0)",
    "lemma_a_8",
    fault=Fault.MISPRINT,
    place="Appendix A.3, Lemma A.8",
    quotation=r"let $\phi(a) = \max(a, 0)^2$ . We have",
    under="n = 1000, sigma = 1, epsilon = 1/2",
)
def squared_relu(lab: Lab) -> Decision:
    """Lemma A.8 is for the ReLU, not for its square."""
    x = np.maximum(lab.rng("squared").standard_normal((200, 1000)), 0)
    limit, claimed = np.sqrt(500), 1 - 2 * np.exp(-0.25 * 1000 / 100)
    counts = [int((np.abs(np.linalg.norm(x**power, axis=1) / limit - 1) < 0.5).sum()) for power in (2, 1)]
    return Decision(
        frequency("||max(x, 0)^2|| within half of sqrt(n/2)", counts[0], 200, claimed),
        frequency("||max(x, 0)|| within half of sqrt(n/2)", counts[1], 200, claimed),
    )


@erratum(
    "Fact A.12",
    "both bounds for every mean",
    "the lower bound for every mean, both for mean 0; the proofs use no more",
    "fact_a_12",
    fault=Fault.MISPRINT,
    place="Appendix A.4, Fact A.12, second part",
    quotation=r"Similarly, if $x \sim \mathcal{N}(\mu, \sigma^2)$ , for any $t \in (0, \sigma]$ , we have",
    under="sigma = 1, mean 3, t from 0.1 to 1",
)
def other_means(lab: Lab) -> Decision:
    """With another mean only the lower bound of Fact A.12 is true."""
    t = np.linspace(0.1, 1, 10)
    far = stats.norm.sf(t, loc=3) + stats.norm.cdf(-t, loc=3)
    return Decision(
        at_most("Pr[|x| >= t] at mean 3 sigma, from above", far, 1 - 2 * t / 3),
        at_least("Pr[|x| >= t] at mean 3 sigma, from below", far, 1 - 4 * t / 5),
    )


@erratum(
    "Lemma A.13",
    "every m and alpha < 1/2",
    "alpha m >= 1",
    "lemma_a_13",
    fault=Fault.GAP,
    place="Appendix A.4, Lemma A.13",
    quotation=r"For any $\alpha \in (0, 1/2)$ , we have with probability at least $1 - \exp(-\alpha^2 m/100)$ ,",
    under="m = 101 and alpha = 0.005, where a probability of 2.5e-05 is claimed for more coordinates than there are",
)
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


@erratum(
    "Lemma A.17",
    "d <= s",
    "n <= s",
    "lemma_a_17",
    fault=Fault.MISPRINT,
    place="Appendix A.5, Lemma A.17; W is m by n, and there is no d",
    quotation=r"Given $d \leq s \leq m$",
    under="d read as the output dimension 1, n = m = 4096; the row of W itself as x",
)
def too_many_columns(lab: Lab) -> Decision:
    """Lemma A.17 needs as many as n columns' worth of sparsity, not d."""
    m = n = 4096
    row = np.sqrt(2 / m) * lab.rng("row").standard_normal(n)
    rest = np.linalg.norm(row) - np.log(m) / np.sqrt(m)  # x along the row: the entry beyond what y_2 can hold
    return Decision(
        at_most("||y_1|| for n = m, s = d = 1", rest, np.log(m) ** 2 / np.sqrt(m)),
        lemma_a_17(lab),
    )


@erratum(
    "Lemma A.18",
    "tails at least exp(-2t^2/...) and exp(+2t^2/...)",
    "at most exp(-2t^2/...), both, which is McDiarmid's inequality and what is used",
    "lemma_a_18",
    fault=Fault.MISPRINT,
    place="Appendix A.6, Lemma A.18",
    quotation=r"\Pr[f(x_1, \dots, x_n) - \mathbb{E} f \geq t] \geq \exp",
    under="the mean of 100 coin tosses",
)
def reversed_tails(lab: Lab) -> Decision:
    """McDiarmid's inequality bounds the tails from above, with a negative exponent on both sides."""
    n, t = 100, np.linspace(0.05, 0.3, 6)
    upper = stats.binom.sf(np.ceil(n * (0.5 + t) - 1e-9) - 1, n, 0.5)
    return Decision(
        at_least("upper tail of 100 tosses, against exp(-2 n t^2)", upper, np.exp(-2 * n * t**2)),
        lemma_a_18(lab),
    )


@erratum(
    "Lemma B.3",
    "(1 - 1/(4L))^l",
    "(1 - 1/(4L))^(l+1), as the proof ends",
    "lemma_b_3",
    fault=Fault.MISPRINT,
    place="Appendix B.1, Lemma B.3",
    quotation=r"(1 - 1/(4L))^\ell \leq \|h_{i,\ell+1}\|_2 \leq 2\ell + 4",
    under="random starts at l = 0, where the norm is as often below 1 as above at every width",
)
def first_step(lab: Lab) -> Decision:
    """Lemma B.3's lower bound at the first time is 1 - 1/(4L), not 1."""
    seeds, width = lab.many, lab.widths[-1]
    norms = np.array([np.linalg.norm(lab.start(width, seed=seed).seen.h[:, 0], axis=-1) for seed in seeds])
    return Decision(
        at_least("||h_1||, against (1 - 1/(4L))^0", norms, 1.0),
        at_least("||h_1||, against (1 - 1/(4L))^1 for L = 2", norms, 1 - 1 / 8),
    )


@erratum(
    "Lemma B.7",
    "alpha >= 1/(100 L^4)",
    "a smaller alpha too, with m large enough for it: Lemma B.6 takes a smaller one unless L >= 14.2 log m",
    "lemma_b_7",
    fault=Fault.GAP,
    place="Appendix B.2.1, Lemma B.7; (B.5) has the alpha that it is used with",
    quotation=r"Suppose $\alpha \in [\frac{1}{100L^4}, 1/2)$",
    under="the laboratory's L and m for the alpha of (B.5); Lemma B.7 itself at m up to 10^6",
)
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


@erratum(
    "Claim B.10",
    "factor 1 - 3 alpha",
    "1 - 2 alpha - 1/(4L), as (B.10) and the end of the proof have it; that 1 - 3 alpha is false is not shown",
    "claim_b_10",
    fault=Fault.INCONSISTENCY,
    place="Appendix B.3, Claim B.10, against (B.10)",
    quotation=r"\geq \delta_\ell = \delta_{\ell-1}(1 - 3\alpha)",
    under="arithmetic of the proof's last line at L = 2 to 32, m = 10^8 and the largest delta that Lemma B.9 allows",
)
def one_step_factor(lab: Lab) -> Decision:
    r"""The proof ends at $\delta_{\ell-1}(1 - 2\alpha) - \alpha^{1.5}/4$, with $\alpha = 16\,\delta\log m$."""
    del lab
    length, log_m = np.array([2.0, 4.0, 8.0, 16.0, 32.0]), 8 * np.log(10)
    delta = 1 / (1e6 * length**2 * log_m**3)
    alpha = 16 * delta * log_m
    least = delta * (1 - 2 * alpha - 1 / (4 * length)) ** (length - 1)  # δ_{ℓ-1} at the last time
    found = least * (1 - 2 * alpha) - alpha**1.5 / 4
    return Decision(
        at_least("last line of the proof, against 1 - 3 alpha", found, (1 - 3 * alpha) * least),
        at_least("the same, against 1 - 2 alpha - 1/(4L)", found, (1 - 2 * alpha - 1 / (4 * length)) * least),
    )


erratum += appendix
