r"""The Gram matrix of many rows: one float64 matrix and one bound of its error, instead of a radius for each entry.

With rows $u_i$, $b_i$ known up to $\epsilon_i$, $\delta_i$ (Euclidean norms), sizes $A_i = \|u_i\| + \epsilon_i$ and
$B_i = \|b_i\| + \delta_i$, $P = A \circ B$ and $Q = \epsilon \circ B + A \circ \delta$, an entry
$\langle u_i, u_j \rangle \langle b_i, b_j \rangle$ is off by at most
$(2\gamma + 2u) P_i P_j + P_i Q_j + Q_i P_j$, and a matrix of such entries by
$(2\gamma + 2u) \|P\|^2 + 2 \|P\| \|Q\|$ in the spectral norm.

On a CPU the matrix is built in blocks and factored in a copy: 16 N² bytes. On a device it stays there, and a factor
$R$, by whatever algorithm it came, proves $\lambda_{\min}(G) \ge \tau - \|G - \tau I - R R^\top\|$ alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from jaxtyping import Float

from wideproof.certificates.devices import accelerated, on_device
from wideproof.certificates.enclosure import TINY, UP, Ball, exact, gamma, scaled
from wideproof.certificates.passes import Pass
from wideproof.kernels.cholesky import UNIT, backward_error, factor
from wideproof.networks import Graph
from wideproof.precision import double

BLOCK = 2048  # rows of a block on a CPU
MANY = 1 + 1e-6  # covers the rounding of a sum of 10^9 numbers of one sign
SHARES = (1e-5, 1e-3, 0.1)  # of an estimate that is given away, one after the other


class Factor(NamedTuple):
    """Rows of one part of the Gram matrix: inner products of `rows`, times those of the examples' `inputs`."""

    rows: Ball
    inputs: Ball | None
    own: bool = False  # between equal outputs only: `rows` has one row for each example


class Whole(NamedTuple):
    """A symmetric matrix, a bound of its error in the spectral norm, and one of every entry's."""

    mid: Any
    off: float
    entry: float


def is_plain(graph: Graph) -> bool:
    """Return whether every trained array is used once, at one position, in front of one read-out."""
    hidden = [graph.uses(name) for name in graph.trained if name not in (graph.read_out, graph.bias)]
    single = all(len(uses) == 1 and math.prod(graph.grids[uses[0][0]]) == 1 for uses in hidden)
    return len(graph.sites) == 1 and single


def factors(passed: Pass, weigh: Callable[[Ball, int], Ball]) -> list[Factor]:
    """Return the rows that the Gram matrix of all trained arrays is made of; `weigh` takes roots of counts times."""
    graph, n, tracked, found = passed.graph, len(passed.outputs.mid), passed.outputs.rad is not None, []
    for name in graph.trained:
        if name == graph.read_out:
            found.append(Factor(weigh(passed.values[graph.sites[0]].joined(2), 0), None, True))
        elif name == graph.bias:
            found.append(Factor(weigh(exact(np.ones((n, 1)), tracked), 0), None, True))
        else:
            ((k, term),) = graph.uses(name)
            gain = scaled(passed.gain(k), graph.layers[k].scale).joined(2)
            found.append(Factor(weigh(gain, 0), passed.inputs[graph.read(k, term)].joined(2)))
    return found


@double
def gram_of(parts: list[Factor], outputs: int) -> Whole:
    """Return the sum of the parts, on the device where there is one; rows are (example, output)."""
    off = entry = size = largest = 0.0
    for part in parts:
        p, q, terms = _sizes(part, outputs)
        lost = 2 * gamma(terms + 2) + 4 * UNIT
        norms, peaks = (float(np.linalg.norm(p)), float(np.linalg.norm(q))), (float(p.max()), float(q.max()))
        off += lost * norms[0] ** 2 + 2 * norms[0] * norms[1]
        entry += lost * peaks[0] ** 2 + 2 * peaks[0] * peaks[1]
        size, largest = size + norms[0] ** 2, largest + peaks[0] ** 2
    rounding = 2 * len(parts) * UNIT
    mid = _assembled(parts, outputs) if accelerated() else _by_blocks(parts, outputs)
    return Whole(mid, (off + rounding * size) * UP + TINY, (entry + rounding * largest) * UP + TINY)


def _sizes(part: Factor, outputs: int) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"], int]:
    """P and Q, and the largest number of terms in an inner product."""
    b, d = np.linalg.norm(part.rows.mid, axis=1) * UP, part.rows.off
    if part.inputs is None:
        return b + d, d, part.rows.mid.shape[1]
    u, e = np.linalg.norm(part.inputs.mid, axis=1) * UP, part.inputs.off
    u, e = u.repeat(outputs), e.repeat(outputs)
    terms = max(part.rows.mid.shape[1], part.inputs.mid.shape[1])
    return (u + e) * (b + d), (e * (b + d) + (u + e) * d) * UP, terms


