"""Fit infinitely wide networks and trained ones with scikit-learn's `fit` and `predict`."""

# %% [markdown]
# # Estimators
#
# Infinitely wide networks are kernels; networks of finite width, trained by gradient descent, come close to them.

# %%
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

import wideproof as wp
from wideproof.report import save_figure

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, size=(40, 1))
y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=40)
new = np.linspace(-3, 3, 7)[:, None]
model = wp.NTKRegressor(depth=3).fit(x, y)
mean, deviation = model.predict(new, return_std=True)
print(f"ridge {model.ridge_:.2g} by leaving examples out (error {model.loo_.errors.min():.3f} of the variance)")
for point, m, s in zip(new[:, 0], mean, deviation, strict=True):
    print(f"  f({point:+.0f}) = {m:+.2f} ± {s:.2f}   sin: {np.sin(2 * point):+.2f}")
assert np.abs(mean - np.sin(2 * new[:, 0]))[1:-1].max() < 0.5

# %%
grid = np.linspace(-4.5, 4.5, 400)
curve, spread = model.predict(grid[:, None], return_std=True)
figure = Figure(figsize=(7, 4), layout="constrained")
axes = figure.add_subplot()
axes.fill_between(grid, curve - 2 * spread, curve + 2 * spread, alpha=0.2, lw=0, label="± 2 standard deviations")
axes.plot(grid, curve, lw=1.8, label="infinitely wide network, depth 3")
axes.plot(grid, np.sin(2 * grid), "k:", lw=1, label="sin 2x")
axes.plot(x[:, 0], y, "o", ms=3.5, color="black", label="40 noisy values")
axes.set(xlabel="x", ylabel="y", ylim=(-2.6, 2.6), title="no training: the kernel of the limit, solved exactly")
axes.legend(frameon=False, ncols=2, loc="upper center")
axes.grid(alpha=0.25)
save_figure(figure, "regression.svg")

# %% [markdown]
# A search over depth and activation, inside a pipeline.

# %%
features, wine = load_wine(return_X_y=True)
left, right, left_labels, right_labels = train_test_split(features, wine, random_state=0)
pipeline = make_pipeline(QuantileTransformer(n_quantiles=50, output_distribution="normal"), wp.NTKClassifier())
choices = {"ntkclassifier__depth": [1, 3], "ntkclassifier__activation": ["relu", "erf"]}
search = GridSearchCV(pipeline, choices, cv=3).fit(left, left_labels)
print(f"best: {search.best_params_}; {search.score(right, right_labels):.1%} of new wines right")

# %% [markdown]
# A network of finite width on the same problem: trained by gradient descent, with a certificate.

# %%
few = np.r_[0:6, 60:66]
net = wp.WideNetClassifier(width=256, depth=1, activation="tanh", steps=600, certify=True)
net.fit(features[few], wine[few])
print(f"{net.n_iter_} steps, loss {net.loss_:.2g}; certified: {net.certificate_.passed} (h = {net.certificate_.h:.2g})")
assert net.certificate_.passed
