r"""Gaussian expectations of activations ("duals") to 1e-13: $\mathbb{E}[\sigma(u)\sigma(v)]$ and its kin.

Here $(u, v)$ is Gaussian with variances $a$, $b$ and covariance $c = \sqrt{ab} \cos\theta$. The angle and not the
correlation is the argument, so no digits are lost where $u$ and $v$ are nearly parallel. Where no closed form is
known, the plane is cut into the four sectors on which neither $u$ nor $v$ changes sign. With
$w = \pi - \theta$ and $x \in [0, 1]$ across a sector,

$$ (u, v) = \pm R\,(\sqrt{a} \sin w(1-x),\ \sqrt{b} \sin wx), \qquad
   (u, v) = \pm R\,(-\sqrt{a} \sin \theta x,\ \sqrt{b} \sin \theta(1-x)), $$

with density $R e^{-R^2/2} / 2\pi$ times $w$ or $\theta$: kinks at 0 lie on borders, and at $\theta = 0$ or $\pi$
one pair of sectors is empty. Each sector has a Gauss-Legendre rule, doubled until it agrees with the rule before.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from wideproof import machine
from wideproof.errors import InputError
from wideproof.kernels.closed_duals import CLOSED_FORMS, Pair
from wideproof.kernels.contraction import AnyArray
from wideproof.networks import Activation, get_activation
from wideproof.precision import double

Factor = Literal["value", "slope"]
Blocks = list[tuple[np.ndarray, ...]]
Bivariate = Callable[[ArrayLike, ArrayLike, ArrayLike], AnyArray]
Rule = functools.partial[Array]  # a compiled rule for one activation

REACH = 9.5  # R beyond it has probability 3e-20
COUNTS = (64, 128, 256, 512)  # nodes in R; a sector has half as many in x
# Rules are sums of blocks of one size, and batches come in chunks of one size, so that little is compiled.
BLOCK = 64
CHUNK, GRID_ANGLES = 8, 8
AGREEMENT, LIMIT = 1e-13, 1e-12


class Quadrature(NamedTuple):
    """Values, the last change of each when the nodes were doubled (relative to its scale), and the nodes in $R$."""

    values: np.ndarray
    error: np.ndarray
    nodes: np.ndarray


def covariance(activation: Activation | str, a: ArrayLike, b: ArrayLike, theta: ArrayLike) -> np.ndarray:
    r"""Return $\mathbb{E}[\sigma(u)\sigma(v)]$ for variances `a`, `b` and the angle `theta` in $[0, \pi]$.

    The arguments broadcast. ReLU, for example, has
    $\sqrt{ab}\,(\sin\theta + (\pi - \theta)\cos\theta) / 2\pi$.

    Examples
    --------
    >>> float(covariance("relu", 1.0, 1.0, 0.0))
    0.5
    >>> covariance("tanh", 1.0, np.array([1.0, 4.0]), np.pi / 3).round(8)
    array([0.18632441, 0.22587973])
    """
    return _bivariate(get_activation(activation), "value", a, b, theta)


def slope_covariance(activation: Activation | str, a: ArrayLike, b: ArrayLike, theta: ArrayLike) -> np.ndarray:
    r"""Return $\mathbb{E}[\sigma'(u)\sigma'(v)]$, the derivative of the covariance by $c$ (Price's identity).

    Where a variance is 0, $\sigma'(0)$ is the activation's own: it decides between ReLU and `RELUCLOSED_FORMS`.

    Examples
    --------
    >>> float(slope_covariance("relu", 1.0, 1.0, np.pi / 2))
    0.25
    """
    return _bivariate(get_activation(activation), "slope", a, b, theta)


def drop(activation: Activation | str, a: float, theta: np.ndarray) -> np.ndarray:
    r"""Return $\mathbb{E}[\sigma(u)^2] - \mathbb{E}[\sigma(u)\sigma(v)]$ for one variance; for the ReLU to all digits.

    The ReLU's is $a\,(\pi (1 - \cos\theta) + \theta\cos\theta - \sin\theta) / 2\pi$, of order $\theta^2$: a difference
    of the two terms would keep few digits of it.

    Examples
    --------
    >>> bool(abs(drop("relu", 1.0, np.array([1e-6]))[0] / 1e-12 - 0.24999994694833) < 1e-13)
    True
    """
    activation = get_activation(activation)
    if _family(activation) != "relu":
        top = covariance(activation, a, a, 0.0)
        return top - covariance(activation, a, a, theta)
    # theta cos(theta) - sin(theta) = sum over k of (-1)^k theta^(2k+1) 2k / (2k+1)!
    square, term, series = theta**2, -(theta**3) / 3, -(theta**3) / 3
    for k in range(2, 12):
        term = term * -square * k / ((k - 1) * 2 * k * (2 * k + 1))
        series = series + term
    odd = np.where(theta < 1, series, theta * np.cos(theta) - np.sin(theta))
    return a * (2 * np.pi * np.sin(theta / 2) ** 2 + odd) / (2 * np.pi)


def mean(activation: Activation | str, a: ArrayLike) -> np.ndarray:
    r"""Return $\mathbb{E}[\sigma(\sqrt{a} Z)]$ for standard normal $Z$.

    Examples
    --------
    >>> round(float(mean("softplus", 1.0)), 12), float(mean("tanh", 1.0))
    (0.806059183347, 0.0)
    """
    activation = get_activation(activation)
    (variance,) = _checked(a=a)
    if _family(activation) in ("tanh", "erf", "arctan", "sin", "softsign", "identity"):
        return np.zeros_like(variance)
    if _family(activation) == "relu":
        return np.asarray(np.sqrt(variance / (2 * np.pi)))
    if _family(activation) == "gelu":  # by Stein's identity, E z Phi(z) = a E phi(z)
        return np.asarray(variance / np.sqrt(2 * np.pi * (1 + variance)))
    kernel = functools.partial(_half_line, activation)
    return _refine(f"the mean of {activation.name}", kernel, [np.sqrt(variance)], _line).values


def closed_form(activation: Activation | str) -> tuple[Bivariate, Bivariate] | None:
    r"""Return the covariance and the slope covariance as functions of arrays $(a, b, c)$, $c$ the covariance of $u, v$.

    For `relu`, `erf`, `sin`, `gelu` and `identity`; `None` for the others. The functions are for use inside `jit`, or
    for arrays of NumPy, in the dtype of their arguments, which have one shape; $|c| > \sqrt{ab}$ is read as rounding
    and clipped.

    Examples
    --------
    >>> value, slope = closed_form("relu")
    >>> float(value(jnp.array(1.0), jnp.array(1.0), jnp.array(1.0)))
    0.5
    >>> closed_form("tanh") is None
    True
    """
    activation = get_activation(activation)
    forms = CLOSED_FORMS.get(_family(activation))
    if forms is None:
        return None

    def over(form: Callable[[Pair], AnyArray]) -> Bivariate:
        def function(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> AnyArray:
            xp: Any = np if isinstance(c, np.ndarray) else jnp
            one, two = xp.asarray(a), xp.asarray(b)
            root = xp.sqrt(one) * xp.sqrt(two)
            inner = xp.clip(c, -root, root)
            return form(Pair(one, two, inner, root - inner, root + inner, float(activation.name == "relu_closed")))

        return function

    return over(forms[0]), over(forms[1])


def _family(activation: Activation) -> str:
    return "relu" if activation.name == "relu_closed" else activation.name


def _checked(**columns: ArrayLike) -> list[np.ndarray]:
    """Return the arguments as float64 arrays of one shape; variances are not negative, angles lie in [0, pi]."""
    arrays = np.broadcast_arrays(*(np.asarray(column, np.float64) for column in columns.values()))
    for name, array in zip(columns, arrays, strict=True):
        top = math.pi if name == "theta" else math.inf
        if not np.all((array >= 0) & (array <= top) & np.isfinite(array)):
            wanted = "an angle in [0, pi]" if name == "theta" else "a finite variance of at least 0"
            bad = array[~((array >= 0) & (array <= top) & np.isfinite(array))].flat[0]
            raise InputError(f"{name} must be {wanted}, got {bad!r}")
    return list(arrays)


def _closed(activation: Activation, factor: Factor, a: np.ndarray, b: np.ndarray, theta: np.ndarray) -> np.ndarray:
    shape = a.shape
    a, b, theta = (np.atleast_1d(x) for x in (a, b, theta))
    root = np.sqrt(a) * np.sqrt(b)
    # pi is not a float: the missing digits matter for cos near theta = pi/2 only, where c itself is small.
    below, above = 2 * root * np.sin(theta / 2) ** 2, 2 * root * np.sin((np.pi - theta) / 2) ** 2
    form = CLOSED_FORMS[_family(activation)][factor == "slope"]
    pair = Pair(a, b, root * np.cos(theta), below, above, float(activation.name == "relu_closed"))
    return np.broadcast_to(np.asarray(form(pair)), a.shape).reshape(shape)


def _bivariate(activation: Activation, factor: Factor, a: ArrayLike, b: ArrayLike, theta: ArrayLike) -> np.ndarray:
    columns = _checked(a=a, b=b, theta=theta)
    if _family(activation) in CLOSED_FORMS:
        return _closed(activation, factor, *columns)
    return _quadrature(activation, factor, *columns).values


def _quadrature(activation: Activation, factor: Factor, a: ArrayLike, b: ArrayLike, theta: ArrayLike) -> Quadrature:
    """Return the covariance by quadrature, closed form or not, with the last difference."""
    a, b, theta = _checked(a=a, b=b, theta=theta)
    name = f"the {'slope ' if factor == 'slope' else ''}covariance of {activation.name}"
    return _refine(name, functools.partial(_sectors, activation, factor), [np.sqrt(a), np.sqrt(b), theta], _plane)


@double
def _refine(name: str, kernel: Rule, columns: Sequence[ArrayLike], blocks: Callable[[int], Blocks]) -> Quadrature:
    """Double the nodes of each entry until it changes by at most `AGREEMENT` of its scale.

    Entries go through `kernel(*chunk, *block)`, summed over the blocks of the rule.
    """
    shape = np.shape(columns[0])
    flat = [np.ravel(column) for column in columns]
    values, error = np.full(flat[0].size, np.nan), np.full(flat[0].size, np.inf)
    nodes = np.zeros(flat[0].size, int)
    open_entries = np.arange(flat[0].size)
    for count in COUNTS:
        for start in range(0, open_entries.size, CHUNK):
            at = open_entries[start : start + CHUNK]
            padded = np.resize(at, CHUNK)
            chunk = [column[padded] for column in flat]
            _require_agreement(name, kernel, *chunk, *blocks(count)[0])
            value, scale = np.sum([kernel(*chunk, *block) for block in blocks(count)], axis=0)[:, : at.size]
            change = np.abs(value - values[at]) / np.maximum(1, scale)
            values[at], error[at], nodes[at] = value, np.where(np.isnan(change), np.inf, change), count
        open_entries = open_entries[error[open_entries] > AGREEMENT]
        if not open_entries.size:
            break
    if open_entries.size and error.max() > LIMIT:
        worst = int(np.argmax(error))
        place = ", ".join(f"{column[worst]:.6g}" for column in flat)
        raise InputError(
            f"{name} is wanted to {LIMIT:g}, but {COUNTS[-2]} and {COUNTS[-1]} nodes differ by {error[worst]:.1e} at "
            f"(standard deviations, angle) = ({place}): keep the variances smaller"
        )
    return Quadrature(values.reshape(shape), error.reshape(shape), nodes.reshape(shape))


def _require_agreement(name: str, rule: Rule, *arguments: np.ndarray) -> None:
    """Compare the first use of a compiled rule, a `functools.partial` of it, in this process with NumPy."""
    if not machine.traced(arguments):
        functions = [part.value for part in rule.args if isinstance(part, Activation)]
        machine.trusted((rule.func, *rule.args, *functions), lambda: _compare(name, rule, arguments))


def _compare(name: str, rule: Rule, arguments: tuple[np.ndarray, ...]) -> None:
    expected = machine.in_numpy(rule, *arguments)
    within = machine.tolerance(np.float64, BLOCK**2) * max(1.0, float(np.abs(expected).max()))
    functions = [part for part in rule.args if isinstance(part, Activation)]
    machine.require_agreement(name, rule(*arguments), expected, within, tuple(functions))


@functools.cache
def _legendre(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [0, 1], with nodes symmetric to the last digit."""
    x, w = np.polynomial.legendre.leggauss(count)
    return (1 + (x - x[::-1]) / 2) / 2, (w + w[::-1]) / 4


def _factor(activation: Activation, factor: Factor) -> Callable[[Array], Array]:
    return activation.value if factor == "value" else activation.derivative


@functools.cache
def _plane(count: int) -> Blocks:
    r"""Blocks of nodes and weights in $x$ and in $R$; a block's nodes in $x$ reversed are $1 - x$."""
    x, w = _legendre(count // 2)
    nodes, weights = _legendre(count)
    radii = REACH * nodes
    radial = REACH * weights * radii * np.exp(-(radii**2) / 2) / (2 * np.pi)
    quarter = BLOCK // 4
    out = []
    for i in range(0, count // 4, quarter):
        mirrored = np.r_[i : i + quarter, count // 2 - i - quarter : count // 2 - i]
        for j in range(0, count, BLOCK):
            out.append((x[mirrored], w[mirrored], radii[j : j + BLOCK], radial[j : j + BLOCK]))
    return out


@functools.cache
def _line(count: int) -> Blocks:
    """Blocks of nodes and Gaussian weights on the half line."""
    nodes, weights = _legendre(count)
    z = REACH * nodes
    density = REACH * weights * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return [(z[j : j + BLOCK], density[j : j + BLOCK]) for j in range(0, count, BLOCK)]


@functools.partial(jax.jit, static_argnums=(0, 1))
def _sectors(
    activation: Activation,
    factor: Factor,
    r: ArrayLike,
    r_prime: ArrayLike,
    theta: ArrayLike,
    x: ArrayLike,
    weights: ArrayLike,
    radii: ArrayLike,
    radial: ArrayLike,
) -> Float[Array, "2 n"]:
    """One block's part of the expectation of the product, and of its absolute value."""
    function = _factor(activation, factor)
    r, r_prime, theta, x, radii = (jnp.asarray(array) for array in (r, r_prime, theta, x, radii))
    measure = jnp.outer(jnp.asarray(weights), jnp.asarray(radial))

    def sector(args: tuple[Array, Array, Array]) -> Array:
        r, r_prime, width = args
        signs = jnp.array([1.0, -1.0])[:, None, None]
        u = signs * (r * jnp.outer(jnp.sin(width * x[::-1]), radii))[None]
        v = signs * (r_prime * jnp.outer(jnp.sin(width * x), radii))[None]
        product = function(u) * function(v)
        sums = [jnp.sum(measure * jnp.sum(terms, 0)) for terms in (product, jnp.abs(product))]
        return width * jnp.stack(sums)

    pairs = jnp.stack([r, -r]), jnp.stack([r_prime, r_prime]), jnp.stack([math.pi - theta, theta])
    sums = lax.map(sector, tuple(pair.ravel() for pair in pairs))
    return sums.reshape(2, -1, 2).sum(0).T


@functools.partial(jax.jit, static_argnums=0)
def _half_line(activation: Activation, r: ArrayLike, z: ArrayLike, density: ArrayLike) -> Float[Array, "2 n"]:
    arguments = jnp.outer(jnp.asarray(r), jnp.asarray(z))
    there, back = activation.value(arguments), activation.value(-arguments)
    return jnp.stack([(there + back) @ density, (jnp.abs(there) + jnp.abs(back)) @ density])


@double
def covariance_grid(
    activation: Activation | str, r: np.ndarray, theta: np.ndarray, factor: Factor = "value"
) -> np.ndarray:
    r"""Return the covariance (or with `factor="slope"` the slope covariance) for all pairs of standard deviations `r`.

    The shape is `(len(theta), len(r), len(r))`. One evaluation of $\sigma$ serves a whole row of pairs, so this is
    much cheaper than `covariance` on the product grid.

    Examples
    --------
    >>> grid = covariance_grid("tanh", np.array([1.0, 2.0]), np.array([np.pi / 3]))
    >>> abs(grid[0, 0, 1] - covariance("tanh", 1.0, 4.0, np.pi / 3)) < 1e-13
    np.True_
    """
    activation = get_activation(activation)
    _, angles = _checked(a=r[:1] ** 2, theta=theta)
    if _family(activation) in CLOSED_FORMS:
        return _closed(activation, factor, *_checked(a=r[None, :, None] ** 2, b=r**2, theta=angles[:, None, None]))
    rule = functools.partial(_grid_rule, activation, factor)
    count = _grid_count(activation, rule, r)
    padded = np.resize(angles, GRID_ANGLES * -(-angles.size // GRID_ANGLES)).reshape(-1, GRID_ANGLES)
    return np.concatenate([rule(count, r, some) for some in padded])[: angles.size]


def _grid_rule(activation: Activation, factor: Factor, count: int, r: np.ndarray, theta: np.ndarray) -> np.ndarray:
    rule = functools.partial(_grid, activation, factor)
    _require_agreement(f"the covariance of {activation.name}", rule, r, theta, *_plane(count)[0])
    return np.sum([rule(r, theta, *block) for block in _plane(count)], axis=0)


def _grid_count(activation: Activation, rule: Callable[..., np.ndarray], r: np.ndarray) -> int:
    """Return the first count that agrees with the next one on a few angles."""
    angles = np.pi * np.sin(np.linspace(0, np.pi / 2, GRID_ANGLES)) ** 2
    values, change, scale = rule(COUNTS[0], r, angles), math.inf, 1.0
    for count, finer in itertools.pairwise(COUNTS):
        refined = rule(finer, r, angles)
        change, scale = np.abs(refined - values).max(), max(1.0, np.abs(refined).max())
        if change <= AGREEMENT * scale:
            return count
        values = refined
    if change <= LIMIT * scale:
        return COUNTS[-1]
    raise InputError(
        f"the grid of covariances of {activation.name} is wanted to {LIMIT:g}, but {COUNTS[-2]} and "
        f"{COUNTS[-1]} nodes differ by {change / scale:.1e} for standard deviations up to {r.max():.6g}: "
        "keep the variances smaller"
    )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _grid(
    activation: Activation,
    factor: Factor,
    r: ArrayLike,
    theta: ArrayLike,
    x: ArrayLike,
    weights: ArrayLike,
    radii: ArrayLike,
    radial: ArrayLike,
) -> Float[Array, "t n n"]:
    """One block's part of the expectations for all pairs of `r`."""
    function = _factor(activation, factor)
    r, theta, x, radii = (jnp.asarray(array) for array in (r, theta, x, radii))
    measure = jnp.outer(jnp.asarray(weights), jnp.asarray(radial)).ravel()

    def sector(width: Array) -> Array:
        """The sum with the same sign of u and v, and with opposite signs."""
        points = jnp.outer(r, jnp.outer(jnp.sin(width * x), radii).ravel())
        plus, minus = function(points), function(-points)
        back = [values.reshape(r.size, x.size, -1)[:, ::-1].reshape(points.shape) for values in (plus, minus)]
        plus_back, minus_back = (width * measure[None] * values for values in back)
        return jnp.stack([plus_back @ plus.T + minus_back @ minus.T, minus_back @ plus.T + plus_back @ minus.T])

    same, opposite = lax.map(sector, math.pi - theta)[:, 0], lax.map(sector, theta)[:, 1]
    return same + opposite
