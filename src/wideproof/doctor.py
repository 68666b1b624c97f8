r"""What this machine computes wrongly: elementary functions, products, factors and draws against exact references.

Functions are compiled by XLA for vectors of several lengths, in float64 and float32, and evaluated by NumPy and SciPy;
the references are balls of Arb with 120 bits. Products of whole numbers are exact in any order of summation. An error
is counted in units in the last place of the exact value.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import flint
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.special
from jax import lax
from threadpoolctl import threadpool_info

from wideproof import machine, programs
from wideproof.answers import Answer
from wideproof.kernels.cholesky import factor
from wideproof.networks import ACTIVATIONS
from wideproof.precision import double
from wideproof.resources import cores, memory

LENGTHS = (1, 7, 64, 67, 1003)
# A compiled function may lose ten bits and still be useful; certificates count on four units of NumPy's.
COMPILED, NUMPY = 1024.0, 4.0
PACKAGES = ("wideproof", "jax", "jaxlib", "numpy", "scipy", "python-flint")
Ball = Any


class Function(NamedTuple):
    """A function three times: for XLA, for NumPy (where certificates use it), exactly; and where it is tried."""

    compiled: Callable[[Any], Any] | None
    numpy: Callable[[Any], Any] | None
    exact: Callable[[Ball], Ball]
    low: float
    high: float


FUNCTIONS: dict[str, Function] = {
    "exp": Function(jnp.exp, np.exp, lambda z: z.exp(), -20, 20),
    "expm1": Function(jnp.expm1, np.expm1, lambda z: z.expm1(), -20, 20),
    "log": Function(jnp.log, np.log, lambda z: z.log(), 1e-3, 20),
    "log1p": Function(jnp.log1p, np.log1p, lambda z: z.log1p(), -0.9, 20),
    "tanh": Function(jnp.tanh, np.tanh, lambda z: z.tanh(), -20, 20),
    "logistic": Function(lax.logistic, None, lambda z: 1 / (1 + (-z).exp()), -20, 20),
    "erf": Function(lax.erf, scipy.special.erf, lambda z: z.erf(), -5, 5),
    "erfc": Function(lax.erfc, None, lambda z: z.erfc(), -5, 5),
    "erf_inv": Function(lax.erf_inv, None, lambda z: z.erfinv(), -0.999, 0.999),
    "arctan": Function(jnp.arctan, np.arctan, lambda z: z.atan(), -20, 20),
    "arctan2": Function(lambda z: jnp.arctan2(z, 0.7), None, lambda z: flint.arb.atan2(z, flint.arb(0.7)), -20, 20),
    "sin": Function(jnp.sin, np.sin, lambda z: z.sin(), -20, 20),
    "cos": Function(jnp.cos, np.cos, lambda z: z.cos(), -20, 20),
    "sqrt": Function(jnp.sqrt, np.sqrt, lambda z: z.sqrt(), 1e-3, 20),
}


@dataclass(frozen=True)
class Finding:
    """One thing that was measured: by whom, in which precision, the largest error and what is allowed, in units."""

    what: str
    by: str
    precision: str
    error: float
    allowed: float
    where: str

    @property
    def right(self) -> bool:
        """Whether the error is within what is allowed; NaN is not."""
        return self.error <= self.allowed


@dataclass(frozen=True)
class Examination:
    """All findings, and what they are about."""

    findings: tuple[Finding, ...]
    versions: dict[str, str]
    machine: dict[str, str | int | float]

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """The findings that are wrong."""
        return tuple(found for found in self.findings if not found.right)

    @property
    def answer(self) -> Answer:
        """Whether this machine computes correctly."""
        return Answer.of(not self.wrong)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        found = [asdict(finding) | {"right": finding.right} for finding in self.findings]
        return {"right": not self.wrong, "versions": self.versions, "machine": self.machine, "findings": found}


@double
def examine() -> Examination:
    """Measure everything; a few seconds.

    >>> found = examine()  # slow
    >>> [finding.what for finding in found.wrong]
    []
    """
    findings = [*_functions(), *_activations(), *_products(), _cholesky(), _draws()]
    return Examination(tuple(findings), _versions(), _machine())


def _functions() -> list[Finding]:
    found = []
    for name, function in FUNCTIONS.items():
        for dtype in (np.float64, np.float32):
            points = [np.linspace(function.low, function.high, n + 2, dtype=dtype)[1:-1] for n in LENGTHS]
            exact = [_exact(function.exact, z) for z in points]
            if function.compiled is not None:
                run = jax.jit(function.compiled)
                found.append(_worst(name, "XLA", COMPILED, points, [np.asarray(run(z)) for z in points], exact))
            if function.numpy is not None and dtype is np.float64:
                found.append(_worst(name, "NumPy", NUMPY, points, [function.numpy(z) for z in points], exact))
    return found


def _exact(function: Callable[[Ball], Ball], z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact values as sums of two float64 numbers."""
    before = flint.ctx.prec
    flint.ctx.prec = 120
    try:
        balls = [function(flint.arb(float(point))) for point in z]
        high = np.array([float(ball.mid()) for ball in balls])
        low = np.array([float((ball - flint.arb(h)).mid()) for ball, h in zip(balls, high.tolist(), strict=True)])
    finally:
        flint.ctx.prec = before
    return high, low


