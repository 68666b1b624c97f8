"""The activations of the paper and their first two derivatives, in NumPy, written anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import erf, expit, ndtr

Function = Callable[[np.ndarray], np.ndarray]


def _normal(z: np.ndarray) -> np.ndarray:
    return np.exp(-z * z / 2) / np.sqrt(2 * np.pi)


# σ, σ' and σ'' in NumPy, written anew.
FUNCTIONS: dict[str, tuple[Function, Function, Function]] = {
    "softplus": (lambda z: np.logaddexp(0, z), expit, lambda z: expit(z) * expit(-z)),
    "sigmoid": (expit, lambda z: expit(z) * expit(-z), lambda z: expit(z) * expit(-z) * (1 - 2 * expit(z))),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2, lambda z: -2 * np.tanh(z) * (1 - np.tanh(z) ** 2)),
    "erf": (erf, lambda z: 2 / np.sqrt(np.pi) * np.exp(-z * z), lambda z: -4 * z / np.sqrt(np.pi) * np.exp(-z * z)),
    "gelu": (lambda z: z * ndtr(z), lambda z: ndtr(z) + z * _normal(z), lambda z: (2 - z * z) * _normal(z)),
    "swish": (
        lambda z: z * expit(z),
        lambda z: expit(z) * (1 + z * expit(-z)),
        lambda z: expit(z) * expit(-z) * (2 + z * (1 - 2 * expit(z))),
    ),
    "identity": (lambda z: z, np.ones_like, np.zeros_like),
}
