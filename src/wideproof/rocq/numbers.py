"""What the checker in Rocq needs besides the stored numbers: bounds, and factors of three matrices.

Nothing here is trusted: everything is computed in float64, and the checker compares it. The comparisons between single
numbers are made here too, so that what fails is named before Rocq starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from wideproof.networks import get_activation
from wideproof.rocq.covered import NotCoveredError, Subject

BITS = 40  # of slopes, features and factors behind the binary point; where a residual is tiny, tables have more
DELTA = {"z": 2, "bigz": 2, "float": 128}  # how far tables are from what they round, at most, over 2^bits
# The constants of theories/Activations.v, over 10^8.
FIRST = {"erf": 112_837_917, "tanh": 100_000_000, "sigmoid": 25_000_000, "softplus": 100_000_000, "sin": 100_000_000}
SECOND = {"erf": 96_788_290, "tanh": 76_980_040, "sigmoid": 9_622_505, "softplus": 25_000_000, "sin": 100_000_000}
Factors = tuple[np.ndarray, np.ndarray, np.ndarray]
UP, DOWN = 1 + 1e-9, 1 - 1e-9
STAIRS = 16  # radii of balls, in place of nested sets and of sharper constants
SHARP = 0.9  # a claimed constant below this share of the sharpest one that is known here fails
LEFT = 1e-3  # a claim that goes further than what is found here by this share is weakened, any other fails


class FailsError(ValueError):
    """An inequality of the checker that does not hold; the message names it."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """What the checker reads, by the names of `theories/Certificate.v`.

    Attributes
    ----------
    claims
        The claims of the theorem: what its sentence says, and what it follows from.
    bounds
        Bounds and steps that only the checker reads.
    bits
        Bits of the tables of slopes and features behind the binary point.
    factors
        Three lower triangular factors, as whole numbers: of G - s₂D, of S₂D - G and of q D - XXᵀ, where the diagonal
        matrix D divides by the number of rows with these inputs.
    radii, lipschitz
        The staircase.
    weakened
        Names of the claims that are a little weaker than those of the certificate.
    least
        The least loss that any function of the inputs has, exactly.
    """

    claims: dict[str, float]
    bounds: dict[str, float]
    bits: int
    factors: Factors = field(repr=False)
    radii: list[float]
    lipschitz: list[float]
    weakened: list[str]
    least: Fraction


class Found:
    """Claims that are taken over, or weakened a little, or fail."""

    def __init__(self, claims: dict, left: float = LEFT) -> None:
        self.claims, self.left, self.weakened = claims, left, []

    def least(self, name: str, bound: float, claimed: float | None = None) -> float:
        """Return a claimed lower bound, or `bound` where the claim is just above it."""
        claim = float(self.claims[name] if claimed is None else claimed)
        if claim <= bound:
            return claim
        if not claim * (1 - self.left) <= bound:
            raise FailsError(f"{name}: the certificate claims {claim:.9g}, and at most {bound:.9g} is found here")
        self.weakened.append(name)
        return bound

    def most(self, name: str, bound: float, claimed: float | None = None) -> float:
        """Return a claimed upper bound, or `bound` where the claim is just below it."""
        claim = float(self.claims[name] if claimed is None else claimed)
        if claim >= bound:
            return claim
        if not claim * (1 + self.left) >= bound:
            raise FailsError(f"{name}: the certificate claims {claim:.9g}, and at least {bound:.9g} is found here")
        self.weakened.append(name)
        return bound


def numbers(subject: Subject, arithmetic: str) -> Numbers:
    """Return everything that the checker needs for a certificate; an inequality that fails is named.

    Parameters
    ----------
    subject
        The certificate.
    arithmetic
        The arithmetic of the proof: floating point needs more room between the tables and what they round.

    Returns
    -------
    Numbers
        What the checker reads.
    """
    bits = _bits(subject)
    if bits > BITS and arithmetic == "float":
        raise NotCoveredError(f"Rocq does not cover tables of {bits} bits in float: take bigz")
    found, bounds = Found(subject.claims), {"delta": math.ldexp(DELTA[arithmetic], -bits)}
    least = _least(subject)
    factors, low, high, spread = _spectrum(subject, bounds)
    claims = {
        "s": found.least("s", low),
        "S": found.most("S", high),
        "rho": found.most("rho", _residual(subject, bounds)),
    }
    bounds["X2"] = spread
    own = subject.nested or _sharper(subject, bounds)
    if own:
        found.left, found.weakened = math.inf, [*found.weakened, "radii", "lipschitz"]
    try:
        radii, lipschitz = _steps(subject, found, claims, bounds, own)
    except FailsError as fails:
        if not own:
            raise
        what = (
            "the claim 'nested' (sets smaller than balls)" if subject.nested else "constants as sharp as those claimed"
        )
        raise NotCoveredError(f"Rocq does not cover {what}, and its own do not suffice: {fails}") from fails
    return Numbers(claims, bounds, bits, factors, radii, lipschitz, found.weakened, least)


def _least(subject: Subject) -> Fraction:
    """Return half the sum of squares that no function of the inputs avoids, and compare the claims with it."""
    total = Fraction(0)
    for g in np.flatnonzero(np.bincount(subject.place) > 1):
        rows = [[Fraction(float(v)) for v in row] for row in subject.y[subject.place == g]]
        for column in zip(*rows, strict=True):
            total += sum(v * v for v in column) - sum(column) ** 2 / len(column)
    least, claims = Fraction(total) / 2, subject.claims
    named = [name for name in ("distinct", "least_loss", "least_loss_at_most") if name in claims]
    if len(named) != (3 if len(subject.first) < len(subject.x) else 0):
        raise FailsError(f"distinct: {len(subject.first)} of {len(subject.x)} inputs are different, claims: {named}")
    if named and claims["distinct"] != len(subject.first):
        raise FailsError(f"distinct: the certificate claims {claims['distinct']}, there are {len(subject.first)}")
    if named and not 0 <= Fraction(claims["least_loss"]) <= least <= Fraction(claims["least_loss_at_most"]):
        bounds = f"between {claims['least_loss']:.9g} and {claims['least_loss_at_most']:.9g}"
        raise FailsError(f"least_loss: the certificate claims {bounds}, and it is {float(least):.9g}")
    return least


def _spectrum(subject: Subject, bounds: dict) -> tuple[Factors, float, float, float]:
    """Return the factors, bounds of the singular values of the Jacobian, and the norm of the inputs."""
    x, a, counts = subject.x[subject.first], subject.outputs, np.bincount(subject.place)
    n, outs = len(subject.x), a.shape[1]
    twin, drive = get_activation(subject.activation).known, x @ subject.weights.T
    features, slope = subject.scale * twin.value(drive), subject.scale * twin.slope(drive)
    slopes = (slope[:, None] * a.T).reshape(len(x) * outs, len(a))  # for every group all outputs
    inner, root, roots = x @ x.T, np.sqrt(counts), np.repeat(np.sqrt(counts), outs)
    gram = np.kron(inner, np.ones((outs, outs))) * (slopes @ slopes.T)
    if subject.both:
        gram += np.kron(features @ features.T, np.eye(outs))
    delta = bounds["delta"]
    loose = (
        8
        * max(delta, math.ldexp(1, 1 - BITS))
        * (inner.max() * np.abs(slopes).sum(1).max() + np.abs(features).sum(1).max())
    )
    (low, least, e1), (high, most, e2), (span, q, ex) = (
        _factor(gram, roots), _factor(-gram, roots), _factor(-inner, root)
    )  # fmt: skip
    eps, eps_x = max(e1, e2) + float(loose), ex + 1e-13 * float(inner.max())
    err = delta * math.sqrt(len(a) * outs * (float(counts @ inner.diagonal()) + n)) * UP
    bounds |= {
        "low": least, "high": -most, "span": -q, "eps": eps, "eps_x": eps_x, "err": err,
        "X1": math.sqrt(inner.diagonal().max()) * UP, "A": float(np.linalg.norm(a, axis=1).max()) * UP,
    }  # fmt: skip
    lost, lost_x = (float(counts.max()) * size * off for size, off in ((len(gram), eps), (len(x), eps_x)))
    if not least - lost > 0:
        raise FailsError(f"s: the smallest eigenvalue of the Gram matrix, about {least:.3g}, drowns in {lost:.3g}")
    bottom, top = math.sqrt(least - lost) * DOWN - err, math.sqrt(lost - most) * UP + err
    return (low, high, span), bottom, top, math.sqrt(lost_x - q) * UP


def _factor(matrix: np.ndarray, roots: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return L, t and e with |matrix - t D - L Lᵀ| ≤ e in every entry, L as whole numbers over 2^BITS, t as large.

    D is diagonal and divides by the squares of `roots`.
    """
    weighted = matrix * np.outer(roots, roots)
    values = np.linalg.eigvalsh(weighted)
    size, gap = float(np.abs(values).max()), 1e-10 * abs(float(values[0]))
    gap += 1e-14 * len(matrix) * size
    while True:
        least = float(values[0]) - gap
        try:
            factor = np.linalg.cholesky(weighted - least * np.eye(len(matrix))) / roots[:, None]
        except np.linalg.LinAlgError:
            gap *= 4
            continue
        whole = np.rint(np.ldexp(factor, BITS))
        near, target = np.ldexp(whole, -BITS), matrix - np.diag(least / roots**2)
        return whole, least, 2 * float(np.abs(target - near @ near.T).max()) + 1e-15 * size


