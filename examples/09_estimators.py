"""Fit infinitely wide networks and trained ones with scikit-learn's `fit` and `predict`."""

# %% [markdown]
# # Estimators
#
# Infinitely wide networks are kernels; networks of finite width, trained by gradient descent, come close to them.

# %%
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

import wideproof as wp

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

# %% [markdown]
# A search over depth and activation, inside a pipeline.

# %%
features, wine = load_wine(return_X_y=True)
left, right, left_labels, right_labels = train_test_split(features, wine, random_state=0)
pipeline = make_pipeline(QuantileTransformer(n_quantiles=50, output_distribution="normal"), wp.NTKClassifier())
grid = {"ntkclassifier__depth": [1, 3], "ntkclassifier__activation": ["relu", "erf"]}
search = GridSearchCV(pipeline, grid, cv=3).fit(left, left_labels)
print(f"best: {search.best_params_}; {search.score(right, right_labels):.1%} of new wines right")

# %% [markdown]
# A network of finite width on the same problem: trained by gradient descent, with a certificate.

# %%
few = np.r_[0:6, 60:66]
net = wp.WideNetClassifier(width=256, depth=1, activation="tanh", steps=600, certify=True)
net.fit(features[few], wine[few])
print(f"{net.n_iter_} steps, loss {net.loss_:.2g}; certified: {net.certificate_.passed} (h = {net.certificate_.h:.2g})")
assert net.certificate_.passed
