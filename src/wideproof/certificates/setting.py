"""What a theorem is given: a point, how exactly it is computed, and where the weights come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wideproof.certificates.anchor import Anchor, measure
from wideproof.certificates.arguments import check_fields
from wideproof.certificates.attempt import Level
from wideproof.certificates.certificate import Certificate
from wideproof.certificates.problem import Point
from wideproof.data import AnyDataset, Distinct
from wideproof.networks import Network


@dataclass(frozen=True, eq=False)
class Setting:
    """A point and the options that all theorems share.

    Attributes
    ----------
    point
        The weights, the network and the data.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    sharp
        Use sharper Lipschitz constants.
    about
        Where the weights come from, with the name and the digest of the data.
    """

    point: Point
    level: Level = "enclosed"
    sharp: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)
        about = {"data": self.data.name, "digest": self.data.digest, **self.about}
        object.__setattr__(self, "about", about)

    @property
    def network(self) -> Network:
        """The network."""
        return self.point.network

    @property
    def data(self) -> AnyDataset:
        """The data."""
        return self.point.data

    @property
    def params(self) -> dict[str, np.ndarray]:
        """The weights, by name."""
        return self.point.params

    @property
    def groups(self) -> Distinct:
        """The data with equal inputs as one example."""
        return self.point.problem.groups

    @property
    def where(self) -> str:
        """The weights in words."""
        return self.about.get("anchor", "these weights")

    def measured(self, constant: bool = False) -> Anchor:
        """Return the numbers at the point, equal inputs counting as one example.

        Parameters
        ----------
        constant
            Whether the outputs of every example have the sum of its targets exactly, which `s` then makes use of.

        Returns
        -------
        Anchor
            The numbers, with every rounding error bounded unless the level is `"float64"`.
        """
        groups, network = self.groups, self.network
        return measure(
            network.graph, self.params, groups.x, network.scored(groups.y),
            counts=groups.counts if groups.repeated else None, level=self.level, sharp=self.sharp, constant=constant,
        )  # fmt: skip

    def measured_by_row(self) -> Anchor:
        """Return the numbers at the point, each row an example of its own.

        Returns
        -------
        Anchor
            The numbers.
        """
        graph, data = self.network.graph, self.data
        return measure(graph, self.params, data.x, data.y, level=self.level, sharp=self.sharp)

    def certificate(self, theorem: str, claims: Mapping[str, Any], summary: str, **more: Any) -> Certificate:
        """Return the certificate of some claims.

        Parameters
        ----------
        theorem
            The name of the theorem.
        claims
            The claimed numbers, by name.
        summary
            The claim in words.
        **more
            Further attributes of `Certificate`.

        Returns
        -------
        Certificate
            The certificate.
        """
        data = self.data
        own = {"level": self.level, "graph": self.network.graph, "sharp": self.sharp, "about": self.about}
        return Certificate(
            summary=summary, theorem=theorem, claims=claims, params=self.params, x=data.x, y=data.y, **(own | more)
        )