def _bits(subject: Subject) -> int:
    """Return how many bits tables need: their part of the residual is at most a ten-thousandth of it."""
    part = 2 * float(np.abs(subject.outputs).sum()) * math.sqrt(len(subject.x)) * 1e4
    return min(120, max(BITS, math.ceil(math.log2(part / float(subject.claims["rho"])) + 1)))


def _residual(subject: Subject, bounds: dict) -> float:
    """Return a bound of the residual at the anchor."""
    a, n, delta, counts = subject.outputs, len(subject.x), bounds["delta"], np.bincount(subject.place)
    drive = subject.x[subject.first] @ subject.weights.T
    features = subject.scale * get_activation(subject.activation).known.value(drive)
    means = np.zeros((len(counts), a.shape[1]), np.longdouble)
    np.add.at(means, subject.place, subject.y)
    means /= counts[:, None]
    size = float(np.linalg.norm((features.astype(np.longdouble) @ a - means) * np.sqrt(counts)[:, None]))
    rounding = 2e-15 * float((np.abs(features) @ np.abs(a)).max() + np.abs(subject.y).max())
    bounds["rho0"] = size * UP + (rounding + delta * float(np.abs(a).sum(0).max())) * math.sqrt(n * a.shape[1])
    bounds["erho"] = delta * math.sqrt(float((a * a).sum()) * n * len(a)) * UP
    return (bounds["rho0"] + bounds["erho"]) * UP


