"""Section 2 and its footnotes: the data, the law of the start, the gradient, and fresh randomness."""

from __future__ import annotations

import numpy as np
from scipy import stats

from wideproof.data import SequenceDataset, conflicts, prepare
from wideproof.monitors import trace
from wideproof.monitors.recurrent import backward, fresh, objective, separability, tangent_kernel, unroll
from wideproof.papers.allenzhu2018.distributions import fits
from wideproof.papers.allenzhu2018.fake_gradient import triple_sum
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, law
from wideproof.papers.statement import Section, misprint

statement = Section("hypothesis", "rnn")
initial = Section("initialization", "rnn")

NARROW = 128  # the width at which the network's own draw, gradient and training are looked at


@statement("Padding gives first tokens norm 1 and last coordinate 1/√2, which acts as a bias N(0,1/m)", "exact")
def footnote_5(lab: Lab) -> Check:
    r"""Padding makes $\|x_{i,1}\| = 1$, $[x_{i,1}]_{d_x} = 1/\sqrt2$; the last acts as a bias $N(0, 1/m)$."""
    raw = lab.rng("raw").standard_normal((20, 3, 5))
    padded = prepare(SequenceDataset(raw, np.zeros((20, 3, 1)), "regression", "raw"), "pad").x
    weights = [lab.weights(512, seed)["A"] for seed in lab.seeds]
    first = lab.data().x[:, 0]
    biases = [a[:, -1] / np.sqrt(2) for a in weights]
    gaps = np.linalg.norm(raw[:, None, 0] - raw[None, :, 0], axis=-1) / np.sqrt(2)
    gaps /= np.linalg.norm(raw[:, 0], axis=-1).max()
    apart = np.linalg.norm(padded[:, None, 0] - padded[None, :, 0], axis=-1)
    pairs = ~np.eye(20, dtype=bool)
    return conclude(
        identity("norm of padded first tokens", np.linalg.norm(padded[:, 0], axis=-1), 1.0),
        identity("their last coordinate", padded[:, 0, -1], 1 / np.sqrt(2)),
        identity("A x is A' x' plus the bias", [first @ a.T for a in weights],
                 [first[:, :-1] @ a[:, :-1].T + b for a, b in zip(weights, biases, strict=True)]),
        fits("sqrt(m) times the bias is standard normal", np.sqrt(512) * np.array(biases), stats.norm.cdf),
        at_most("later tokens stay in the unit ball", np.linalg.norm(padded[:, 1:], axis=-1), 1 + 1e-9),
        at_least("distances only shrink by the scale", apart[pairs] * (1 + 1e-9), gaps[pairs]),
    )  # fmt: skip


@statement("Every two sequences differ by δ or more in their first token", "bound")
def assumption_2_1(lab: Lab) -> Check:
    r"""$\|x_{i,1} - x_{j,1}\| \ge \delta$ for all $i \ne j$, $\delta \in (0, 1]$; then the first tokens are
    $\delta/\sqrt2$-separable.
    """
    least, others, angles, deltas = [], [], [], (0.5, 0.1, 0.01)
    for delta in deltas:
        first = lab.data(separation=delta).x[:, 0]
        apart = np.linalg.norm(first[:, None] - first[None], axis=-1)[np.triu_indices(len(first), 1)]
        least.append(apart.min())
        others += [d / delta for d in np.sort(apart)[1:]]
        angles.append(separability(first))
    tokens = np.linalg.norm(lab.data().x, axis=-1)
    return conclude(
        identity("the closest pair is delta apart", least, deltas),
        at_least("all other distances over delta", others, 1.0),
        at_least("separability of first tokens, against delta / sqrt 2", angles, np.array(deltas) / np.sqrt(2)),
        at_most("delta", deltas, 1.0),
        at_most("norms of tokens", tokens, 1 + 1e-9),
        assumptions=("on the sequences that the other statements use",),
    )


