"""From the folder of a certificate to a file that Rocq's kernel checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wideproof.arguments import one_of
from wideproof.rocq.covered import NotCoveredError, read
from wideproof.rocq.numbers import numbers
from wideproof.rocq.source import ARITHMETICS, sentence, source


@dataclass(frozen=True)
class Export:
    """An exported certificate.

    Attributes
    ----------
    text
        The whole file.
    sentence
        Its theorem in words.
    arithmetic
        The arithmetic of its proof.
    weakened
        Names of the claims that are a little weaker than those of the certificate.
    """

    text: str = field(repr=False)
    sentence: str
    arithmetic: str
    weakened: tuple[str, ...]


def export(folder: str | Path, arithmetic: str = "bigz") -> Export:
    r"""Write the theorem about a certificate, and its proof, in the language of Rocq.

    The file defines the stored numbers as whole numbers over powers of two, exactly, and proves that gradient descent
    $\theta_{k+1} = \theta_k - \eta \nabla L(\theta_k)$ from them converges to zero loss (`trains` of `Statement.v`).
    Its proof computes: nothing that NumPy found is trusted.

    Parameters
    ----------
    folder
        The folder of a certificate, or of a proof.
    arithmetic
        `"z"`: the integers of Rocq's library; `"bigz"`: integers made of the processor's, with the axioms that
        specify them; `"float"`: the same, and the processor's floating point for the activations.

    Returns
    -------
    Export
        The file and its theorem in words.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import mkdtemp
    >>> from wideproof.certificates import Problem, certify
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> data = Dataset(np.eye(3), np.array([1.0, -1, 1]), "binary")
    >>> network = FullyConnected(3, width=64, depth=1, activation="tanh", trained=("hidden",), start="doubled")
    >>> folder = certify(Problem(network, data).at(network.init())).certificate.save(mkdtemp() + "/small")
    >>> export(folder).sentence[-70:]
    've by less than 1.99855, and after 50 steps the loss is at most 1e-12.'
    """
    one_of(*ARITHMETICS)("arithmetic", arithmetic)
    subject = read(folder)
    if arithmetic == "float" and subject.begun is not None:
        raise NotCoveredError("Rocq does not cover followed steps in float: they need more bits, so take bigz")
    found = numbers(subject, arithmetic)
    text = source(subject, found, arithmetic, Path(folder).name)
    return Export(text, sentence(subject, found), arithmetic, tuple(sorted(set(found.weakened))))
