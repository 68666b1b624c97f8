"""A bench without a page, and the same run by the library alone."""

import numpy as np

from wideproof.lab.frames import parse
from wideproof.lab.settings import begin_run, build_network, read, ready_data
from wideproof.training import Recipe, Run, train

SETTINGS = {"data": {"name": "blobs", "n": 8}, "networks": [{"width": 32, "depth": 1, "step": 0.4, "seed": 3}]}


class Heard(list):
    """What a bench has sent, read as a page reads it."""

    def __call__(self, message):
        self.append(parse(message))

    def of(self, kind, lane=0):
        return [(fields, arrays) for found, fields, arrays in self if found == kind and fields.get("lane", 0) == lane]


def library_run(steps, settings=SETTINGS) -> Run:
    """Train with the same start, step size and data."""
    asked = read(settings)
    (first,) = asked.networks
    _, data = ready_data(asked.data, first.name)
    network = build_network(first, data)
    size = begin_run(first, network, data).step_size
    return train(network, data, Recipe(step_size=size, seed=first.seed, steps=steps, record_every=1))


def points(heard, lane=0):
    """All steps and losses that were sent."""
    found = [arrays for _, arrays in heard.of("points", lane)]
    return np.concatenate([a["step"] for a in found]), np.concatenate([a["loss"] for a in found])
