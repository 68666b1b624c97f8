"""What all theorems have in common: arguments that are checked, and a search for claims at a point."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from wideproof.certificates.arguments import check_fields, for_problem
from wideproof.certificates.attempt import Attempt
from wideproof.certificates.problem import Problem
from wideproof.certificates.setting import Setting

F = TypeVar("F")
T = TypeVar("T", bound="Theorem")


@dataclass(frozen=True)
class Theorem(ABC, Generic[F]):
    """A theorem as a value: a frozen dataclass whose fields are what the theorem is asked with.

    `certify(point, theorem)` looks for its claims at a point. `CONTRIBUTING.md` says how to add one.
    """

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def prove(self, setting: Setting) -> Attempt[F]:
        """Look for the claims.

        Parameters
        ----------
        setting
            The point, and the options of `certify`.

        Returns
        -------
        Attempt
            The certificate, or the obstacle.
        """

    def suited(self, problem: Problem) -> Self:
        """Return the theorem with arguments that fit a problem, or raise an error: batches, other weights.

        Parameters
        ----------
        problem
            The network and the data.

        Returns
        -------
        Theorem
            The theorem, with plain numbers and float64 arrays.
        """
        found = for_problem(self, problem.network, problem.data)
        return dataclasses.replace(self, **found) if found else self
