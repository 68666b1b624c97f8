"""Train the Elman network of Allen-Zhu, Li and Song (2018): digits read row by row."""

# %% [markdown]
# # A recurrent network
#
# An 8 x 8 scan is a sequence of eight tokens. The step `pad` gives first tokens norm 1 and the last coordinate
# $1/\sqrt2$ that the paper asks for. Only the recurrent matrix $W$ is trained, and the loss counts steps 2 to 8.

# %%
import numpy as np
from matplotlib.figure import Figure

import wideproof as wp
from wideproof.report import save_figure

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
change = np.abs(run.predict(data.x) - np.asarray(network(run.initial, data.x))).max(axis=2)
moved = change.max(axis=0)
print("largest change of the output at each time step:", np.round(moved, 3))
assert moved[0] == 0
assert (moved[1:] > 0).all()

# %%
figure = Figure(figsize=(10, 4), layout="constrained")
left, right = figure.subplots(1, 2)
left.semilogy(run.steps, run.records["loss"], lw=1.8)
left.axhline(1e-3 * first, color="0.5", lw=0.8, ls=":", label="a thousandth of the first loss")
left.set(xlabel="step", ylabel="half the sum of squares", title="digits 0 and 1, row by row: width 256")
left.grid(alpha=0.25)
left.legend(frameon=False)
shown = right.imshow(change, cmap="Blues", aspect="auto")
figure.colorbar(shown, ax=right, label="change of the output")
right.set(xlabel="time step", ylabel="example", title="what training changed, by time step")
right.set_xticks(range(8), [str(step) for step in range(1, 9)])
right.set_yticks(range(0, 20, 5))
save_figure(figure, "allen_zhu_2018.svg")
