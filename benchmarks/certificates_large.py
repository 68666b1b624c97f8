"""Certificates for thousands of digits: stages, memory, and what the verifier takes.

    python benchmarks/certificates_large.py make MNIST.npz --n 10000 --out MADE [--width 1024] [--outputs 10]
    python benchmarks/certificates_large.py join MNIST.npz MADE --out CERTIFICATE
    python benchmarks/certificates_large.py verify CERTIFICATE [--cores 2]

`make` trains, polishes and certifies where JAX computes, and writes claims and weights, in files of 12 MiB at most,
without the data. `join` makes the data again, compares its digest, and puts the certificate together. `verify` runs the
verifier in a process of its own, with so many cores. MNIST.npz holds `x_train` and `y_train`; the first n digits
are taken, even against odd with one output, each against all others with ten. `make` adds a row to
`results/certificates-large.json`, or to the file that `--results` names, and `verify` adds its own figures to that row.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from peers.common import RESULTS, machine, write_json

PIECE = 12 << 20  # bytes of weights in a file
GIB = 2.0**30


def digits(given: argparse.Namespace) -> Any:
    """Return the first n digits, prepared: even against odd, or each class against the others."""
    from wideproof.data import Dataset, prepare

    source, n, outputs = given.source, given.n, given.outputs
    with np.load(source) as arrays:
        x, label = arrays["x_train"][:n].reshape(n, -1) / 255.0, arrays["y_train"][:n]
    if outputs == 1:
        data = Dataset(x, np.where(label % 2 == 0, 1.0, -1.0), "binary", name=f"mnist {n}, even or odd")
    else:
        data = Dataset(x, 2.0 * np.eye(outputs)[label] - 1.0, "multiclass", name=f"mnist {n}, {outputs} classes")
    data = prepare(data, given.prepare)
    if given.bits:  # two machines whose sums differ by a rounding then have the same data
        data = dataclasses.replace(data, x=np.rint(data.x * 2.0**given.bits) / 2.0**given.bits)
    return data


class Stages:
    """Seconds of what is done, one after the other and inside of each other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the seconds of what is done inside."""
        start = time.perf_counter()
        yield
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 3)
        print(f"{name}: {self.seconds[name]:.1f} s, {peak() / GIB:.2f} GiB so far", flush=True)

    def watch(self, module: Any, name: str, title: str) -> None:
        """Count the seconds of a function of the package, too."""
        inner: Callable[..., Any] = getattr(module, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            with self.stage(title):
                return inner(*args, **kwargs)

        setattr(module, name, counted)


def peak() -> int:
    """The most memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def make(given: argparse.Namespace) -> dict[str, Any]:
    import jax
    from safetensors.numpy import save_file

    from wideproof.certificates import anchor, many
    from wideproof.certificates.balance import balanced
    from wideproof.certificates.certify import certify
    from wideproof.certificates.memory import memory_needed
    from wideproof.certificates.polishing import fit_read_out, polish
    from wideproof.certificates.problem import Problem
    from wideproof.networks import FullyConnected, get_activation
    from wideproof.training import Recipe, train

    stages = Stages()
    with stages.stage("data"):
        data = digits(given)
    if given.digest and data.digest != given.digest:
        raise SystemExit(f"the digest of the data is {data.digest}, not {given.digest}")
    network = FullyConnected(
        data.x.shape[1], given.width, given.depth, get_activation(given.activation), outputs=given.outputs
    )
    start = {name: np.asarray(weight, np.float64) for name, weight in network.init(given.seed).items()}
    way = anchor.way_of(network.graph, start, given.n)
    lean, need = way == "lean", memory_needed(network.graph, start, given.n, way)
    print(f"{data}\n{network}, on {jax.devices()[0]}\nneeds about {need}", flush=True)
    with stages.stage("training"):
        run = train(network, data, Recipe(steps=given.steps, seed=given.seed)) if given.steps else None
    weights = start if run is None else run.params
    with stages.stage("polishing"):
        found = (fit_read_out if lean else polish)(network, weights, data.x, data.y)
    if found is None:
        raise SystemExit("the read-out cannot be fitted")
    print("residuals", " ".join(f"{value:.2g}" for value in found.residuals), flush=True)
    about = {
        "anchor": f"weights after {given.steps} steps of gradient descent, polished",
        "polishing": {"steps": found.steps, "moved": found.moved, "weights": found.kind},
    }
    for module, name, title in (
        (anchor, "run", "- passes"), (many, "gram_of", "- Gram matrix"),
        (many, "largest", "- largest eigenvalue"), (many, "smallest", "- smallest eigenvalue"),
    ):  # fmt: skip
        stages.watch(module, name, title)
    with stages.stage("certifying"):
        attempt = certify(
            Problem(network, data).at(balanced(network.graph, found.params, data.y) or found.params), about=about
        )
    print(attempt, flush=True)
    if attempt.certificate is None:
        raise SystemExit("no certificate")
    stats = jax.devices()[0].memory_stats() or {}
    made, claims = attempt.certificate, attempt.certificate.claims
    row = {
        "name": name_of(given), "n": given.n, "outputs": given.outputs, "width": given.width, "depth": given.depth,
        "rows": given.n * given.outputs, "lean": lean, "preparation": given.prepare, "digest": data.digest,
        "device": str(jax.devices()[0].device_kind), "machine": machine(), "seconds": stages.seconds,
        "expected_bytes": need._asdict(), "peak_bytes": peak(), "device_peak_bytes": stats.get("peak_bytes_in_use"),
        "residuals": list(found.residuals), "moved": found.moved,
        "claims": {key: claims[key] for key in ("rho", "s", "S", "h", "eta", "rate", "radii", "lipschitz")},
    }  # fmt: skip
    given.out.mkdir(parents=True)
    document = made.document() | {"digest": data.digest}
    (given.out / "claims.json").write_text(json.dumps(document, indent=1))
    for name, weight in made.params.items():
        flat = np.ascontiguousarray(weight, np.float64).ravel()
        step = PIECE // 8
        for k, first in enumerate(range(0, flat.size, step)):
            save_file({name: flat[first : first + step]}, given.out / f"{name}-{k:03}.safetensors")
    return row


