r"""The Elman network of Allen-Zhu et al. (2018) unrolled in time: states, masks, backward matrices, fresh directions.

Times are the paper's, $\ell = 1..L$; arrays hold time $\ell$ at position $\ell - 1$ of their second axis.

$$ g_{i,\ell} = W h_{i,\ell-1} + A x_{i,\ell}, \qquad h_{i,\ell} = D_{i,\ell}\, g_{i,\ell}, \qquad
   D_{i,\ell} = \mathrm{diag}(1\{g_{i,\ell} \ge 0\}), \qquad
   \mathrm{Back}_{i,\ell\to a} = B D_{i,a} W D_{i,a-1} W \cdots D_{i,\ell+1} W . $$
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from wideproof.monitors.norms import operator_norm
from wideproof.monitors.patterns import active


@dataclass(frozen=True)
class Unrolled:
    r"""A pass through an Elman network, everything in NumPy: sequences along the first axis, times along the second.

    Attributes
    ----------
    W, A, B
        The weights, `(m, m)`, `(m, dx)`, `(d, m)`.
    x
        The tokens, `(n, L, dx)`.
    g, h
        Pre-activations and hidden states, `(n, L, m)`.
    mask
        The diagonals of $D_{i,\ell}$ as booleans; zero counts as active.
    """

    W: Float[np.ndarray, "m m"]
    A: Float[np.ndarray, "m dx"]
    B: Float[np.ndarray, "d m"]
    x: Float[np.ndarray, "n L dx"]
    g: Float[np.ndarray, "n L m"]
    h: Float[np.ndarray, "n L m"]
    mask: Bool[np.ndarray, "n L m"]

    @property
    def n(self) -> int:
        """How many sequences."""
        return self.h.shape[0]

    @property
    def length(self) -> int:
        """How many times, $L$."""
        return self.h.shape[1]

    @property
    def width(self) -> int:
        """How many units, $m$."""
        return self.h.shape[2]

    @property
    def outputs(self) -> Float[np.ndarray, "n L d"]:
        r"""The outputs $B h_{i,\ell}$, `(n, L, d)`."""
        return self.h @ self.B.T

    def product(
        self, i: int, low: int, high: int, vectors: Float[np.ndarray, "m *columns"]
    ) -> Float[np.ndarray, "m *columns"]:
        r"""Return $D_{i,high} W \cdots D_{i,low} W z$ for the columns $z$; nothing is applied when `high < low`."""
        z = np.asarray(vectors, float)
        for time in range(low, high + 1):
            z = (self.mask[i, time - 1] * (self.W @ z).T).T
        return z

    def adjoint(
        self, i: int, low: int, high: int, vectors: Float[np.ndarray, "m *columns"]
    ) -> Float[np.ndarray, "m *columns"]:
        r"""Return $(D_{i,high} W \cdots D_{i,low} W)^\top y$ for the columns $y$."""
        y = np.asarray(vectors, float)
        for time in range(high, low - 1, -1):
            y = self.W.T @ (self.mask[i, time - 1] * y.T).T
        return y

    def matrix(self, i: int, low: int, high: int) -> Float[np.ndarray, "m m"]:
        r"""Return the dense $D_{i,high} W \cdots D_{i,low} W$, the identity when `high < low`."""
        found = np.eye(self.width) if high < low else self.mask[i, low - 1][:, None] * self.W
        return self.product(i, low + 1, high, found)

    def product_norm(self, i: int, low: int, high: int, extra: bool = False) -> float:
        r"""Return $\|D_{i,high} W \cdots D_{i,low} W\|_2$ by Lanczos iteration; `extra` puts a $W$ on the left."""

        def apply(v: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
            z = self.product(i, low, high, v)
            return self.W @ z if extra else z

        def adjoint(v: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
            return self.adjoint(i, low, high, self.W.T @ v if extra else v)

        return operator_norm((self.width, self.width), apply, adjoint)

    def back(self, i: int, time: int, end: int) -> Float[np.ndarray, "d m"]:
        r"""Return $\mathrm{Back}_{i,time\to end}$, `(d, m)`; $B$ itself when the times are equal."""
        return self.adjoint(i, time + 1, end, self.B.T).T

    def backs(self, i: int, end: int) -> Float[np.ndarray, "end d m"]:
        r"""Return $\mathrm{Back}_{i,\ell\to end}$ for $\ell = 1..end$ in one sweep, `(end, d, m)`."""
        found = [self.B]
        for time in range(end, 1, -1):
            found.append((found[-1] * self.mask[i, time - 1]) @ self.W)
        return np.stack(found[::-1])


def unroll(params: Mapping[str, ArrayLike], x: ArrayLike) -> Unrolled:
    r"""Run an Elman network with weights `W`, `A`, `B` on the tokens `x`, `(n, L, dx)`, and keep every state.

    The numbers are those of `ElmanRNN.features`; NumPy does it without compiling for every new shape.

    Examples
    --------
    >>> from wideproof.networks import ElmanRNN
    >>> network = ElmanRNN(input_dim=3, width=8, length=2)
    >>> seen = unroll(network.init(0), np.ones((1, 2, 3)))
    >>> seen.h.shape, bool(np.allclose(seen.back(0, 1, 2), seen.B @ (seen.mask[0, 1][:, None] * seen.W)))
    ((1, 2, 8), True)
    """
    w, a, b = (np.asarray(params[name], float) for name in ("W", "A", "B"))
    tokens = np.asarray(x, float)
    drive = tokens @ a.T
    g = np.empty_like(drive)
    h = np.zeros_like(drive[:, 0])
    states = np.empty_like(drive)
    for time in range(drive.shape[1]):
        g[:, time] = (h @ w.T if time else 0.0) + drive[:, time]
        h = np.maximum(g[:, time], 0.0)
        states[:, time] = h
    return Unrolled(w, a, b, tokens, g, states, active(g, at_zero=True))


class Factors(NamedTuple):
    r"""A gradient $\sum_{i,\ell} e_{i,\ell+1} h_{i,\ell}^\top$, $\ell = 1..L-1$, by factors, both `(n, L - 1, m)`."""

    e: Float[np.ndarray, "n l m"]
    h: Float[np.ndarray, "n l m"]

    def matrix(self) -> Float[np.ndarray, "m m"]:
        """Return the gradient itself, `(m, m)`."""
        m = self.e.shape[-1]
        return self.e.reshape(-1, m).T @ self.h.reshape(-1, m)

    def square(self) -> float:
        r"""Return $\|\nabla\|_F^2$ without forming the matrix."""
        e, h = (part.reshape(-1, part.shape[-1]) for part in self)
        return float(np.sum((e @ e.T) * (h @ h.T)))

    def row_squares(self) -> Float[np.ndarray, "m"]:
        r"""Return $\|\nabla_k\|^2$ for every row $k$."""
        e, h = (part.reshape(-1, part.shape[-1]) for part in self)
        return np.einsum("am,ab,bm->m", e, h @ h.T, e, optimize=True)

    def of(self, i: int) -> Factors:
        r"""Return the gradient of one sequence's part $f_i$."""
        return Factors(self.e[i : i + 1], self.h[i : i + 1])

    def pair(self, change: Float[np.ndarray, "m m"]) -> float:
        r"""Return $\langle \nabla, W' \rangle$."""
        return float(np.sum(self.e * (self.h @ change.T)))


