"""Beside what the theorems ask for: the least width that trains, and one that is proved."""

from __future__ import annotations

from typing import Any

from wideproof.data import AnyDataset, SequenceDataset
from wideproof.networks import build
from wideproof.proving import prove
from wideproof.theorems.facts import Table
from wideproof.training import Recipe, train

LARGEST, STEPS = 1024, 3000


def trains(table: Table, depth: int, epsilon: float) -> tuple[int | None, str]:
    """Return the least of the widths 2, 4, 8, ... that reaches `epsilon`, and what was trained.

    Deep ReLU networks with the logistic loss for two classes, recurrent ones for sequences, smooth fully-connected
    ones with half the sum of squares otherwise; gradient descent with the largest safe step, one start (seed 0).
    """
    found = table.zou()
    data: AnyDataset
    if isinstance(table.data, SequenceDataset):
        data, name, options = table.data, "elman-rnn", {}
        recipe = Recipe(steps=STEPS, target_loss=epsilon)
    elif found.facts is not None:
        data, name, options = table.two_classes(), "deep-relu", {"depth": depth}
        recipe = Recipe(loss="logistic", steps=STEPS, target_loss=epsilon)
    else:
        data, name, options = table.single(), "fully-connected", {"depth": depth}
        recipe = Recipe(steps=STEPS, target_loss=epsilon)
    about = f"{name}, gradient descent, {recipe.loss} loss at most {epsilon:g} within {STEPS} steps, seed 0"
    width = 2
    while width <= LARGEST:
        run = train(build(name, data.input_shape, data.target_shape, width=width, **options), data, recipe)
        if run.records["loss"][-1] <= epsilon:
            return width, about
        width *= 2
    return None, f"{about}: not up to width {LARGEST}"


def proves(data: AnyDataset, **options: Any) -> tuple[int | None, str]:
    """Return the width of the network that `prove` chooses for the data, if it is proved, and which network that is."""
    proof = prove(data, **options)
    width = getattr(proof.network, "width", None)
    alpha = float(getattr(proof.network, "alpha", 1.0))
    seed = "" if proof.run is None else f", seed {proof.run.recipe.seed}"
    about = f"{proof.network.name} of width {width}, outputs times {alpha:g}{seed}"
    return (int(width), about) if proof.proved and width is not None else (None, f"not proved: {about}")
