"""Compute Gram matrices of finite and infinite width on digits, and predict the loss of gradient descent."""

# %% [markdown]
# # Gram matrices
#
# At infinite width the Gram matrix is fixed, and gradient descent on the squared loss has a closed form. How far are
# networks of finite width from it: in their spectra, and in the loss they really have?

# %%
import numpy as np
from matplotlib.figure import Figure

import wideproof as wp
from wideproof.kernels import compare, gram, limit_gram, predict, spectrum
from wideproof.report import save_figure

data = wp.prepare(wp.load("digits", classes=(3, 8), limit=60), "whiten,unit")


def network_of(width: int):
    return wp.build("fully-connected", data.input_shape, data.target_shape, width=width, depth=2, activation="tanh")


# %% [markdown]
# The spectrum at infinite width, every eigenvalue with the radius within which it is known.

# %%
limit = limit_gram(network_of(1), data.x, by_weight=True)
found = spectrum(limit, points=data.x)
print(found)
for name, block in limit.blocks.items():
    share = np.trace(block) / np.trace(limit.matrix)
    print(f"{name}: {share:.1%} of the trace, {spectrum(block, error=limit.error)}")
assert found.positive_definite

# %% [markdown]
# Finite networks come closer to it as they grow, at the rate of one over the square root of the width.

# %%
widths = (64, 512)
finite = {}
for width in widths:
    network = network_of(width)
    finite[width] = gram(network, network.init(0), data.x)
    distance = np.linalg.norm(finite[width].matrix - limit.matrix, 2) / found.largest.value
    print(f"width {width}: relative distance {distance:.3f}, {spectrum(finite[width])}")

# %% [markdown]
# What gradient descent should do by the Gram matrix of the start, and what it does.

# %%
runs, courses = {}, {}
for width in widths:
    network = network_of(width)
    start = network(network.init(0), data.x)
    runs[width] = wp.train(network, data, wp.Recipe(target_loss=1e-6, steps=3000))
    courses[width] = predict(finite[width], data.y, start, runs[width].step_size)
    print(f"width {width}: {runs[width].step} steps, predicted {courses[width].steps_to(1e-6)}")
    print(f"  {compare(courses[width], runs[width].records['loss'], runs[width].steps)}")
    assert runs[width].succeeded
assert abs(runs[512].step - (courses[512].steps_to(1e-6) or 0)) <= 0.1 * runs[512].step

# %%
figure = Figure(figsize=(10.5, 4.2), layout="constrained")
left, right = figure.subplots(1, 2)
order = np.arange(1, data.n + 1)
assert found.eigenvalues is not None
left.semilogy(order, found.eigenvalues[::-1], color="black", lw=1.8, label="infinite width")
for width, style in zip(widths, ("--", "-."), strict=True):
    (line,) = left.semilogy(order, np.linalg.eigvalsh(finite[width])[::-1], style, lw=1.3, label=f"width {width}")
    run, color = runs[width], line.get_color()
    right.semilogy(run.steps, run.records["loss"], color=color, lw=1.3, label=f"width {width}")
    right.semilogy(run.steps, courses[width].loss(run.steps), color=color, lw=0.9, ls=":")
left.set(xlabel="eigenvalue, from the largest", ylabel="λ", title="spectra of the Gram matrices")
right.set(xlabel="step", ylabel="half the sum of squares", title="loss: run (solid) and prediction (dotted)")
for axes in (left, right):
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
save_figure(figure, "gram.svg")
