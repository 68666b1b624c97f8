r"""The networks as the papers print them: scales, laws and trained weights from the text, written anew in NumPy.

What is measured is a network of this package. Whether it is the paper's is a question of its own, which no number
answers that takes a scale or a variance from the network itself: a wrong factor would then stand on both sides. Here
every constant is the text's ($2/m$, $\theta$, $c_\sigma$, $c_{res}/(H\sqrt m)$), and the main theorems hold only where
the network that they are measured on agrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from wideproof.papers.check import Check, agrees, at_most, identity, law

Weights = Mapping[str, ArrayLike]
SAME = 1e-9  # two ways to add up the same numbers


@dataclass(frozen=True)
class Text:
    """What a paper says about its network's weights.

    Attributes
    ----------
    shapes
        The shape of every weight by name; there are no others.
    variances
        The variance of the normal entries of a weight at the start.
    trained
        The weights that gradient descent moves.
    signs
        The weight that has half its entries +1 and half -1; empty if there is none.
    """

    shapes: Mapping[str, tuple[int, ...]]
    variances: Mapping[str, float]
    trained: frozenset[str]
    signs: str = ""

    def start(self, drawn: Weights) -> list[Check]:
        """Compare weights at a random start with the text.

        Parameters
        ----------
        drawn
            The weights by name.

        Returns
        -------
        list[Check]
            The names and shapes, the moments of the entries, and the signs.

        Examples
        --------
        >>> text = Text({"W": (60, 60)}, {"W": 2 / 60}, frozenset({"W"}))
        >>> normal = np.random.default_rng(0).standard_normal((60, 60))
        >>> [check.outcome.value for factor in (2, 1) for check in text.start({"W": normal * (factor / 60) ** 0.5})]
        ['holds', 'holds', 'holds', 'fails']
        """
        weights = {name: np.asarray(weight, float) for name, weight in drawn.items()}
        found = {name: weight.shape for name, weight in weights.items()}
        wrong = [name for name in {*found, *self.shapes} if found.get(name) != self.shapes.get(name)]
        parts = [at_most("weights that the text does not have, or that have another shape", len(wrong), 0, counts=True)]
        for name, variance in self.variances.items():
            if name in found:
                entries = weights[name].ravel() / np.sqrt(variance)
                moments = np.stack([entries**k for k in (1, 2, 4)], axis=1)
                parts.append(law(f"moments 1, 2, 4 of {name} over the printed deviation", moments, [0.0, 1.0, 3.0]))
        if self.signs in found:
            signs = weights[self.signs]
            parts.append(identity(f"entries of {self.signs}: size 1", np.abs(signs), 1.0))
            parts.append(identity(f"entries of {self.signs}: as many +1 as -1", signs.mean() + 1, 1.0))
        return parts

    def moved(self, before: Weights, after: Weights) -> Check:
        """Compare which weights training has moved with those that the text trains.

        Parameters
        ----------
        before
            The weights at the start.
        after
            The weights after some steps.

        Returns
        -------
        Check
            How many weights moved that are fixed, or stayed that are trained.

        Examples
        --------
        >>> text = Text({"W": (1, 1), "A": (1, 1)}, {}, frozenset({"W"}))
        >>> before, after = {"W": np.zeros(1), "A": np.zeros(1)}, {"W": np.ones(1), "A": np.ones(1)}
        >>> text.moved(before, after).outcome.value, text.moved(before, {**after, "A": np.zeros(1)}).outcome.value
        ('fails', 'holds')
        """
        changed = {name for name in before if not np.array_equal(np.asarray(before[name]), np.asarray(after[name]))}
        title = f"weights that move though they are fixed, or stay though {', '.join(sorted(self.trained))} are trained"
        return at_most(title, len(changed ^ self.trained), 0, counts=True)


def outputs_agree(found: ArrayLike, printed: ArrayLike, when: str) -> Check:
    """Compare the outputs, or losses, of the network under test with those of the printed formula.

    Parameters
    ----------
    found
        What the network gives.
    printed
        What the printed formula gives.
    when
        For which weights, in words.

    Returns
    -------
    Check
        The check.

    Examples
    --------
    >>> print(outputs_agree([1.0, 2.0], [1.0, 2.1], "at the start").outcome)
    fails
    """
    return agrees(f"the network against the printed formula, {when}", found, printed, tolerance=SAME)


def relu(z: np.ndarray) -> np.ndarray:
    """Return the positive part."""
    return np.where(z > 0, z, 0.0)


def deep_relu(weights: Sequence[np.ndarray], signs: np.ndarray, x: np.ndarray) -> np.ndarray:
    r"""Zou et al., (3.1): $f = v^\top \sigma(W_L^\top \sigma(\cdots \sigma(W_1^\top x)))$.

    Examples
    --------
    >>> deep_relu([np.eye(2), -np.eye(2)], np.array([1.0, -1.0]), np.array([[1.0, 2.0]])).tolist()
    [0.0]
    """
    for weight in weights:
        x = relu(x @ weight)
    return x @ signs


def residual_relu(weights: Sequence[np.ndarray], signs: np.ndarray, x: np.ndarray, theta: float) -> np.ndarray:
    r"""Frei et al., Section 3: $x_l = x_{l-1} + \theta\sigma(W_l^\top x_{l-1})$ between a first and a last layer.

    Examples
    --------
    >>> residual_relu([np.eye(2)] * 3, np.array([1.0, -1.0]), np.array([[1.0, 2.0]]), theta=0.5).tolist()
    [-1.5]
    """
    first, *middle, last = weights
    x = relu(x @ first)
    for weight in middle:
        x = x + theta * relu(x @ weight)
    return relu(x @ last) @ signs


def elman(w: np.ndarray, a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    r"""Allen-Zhu et al., Section 2: $h_\ell = \phi(W h_{\ell-1} + A x_\ell)$, $h_0 = 0$, $y_\ell = B h_\ell$.

    Examples
    --------
    >>> elman(np.eye(1), np.eye(1), np.eye(1), np.ones((1, 3, 1))).ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    found = np.zeros((*x.shape[:2], len(b)))
    for i, tokens in enumerate(x):
        state = np.zeros(len(w))
        for time, token in enumerate(tokens):
            state = relu(w @ state + a @ token)
            found[i, time] = b @ state
    return found


def logistic(margins: np.ndarray) -> float:
    r"""Return the mean of $\log(1 + e^{-z})$.

    Examples
    --------
    >>> round(logistic(np.zeros(3)), 4)
    0.6931
    """
    return float(np.mean(-np.log(expit(np.asarray(margins, float)))))
