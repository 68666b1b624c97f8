"""SGD and basins at weights that fit: Theorems 4 to 7, a run that enters them, hostile orders, and the positive start.

    python benchmarks/sgd.py theorems    # from how far away, for batches of 1, n/5, 50 and n; with verifier's seconds
    python benchmarks/sgd.py hostile     # a thousand epochs in hostile orders beside Theorem 5's bounds
    python benchmarks/sgd.py positive    # Chatterjee's start before training, depth 2, 3, 10: the smallest scale

Each prints a table and writes it to `results/sgd-PART.json`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from peers.common import RESULTS, machine, write_json

import wideproof as wp
from wideproof.certificates import (
    Attempt,
    Basin,
    Epochs,
    Orders,
    Point,
    Problem,
    Sampling,
    certify,
    enter,
    polish,
    scale_needed,
)
from wideproof.networks import FullyConnected
from wideproof.precision import double
from wideproof_verify import verify

N, BATCH, STEPS = 200, 50, 800


def trained() -> tuple[wp.Run, Point]:
    """Train on 200 digits by SGD, and polish the end."""
    data = wp.prepare(wp.load("digits", classes=(0, 1), limit=N), "whiten,unit")
    network = wp.build("fully-connected", data.input_shape, data.target_shape, width=256, depth=1, activation="erf")
    size = 0.5 * wp.train(network, data, wp.Recipe(steps=0, batch=BATCH)).step_size
    run = wp.train(network, data, wp.Recipe(steps=STEPS, batch=BATCH, step_size=size))
    assert run.step == STEPS, run
    return run, Problem(network, data).at(polish(network, run.params, data.x, data.y).params)


def certified(name: str, made: Callable[[], Attempt[Any]]) -> dict[str, Any]:
    """Certify, verify, and return the figures."""
    began = time.perf_counter()
    found = made()
    taken = time.perf_counter() - began
    row: dict[str, Any] = {"what": name, "certify_seconds": taken, "verdict": str(found.obstacle)}
    if found.certificate is not None:
        with tempfile.TemporaryDirectory() as folder:
            verdict = verify(found.certificate.save(Path(folder) / "certificate"))
        claims = found.certificate.claims
        row |= {key: claims[key] for key in ("d", "eta", "rate", "failure", "steps", "batch") if key in claims}
        row |= {"verdict": verdict.answer, "verify_seconds": verdict.seconds, "sentence": verdict.statement}
    print(f"{name:52} d {row.get('d', 0):8.3g}  step {row.get('eta', 0):8.3g}  rate {row.get('rate', 0):8.2g}  "
          f"failure {row.get('failure', 0):8.2g}  certify {taken:6.1f} s, "
          f"verify {row.get('verify_seconds', 0):6.1f} s  {row['verdict']}", flush=True)  # fmt: skip
    return row


def theorems() -> Iterator[dict[str, Any]]:
    """From how far away gradient descent and SGD converge to zero loss."""
    run, point = trained()
    yield certified("Theorem 4, gradient descent", lambda: certify(point, Basin()))
    for batch in (1, N // 5, BATCH, N):
        yield certified(f"Theorem 5, batches of {batch}", lambda batch=batch: certify(point, Epochs(batch)))
    for batch in (N // 5, N):
        fixed = [i // batch for i in range(N)]
        yield certified(
            f"Theorem 5, fixed batches of {batch}",
            lambda batch=batch, fixed=fixed: certify(point, Epochs(batch, partition=fixed)),
        )
    for batch in (N // 5, BATCH):
        yield certified(f"Theorem 6, batches of {batch}", lambda batch=batch: certify(point, Sampling(batch)))
    for batch in (1, BATCH):
        yield certified(
            f"Proposition 7, 10^6 steps, batches of {batch}", lambda batch=batch: certify(point, Orders(batch))
        )
    for name, theorem in (("5", Epochs(BATCH)), ("6", Sampling(BATCH))):
        yield certified(
            f"{run.step} stored steps of SGD, then Theorem {name}, batches of {BATCH}",
            lambda theorem=theorem: enter(run, certify(point, theorem)),
        )


ORDERS = ("greedy", "reversed", "shuffled")


@double
def hostile(epochs: int = 1000, greedy: int = 200) -> Iterator[dict[str, Any]]:
    """Run SGD from the border of Theorem 5's starts: the largest share of its bounds that is used."""
    _, point = trained()
    network, params, data = point.network, point.params, point.data
    found = certify(point, Epochs(BATCH)).certificate
    assert found is not None
    claims, names = found.claims, network.trained_names
    fixed = {name: jnp.asarray(weight) for name, weight in params.items() if name not in names}
    x, y = jnp.asarray(data.x), jnp.asarray(data.y)

    def residual(weights: dict[str, Any], part: Any) -> Any:
        return (network.scored(network({**fixed, **weights}, x[part])) - network.scored(y[part])).ravel()

    @jax.jit
    def step(weights: dict[str, Any], part: Any) -> dict[str, Any]:
        slope = jax.grad(lambda w: 0.5 * jnp.sum(residual(w, part) ** 2))(weights)
        return {name: weights[name] - claims["eta"] * slope[name] for name in names}

    everything = jnp.arange(N)
    size = jax.jit(lambda weights: jnp.linalg.norm(residual(weights, everything)))
    home = {name: jnp.asarray(params[name]) for name in names}
    away = jax.jit(lambda weights: jnp.sqrt(sum(jnp.sum((weights[name] - home[name]) ** 2) for name in names)))
    for kind in ORDERS:
        rng = np.random.default_rng(1)
        moves = {name: rng.standard_normal(np.shape(params[name])) for name in names}
        length = np.sqrt(sum(np.sum(move**2) for move in moves.values()))
        weights = {name: home[name] + claims["d"] / length * moves[name] for name in names}
        used, far = 0.0, 0.0
        for epoch in range(epochs):
            bound = claims["b"] * claims["d"] * (1 - claims["rate"]) ** epoch
            used = max(used, (float(size(weights)) - 1e-11) / bound)
            rows = rng.permutation(N) if kind != "reversed" else np.arange(N)[:: -1 if epoch % 2 else 1]
            left = list(rows.reshape(-1, BATCH))
            while left:
                after = [step(weights, part) for part in (left if kind == "greedy" and epoch < greedy else left[:1])]
                worst = int(np.argmax([float(size(one)) for one in after])) if len(after) > 1 else 0
                weights = after[worst]
                left.pop(worst)
                far = max(far, float(away(weights)) / claims["radii"][0])
        row = {"order": kind, "epochs": epochs, "bound_used": used, "radius_used": far, "left": float(size(weights))}
        assert used <= 1, row
        assert far <= 1, row
        print(f"{kind:10} {epochs} epochs: at most {used:.3g} of the bound of the residual, {far:.3g} of the radius; "
              f"residual at the end {row['left']:.2g}", flush=True)  # fmt: skip
        yield row


