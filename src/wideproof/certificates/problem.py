"""A problem, a network with its data; and a point of it, weights at which a theorem is tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jax.typing import ArrayLike

from wideproof.certificates.arguments import all_weights, fitting_data, instance_of
from wideproof.data import AnyDataset, Distinct, distinct
from wideproof.networks import Network


@dataclass(frozen=True, eq=False)
class Problem:
    """A network and the data that it is to fit.

    Attributes
    ----------
    network
        The network.
    data
        The data, prepared for the network.

    Examples
    --------
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> problem = Problem(network, Dataset(np.eye(3)[[0, 1, 1]], np.array([1.0, -1.0, -1.0]), "binary"))
    >>> problem.groups.n, sorted(problem.at(network.init(0)).params)
    (2, ['W1', 'a'])
    """

    network: Network
    data: AnyDataset

    def __post_init__(self) -> None:
        instance_of(Network, "a network, as `wideproof.build` makes one")("network", self.network)
        fitting_data(self.data, self.network)

    @cached_property
    def groups(self) -> Distinct:
        """The data with equal inputs as one example."""
        return distinct(self.data)

    def at(self, params: Mapping[str, ArrayLike]) -> Point:
        """Return the point with these weights.

        Parameters
        ----------
        params
            All weights of the network, by name: initial ones or trained ones.

        Returns
        -------
        Point
            The point, with the weights in float64.
        """
        return Point(self, all_weights(params, self.network))


@dataclass(frozen=True, eq=False)
class Point:
    """Weights of a problem's network, as `Problem.at` returns them: `certify` tries a theorem there.

    Attributes
    ----------
    problem
        The network and the data.
    params
        All weights, by name.
    """

    problem: Problem
    params: dict[str, np.ndarray] = field(repr=False)

    @property
    def network(self) -> Network:
        """The network."""
        return self.problem.network

    @property
    def data(self) -> AnyDataset:
        """The data."""
        return self.problem.data
