"""Infinitely wide networks beyond one matrix: a million images through one GPU, and how far predictions can be off.

    python benchmarks/scale_streamed.py MNIST.npz [--sizes 125000,250000,500000,1000000] [--json results.json]

Images are the 60,000 training images followed by copies of them, each turned by up to 10 degrees and moved by up to 1.5
pixels (uniformly, bilinear interpolation, `jax.random.key(0)`), divided by their norms. Three parts:

ridge     the largest ridge whose errors on 5,000 training images kept out (with all their copies) are within a standard
          error of the fewest, solved exactly; other sizes take it in proportion, since n/60,000 copies share a weight
bound     60,000 images solved exactly and by conjugate gradients: the true difference beside the stated bound
sizes     conjugate gradients for each size: seconds, steps, errors on the test images, the stated bound; growth

Small sizes and `--part` make it fit a processor.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates

import wideproof as wp

SETTING = {"depth": 3, "activation": "gelu", "preparation": None, "bias": 0.0}  # chosen by leaving out: scale.py
SIDE, HELD_OUT = 28, 5000
RIDGES = (0.01, 0.1, 1.0, 10.0)


@jax.jit
def moved(key: Any, images: Any) -> Any:
    """Turn and move images at random."""
    turn_key, move_key = jax.random.split(key)
    angles = jax.random.uniform(turn_key, (len(images),), minval=-10, maxval=10) * jnp.pi / 180
    moves = jax.random.uniform(move_key, (len(images), 2), minval=-1.5, maxval=1.5)
    middle = (SIDE - 1) / 2
    rows, columns = jnp.meshgrid(jnp.arange(SIDE) - middle, jnp.arange(SIDE) - middle, indexing="ij")

    def one(image: Any, angle: Any, move: Any) -> Any:
        a, b = jnp.cos(angle), jnp.sin(angle)
        where = [a * rows + b * columns + middle + move[0], a * columns - b * rows + middle + move[1]]
        return map_coordinates(image, where, order=1)

    return jax.vmap(one)(images.astype(jnp.float32), angles, moves)


def enlarged(images: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` images of norm 1, the given ones first, and which image each was made of."""
    which = np.arange(count) % len(images)
    out = np.empty((count, SIDE * SIDE))
    out[: min(count, len(images))] = images.reshape(len(images), -1)[:count]
    key, size = jax.random.key(0), 20_000
    for start in range(len(images), count, size):
        end = min(start + size, count)
        take = np.resize(which[start:end], size)  # one shape, one program
        out[start:end] = np.asarray(moved(jax.random.fold_in(key, start), images[take])).reshape(size, -1)[
            : end - start
        ]
    return out / np.linalg.norm(out, axis=1, keepdims=True), which


def classifier(**more: Any) -> wp.NTKClassifier:
    return wp.NTKClassifier(**SETTING, **more)


def choose_ridge(images: np.ndarray, y: np.ndarray, count: int) -> list[dict[str, Any]]:
    kept, out = images[HELD_OUT:], images[:HELD_OUT]
    x, which = enlarged(kept, count)
    new, _ = enlarged(out, len(out))
    rows = []
    for ridge in RIDGES:
        model = classifier(ridge=ridge, solver="cholesky").fit(x, y[HELD_OUT:][which])
        wrong = float(np.mean(model.predict(new) != y[:HELD_OUT]))
        rows.append({"part": "ridge", "n": count, "ridge": ridge, "held_out_error": wrong})
        print(json.dumps(rows[-1]), flush=True)
        del model
    return rows


def largest_good(rows: list[dict[str, Any]]) -> float:
    """Return the largest ridge within a standard error of the fewest errors."""
    least = min(row["held_out_error"] for row in rows)
    allowed = least + np.sqrt(least * (1 - least) / HELD_OUT)
    return max(row["ridge"] for row in rows if row["held_out_error"] <= allowed)


def solved(x: np.ndarray, y: np.ndarray, new: np.ndarray, right: np.ndarray, options: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    model = classifier(solver="cg", **options).fit(x, y)
    fitted = time.perf_counter() - began
    began = time.perf_counter()
    scores = model.decision_function(new)
    predicted = time.perf_counter() - began
    root = float(np.sqrt(model._limit_kernel().diagonal(new[:1])[0]))
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "n": len(x), **options, "fit": fitted, "predict": predicted, "steps": model.n_iter_,
        "error": float(np.mean(model.classes_[np.argmax(scores, axis=1)] != right)), "stated": model.error_ * root,
        "peak_gb": stats.get("peak_bytes_in_use", 0) / 1e9, "scores": scores,
    }  # fmt: skip


def check_bound(x: Any, y: Any, new: Any, right: Any, options: dict[str, Any]) -> list[dict[str, Any]]:
    exact = classifier(ridge=options["ridge"], solver="cholesky").fit(x, y).decision_function(new)
    rows = []
    for tolerance in (1e-3, 1e-4, 1e-5):
        row = solved(x, y, new, right, {**options, "tol": tolerance})
        scores = row.pop("scores")
        row = {"part": "bound", **row, "true": float(np.abs(scores - exact).max())}
        assert row["true"] <= row["stated"], row
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sizes", default="125000,250000,500000,1000000")
    parser.add_argument("--part", default="ridge,bound,sizes")
    parser.add_argument("--exact", type=int, default=60_000, help="images of the exact solution beside the bound")
    parser.add_argument("--ridge-size", type=int, default=100_000)
    parser.add_argument("--ridge", type=float, help="instead of the one that part `ridge` finds")
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--verbose", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with np.load(given.data) as file:
        x, y, new, right = (file[key] for key in ("x_train", "y_train", "x_test", "y_test"))
    new, _ = enlarged(new, len(new))
    rows: list[dict[str, Any]] = []
    parts, ridge = given.part.split(","), given.ridge
    if "ridge" in parts:
        rows += choose_ridge(x, y, given.ridge_size)
        ridge = largest_good(rows) if ridge is None else ridge
    share = (0.1 if ridge is None else ridge) / given.ridge_size
    options = {"rank": given.rank, "verbose": given.verbose}
    if "bound" in parts:
        few, which = enlarged(x, given.exact)
        rows += check_bound(few, y[which], new, right, {**options, "ridge": share * given.exact})
    if "sizes" in parts:
        sizes = list(map(int, given.sizes.split(",")))
        many, which = enlarged(x, max(sizes))
        for n in sizes:
            more = {**options, "ridge": share * n, "tol": given.tol, "checkpoint": given.checkpoint}
            row = {"part": "sizes", **solved(many[:n], y[which[:n]], new, right, more)}
            row = {key: value for key, value in row.items() if key not in ("scores", "checkpoint")}
            rows.append(row)
            print(json.dumps(row), flush=True)
            save(given.json, rows)
        if len(sizes) > 1:
            taken = [row for row in rows if row["part"] == "sizes"]
            slope = np.polyfit(np.log([r["n"] for r in taken]), np.log([r["fit"] for r in taken]), 1)[0]
            print(f"seconds grow like n^{slope:.2f}")
    save(given.json, rows)


def save(place: Path | None, rows: list[dict[str, Any]]) -> None:
    if place is not None:
        versions = {"jax": jax.__version__, "python": platform.python_version()}
        found = {"device": jax.devices()[0].device_kind, "versions": versions, "rows": rows}
        place.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
