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
from tests.certificates.making import fitted, point, signs, sphere
from wideproof.certificates import (
    Attempt,
    Basin,
    Descent,
    Epochs,
    Finite,
    Logistic,
    Margins,
    Momentum,
    Newton,
    Orders,
    Problem,
    ReadOut,
    Ridge,
    Sampling,
    Theorem,
    certify,
    certify_from_start,
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
    return certify(point(network, *fitted(network, n=2)))


def _near(n: int, outputs: int = 1) -> tuple[dict[str, np.ndarray], Dataset]:
    """Weights, and targets at a small distance from their outputs."""
    network = FullyConnected(4, 24, 1, TANH, outputs=outputs)
    x, params = _points(n), {name: np.asarray(w) for name, w in network.init(0).items()}
    out = np.asarray(network(params, x))
    return params, Dataset(x, out + 0.05 * np.sign(out), "regression")


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
    return certify(Problem(network, _clashing()).at(network.init(0)), Descent(require_zero=True))


def _repeated() -> Attempt:
    groups = distinct(_clashing())
    return certify(Problem(WIDE, _clashing()).at(polish(WIDE, WIDE.init(0), groups.x, groups.y).params))


def _fit() -> Any:
    network = FullyConnected(4, 8, 2, TANH)
    return certify(Problem(network, _pairs()).at(train(network, _pairs(), Recipe(steps=300)).params), Logistic())


def _classes() -> Dataset:
    """Four rows in three classes."""
    return Dataset(sphere(4, 4, 3), 2 * np.eye(3)[[0, 1, 2, 0]] - 1, "multiclass")


def _margins(outputs: int) -> Any:
    network = FullyConnected(4, 24, 1, TANH, outputs=outputs)
    data = _classes() if outputs > 1 else Dataset(sphere(3, 4, 3), signs(3, 3), "binary")
    return certify(Problem(network, data).at(polish(network, network.init(0), data.x, 3 * data.y).params), Margins())


def _positive() -> Attempt:
    """All units of the start are equal, so that one row of it, repeated, would be the same weights."""
    network = FullyConnected(6, 8, 1, TANH, start="positive(20)")
    begun = {name: np.array(weight) for name, weight in network.init().items()}
    data = Dataset(np.eye(6)[:3], np.array([1.0, -1.0, 1.0]), "binary")
    near = polish(network, begun, data.x, data.y).params
    return certify(Problem(network, data).at(near), Basin(start=begun, share=0.5))


def _ridge() -> Attempt:
    """Weight decay towards a centre, with rows that contradict each other."""
    network = FullyConnected(4, 16, 1, trained=("hidden",))
    first = doubled(network)
    near = polish_ridge(network, first, _clashing().x, _clashing().y, decay=2.0, centre=first)
    return certify(Problem(network, _clashing()).at(near.params), Ridge(2.0, centre=first))


def _stochastic(theorem: Theorem) -> Attempt:
    return certify(point(WIDE, *fitted(WIDE, n=4)), theorem)


def _entered() -> Attempt:
    """SGD from the start into the basin of Theorem 5."""
    data = _pairs()
    run = train(FullyConnected(4, 48, 1, TANH), data, Recipe(steps=60, batch=2, step_size=0.1))
    near = polish(run.network, run.params, data.x, data.y).params
    return enter(run, certify(Problem(run.network, data).at(near), Epochs(2)))


def _run(network: Network, **recipe: Any) -> Any:
    return train(network, _pairs(), Recipe(**recipe))


CLASSES = FullyConnected(4, 6, 1, TANH, outputs=3)
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
    "finite": lambda: certify_from_start(
        _run(DeepReLU(4, 8, 2), loss="logistic", steps=8, step_size=0.5, batch=2), Finite()
    ),
    "basin": lambda: certify(point(WIDE, *fitted(WIDE, n=3)), Basin()),
    "basin-start": _positive,
    "epochs": lambda: _stochastic(Epochs(2)),
    "epochs-partition": lambda: _stochastic(Epochs(2, partition=[0, 1, 0, 1])),
    "epochs-from-start": _entered,
    "sampling": lambda: _stochastic(Sampling(2)),
    "orders": lambda: _stochastic(Orders(2)),
    "ridge": _ridge,
    "read_out": lambda: certify(Problem(DeepReLU(4, 8, 2), _pairs()).at(DeepReLU(4, 8, 2).init(0)), ReadOut()),
    "read_out-classes": lambda: certify(Problem(CLASSES, _classes()).at(CLASSES.init(0)), ReadOut()),
    "margins": lambda: _margins(1),
    "margins-classes": lambda: _margins(3),
    "momentum": lambda: certify(point(WIDE, *fitted(WIDE, n=3)), Momentum()),
    "newton": lambda: certify(point(WIDE, *_near(3)), Newton()),
    "newton-outputs": lambda: certify(point(FullyConnected(4, 24, 1, TANH, outputs=2), *_near(3, 2)), Newton()),
}


@cache
def folder(name: str) -> Path:
    """Return where the certificate of this name is."""
    attempt = MAKERS[name]()
    assert attempt.certificate is not None, str(attempt)
    assert attempt.certificate.theorem == name.split("-")[0], attempt.certificate.theorem
    return attempt.certificate.save(KEPT / name)