def _sharper(subject: Subject, bounds: dict) -> bool:
    """Whether the claims are sharper than `net_lipschitz`, as the squares of the entries of XXᵀ allow."""
    radii, claimed = subject.claims["radii"], subject.claims["lipschitz"]
    x, root = subject.x[subject.first], np.sqrt(np.bincount(subject.place))
    tensor = math.sqrt(float(np.linalg.eigvalsh((x @ x.T) ** 2 * np.outer(root, root))[-1]))
    sharp = bounds | {"X1": tensor / bounds["X2"]}
    own = any(claim * (1 + LEFT) < _constant(subject, bounds, t) for t, claim in zip(radii, claimed, strict=True))
    return own and all(claim >= _constant(subject, sharp, t) * SHARP for t, claim in zip(radii, claimed, strict=True))


def _constant(subject: Subject, bounds: dict, t: float) -> float:
    """Return the Lipschitz constant of the Jacobian on the ball of radius t, as `net_lipschitz` has it."""
    reach = bounds["A"] + (t if subject.both else 0)
    inner = subject.scale * reach * SECOND[subject.activation] / 1e8 * bounds["X1"] * bounds["X2"]
    cross = subject.scale * FIRST[subject.activation] / 1e8 * bounds["X2"] if subject.both else 0.0
    return (inner / 2 + math.hypot(inner / 2, cross)) * UP


