"""Train the three networks of Du et al. (2019) on handwritten digits to a loss of 1e-6."""

# %% [markdown]
# # The networks of Du et al. (2019)
#
# Fully-connected (eq. 2), residual (eq. 3) and convolutional residual (Section 7), trained by gradient
# descent on half the sum of squares. Images cannot be whitened, so the convolutional network meets a worse
# conditioned Gram matrix and takes more steps.

# %%
import numpy as np
from matplotlib.figure import Figure

import wideproof as wp
from wideproof.report import save_figure

vectors = wp.prepare(wp.load("digits", classes=(0, 1), limit=60), "whiten,unit")
images = wp.prepare(wp.load("digits-images", classes=(0, 1), limit=24), "standardize,unit")

# %%
recipe = wp.Recipe(target_loss=1e-6, steps=3000)
runs = {}
for name, data, options in (
    ("fully-connected", vectors, {"width": 256, "depth": 3, "activation": "tanh"}),
    ("residual", vectors, {"width": 256, "depth": 3, "activation": "tanh", "c_res": 0.5}),
    ("conv-residual", images, {"width": 64, "depth": 2, "activation": "tanh", "filter_size": 3}),
):
    network = wp.build(name, data.input_shape, data.target_shape, **options)
    runs[name] = wp.train(network, data, recipe)
    print(runs[name])
    assert runs[name].succeeded

# %% [markdown]
# Gradient descent is monotone at the safe step size, and every example ends on the right side.

# %%
for name, run in runs.items():
    assert np.all(np.diff(run.records["loss"]) < 0), name
    assert run.error == 0

# %%
figure = Figure(figsize=(7, 4.2), layout="constrained")
axes = figure.add_subplot()
for (name, run), style in zip(runs.items(), ("-", "--", "-."), strict=True):
    axes.loglog(run.steps + 1, run.records["loss"], style, lw=1.8, label=f"{name}, n = {run.data.n}")
axes.axhline(1e-6, color="0.5", lw=0.8, ls=":")
axes.set(xlabel="step + 1", ylabel="half the sum of squares", title="digits 0 and 1: the networks of Du et al. (2019)")
axes.grid(alpha=0.25)
axes.legend(frameon=False)
save_figure(figure, "du_2019.svg")
