"""Train the Elman network of Allen-Zhu, Li and Song (2018): digits read row by row."""

# %% [markdown]
# # A recurrent network
#
# An 8 x 8 scan is a sequence of eight tokens. The step `pad` gives first tokens norm 1 and the last coordinate
# $1/\sqrt2$ that the paper asks for. Only the recurrent matrix $W$ is trained, and the loss counts steps 2 to 8.

# %%
import numpy as np

import wideproof as wp
from wideproof.report import loss_figure, save_figure

data = wp.prepare(wp.load("digits-rows", classes=(0, 1), limit=20), "standardize,pad")
found = wp.audit(data)
print(data)
print(f"allenzhu2018: {found.holds('allenzhu2018')}, first tokens at least {found.separation:.4f} apart")
assert found.holds("allenzhu2018")

# %%
network = wp.build("elman-rnn", data.input_shape, data.target_shape, width=256)
first = wp.train(network, data, wp.Recipe(steps=0)).loss
run = wp.train(network, data, wp.Recipe(target_loss=1e-3 * first, steps=5000))
print(run)
print(f"loss fell from {first:.4g} to {run.loss:.4g} in {run.step} steps")
assert run.succeeded

# %% [markdown]
# The first output $B h_1$ does not depend on $W$: it never moved.

# %%
moved = np.abs(run.predict(data.x) - np.asarray(network(run.initial, data.x))).max(axis=(0, 2))
print("largest change of the output at each time step:", np.round(moved, 3))
assert moved[0] == 0
assert (moved[1:] > 0).all()

for suffix in ("svg", "png"):
    print("wrote", save_figure(loss_figure(run), f"allen_zhu_2018.{suffix}"))
