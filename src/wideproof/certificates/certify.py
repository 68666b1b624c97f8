r"""Certify that gradient descent on the squared loss reaches zero from given weights, or say what is in the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from jax.typing import ArrayLike

from wideproof.certificates.anchor import Anchor, measure
from wideproof.certificates.certificate import Certificate
from wideproof.certificates.graph import graph
from wideproof.certificates.lipschitz import closest_to_a_kink, lipschitz, sign_slack
from wideproof.certificates.nested import NestedSets, climb_nested
from wideproof.certificates.squared_loss import Descent, Existence, existence, find_descent, proof_ratio
from wideproof.certificates.staircase import Staircase, climb
from wideproof.data import AnyDataset, SequenceDataset
from wideproof.data.conflicts import conflicts, half_square
from wideproof.data.geometry import groups_of_equal_rows
from wideproof.errors import InputError
from wideproof.kernels.spectrum import spectrum
from wideproof.networks import Network
from wideproof.networks.fully_connected import FullyConnected

Level = Literal["float64", "enclosed"]


@dataclass(frozen=True)
class Obstacle:
    """Why there is no proof.

    Attributes
    ----------
    quantity : what is in the way: `"contradiction"`, `"parameters"`, `"eigenvalue"`, `"ratio"` or `"kink"`.
    value : its value; `needed` : the value at which the proof would pass.
    reason : one sentence. `advice` : what would change it, the most promising first.
    """

    quantity: str
    value: float
    needed: float
    reason: str
    advice: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.reason}: {'; or '.join(self.advice)}" if self.advice else self.reason


@dataclass(frozen=True, eq=False)
class Attempt:
    """What came of an attempt to prove: a certificate, or the obstacle; and the numbers at the anchor.

    An impossible problem has both: a certificate that zero loss does not exist, and the obstacle that says so.
    """

    anchor: Anchor | None
    certificate: Certificate | None
    obstacle: Obstacle | None
    descent: Descent | None = None
    existence: Existence | None = None

    @cached_property
    def h(self) -> float:
        r"""The proof ratio $\Lambda \rho / s^2$: at the radius of the proof, or at $2 \rho / s$ where there is none."""
        if self.descent is not None:
            return self.descent.h
        if self.anchor is None or not self.anchor.s > 0:
            return math.inf
        a = self.anchor
        return proof_ratio(a.residual, a.s, lipschitz(a, 2 * a.residual / a.s).value)

    @property
    def passed(self) -> bool:
        """Whether convergence is certified."""
        return self.descent is not None

    def __str__(self) -> str:
        if self.certificate is not None:
            return self.certificate.summary
        return str(self.obstacle)


def certify(
    network: Network,
    params: Mapping[str, ArrayLike],
    data: AnyDataset,
    *,
    level: Level = "enclosed",
    sharp: bool = False,
    step_size: float | None = None,
    target_loss: float = 1e-12,
    about: Mapping[str, Any] | None = None,
) -> Attempt:
    r"""Try to prove that gradient descent on $\tfrac12 \sum (f - y)^2$ converges to zero loss from `params`.

    Parameters
    ----------
    params : the anchor: an initialization (a proof before training) or trained weights.
    level : `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    sharp : spend a spectral norm for each example and layer on sharper Lipschitz constants.
    step_size : certify this one, which is below $2/(b^2 + s^2)$; by default $1/b^2$, which asks least of the network.
    target_loss : the loss for which steps are counted.
    about : where the anchor comes from; it is written into the certificate.

    Examples
    --------
    >>> from wideproof.data import Dataset
    >>> from wideproof.certificates.polish import polish
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> certify(network, near, data).passed
    True
    """
    if level not in ("float64", "enclosed"):
        raise InputError(f"level is 'float64' or 'enclosed', got {level!r}: only a verifier says 'proved'")
    if step_size is not None and not 0 < step_size < math.inf:
        raise InputError(f"a step size is a positive number, got {step_size}")
    weights = {name: np.asarray(weight, np.float64) for name, weight in params.items()}
    about = {"data": data.name, "digest": data.digest, **(about or {})}
    impossible = _contradiction(network, weights, data, level, about)
    if impossible is not None:
        return impossible
    g = graph(network)
    anchor = measure(g, weights, data.x, scored(network, data.y), level=level, sharp=sharp)
    obstacle = _no_eigenvalue(anchor, data)
    if obstacle is not None:
        return Attempt(anchor, None, obstacle)
    search = _search(anchor, network, weights, data)
    found = _descend(anchor, search, step_size, target_loss)
    near = existence(anchor.s, anchor.newton, lambda radius: _constant(anchor, radius))
    if found is None:
        safe = None if step_size is None else _descend(anchor, search, None, target_loss)
        obstacle = _too_large(anchor) if step_size is None or safe is None else _step_too_large(step_size, safe)
        return Attempt(anchor, None, obstacle, existence=near)
    blocked = _kink(anchor, found.radius)
    if blocked is not None:
        return Attempt(anchor, None, blocked)
    claims = descent_claims(found, near)
    summary = _summary(network, data, found, about)
    made = Certificate(summary, "descent", level, network, claims, weights, data.x, data.y, sharp, about)
    return Attempt(anchor, made, None, found, near)


def scored(network: Network, y: np.ndarray) -> np.ndarray:
    """Return the targets that enter the loss."""
    return y[:, 1:] if network.data_kind == "sequences" else y


def _constant(anchor: Anchor, radius: float) -> float:
    return lipschitz(anchor, radius).value


def _residual(anchor: Anchor) -> float:
    return max(anchor.residual, 1e-300)


def _search(
    anchor: Anchor, network: Network, params: Mapping[str, np.ndarray], data: AnyDataset
) -> Callable[[float], Staircase | None]:
    """Return the search for radii: balls, and where they fail the nested sets."""
    rho, known = _residual(anchor), cache(lambda: nested_sets(anchor, network, params, data.x))
    constant = cache(lambda radius: _constant(anchor, radius))

    def search(pull: float) -> Staircase | None:
        stairs = climb(rho, pull, constant)
        if stairs is None and (sets := known()) is not None:
            return climb_nested(rho, anchor.s, sets, pull)
        return stairs

    return search


def _descend(
    anchor: Anchor, search: Callable[[float], Staircase | None], step_size: float | None, target_loss: float
) -> Descent | None:
    return find_descent(_residual(anchor), anchor.s, anchor.S, search, eta=step_size, epsilon=target_loss)


def nested_sets(anchor: Anchor, network: Network, params: Mapping[str, np.ndarray], x: np.ndarray) -> NestedSets | None:
    """Return what the nested sets need, for one smooth hidden layer with one trained output; else `None`."""
    if not isinstance(network, FullyConnected) or network.depth != 1 or network.outputs != 1:
        return None
    if anchor.graph.trained != ("W1", "a") or anchor.graph.kinked:
        return None
    from wideproof.certificates.anchor import run
    from wideproof.certificates.enclosure import activate, lengths

    g = anchor.graph
    passed = run(g, params, x, anchor.level == "enclosed")
    value, _ = activate(g.activation.name, passed.z[0], g.lipschitz, g.smoothness)
    return NestedSets(
        g.nodes[0].scale, g.lipschitz, g.smoothness, anchor.all_inputs[-1], float(anchor.inputs[-1].max()),
        float(np.abs(params["a"]).max()), float(lengths(value, (0, 1)).max()),
    )  # fmt: skip


def descent_claims(found: Descent, near: Existence | None) -> dict[str, Any]:
    """Return Theorem 1's numbers as a certificate names them, with Theorem 2's where its ball is the smaller one."""
    claims: dict[str, Any] = {
        "rho": found.rho, "s": found.s, "S": found.S,
        "radii": list(found.staircase.radii), "lipschitz": list(found.staircase.constants),
        "h": found.h, "sigma": found.sigma, "b": found.b, "eta": found.eta, "rate": found.rate,
        "epsilon": found.epsilon, "steps": found.steps,
    }  # fmt: skip
    if found.kappa < 1:
        claims["kappa"] = found.kappa
    if found.staircase.caps is not None:
        claims["nested"] = {"A": list(found.staircase.caps)}
    elif near is not None:
        h = proof_ratio(near.distance, 1.0, found.staircase.constants[-1]) / found.s * (1 + 1e-12)
        if h < 0.5:
            radius = 2 * near.distance / (1 + math.sqrt(1 - 2 * h)) * (1 + 1e-12)
            if radius <= found.radius:
                claims |= {"D": near.distance, "newton_h": h, "newton_radius": radius}
    return claims


def _summary(network: Network, data: AnyDataset, found: Descent, about: Mapping[str, Any]) -> str:
    where = about.get("anchor", "these weights")
    return (
        f"Claim: gradient descent on the squared loss of {data.name} ({data.n} examples), started at {where} of "
        f"{network} with step size {found.eta:.4g}, converges to zero training loss. Every step removes at least the "
        f"share {found.rate:.3g} of the residual (with a smaller step size, proportionally less), no iterate is "
        f"farther than {found.radius:.3g} from the start, and the loss is at most {found.epsilon:.3g} after "
        f"{found.steps} steps. (Proof ratio h = {found.h:.3g}, residual {found.rho:.3g}, smallest singular value of "
        f"the Jacobian {found.s:.3g}.) Run `wideproof verify` on this folder to have it proved by an independent "
        "program."
    )


def _contradiction(
    network: Network, params: Mapping[str, np.ndarray], data: AnyDataset, level: str, about: Mapping[str, Any]
) -> Attempt | None:
    found = conflicts(data)
    if not found.least_square > 0:
        return None
    i, j = found.first[0]
    reason = f"zero loss is impossible: examples {i} and {j} have the same input and different targets"
    obstacle = Obstacle("contradiction", found.least_square, 0.0, reason, ("correct or remove one of them",))
    if isinstance(data, SequenceDataset):
        return Attempt(None, None, obstacle)
    groups = [group for group in groups_of_equal_rows(data.x) if len(group) > 1]
    y = data.y.reshape(data.n, -1)
    clashing = [group.tolist() for group in groups if half_square(y[group]) > 0]
    least = found.least_square * (1 - 1e-12)
    summary = (
        f"Claim: no network fits {data.name} ({data.n} examples): {reason}. The squared loss of every function of the "
        f"input is at least {least:.6g}. Run `wideproof verify` on this folder to have it proved by an independent "
        "program."
    )
    claims = {"groups": clashing, "least_loss": least}
    made = Certificate(summary, "impossible", level, network, claims, params, data.x, data.y, False, about)
    return Attempt(None, made, obstacle)


def _no_eigenvalue(anchor: Anchor, data: AnyDataset) -> Obstacle | None:
    if anchor.s > 0:
        return None
    rows = anchor.n * anchor.outputs
    if rows > anchor.parameters:
        reason = (
            f"{rows} outputs cannot be moved independently by {anchor.parameters} trained parameters, so the Gram "
            "matrix is singular"
        )
        return Obstacle(
            "parameters", anchor.parameters, rows, reason, ("train a wider network", "train more of its layers")
        )
    culprits = spectrum(anchor.gram.mid, error=float(np.abs(anchor.gram.mid).max()), points=data.x.reshape(data.n, -1))
    named = f"; {culprits.culprits[0]}" if culprits.culprits else ""
    reason = f"the smallest eigenvalue of the Gram matrix is not known to be positive{named}"
    advice = ("merge or remove near-duplicates", "centre or whiten the data", "train a wider network")
    return Obstacle("eigenvalue", 0.0, 0.0, reason, advice)


def _step_too_large(step_size: float, safe: Descent) -> Obstacle:
    end = 2 / (safe.b**2 + safe.s**2)
    why = f"must be below 2/(b² + s²) = {end:.4g}" if step_size >= end else "leaves too little of s for the proof"
    reason = f"the step size {step_size:.4g} {why}; {safe.eta:.4g} is certified"
    return Obstacle("step size", step_size, safe.eta, reason, ("leave step_size out, or take a smaller one",))


def _too_large(anchor: Anchor) -> Obstacle:
    rho, s = anchor.residual, anchor.s
    constant = _constant(anchor, 2 * rho / s)
    h = proof_ratio(rho, s, constant)
    reason = (
        f"the proof ratio h = Λρ/s² is {h:.3g} and must be below 0.5 (residual ρ = {rho:.3g}, smallest singular value "
        f"s = {s:.3g}, Lipschitz constant Λ = {constant:.3g})"
    )
    advice = [f"train until the residual is below about {0.4 * s * s / constant:.2g}, or polish"]
    if anchor.graph.read_out in anchor.graph.trained:
        advice.append("freeze the output layer")
    advice += ["take a wider network, or a larger output scale", "centre or whiten the data"]
    return Obstacle("ratio", h, 0.5, reason, tuple(advice))


def _kink(anchor: Anchor, radius: float) -> Obstacle | None:
    if not anchor.graph.kinked or sign_slack(anchor, radius) > 1:
        return None
    k, i, j, size = closest_to_a_kink(anchor, radius)
    place = f"unit {j} of layer {k + 1} on example {i}"
    if size <= 0:
        reason = f"a pre-activation is zero to working precision ({place}), where the ReLU has no derivative"
        return Obstacle("kink", max(size, 0.0), 0.0, reason, ("train or polish a little more, or take another seed",))
    reason = (
        f"{place} has the pre-activation {size:.3g} and could change its sign within the radius {radius:.3g} that "
        "gradient descent may need"
    )
    return Obstacle("kink", size, radius, reason, ("polish further: the radius shrinks with the residual",))
