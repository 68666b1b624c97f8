"""Proofs from the initial weights: which networks, how many bits and seconds, and what a verifier's step costs.

    python benchmarks/from_start.py networks   # all seven networks, GD and SGD, to a global minimum or in finite time
    python benchmarks/from_start.py cost       # seconds a step against rows, width, depth; fitted exponents; the plan

Each prints a table and writes it to `results/from-start-PART.json`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from peers.common import RESULTS, machine, write_json

import wideproof as wp
from wideproof.certificates import growth
from wideproof.certificates.certifying import certify
from wideproof.certificates.starting import batches_of, certify_run
from wideproof.data import AnyDataset, Dataset
from wideproof.precision import double
from wideproof.proving import follow
from wideproof.training import Run
from wideproof_verify import verify


def digits(limit: int, prepare: str, kind: Any = None) -> AnyDataset:
    return wp.prepare(wp.load("digits", classes=(0, 1), limit=limit, kind=kind), prepare)


def sphere(n: int, d: int, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return Dataset(x / np.linalg.norm(x, axis=1, keepdims=True), y, "binary", name=f"sphere n={n} d={d}")


@dataclasses.dataclass(frozen=True)
class Case:
    """What is trained: to a global minimum of the squared loss as soon as that can be proved, or for `steps`."""

    network: str
    options: dict[str, Any]
    data: AnyDataset
    batch: int | None = None
    loss: str = "squared"
    step: float | str = "safe"
    steps: int = 1500
    finite: bool = False


def cases() -> Iterator[Case]:
    small, large = digits(20, "whiten,unit"), digits(200, "whiten,unit")
    for activation in ("tanh", "erf", "softplus"):
        for depth in (1, 2, 3):
            yield Case("fully-connected", {"width": 64, "depth": depth, "activation": activation}, small)
    for depth in (1, 2, 3):
        yield Case("fully-connected", {"width": 256, "depth": depth, "activation": "erf"}, large)
        yield Case("fully-connected", {"width": 256, "depth": depth, "activation": "erf"}, large, batch=50, step=0.5)
    yield Case("fully-connected", {"width": 64, "depth": 2, "activation": "tanh"}, small, batch=5, step=0.3)
    for depth in (2, 4, 8):
        yield Case("residual", {"width": 128, "depth": depth, "activation": "erf"}, small)
    yield Case("residual", {"width": 128, "depth": 4, "activation": "erf"}, small, batch=5, step=0.3)
    images = digits(20, "standardize,unit", "images")
    yield Case("conv-residual", {"width": 32, "depth": 2, "activation": "tanh"}, images)
    yield Case("conv-residual", {"width": 32, "depth": 2, "activation": "tanh"}, images, batch=10, step=0.5)
    relu = {"width": 256, "depth": 1, "trained": ("hidden",)}
    yield Case("deep-relu", relu, sphere(20, 20))
    for depth in (2, 3):
        for batch in (None, 5):
            yield Case("deep-relu", {"width": 128, "depth": depth}, small, batch, "logistic", 0.2, 200, True)
    for batch in (None, 5):
        yield Case("residual-relu", {"width": 128, "depth": 3}, small, batch, "logistic", 0.2, 200, True)
    sequences = digits(20, "standardize,pad", "sequences")
    for batch in (None, 5):
        yield Case("elman-rnn", {"width": 128}, sequences, batch, "squared", 0.3, 150, True)
        yield Case("deep-rnn", {"width": 64, "depth": 2}, sequences, batch, "squared", 0.2, 100, True)


def trained(case: Case) -> Run:
    """Train until a proof can begin, or for all steps."""
    network = wp.build(case.network, case.data.input_shape, case.data.target_shape, **case.options)
    recipe = wp.Recipe(loss=case.loss, batch=case.batch, steps=16, step_size="safe")
    run = wp.train(network, case.data, dataclasses.replace(recipe, steps=0))
    share = case.step if isinstance(case.step, float) else 1.0
    size = run.step_size * share if case.loss == "squared" else share
    recipe = dataclasses.replace(recipe, step_size=size)
    if case.finite:
        return wp.train(network, case.data, dataclasses.replace(recipe, steps=case.steps))
    run = wp.train(network, case.data, recipe)
    while run.step < case.steps:
        here = certify(network, run.params, case.data, level="float64", rooms=(0.1,),
                       step_size=None if case.batch else size)  # fmt: skip
        if here.passed:
            break
        run = wp.train(network, case.data, dataclasses.replace(recipe, steps=int(1.2 * run.step) + 1))
    return run


@double
def measured(run: Run, turns: int = 8) -> float:
    """Bits that a small change of the start grows by: power iteration on the product of the steps' derivatives."""
    network, data, objective = run.network, run.data, run.recipe.objective
    batches, n = batches_of(run), data.n
    fixed = {k: jnp.asarray(v) for k, v in run.initial.items() if k not in network.trained_names}

    def step(weights: dict[str, Any], rows: Any) -> dict[str, Any]:
        def loss(weights: dict[str, Any]) -> Any:
            outputs = network.scored(network({**fixed, **weights}, jnp.asarray(data.x)[rows]))
            scale = objective.batch_scale(n, len(rows))
            return scale * objective.value(outputs, network.scored(jnp.asarray(data.y)[rows]))

        slope = jax.grad(loss)(weights)
        return {name: weights[name] - run.step_size * slope[name] for name in weights}

    push = jax.jit(lambda w, v, rows: jax.jvp(lambda a: step(a, rows), (w,), (v,))[1])
    after = jax.jit(step)
    rows = [np.arange(n)] * run.step if batches is None else list(batches)
    points = [{k: jnp.asarray(np.asarray(run.initial[k], float)) for k in network.trained_names}]
    for k in range(run.step - 1):
        points.append(after(points[-1], rows[k]))
    rng = np.random.default_rng(0)
    v, size = {k: jnp.asarray(rng.standard_normal(w.shape)) for k, w in points[0].items()}, 1.0
    for _ in range(turns):  # a step's derivative is symmetric
        total = np.sqrt(sum(float(jnp.sum(a * a)) for a in v.values()))
        v = {k: a / total for k, a in v.items()}
        for w, at in zip(points, rows, strict=True):
            v = push(w, v, at)
        size = np.sqrt(sum(float(jnp.sum(a * a)) for a in v.values()))
        for w, at in zip(reversed(points), reversed(rows), strict=True):
            v = push(w, v, at)
    return float(np.log2(size))


