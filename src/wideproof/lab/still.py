"""What the bench leaves behind in a saved notebook: where it began, as a table and two pictures."""

from __future__ import annotations

import numpy as np

from wideproof.cards import card, heat, line
from wideproof.certificates import Problem, certify
from wideproof.data import distinct
from wideproof.errors import InputError
from wideproof.kernels import predict
from wideproof.lab.given import Given
from wideproof.lab.looks import CELLS
from wideproof.lab.settings import Settings, build_network, ready_data
from wideproof.precision import double

MOST = 3e8  # numbers of all gradients together: with more, the table is left without pictures
STEPS = 200


@double
def still(settings: Settings, given: Given | None = None) -> str:
    """Return the first network of the bench before its first step, in HTML.

    >>> text = still(Settings.model_validate({"data": {"n": 6}, "networks": [{"width": 8, "depth": 1}]}))
    >>> text.count("<img"), text.count("<svg"), "before the first step" in text
    (1, 1, True)
    """
    asked = settings.networks[0]
    try:
        _, data = ready_data(settings.data, asked.name, given=given)
        network = build_network(asked, data, given)
    except InputError as error:  # it is on the page, too
        return card("The bench", {"note": str(error)})
    facts = {"data": f"{data.name}, {data.n} examples", "network": str(network)}
    pictures = ""
    if data.n * network.number_of_weights <= MOST:
        weights = {name: np.asarray(weight, np.float64) for name, weight in network.init(asked.seed).items()}
        weights[network.graph.read_out] = weights[network.graph.read_out] * asked.scale
        attempt = certify(Problem(network, data).at(weights), level="float64")
        anchor = attempt.anchor
        if anchor is not None and not anchor.lean:
            facts["proof ratio before the first step"] = f"{attempt.h:.3g}; below 0.5 it can be certified"
            size = np.sqrt(np.maximum(np.diagonal(anchor.gram.mid), 1e-300))
            pictures = heat((anchor.gram.mid / np.outer(size, size))[:CELLS, :CELLS], "Gram matrix")
            errors, largest = anchor.errors.mid, anchor.S**2
            if asked.step > 0 and largest > 0:
                course = predict(anchor.gram.mid, np.zeros(errors.shape), errors, asked.step * 2 / largest)
                with np.errstate(over="ignore"):
                    loss = course.loss(np.arange(STEPS + 1)) + distinct(data).least_loss[0]
                pictures += line(loss, "predicted loss")
            facts["pictures"] = (
                f"the Gram matrix, and the loss that it predicts for {STEPS} steps, on a logarithmic scale"
            )
    facts["note"] = "This is a picture: run the cell to have the bench."
    return card("The bench, before the first step", facts, pictures)