def backward(seen: Unrolled, losses: ArrayLike) -> Factors:
    r"""Return the gradient (the fake one, for arbitrary `losses`) by its factors, in time linear in $L$.

    `losses` are the vectors $\mathrm{loss}_{i,\ell}$, `(n, L, d)`; those of time 1 do not enter. With
    $e_{i,\ell} = D_{i,\ell} (B^\top \mathrm{loss}_{i,\ell} + W^\top e_{i,\ell+1})$,

    $$ \nabla f(W) = \sum_i \sum_{\ell=1}^{L-1} e_{i,\ell+1} h_{i,\ell}^\top . $$

    Examples
    --------
    >>> seen = unroll({"W": np.eye(2), "A": np.eye(2), "B": np.ones((1, 2))}, np.ones((1, 2, 2)))
    >>> backward(seen, np.ones((1, 2, 1))).matrix().tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    loss = np.asarray(losses, float)
    e = np.zeros_like(seen.h[:, 1:])
    carried = np.zeros_like(seen.h[:, 0])
    for time in range(seen.length, 1, -1):
        carried = seen.mask[:, time - 1] * (loss[:, time - 1] @ seen.B + carried @ seen.W)
        e[:, time - 2] = carried
    return Factors(e, seen.h[:, :-1])


def objective(outputs: ArrayLike, targets: ArrayLike) -> float:
    r"""Return $f = \tfrac12 \sum_i \sum_{\ell \ge 2} \|B h_{i,\ell} - y^*_{i,\ell}\|^2$."""
    return float(0.5 * np.square(np.asarray(outputs) - np.asarray(targets))[:, 1:].sum())


def tangent_kernel(seen: Unrolled) -> Float[np.ndarray, "nld nld"]:
    r"""Return $K = J J^\top$ of all scored outputs $(B h_{i,a})_r$, $a = 2..L$, with respect to $W$.

    Rows are ordered by sequence, time, output. $\|\nabla f\|_F^2 = \mathrm{loss}^\top K\, \mathrm{loss}$ for every
    loss, so that the extreme eigenvalues are the best constants of the gradient bounds.
    """
    n, times, d, m = seen.n, seen.length - 1, seen.B.shape[0], seen.width
    e = np.zeros((n, times, d, times, m))
    for i in range(n):
        for a in range(2, seen.length + 1):
            for time, back in enumerate(seen.backs(i, a)[1:], start=2):  # e at this time
                e[i, a - 2, :, time - 2] = back * seen.mask[i, time - 1]
    places = e.reshape(n * times * d, times, m)
    flat = places.reshape(-1, m)
    states = seen.h[:, :-1]
    inner = np.einsum("ilm,jkm->iljk", states, states, optimize=True)
    left = (flat @ flat.T).reshape(n, times * d, times, n, times * d, times)
    return np.einsum("aslbtk,albk->asbt", left, inner, optimize=True).reshape(n * times * d, -1)


class Fresh(NamedTuple):
    r"""What each hidden state has outside the span $U_{\ell-1}$ of all states of earlier times.

    `residuals` are $(I - U_{\ell-1} U_{\ell-1}^\top) h_{i,\ell}$, `(n, L, m)`; `norms` their norms, `(n, L)`; `basis`
    holds $U_L$ by columns, time by time and within a time sequence by sequence.
    """

    residuals: Float[np.ndarray, "n L m"]
    norms: Float[np.ndarray, "n L"]
    basis: Float[np.ndarray, "m nL"]

    def directions(self) -> Float[np.ndarray, "n L m"]:
        r"""Return the unit vectors $v_{i,\ell}$."""
        return self.residuals / self.norms[..., None]

    def before(self, time: int) -> Float[np.ndarray, "m nl"]:
        r"""Return $U_{time}$: the basis of the states of the times 1..`time`."""
        return self.basis[:, : time * len(self.norms)]


def fresh(h: ArrayLike) -> Fresh:
    """Orthogonalize hidden states `(n, L, m)` time by time: block QR, each projection applied twice.

    Examples
    --------
    >>> fresh([[[3.0, 0.0], [3.0, 4.0]]]).norms.tolist()
    [[3.0, 4.0]]
    """
    states = np.asarray(h, float)
    n, length, m = states.shape
    if n * length > m:
        raise ValueError(f"{n * length} hidden states cannot be independent in {m} dimensions")
    basis, residuals = np.zeros((m, 0)), np.empty_like(states)
    for time in range(length):
        rest = states[:, time].T
        for _ in range(2):
            rest = rest - basis @ (basis.T @ rest)
        residuals[:, time] = rest.T
        q = np.linalg.qr(rest)[0]
        q = q - basis @ (basis.T @ q)
        basis = np.concatenate([basis, np.linalg.qr(q)[0]], axis=1)
    return Fresh(residuals, np.linalg.norm(residuals, axis=-1), basis)


def separability(vectors: ArrayLike) -> float:
    r"""Return the least $\|(I - y y^\top/\|y\|^2)\, x\|$ over ordered pairs $x \ne y$ of the rows.

    Examples
    --------
    >>> separability([[1.0, 0.0], [1.0, 1.0]])
    0.7071067811865476
    """
    rows = np.asarray(vectors, float)
    if len(rows) < 2:
        raise ValueError("separability needs at least two vectors")
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    rest = rows[:, None] - np.einsum("im,jm->ij", rows, units)[..., None] * units[None]
    apart = np.linalg.norm(rest, axis=-1)
    return float(apart[~np.eye(len(rows), dtype=bool)].min())


def good(w: ArrayLike, alpha: float, sigma: float) -> bool:
    r"""Whether $w$ is $(\alpha, \sigma)$-good: $(1-\alpha)/2$ is $\ge \alpha\sigma$, as much $\le -\alpha\sigma$."""
    v = np.asarray(w, float)
    needed = (1 - alpha) / 2 * v.size
    return bool((v >= alpha * sigma).sum() >= needed and (v <= -alpha * sigma).sum() >= needed)
