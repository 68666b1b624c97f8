"""Audit a CSV before training: find out what no network can fit, and what the theorems ask for."""

# %% [markdown]
# # Audit a CSV
#
# The file below has three planted faults: a repeated row, a row that is twice another one, and two equal
# rows with different labels.

# %%
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import wideproof as wp
from wideproof.report import save_figure

rng = np.random.default_rng(0)
x = rng.normal(size=(40, 5))
labels = np.where(x[:, 0] + 0.3 * x[:, 1] > 0, "yes", "no")
x[7] = x[3]  # repeated input, same label
labels[7] = labels[3]
x[12] = 2 * x[5]  # the same direction: equal once every row has norm 1
labels[12] = labels[5]
x[20] = x[11]  # repeated input, other label: a contradiction
labels[20] = "no" if labels[11] == "yes" else "yes"

path = Path("measurements.csv")
lines = [
    "a,b,c,d,e,label",
    *(",".join([*map(repr, map(float, row)), str(y)]) for row, y in zip(x, labels, strict=True)),
]
path.write_text("\n".join(lines) + "\n")

# %% [markdown]
# The last column is the target unless another one is named.

# %%
data = wp.prepare(wp.load(path, target="label"), "unit")
found = wp.audit(data)
print(found)

# %% [markdown]
# One contradicting pair is enough: no function of the input has zero loss, whatever the width.

# %%
clash = found.conflicts
print(f"\nzero loss possible: {found.zero_loss_possible}, contradicting rows: {clash.first}")
print(f"least half-sum squared loss {clash.least_square}, least training error {clash.least_error}")
assert not found.zero_loss_possible
assert clash.first == ((11, 20),)
assert clash.least_square == 1.0

# %% [markdown]
# Drop one row of each planted pair and the assumptions of Du et al. hold. That of Frei et al. is about all rows that
# may occur, which no sample shows.

# %%
clean = data.take([i for i in range(data.n) if i not in (7, 12, 20)])
again = wp.audit(clean)
for paper in ("du2019", "zou2018", "frei2019"):
    print(f"{paper}: {again.holds(paper)}")
print(f"separation {again.separation:.4f}, margin {again.margin}")
assert again.zero_loss_possible
assert again.holds("du2019")

# %% [markdown]
# Zou et al. also want a constant last coordinate, which the step `constant` adds.

# %%
assert wp.audit(wp.prepare(clean, "constant")).holds("zou2018")

# %% [markdown]
# Left, how parallel any two rows are: each planted pair is a black cell away from the diagonal. Right, the distance of
# every row to its nearest neighbour: zero for the planted pairs, well above it once they are gone.

# %%
figure = Figure(figsize=(10, 4.4), layout="constrained")
left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
shown = left.imshow((data.x @ data.x.T) ** 8, cmap="Greys", vmin=0, vmax=1)
figure.colorbar(shown, ax=left, shrink=0.85)
for (i, j), name in {(3, 7): "repeated", (5, 12): "doubled", (11, 20): "contradiction"}.items():
    left.plot([i, j], [j, i], "o", ms=11, mfc="none", mec="tab:red", mew=1.5)
    left.annotate(name, (j, i), (8, 0), textcoords="offset points", color="tab:red", va="center")
left.set(title="(cosine of the angle between two rows)⁸", xlabel="row", ylabel="row")
for rows, name, style in ((data.x, "as given", "o"), (clean.x, "three rows dropped", "x")):
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2) + 9 * np.eye(len(rows))
    right.plot(np.sort(apart.min(axis=1)), style, ms=5, label=name)
right.axhline(again.separation, color="0.5", lw=0.8, ls=":", label="separation found by the audit")
right.set(title="distance to the nearest row", xlabel="row, from the closest", ylabel="distance")
right.grid(alpha=0.25)
right.legend(frameon=False)
save_figure(figure, "rows.svg")