def stairs(radii: list[float], lipschitz: list[float]) -> tuple[Fraction, Fraction]:
    """Return M and its integral at the last radius, as rational numbers.

    >>> stairs([2.0], [3.0])
    (Fraction(6, 1), Fraction(6, 1))
    """
    m = whole = before = Fraction(0)
    for t, constant in zip(map(Fraction, radii), map(Fraction, lipschitz), strict=True):
        whole += m * (t - before) + constant * (t - before) ** 2 / 2
        m, before = m + constant * (t - before), t
    return m, whole


def _staircases(subject: Subject, found: Found, bounds: dict, own: bool) -> Iterator[tuple[list[float], list[float]]]:
    """Yield radii and Lipschitz constants: the claimed ones, then a little further; or own ones, of balls."""
    radii = [float(t) for t in subject.claims["radii"]]
    if not all(b > a for a, b in zip([0.0, *radii], radii, strict=False)):
        raise FailsError("radii: they do not rise")
    if own:
        for share in range(100, 151, 2):
            balls = [radii[-1] * share / 100 * j / STAIRS for j in range(1, STAIRS + 1)]
            yield balls, [_constant(subject, bounds, t) for t in balls]
        return
    lipschitz = [
        found.most(f"lipschitz {j}", _constant(subject, bounds, t), claim)
        for j, (t, claim) in enumerate(zip(radii, subject.claims["lipschitz"], strict=True), 1)
    ]
    yield radii, lipschitz
    for share in (1e-4, 1e-3):  # where the last radius is too short
        last = radii[-1] * (1 + share)
        found.weakened.append("radii")
        yield [*radii[:-1], last], [*lipschitz[:-1], max(lipschitz[-1], _constant(subject, bounds, last))]


def _steps(subject: Subject, found: Found, claims: dict, bounds: dict, own: bool) -> tuple[list[float], list[float]]:
    """Settle b, eta, kappa, the radii, sigma, rate and what is reached after the steps; return the staircase."""
    s, top, rho, far = claims["s"], claims["S"], claims["rho"], subject.distance
    eta = float(subject.claims["eta"])
    claims |= {"distance": far, "eta": eta}
    last = falls = math.nan
    for radii, lipschitz in _staircases(subject, found, bounds, own):
        last = radii[-1]
        m, area = map(float, stairs(radii, lipschitz))
        b = found.most("b", (top + m) * UP)
        beta = max(1.0, eta * b * b * UP)
        low = eta * s * s
        if not beta + low * UP < 2:
            raise FailsError(f"eta: {eta:.9g} is too large for b = {b:.9g}")
        most = min(1.0, math.sqrt(max(0.0, beta * (2 - beta - low) / (1 - beta * low)))) if beta > 1 else 1.0
        kappa = found.least("kappa", most * DOWN if beta > 1 else 1.0, subject.claims.get("kappa", 1.0))
        falls = rho + (b + s) * far - kappa * s * last + area
        if falls < -1e-12 * rho:
            break
    else:
        raise FailsError(f"radii: rho - s R + ∫M is {falls:.3g} at the last radius, {last:.9g}, and not below 0")
    claims |= {"b": b, "kappa": kappa}
    bounds["beta"] = beta
    if not 0 <= far < last:
        raise FailsError(f"distance: {far:.9g} is not below the last radius, {last:.9g}")
    claims["sigma"] = sigma = found.least("sigma", (s - m) * DOWN)
    claims["rate"] = rate = found.least("rate", min(1.0, eta * sigma * (kappa * s - m) * DOWN))
    if not (sigma > 0 and rate > 0):
        raise FailsError(f"rate: sigma = {sigma:.9g} and rate = {rate:.9g} have to be positive")
    reached = 2 * subject.claims["steps"] * math.log1p(-rate) + 2 * math.log(rho + b * far) if rate < 1 else -math.inf
    claims["epsilon"] = found.most("epsilon", math.exp(reached) / 2 * (1 + 1e-6) if rate < 1 else 0.0)
    return radii, lipschitz
