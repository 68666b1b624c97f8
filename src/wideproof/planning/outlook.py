r"""What gradient descent from the start of a network with one hidden layer will do, before it takes a step.

Where the start has output 0, all is read off the Gram matrix $G$ of the very network, its eigenvalues $\lambda_i$ and
the targets' parts $y_i$ along its eigenvectors. With $s^2 = \lambda_{\min}$, the step size $1/\lambda_{\max}$ and
outputs multiplied by $\alpha$, Theorem 1 takes over after about the first $k$ steps with

$$ \Big(\sum_i y_i^2 \, (1 - \lambda_i/\lambda_{\max})^{2k}\Big)^{1/2} \le \alpha\, \frac{s^2}{2 \Lambda}, \qquad
   \Lambda = \frac p2 + \sqrt{\frac{p^2}4 + q^2}, \quad
   p = s_1 \|X\|\, \max_i \|x_i\|\, L_2 \max_j \|a_{\cdot j}\|, \quad q = s_1 \|X\|\, L_1, $$

$s_1 = \sqrt{c_\sigma/m}$, $L_1$ and $L_2$ bounds of $\sigma'$ and $\sigma''$. That is a forecast: the network's matrix
changes on the way, and what is proved is decided later. All outputs have a matrix in common, by which candidates are
compared: of the doubled start every output weight is 1 or -1, and what couples two outputs falls with the width. For
the steps of the one that is chosen the matrix of all outputs together is looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from wideproof.data import Dataset, Distinct, distinct
from wideproof.kernels import gram
from wideproof.networks import FullyConnected, Network
from wideproof.networks.starts import DOUBLED, ZERO
from wideproof.planning.estimates import Estimate, leave_out, score

NEVER = 10**9  # more steps than anybody takes


@dataclass(frozen=True, eq=False)
class Outlook:
    r"""What the Gram matrix of a network with output 0 says of its training.

    Attributes
    ----------
    estimate
        Leaving out each row in turn, with this very matrix; `None` where it is singular to rounding.
    eigenvalues, parts
        Of the matrix, and the length of the targets along each eigenvector.
    reach
        $s^2 / (2 \Lambda)$: about the largest residual from which Theorem 1 applies, with $\alpha = 1$.
    """

    network: Network
    estimate: Estimate | None
    eigenvalues: np.ndarray
    parts: np.ndarray
    reach: float

    @property
    def condition(self) -> float:
        """The condition number of the Gram matrix."""
        smallest = float(self.eigenvalues[0])
        return float(self.eigenvalues[-1]) / smallest if smallest > 0 else math.inf

    @property
    def before(self) -> float:
        r"""About the least $\alpha$ with which the initial weights themselves have a proof."""
        size = float(np.linalg.norm(self.parts))
        return size / self.reach if self.reach > 0 else math.inf

    def steps(self, alpha: float = 1.0) -> int:
        r"""Return about how many steps it takes until Theorem 1 applies, with outputs multiplied by $\alpha$."""
        if self.before <= alpha:
            return 0
        if not self.reach > 0:
            return NEVER
        shrink = np.clip(1 - self.eigenvalues / self.eigenvalues[-1], 0, 1)

        def left(k: int) -> float:
            return float(np.linalg.norm(self.parts * shrink**k))

        low, high = 0, 1
        while left(high) > alpha * self.reach:
            low, high = high, 2 * high
            if high > NEVER:
                return NEVER
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if left(middle) > alpha * self.reach else (low, middle)
        return high


def forecast(network: FullyConnected, data: Dataset, seed: int = 0, joint: bool = False) -> Outlook:
    """Look at the Gram matrix of a network at its start, where its output is 0.

    Parameters
    ----------
    network
        One hidden layer, with the doubled or the zero start.
    seed
        The seed of its initial weights.
    joint
        Look at the matrix of all outputs together, not at that of one of them; there is no estimate then.

    Examples
    --------
    >>> import wideproof as wp
    >>> data = wp.prepare(wp.load("iris", limit=40), "standardize,sphere(8)")
    >>> network = FullyConnected(5, 512, 1, "erf", outputs=3, start="doubled")
    >>> found = forecast(network, data)
    >>> found.steps(100.0) < found.steps(10.0), found.steps(2 * found.before)
    (True, 0)
    """
    assert network.depth == 1
    assert network.start in (DOUBLED, ZERO)
    groups = distinct(data)
    roots = np.sqrt(groups.counts)
    if joint and network.start == DOUBLED and network.outputs > 1:
        matrix = np.asarray(gram(network, network.init(seed), groups.x).matrix, np.float64)
        roots = roots.repeat(network.outputs)
        values, vectors = scipy.linalg.eigh(matrix * np.multiply.outer(roots, roots), driver="evd")
        parts = np.abs(vectors.T @ (groups.y.ravel() * roots))
        return Outlook(network, None, np.maximum(values, 0.0), parts, max(values[0], 0.0) / (2 * bend(network, groups)))
    matrix = first_gram(network, groups.x, seed)
    weighted = matrix * np.multiply.outer(roots, roots)
    values, vectors = scipy.linalg.eigh(weighted, check_finite=False, driver="evd")
    targets = groups.y.reshape(groups.n, -1) * roots[:, None]
    parts = np.linalg.norm(vectors.T @ targets, axis=1)
    if values[0] <= 1e-12 * values[-1]:
        return Outlook(network, None, np.maximum(values, 0.0), parts, 0.0)
    left = leave_out(matrix, groups) if groups.n > 1 else None
    estimate = None
    if left is not None:
        estimate = score(data, left.outputs[groups.place].reshape(data.y.shape))
    return Outlook(network, estimate, values, parts, float(values[0]) / (2 * bend(network, groups)))


def first_gram(network: FullyConnected, x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return the Gram matrix of one output at the start, in plain NumPy: nothing is compiled.

    >>> from wideproof.kernels import gram
    >>> network = FullyConnected(3, 64, 1, "erf", start="doubled")
    >>> x = np.random.default_rng(0).standard_normal((5, 3))
    >>> bool(np.allclose(first_gram(network, x), gram(network, network.init(0), x).matrix))
    True
    """
    paired = network.start == DOUBLED
    weights = np.asarray(network.init(seed)["W1"])[: network.width // 2 if paired else None]
    scale = network.alpha**2 * network.activation.c_sigma / network.width * (2 if paired else 1)
    z = x @ weights.T
    values = network.activation.known.value(z)
    matrix = values @ values.T
    if paired:
        slopes = network.activation.known.slope(z)
        matrix += slopes @ slopes.T * (x @ x.T)
    return scale * matrix


def bend(network: FullyConnected, groups: Distinct) -> float:
    r"""Return $\Lambda$ at the start: how fast the Jacobian of all rows can change, at most."""
    known, scale = network.activation.known, network.alpha * math.sqrt(network.activation.c_sigma / network.width)
    size = float(np.linalg.norm(groups.x * np.sqrt(groups.counts)[:, None], 2))
    longest = float(np.linalg.norm(groups.x, axis=1).max())
    read_out = math.sqrt(network.outputs) if network.start == DOUBLED else 0.0
    p, q = scale * size * longest * known.smoothness * read_out, scale * size * known.lipschitz
    return p / 2 + math.sqrt(p * p / 4 + q * q)
