"""Train the deep residual classifier of Frei, Cao and Gu (2019), and see that depth costs little."""

# %% [markdown]
# # Residual ReLU networks
#
# Frei et al. (2019) scale each residual branch by $\theta = 1/L$. The bounds of their theorems then grow with the
# logarithm of the depth only. Here the same data is fitted at three depths.

# %%
import numpy as np
from matplotlib.figure import Figure

import wideproof as wp
from wideproof.report import save_figure

data = wp.prepare(wp.load("breast_cancer", limit=100), "standardize,unit")
found = wp.audit(data)
print(data)
print(f"frei2019: {found.holds('frei2019')}, margin {found.margin}")
assert found.margin is not None
assert found.margin.lower > 0

# %%
runs = {}
for depth in (2, 4, 8):
    network = wp.build("residual-relu", data.input_shape, data.target_shape, width=128, depth=depth)
    runs[depth] = wp.train(network, data, wp.Recipe(loss="logistic", target_loss=0.01, steps=5000))
    print(runs[depth])
    assert runs[depth].succeeded
    assert runs[depth].error == 0

# %% [markdown]
# All weights stay close to where they began.

# %%
relative = {}
for depth, run in runs.items():
    relative[depth] = [
        np.linalg.norm(run.params[name] - run.initial[name]) / np.linalg.norm(run.initial[name])
        for name in run.network.trained_names
    ]
    print(f"depth {depth}: {run.step} steps, largest relative movement of a layer {max(relative[depth]):.3f}")

# %%
figure = Figure(figsize=(10, 4), layout="constrained")
left, right = figure.subplots(1, 2)
for (depth, run), style in zip(runs.items(), ("-", "--", "-."), strict=True):
    left.loglog(run.steps[1:], run.records["loss"][1:], style, lw=1.8, label=f"L = {depth}")
    layers = np.linspace(0, 1, len(relative[depth]))
    right.plot(layers, relative[depth], style, marker="o", ms=4, lw=1.2, label=f"L = {depth}")
left.set(xlabel="step", ylabel="mean logistic loss", title="breast cancer, n = 100: width 128")
right.set(xlabel="from the first layer to the last", ylabel="relative movement", title="how far each layer moved")
right.set_ylim(bottom=0)
for axes in (left, right):
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
save_figure(figure, "frei_2019.svg")
