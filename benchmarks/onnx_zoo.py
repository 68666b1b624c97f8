"""Which share of a folder of ONNX files can be read: by family, with the reasons, and how well it agrees.

    python benchmarks/onnx_zoo.py FOLDER [--check] [--most 12] [--json FILE]

A family is the folder that a file lies in, such as `acasxu` in the repositories of the VNN-COMP benchmarks; of each,
`--most` files are taken (compressed ones, `.onnx.gz`, too). With `--check` the outputs for two random rows are compared
with ONNX's reference evaluator in float64.
"""

import argparse
import gzip
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from wideproof.errors import InputError
from wideproof.networks.exchange import agreement, from_onnx


def files(folder: Path, most: int) -> Iterator[Path]:
    """Yield the ONNX files below a folder, at most so many of each family."""
    taken: Counter[Path] = Counter()
    for path in sorted([*folder.rglob("*.onnx"), *folder.rglob("*.onnx.gz")]):
        taken[path.parent] += 1
        if taken[path.parent] <= most:
            yield path


def tried(path: Path, check: bool) -> dict[str, Any]:
    """Return what became of a file: loaded, refused with its obstacles, or crashed."""
    began, source = time.perf_counter(), gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path
    found: dict[str, Any] = {"family": path.parent.name, "file": path.name, "obstacles": []}
    try:
        model = from_onnx(source, logits=True)
        found |= {"result": "loaded", "layers": len(model.network.graph.nodes)}
        if check:
            x = np.random.default_rng(0).uniform(0, 1, (2, *model.network.input_shape))
            found["difference"] = agreement(source, model, x)
    except InputError as error:
        found |= {"result": "refused", "obstacles": list(getattr(error, "obstacles", (str(error),)))}
    except Exception as error:  # a crash is what this looks for
        found |= {"result": "crashed", "obstacles": [f"{type(error).__name__}: {error}"]}
    return found | {"seconds": round(time.perf_counter() - began, 2)}


def reason(said: str) -> str:
    """Return the operator that an obstacle begins with, without its name."""
    return said.split(" ")[1] if said.startswith("the ") else said.split(" ")[0]


def report(rows: list[dict[str, Any]], check: bool) -> str:
    """Return the share by family, the reasons, and the largest difference."""
    families: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        families[row["family"]][row["result"]] += 1
    lines = [f"{name:40} {count['loaded']:4} of {count.total()}" for name, count in sorted(families.items())]
    loaded = sum(row["result"] == "loaded" for row in rows)
    crashed = sum(row["result"] == "crashed" for row in rows)
    reasons = Counter(kind for row in rows for kind in set(map(reason, row["obstacles"])))
    slowest = max((row["seconds"] for row in rows), default=0)
    way = ", ".join(f"{kind} {count}" for kind, count in reasons.most_common())
    share = f"{loaded} of {len(rows)} load ({loaded / max(len(rows), 1):.1%}), {crashed} crashed, slowest {slowest} s"
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
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = [tried(path, given.check) for path in files(given.folder, given.most)]
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(report(rows, given.check))


if __name__ == "__main__":
    main()
