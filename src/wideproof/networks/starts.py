r"""Starts of the fully-connected network: the paper's normal numbers, doubled units, a zero read-out, or Chatterjee's.

The *doubled* start has normal weights too, but every hidden unit is there twice, with output weights 1 and -1 (signs
drawn for each output; layers above the first as in `mirrored`): the network begins at 0 on every input, and what it
learns is all it says. Its Gram matrix tends to the paper's as the width grows. The paper draws everything
independently, and then the output of the start, of size 1, stays in the network.

The *zero* start has the paper's hidden weights and output weights 0: the network begins at 0, too, and of the Gram
matrix only the read-out's part is there at first, the same for every output.

The *positive* start has $W_1 = 0$, $W_h = \sqrt m\, I$ behind it and all output weights $A$, the scale
(S. Chatterjee, arXiv 2203.16462). With $\sigma(0) = 0$ all hidden values are zero, so the outputs are, and only $W_1$
moves them at first: the Gram matrix is $A^2 (c_\sigma \sigma'(0)^2)^H X X^\top$ for depth $H$, at every width. It is
positive definite exactly if the inputs are linearly independent. Nothing is random.
"""

from __future__ import annotations

import math
import re

from wideproof.errors import InputError
from wideproof.networks.activations import Activation
from wideproof.networks.base import Constant, Diagonal, Law, Zeros

NORMAL, DOUBLED, ZERO, POSITIVE = "normal", "doubled", "zero", "positive"


def written(start: str) -> str:
    """Return a start as it is stored: `"normal"`, `"doubled"`, `"zero"`, `"positive"` or `"positive(A)"`.

    >>> written("positive"), written("positive( 5e3 )")
    ('positive', 'positive(5000)')
    """
    if start in (NORMAL, DOUBLED, ZERO, POSITIVE):
        return start
    found = re.fullmatch(rf"{POSITIVE}\(([^()]+)\)", start)
    try:
        scale = float(found[1]) if found else math.nan
    except ValueError:
        scale = math.nan
    if not 0 < scale < math.inf:
        raise InputError(
            f"the start must be normal, doubled, zero, positive or positive(A) with a number A > 0, got {start!r}"
        )
    return f"{POSITIVE}({repr(scale).removesuffix('.0')})"


def scale_of(start: str) -> float | None:
    """Return the scale of a positive start, 1 where none is written; `None` for the others.

    >>> scale_of("normal"), scale_of("positive"), scale_of("positive(5000)")
    (None, 1.0, 5000.0)
    """
    if start in (NORMAL, DOUBLED, ZERO):
        return None
    return 1.0 if start == POSITIVE else float(start.removeprefix(f"{POSITIVE}(").removesuffix(")"))


def require_even(width: int) -> None:
    """Refuse a width that units do not come in pairs of."""
    if width % 2:
        raise InputError(f"the doubled start needs an even width, got {width}: use {width + 1}")


def require_scale(alpha: object) -> float:
    """Refuse a scale of the outputs that is no number above 0; return it as a float.

    >>> require_scale(10)
    10.0
    """
    if isinstance(alpha, int | float) and not isinstance(alpha, bool) and 0 < alpha < math.inf:
        return float(alpha)
    raise InputError(f"alpha, the scale of the outputs, must be a number above 0, got {alpha!r}")


def require_positive_start(activation: Activation, outputs: int) -> None:
    """Refuse, in one sentence, what the positive start is not for."""
    if outputs != 1:
        raise InputError(f"the positive start is for fully-connected networks with one output, got {outputs} outputs")
    if activation.at_zero != 0 or activation.kinked:
        raise InputError(
            f"the positive start needs a smooth activation that is 0 at 0, such as tanh or erf, got {activation.name}"
        )


def positive_laws(input_dim: int, width: int, depth: int, scale: float) -> dict[str, Law]:
    """Return the laws of the positive start.

    >>> positive_laws(3, 4, 2, 10.0)["W2"]
    Diagonal(shape=(4, 4), value=2.0)
    """
    layers: dict[str, Law] = {f"W{h}": Diagonal((width, width), math.sqrt(width)) for h in range(2, depth + 1)}
    return {"W1": Zeros((width, input_dim)), **layers, "a": Constant((width,), scale)}
