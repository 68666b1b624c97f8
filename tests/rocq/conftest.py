"""A small certificate: four rows, sixteen units, before training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wideproof.certificates import Certificate, Problem, certify
from wideproof.data import Dataset
from wideproof.networks import FullyConnected

X = np.array([[-1.0, -1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, 1]])
Y = np.array([-1.0, 1, 1, -1])


def network(**fields: object) -> FullyConnected:
    """The network of the small certificate, with some fields changed."""
    usual = {"width": 16, "depth": 1, "activation": "tanh", "trained": ("hidden",), "start": "doubled", "alpha": 30.0}
    return FullyConnected(3, **(usual | fields))  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="session")
def xor() -> Certificate:
    """XOR with a column of ones."""
    net = network()
    found = certify(Problem(net, Dataset(X, Y, "binary")).at(net.init(0))).certificate
    assert found is not None
    return found


@pytest.fixture(scope="session")
def thrice() -> Certificate:
    """Three outputs, both layers trained, and two equal inputs with different targets."""
    net = network(outputs=3, width=64, trained=("hidden", "output"))
    classes = 2.0 * np.eye(3)[[0, 1, 2, 0, 1]] - 1
    found = certify(Problem(net, Dataset(np.vstack([X, X[-1:]]), classes, "regression")).at(net.init(0))).certificate
    assert found is not None
    return found


@pytest.fixture
def folder(xor: Certificate, tmp_path: Path) -> Path:
    """Its folder."""
    return xor.save(tmp_path / "xor")
