"""Which share of a folder of ONNX files can be read: by family, with the reasons, and how well it agrees.

    python benchmarks/onnx_zoo.py FOLDER [--check] [--most 12] [--largest 150] [--json FILE]

A family is the folder that a file lies in, such as `acasxu` in the repositories of the VNN-COMP benchmarks, or the one
above if that is called `onnx`, `nets` or by a number; of each folder `--most` files are taken (compressed ones,
`.onnx.gz`, too). Of files with the same bytes one is taken, and files above `--largest` MB are counted but not read.
With `--check` the outputs for two random rows are compared with ONNX's reference evaluator in float64.
"""

import argparse
import gzip
import hashlib
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from peers.common import machine, versions

from wideproof.errors import InputError
from wideproof.networks.exchange import agreement, from_onnx


def files(folder: Path, most: int) -> Iterator[tuple[Path, bytes]]:
    """Yield the distinct ONNX files below a folder, at most so many of each folder, with their bytes."""
    taken: Counter[Path] = Counter()
    seen: set[bytes] = set()
    for path in sorted([*folder.rglob("*.onnx"), *folder.rglob("*.onnx.gz")]):
        if taken[path.parent] >= most:
            continue
        held = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        digest = hashlib.sha256(held).digest()
        if digest not in seen:
            seen.add(digest)
            taken[path.parent] += 1
            yield path, held


def family(path: Path) -> str:
    """Return the name of the family that a file belongs to."""
    return next(part.name for part in path.parents if not re.fullmatch(r"onnx|nets|models|[\d.]*", part.name))


def tried(path: Path, held: bytes, check: bool, largest: float) -> dict[str, Any]:
    """Return what became of a file: loaded, refused with its obstacles, crashed, or too large to be tried."""
    found: dict[str, Any] = {"family": family(path), "file": path.name, "obstacles": [], "bytes": len(held)}
    if len(held) > largest * 1e6:
        return found | {"result": "too large", "seconds": 0.0}
    began = time.perf_counter()
    try:
        model = from_onnx(held, logits=True)
        found |= {"result": "loaded", "layers": len(model.network.graph.nodes)}
        found |= {"load_seconds": round(time.perf_counter() - began, 2)}
        if check:
            x = np.random.default_rng(0).uniform(0, 1, (2, *model.network.input_shape))
            found["difference"] = agreement(held, model, x)
    except InputError as error:
        found |= {"result": "refused", "obstacles": list(getattr(error, "obstacles", (str(error),)))}
    except Exception as error:  # a crash is what this looks for
        found |= {"result": "crashed", "obstacles": [f"{type(error).__name__}: {error}"]}
    return found | {"seconds": round(time.perf_counter() - began, 2)}


OTHERWISE = {
    "the model is not an ONNX model": "damaged", "the network must have one input": "several inputs",
    "the model has the outputs": "several outputs", "the network has": "many outputs",
}  # fmt: skip


def reason(said: str) -> str:
    """Return what an obstacle is about, without its name: an operator, or a few words."""
    known = next((short for start, short in OTHERWISE.items() if said.startswith(start)), None)
    return known or (said.split(" ")[1] if said.startswith("the ") else said.split(" ")[0])


def report(rows: list[dict[str, Any]], check: bool) -> str:
    """Return the share by family, the reasons, and the largest difference."""
    families: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        families[row["family"]][row["result"]] += 1
    lines = [f"{name:40} {count['loaded']:4} of {count.total()}" for name, count in sorted(families.items())]
    loaded, crashed, large = (sum(row["result"] == kind for row in rows) for kind in ("loaded", "crashed", "too large"))
    reasons = Counter(kind for row in rows for kind in set(map(reason, row["obstacles"])))
    slowest = max((row["seconds"] for row in rows), default=0)
    way = ", ".join(f"{kind} {count}" for kind, count in reasons.most_common())
    share = (
        f"{loaded} of {len(rows)} load ({loaded / max(len(rows), 1):.1%}), {crashed} crashed, {large} were too large"
    )
    share += f", slowest {slowest} s"
    lines += ["", share, f"files by what is in the way: {way}"]
    if check:
        far = [row["difference"] for row in rows if "difference" in row]
        lines.append(f"largest difference from the evaluator: {max(far, default=0.0):.1e} in {len(far)} files")
    return "\n".join(lines)


def main() -> None:
    """Read the command line and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--most", type=int, default=12)
    parser.add_argument("--largest", type=float, default=150.0, metavar="MB")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = []
    for path, held in files(given.folder, given.most):
        rows.append(tried(path, held, given.check, given.largest))
        print(".", end="", file=sys.stderr, flush=True)
    if given.json:
        kept = [{**row, "obstacles": sorted(set(map(reason, row["obstacles"])))} for row in rows]
        found = {
            "machine": machine(), "versions": versions("onnx", "jax", "numpy"), "most": given.most,
            "largest": given.largest, "checked": given.check, "rows": kept,
        }  # fmt: skip
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(report(rows, given.check))


if __name__ == "__main__":
    main()
