"""Whether one start of one network has a proof that gradient descent reaches a global minimum, verified."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path

from wideproof.certificates import Certificate, Problem, certify, certify_from_start
from wideproof.data import AnyDataset
from wideproof.networks import Network
from wideproof.planning import COMFORTABLE
from wideproof.training import Recipe, Run, Status, train

FIRST, LONGER = 16, 1.25  # steps after which the proof ratio is looked at first, and how much later each look is
LESS = 0.99  # of a step size that can be certified


def proved(network: Network, data: AnyDataset, recipe: Recipe) -> bool:
    """Train a start until a theorem applies, certify it from its initial weights, and have it verified.

    The seed is that of the recipe, and its `steps` are the most that are followed. If they end in a proof with a
    smaller step size only, they are taken again with that one.

    Parameters
    ----------
    network
        The network.
    data
        The data.
    recipe
        Gradient descent on half the sum of squares, with the most steps.

    Returns
    -------
    bool
        Whether the independent verifier confirms a proof from the initial weights.

    Examples
    --------
    >>> import wideproof as wp
    >>> data = wp.load("sphere:n=4,d=3,separation=0.5")
    >>> network = wp.build("fully-connected", (3,), (), width=32, depth=1, start="doubled")
    >>> proved(network, data, wp.Recipe(steps=400)), proved(network, data, wp.Recipe(steps=20))
    (True, False)
    """
    recipe = dataclasses.replace(recipe, target_loss=None)
    for _ in range(2):
        run = _until_certifiable(network, data, recipe)
        if run is None:
            return False
        attempt = certify_from_start(run)
        if attempt.certificate is not None:  # with more bits, where the verifier's balls outgrow their bounds
            if _confirmed(attempt.certificate):
                return True
            more = certify_from_start(run, careful=True).certificate
            return more is not None and _confirmed(more)
        found = attempt.obstacle
        if found is None or found.quantity != "step size" or found.needed is None:
            return False
        recipe = dataclasses.replace(recipe, step_size=LESS * found.needed)
    return False


def _until_certifiable(network: Network, data: AnyDataset, recipe: Recipe) -> Run | None:
    """Train until the proof ratio is comfortable, or below 1/2 at the end."""
    problem, steps, before = Problem(network, data), min(FIRST, recipe.steps), 0
    while steps > before:
        run = train(network, data, dataclasses.replace(recipe, steps=steps))
        if run.status is Status.DIVERGED:
            return None
        h = certify(problem.at(run.params), level="float64").h
        if h < COMFORTABLE or (steps == recipe.steps and h < 0.5):
            return run
        steps, before = min(math.ceil(LONGER * steps), recipe.steps), steps
    return None


def _confirmed(made: Certificate) -> bool:
    """Return what the independent verifier says of a certificate."""
    from wideproof_verify import verify

    with tempfile.TemporaryDirectory() as folder:
        return verify(made.save(Path(folder) / "certificate"), time=math.inf).answer == "proved"
