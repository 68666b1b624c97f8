"""What the benchmarks against other packages share: guarded children, timing, memory, machine. Needs NumPy only."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PEERS = Path(__file__).resolve().parent
RESULTS = PEERS.parent / "results"
TOLERANCE = {"float64": 1e-10, "float32": 1e-6}

ENVIRONMENTS = {
    "neural-tangents": (
        "NEURAL_TANGENTS_PYTHON",
        ".peers/neural-tangents/bin/python",
        'python3 -m venv {folder} && {folder}/bin/pip install "neural-tangents==0.6.5" "jax==0.4.25" '
        '"jaxlib==0.4.25" "numpy<2" "scipy<1.13"',
    ),
    "torch": (
        "PEERS_PYTHON",
        ".peers/torch/bin/python",
        "python3 -m venv {folder} && {folder}/bin/pip install torch==2.13.0 nngeometry==0.4",
    ),
    "gpytorch": (
        "GPYTORCH_PYTHON",
        ".peers/gpytorch/bin/python",
        "python3 -m venv {folder} && {folder}/bin/pip install torch==2.13.0 gpytorch==1.15.2",
    ),
}


def add_interpreters(parser: Any, *names: str) -> None:
    """Add the options that name the interpreters of the other packages, each in an environment of its own."""
    for name in names:
        variable, path, _ = ENVIRONMENTS[name]
        parser.add_argument(f"--{name}-python", default=os.environ.get(variable, path), help=f"default: ${variable}")


def interpreter(options: Any, name: str) -> str | None:
    """Return the interpreter of `name`, or print how to make it and return None."""
    path = getattr(options, f"{name.replace('-', '_')}_python")
    if Path(path).exists():
        return path
    print(f"no {name} at {path}; make it with\n  {ENVIRONMENTS[name][2].format(folder=Path(path).parent.parent)}")
    return None


def machine() -> dict[str, Any]:
    """Return the processor, its cores and the memory."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "python": platform.python_version(),
    }


def versions(*packages: str) -> dict[str, str]:
    """Return the installed versions, of this interpreter."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def memory_field(key: str, pid: int | str = "self") -> int:
    """Return a field of /proc/PID/status in bytes: `VmRSS` (now) or `VmHWM` (highest since the last reset)."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def run_child(command: Sequence[str], limit: float, memory: float) -> dict[str, Any]:
    """Run a script that ends with `report`; return its report, or `{"failed": reason}`.

    It is ended after `limit` seconds, and when its resident memory passes `memory` GiB.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer, log = Path(folder, "answer.json"), Path(folder, "log")
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "WIDEPROOF_ANSWER": str(answer)}
        with log.open("w") as stream:
            child = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=environment)
        failed, start = "", time.monotonic()
        while child.poll() is None and not failed:
            if memory_field("VmRSS", child.pid) > memory * 2**30:
                failed = f"out of memory (over {memory:g} GiB)"
            elif time.monotonic() - start > limit:
                failed = f"over {limit:g} s"
            time.sleep(0.02)
        if failed:
            child.kill()
            child.wait()
            return {"failed": failed}
        if answer.exists():
            return json.loads(answer.read_text())
        lines = [line for line in log.read_text().splitlines() if line.strip()]
        return {"failed": reason(lines[-1] if lines else f"exit status {child.returncode}", child.returncode)}


def reason(message: str, code: int = 1) -> str:
    """Say in a few words why a child failed, from the last line it printed."""
    signs = ("RESOURCE_EXHAUSTED", "allocate memory", "MemoryError", "Out of memory", "out of memory", "bad_alloc")
    if code == -9 or any(sign in message for sign in signs):
        return "out of memory"
    return f"raises: {message[:90]}"


def report(**values: Any) -> None:
    """Hand the result of a child to the parent; its last words otherwise are its error message."""
    Path(os.environ.get("WIDEPROOF_ANSWER", "/dev/stdout")).write_text(json.dumps(values) + "\n")


def measure(call: Callable[[], Any], rounds: int, budget: float) -> tuple[Any, dict[str, float]]:
    """Time one first call (with compilation), then the best of `rounds` (fewer past `budget` seconds), and the memory.

    The peak is the highest resident memory during the calls above what was resident before them.
    """
    base = memory_field("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again here
    except OSError:
        base = memory_field("VmHWM")
    begin = time.perf_counter()
    result = call()
    cold = time.perf_counter() - begin
    best = np.inf
    for _ in range(rounds):
        del result
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() - begin > budget:
            break
    peak = memory_field("VmHWM") - base
    return result, {"seconds": best, "first_seconds": cold, "peak_gb": peak / 1e9}


def load_job() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what the parent wrote: the job (first argument, JSON) and its arrays (second, NPZ)."""
    job = json.loads(Path(sys.argv[1]).read_text())
    with np.load(sys.argv[2]) as arrays:
        return job, {key: arrays[key] for key in arrays.files}


def save_job(folder: str | Path, job: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[str]:
    """Write a job for `load_job`; return the two arguments."""
    paths = [Path(folder, "job.json"), Path(folder, "arrays.npz")]
    paths[0].write_text(json.dumps(job))
    np.savez(paths[1], **arrays)  # pyright: ignore[reportArgumentType]
    return [str(path) for path in paths]


def gram_sample(entry: Callable[[int, int], Any], trace: float, job: dict[str, Any]) -> dict[str, Any]:
    """Return the K x K blocks of the examples `job["sample"]`, as one matrix ordered by example, and the trace."""
    rows = [[np.asarray(entry(i, j), float).reshape(job["count"], -1) for j in job["sample"]] for i in job["sample"]]
    return {"sample": np.block(rows).tolist(), "trace": float(trace)}


def write_json(path: Path, result: dict[str, Any]) -> None:
    """Write a result like the other benchmarks do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"wrote {path}")
