"""One fitted preparation step: a name, numbers for JSON, arrays for a tensor file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wideproof.errors import InputError

Scalar = bool | int | float | str


@dataclass(frozen=True, eq=False)
class Step:
    """A fitted preparation step, ready to be applied to new points.

    Attributes
    ----------
    name
        Name of the step.
    settings
        The fitted numbers and options, by name; they are exact in JSON, since `repr` of a float round-trips.
    arrays
        The fitted float64 arrays, by name.

    Examples
    --------
    >>> step = Step("constant", settings=(("mu", 0.5),), arrays=(("mean", np.zeros(3)),))
    >>> Step.from_json(step.to_json(), {"mean": np.zeros(3)}).setting("mu")
    0.5
    >>> str(step)
    'constant(mu=0.5)'
    """

    name: str
    settings: tuple[tuple[str, Scalar], ...] = ()
    arrays: tuple[tuple[str, np.ndarray], ...] = ()

    def __post_init__(self) -> None:
        frozen = []
        for key, array in self.arrays:
            array = np.array(array, dtype=np.float64)
            array.setflags(write=False)
            frozen.append((key, array))
        object.__setattr__(self, "arrays", tuple(frozen))

    def setting(self, key: str) -> Any:
        """Return a setting.

        Parameters
        ----------
        key
            Name of a setting.

        Returns
        -------
        Any
            Its value.
        """
        return dict(self.settings)[key]

    def array(self, key: str) -> np.ndarray:
        """Return an array.

        Parameters
        ----------
        key
            Name of an array.

        Returns
        -------
        array
            The array.
        """
        return dict(self.arrays)[key]

    def to_json(self) -> dict[str, Any]:
        """Everything except the arrays' values: `{"name", "settings", "arrays": {key: shape}}`."""
        shapes = {key: list(array.shape) for key, array in self.arrays}
        return {"name": self.name, "settings": dict(self.settings), "arrays": shapes}

    @classmethod
    def from_json(cls, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "Step":
        """Rebuild a step from `to_json` and its arrays; the inverse of the pair (`to_json`, `arrays`).

        Parameters
        ----------
        meta
            The result of `to_json`.
        arrays
            The arrays by name.

        Returns
        -------
        Step
            The step.
        """
        missing = [key for key in meta["arrays"] if key not in arrays]
        if missing:
            raise InputError(
                f"the preparation step '{meta['name']}' needs the array '{missing[0]}', which was not given: "
                "read the weights and the description from the same run"
            )
        pairs = tuple((key, np.asarray(arrays[key])) for key in meta["arrays"])
        return cls(meta["name"], tuple(meta["settings"].items()), pairs)

    def __str__(self) -> str:
        shown = ", ".join(f"{key}={value:g}" for key, value in self.settings if type(value) is float)
        return f"{self.name}({shown})" if shown else self.name
