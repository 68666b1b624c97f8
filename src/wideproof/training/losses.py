r"""The losses of the papers, with the constants their theorems use.

A margin loss is $\ell(z)$ of the margin $z = y f(x)$. Zou et al. (2018) assume of it

* 3.1: continuous, $\ell' \le 0$, $\ell$ and $\ell'$ tend to 0 at $+\infty$;
* 3.2: $-\ell'(z) \ge \min\{\alpha_0, \alpha_1 \ell(z)^p\}$ with $0 < p \le 1$ and $\alpha_0 \le \infty$;
* 3.3: $\ell'$ is $\lambda$-Lipschitz;
* 4.4 (for SGD): also $|\ell'(z)| \le \min\{\rho_0, \rho_1 \ell(z)^p\}$.

`None` for a constant means that the assumption fails; infinity is a value.

Softmax cross-entropy is a loss of all outputs of an example together, the squared loss one of each output and its
target.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from wideproof.errors import InputError

Function = Callable[[Float[Array, "..."]], Float[Array, "..."]]


@dataclass(frozen=True)
class MarginLoss:
    r"""A loss $\ell(z)$ of the margin, with the constants of Zou et al. (2018), Assumptions 3.1-3.3 and 4.4.

    Attributes
    ----------
    name
        Name of the loss.
    formula
        The formula, as text.
    p
        The exponent $p$ of Assumption 3.2; `None` if it does not hold.
    alpha0
        $\alpha_0$ of Assumption 3.2.
    alpha1
        $\alpha_1$ of Assumption 3.2.
    smoothness
        The Lipschitz constant of $\ell'$; `None` if $\ell'$ is discontinuous.
    rho0
        $\rho_0$ of Assumption 4.4.
    rho1
        $\rho_1$ of Assumption 4.4.
    at_zero
        $\ell(0)$.
    value
        $\ell$, as a function of JAX arrays.
    derivative
        $\ell'$, as a function of JAX arrays.

    Examples
    --------
    >>> LOGISTIC.smoothness, LOGISTIC.meets("3.2"), SIGMOID_LOSS.meets("3.2")
    (0.25, True, False)
    """

    name: str
    formula: str
    p: float | None
    alpha0: float | None
    alpha1: float | None
    smoothness: float | None
    rho0: float | None
    rho1: float | None
    at_zero: float
    value: Function = field(repr=False, compare=False)
    derivative: Function = field(repr=False, compare=False)

    def meets(self, assumption: str) -> bool:
        """Return whether Assumption 3.1, 3.2, 3.3 or 4.4 of Zou et al. (2018) holds.

        Parameters
        ----------
        assumption
            Number of the assumption, such as `"3.2"`.

        Returns
        -------
        bool
            Whether the loss meets it.
        """
        answers = {
            "3.1": True,
            "3.2": self.p is not None,
            "3.3": self.smoothness is not None,
            "4.4": self.p is not None and self.rho0 is not None,
        }
        if assumption not in answers:
            raise InputError(f"the assumption must be 3.1, 3.2, 3.3 or 4.4, got {assumption!r}")
        return answers[assumption]


@dataclass(frozen=True)
class SquaredLoss:
    r"""The squared loss $\tfrac12 (f(x) - y)^2$; Du et al. (2019) and Allen-Zhu et al. (2018) sum it over the data.

    Attributes
    ----------
    name
        Name of the loss.
    formula
        The formula, as text.
    smoothness
        The second derivative.
    """

    name: str = "squared"
    formula: str = "(f - y)^2 / 2"
    smoothness: float = 1.0


@dataclass(frozen=True)
class CrossEntropy:
    r"""Softmax cross-entropy $-\sum_c q_c \log p_c$, $p = \mathrm{softmax}(f)$, $q = (1-\epsilon)\,t + \epsilon/C$.

    $t$ is 1 for the class of an example (targets ±1 or 0, 1), or the vector of class probabilities if these are the
    targets. A single output $f$ stands for the two outputs $(0, f)$: without smoothing this is the logistic loss. The
    Hessian in the outputs, $\mathrm{diag}(p) - p p^\top$, is at most ½, for a single output ¼.

    Attributes
    ----------
    smoothing
        Label smoothing $\epsilon$, at least 0 and below 1.
    name
        Name of the loss.
    formula
        The formula, as text.
    smoothness
        The bound on the second derivative.

    Examples
    --------
    >>> loss = CrossEntropy()
    >>> loss.value(jnp.array([[0.0, 0.0, 0.0]]), jnp.array([[1.0, -1.0, -1.0]])).round(4).tolist()
    [1.0986]
    >>> loss.derivative(jnp.array([[0.0, 0.0]]), jnp.array([[1.0, -1.0]])).tolist()
    [[-0.5, 0.5]]
    """

    smoothing: float = 0.0
    name: str = "cross_entropy"
    formula: str = "-sum_c q_c log softmax(f)_c"
    smoothness: float = 0.5

    def value(self, outputs: Float[Array, "n *k"], targets: Float[Array, "n *k"]) -> Float[Array, "n *steps"]:
        """Return the loss of every example (of sequences: of every step), without cancellation.

        Parameters
        ----------
        outputs
            Outputs, with the classes along the last axis; one number for each example, or a last axis of 1, are single
            outputs.
        targets
            Targets in the same shape.

        Returns
        -------
        Array
            One number for each example.
        """
        f, q = self._classes(outputs, targets)
        top, _, others = _softmax(f)
        return jnp.sum(q * (top - f + jnp.log1p(others)), axis=-1)

    def derivative(self, outputs: Float[Array, "n *k"], targets: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        """Return $p - q$ for every output, as $p(1-q) - q(1-p)$, which keeps its digits where $p$ is near $q = 1$.

        Parameters
        ----------
        outputs
            Outputs, as for `value`.
        targets
            Targets in the same shape.

        Returns
        -------
        Array
            One number for each output.
        """
        f, q = self._classes(outputs, targets)
        top, is_top, others = _softmax(f)
        p = jnp.exp(f - top) / (1 + others)
        slope = p * (1 - q) - q * jnp.where(is_top, others / (1 + others), 1 - p)
        return slope if f.shape == outputs.shape else slope[..., 1].reshape(outputs.shape)

    def _classes(self, outputs: Array, targets: Array) -> tuple[Array, Array]:
        """Outputs and probabilities with one column for every class."""
        t = jnp.maximum(targets, 0)
        if outputs.ndim == 1 or outputs.shape[-1] == 1:
            steps = outputs.shape if outputs.ndim == 1 else outputs.shape[:-1]
            f, t = outputs.reshape(steps), t.reshape(steps)
            outputs, t = jnp.stack([jnp.zeros_like(f), f], axis=-1), jnp.stack([1 - t, t], axis=-1)
        return outputs, (1 - self.smoothing) * t + self.smoothing / t.shape[-1] if self.smoothing else t


def _softmax(f: Array) -> tuple[Array, Array, Array]:
    """The largest output, where it is, and the sum of exp(f - largest) over the others."""
    is_top = jax.nn.one_hot(jnp.argmax(f, axis=-1), f.shape[-1], dtype=bool)
    top = jnp.sum(jnp.where(is_top, f, 0), axis=-1, keepdims=True)  # of equal outputs one: derivatives agree
    return top, is_top, jnp.sum(jnp.where(is_top, 0, jnp.exp(f - top)), axis=-1, keepdims=True)


def _logistic(z: Array) -> Array:
    return jnp.logaddexp(jnp.zeros((), z.dtype), -z)


def _exp_linear(z: Array) -> Array:
    return jnp.where(z < 0, 1 - z, jnp.exp(-jnp.maximum(z, 0)))


def _short(z: Array) -> Array:
    return jnp.maximum(1 - z, 0)


def _huber(z: Array) -> Array:
    return jnp.where(z <= 0, 0.5 - z, 0.5 * jnp.square(_short(jnp.maximum(z, 0))))


_FAR = -5.0  # below, the normal distribution function is taken from its continued fraction


def _mills(z: Array) -> Array:
    """The Mills ratio Φ(z)/φ(z) for z <= -5, by its continued fraction 1/(x + 1/(x + 2/(x + ...))), x = -z."""
    x = -jnp.minimum(z, _FAR)
    tail = x
    for k in range(40, 0, -1):
        tail = x + k / tail
    return 1 / tail


def _log_phi(z: Array) -> Array:
    return -0.5 * z * z - 0.5 * math.log(2 * math.pi)


def _probit(z: Array) -> Array:
    """-log Φ(z), to full relative precision in both tails (JAX's own `log_ndtr` loses digits there)."""
    upper = -jnp.log1p(-0.5 * lax.erfc(jnp.maximum(z, 0) * math.sqrt(0.5)))
    middle = -jnp.log(0.5 * lax.erfc(-jnp.clip(z, _FAR, 0) * math.sqrt(0.5)))
    far = -_log_phi(jnp.minimum(z, _FAR)) - jnp.log(_mills(z))
    return jnp.where(z > 0, upper, jnp.where(z > _FAR, middle, far))


def _probit_slope(z: Array) -> Array:
    near = jnp.maximum(z, _FAR)
    return jnp.where(z > _FAR, -jnp.exp(_log_phi(near)) / (0.5 * lax.erfc(-near * math.sqrt(0.5))), -1 / _mills(z))


LOGISTIC = MarginLoss(
    "logistic", "log(1 + exp(-z))", 1.0, 1 - math.exp(-1), 1 - math.exp(-1), 0.25, 1.0, 1.0, math.log(2),
    _logistic, lambda z: -lax.logistic(-z),
)  # fmt: skip
EXPONENTIAL = MarginLoss(
    "exponential", "exp(-z)", 1.0, math.inf, 1.0, None, math.inf, 1.0, 1.0,
    lambda z: jnp.exp(-z), lambda z: -jnp.exp(-z),
)  # fmt: skip
EXP_LINEAR = MarginLoss(
    "exp_linear", "exp(-z) for z >= 0, 1 - z below", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
    _exp_linear, lambda z: -jnp.exp(-jnp.maximum(z, 0)),
)  # fmt: skip
HINGE = MarginLoss(
    "hinge", "max(1 - z, 0)", 1.0, 1.0, 1.0, None, None, None, 1.0, _short, lambda z: -(z < 1).astype(z.dtype)
)
SQUARED_HINGE = MarginLoss(
    "squared_hinge", "max(1 - z, 0)^2", 0.5, math.inf, 2.0, 2.0, math.inf, 2.0, 1.0,
    lambda z: jnp.square(_short(z)), lambda z: -2 * _short(z),
)  # fmt: skip
HALF_SQUARED_HINGE = MarginLoss(
    "half_squared_hinge", "max(1 - z, 0)^2 / 2", 0.5, math.inf, math.sqrt(2), 1.0, math.inf, math.sqrt(2), 0.5,
    lambda z: 0.5 * jnp.square(_short(z)), lambda z: -_short(z),
)  # fmt: skip
HUBER_HINGE = MarginLoss(
    "huber_hinge", "0 (z >= 1), (1 - z)^2/2 (0 < z < 1), 1/2 - z (z <= 0)", 0.5, 1.0, math.sqrt(2), 1.0, 1.0,
    math.sqrt(2), 0.5, _huber, lambda z: -jnp.minimum(_short(z), 1),
)  # fmt: skip
PROBIT = MarginLoss(
    "probit",
    "-log Phi(z)",
    1.0,
    1.0,
    1.0,
    1.0,
    None,
    None,
    math.log(2),
    _probit,
    _probit_slope,
)
SIGMOID_LOSS = MarginLoss(
    "sigmoid", "1 / (1 + exp(z))", None, None, None, 1 / (6 * math.sqrt(3)), None, None, 0.5,
    lambda z: lax.logistic(-z), lambda z: -lax.logistic(z) * lax.logistic(-z),
)  # fmt: skip
SQUARED = SquaredLoss()
CROSS_ENTROPY = CrossEntropy()


def power_hinge(q: float) -> MarginLoss:
    r"""Return $\max(1 - z, 0)^q$, $q > 1$: $p = (q-1)/q$, $\alpha_0 = \infty$, $\alpha_1 = q$, smooth only for $q = 2$.

    Parameters
    ----------
    q
        The exponent $q > 1$.

    Returns
    -------
    MarginLoss
        The loss.

    Examples
    --------
    >>> power_hinge(3.0).p
    0.6666666666666666
    """
    if not (math.isfinite(q) and q > 1):
        raise InputError(f"power_hinge needs an exponent q > 1, got {q}")
    return MarginLoss(
        f"power_hinge({q:g})", f"max(1 - z, 0)^{q:g}", (q - 1) / q, math.inf, q, 2.0 if q == 2 else None, math.inf,
        q, 1.0, lambda z: _power(_short(z), q), lambda z: -q * _power(_short(z), q - 1),
    )  # fmt: skip


def canonical(p: float) -> MarginLoss:
    r"""Return the loss with $-\ell' = \min\{1, \ell^p\}$ exactly and $\ell(0) = 1$: it meets 3.2 with equality.

    Parameters
    ----------
    p
        The exponent $p$.

    Returns
    -------
    MarginLoss
        The loss.

    Examples
    --------
    >>> canonical(0.75).smoothness, canonical(0.25).smoothness
    (0.75, None)
    """
    if not 0 < p <= 1:
        raise InputError(f"canonical needs 0 < p <= 1, got {p}")
    if p == 1:
        return replace(EXP_LINEAR, name="canonical(1)")
    power = 1 / (1 - p)

    def base(z: Array) -> Array:
        return jnp.maximum(1 - (1 - p) * jnp.maximum(z, 0), 0)

    return MarginLoss(
        f"canonical({p:g})", "-l' = min(1, l^p), l(0) = 1", p, 1.0, 1.0, p if p >= 0.5 else None, 1.0, 1.0, 1.0,
        lambda z: jnp.where(z < 0, 1 - z, _power(base(z), power)), lambda z: -_power(base(z), p * power),
    )  # fmt: skip


def _power(base: Array, exponent: float) -> Array:
    """`base ** exponent` for base >= 0, with 0 at 0."""
    safe = jnp.where(base > 0, base, 1)
    return jnp.where(base > 0, safe**exponent, 0)


Loss = MarginLoss | SquaredLoss | CrossEntropy
LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        SQUARED, LOGISTIC, EXPONENTIAL, EXP_LINEAR, HINGE, SQUARED_HINGE, HALF_SQUARED_HINGE, HUBER_HINGE,
        PROBIT, SIGMOID_LOSS, CROSS_ENTROPY,
    )
}  # fmt: skip
FAMILIES = {"power_hinge": power_hinge, "canonical": canonical}
_OTHER_NAMES = {
    "softmax": "cross_entropy", "softmaxcrossentropy": "cross_entropy", "crossentropy": "cross_entropy",
    "crossentropyloss": "cross_entropy", "ce": "cross_entropy", "nll": "cross_entropy", "nllloss": "cross_entropy",
    "logloss": "cross_entropy", "categoricalcrossentropy": "cross_entropy",
    "sparsecategoricalcrossentropy": "cross_entropy", "bce": "logistic", "bceloss": "logistic",
    "bcewithlogits": "logistic", "bcewithlogitsloss": "logistic", "binarycrossentropy": "logistic",
    "mse": "squared", "mseloss": "squared", "l2": "squared", "leastsquares": "squared", "meansquarederror": "squared",
}  # fmt: skip
_IN_WORDS = {
    "cross_entropy": "softmax cross-entropy over all classes; 'logistic' is the same for two classes and one output, "
    "and with more outputs takes each class against the rest",
    "logistic": "log(1 + exp(-y f)), cross-entropy for two classes and one output; with more outputs it takes each "
    "class against the rest, and 'cross_entropy' is the softmax over all of them",
    "squared": "half the sum of squares, or with reduction='mean' half their mean over examples",
}


def get_loss(name: str | Loss) -> Loss:
    """Return a loss by its name.

    Parameters
    ----------
    name
        Name of the loss; families take their exponent in parentheses. A loss is returned as it is.

    Returns
    -------
    Loss
        The loss.

    Examples
    --------
    >>> get_loss("canonical(0.75)").p
    0.75
    """
    if isinstance(name, Loss):
        return name
    family = re.fullmatch(r"(\w+)\(([^)]+)\)", name)
    if family and family[1] in FAMILIES:
        try:
            exponent = float(family[2])
        except ValueError:
            raise InputError(f"{family[1]} takes a number in parentheses, got {family[2]!r}") from None
        return FAMILIES[family[1]](exponent)
    if name not in LOSSES:
        if (meant := _OTHER_NAMES.get(re.sub(r"[\s_-]", "", name.lower()))) is not None:
            raise InputError(f"there is no loss {name!r}: use {meant!r}, {_IN_WORDS[meant]}")
        known = [*LOSSES, "power_hinge(q)", "canonical(p)"]
        raise InputError(f"there is no loss {name!r}: choose one of {', '.join(known)}")
    return LOSSES[name]
