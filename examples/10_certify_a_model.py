"""Prove that gradient descent, from weights that scikit-learn trained, fits the data exactly."""

# %% [markdown]
# # A model from elsewhere
#
# Any feed-forward model will do. From PyTorch: `wp.from_torch(module.eval(), example)`. From Keras:
# `model.export("model.onnx", format="onnx")`; from scikit-learn with skl2onnx: `skl2onnx.to_onnx(model, x[:1])`; then
# `wideproof certify model.onnx table.csv` in the shell, or `wp.certify("model.onnx", (x, y))`. Here the weights are
# handed over by hand, which needs no further package.

# %%
import warnings

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import wideproof as wp
from wideproof.report import save_figure

table, progression = (np.asarray(part)[:60] for part in load_diabetes(return_X_y=True))
x, y = 20 * table, (progression - progression.mean()) / progression.std()
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    trained = MLPRegressor(
        hidden_layer_sizes=(64,), activation="tanh", alpha=0, max_iter=4000, tol=1e-9, random_state=0
    ).fit(x, y)
print(f"trained by Adam: mean squared error {np.mean((trained.predict(x) - y) ** 2):.2g}")

# %% [markdown]
# The same network, drawn, with these weights.

# %%
sketch = wp.Sketch(x.shape[1])
network = sketch.read_out(sketch.dense(sketch.input, 64, "tanh"), 1)
(first, second), (shift, level) = trained.coefs_, trained.intercepts_
model = wp.Model(network, {"W1": first.T, "b1": shift, "W2": second.T, "b2": level})
difference = np.abs(np.asarray(network(model.params, x)) - np.asarray(trained.predict(x))).max()
print(f"the same outputs up to {difference:.1g}")
assert difference < 1e-12

# %% [markdown]
# Certified and verified, from the very weights that Adam left. Had they not been close enough to a perfect fit, the
# last layer alone would have been trained; with `polish=0.1` they may move, and the answer says how far.

# %%
proof = wp.certify(model, (x, y))
print(proof)
assert proof.proved

# %% [markdown]
# Its Gram matrix, with an error radius and a verdict.

# %%
found = wp.spectrum(wp.gram(network, model.params, x))
print(found)

# %% [markdown]
# Left, what Adam left of every error. Right, what gradient descent is proved to make of the loss from there on.

# %%
figure = Figure(figsize=(10, 4), layout="constrained")
left, right = figure.subplots(1, 2)
descent = proof.attempt.descent
assert descent is not None
left.hist(trained.predict(x) - y, bins=24, color="tab:blue", alpha=0.8)
left.set(xlabel="prediction minus target", ylabel="rows", title="errors of the model as scikit-learn trained it")
steps = np.linspace(0, 1.2 * descent.steps, 300)
right.semilogy(steps, descent.bound(steps), color="tab:green", lw=2, label="proven bound")
right.fill_between(steps, descent.bound(steps), descent.bound(steps[-1]), color="tab:green", alpha=0.12, lw=0)
reached = f"{descent.epsilon:.0e} after {descent.steps:,} steps"
right.axhline(descent.epsilon, color="0.5", ls=":", lw=0.8, label=reached)
right.set(xlabel="steps of gradient descent", ylabel="half the sum of squares", title="what is proved from here on")
right.grid(alpha=0.25)
right.legend(frameon=False)
save_figure(figure, "model.svg")
