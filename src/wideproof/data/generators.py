r"""Data sets made to order: separation, margin and labels are known exactly, so that checks have an oracle.

Everything is drawn from `numpy.random.default_rng(seed)`; the same seed gives the same numbers.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from wideproof.data.dataset import AnyDataset, Dataset, SequenceDataset
from wideproof.errors import InputError

_SLACK = 1e-12  # how much 1 - s²/2 is lowered so that rounding never brings a drawn pair below the planted one
_BATCH, _TRIES = 512, 100


def sphere(
    n: int,
    d: int,
    separation: float,
    seed: int = 0,
    labels: Literal["random", "linear"] = "random",
) -> Dataset:
    r"""Generate unit vectors at least `separation` apart, with equality for the pair (0, 1).

    $$ \min_{i \ne j} \|x_i - x_j\| = \delta $$

    Parameters
    ----------
    n
        Number of examples.
    d
        Number of coordinates.
    separation
        The least distance $\delta$.
    seed
        Seed of the draw.
    labels
        `"random"`: independent fair signs, opposite for the pair (0, 1); `"linear"`: the side of a random hyperplane
        through the origin with examples on both sides.

    Returns
    -------
    Dataset
        The data set.

    Examples
    --------
    >>> data = sphere(n=5, d=3, separation=0.25)
    >>> round(float(np.linalg.norm(data.x[0] - data.x[1])), 12)
    0.25
    """
    rng = _rng(n, d, seed)
    x = _separated(rng, n, d, separation, "sphere")
    if labels == "linear":
        y = np.sign(x @ rng.standard_normal(d))
        y = y if set(y) == {-1.0, 1.0} else np.where(x @ (x[0] - x[1]) >= 0, 1.0, -1.0)
    elif labels == "random":
        y = _coins(rng, n)
    else:
        raise InputError(f"the labels of 'sphere' must be random or linear, got '{labels}'")
    return Dataset(x, y, "binary", "sphere")


def two_classes(
    n: int,
    d: int,
    separation: float,
    mu: float | None = None,
    seed: int = 0,
    labels: Literal["random", "linear"] = "random",
) -> Dataset:
    r"""Generate unit vectors in two classes at least `separation` apart, with equality for the pair (0, 1).

    $$ \min_{y_i \ne y_j} \|x_i - x_j\| = \phi $$

    Points of one class may be arbitrarily close.

    Parameters
    ----------
    n
        Number of examples.
    d
        Number of coordinates.
    separation
        The least distance $\phi$ of points of different classes, at most 2.
    mu
        If given, the last coordinate is the constant $\mu$: $x = (\sqrt{1 - \mu^2}\, u, \mu)$, as Zou et al. (2018)
        suppose in Assumptions 3.4 and 3.5.
    seed
        Seed of the draw.
    labels
        `"random"`: points anywhere, with alternating labels; `"linear"`: the classes are on the two sides of a slab of
        width $\phi$, which is possible for every $\phi \le 2$.

    Returns
    -------
    Dataset
        The data set.

    Examples
    --------
    >>> data = two_classes(n=6, d=4, separation=0.5, mu=0.6)
    >>> data.x[:, -1].tolist() == [0.6] * 6
    True
    """
    rng = _rng(n, d, seed)
    _require_separation(separation, "two_classes")
    if mu is not None and not 0 < mu < 1:
        raise InputError(f"the last coordinate `mu` of 'two_classes' must be in (0, 1), got {mu:g}")
    shrink = 1.0 if mu is None else float(np.sqrt(1 - mu**2))
    apart, size = separation / shrink, d if mu is None else d - 1
    if apart > 2 or size < 1:
        raise InputError(
            f"'two_classes' with d={d} and mu={mu} allows separations up to {2 * shrink:.4g}, got "
            f"{separation:g}: "
            "use a smaller separation or mu, or a larger d"
        )
    if labels == "linear":
        u, y = _slab(rng, n, size, apart / 2)
    elif labels == "random":
        u, y = _alternating(rng, n, size, apart)
    else:
        raise InputError(f"the labels of 'two_classes' must be random or linear, got '{labels}'")
    x = u if mu is None else np.column_stack([shrink * u, np.full(n, mu)])
    return Dataset(x, y, "binary", "two_classes")


def teacher(n: int, d: int, width: int = 16, seed: int = 0) -> Dataset:
    r"""Unit inputs with the targets of a random two-layer ReLU teacher, scaled to variance 1.

    $y = \sum_r a_r \max(w_r^\top x, 0)$.

    >>> round(float(teacher(n=50, d=4, width=8).y.std()), 12)
    1.0
    """
    rng = _rng(n, d, seed)
    if width < 1:
        raise InputError(f"the teacher needs a width of at least 1, got {width}")
    x = _uniform(rng, n, d)
    spread = 0.0
    y = np.zeros(n)
    while spread == 0:  # a narrow teacher can be dead on every input
        y = np.maximum(x @ rng.standard_normal((d, width)), 0) @ rng.standard_normal(width)
        spread = float(y.std())
    return Dataset(x, y / spread, "regression", "teacher")


def random_labels(n: int, d: int, seed: int = 0) -> Dataset:
    """Unit inputs and coin tosses for labels (both classes present): nothing to learn, everything to fit.

    >>> sorted(set(random_labels(n=20, d=5).y.tolist()))
    [-1.0, 1.0]
    """
    rng = _rng(n, d, seed)
    return Dataset(_uniform(rng, n, d), _coins(rng, n), "binary", "random_labels")


def linear_margin(n: int, d: int, rho: float, seed: int = 0) -> Dataset:
    r"""Generate unit vectors labelled by the sign of their first coordinate, whose absolute value is at least `rho`.

    Parameters
    ----------
    n
        Number of examples.
    d
        Number of coordinates.
    rho
        The least absolute value of the first coordinate.
    seed
        Seed of the draw.

    Returns
    -------
    Dataset
        The data set.

    Examples
    --------
    >>> float(np.abs(linear_margin(n=10, d=4, rho=0.3).x[:, 0]).min())
    0.3
    """
    rng = _rng(n, d, seed)
    if not 0 < rho <= 1 or d < 2:
        raise InputError(f"'linear_margin' needs 0 < rho <= 1 and d >= 2, got rho={rho:g} and d={d}")
    x, y = _slab(rng, n, d, rho)
    return Dataset(x, y, "binary", "linear_margin")


def xor() -> Dataset:
    r"""Generate the exclusive or in the plane: four points on the axes.

    $\pm e_1 \mapsto +1$, $\pm e_2 \mapsto -1$.

    The margin is $\gamma = \tfrac12 (2/\sqrt\pi - \sqrt{2/\pi}) = 0.16525$.

    Returns
    -------
    Dataset
        The data set.

    Examples
    --------
    >>> xor().y.tolist()
    [1.0, 1.0, -1.0, -1.0]
    """
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    return Dataset(x, np.array([1.0, 1.0, -1.0, -1.0]), "binary", "xor")


def sequences(
    n: int,
    length: int,
    features: int,
    separation: float,
    outputs: int = 1,
    tail: Literal["random", "zero", "shared"] = "random",
    seed: int = 0,
) -> SequenceDataset:
    r"""Generate sequences whose first tokens are at least `separation` apart, with equality for the pair (0, 1).

    First tokens are $(u/\sqrt2, 1/\sqrt2)$ with unit $u$. Assumption 2.1 of Allen-Zhu et al. (2018) and its
    preliminaries hold. The targets are standard normal.

    Parameters
    ----------
    n
        Number of sequences.
    length
        Number of tokens of a sequence.
    features
        Length of a token.
    separation
        The least distance of two first tokens.
    outputs
        Number of targets at every step.
    tail
        Later tokens: `"random"` with norm at most 1, `"zero"`, or `"shared"` by all sequences.
    seed
        Seed of the draw.

    Returns
    -------
    SequenceDataset
        The data set.

    Examples
    --------
    >>> data = sequences(n=3, length=4, features=5, separation=0.5)
    >>> data.x.shape, data.y.shape
    ((3, 4, 5), (3, 4, 1))
    """
    rng = _rng(n, features, seed)
    if length < 2 or features < 2 or outputs < 1:
        raise InputError(
            f"'sequences' needs length >= 2, features >= 2 and outputs >= 1, got {length}, {features}, {outputs}"
        )
    first = _separated(rng, n, features - 1, separation * np.sqrt(2), "sequences", scale=1 / np.sqrt(2))
    rows = 1 if tail == "shared" else n
    later = rng.uniform(size=(rows, length - 1, 1)) * _uniform(rng, rows * (length - 1), features).reshape(
        rows, length - 1, features
    )
    if tail not in ("random", "zero", "shared"):
        raise InputError(f"the tail of 'sequences' must be random, zero or shared, got '{tail}'")
    x = np.empty((n, length, features))
    x[:, 0, :-1] = first / np.sqrt(2)
    x[:, 0, -1] = 1 / np.sqrt(2)
    x[:, 1:] = 0.0 if tail == "zero" else later
    return SequenceDataset(x, rng.standard_normal((n, length, outputs)), "regression", "sequences")


GENERATORS: dict[str, Callable[..., AnyDataset]] = {
    "sphere": sphere,
    "two_classes": two_classes,
    "teacher": teacher,
    "random_labels": random_labels,
    "linear_margin": linear_margin,
    "xor": xor,
    "sequences": sequences,
}


def generate(spec: str, *, seed: int = 0, name: str | None = None) -> AnyDataset:
    """Call a generator written as `name:key=value,...`; `seed` is used where the text does not set one.

    >>> generate("teacher:n=8,d=3,width=4").y.shape
    (8,)
    """
    head, _, tail = spec.partition(":")
    function = GENERATORS[head]
    parameters = inspect.signature(function).parameters
    usage = f"write {head}:{','.join(f'{p}=...' for p in parameters)}" if parameters else f"write {head}"
    values: dict[str, Any] = {"seed": seed} if "seed" in parameters else {}
    for part in filter(None, (part.strip() for part in tail.split(","))):
        key, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals or key not in parameters:
            raise InputError(f"the generator '{head}' does not understand '{part}': {usage}")
        values[key] = _value(key, text, parameters[key], head)
    missing = [p for p, q in parameters.items() if q.default is inspect.Parameter.empty and p not in values]
    if missing:
        raise InputError(f"the generator '{head}' needs {', '.join(missing)}: {usage}")
    return replace(function(**values), name=name or spec)


def _value(key: str, text: str, parameter: inspect.Parameter, head: str) -> Any:
    wanted = parameter.annotation
    if wanted is int or wanted is float or wanted == float | None:
        number = int if wanted is int else float
        try:
            return number(text)
        except ValueError:
            kind = "a whole number" if wanted is int else "a number"
            raise InputError(f"the generator '{head}' needs {kind} for `{key}`, got '{text}'") from None
    return text


def _rng(n: int, d: int, seed: int) -> np.random.Generator:
    if n < 2 or d < 1 or seed < 0:
        raise InputError(f"a generator needs n >= 2, d >= 1 and seed >= 0, got n={n}, d={d}, seed={seed}")
    return np.random.default_rng(seed)


def _require_separation(separation: float, who: str, scale: float = 1.0) -> None:
    if not 0 < separation <= 2 * (1 + 1e-12):
        raise InputError(
            f"the separation of '{who}' must be in (0, {2 * scale:.4g}], got {separation * scale:g}: "
            "unit vectors are at most 2 apart"
        )


def _uniform(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _coins(rng: np.random.Generator, n: int) -> np.ndarray:
    y = rng.choice([-1.0, 1.0], size=n)
    y[1] = -y[0]
    return y


def _pair(rng: np.random.Generator, d: int, separation: float) -> np.ndarray:
    """Return two unit vectors `c ± (separation / 2) e`, `e` a unit vector orthogonal to `c`."""
    half = min(separation / 2, 1.0)
    along = _uniform(rng, 1, d)[0]
    if d == 1:
        return np.array([along, -along])
    across = rng.standard_normal(d)
    across -= (across @ along) * along
    across -= (across @ along) * along
    across /= np.linalg.norm(across)
    middle = np.sqrt((1 - half) * (1 + half)) * across
    return np.array([middle + half * along, middle - half * along])


def most_points(d: int, separation: float) -> float:
    r"""How many caps of angular radius $\theta/2$, $2\sin(\theta/2) = \delta$, have room on the sphere.

    >>> most_points(3, 2.0)
    2.0
    """
    from scipy.special import betainc

    if d == 1:
        return 2.0
    fraction = 0.5 * betainc((d - 1) / 2, 0.5, min(separation / 2, 1.0) ** 2)
    return float(1 / fraction) if fraction > 0 else float("inf")


def _separated(rng: np.random.Generator, n: int, d: int, separation: float, who: str, scale: float = 1.0) -> np.ndarray:
    """Draw unit vectors one batch after the other, keeping those far enough from all that were kept."""
    _require_separation(separation, who, scale)
    bound = most_points(d, separation)
    if n > bound * (1 + 1e-9) or (d == 1 and separation < 2 * (1 - 1e-12)):
        raise InputError(
            f"'{who}' cannot place {n} points {separation * scale:g} apart: disjoint caps leave room "
            "for at most "
            f"{int(bound)} points in that dimension, so use fewer points, a smaller separation or a "
            "larger dimension"
        )
    x = np.empty((n, d))
    x[:2] = _pair(rng, d, separation)
    highest = 1 - min(separation, 2.0) ** 2 / 2 - _SLACK
    return _fill(rng, x, np.zeros(n), highest, who, separation * scale)


def _alternating(rng: np.random.Generator, n: int, d: int, separation: float) -> tuple[np.ndarray, np.ndarray]:
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    x = np.empty((n, d))
    if d == 1 and separation < 2 * (1 - 1e-12):
        raise InputError("'two_classes' on two points only (d too small) has separation 2: use a larger d")
    x[:2] = _pair(rng, d, separation)
    return _fill(rng, x, y, 1 - min(separation, 2.0) ** 2 / 2 - _SLACK, "two_classes", separation), y


def _fill(
    rng: np.random.Generator, x: np.ndarray, y: np.ndarray, highest: float, who: str, separation: float
) -> np.ndarray:
    """Fill `x[2:]` so that inner products with every earlier conflicting point stay below `highest`.

    All labels zero: every pair conflicts. Labels ±1: opposite ones do.
    """
    n, d = x.shape
    done, failures = 2, 0
    while done < n:
        batch = _uniform(rng, min(_BATCH, max(64, n - done)), d)
        ok = {}
        for label in set(y[done:].tolist()):
            rivals = x[:done] if label == 0 else x[:done][y[:done] == -label]
            ok[label] = (batch @ rivals.T).max(axis=1, initial=-1.0) <= highest
        start = done
        for k, point in enumerate(batch):
            if done == n:
                break
            new = x[start:done] if y[done] == 0 else x[start:done][y[start:done] == -y[done]]
            if ok[y[done]][k] and (new @ point).max(initial=-1.0) <= highest:
                x[done] = point
                done += 1
        failures = 0 if done > start else failures + 1
        if failures == _TRIES:
            raise InputError(
                f"'{who}' placed {done} of {n} points {separation:g} apart and found no room in "
                f"{_TRIES * len(batch)} more draws: use fewer points, a smaller separation, a larger "
                "dimension" + (" or labels='linear'" if who == "two_classes" else "")
            )
    return x


def _slab(rng: np.random.Generator, n: int, d: int, rho: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Unit vectors with $|x_1| \ge \rho$, $y = \mathrm{sign}\, x_1$; rows 0 and 1 mirror each other.

    $1 - x_1^2$ of a uniform unit vector is Beta$((d-1)/2, 1/2)$; it is drawn below $1 - \rho^2$.
    """
    from scipy.special import betainc, betaincinv

    if d < 2:
        raise InputError("points on two sides of a slab need d >= 2 (d >= 3 with `mu`): use a larger d")
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    cap = betainc((d - 1) / 2, 0.5, (1 - rho) * (1 + rho))
    rest = betaincinv((d - 1) / 2, 0.5, cap * rng.uniform(size=n))
    first = np.maximum(np.sqrt(1 - rest), rho)
    first[:2] = rho
    tails = _uniform(rng, n, d - 1)
    tails[1] = tails[0]
    x = np.column_stack([y * first, np.sqrt((1 - first) * (1 + first))[:, None] * tails])
    return x, y
