"""Proofs from the initial weights: which networks, how many bits and seconds, and what a verifier's step costs.

    python benchmarks/from_start.py networks   # all seven networks, GD and SGD, to a global minimum or a small loss
    python benchmarks/from_start.py cost       # seconds a step against rows, width, depth; fitted exponents; the plan

Each prints a table and writes it to `results/from-start-PART.json`.

Every case of `networks` begins at the papers' start with the outputs as they are (`--start normal`), and at output 0
(`--start zero`) with the scale that a rule gives. A proof of a global minimum has the scales that `prove` tries, with
40 s for the steps: the least of 1, 3, 10, 30, … with few enough of them by forecast, the next one, and one with a proof
at the initial weights. A proof of a small loss has the least of 1, 3, 10, 30, … (for the recurrent network of 100 and
1,000) with which the loss falls to a thousandth in the case's steps and the verifier is expected to take 40 s at most
(there 300 s). The first that is verified is shown.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
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
from wideproof.certificates import Descent, Finite, Problem, certify, certify_from_start, costs
from wideproof.certificates.attempt import Attempt
from wideproof.certificates.starting import batches_of
from wideproof.data import AnyDataset, Dataset
from wideproof.planning.measured import measured
from wideproof.planning.scales import LADDER, Scale, ladder, seconds_of
from wideproof.precision import double
from wideproof.proving import follow
from wideproof.training import Run
from wideproof_verify import verify

NORMAL, ZERO = "normal", "zero"
SECONDS = 40.0  # of the verifier, that following steps may take
SMALL = 1e-3  # of the initial loss


def digits(limit: int, prepare: str, kind: Any = None) -> AnyDataset:
    return wp.prepare(wp.load("digits", classes=(0, 1), limit=limit, kind=kind), prepare)


def sphere(n: int, d: int, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return Dataset(x / np.linalg.norm(x, axis=1, keepdims=True), y, "binary", name=f"sphere n={n} d={d}")


def contradicting(data: AnyDataset) -> Dataset:
    """The rows, and the first two of them again with the other target: the least loss is not 0."""
    x, y = np.asarray(data.x), np.asarray(data.y)
    return Dataset(
        np.concatenate([x, x[:2]]), np.concatenate([y, -y[:2]]), "binary", name=f"{data.name}, contradicting"
    )


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
    only: str | None = None  # the start that it is for
    alphas: tuple[float, ...] = tuple(alpha for alpha in LADDER if alpha <= 1000)  # to try for a small loss
    seconds: float = SECONDS  # of the verifier, that following steps may take


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
    for name, step in (("deep-relu", 0.2), ("residual-relu", 0.5)):
        yield Case(name, {"width": 128, "depth": 8}, small, None, "logistic", step, 200, True, only=ZERO)
    yield Case("residual", {"width": 128, "depth": 2, "activation": "erf"}, contradicting(small), only=ZERO)
    sequences = digits(20, "standardize,pad", "sequences")
    elman, deep, lazy = {"width": 128}, {"width": 64, "depth": 2}, {"only": ZERO, "alphas": (100.0, 1000.0)}
    yield Case("elman-rnn", elman, sequences, None, "squared", 1.6, 2000, True, **lazy, seconds=300.0)
    for batch in (None, 5):
        yield Case("elman-rnn", elman, sequences, batch, "squared", 0.3, 150, True, only=NORMAL)
        yield Case("deep-rnn", deep, sequences, batch, "squared", 0.2, 100, True, only=NORMAL)
        yield Case("deep-rnn", deep, sequences, batch, "squared", 0.2, 100, only=ZERO)
    yield Case("elman-rnn", elman, sequences, 5, "squared", 0.3, 150, only=ZERO)


def trained(case: Case, first: int = 16) -> Run:
    """Train until a proof can begin, or for all steps."""
    network = wp.build(case.network, case.data.input_shape, case.data.target_shape, **case.options)
    recipe = wp.Recipe(loss=case.loss, batch=case.batch, steps=first, step_size="safe")
    run = wp.train(network, case.data, dataclasses.replace(recipe, steps=0))
    share = case.step if isinstance(case.step, float) else 1.0
    size = run.step_size * share if case.loss == "squared" else share / case.options.get("alpha", 1.0) ** 2
    recipe = dataclasses.replace(recipe, step_size=size)
    if case.finite:
        return wp.train(network, case.data, dataclasses.replace(recipe, steps=case.steps))
    run = wp.train(network, case.data, recipe)
    while run.step < case.steps:
        theorem = Descent(None if case.batch else size, rooms=(0.1,))
        here = certify(Problem(network, case.data).at(run.params), theorem, level="float64")
        if here.passed:
            break
        run = wp.train(network, case.data, dataclasses.replace(recipe, steps=int(1.2 * run.step) + 1))
    return run


@dataclasses.dataclass(frozen=True)
class Found:
    """A run that is proved, or the last one that was tried, and the seconds of training, of all scales together."""

    run: Run
    attempt: Attempt
    verdict: Any
    alpha: float
    tried: tuple[float, ...]
    train: float
    certify: float
    processor: float  # of the last attempt and its verdict

    @property
    def proved(self) -> bool:
        """Whether the verifier says so."""
        return self.verdict is not None and self.verdict.answer == "proved"

    @property
    def minimum(self) -> bool:
        """Whether what is proved is a global minimum."""
        made = self.attempt.certificate
        return self.proved and made is not None and made.theorem in ("descent", "epochs")

    @property
    def share(self) -> float:
        """What is left of the initial loss, as it is proved; 0 of what can be had at a global minimum."""
        made = self.attempt.certificate
        if not self.proved or made is None:
            return math.nan
        return 0.0 if self.minimum else made.claims["loss"] / float(self.run.records["loss"][0])


def normal(case: Case) -> Found:
    """As the papers begin, with the outputs as they are."""
    began = time.perf_counter()
    run = trained(case)
    at, used = time.perf_counter(), time.process_time()
    found = follow(run)
    taken = time.perf_counter() - at - (0 if found.verdict is None else found.verdict.seconds)
    return Found(run, found.attempt, found.verdict, 1.0, (1.0,), at - began, taken, time.process_time() - used)


def from_zero(case: Case) -> Found:
    """At output 0, with the first scale of the rule that is verified."""
    options, data = {**case.options, "start": "doubled"}, case.data
    network = wp.build(case.network, data.input_shape, data.target_shape, **options)
    rows, small = case.batch or data.n, case.finite
    began, spent, tried, found = time.perf_counter(), 0.0, [], None
    if small:
        scales = [Scale(alpha, case.steps, 4 * case.steps) for alpha in case.alphas]
    else:
        scales = list(ladder(measured(network, data), seconds_of(network, rows), SECONDS, 0, case.steps))
    for scale in scales:
        now = dataclasses.replace(case, options={**options, "alpha": scale.alpha}, steps=scale.most, finite=small)
        first = scale.forecast or (0 if case.batch is None else -(-data.n // case.batch))
        run = trained(now, first) if not small else long_enough(now)
        at, used = time.perf_counter(), time.process_time()
        tried.append(scale.alpha)
        if small or run.step:
            attempt = certify_from_start(run, Finite() if small else None)
        else:
            attempt = certify(Problem(run.network, data).at(run.params))
        made = attempt.certificate
        took = math.inf if made is None else 0.0
        if made is not None and made.start is not None:
            graph, batches = run.network.graph, made.start.batches
            took = costs.seconds_to_follow(graph, run.initial, rows, made.start.bits)
            took += costs.tables_seconds(graph, run.initial, made.start.tables, run.step, data.n, batches)
        verdict = None
        spent += time.perf_counter() - at
        if made is not None and (took <= case.seconds or scale is scales[-1]):
            with tempfile.TemporaryDirectory() as folder:
                verdict = verify(made.save(Path(folder) / "c"), time=math.inf)
        began += 0 if verdict is None else verdict.seconds  # which are no seconds of training
        train = time.perf_counter() - began - spent
        processor = time.process_time() - used
        found = Found(run, attempt, verdict, scale.alpha, tuple(tried), train, spent, processor)
        if found.proved and found.share <= SMALL:
            break
    assert found is not None
    return found


def long_enough(case: Case) -> Run:
    """Train until the loss is a little less than the share of it that is to be left."""
    run = trained(dataclasses.replace(case, steps=case.steps // 4))
    while run.loss > 0.9 * SMALL * float(run.records["loss"][0]) and run.step < case.steps:
        run = trained(dataclasses.replace(case, steps=min(case.steps, int(1.2 * run.step))))
    return run


@double
def grows(run: Run, turns: int = 8) -> float:
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
    print(f"{'network':16} {'start':6} {'alpha':>6} {'act':8} {'n':>3} {'batch':>5} {'width':>5} {'depth':>5} {'K':>5} "
          f"{'bits':>9} {'eps':>8} {'off':>8} {'growth':>7} {'true':>6} {'train':>6} {'claim':>6} {'verify':>6}  proved"
          )  # fmt: skip
    wanted = [(case, start) for case in cases() if options.only in (None, case.network) for start in (NORMAL, ZERO)
              if options.start in (None, start) and case.only in (None, start)
              and options.least <= case.data.n <= options.most
              and options.depth in (None, case.options.get("depth"))
              and options.batch in (None, case.batch or 0)]  # fmt: skip
    for case, start in wanted:
        found = normal(case) if start == NORMAL else from_zero(case)
        run, verdict, made = found.run, found.verdict, found.attempt.certificate
        course = [] if verdict is None else verdict.course
        grown = sum(np.log2(row[2]) for row in course)
        used = sorted({row[1] for row in course}, reverse=True)
        true = grows(run) if course and run.step * options.turns <= 20000 else float("nan")
        said = "a global minimum" if found.minimum else "the loss" if found.proved else "nothing"
        least = None if made is None else made.claims.get("least_loss")
        said = said.replace("a global minimum", "the least loss") if least else said
        row = {
            "network": case.network, **case.options, "start": start, "alpha": found.alpha, "tried": found.tried,
            "data": case.data.name, "n": case.data.n, "batch": case.batch,
            "loss_name": case.loss, "steps": run.step, "step_size": run.step_size, "bits": used,
            "distance": None if made is None or made.start is None else made.start.distance,
            "off": course[-1][0] if course else None, "growth_bits": grown, "true_bits": true,
            "train_seconds": found.train, "certify_seconds": found.certify,
            "verify_seconds": None if verdict is None else verdict.seconds,
            "processor_seconds": found.processor,
            "tables": None if made is None or made.start is None else list(made.start.tables), "said": said,
            "loss": None if made is None else made.claims.get("loss"), "share": found.share,
            "sentence": str(found.attempt.obstacle) if verdict is None else verdict.statement or verdict.reason,
        }  # fmt: skip
        rows.append(row)
        print(f"{case.network:16} {start:6} {found.alpha:6g} {case.options.get('activation', 'relu'):8} "
              f"{case.data.n:3} {case.batch or '-':>5} "
              f"{case.options['width']:5} {case.options.get('depth', 1):5} {run.step:5} "
              f"{'/'.join(map(str, used)):>9} {row['distance'] or 0:8.1e} {row['off'] or 0:8.1e} {grown:7.1f} "
              f"{true:6.1f} {found.train:6.1f} {found.certify:6.1f} {row['verify_seconds'] or 0:6.1f}  {said} "
              f"{found.share:.2g}", flush=True)  # fmt: skip
        if options.keep:
            options.keep(rows)
    return rows


HINTS = {53: 20.0, 100: 60.0, 192: 90.0}  # bits that make a verifier take this arithmetic


def one_step(run: Run, hint: float) -> tuple[float, int]:
    """Return a verifier's seconds for a step on free cores if so many bits are asked for, and the bits it took."""
    made = certify_from_start(run, Finite()).certificate
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
                   "planned": costs.seconds_to_follow(network.graph, run.initial, data.n, [hint]),
                   "counts": costs.work_of(network.graph, run.initial, data.n)._asdict()}  # fmt: skip


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
            planned = costs.seconds_to_follow(network.graph, run.initial, n, start.bits if start is not None else ())
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
    parser.add_argument("--start", choices=(NORMAL, ZERO), help="this start only; the rows of the other stay")
    parser.add_argument("--least", type=int, default=0, help="cases of at least so many rows; other rows stay")
    parser.add_argument("--most", type=int, default=10**9, help="cases of at most so many rows; other rows stay")
    parser.add_argument("--depth", type=int, help="cases of this depth; other rows stay")
    parser.add_argument("--batch", type=int, help="cases with batches of this size, 0 for none; other rows stay")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    place = options.out or RESULTS / f"from-start-{options.part}.json"
    kept = json.loads(place.read_text())["rows"] if place.exists() and options.part == "networks" else []
    kept = [row for row in kept if (options.only or row["network"]) != row["network"]
            or options.start not in (None, row.get("start"))
            or options.depth not in (None, row.get("depth")) or options.batch not in (None, row["batch"] or 0)
            or not options.least <= row["n"] <= options.most]  # fmt: skip
    options.keep = lambda rows: write_json(place, {"machine": machine(), "rows": [*kept, *rows]})
    options.keep({"networks": networks, "cost": cost}[options.part](options))


if __name__ == "__main__":
    main()
