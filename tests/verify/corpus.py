"""One tiny certificate of every theorem, as the prover writes them, made once and kept on disk."""

from __future__ import annotations

import atexit
import dataclasses
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.cases import OWN
from tests.certificates.making import fitted, signs, sphere
from wideproof.certificates import (
    Attempt,
    certify,
    certify_basin,
    certify_classifier,
    certify_epochs,
    certify_from_start,
    certify_momentum,
    certify_orders,
    certify_ridge,
    certify_run,
    certify_sampling,
    doubled,
    enter,
    polish,
    polish_ridge,
)
from wideproof.data import Dataset
from wideproof.data.repeats import distinct
from wideproof.networks import DeepReLU, ElmanRNN, FullyConnected, Network, get_activation
from wideproof.training import Recipe, train

TANH = get_activation("tanh")
WIDE = FullyConnected(4, 24, 1, TANH)
KEPT = Path(tempfile.mkdtemp(prefix="wideproof-corpus-"))
atexit.register(shutil.rmtree, KEPT, ignore_errors=True)


def _points(n: int = 3) -> np.ndarray:
    return sphere(n, 4, 0)


def _pairs() -> Dataset:
    return Dataset(_points(), np.array([1.0, -1.0, 1.0]), "binary")


def _descent(network: Network) -> Attempt:
    return certify(network, *fitted(network, n=2))


def _existence() -> Attempt:
    attempt = _descent(WIDE)
    assert attempt.certificate is not None
    claims = {k: attempt.certificate.claims[k] for k in ("s", "radii", "lipschitz", "D", "newton_h", "newton_radius")}
    return dataclasses.replace(
        attempt, certificate=dataclasses.replace(attempt.certificate, theorem="existence", claims=claims)
    )


def _clashing() -> Dataset:
    """Five rows, two of them equal and contradicting."""
    x, y = _points(4), signs(4, 0)
    return Dataset(np.concatenate([x, x[:1]]), np.concatenate([y, -y[:1]]), "regression")


def _impossible() -> Attempt:
    network = FullyConnected(4, 8, 1, TANH)
    return certify(network, network.init(0), _clashing(), require_zero=True)


def _repeated() -> Attempt:
    groups = distinct(_clashing())
    return certify(WIDE, polish(WIDE, WIDE.init(0), groups.x, groups.y).params, _clashing())


def _fit() -> Any:
    network = FullyConnected(4, 8, 2, TANH)
    return certify_classifier(network, train(network, _pairs(), Recipe(steps=300)).params, _pairs())


def _positive() -> Attempt:
    """All units of the start are equal, so that one row of it, repeated, would be the same weights."""
    network = FullyConnected(6, 8, 1, TANH, start="positive(20)")
    begun = {name: np.array(weight) for name, weight in network.init().items()}
    data = Dataset(np.eye(6)[:3], np.array([1.0, -1.0, 1.0]), "binary")
    near = polish(network, begun, data.x, data.y).params
    return certify_basin(network, near, data, start=begun, share=0.5)


def _ridge() -> Attempt:
    """Weight decay towards a centre, with rows that contradict each other."""
    network = FullyConnected(4, 16, 1, trained=("hidden",))
    first = doubled(network)
    near = polish_ridge(network, first, _clashing().x, _clashing().y, decay=2.0, centre=first)
    return certify_ridge(network, near.params, _clashing(), decay=2.0, centre=first)


def _stochastic(certified: Callable[..., Attempt], **options: Any) -> Attempt:
    return certified(WIDE, *fitted(WIDE, n=4), batch=2, **options)


def _entered() -> Attempt:
    """SGD from the start into the basin of Theorem 5."""
    data = _pairs()
    run = train(FullyConnected(4, 48, 1, TANH), data, Recipe(steps=60, batch=2, step_size=0.1))
    near = polish(run.network, run.params, data.x, data.y).params
    return enter(run, certify_epochs(run.network, near, data, batch=2))


def _run(network: Network, **recipe: Any) -> Any:
    return train(network, _pairs(), Recipe(**recipe))


HINGES = FullyConnected(4, 64, 1, trained=("hidden",))
MAKERS: dict[str, Callable[[], Any]] = {
    "descent": lambda: _descent(WIDE),
    "descent-relu": lambda: _descent(DeepReLU(5, 10, 2)),
    "descent-image": lambda: _descent(OWN["own-image"]),
    "descent-recurrent": lambda: _descent(ElmanRNN(3, 9, 3, outputs=1, trained=("recurrent", "input", "output"))),
    "descent-outputs": lambda: _descent(FullyConnected(4, 24, 1, TANH, outputs=2)),
    "descent-repeated": _repeated,
    "descent-from-start": lambda: certify_from_start(_run(WIDE, target_loss=1e-6, steps=400)),
    "descent-from-start-batches": lambda: certify_from_start(_run(WIDE, target_loss=1e-6, steps=400, batch=2)),
    "existence": _existence,
    "fit": _fit,
    "impossible": _impossible,
    "logistic": lambda: certify_from_start(_run(HINGES, loss="logistic", steps=10)),
    "finite": lambda: certify_run(_run(DeepReLU(4, 8, 2), loss="logistic", steps=8, step_size=0.5, batch=2)),
    "basin": lambda: certify_basin(WIDE, *fitted(WIDE, n=3)),
    "basin-start": _positive,
    "epochs": lambda: _stochastic(certify_epochs),
    "epochs-partition": lambda: _stochastic(certify_epochs, partition=[0, 1, 0, 1]),
    "epochs-from-start": _entered,
    "sampling": lambda: _stochastic(certify_sampling),
    "orders": lambda: _stochastic(certify_orders),
    "ridge": _ridge,
    "momentum": lambda: certify_momentum(WIDE, *fitted(WIDE, n=3)),
}


@cache
def folder(name: str) -> Path:
    """Return where the certificate of this name is."""
    attempt = MAKERS[name]()
    assert attempt.certificate is not None, str(attempt)
    assert attempt.certificate.theorem == name.split("-")[0], attempt.certificate.theorem
    return attempt.certificate.save(KEPT / name)