def _by_blocks(parts: list[Factor], c: int) -> Float[np.ndarray, "N N"]:
    """Fill the lower triangle in blocks and mirror it."""
    n = len(parts[0].rows.mid) // (1 if parts[0].own else c)
    mid, step = np.empty((n * c, n * c)), max(1, BLOCK // c)
    for i in range(0, n, step):
        for j in range(0, i + 1, step):
            own, other = slice(i, min(i + step, n)), slice(j, min(j + step, n))
            high, wide = own.stop - i, other.stop - j
            total = np.zeros((high, c, wide, c))
            for part in parts:
                if part.own:
                    inner = part.rows.mid[own] @ part.rows.mid[other].T
                    for o in range(c):
                        total[:, o, :, o] += inner
                    continue
                assert part.inputs is not None
                left, right = (part.rows.mid[s.start * c : s.stop * c] for s in (own, other))
                product = (left @ right.T).reshape(high, c, wide, c)
                product *= (part.inputs.mid[own] @ part.inputs.mid[other].T)[:, None, :, None]
                total += product
            block = total.reshape(high * c, wide * c)
            mid[i * c : own.stop * c, j * c : other.stop * c] = block
            if i > j:
                mid[j * c : other.stop * c, i * c : own.stop * c] = block.T
    low = np.tri(step * c, k=-1, dtype=bool)
    for i in range(0, n * c, step * c):  # BLAS may leave the two halves of a block a rounding apart
        block = mid[i : i + step * c, i : i + step * c]
        here = low[: len(block), : len(block)]
        block.T[here] = block[here]
    return mid


def _assembled(parts: list[Factor], c: int) -> jax.Array:
    """The same on the device, whole."""
    total: Any = 0.0
    for part in parts:
        rows = jnp.asarray(part.rows.mid)
        inner = on_device(rows, rows.T)
        if part.own:
            total = total + (inner if c == 1 else jnp.kron(inner, jnp.eye(c)))
            continue
        assert part.inputs is not None
        u = jnp.asarray(part.inputs.mid)
        u = on_device(u, u.T)
        total = total + inner * (u if c == 1 else u.repeat(c, axis=0).repeat(c, axis=1))
    lower = jnp.tril(total)
    return lower + jnp.tril(lower, -1).T


@double
def raised(whole: Whole, outputs: int, level: float) -> Whole:
    """Add a number to all entries of every example's own block, in place on a CPU."""
    rows = len(whole.mid)
    o = np.arange(outputs)
    first = np.arange(0, rows, outputs)[:, None, None]
    at = np.broadcast_arrays(first + o[:, None], first + o)
    if isinstance(whole.mid, np.ndarray):
        mid = whole.mid
        mid[tuple(at)] += level
    else:
        mid = whole.mid.at[tuple(at)].add(level)
    most = 2 * UNIT * float(abs(np.asarray(mid[tuple(at)])).max())
    return Whole(mid, (whole.off + most * outputs) * UP, (whole.entry + most) * UP)


def ends(whole: Whole, tracked: bool = True) -> tuple[float, float]:
    """Return a lower bound of the smallest and an upper bound of the largest eigenvalue, estimates if not `tracked`."""
    return smallest(whole, tracked), largest(whole, tracked)


@double
def smallest(whole: Whole, tracked: bool = True) -> float:
    r"""Return a number that the smallest eigenvalue is not below; minus infinity where there is no factor.

    >>> 0.9999 < smallest(Whole(np.array([[2.0, 1.0], [1.0, 2.0]]), 0.0, 0.0)) < 1
    True
    """
    place = Place(whole.mid)
    solve = place.solver()
    if solve is None:
        return -np.inf
    estimate = 1 / _top(solve, len(whole.mid))
    del solve
    if not tracked:
        return estimate
    for share in SHARES:
        tried = estimate * (1 - share) - 2 * backward_error(len(whole.mid)) * place.trace
        hidden = place.hidden(tried, 1)
        if hidden is not None:
            return float(tried - (whole.off + hidden) * UP - TINY)
    return -np.inf


@double
def largest(whole: Whole, tracked: bool = True) -> float:
    """Return a number that the largest eigenvalue does not exceed.

    >>> 3 <= largest(Whole(np.array([[2.0, 1.0], [1.0, 2.0]]), 0.0, 0.0)) < 3.001
    True
    """
    place = Place(whole.mid)
    estimate = _top(place.times, len(whole.mid))
    if not tracked:
        return estimate
    for share in SHARES:
        tried = estimate * (1 + share)
        hidden = place.hidden(-tried, -1)
        if hidden is not None:
            return (tried + whole.off + hidden) * UP
    return (place.trace + whole.off) * MANY


def _top(times: Callable[[Float[np.ndarray, "N"]], Float[np.ndarray, "N"]], n: int) -> float:
    """Estimate the largest eigenvalue of a positive operator."""
    if n < 3:
        return float(np.linalg.eigvalsh(np.column_stack([times(e) for e in np.eye(n)]))[-1])
    operator: Any = scipy.sparse.linalg.LinearOperator((n, n), matvec=times, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    start = np.random.default_rng(0).standard_normal(n)
    try:
        return float(scipy.sparse.linalg.eigsh(operator, k=1, which="LA", v0=start, tol=1e-6)[0][0])  # pyright: ignore[reportArgumentType]
    except scipy.sparse.linalg.ArpackError:  # an estimate too low proves nothing, and nothing wrong
        return float(np.linalg.norm(times(start)) / np.linalg.norm(start))


class Place:
    """A symmetric matrix where it is: products, solutions, and what its factor may hide."""

    def __init__(self, mid: Any) -> None:
        self.mid, self.host, self.n = mid, isinstance(mid, np.ndarray), len(mid)
        diagonal = np.asarray(mid.diagonal())
        self.trace, self.peak = float(np.abs(diagonal).sum()), float(np.abs(diagonal).max())

    def times(self, v: Float[np.ndarray, "N *one"]) -> Float[np.ndarray, "N"]:
        """Return the matrix times a vector, to be estimated with."""
        return self.mid @ v.ravel() if self.host else np.asarray(_times(self.mid, v.ravel()))

    def shifted(self, level: float, sign: int) -> Float[np.ndarray, "N N"]:
        """Return a copy of sign · G − level · I in Fortran's order."""
        work = np.multiply(self.mid.T, sign, order="F")
        work[np.diag_indices(self.n)] -= level
        return work

    def solver(
        self, level: float = 0.0
    ) -> Callable[[Float[np.ndarray, "N *columns"]], Float[np.ndarray, "N *columns"]] | None:
        """Return solutions with a Cholesky factor of G − level · I, or `None` where there is none."""
        if self.host:
            work = self.shifted(level, 1)
            if not factor(work):
                return None

            def solve(v: Float[np.ndarray, "N *columns"]) -> Float[np.ndarray, "N *columns"]:
                half = scipy.linalg.solve_triangular(work, v, lower=True, check_finite=False)
                return scipy.linalg.solve_triangular(work, half, lower=True, trans=1, check_finite=False)

            return solve
        r = _cholesky(self.mid, level, 1.0)
        if not np.isfinite(float(r[-1, -1])):
            return None
        return lambda v: np.asarray(_solved(r, v))

    def hidden(self, level: float, sign: int) -> float | None:
        r"""Return e with $\pm G - \text{level}\, I \succeq -e I$ from a factorization, `None` where it has no end."""
        size = self.trace + self.n * abs(level)
        rounding = 2 * UNIT * (self.peak + abs(level))
        if self.host:
            return backward_error(self.n) * size + rounding if factor(self.shifted(level, sign)) else None
        r = _cholesky(self.mid, level, float(sign))
        if not np.isfinite(float(r[-1, -1])):
            return None
        gap, lengths, whole = (float(value) for value in _apart(self.mid, r, level, float(sign)))
        found = (gap + (gamma(self.n) + 4 * UNIT) * lengths + 4 * UNIT * (whole + self.n**0.5 * abs(level))) * MANY
        return found + rounding + self.n * TINY if np.isfinite(found) else None


@jax.jit
def _times(mid: Any, v: Any) -> Any:
    return jnp.matmul(mid, v, precision="highest")


@jax.jit
def _solved(r: Any, v: Any) -> Any:
    return jax.scipy.linalg.cho_solve((r, True), v)


def _moved(mid: Any, level: Any, sign: Any) -> Any:
    moved = sign * mid
    here = jnp.arange(len(mid))
    return moved.at[here, here].add(-level)


@jax.jit
def _cholesky(mid: Any, level: Any, sign: Any) -> Any:
    return jnp.linalg.cholesky(_moved(mid, level, sign), symmetrize_input=False)


@jax.jit
def _apart(mid: Any, r: Any, level: Any, sign: Any) -> tuple[Any, Any, Any]:
    """Return the norms of the matrix without R Rᵀ and of R, the latter squared, and of the matrix itself."""
    r = jnp.tril(r)
    gap = _moved(mid, level, sign) - jnp.matmul(r, r.T, precision="highest")
    return jnp.linalg.norm(gap), jnp.square(r).sum(), jnp.linalg.norm(mid)