@initial("The random start: W and A with variance 2/m, B with variance 1/d, all independent", "exact")
def definition_2_3(lab: Lab) -> Check:
    r"""$W$ and $A$ have independent entries $N(0, 2/m)$, $B$ independent entries $N(0, 1/d)$ ($2/m$ and $1/d$ are
    variances).
    """
    network = lab.network(NARROW, lab.training_data().x.shape[1])  # the network that is trained
    drawn = [network.init(seed) for seed in range(lab.pick(20, 100, 1000))]
    w = np.stack([p["W"] for p in drawn]) * np.sqrt(NARROW / 2)
    a = np.stack([p["A"] for p in drawn]) * np.sqrt(NARROW / 2)
    b = np.stack([p["B"] for p in drawn])
    variance = lab.network(NARROW, outputs=3).laws()["B"].variance  # pyright: ignore[reportAttributeAccessIssue]
    flat = w.reshape(len(w), -1)
    return conclude(
        fits("entries of W sqrt(m/2) are standard normal", w[:3], stats.norm.cdf),
        fits("entries of A sqrt(m/2) are standard normal", a[:3], stats.norm.cdf),
        fits("entries of B sqrt(d) are standard normal", b, stats.norm.cdf),
        law("variance of W times m/2", np.square(w).mean(axis=(1, 2)), 1.0),
        law("neighbours in a row of W are uncorrelated", (w[:, :, 1:] * w[:, :, :-1]).mean(axis=(1, 2)), 0.0),
        law("neighbours in a column of W are uncorrelated", (w[:, 1:] * w[:, :-1]).mean(axis=(1, 2)), 0.0),
        law("W and A are uncorrelated", (flat[:, : a[0].size] * a.reshape(len(a), -1)).mean(axis=1), 0.0),
        law("W and B are uncorrelated", (w[:, 0] * b[:, 0]).mean(axis=1), 0.0),
        identity("variance of B for three outputs", variance, 1 / 3),
    )


@statement("The gradient as a triple sum over sequences, scored times and earlier times", "exact", role="gradient")
def fact_2_5(lab: Lab) -> Check:
    r"""The gradient of the objective.

    $$ \nabla f(W) = \sum_{i,a,\ell<a} D_{i,\ell+1}(\mathrm{Back}_{i,\ell+1\to a}^\top \mathrm{loss}_{i,a})
       h_{i,\ell}^\top $$

    The printed triple sum, against the recursion in linear time, central differences, the tangent kernel, and the
    cotangents of the network's automatic differentiation.
    """
    start = lab.start(NARROW)
    seen, gradient = start.seen, start.gradient
    rng, step = lab.rng("directions"), 1e-6
    directions = [rng.standard_normal(seen.W.shape) / NARROW for _ in range(3)]
    numeric = [(start.at(step * v).loss - start.at(-step * v).loss) / (2 * step) for v in directions]
    scored = start.losses[:, 1:].ravel()
    used = trace(start.network, start.params, start.data.x).cotangents["W"]
    ones = backward(seen, np.ones_like(start.losses)).e
    return conclude(
        identity("triple sum against the recursion", triple_sum(seen, start.losses), gradient.matrix()),
        identity("differences quotients", numeric, [gradient.pair(v) for v in directions], tolerance=1e-6),
        identity("squared norm against loss' K loss", gradient.square(), scored @ lab.kernel(NARROW) @ scored),
        identity("automatic differentiation of the network", np.stack(used, axis=1), ones),
    )


