r"""Stochastic gradient descent $\theta \leftarrow \theta - \eta\, J_B^\top r_B$ from every start near weights that fit.

| what is proved                                                         | how batches are taken                       |
|------------------------------------------------------------------------|---------------------------------------------|
| `certify_epochs`: convergence, for certain                             | every example once in each epoch, any order |
| `certify_sampling`: convergence, up to a stated failure probability    | at random, each independent of the past     |
| `certify_orders`: nothing leaves a ball for a stated number of steps   | in any way at all                           |

$\eta$ multiplies the *sum* over the batch. `train` multiplies by $n/B$ for the half sum, so its step size is
$\eta B / n$; for the mean over a batch it is $\eta B$. `docs/theory/certificates.md` has the proofs (Theorems 5 to 7).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from wideproof.certificates.arguments import checked
from wideproof.certificates.attempt import Attempt, Level, Obstacle
from wideproof.certificates.basins import DOWN, ROUNDS, UP, Ground, contract, farthest, first_zero, prepare
from wideproof.certificates.batches import Batches
from wideproof.certificates.squared_loss import steps_to
from wideproof.data import AnyDataset
from wideproof.networks import Network

WITHIN = (1.15, 1.3, 1.7, 2.3, 3.2)  # how far a run may get from its zeros, in starting distances
DRIFTS = (0.1, 0.2, 0.4, 0.8, 1.6)  # prices of moving along the zeros
GRID = math.log(1.02)  # constants are computed at radii on a grid


@checked
def certify_epochs(
    network: Network,
    params: Mapping[str, ArrayLike],
    data: AnyDataset,
    *,
    batch: int,
    partition: Sequence[int] | None = None,
    distance: float | None = None,
    step_size: float | None = None,
    level: Level = "enclosed",
    sharp: bool = False,
    target_loss: float = 1e-12,
    about: Mapping[str, Any] | None = None,
) -> Attempt:
    r"""Try to prove that SGD in epochs converges from every start near `params`, whatever the order of the batches.

    Every epoch uses every example once, in batches of at most `batch` examples. Which ones is free in every epoch, and
    may depend on anything; with a `partition`, the number of its batch for every example, the batches are fixed and
    only their order is free, which allows larger steps. Theorem 5: an epoch is a step of Theorem 4 with
    $c (1 - \kappa/2) / N$ in place of $c (1 - \kappa/2)$ and more bend, where
    $N = 1 + \eta (\tfrac12 \sum_{i \ne j} T_{ij}^2)^{1/2}$ and $T_{ij} \ge \|J_i J_j^\top\|$ on the ball.

    Parameters
    ----------
    params
        The anchor: weights that fit to rounding (`polish`).
    distance
        How far from `params` the starts may be; by default about 0.8 times the largest with a proof.
    step_size
        Multiplies the sum over a batch; by default one for which the proven rate is about the best.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    sharp
        Spend a pass and some spectral norms for each example on sharper Lipschitz constants.
    target_loss
        The loss for which steps are counted.

    Examples
    --------
    >>> from wideproof.certificates.polishing import polish
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> certify_epochs(network, near, data, batch=2).passed
    True
    """
    ready = _ready(network, params, data, batch, partition, level=level, sharp=sharp, about=about)
    if isinstance(ready, Attempt):
        return ready
    ground = ready.ground

    def found_at(d: float) -> dict[str, Any] | None:
        return find_epochs(ready, d, step_size=step_size, epsilon=target_loss)

    claims = found_at(distance) if distance is not None else farthest(found_at, _top(ground))
    if claims is None:
        return ground.failed(distance)
    claims["batch"] = ready.size
    if partition is not None:
        claims["partition"] = [int(j) for j in partition]
    which = "fixed batches" if ready.fixed else f"batches of at most {ready.size}"
    return ground.attempt("epochs", claims, (
        f"{_method(ground, claims)} converges to zero loss if every epoch uses every example once, in {which} and in "
        f"any order. Every epoch takes at least the share {claims['rate']:.3g} off the distance to the nearest zero, "
        f"no iterate is farther than {claims['radii'][0]:.3g} away, and the loss is at most {claims['epsilon']:.3g} "
        f"after {claims['steps']} epochs."
    ))  # fmt: skip


def find_epochs(batches: Batches, d: float, *, step_size: float | None, epsilon: float) -> dict[str, Any] | None:
    """Look for a ball on which Theorem 5 holds for all starts within d."""
    ground = batches.ground
    far, radius = d + ground.near, 3 * d + 2 * ground.near
    for _ in range(ROUNDS):
        radius = _grid(radius)
        k = batches.at(radius)
        first = first_zero(ground, k.whole, d, None)
        if not ground.fits(k.whole) or first is None:
            return None
        eta = 1 / (k.beta + k.across) if step_size is None else step_size
        c, order = 2 - eta * k.beta * UP, (1 + eta * k.across) * UP
        x = eta * (k.all * far) ** 2 / (4 * c) * UP if c > 0 else math.inf
        if not x < 0.2499:
            return None
        swell = 2 / (1 + math.sqrt(1 - 4 * x)) * UP
        found = contract(ground.anchor.s, k.whole, far, first, eta, c, order, k.all, swell)
        if found is None:
            return None
        if found.radius <= radius:
            claims = ground.claims(radius, k.whole, eta, d)
            steps = steps_to(claims["b"] * far * UP, found.rate, epsilon)
            return claims | {
                "beta": k.beta, "bend": k.all, "order": order, "a": found.a, "sigma": found.sigma, "rate": found.rate,
                "epsilon": epsilon, "steps": steps,
            }  # fmt: skip
        radius = found.radius
    return None


@checked
def certify_sampling(
    network: Network,
    params: Mapping[str, ArrayLike],
    data: AnyDataset,
    *,
    batch: int,
    failure: float = 1e-6,
    distance: float | None = None,
    step_size: float | None = None,
    level: Level = "enclosed",
    sharp: bool = False,
    target_loss: float = 1e-12,
    about: Mapping[str, Any] | None = None,
) -> Attempt:
    r"""Try to prove that SGD with random batches converges from every start near `params`, but for a small probability.

    Every batch is `batch` examples drawn without replacement, independently of the past: as `train` draws them. Theorem
    6: the weights stay within $\bar d$ of the zeros for ever but for a probability of $e^{-u (1 - D/\bar d)}$, where
    $m (1 - e^{-u}) \ge e^{u\nu} - 1$.

    Parameters
    ----------
    params
        The anchor: weights that fit to rounding (`polish`).
    failure
        The largest probability of failure that will do; the certificate states its own.
    distance
        How far from `params` the starts may be; by default about 0.8 times the largest with a proof.
    step_size
        Multiplies the sum over a batch; by default $1/\beta$, the reciprocal of the largest $\|J_B\|^2$.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    sharp
        Spend a pass and some spectral norms for each example on sharper Lipschitz constants.
    target_loss
        The loss for which steps are counted.

    Examples
    --------
    >>> from wideproof.certificates.polishing import polish
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> found = certify_sampling(network, near, data, batch=1)
    >>> found.passed, found.certificate.claims["failure"] <= 1e-6
    (True, True)
    """
    ready = _ready(network, params, data, batch, None, level=level, sharp=sharp, about=about)
    if isinstance(ready, Attempt):
        return ready
    ground = ready.ground

    def found_at(d: float) -> dict[str, Any] | None:
        found = find_sampling(ready, d, step_size=step_size, epsilon=target_loss)
        return found if found is not None and found["failure"] <= failure else None

    claims = found_at(distance) if distance is not None else farthest(found_at, _top(ground))
    if claims is None:
        return ground.failed(distance)
    return ground.attempt("sampling", claims | {"batch": ready.size}, (
        f"{_method(ground, claims)}, with independent random batches of {ready.size}, stays within "
        f"{claims['radii'][0]:.3g} and converges to zero loss with a probability of at least 1 - "
        f"{claims['failure']:.3g}; after {claims['steps']} steps the loss is at most {claims['epsilon']:.3g}, but for "
        f"a probability of {claims['late']:.3g} more."
    ))  # fmt: skip


def find_sampling(batches: Batches, d: float, *, step_size: float | None, epsilon: float) -> dict[str, Any] | None:
    """Look for the smallest failure probability of Theorem 6 for all starts within d."""
    ground, best = batches.ground, None
    far, s, share = d + ground.near, ground.anchor.s, batches.size / ground.anchor.n
    for ratio in WITHIN:
        for mu in DRIFTS:
            within = ratio * far * UP
            radius = _grid((2 * d + ground.near + within / mu + 1.1 * within) * UP)
            k = batches.at(radius)
            eta = 1 / k.beta if step_size is None else step_size
            c = 2 - eta * k.beta * UP
            if not ground.fits(k.whole) or not c > 0:
                continue
            swell = within * math.sqrt(1 + eta * (k.most * within) ** 2 / (4 * c)) * UP
            low = (s - k.whole * (2 * d + ground.near + within / mu) * UP) * DOWN
            if not k.whole * swell < low * DOWN or swell > 1.1 * within:
                continue
            drift = mu * 2 * k.most / (1 - k.whole * swell / low) * UP
            sigma = (low - k.whole * within / 2) * DOWN
            gain = c * sigma - (k.whole * within + 2 * drift * within / math.sqrt(share)) * UP
            if not (sigma > 0 and gain > 1e-9):
                continue
            mean = eta * share * sigma * gain / 2 * DOWN
            top = eta * (within * (k.most / 2 + drift)) ** 2 / (2 * c) * UP
            u = exponent(mean, top)
            failure = math.exp(-u * (1 - far / within) * DOWN) * UP + 1e-300
            if best is None or failure < best["failure"]:
                rate = eta * share * sigma * (c * sigma - k.whole * within * UP) * DOWN
                claims = ground.claims(radius, k.whole, eta, d)
                late = max(failure, 1e-9)
                size = (claims["b"] * far) ** 2 / (2 * epsilon) * UP
                steps = max(0, math.ceil(math.log(size / late) / -math.log1p(-rate) * UP)) + 1
                best = claims | {
                    "beta": k.beta, "bend": k.most, "within": within, "mu": mu, "u": u, "failure": failure,
                    "rate": rate, "epsilon": epsilon, "steps": steps, "late": late,
                }  # fmt: skip
    return best


def exponent(mean: float, top: float) -> float:
    r"""Return a u with $m (1 - e^{-u}) \ge e^{u\nu} - 1$, about the largest; 0 if there is none.

    >>> u = exponent(0.1, 0.001)
    >>> 90 < u < 100, 0.1 * -math.expm1(-u) >= math.expm1(0.001 * u)
    (True, True)
    >>> exponent(0.1, 0.2)
    0.0
    """
    if top <= 1e-300:
        return 700.0
    low, high = 0.0, min(math.log1p(mean) / top, 1e4)
    for k in range(60):
        middle = high if k == 0 else (low + high) / 2
        holds = -mean * math.expm1(-middle) >= math.expm1(middle * top) * (1 + 1e-9)
        low, high = (middle, high) if holds else (low, middle)
    return low


@checked
def certify_orders(
    network: Network,
    params: Mapping[str, ArrayLike],
    data: AnyDataset,
    *,
    batch: int,
    steps: int = 1_000_000,
    distance: float | None = None,
    step_size: float | None = None,
    level: Level = "enclosed",
    sharp: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Attempt:
    r"""Try to prove that SGD from every start near `params` stays near for so many steps, whatever batches it takes.

    The batches are chosen by anybody, an adversary too, and some examples may never be used; so nothing is said about
    the loss. Theorem 7: after $K$ steps the distance to a zero is at most $\bar d$ if
    $1/\bar d^2 \le 1/(d + 2\rho/s)^2 - K \eta \Lambda_*^2 / 4c$, $c = 2 - \eta\beta$.

    Parameters
    ----------
    params
        The anchor: weights that fit to rounding (`polish`).
    steps
        For how many steps.
    distance
        How far from `params` the starts may be; by default about 0.8 times the largest with a proof.
    step_size
        Multiplies the sum over a batch; by default $1/\beta$, the reciprocal of the largest $\|J_B\|^2$.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    sharp
        Spend a pass and some spectral norms for each example on sharper Lipschitz constants.

    Examples
    --------
    >>> from wideproof.certificates.polishing import polish
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> certify_orders(network, near, data, batch=1, steps=1000).passed
    True
    """
    ready = _ready(network, params, data, batch, None, level=level, sharp=sharp, about=about)
    if isinstance(ready, Attempt):
        return ready
    ground = ready.ground

    def found_at(d: float) -> dict[str, Any] | None:
        far = d + ground.near
        for ratio in WITHIN:
            within = ratio * far * UP
            radius = _grid((within + ground.near) * UP)
            k = ready.at(radius)
            eta = 1 / k.beta if step_size is None else step_size
            c = 2 - eta * k.beta * UP
            if not ground.fits(k.whole) or not c > 0:
                continue
            w = eta * k.most**2 / (4 * c) * UP
            if (far / within) ** 2 <= (1 - steps * w * far**2 * UP) * DOWN:
                more = {"beta": k.beta, "bend": k.most, "within": within, "steps": steps, "batch": ready.size}
                return ground.claims(radius, k.whole, eta, d) | more
        return None

    claims = found_at(distance) if distance is not None else farthest(found_at, 4 * _top(ground))
    if claims is None:
        return ground.failed(distance, math.inf)
    return ground.attempt("orders", claims, (
        f"{_method(ground, claims)} stays within {claims['radii'][0]:.3g} for {steps} steps, whatever batches of at "
        f"most {ready.size} examples are taken."
    ))  # fmt: skip


def _ready(
    network: Network,
    params: Mapping[str, ArrayLike],
    data: AnyDataset,
    batch: int,
    partition: Sequence[int] | None,
    **options: Any,
) -> Batches | Attempt:
    ground = prepare(network, params, data, **options)
    if isinstance(ground, Attempt):
        return ground
    if ground.groups.repeated:
        reason = f"{data.n - ground.groups.n} rows repeat the input of another row, and batches of them are not covered"
        return Attempt(ground.anchor, None, Obstacle("repeats", data.n - ground.groups.n, 0, reason, ("merge them",)))
    if ground.anchor.lean:
        rows = ground.anchor.n * ground.anchor.outputs
        reason = f"the Gram matrix of {rows} outputs is not formed, and the batches' norms come from it"
        return Attempt(ground.anchor, None, Obstacle("rows", rows, 1200, reason, ("use fewer examples",)))
    if partition is None:
        return Batches(ground, [np.array([i]) for i in range(data.n)], batch, False)
    numbers = np.asarray(partition)
    return Batches(ground, [np.flatnonzero(numbers == j) for j in range(int(numbers.max()) + 1)], batch, True)


def _grid(radius: float) -> float:
    return math.exp(math.ceil(math.log(radius) / GRID + 1e-9) * GRID)


def _top(ground: Ground) -> float:
    return 0.25 * ground.anchor.s / max(ground.constant(ground.near), 1e-300)


def _method(ground: Ground, claims: dict[str, Any]) -> str:
    where = ground.about.get("anchor", "these weights")
    return (
        f"stochastic gradient descent on the squared loss of {ground.data.name} ({ground.data.n} examples) with the "
        f"factor {claims['eta']:.4g} for the sum over a batch, from every start within {claims['d']:.4g} of {where} of "
        f"{ground.network},"
    )
