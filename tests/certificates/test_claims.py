"""The claims of every theorem, as the prover types them and as the verifier reads them."""

from typing import Any, NotRequired, get_origin, get_type_hints

import pytest

from wideproof.certificates.obstacles import Impossible
from wideproof.certificates.theorems import (
    basin,
    descent,
    epochs,
    finite,
    logistic,
    margins,
    momentum,
    newton,
    orders,
    read_out,
    ridge,
    sampling,
)
from wideproof_verify.reading import TYPES
from wideproof_verify.theorems import THEOREMS

CLAIMS: dict[str, Any] = {
    "basin": basin.Claims, "descent": descent.Claims, "epochs": epochs.Claims, "finite": finite.Claims,
    "fit": logistic.Fit, "impossible": Impossible, "logistic": logistic.Claims, "margins": margins.Claims,
    "momentum": momentum.Claims, "newton": newton.Claims, "orders": orders.Claims, "read_out": read_out.Claims,
    "ridge": ridge.Claims, "sampling": sampling.Claims,
}  # fmt: skip


def test_every_theorem_is_there():
    assert THEOREMS.keys() - CLAIMS.keys() == {"existence"}  # made of the claims of Theorem 1


@pytest.mark.parametrize("theorem", CLAIMS)
def test_claims_are_those_of_the_verifier(theorem):
    """Which there are, which may be left out, and their types."""
    hints, known = get_type_hints(CLAIMS[theorem], include_extras=True), THEOREMS[theorem]
    optional = {name for name, kind in hints.items() if get_origin(kind) is NotRequired}
    optional |= CLAIMS[theorem].__optional_keys__  # where annotations are postponed, those of total=False alone
    assert hints.keys() - optional == set(known.needed)
    assert optional == set(known.allowed)
    for name, kind in get_type_hints(CLAIMS[theorem]).items():
        assert (get_origin(kind) or kind) is TYPES.get(name, float), name