def starts() -> Iterator[dict[str, Any]]:
    """The smallest scale of the positive start with a proof before training."""
    data = wp.prepare(wp.load("digits", classes=(0, 1), limit=20), "unit")
    for width, depth in ((8, 2), (8, 3), (8, 10), (256, 2), (256, 3), (256, 10)):
        network = FullyConnected(64, width, depth, wp.networks.get_activation("tanh"))
        found = scale_needed(network, data, start="positive")
        best = found.attempts[0]
        row: dict[str, Any] = {"width": width, "depth": depth, "n": data.n, "scale": found.scales[0], "verdict": ""}
        if best is not None and best.certificate is not None:
            with tempfile.TemporaryDirectory() as folder:
                verdict = verify(best.certificate.save(Path(folder) / "certificate"))
            row |= {"h": best.h, "verdict": verdict.answer, "verify_seconds": verdict.seconds}
        print(f"width {width:4} depth {depth:3}: scale {row['scale']}, h {row.get('h')}, {row['verdict']}", flush=True)
        yield row


PARTS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "theorems": theorems, "hostile": hostile, "positive": starts,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=tuple(PARTS))
    given = parser.parse_args()
    write_json(RESULTS / f"sgd-{given.part}.json", {"machine": machine(), "rows": list(PARTS[given.part]())})


if __name__ == "__main__":
    main()