def networks(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    print(f"{'network':16} {'act':8} {'n':>3} {'batch':>5} {'width':>5} {'depth':>5} {'K':>5} {'bits':>9} {'eps':>8} "
          f"{'off':>8} {'growth':>7} {'true':>6} {'train':>6} {'claim':>6} {'verify':>6}  proved")  # fmt: skip
    for case in (case for case in cases() if options.only in (None, case.network)):
        began = time.perf_counter()
        run = trained(case)
        at = time.perf_counter()
        found = follow(run)
        verdict, made = found.verdict, found.attempt.certificate
        taken = time.perf_counter() - at - (verdict.seconds if verdict is not None else 0)
        course = [] if verdict is None else verdict.course
        grown = sum(np.log2(row[2]) for row in course)
        used = sorted({row[1] for row in course}, reverse=True)
        true = measured(run) if course and run.step * options.turns <= 20000 else float("nan")
        said = "a global minimum" if found.minimum else "the loss" if found.proved else str(found)
        row = {
            "network": case.network, **case.options, "data": case.data.name, "n": case.data.n, "batch": case.batch,
            "loss_name": case.loss, "steps": run.step, "step_size": run.step_size, "bits": used,
            "distance": None if made is None or made.start is None else made.start.distance,
            "off": course[-1][0] if course else None, "growth_bits": grown, "true_bits": true,
            "train_seconds": at - began, "certify_seconds": taken,
            "verify_seconds": None if verdict is None else verdict.seconds, "said": said,
            "loss": None if made is None else made.claims.get("loss"), "sentence": str(found),
        }  # fmt: skip
        rows.append(row)
        print(f"{case.network:16} {case.options.get('activation', 'relu'):8} {case.data.n:3} {case.batch or '-':>5} "
              f"{case.options['width']:5} {case.options.get('depth', 1):5} {run.step:5} "
              f"{'/'.join(map(str, used)):>9} {row['distance'] or 0:8.1e} {row['off'] or 0:8.1e} {grown:7.1f} "
              f"{true:6.1f} {at - began:6.1f} {taken:6.1f} {row['verify_seconds'] or 0:6.1f}  {said[:90]}"
              f"{'' if row['loss'] is None else format(row['loss'], ' .3g')}", flush=True)  # fmt: skip
    return rows


HINTS = {53: 20.0, 100: 60.0, 192: 90.0}  # bits that make a verifier take this arithmetic


def one_step(run: Run, hint: float) -> tuple[float, int]:
    """Return a verifier's seconds for a step on free cores if so many bits are asked for, and the bits it took."""
    made = certify_run(run).certificate
    assert made is not None
    assert made.start is not None
    taken: dict[int, float] = {}
    few, many = 1, 3
    for steps in (few, few, many, few, many, few, many):  # tables of the activation are made in the first
        start = dataclasses.replace(made.start, steps=steps, bits=(hint,) * steps, distance=1e3)
        with tempfile.TemporaryDirectory() as folder:
            place = dataclasses.replace(made, start=start, claims={"loss": 1e9}).save(Path(folder) / "c")
            began = time.perf_counter()
            verdict = verify(place)
        assert verdict.answer == "proved", verdict.reason
        taken[steps] = min(taken.get(steps, np.inf), time.perf_counter() - began)
    return (taken[many] - taken[few]) / (many - few), verdict.course[-1][1]


def arithmetics() -> Iterator[dict[str, Any]]:
    """Yield seconds of one step in each arithmetic, over networks, rows, widths and depths."""
    grid: list[tuple[str, dict[str, Any], AnyDataset]] = [
        ("fully-connected", {"width": width, "depth": depth, "activation": "erf"}, sphere(n, 50))
        for n, width, depth in ((25, 64, 1), (100, 64, 2), (25, 256, 2), (100, 128, 2), (50, 128, 4))
    ]
    grid += [
        ("deep-relu", {"width": 128, "depth": 3}, sphere(20, 50)),
        ("conv-residual", {"width": 16, "depth": 2, "activation": "tanh"}, digits(10, "standardize,unit", "images")),
    ]
    for name, options, data in grid:
        network = wp.build(name, data.input_shape, data.target_shape, **options)
        run = wp.train(network, data, wp.Recipe(steps=3))
        for hint in HINTS.values():
            seconds, used = one_step(run, hint)
            yield {"network": name, **options, "n": data.n, "steps": 1, "hint": hint, "bits": used, "seconds": seconds,
                   "planned": growth.seconds_to_follow(network.graph, run.initial, data.n, [hint]),
                   "counts": growth.work_of(network.graph, run.initial, data.n)._asdict()}  # fmt: skip


def cost(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds a step of the verifier against rows, width and depth; the exponents, and what the planner says."""
    rows = []
    for row in arithmetics():
        rows.append(row)
        size = f"n {row['n']:4} width {row['width']:5} depth {row.get('depth', 1)}"
        times = f"{row['seconds'] * 1000:7.1f} ms a step, planned {row['planned'] * 1000:7.1f} ms"
        print(f"{row['network']:16} {size}: {row['bits']:4} bits, {times}", flush=True)
    grid = [(n, 256, 1) for n in (25, 50, 100, 200, 400, 800)] + [(100, m, 1) for m in (64, 128, 512, 1024)]
    grid += [(100, 256, d) for d in (2, 3, 4)] + [(n, 128, 2) for n in (50, 200)] + [(100, m, 2) for m in (64, 512)]
    for n, width, depth in grid:
        data = sphere(n, 50)
        network = wp.build("fully-connected", data.input_shape, data.target_shape, width=width, depth=depth,
                           activation="erf")  # fmt: skip
        for steps in (10, 20, 40) if (n, width, depth) == (100, 256, 1) else (10,):
            run = wp.train(network, data, wp.Recipe(steps=steps))
            found = follow(run)
            assert found.verdict is not None
            used = max(row[1] for row in found.verdict.course)
            start = found.attempt.certificate.start if found.attempt.certificate else None
            planned = growth.seconds_to_follow(network.graph, run.initial, n, start.bits if start is not None else ())
            rows.append({"n": n, "width": width, "depth": depth, "steps": steps, "bits": used,
                         "seconds": found.verdict.seconds, "planned": planned})  # fmt: skip
            taken = found.verdict.seconds
            print(f"n {n:4} width {width:5} depth {depth} steps {steps:3}: {used:4} bits, {taken:7.2f} s, "
                  f"{taken / steps * 1000:7.1f} ms a step, planned {planned:7.2f} s", flush=True)  # fmt: skip
    for name, fixed in (("n", {"width": 256, "depth": 1}), ("width", {"n": 100, "depth": 1}),
                        ("depth", {"n": 100, "width": 256}),
                        ("steps", {"n": 100, "width": 256, "depth": 1})):  # fmt: skip
        own = [
            r
            for r in rows
            if "hint" not in r
            and all(r.get(k) == v for k, v in fixed.items())
            and (name == "steps" or r["steps"] == 10)
        ]
        x, y = np.log([r[name] for r in own]), np.log([r["seconds"] for r in own])
        slope = np.polyfit(x, y, 1)[0]
        late = np.polyfit(x[-2:], y[-2:], 1)[0]
        print(f"seconds grow like {name}^{slope:.2f} (between the two largest: {late:.2f})")
        rows.append({"exponent": name, "value": float(slope), "late": float(late)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("networks", "cost"))
    parser.add_argument("--turns", type=int, default=8, help="power iterations for the true growth")
    parser.add_argument("--only", help="this network; the rows of the others stay as they are")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = {"networks": networks, "cost": cost}[options.part](options)
    place = options.out or RESULTS / f"from-start-{options.part}.json"
    kept = json.loads(place.read_text())["rows"] if options.only and place.exists() else []
    kept = [row for row in kept if row["network"] != options.only]
    write_json(place, {"machine": machine(), "rows": [*kept, *rows]})


if __name__ == "__main__":
    main()
