r"""Weights near those that gradient descent tends to, for predictions where training stops before it has converged.

Theorem 1 at an anchor $\theta'$ with the Jacobian $J'$ is about gradient descent that begins within $\epsilon$ of it
(0 where the proof begins at the anchor itself). After a way of $\ell_k$, which is $\epsilon$ at first and at most R,

$$ \|\theta_k - \theta'\| \le \ell_k, \qquad \|J_k - J'\| \le M(\ell_k), \qquad
   \sigma_{\min}(J_k) \ge s - M(\ell_k) \ge \sigma > 0, $$

and it tends to some $\theta_\infty$ with $f(\theta_\infty) = y$. Take the fit $\theta_p = \theta' - J'^\top v$,
$f(\theta_p) = y$ up to a residual of norm $\rho_p$, found by
$v \leftarrow v + (J' J'^\top)^{-1} (f(\theta' - J'^\top v) - y)$, and let $D = \theta_\infty - \theta_p$.

*Across the range of* $J'^\top$. A step of length $\delta_k = \eta \|J_k^\top r_k\| \ge \eta (s - M(\ell_k)) \|r_k\|$
leaves that range by $\eta \|(J_k - J')^\top r_k\|$ at most, so all steps together, M being non-decreasing, by

$$ E = \int_0^R \frac{M(t)}{s - M(t)}\, dt , $$

whatever the step size is: $\kappa$ enters by R alone. So D has a part of at most $E + \epsilon$ there.

*Along it.* The mean Jacobian between $\theta_p$ and $\theta_\infty$ takes D to a residual of norm $\rho_p$. It is
within $\mu = \Lambda (\|\theta_p - \theta'\| + R)/2$ of $J'$, since a point between is as far from $\theta'$ as the
mean of both ends' distances, weighted as the point lies. Hence the part along the range is at most
$\|J' D\|/s \le (\rho_p + \mu \|D\|)/s$ long, and with $m = \mu/s < 1$, $e = E + \epsilon$

$$ \|D\|^2 \le (\rho_p/s + m \|D\|)^2 + e^2, \qquad
   \|D\| \le \frac{m \rho_p/s + \sqrt{\rho_p^2/s^2 + (1 - m^2)\, e^2}}{1 - m^2} . $$

With one constant and a proof ratio h of 0.1, 0.25 and 0.4 that is at most 0.06, 0.2 and 0.55 of R. Equal rows are one
row of J and r, times the root of their number. Rounding is allowed for with `ROUNDING` of everything that is added up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from pathlib import Path

import numpy as np
import scipy.linalg

from wideproof.cards import Told
from wideproof.certificates import DENSE, Attempt, Staircase, distance, fit_read_out, length, pull, residual_of
from wideproof.data import AnyDataset, Distinct, distinct
from wideproof.kernels import gram
from wideproof.networks import FullyConnected, Network
from wideproof.networks.starts import ZERO
from wideproof.precision import double
from wideproof.storage import read_tensors, write_tensors

LIMIT = "limit.safetensors"
ROUNDING = 1e-12  # more than sums of 8,000 terms make in double precision
CHORDS = 60  # steps with one Jacobian; each leaves a share of the residual
CUTS = 16  # of every cell of the staircase, where the integral is bounded by trapezoids


@dataclass(frozen=True, eq=False)
class Limit(Told):
    """Weights near those that gradient descent tends to.

    Attributes
    ----------
    residual
        The norm of their residual.
    distance
        To where gradient descent tends, at most.
    share
        That in units of the length of the trained weights.
    """

    params: Mapping[str, np.ndarray]
    residual: float
    distance: float
    share: float

    def __str__(self) -> str:
        return (
            "predictions are made with the weights that gradient descent tends to, found to "
            f"{percent(self.share)} % of their length or better"
        )

    def put(self, folder: Path) -> None:
        """Write it into the folder of a proof."""
        told = {"residual": self.residual, "distance": self.distance, "share": self.share}
        write_tensors(folder / LIMIT, self.params, told)

    @staticmethod
    def read(folder: Path) -> Limit | None:
        """Read it from the folder of a proof, if there is one."""
        if not (folder / LIMIT).exists():
            return None
        params, told = read_tensors(folder / LIMIT)
        return Limit(params, told["residual"], told["distance"], told["share"])

    def change(self, network: Network, x: np.ndarray) -> np.ndarray | None:
        r"""Return how much the outputs for `x` can differ at the limit itself, one row an example; `None` if unknown.

        With one hidden layer $f = c\, a^\top \sigma(W x)$, L the Lipschitz constant of $\sigma$ and d the distance:
        $|\Delta f| \le c \left( d \sqrt{\|\sigma(Wx)\|^2 + L^2 \|x\|^2 \|a\|^2} + L \|x\| d^2 / 2 \right)$, since
        $|\Delta a| |\Delta W| \le d^2/2$. Units that are saturated at $x$ count less where $\sigma'$ has a Lipschitz
        constant B: with $\delta_j = \Delta w_j \cdot x$ also
        $|\sigma(z_j + \delta_j) - \sigma(z_j) - \sigma'(z_j)\, \delta_j| \le B \delta_j^2 / 2$, so that
        $\|a\, \sigma'(Wx)\|$ may stand for $L \|a\|$, with $B \|x\|^2 \max|a_j|\, d^2/2$ more.
        """
        if not isinstance(network, FullyConnected) or network.depth != 1:
            return None
        known, d = network.activation.known, self.distance
        c = network.alpha * math.sqrt(network.activation.c_sigma / network.width)
        z, a, far = x @ self.params["W1"].T, self.params["a"].reshape(-1, network.width), np.linalg.norm(x, axis=1)
        values, slopes = np.linalg.norm(known.value(z), axis=1)[:, None], known.lipschitz * far[:, None]
        bound = d * np.sqrt(values**2 + (slopes * np.linalg.norm(a, axis=1)) ** 2)
        if not network.activation.kinked:
            here = np.square(far)[:, None] * (np.square(known.slope(z)) @ np.square(a).T)
            curved = known.smoothness * np.square(far)[:, None] * np.abs(a).max(axis=1) * d * d / 2
            bound = np.minimum(bound, d * np.sqrt(values**2 + here) + curved)
        return c * (bound + slopes * d * d / 2)


def percent(share: float) -> str:
    """Return a share in percent, rounded up to one digit.

    >>> percent(0.000249), percent(0.3), percent(0.0), percent(0.096)
    ('0.03', '30', '0', '10')
    """
    return f"{float(Context(prec=1, rounding=ROUND_CEILING).create_decimal(100 * share)):g}"


@double
def near_limit(network: Network, attempt: Attempt, data: AnyDataset) -> Limit | None:
    """Look for the weights that gradient descent tends to from the anchor; `None` where none are found near enough.

    Parameters
    ----------
    network, data
        Of the certificate.
    attempt
        With a certificate of Theorem 1.

    Examples
    --------
    >>> import wideproof as wp
    >>> data = wp.prepare(wp.load("iris", limit=20, classes=("setosa", "virginica")), "standardize,sphere(4)")
    >>> network = FullyConnected(5, 512, 1, "erf", start="doubled", alpha=1e4)
    >>> found = near_limit(network, wp.certify(wp.Problem(network, data).at(network.init(0))), data)
    >>> found.residual < 1e-9, 0 < found.distance < 1e-3
    (True, True)
    """
    proof, made, groups, names = attempt.descent, attempt.certificate, distinct(data), network.trained_names
    if proof is None or made is None or proof.jump:
        return None
    base = made.params
    found = fit_near(network, base, groups)
    if found is None:
        return None
    roots = np.sqrt(groups.counts).reshape(-1, *[1] * (groups.y.ndim - 1))
    size, whole = float(np.linalg.norm(groups.y * roots)), length({name: found[name] for name in names})
    moved, caps = distance(names, found, base), proof.staircase.caps
    if not moved <= proof.radius or not (caps is None or float(np.abs(found["a"]).max()) <= caps[-1]):
        return None
    share = proof.staircase.constants[-1] * (moved + proof.radius) / (2 * proof.s)
    if not share < 1:
        return None
    left = float(np.linalg.norm(residual_of(network, found, groups.x, groups.y) * roots))
    along = (left + ROUNDING * (size + proof.b * whole)) / proof.s
    slack = 0.0 if made.start is None else made.start.distance
    around = ROUNDING * (proof.b * moved * float(roots.max()) / proof.s + whole)
    across = outside(proof.staircase, proof.s) + slack + around
    rest = (1 - share) * (1 + share)
    far = (share * along + math.hypot(along, math.sqrt(rest) * across)) / rest * (1 + 1e-9)
    far = min(far, moved + proof.radius)
    return Limit(found, left, far, far / whole)


def fit_near(network: Network, params: Mapping[str, np.ndarray], groups: Distinct) -> dict[str, np.ndarray] | None:
    r"""Return $\theta_p$: the fit in $\theta' + \operatorname{range} J'^\top$; `None` where steps do not reach it."""
    read_out_only = isinstance(network, FullyConnected) and network.start == ZERO and not np.any(params["a"])
    found = _by_read_out(network, params, groups.x, groups.y) if read_out_only else None
    if found is None and groups.y.size <= DENSE:
        found = _by_chords(network, params, groups.x, groups.y)
    return found


def outside(staircase: Staircase, s: float) -> float:
    r"""Return a bound of $\int_0^R M/(s - M)$: M is linear on a cell and $u/(s - u)$ convex, so trapezoids lie above.

    >>> found, u = outside(Staircase((0.5,), (1.0,)), 1.0), 0.5
    >>> exact = -u - math.log(1 - u)
    >>> exact <= found <= 1.01 * exact
    True
    """
    total = m = t = 0.0
    for end, constant in zip(staircase.radii, staircase.constants, strict=True):
        values = m + constant * (end - t) * np.linspace(0, 1, CUTS + 1)
        rises = values / (s - values)
        total += float((rises[:-1] + rises[1:]).sum()) * (end - t) / (2 * CUTS)
        m, t = float(values[-1]), end
    return total


def _by_read_out(
    network: Network, params: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray
) -> dict[str, np.ndarray] | None:
    """Where the read-out is zero, the Jacobian is that of the read-out: the fit is one linear step."""
    found = fit_read_out(network, params, x, y)
    if found is None or not found.residuals[-1] <= 1e-8 * (1 + float(np.linalg.norm(y))):
        return None
    return found.params


def _by_chords(
    network: Network, params: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray
) -> dict[str, np.ndarray] | None:
    """Take steps with the Jacobian at `params` until the residual stops falling; `None` where they do not fit."""
    matrix = np.asarray(gram(network, dict(params), x).matrix, np.float64)
    try:
        factors = scipy.linalg.cho_factor(matrix, check_finite=False)
    except (scipy.linalg.LinAlgError, ValueError):
        return None
    best = {name: np.asarray(weight, np.float64) for name, weight in params.items()}
    error, whole = residual_of(network, best, x, y), np.zeros(len(matrix))
    for _ in range(CHORDS):
        tried = whole + scipy.linalg.cho_solve(factors, error.ravel(), check_finite=False)
        step = pull(network, params, x, tried.reshape(error.shape))
        there = {name: params[name] - step[name] if name in step else weight for name, weight in best.items()}
        then = residual_of(network, there, x, y)
        if not np.linalg.norm(then) < np.linalg.norm(error):
            break
        best, error, whole = there, then, tried
    near = np.linalg.norm(error) <= 1e-8 * (1 + float(np.linalg.norm(y)))
    return best if near else None
