"""Train the deep ReLU classifier of Zou et al. (2018) by SGD until no training example is misclassified."""

# %% [markdown]
# # Deep ReLU networks and SGD
#
# Zou et al. (2018) fix the output signs and train the hidden layers on the mean logistic loss. Every step
# of SGD takes a fresh subset of the data, without replacement.

# %%
import wideproof as wp
from wideproof.data import apply
from wideproof.report import loss_figure, save_figure

data = wp.prepare(wp.load("digits", classes=(3, 8), limit=200), "whiten,constant(0.5)")
found = wp.audit(data)
print(data)
print(f"zou2018: {found.holds('zou2018')}, opposite labels at least {found.opposite_separation:.4f} apart")
assert found.holds("zou2018")

# %%
network = wp.build("deep-relu", data.input_shape, data.target_shape, width=256, depth=3)
recipe = wp.Recipe(loss="logistic", batch=20, stop_at_zero_error=True, constant=0.1, steps=5000)
run = wp.train(network, data, recipe)
print(run)
assert run.ending == "reached zero training error"

# %% [markdown]
# The training error is exactly zero, on the prepared inputs and through the same preparation of raw ones.

# %%
raw = wp.load("digits", classes=(3, 8), limit=200)
outputs = run.predict(apply(data.preparation, raw.x))
assert (outputs * raw.y > 0).all()

# %% [markdown]
# The same seed draws the same subsets: a second run has the same bits.

# %%
again = wp.train(network, data, recipe)
assert again.step == run.step
assert all((again.params[name] == run.params[name]).all() for name in run.params)

save_figure(loss_figure(run), "zou_2018.svg")
