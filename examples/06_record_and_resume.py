"""Record functions of the weights inside the compiled loop; stop a run, resume it, and get the same bits."""

# %% [markdown]
# # Record and resume
#
# `record=` takes functions of `(state, info)`. They are compiled into the loop and evaluated at every recorded
# step; nothing is recorded that was not asked for, except the loss and the training error.

# %%
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import wideproof as wp
from wideproof.report import save_figure
from wideproof.training import Info, State

data = wp.prepare(wp.load("wine", classes=("class_0", "class_1"), limit=80), "whiten,unit")
network = wp.build("fully-connected", data.input_shape, data.target_shape, width=256, depth=2, activation="tanh")
recipe = wp.Recipe(steps=600, seed=3)
initial = network.init(recipe.seed)


def distance(state: State, info: Info) -> dict[str, jnp.ndarray]:
    """How far each matrix is from where it began, in Frobenius norm."""
    return {name: jnp.linalg.norm(state.params[name] - initial[name]) for name in ("W1", "W2", "a")}


def gradient_norm(state: State, info: Info) -> jnp.ndarray:
    """The norm of the whole gradient."""
    return jnp.sqrt(sum(jnp.sum(g * g) for g in info.grad.values()))


record = {"distance": distance, "gradient_norm": gradient_norm}

# %% [markdown]
# One run without interruption, and one that stops at step 250 and is resumed from its folder.

# %%
whole = wp.train(network, data, recipe, record=record)
print(whole)
print(whole.history)

wp.train(network, data, wp.Recipe(steps=250, seed=3), record=record, folder="run")
resumed = wp.resume("run", steps=600, record=record)
print(resumed)

assert resumed.step == whole.step == 600
assert np.array_equal(resumed.steps, whole.steps)
for name in whole.params:
    assert np.array_equal(resumed.params[name], whole.params[name]), name
for name in whole.records:
    assert np.array_equal(resumed.records[name], whole.records[name]), name
print("the resumed run has the same bits: weights, steps and all records")

# %%
figure = Figure(figsize=(7, 4.2), layout="constrained")
axes = figure.add_subplot()
for name in ("W1", "W2", "a"):
    axes.plot(whole.steps, whole.records[f"distance.{name}"], lw=1.8, label=f"distance of {name} from its start")
axes.set(xlabel="step", ylabel="Frobenius norm", title="wine, classes 0 and 1, n = 80: width 256, depth 2")
right = axes.twinx()
right.semilogy(whole.steps, whole.records["gradient_norm"], color="0.4", ls=":", label="gradient norm")
right.set_ylabel("gradient norm")
axes.grid(alpha=0.25)
handles = axes.get_legend_handles_labels(), right.get_legend_handles_labels()
axes.legend(
    handles[0][0] + handles[1][0],
    handles[0][1] + handles[1][1],
    loc="lower left",
    bbox_to_anchor=(0.08, 0.02),
    frameon=False,
)
save_figure(figure, "record.svg")
