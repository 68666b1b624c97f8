r"""What Du et al. (2019) follow while their networks train: movement of features and Gram matrices, and its bounds.

With $R = \max_h \|W^{(h)} - W^{(h)}(0)\|_F / \sqrt m$ (eq. 6) the lemmas bound how far features (B.3, C.3, D.3) and the
last hidden layer's Gram block (B.4, C.4, D.4) move, and how far training moves the weights (B.5, C.5, D.5), in terms of
four numbers of the start: `Constants`. The functions named `..._measure` are for `train(..., record=...)`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from wideproof.monitors.norms import spectral_norm
from wideproof.monitors.recorded_pass import Trace, trace
from wideproof.networks import ConvResidual, FullyConnected, Residual, linearize
from wideproof.training import Info, Measure, State

SmoothNetwork = FullyConnected | Residual | ConvResidual
Weights = Mapping[str, ArrayLike]
Numbers = ArrayLike | Sequence[ArrayLike] | Sequence[Sequence[ArrayLike]]


class Constants(NamedTuple):
    r"""The numbers of a start that the lemmas use.

    `weights` is $c_{w,0} = \max_h \|W^{(h)}\|_2/\sqrt m$, `features` $c_{x,0}$, the least $c \ge 1$ with
    $1/c \le \|x^{(h)}_i\| \le c$ everywhere, `read_out` $a_{2,0} = \|a\|_2/\sqrt m$ and `read_out_4`
    $a_{4,0} = \|a\|_4 / m^{1/4}$, both the largest over positions where there are several.
    """

    weights: float
    features: float
    read_out: float
    read_out_4: float


def constants(network: SmoothNetwork, params: Weights, x: ArrayLike) -> Constants:
    r"""Measure $c_{w,0}$, $c_{x,0}$, $a_{2,0}$ and $a_{4,0}$ on a start.

    Examples
    --------
    >>> network = FullyConnected(input_dim=3, width=64, depth=2)
    >>> found = constants(network, network.init(0), np.eye(3))
    >>> 1.8 < found.weights < 2.2, found.features < 1.3
    (True, True)
    """
    m = network.width
    norms = np.concatenate([_norms(layer) for layer in trace(network, params, x).features])
    weights = max(spectral_norm(np.asarray(w)) for name, w in params.items() if name != "a") / math.sqrt(m)
    a = np.asarray(params["a"], float).reshape(m, -1)
    two, four = (np.linalg.norm(a, order, axis=0).max() for order in (2, 4))
    features = max(1.0, float(norms.max()), float(1 / norms.min()))
    return Constants(weights, features, float(two) / m**0.5, float(four) / m**0.25)


def tracked_movement(params: Weights, start: Weights, width: int) -> dict[str, float]:
    r"""Return $\|W - W(0)\|_F / \sqrt m$ for every weight, the read-out too (eq. 6).

    Examples
    --------
    >>> tracked_movement({"W1": np.eye(4)}, {"W1": np.zeros((4, 4))}, width=4)
    {'W1': 1.0}
    """
    return {
        name: float(np.linalg.norm(np.asarray(weight, float) - np.asarray(start[name], float))) / math.sqrt(width)
        for name, weight in params.items()
    }


def feature_movement(network: SmoothNetwork, params: Weights, start: Weights, x: ArrayLike) -> Float[np.ndarray, "H n"]:
    r"""Return $\|x^{(h)}_i - x^{(h)}_i(0)\|$ as an array `(H, n)`; Frobenius norms for images.

    Examples
    --------
    >>> network = FullyConnected(input_dim=3, width=8, depth=2)
    >>> feature_movement(network, network.init(0), network.init(0), np.eye(3)).max().item()
    0.0
    """
    now, then = (trace(network, weights, x).features for weights in (params, start))
    return np.stack([_norms(a - b) for a, b in zip(now, then, strict=True)])


def gram_blocks(network: SmoothNetwork, params: Weights, x: ArrayLike) -> dict[str, Float[np.ndarray, "n n"]]:
    r"""Return the Gram blocks $G^{(1)}, \dots, G^{(H+1)}$ by weight, from one traced pass.

    The same numbers as `gram(..., by_weight=True)`, with one compilation for features, values and blocks.

    Examples
    --------
    >>> network = FullyConnected(input_dim=3, width=8, depth=2)
    >>> {name: block.shape for name, block in gram_blocks(network, network.init(0), np.eye(3)).items()}
    {'W1': (3, 3), 'W2': (3, 3), 'a': (3, 3)}
    """
    return blocks_of(trace(network, params, x))


def blocks_of(seen: Trace) -> dict[str, Float[np.ndarray, "n n"]]:
    r"""Return the Gram blocks of a traced pass: $\sum \langle u_i, u_j \rangle \langle b_i, b_j \rangle$.

    Examples
    --------
    >>> network = FullyConnected(input_dim=3, width=8, depth=1)
    >>> list(blocks_of(trace(network, network.init(0), np.eye(3))))
    ['W1', 'a']
    """
    return {name: _block(seen.inputs[name][0], seen.cotangents[name][0]) for name in seen.inputs}


def gram_drift(network: SmoothNetwork, params: Weights, start: Weights, x: ArrayLike) -> dict[str, float]:
    r"""Return $\|G^{(h)} - G^{(h)}(0)\|_2$ for every weight.

    Examples
    --------
    >>> network = FullyConnected(input_dim=3, width=8, depth=2)
    >>> gram_drift(network, network.init(0), network.init(0), np.eye(3))["W2"]
    0.0
    """
    now, then = (gram_blocks(network, weights, x) for weights in (params, start))
    return {name: float(np.linalg.norm(now[name] - then[name], 2)) for name in now}


def second_order_change(outputs: Numbers, first_order: Numbers, step_size: float) -> Float[np.ndarray, "k n"]:
    r"""Return $I_2(k) = u(k+1) - u(k) - \eta\, G(k) e(k)$ for every step but the last.

    `outputs` are $u(0), u(1), \dots$ and `first_order` the $G(k) e(k)$ of the same steps, as `first_order_measure`
    records them.

    Examples
    --------
    >>> second_order_change([[0.0], [0.25]], [[2.0], [1.0]], step_size=0.1).round(12)
    array([[0.05]])
    """
    u, first = np.asarray(outputs, float), np.asarray(first_order, float)
    return np.diff(u, axis=0) - step_size * first[:-1]


def feature_bound(network: SmoothNetwork, c: Constants, movement: float) -> Float[np.ndarray, "H"]:
    r"""Return the right sides of Lemmas B.3, C.3 and D.3 for $R$ = `movement`, one for each layer.

    Fully connected: $\sqrt{c_\sigma} L c_{x,0}\, g_{c_x}(h) R$ with $c_x = 2\sqrt{c_\sigma} L c_{w,0}$ and
    $g_\alpha(h) = \sum_{i<h} \alpha^i$. Residual:
    $(\sqrt{c_\sigma} L + c_{x,0}/c_{w,0}) \exp(2 c_{res} c_{w,0} L) R$; over images with $\sqrt q$ beside each $L$.

    Examples
    --------
    >>> feature_bound(FullyConnected(3, 8, 2), Constants(2.0, 1.0, 1.0, 1.3), 0.0)
    array([0., 0.])
    """
    root, lipschitz = math.sqrt(network.activation.c_sigma), network.activation.lipschitz
    if isinstance(network, FullyConnected):
        g = geometric(2 * root * lipschitz * c.weights, np.arange(1, network.depth + 1))
        return root * lipschitz * c.features * g * movement
    return np.full(network.depth, _residual_growth(network, c) * movement)


def gram_bound(network: SmoothNetwork, c: Constants, n: int, movement: float) -> float:
    r"""Return the bound on $\|G^{(H)} - G^{(H)}(0)\|_F$ in the proofs of Lemmas B.4, C.4 and D.4, linear in $R$.

    With the constants of `Constants` without their zeros and $g = g_{2\sqrt{c_\sigma} L c_w}(H)$, fully connected:

    $$ nR\, \big[(2\beta c_x a_4^2 + 3\sqrt{c_\sigma} L^2) L c_\sigma c_x^2 a_2^2\, g
       + 12 L^2 c_x^2 c_\sigma a_2\big]. $$

    Residual, $\hat c$ being the factor of $R$ in `feature_bound`, over images of $p$ positions and filters of $q$ (both
    1 without images):

    $$ nR \frac{c_{res}^2}{H^2} L\, \big[3 c_x \hat c L a_2^2\, p
       + 2 \beta c_x^2 a_4^2 \sqrt p\, (2 \hat c\, c_w \sqrt q + c_x) L' + 12 c_x^2 L a_2 \sqrt p\big] , $$

    where $L'$ is $L$ without images and 1 over them.

    Examples
    --------
    >>> gram_bound(FullyConnected(3, 8, 2), Constants(2.0, 1.0, 1.0, 1.3), n=4, movement=0.0)
    0.0
    """
    activation, depth = network.activation, network.depth
    assert activation.smoothness is not None
    c_sigma, ell, beta = activation.c_sigma, activation.lipschitz, activation.smoothness
    x, w, a2, a4 = c.features, c.weights, c.read_out, c.read_out_4
    if isinstance(network, FullyConnected):
        root = math.sqrt(c_sigma)
        g = float(geometric(2 * root * ell * w, depth))
        first = (2 * beta * x * a4**2 + 3 * root * ell**2) * ell * c_sigma * x**2 * a2**2 * g
        return (first + 12 * ell**2 * x**2 * c_sigma * a2) * n * movement
    cx, scale = _residual_growth(network, c), network.c_res**2 / depth**2
    if isinstance(network, Residual):
        inner = 3 * x * cx * a2**2 + 2 * beta * x**2 * (2 * cx * w + x) * a4**2 + 12 * x**2 * a2
        return scale * ell**2 * n * movement * inner
    p, q = network.pixels, network.filter_size
    inner = 3 * x * cx * ell * a2**2 * p
    inner += 2 * beta * x**2 * a4**2 * math.sqrt(p) * (2 * cx * w * math.sqrt(q) + x)
    inner += 12 * x**2 * ell * a2 * math.sqrt(p)
    return scale * inner * ell * n * movement


def step_bound(network: SmoothNetwork, c: Constants, n: int, printed: bool = False) -> dict[str, float]:
    r"""Return $Q'(s) / \|e(s)\|$ of Lemmas B.5, C.5 and D.5: a step moves each weight by at most $\eta Q'(s)$.

    Fully connected: $4 c_{x,0} a_{2,0} \sqrt n\, \max(2\sqrt{c_\sigma} L c_{w,0}, 1)^H$. Residual:
    $4 \frac{c_{res}}H c_{x,0} a_{2,0} L \sqrt{npq}\, \exp(2 c_{res} c_{w,0} L \sqrt q)$, without images
    $p = q = 1$.

    The factor $c_{res}/H$ that is printed for every weight of the residual networks belongs to $W^{(2)}..W^{(H)}$
    only; $W^{(1)}$ has $\sqrt{c_\sigma}$ in its place and the read-out needs none of it. `printed=True` returns the
    printed one for all. The total movement is at most $R'\sqrt m = 4 Q'(0)/\lambda_0$: see `total_bound`.

    Examples
    --------
    >>> bounds = step_bound(Residual(3, 8, 8), Constants(2.0, 1.0, 1.0, 1.3), n=4)
    >>> bounds["W2"] < bounds["W1"]
    True
    """
    activation, depth = network.activation, network.depth
    names = [f"W{h}" for h in range(1, depth + 1)]
    common = 4 * c.features * c.read_out * math.sqrt(n)
    if isinstance(network, FullyConnected):
        cx = max(2 * math.sqrt(activation.c_sigma) * activation.lipschitz * c.weights, 1.0)
        return dict.fromkeys([*names, "a"], common * cx**depth)
    positions, q = (network.pixels, network.filter_size) if isinstance(network, ConvResidual) else (1, 1)
    growth = math.exp(2 * network.c_res * c.weights * activation.lipschitz * math.sqrt(q))
    common *= math.sqrt(positions * q) * activation.lipschitz * growth
    found = dict.fromkeys([*names, "a"], common * network.c_res / depth)
    if not printed:
        found["W1"] = common * math.sqrt(activation.c_sigma)
        found["a"] = 4 * c.features * math.sqrt(n)
    return found


def total_bound(step: Mapping[str, float], residual: float, lambda_0: float) -> dict[str, float]:
    r"""Return $R'\sqrt m = 4 Q'(0) / \lambda_0$ for every weight, `residual` being $\|e(0)\|$.

    Examples
    --------
    >>> total_bound({"W1": 2.0}, residual=3.0, lambda_0=0.5)
    {'W1': 48.0}
    """
    return {name: 4 * bound * residual / lambda_0 for name, bound in step.items()}


def geometric(alpha: float, terms: Numbers) -> Float[np.ndarray, "*terms"]:
    r"""Return $g_\alpha(n) = \sum_{i=0}^{n-1} \alpha^i$.

    Examples
    --------
    >>> geometric(2.0, [1, 2, 3])
    array([1., 3., 7.])
    """
    count = np.asarray(terms, float)
    return np.asarray(count if alpha == 1 else (alpha**count - 1) / (alpha - 1))


# ---- for `train(..., record=...)` ------------------------------------------------------------------------------------


def distance_measure(start: Weights) -> Measure:
    r"""Return a measure of $\|W(k) - W(0)\|_F$ for every weight.

    The start becomes a part of the compiled program, so every start compiles anew; over many seeds `step_measure`
    gives the length of the path, an upper bound, without that.

    Examples
    --------
    >>> network = FullyConnected(input_dim=3, width=8, depth=1)
    >>> start = network.init(0)
    >>> float(distance_measure(start)(State(0, start), None)["W1"])
    0.0
    """
    first = {name: jnp.asarray(weight) for name, weight in start.items()}

    def measure(state: State, info: Info | None) -> dict[str, Array]:
        return {name: jnp.sqrt(jnp.sum(jnp.square(state.params[name] - first[name]))) for name in first}

    return measure


def step_measure(state: State, info: Info) -> dict[str, Array]:
    r"""Measure $\|\nabla_W L(k)\|_F$ for every trained weight: a step moves it by $\eta$ times this.

    Examples
    --------
    >>> info = Info(None, None, None, {"a": jnp.array([3.0, 4.0])})
    >>> float(step_measure(State(0, {}), info)["a"])
    5.0
    """
    return {name: jnp.sqrt(jnp.sum(jnp.square(slope))) for name, slope in info.grad.items()}


def outputs_measure(state: State, info: Info) -> Array:
    """Record the outputs $u(k)$ on the training set."""
    return info.outputs


def first_order_measure(network: SmoothNetwork, x: ArrayLike) -> Measure:
    r"""Return a measure of $G(k) e(k)$, as the derivative of the outputs along $-\nabla L$: no matrix is formed.

    Examples
    --------
    >>> network = FullyConnected(input_dim=2, width=4, depth=1)
    >>> measure = first_order_measure(network, np.eye(2))
    >>> start = network.init(0)
    >>> measure(State(0, start), Info(None, None, None, start)).shape
    (2,)
    """
    batch = np.asarray(x, float)

    def measure(state: State, info: Info) -> Array:
        def outputs(trained: dict[str, Array]) -> Array:
            params = {**state.params, **trained}
            return network.forward(network.linear(params), jnp.asarray(batch)).outputs

        params = {name: jnp.asarray(state.params[name]) for name in info.grad}
        return jax.jvp(outputs, (params,), ({name: -jnp.asarray(slope) for name, slope in info.grad.items()},))[1]

    return measure


def block_measure(network: SmoothNetwork, x: ArrayLike, name: str) -> Measure:
    r"""Return a measure of the Gram block of one weight, `(n, n)`; its drift is the difference to the first record.

    Examples
    --------
    >>> network = FullyConnected(input_dim=2, width=4, depth=1)
    >>> block_measure(network, np.eye(2), "W1")(State(0, network.init(0)), None).shape
    (2, 2)
    """
    batch = np.asarray(x, float)

    def measure(state: State, info: Info | None) -> Array:
        params = {key: jnp.asarray(weight) for key, weight in state.params.items()}
        line = linearize(network, params, jnp.asarray(batch), (name,))
        b = line.pullback(jnp.ones_like(line.outputs))[name][0]
        u = line.inputs[name][0]
        n = len(batch)
        u, b = u.reshape(n, -1, u.shape[-1]), b.reshape(n, -1, b.shape[-1])
        return jnp.einsum("ila,jra,ilb,jrb->ij", u, u, b, b)

    return measure


def _norms(layer: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n"]:
    return np.linalg.norm(layer.reshape(len(layer), -1), axis=1)


def _block(u: Float[np.ndarray, "n *P a"], b: Float[np.ndarray, "n *Q b"]) -> Float[np.ndarray, "n n"]:
    n = len(u)
    u, b = u.reshape(n, -1, u.shape[-1]), b.reshape(n, -1, b.shape[-1])
    places = u.shape[1]
    if places == 1:
        return (u[:, 0] @ u[:, 0].T) * (b[:, 0] @ b[:, 0].T)
    u, b = u.reshape(n * places, -1), b.reshape(n * places, -1)
    return ((u @ u.T) * (b @ b.T)).reshape(n, places, n, places).sum(axis=(1, 3))


def _residual_growth(network: Residual | ConvResidual, c: Constants) -> float:
    """The factor of R in Lemmas C.3 and D.3, which the proofs of C.4 and D.4 call c_x."""
    q = network.filter_size if isinstance(network, ConvResidual) else 1
    ell = network.activation.lipschitz * math.sqrt(q)
    first = math.sqrt(network.activation.c_sigma) * ell + c.features / c.weights
    return first * math.exp(2 * network.c_res * c.weights * ell)
