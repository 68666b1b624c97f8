"""Which assumptions of the network's paper are not met, and what is lost with them."""

from __future__ import annotations

from wideproof.answers import Answer
from wideproof.data import AnyDataset, audit
from wideproof.networks import Activation, Network
from wideproof.titles import PAPERS


def notes(data: AnyDataset, network: Network) -> tuple[str, ...]:
    """Return a sentence for every assumption of the network's paper that fails."""
    found = []
    activation = getattr(network, "activation", None)
    if activation is not None and not (activation.condition_3_1 and activation.condition_3_2):
        found.append(_activation(activation))
    for verdict in audit(data, margin="never").verdicts:
        if verdict.paper == network.paper and verdict.status is Answer.FAILS:
            assumes = f"{PAPERS[verdict.paper]} assume: {verdict.assumption}"
            found.append(f"{assumes}; here {verdict.detail}: {verdict.remedy}")
    return tuple(found)


def _activation(activation: Activation) -> str:
    if not activation.condition_3_1:
        fails, why = "Conditions 3.1 and 3.2", "its derivative jumps"
    elif activation.name == "identity":
        fails, why = "Condition 3.2", "it is a polynomial"
    else:
        fails, why = "Condition 3.2", "it is not analytic"
    return (
        f"{activation.name} does not meet {fails} of Du et al. 2019: the matrix is computed all the same, but "
        f"Proposition F.1, which makes the limit positive definite for inputs that are not parallel, does not apply, "
        f"because {why}"
    )
