"""What is proved, how widely and how fast: certificates after training, before training, and their cost.

    python benchmarks/certificates.py after     # every network on bundled data, certified and verified
    python benchmarks/certificates.py before    # the smallest widths with a proof before training
    python benchmarks/certificates.py cost      # seconds to certify and to verify against n and width

Each prints a table and writes it to `results/certificates-PART.json`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from peers.common import RESULTS, machine, write_json

import wideproof as wp
from wideproof.certificates import Problem, certify
from wideproof.certificates.attempt import Attempt
from wideproof.certificates.polishing import polish
from wideproof.certificates.widths import doubled, width_needed
from wideproof.data import AnyDataset, Dataset
from wideproof.networks import FullyConnected, Network, get_activation
from wideproof_verify import verify

AFTER: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    *(("fully-connected", {"depth": d, "width": 256, "activation": "tanh"}, {"limit": 100}, "whiten,unit")
      for d in (1, 2, 3, 4, 5)),
    *(("residual", {"depth": d, "width": 256}, {"limit": 50}, "whiten,unit") for d in (2, 4, 8, 16, 32)),
    *(("conv-residual", {"depth": d, "width": 32}, {"limit": 20, "kind": "images"}, "unit") for d in (2, 3)),
    *(("deep-relu", {"depth": d, "width": 256}, {"limit": 50}, "center,constant") for d in (1, 2, 3)),
    *(("residual-relu", {"depth": d, "width": 256}, {"limit": 50}, "center,constant") for d in (2, 3)),
    ("elman-rnn", {"width": 256}, {"limit": 20, "kind": "sequences"}, "standardize,pad"),
    ("deep-rnn", {"width": 128, "depth": 2}, {"limit": 10, "kind": "sequences"}, "standardize,pad"),
]  # fmt: skip


WORK = 40_000_000_000  # products of a layer in the run that confirms a proof


def trained(network: Network, data: AnyDataset, steps: int) -> tuple[dict[str, np.ndarray], Attempt, bool]:
    """Train for a while; certify there, or after polishing."""
    run = wp.train(network, data, wp.Recipe(steps=steps, target_loss=1e-4))
    attempt = certify(Problem(network, data).at(run.params))
    if attempt.passed:
        return dict(run.params), attempt, False
    found = polish(network, run.params, data.x, data.y)
    return found.params, certify(Problem(network, data).at(found.params)), True


def after(options: argparse.Namespace) -> list[dict[str, Any]]:
    print(f"{'network':16} {'act':9} {'n':>4} {'N':>5} {'width':>5} {'depth':>5} {'polished':>8} {'h':>9} {'radius':>9}"
          f" {'rate':>9} {'certify s':>9} {'verify s':>8}  verdict")  # fmt: skip
    rows = []
    for name, options_of, where, steps in AFTER:
        data = wp.prepare(wp.load("digits", classes=(0, 1), **where), steps)
        kept = {k: v for k, v in options_of.items() if not (name == "elman-rnn" and k == "depth")}
        network = wp.build(name, data.input_shape, data.target_shape, **kept)
        params, attempt, polished = trained(network, data, options.steps)
        start = time.perf_counter()
        certify(Problem(network, data).at(params))
        seconds = time.perf_counter() - start
        rows.append(row(network, data, attempt, {"polished": polished, "certify_seconds": seconds}))
        r = rows[-1]
        print(f"{name:16} {options_of.get('activation', '-'):9} {r['n']:4} {r['outputs']:5} {options_of['width']:5} "
              f"{options_of.get('depth', 1):5} {polished!s:>8} {r['h']:9.2e} {r['radius']:9.2e} {r['rate']:9.2e} "
              f"{seconds:9.2f} {r['verify_seconds']:8.1f}  {r['verdict']}", flush=True)  # fmt: skip
    return rows


def row(network: Network, data: AnyDataset, attempt: Attempt, more: dict[str, Any]) -> dict[str, Any]:
    """Verify a certificate and return the numbers."""
    if attempt.certificate is None or attempt.descent is None:
        return {"network": str(network), "n": data.n, "outputs": 0, "h": attempt.h, "radius": np.nan, "rate": np.nan,
                "verify_seconds": np.nan, "verdict": str(attempt.obstacle), **more}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        verdict = verify(attempt.certificate.save(Path(folder) / "certificate"))
    found, anchor = attempt.descent, attempt.anchor
    assert anchor is not None
    return {
        "network": str(network), "n": data.n, "outputs": anchor.n * anchor.outputs, "h": found.h, "s": found.s,
        "rho": found.rho, "radius": found.radius, "rate": found.rate, "verify_seconds": verdict.seconds,
        "verdict": verdict.answer if verdict.answer == "proved" else f"{verdict.answer}: {verdict.reason}", **more,
    }  # fmt: skip


def sphere(n: int, d: int, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return Dataset(x / np.linalg.norm(x, axis=1, keepdims=True), y, "binary", name=f"sphere n={n} d={d}")


def confirmed(attempt: Attempt, steps: int) -> str:
    """Run gradient descent from a certified start: under the proven rate, inside the radius, at every step."""
    made, found = attempt.certificate, attempt.descent
    assert made is not None
    assert found is not None
    (node, *others), w, a = made.graph.layers, np.array(made.params["W1"]), np.array(made.params["a"])
    if others:
        return "not run"
    scale, known, x, y = node.scale, node.activation.known, made.x, made.y
    value, slope = known.value, known.slope
    path, rho, both = 0.0, found.rho, "a" in made.graph.trained
    steps = max(100, min(steps, WORK // (w.size * len(x))))
    for k in range(steps):
        z = x @ w.T
        hidden = scale * value(z)
        r = hidden @ a - y
        size = float(np.linalg.norm(r))
        if size > rho * (1 - found.rate) ** k * (1 + 1e-9) + 1e-12 or path > found.radius:
            return f"VIOLATED at step {k}"
        if size < 1e-10 * rho:
            return f"held for {k} steps, to the end"
        dw = ((r[:, None] * slope(z)) * (scale * a)).T @ x
        da = hidden.T @ r if both else np.zeros_like(a)
        path += found.eta * float(np.sqrt((dw**2).sum() + (da**2).sum()))
        w -= found.eta * dw
        a = a - found.eta * da
    return f"held for {steps} steps, residual {size / rho:.1e} of the first"


def before(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    print(
        f"{'data':34} {'activation':10} {'trained':14} {'depth':>5} {'Theorem 1':24} {'with Theorem 4':24} "
        f"{'verdict':10} {'seconds':>7}"
        "  gradient descent"
    )
    cases: list[tuple[str, Callable[[int], AnyDataset], str, tuple[str, ...], int, int]] = []
    for n, ds in (
        (5, (50, 100, 200, 500)),
        (10, (50, 100, 200, 500)),
        (20, (50, 100, 200, 500)),
        (50, (50, 100, 200, 500)),
    ):
        for d in ds:
            name = f"sphere n={n} d={d}"
            cases.append((name, lambda seed, n=n, d=d: sphere(n, d, seed), "softplus", ("hidden",), 1, 65536))
            cases.append((name, lambda seed, n=n, d=d: sphere(n, d, seed), "softplus", ("hidden", "output"), 1, 65536))
    for n, d, depth, largest in ((5, 100, 2, 4096), (10, 100, 2, 4096), (5, 100, 3, 2048)):
        name = f"sphere n={n} d={d}"
        cases.append((name, lambda seed, n=n, d=d: sphere(n, d, seed), "softplus", ("hidden",), depth, largest))
    for n in (20, 50, 100, 200):
        for steps in ("unit", "center,unit", "whiten,unit"):
            for activation in ("softplus", "tanh"):
                data = wp.prepare(wp.load("digits", classes=(0, 1), limit=n), steps)
                name = f"digits {n}, {steps}"
                cases.append((name, lambda seed, data=data: data, activation, ("hidden",), 1, 65536))
    for name, make, activation, layers, depth, largest in cases:
        if options.only and options.only not in f"{name} ":
            continue
        start = time.perf_counter()
        widths, either, best, other, least = [], [], None, None, np.inf
        real = name.startswith("digits")
        for seed in (0,) if real else range(2):
            data = make(seed)
            network = FullyConnected(data.x.shape[1], 16, depth, activation=get_activation(activation), trained=layers)
            found = width_needed(network, data, seeds=(seed,), largest=largest, shares=())
            widths += [w for w in found.widths if w is not None]
            best = found.attempts[0] or best
            least = min(least, min(t.h for t in found.tried))
            found = width_needed(network, data, seeds=(seed,), largest=found.widths[0] or largest)
            either += [w for w in found.widths if w is not None]
            other = found.attempts[0] or other
        shown, both = (f"{min(w)} to {max(w)}" if w else f"none up to {largest}" for w in (widths, either))
        shown = shown if widths else f"{shown} (h {least:.3g})"
        verdict, ran = "", ""
        if best is not None and best.certificate is not None:
            ran = confirmed(best, options.steps)
        if other is not None and other.certificate is not None:
            with tempfile.TemporaryDirectory() as folder:
                verdict = verify(other.certificate.save(Path(folder) / "certificate")).answer
        rows.append({"data": name, "activation": activation, "trained": layers, "depth": depth, "widths": widths,
                     "widths_with_theorem_4": either,
                     "least_h": least, "verdict": verdict, "descent": ran,
                     "seconds": time.perf_counter() - start})  # fmt: skip
        save(options, rows)
        print(f"{name:34} {activation:10} {'+'.join(layers):14} {depth:5} {shown:24} {both:24} {verdict:10} "
              f"{rows[-1]['seconds']:7.0f}  {ran}", flush=True)  # fmt: skip
    return rows


def cost(options: argparse.Namespace) -> list[dict[str, Any]]:
    print(f"{'n':>5} {'width':>6} {'depth':>5} {'certify s':>9} {'verify s':>9}  verdict")
    rows = []
    for n, width in ((50, 1024), (100, 1024), (200, 1024), (100, 256), (100, 512)):
        data = sphere(n, 64, 0)
        network = FullyConnected(64, width, 3, activation=get_activation("tanh"))
        params = polish(network, network.init(0), data.x, data.y).params
        start = time.perf_counter()
        attempt = certify(Problem(network, data).at(params))
        seconds = time.perf_counter() - start
        found = row(network, data, attempt, {"n": n, "width": width, "certify_seconds": seconds})
        rows.append(found)
        print(f"{n:5} {width:6} {3:5} {seconds:9.2f} {found['verify_seconds']:9.1f}  {found['verdict']}", flush=True)
    for key, chosen in (("n", [r for r in rows if r["width"] == 1024]), ("width", [r for r in rows if r["n"] == 100])):
        for what in ("certify_seconds", "verify_seconds"):
            slope = np.polyfit(np.log([r[key] for r in chosen]), np.log([r[what] for r in chosen]), 1)[0]
            print(f"{what.replace('_', ' ')} grow like {key}^{slope:.2f}")
    wide = sphere(100, 64, 0)
    network = FullyConnected(64, 65536, 1, activation=get_activation("tanh"), trained=("hidden",))
    attempt = certify(Problem(network, wide).at(doubled(network, 0, 100.0)))
    found = row(network, wide, attempt, {"n": 100, "width": 65536})
    print(f"before training, n 100, width 65536, one hidden layer, output scale 100: h {found['h']:.3g}, "
          f"verify {found['verify_seconds']:.1f} s, {found['verdict']}")  # fmt: skip
    return [*rows, found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("after", "before", "cost"))
    parser.add_argument("--steps", type=int, default=2000, help="of training, or of the confirming run")
    parser.add_argument("--only", help="part of a case's name; a space ends it")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(machine())
    save(options, {"after": after, "before": before, "cost": cost}[options.part](options))


def save(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Write the rows that there are; a part of the cases only where a file is named."""
    if options.json or not options.only:
        path = options.json or RESULTS / f"certificates-{options.part}.json"
        write_json(
            path, json.loads(json.dumps({"machine": machine(), "rows": rows}, default=float).replace("NaN", "null"))
        )


if __name__ == "__main__":
    main()
