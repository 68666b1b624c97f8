"""Prove what training does from its first step: a ReLU classifier by SGD, a smooth network to a global minimum."""

# %% [markdown]
# # From the initial weights
#
# `follow` takes a training run and has an independent verifier take all of its steps again, with a bound on the
# distance from (stochastic) gradient descent without rounding. First a deep ReLU network, the logistic loss and batches
# of 8.

# %%
import numpy as np
from matplotlib.figure import Figure

import wideproof as wp
from wideproof.report import save_figure

flowers = wp.prepare(wp.load("iris", classes=("setosa", "versicolor"), limit=24), "whiten,sphere(4)")
relu = wp.build("deep-relu", flowers.input_shape, flowers.target_shape, width=32, depth=2)
run = wp.train(relu, flowers, wp.Recipe(loss="logistic", batch=8, steps=40, step_size=0.1))
print(run)

found = wp.follow(run)
print(found)
assert found.proved
assert not found.minimum  # the logistic loss has none: what is proved is the loss after the last step
assert found.attempt.certificate is not None
assert found.attempt.certificate.claims["margin"] > 0  # and that every flower is on the right side

# %% [markdown]
# How far the verifier was from the exact steps at the end, and the bits it took: 53 is float64, 100 double-double, and
# more are balls.

# %%
assert found.verdict is not None
course = found.verdict.course
print(f"within {course[-1][0]:.1e} after {len(course)} steps; bits: {sorted({bits for _, bits, _, _ in course})}")

# %% [markdown]
# Now half the sum of squares and a smooth network. Once training is near enough to a fit, Theorem 1 takes over where
# the steps end: gradient descent from the *initial* weights converges to zero loss.

# %%
smooth = wp.build("fully-connected", flowers.input_shape, flowers.target_shape, width=128, depth=1, activation="erf")
converging = wp.follow(wp.train(smooth, flowers, wp.Recipe(target_loss=1e-6)))
print(converging)
assert converging.minimum

# %% [markdown]
# The certificate holds the start, the data and the claims, and none of the points between. `wp.follow(run, "folder")`
# keeps it, and `python -m wideproof_verify folder` checks it again.

# %%
assert converging.attempt.certificate is not None
start = converging.attempt.certificate.start
assert start is not None
print(f"{start.steps} steps with step size {start.step_size:.4g} end within {start.distance:.2g} of the stored weights")

# %% [markdown]
# Left, both losses as they were trained. Right, how far exact (stochastic) gradient descent can be from the verifier's
# points: an error made early may grow, so early steps take more bits.

# %%
figure = Figure(figsize=(10, 4), layout="constrained")
left, right = figure.subplots(1, 2)
for told, one in (("deep ReLU, SGD, logistic", found), ("smooth, squares", converging)):
    assert one.run is not None
    assert one.verdict is not None
    left.semilogy(one.run.steps, one.run.records["loss"], lw=1.8, label=told)
    off, bits, *_ = (np.array(column) for column in zip(*one.verdict.course, strict=True))
    (line,) = right.semilogy(np.arange(1, len(off) + 1), np.where(off > 0, off, np.nan), lw=1.8, label=told)
    more = bits > 53
    right.semilogy(np.flatnonzero(more) + 1, off[more], "o", ms=4, color=line.get_color())
left.set(xlabel="training step", ylabel="loss", title="training")
right.set(xlabel="training step", ylabel="distance", title="bound of the distance (dots: more than 53 bits)")
for axes in (left, right):
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
save_figure(figure, "followed.svg")
