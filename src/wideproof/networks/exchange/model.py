"""A network that came from elsewhere, with the weights it came with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wideproof.networks.described import Described


@dataclass(frozen=True, eq=False)
class Model:
    """A network and its weights, one row per unit, in float64.

    Attributes
    ----------
    network
        The network.
    params
        Its weights, by name.
    notes
        What was changed or left out when the model was read, one sentence each.
    output
        Name of the value in the file that became the output.
    """

    network: Described
    params: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    output: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", {name: np.asarray(w, np.float64) for name, w in self.params.items()})

    def fresh(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return new initial weights: trained weights are drawn anew, all others are kept.

        Parameters
        ----------
        seed
            Seed of the draw.

        Returns
        -------
        dict[str, array]
            The weights by name.
        """
        drawn = self.network.init(seed)
        trained = self.network.trained_names
        return {name: np.asarray(drawn[name]) if name in trained else kept for name, kept in self.params.items()}

    def __str__(self) -> str:
        return "\n".join([str(self.network), *self.notes])