@initial("W sends fresh directions to new Gaussian vectors, independent of all earlier states", "exact")
def footnote_9(lab: Lab) -> Check:
    r"""$W v_{i,\ell}$ is $N(0, \tfrac2m I)$ and independent of all $h_{j,a}$, $a < \ell$: $W U_L$ has independent
    $N(0, 2/m)$ entries.
    """
    width, count = 256, lab.pick(12, 40, 200)
    images, raw = [], []
    for seed in range(count):
        seen = lab.start(width, seed=seed).seen
        images.append(np.sqrt(width / 2) * seen.W @ fresh(seen.h).basis)
        states = seen.h.reshape(-1, width)
        raw.append(np.sqrt(width / 2) * seen.W @ (states / np.linalg.norm(states, axis=1, keepdims=True)).T)
    new = np.array(images)
    columns = new.shape[-1]
    off = ~np.eye(columns, dtype=bool)
    correlations = np.array([(image.T @ image / width) for image in images])
    singular = np.array([np.linalg.svd(image, compute_uv=False)[[0, -1]] for image in images]) / np.sqrt(width)
    edges = 1 + np.array([1, -1]) * np.sqrt(columns / width)
    control = np.array([(image.T @ image / width)[off] for image in raw])
    return conclude(
        fits("entries of sqrt(m/2) W U_L", new[:4], stats.norm.cdf),
        fits("last column, W v of the last time", new[:, :, -1], stats.norm.cdf),
        law("columns are orthogonal on average", correlations[:, off].mean(axis=1), 0.0),
        law("squared inner products of columns times m", width * np.square(correlations[:, off]).mean(axis=1), 1.0),
        law("squared norms of columns", correlations[:, ~off].mean(axis=1), 1.0),
        identity("singular values of W U_L / sqrt 2, against 1 +- sqrt(nL/m)", singular,
                 np.broadcast_to(edges, singular.shape), tolerance=0.1),
        at_least("without orthogonalization columns are far from independent", control.mean(axis=0).max(), 0.3),
        assumptions=("pooled over starts", "singular values to 10 %, the width's fluctuation"),
    )  # fmt: skip


def sharing(lab: Lab, prefix: int) -> SequenceDataset:
    """Return the sequences with the first tokens of sequence 1 replaced by those of sequence 0."""
    data = lab.data()
    x = data.x.copy()
    x[1, :prefix] = x[0, :prefix]
    return SequenceDataset(x, data.y, "regression", f"first {prefix} tokens shared")


@statement("Equal beginnings with different targets leave a loss that no weights remove", "exact")
@misprint("targets at time 1 do not matter, since the loss starts at time 2")
def footnote_10(lab: Lab) -> Check:
    r"""Two sequences that agree on their first $p$ tokens have equal outputs up to $p$: different targets there leave
    a loss.

    The loss stays above $\tfrac14\|y^*_{i,\ell} - y^*_{j,\ell}\|^2$ for each $2 \le \ell \le p$. Sharing the first
    token only, which Assumption 2.1 excludes, leaves none: the tangent kernel stays regular.
    """
    gaps, floors, losses, kernels = [], [], [], {1: [], 2: [], 3: []}
    for prefix in (1, 2, 3):
        data = sharing(lab, prefix)
        floor = 0.25 * np.square(data.y[0, 1:prefix] - data.y[1, 1:prefix]).sum()
        best = data.y.copy()
        best[:2, 1:prefix] = data.y[:2, 1:prefix].mean(axis=0)
        floors.append((floor, conflicts(data).least_square, objective(best, data.y)))
        for seed in lab.seeds:
            for scale in (0.5, 1.0, 2.0):
                params = lab.weights(256, seed)
                seen = unroll({**params, "W": scale * params["W"]}, data.x)
                gaps.append(np.abs(seen.outputs[0, :prefix] - seen.outputs[1, :prefix]).max())
                losses.append((objective(seen.outputs, data.y), floor))
            kernels[prefix].append(np.linalg.eigvalsh(tangent_kernel(unroll(lab.weights(256, seed), data.x))) / 256)
    found, least = np.array(losses).T
    floor, audited, reached = np.array(floors).T
    return conclude(
        identity("outputs agree on the shared prefix", np.add(gaps, 1.0), 1.0),
        identity("the floor, against the audit of the data", floor, audited),
        identity("the floor is reached when all else is fitted", floor, reached),
        at_least("loss at random weights, against the floor", found, least),
        at_least("least eigenvalue over m, first token shared", [k[0] for k in kernels[1]], 1e-3),
        identity("two tokens shared: one more zero eigenvalue", [1 + k[0] for k in kernels[2]], 1.0),
        identity("three tokens shared: two zero eigenvalues", [1 + k[1] for k in kernels[3]], 1.0),
        assumptions=("weights of three sizes for 'all weights'", "1e-3 for 'regular'"),
    )