def _worst(name: str, by: str, allowed: float, points: list[Any], found: list[Any], exact: list[Any]) -> Finding:
    """Return the largest error over all lengths, and where it is."""
    dtype, worst = points[0].dtype, (-1.0, "")
    for z, values, (high, low) in zip(points, found, exact, strict=True):
        unit = np.spacing(np.maximum(np.abs(high), np.finfo(dtype).tiny).astype(dtype)).astype(np.float64)
        units = np.abs((values.astype(np.float64) - high) - low) / unit
        units = np.where(np.isfinite(units), units, np.inf)
        k = int(np.argmax(units))
        worst = max(worst, (float(units[k]), f"at {float(z[k]):.6g} of {len(z)}: {float(values[k]):.6g}"))
    return Finding(name, by, dtype.name, worst[0], allowed, worst[1])


def _activations() -> list[Finding]:
    """Measure values and derivatives of the activations, as networks use them, in units of 1."""
    found = []
    for activation in ACTIVATIONS.values():
        error, said = machine.function_error(activation)
        units = error / float(np.finfo(np.float64).eps)
        name = f"{activation.name} and its derivative"
        found.append(Finding(name, "XLA", "float64", units, COMPILED, f"where NumPy says {said:.6g}"))
    return found


def _products() -> list[Finding]:
    """Multiply whole numbers: every sum is exact, so nothing may be off at all."""
    rng, found = np.random.default_rng(0), []
    product = jax.jit(lambda a, b: jnp.matmul(a, b, precision="highest"))
    for dtype, largest in ((np.float64, 1 << 20), (np.float32, 1 << 8)):
        for by, multiply in (("XLA", product), ("NumPy", np.matmul)):
            worst = (-1.0, "")
            for n in LENGTHS:
                a, b = (rng.integers(-largest, largest, shape) for shape in ((67, 129), (129, n)))
                off = np.abs(np.asarray(multiply(a.astype(dtype), b.astype(dtype)), np.float64) - a @ b).max()
                worst = max(worst, (float(off), f"67 x 129 times 129 x {n}"))
            found.append(Finding("matrix product", by, np.dtype(dtype).name, worst[0], 0.0, worst[1]))
    return found


def _cholesky() -> Finding:
    r"""Measure $|A - L L^\top| / (u |L| |L|^\top)$, which is at most about $n + 1$."""
    n = 120
    half = np.random.default_rng(0).normal(size=(n, n))
    matrix = half @ half.T + np.eye(n)
    lower = np.array(matrix, order="F")
    ended = factor(lower)
    lower = np.tril(lower).astype(np.longdouble)
    residual = np.abs(lower @ lower.T - matrix) / (np.abs(lower) @ np.abs(lower).T)
    units = float(residual.max()) / 2.0**-53 if ended else float("inf")
    return Finding("Cholesky factor", "SciPy", "float64", units, n + 2.0, f"{n} x {n}")


# What Threefry, the generator behind every draw, gives for key 0 and counter 0 (Salmon et al., 2011: the published test
# vector has two words, of which JAX takes the exclusive or).
BITS = 0x6B200159 ^ 0x99BA4EFE


def _draws() -> Finding:
    """Compare the generator's bits with known ones, and two draws of the same normal numbers."""
    with jax.threefry_partitionable(True):
        bits = int(jax.random.bits(jax.random.key(0, impl="threefry2x32"), (1,), jnp.uint32)[0])
    draw = jax.jit(lambda key: jax.random.normal(key, (1003,), jnp.float64))
    one, two = (np.asarray(draw(jax.random.key(0))) for _ in range(2))
    differing = int(bits != BITS) + int((one != two).sum())
    return Finding("normal draws", "XLA", "float64", float(differing), 0.0, "numbers that differ")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()} | {name: metadata.version(name) for name in PACKAGES}
    libraries = {f"{lib['internal_api']} {lib['version']} ({lib.get('architecture', 'unknown')})"
                 for lib in threadpool_info() if lib["user_api"] == "blas"}  # fmt: skip
    return found | {"blas": ", ".join(sorted(libraries)) or "unknown"}


def _machine() -> dict[str, str | int | float]:
    name, info = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].partition(":")[2].strip() if lines else name
    return {"processor": name, "cores": cores(), "memory_gb": round(memory() / 1e9, 1),
            "device": f"{jax.default_backend()}: {jax.devices()[0].device_kind}",
            "compiled programs": str(programs.kept())}  # fmt: skip