def name_of(given: argparse.Namespace) -> str:
    return f"{given.n} digits, {given.outputs} outputs, width {given.width}, depth {given.depth}"


def join(given: argparse.Namespace) -> None:
    """Put claims, weights and data together."""
    from safetensors.numpy import load_file

    from wideproof.certificates.certificate import Certificate
    from wideproof.networks import FullyConnected, get_activation
    from wideproof.networks.graph import graph_from_dict

    document = json.loads((given.made / "claims.json").read_text())
    pieces: dict[str, list[np.ndarray]] = {}
    for file in sorted(given.made.glob("*.safetensors")):
        for name, part in load_file(file).items():
            pieces.setdefault(name, []).append(part)
    data = digits(given)
    if data.digest != document["digest"]:
        raise SystemExit(f"the data made here has the digest {data.digest}, the claims are about {document['digest']}")
    network = FullyConnected(
        data.x.shape[1], given.width, given.depth, get_activation(given.activation), outputs=given.outputs
    )
    shapes = {name: np.shape(weight) for name, weight in network.init(0).items()}
    params = {name: np.concatenate(parts).reshape(shapes[name]) for name, parts in pieces.items()}
    made = Certificate(
        document["summary"], document["theorem"], document["level"], graph_from_dict(document["network"]),
        document["claims"], params, data.x, data.y, document["bound"]["sharp"], document["anchor"],
    )  # fmt: skip
    print(made.save(given.out))


def verify(given: argparse.Namespace) -> dict[str, Any]:
    """Run the verifier with its cores, and read off its seconds and its memory."""
    cores = sorted(os.sched_getaffinity(0))[: given.cores]
    code = (
        "import json, os, resource, sys, time\n"
        f"os.sched_setaffinity(0, {cores})\n"
        "from wideproof_verify import verify\n"
        "began = time.process_time()\n"
        "found = verify(sys.argv[1])\n"
        "print(json.dumps({'answer': found.answer, 'reason': found.reason, 'statement': found.statement, "
        "'seconds': found.seconds, 'processor_seconds': time.process_time() - began, "
        "'peak_bytes': 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))"
    )
    threads = {"OPENBLAS_NUM_THREADS": str(len(cores)), "OMP_NUM_THREADS": str(len(cores))}
    done = subprocess.run(
        [sys.executable, "-c", code, str(given.certificate)], env=os.environ | threads, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    print(f"{found['answer']}: {found['statement'] or found['reason']}")
    print(f"{found['seconds']:.0f} s on {len(cores)} cores ({found['processor_seconds']:.0f} s of processor time), "
          f"{found['peak_bytes'] / GIB:.2f} GiB")  # fmt: skip
    return found | {"cores": len(cores), "machine": machine(), "load": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    for mode in ("make", "join"):
        one = modes.add_parser(mode)
        one.add_argument("source", type=Path)
        if mode == "join":
            one.add_argument("made", type=Path)
        one.add_argument("--out", type=Path, required=True)
        one.add_argument("--n", type=int, default=10_000)
        one.add_argument("--outputs", type=int, default=1)
        one.add_argument("--width", type=int, default=1024)
        one.add_argument("--depth", type=int, default=1)
        one.add_argument("--activation", default="erf")
        one.add_argument("--prepare", default="standardize,sphere(8)")
        one.add_argument("--steps", type=int, default=256, help="of gradient descent before polishing")
        one.add_argument("--seed", type=int, default=0)
        one.add_argument("--bits", type=int, default=0, help="round prepared inputs to so many bits after the point")
        one.add_argument("--digest", default="", help="stop if the data has another one")
    one = modes.add_parser("verify")
    one.add_argument("certificate", type=Path)
    one.add_argument("--cores", type=int, default=2)
    for one in modes.choices.values():
        one.add_argument("--results", type=Path, default=RESULTS / "certificates-large.json")
    given = parser.parse_args()
    if given.mode == "join":
        join(given)
        return
    known = json.loads(given.results.read_text())["rows"] if given.results.exists() else []
    if given.mode == "make":
        row = make(given)
        known = [*(other for other in known if other["name"] != row["name"]), row]
    else:
        found, stated = verify(given), json.loads((given.certificate / "certificate.json").read_text())
        for row in known:
            if row["digest"] == stated["anchor"]["digest"] and row["claims"]["s"] == stated["claims"]["s"]:
                row["verified"] = found
    write_json(given.results, {"rows": known})


if __name__ == "__main__":
    main()
