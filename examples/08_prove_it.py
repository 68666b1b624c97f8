"""Prove that gradient descent reaches a global minimum: in one call, step by step, and before training."""

# %% [markdown]
# # Proofs
#
# `prove` chooses a network for the table, trains and certifies it, and has an independent verifier check the result.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import wideproof as wp
from wideproof.certificates import Problem, certify, doubled, polish
from wideproof.data import Dataset
from wideproof.networks import FullyConnected
from wideproof.report import save_figure
from wideproof_verify import verify

proof = wp.prove("iris", classes=("setosa", "virginica"), limit=40)
print(proof)
assert proof.proved
print(proof.predict([[5.1, 3.5, 1.4, 0.2], [6.3, 3.3, 6.0, 2.5]]))

# %% [markdown]
# Rows 1 and 2 of the next table have equal inputs and different grades. No function fits both; gradient descent reaches
# the least loss that is possible, and that is what is proved.

# %%
table = pd.DataFrame(
    {
        "size": [1.0, 2.0, 2.0, 3.0, 4.0, 5.0],
        "kind": ["a", "a", "a", "b", "a", "a"],
        "grade": ["no", "yes", "no", "yes", "yes", "no"],
    }
)
least = wp.prove(table, "grade")
print(least.headline)
assert least.proved
assert least.groups.contradicting.tolist() == [1, 2]
assert float(least.groups.least) == 1
assert wp.prove(table, "grade", require_zero=True).impossible

# %% [markdown]
# The same by hand: your own network, preparation and training, then a certificate, then the verifier.

# %%
data = wp.prepare(wp.load("iris", classes=("setosa", "virginica"), limit=40), "whiten,unit")
network = wp.build("fully-connected", data.input_shape, data.target_shape, width=128, depth=2, activation="tanh")
run = wp.train(network, data, wp.Recipe(steps=300))
attempt = certify(Problem(network, data).at(run.params))
print(f"after {run.step} steps: loss {run.loss:.3g}, proof ratio {attempt.h:.3g} (below 0.5 there is a proof)")
if not attempt.passed:
    polished = polish(network, run.params, data.x, data.y)
    attempt = certify(Problem(network, data).at(polished.params))
    print(f"polished by {polished.steps} Gauss-Newton steps: proof ratio {attempt.h:.3g}")
assert attempt.certificate is not None

with tempfile.TemporaryDirectory() as folder:
    verdict = verify(attempt.certificate.save(Path(folder) / "certificate"))
print(f"{verdict.answer}: {verdict.statement}")

# %% [markdown]
# Then before training: ten nearly orthogonal points and fixed outputs. The proof ratio falls with the width.

# %%
rng = np.random.default_rng(0)
x = rng.standard_normal((10, 100))
points = Dataset(x / np.linalg.norm(x, axis=1, keepdims=True), np.where(np.arange(10) % 2 == 0, 1.0, -1.0), "binary")
ratios = {}
for width in (32, 64, 128, 256):
    wide = FullyConnected(input_dim=100, width=width, depth=1, trained=("hidden",))
    attempt = certify(Problem(wide, points).at(doubled(wide, seed=0)))
    steps = (
        ""
        if attempt.descent is None
        else f": loss below 1e-12 after {attempt.descent.steps} steps, before any was taken"
    )
    print(f"width {width:4}: h = {attempt.h:.3f}{steps}")
    ratios[width] = attempt.h

# %% [markdown]
# Left, the first proof: the loss of every step of training, and the bound that the verifier proved for it. Right, the
# proof ratio before training: below one half, convergence is a theorem.

# %%
figure = Figure(figsize=(10, 4), layout="constrained")
left, right = figure.subplots(1, 2)
assert proof.run is not None
left.semilogy(proof.run.steps, proof.run.records["loss"], lw=1.8, label="loss")
if proof.verdict is not None and proof.verdict.course:
    bound = 0.5 * np.square([residual for *_, residual in proof.verdict.course])
    left.semilogy(bound, color="tab:green", lw=4, alpha=0.4, label="proven bound")
left.set(xlabel="training step", ylabel="half the sum of squares", title="iris: proved from the initial weights")
right.loglog(list(ratios), list(ratios.values()), "o-", lw=1.8, label="proof ratio h")
right.axhline(0.5, color="tab:green", ls="--", label="h = ½")
right.axhspan(0.1, 0.5, color="tab:green", alpha=0.1, lw=0)
right.set(ylim=(0.25, 1.5))
right.set_yticks([0.25, 0.5, 1], ["¼", "½", "1"])
right.set(xlabel="width", ylabel="proof ratio", title="ten points: proved before training if wide enough")
right.set_xticks(list(ratios), [str(width) for width in ratios], minor=False)
right.minorticks_off()
for axes in (left, right):
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
save_figure(figure, "proofs.svg")
