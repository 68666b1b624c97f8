r"""JJᵀ of many rows, block by block: one float64 matrix, and one bound of how far it is off.

Blocks are products of `near` (slices of whole numbers, exact in any order), and only the sum of the squares of their
radii is kept. Its smallest eigenvalue is bounded as that of a small matrix: by a float Cholesky factor R that is not
trusted, since the distance of RRᵀ is. That product is a `rough` one, k numbers added in any order. The matrix stands in
the lower triangle of an array and Rᵀ above it: 8 N² bytes for N rows, and blocks.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from wideproof_verify import near
from wideproof_verify.arithmetic import ROUNDING, arb
from wideproof_verify.double import TINY
from wideproof_verify.near import Near

if TYPE_CHECKING:
    from wideproof_verify.networks import Anchor

BLOCK, PANEL = 2048, 512  # rows of a block, and columns that are eliminated at a time


class Wide:
    """Symmetric matrices within `off` (Frobenius norm) of the one whose lower triangle, and only that, is in `mid`."""

    def __init__(self, mid: np.ndarray, off: float):
        self.mid, self.off = mid, off

    def __len__(self) -> int:
        return len(self.mid)

    def size(self) -> float:
        """Return an upper bound of the Frobenius norm of the matrix in `mid`."""
        total = 0.0
        for i in range(0, len(self), BLOCK):
            total += 2 * float(np.square(np.tril(self.mid[i : i + BLOCK, : i + BLOCK], i)).sum())
        return total**0.5 * near.up(len(self) ** 2) + near.FAINT

    def raised(self, outputs: int, level: float) -> "Wide":
        """Add a number to all entries of an example's own block, in place; rows are (output, example)."""
        n = len(self) // outputs
        example, changed = np.arange(n), 0.0
        for o in range(outputs):
            for p in range(o + 1):
                at = (o * n + example, p * n + example)
                self.mid[at] += level
                changed += 2 * float(np.square(self.mid[at]).sum())
        self.off = (self.off + 2 * ROUNDING * changed**0.5) * near.up(len(self) * outputs)
        return self


def matrix(anchor: "Anchor", claims: dict) -> Any:
    """Return JJᵀ, or what bounds it where there are many rows."""
    if anchor.lean:
        return anchor.features()
    if not anchor.many or not {"s", "S"} <= set(claims) or "D" in claims or not plain(anchor):
        return anchor.gram()
    return gram(anchor)


def plain(anchor: "Anchor") -> bool:
    """Return whether JJᵀ is a sum of products of two Gram matrices: one position, one site, each array used once."""
    net = anchor.network
    hidden = [name for name in net.trained if name not in (net.read_out, net.bias)]
    uses = [net.uses(name) for name in hidden]
    single = all(len(use) == 1 and anchor.values[net.inputs + use[0][0]].shape[2] == 1 for use in uses)
    return len(net.sites) == 1 and single


def gram(anchor: "Anchor") -> Wide:
    """Return JJᵀ over the trained arrays, rows (output, example)."""
    net, n, c = anchor.network, anchor.n, anchor.network.outputs
    pairs, read, level = [], None, None
    for name in (name for name in net.trained if name not in (net.read_out, net.bias)):
        ((k, term),) = net.uses(name)
        gain = anchor.weighted(arb(net.nodes[k].scale) * anchor.gains[k], 2)[..., 0]
        pairs.append((anchor.gathered(term)[:, :, 0], gain))
    if net.read_out in net.trained:
        read = anchor.weighted(anchor.read[0], 1)
    if net.bias in net.trained:
        level = anchor.weighted(Near(np.ones((1, n))), 1)
    mid, square, step = np.empty((n * c, n * c)), 0.0, max(1, BLOCK // c)
    parts = [slice(i, min(i + step, n)) for i in range(0, n, step)]
    for a, left in enumerate(parts):
        for right in parts[: a + 1]:
            blocks = _block(pairs, read, level, c, left, right)
            for o in range(c):
                for p in range(o + 1 if left == right else c):
                    rows, columns = (_rows(part, k, n) for part, k in ((left, o), (right, p)))
                    lower = rows.start >= columns.start
                    here = (rows, columns) if lower else (columns, rows)
                    mid[here] = blocks[o, p].mid if lower else blocks[o, p].mid.T
                    square += 2 * float(np.square(blocks[o, p].rad).sum())
    return Wide(mid, square**0.5 * near.up((n * c) ** 2) + near.FAINT)


def _rows(part: slice, output: int, n: int) -> slice:
    return slice(output * n + part.start, output * n + part.stop)


def _block(pairs: list, read: Near | None, level: Near | None, c: int, left: slice, right: slice) -> dict:
    """Return the blocks of all pairs of outputs between two groups of examples."""
    found: dict = {}

    def add(o: int, p: int, part: Near) -> None:
        found[o, p] = found[o, p] + part if (o, p) in found else part

    high, wide = left.stop - left.start, right.stop - right.start
    for phi, gain in pairs:
        inner = near.product(phi[:, left].T, phi[:, right])
        sides = (gain[:, :, part].reshape(len(gain), -1) for part in (left, right))
        outer = near.product(next(sides).T, next(sides))
        for o in range(c):
            for p in range(c):
                cut = slice(o * high, (o + 1) * high), slice(p * wide, (p + 1) * wide)
                add(o, p, inner * outer[cut])
    for rows in (read, level):
        if rows is not None:
            inner = near.product(rows[:, left].T, rows[:, right])
            for o in range(c):
                add(o, o, inner)
    nothing = Near(np.zeros((high, wide)))
    return {(o, p): found.get((o, p), nothing) for o in range(c) for p in range(c)}


def at_least(g: Wide, level: float, sign: int = 1) -> bool | None:
    r"""Return whether no eigenvalue of sign · g is below `level`: proved, or `None`.

    $g - (\text{level} + \delta) I = R R^\top + E$ proves it if $\|E\|_2 \le \delta$; R is float Cholesky, untrusted,
    E is bounded. Sums of k products, in any order, are off by 2ku Σ|ab|, in all by 2Nu Σ_i |R_i|².
    """
    n, diagonal = len(g), np.diagonal(g.mid)
    if not np.isfinite(g.off) or not np.isfinite(diagonal).all():
        return None
    lost = 2 * (n + 16) * ROUNDING
    size = lost * float(np.abs(sign * diagonal - level).sum()) + 16 * ROUNDING * g.size() + g.off
    delta = 3 * size
    corners = cholesky(g.mid, level + delta, sign)
    if corners is None:
        return None
    square, lengths = 0.0, 0.0
    for i in range(0, n, BLOCK):
        left = factor_rows(g.mid, corners, i)
        lengths += float(np.square(left).sum())
        for j in range(0, i + 1, BLOCK):
            right = factor_rows(g.mid, corners, j) if j < i else left
            stop = right.shape[1]
            gap = sign * g.mid[i : i + BLOCK, j:stop] - left[:, :stop] @ right.T
            if i == j:
                gap[np.diag_indices(len(gap))] -= level + delta
                gap = np.tril(gap)
            square += 2 * float(np.square(gap).sum())
    many = near.up(n * n)
    error = square**0.5 * many + (lost + 4 * ROUNDING) * lengths * many + n * TINY + near.FAINT
    error += 4 * ROUNDING * (g.size() + n**0.5 * (abs(level) + delta)) + g.off
    return True if error * (1 + 1e-6) < delta * (1 - 1e-6) else None


def cholesky(a: np.ndarray, shift: float, sign: int) -> list[np.ndarray] | None:
    """Factor sign · a − shift, a being the lower triangle, if it can be: Rᵀ is put above it, but for the corners."""
    n, corners = len(a), []
    for start in range(0, n, PANEL):
        end = min(start + PANEL, n)
        panel = sign * a[start:, start:end]
        panel[np.diag_indices(end - start)] -= shift
        if start:
            panel -= a[:start, start:].T @ a[:start, start:end]
        try:
            corners.append(np.linalg.cholesky(panel[: end - start]))
            a[start:end, end:] = np.linalg.inv(corners[-1]) @ panel[end - start :].T
        except np.linalg.LinAlgError:
            return None
    return corners if all(np.isfinite(corner).all() for corner in corners) else None


def factor_rows(a: np.ndarray, corners: list[np.ndarray], first: int) -> np.ndarray:
    """Return the rows of R in the block that begins at `first`, up to where zeros begin."""
    last = min(first + BLOCK, len(a))
    rows = np.triu(a[:last, first:last], 1 - first).T.copy()
    for k, corner in enumerate(corners):
        start, end = k * PANEL, k * PANEL + len(corner)
        low, high = max(start, first), min(end, last)
        if low < high:
            rows[low - first : high - first, start : min(end, last)] = corner[
                low - start : high - start, : last - start
            ]
    return rows
