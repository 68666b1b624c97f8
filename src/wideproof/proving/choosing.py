r"""Which network to prove something about: preparation, family, depth, width and step size, before any training.

A certificate needs a Gram matrix that is not too badly conditioned; people need a network that is of use on new rows.
Both are read off Gram matrices at infinite width, in closed form where there is one. Candidates that look provable are
ranked by their estimate on rows left out; of those within a standard error of the best, the better conditioned one
is taken.

Vectors are put on a sphere of radius r with a constant coordinate, which keeps different rows different. The larger r,
the sharper the kernel of one hidden layer of erf units: $\tfrac2\pi \arcsin \frac{2 r^2 \rho}{1 + 2 r^2}$ for
correlation $\rho$ goes from smooth to one with a kink, and its condition number from hopeless to small. Where no sphere
is well conditioned the inputs are lifted by random Fourier features.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wideproof.certificates import DENSE, scale_needed
from wideproof.data import PAPERS_NEED, AnyDataset, Distinct, distinct, parse_steps, prepare
from wideproof.errors import InputError
from wideproof.networks import NETWORKS, FullyConnected, Network
from wideproof.networks.starts import DOUBLED, POSITIVE, written
from wideproof.planning import Candidate, kind_of
from wideproof.progress import Watch
from wideproof.proving.estimates import Estimate
from wideproof.proving.looking import LEAST_WIDTH, PROVABLE, Looked, look, rank
from wideproof.proving.unseen import by_folds

SPHERES = tuple(f"{first},sphere({r})" for first in ("standardize", "whiten") for r in (4, 8, 16))
SHARPER = ("standardize,sphere(32)", "whiten,sphere(64)", "standardize,lift,sphere(2)", "whiten,lift,sphere(4)")
LAZY = (
    "nothing is random, and at a large scale the weights hardly move (lazy training), so the proof says more about the "
    "linear model around the start than about the network"
)
FOLDS = {
    "images": (
        Candidate("conv-residual", "softplus", 2, "standardize,unit"),
        Candidate("conv-residual", "tanh", 2, "center,unit"),
    ),
    "sequences": (Candidate("elman-rnn", None, 1, "standardize,pad"), Candidate("elman-rnn", None, 1, "pad")),
}
GOOD = 0.9  # with an estimate below this the other families are tried too, where that is cheap
SMALL = 250
MOST_WEIGHTS = 2**26
NARROW, LARGEST = 2048, 10**9  # the width where a wide read-out would take more than so many numbers, 8 GB
MOST_STEPS = 8192  # where every step is going to be followed
ROOM = 2.0  # of the smallest scale of the positive start with a proof, where the proven rate is next to nothing
OPERATIONS, PER_UNIT = 1e11, 500  # of training, about; an activation with its slope costs as much as so many products


@dataclass(frozen=True, eq=False)
class Choice:
    r"""What to train, and why.

    Attributes
    ----------
    data
        The prepared data; `network` is built for it.
    step_size
        $1/\lambda_{\max}$ of the weighted Gram matrix at infinite width.
    steps
        Of training at most; what is left is polished away.
    estimate
        On folds of the rows, for this network at its start, the preparation fitted anew (`unseen.by_folds`); `None`
        where it cannot be computed.
    looked
        All candidates that were looked at, the chosen one first.
    notes
        One sentence each.
    """

    data: AnyDataset
    network: Network
    preparation: str
    seed: int
    step_size: float | str
    steps: int
    estimate: Estimate | None
    looked: tuple[Looked, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.network}, prepared by {self.preparation or 'nothing'}"

    def to_dict(self) -> dict[str, Any]:
        """Return what decides a proof again, as JSON-ready values."""
        from wideproof.networks import to_config

        return {
            "network": to_config(self.network), "preparation": self.preparation, "seed": self.seed,
            "step_size": self.step_size, "steps": self.steps, "notes": list(self.notes),
            "estimate": None if self.estimate is None else dataclasses.asdict(self.estimate),
        }  # fmt: skip


def choose(
    data: AnyDataset,
    *,
    network: str | None = None,
    width: int | None = None,
    depth: int | None = None,
    activation: str | None = None,
    prepare: str = "auto",
    seed: int = 0,
    avoid: Sequence[str] = (),
    fast: bool = False,
    progress: Watch | None = None,
    **options: object,
) -> Choice:
    """Choose preparation, network, width and step size for `data`; what is given is kept.

    Parameters
    ----------
    network, width, depth, activation, options
        Of the network, as in `build`; `None` leaves it open.
    prepare
        Steps, `"none"`, or `"auto"`.
    avoid
        Preparations that did not lead to a proof.
    fast
        Of all that is provable take what is trained in the fewest steps, whatever its estimate.
    progress
        Is called with candidates done, in all, and the one under way.
    seed
        Of the initial weights; it is kept with the choice.

    Examples
    --------
    >>> from wideproof.data import load
    >>> found = choose(load("iris"))
    >>> found.network.name, found.estimate.value > 0.9
    ('fully-connected', True)
    """
    for name, value in (("width", width), ("depth", depth)):
        if value is not None and value < 1:
            raise InputError(f"the {name} must be a whole number of at least 1, got {value}")
    given = {key: value for key, value in options.items() if value is not None}
    start = written(str(given["start"])) if "start" in given else None
    network = network or (None if start is None else FullyConnected.name)  # the only one with a choice
    if start is None and _pairs(data, width):
        start = DOUBLED
    if network is not None:
        _require_options(network, {**given, **({"depth": depth} if depth else {})}, activation)
    kind, groups = kind_of(data), distinct(data)
    raw, data = data, scaled(data, prepare)
    first, later = (
        [dataclasses.replace(one, start=start) if one.network == FullyConnected.name else one for one in part]
        for part in _candidates(data, kind, network, depth, activation, prepare)
    )
    notes: list[str] = []
    ready: dict[str, AnyDataset] = {}
    if avoid:  # what looked best was not provable: now more is asked for, of all there is
        first, later = [one for one in (*first, *later) if _cheap(one, groups)], []
    looked = look(data, [one for one in first if one.preparation not in avoid], ready, notes, progress)
    good = any(one.provable and (one.estimate is None or one.estimate.value >= GOOD) for one in looked)
    if not good:
        rest = [one for one in later if one.preparation not in avoid and (_cheap(one, groups) or not looked)]
        if any(one.provable for one in looked):  # then sharper preparations are not needed
            rest = [one for one in rest if one.preparation not in SHARPER]
        looked += look(data, rest, ready, notes, progress)
    if not looked:
        raise InputError(notes[-1] if notes else f"no network is known for '{data.name}': choose one with `network`")
    best, *others = rank(looked, PROVABLE * 10 ** len(avoid), fast)
    own = ready[best.candidate.preparation]
    made = best.candidate.build(own, width or _width(own, best.candidate))
    made = dataclasses.replace(made, **_fields(made, given))
    largest = best.largest
    if isinstance(made, FullyConnected) and made.start == POSITIVE:
        made = _with_scale(made, own, best.candidate.preparation)
        largest *= (made.start_scale or 1.0) ** 2
    if isinstance(made, FullyConnected) and made.start_scale is not None:
        notes.append(f"{made.start} start: {LAZY}")
    laws = list(made.laws().values())
    most = 2048 if not fast else MOST_STEPS
    weights, units = sum(math.prod(law.shape) for law in laws), sum(law.shape[0] for law in laws[:-1])
    operations = OPERATIONS * (16 if fast else 4 if best.candidate.start == DOUBLED else 1)
    steps = int(np.clip(operations / (data.n * (6 * weights + PER_UNIT * units)), 16, most))
    targets = ("scale_targets",) if data is not raw else ()
    estimate = by_folds(raw, ",".join((*targets, *filter(None, [best.candidate.preparation]))), made, seed)
    return Choice(
        own, made, best.candidate.preparation, seed, 1 / largest if largest > 0 else "safe",
        1 << (steps.bit_length() - 1), estimate, (best, *others), tuple(notes),
    )  # fmt: skip


def _with_scale(network: FullyConnected, data: AnyDataset, steps: str) -> FullyConnected:
    """Return the network with a scale of its positive start at which a proof before training passes with room."""
    least = scale_needed(network, data, start="positive", level="float64", tolerance=0.25).scales[0]
    if least is None:
        groups = distinct(data)
        raise InputError(
            f"the positive start needs linearly independent inputs, and '{data.name}', prepared by "
            f"{steps or 'nothing'}, has {groups.n} different ones of {data.input_shape[0]} entries: use fewer rows, "
            "or `lift` in the preparation"
        )
    return dataclasses.replace(network, start=f"{POSITIVE}({ROOM * least:.3g})")


def scaled(data: AnyDataset, steps: str) -> AnyDataset:
    """Scale real targets if the preparation is left open: weights stay near their start only if targets are of size 1.

    >>> from wideproof.data import Dataset
    >>> scaled(Dataset(np.eye(3), [10.0, 20.0, 30.0], "regression"), "auto").y.round(3).tolist()
    [-1.225, 0.0, 1.225]
    """
    real = data.task == "regression" and bool((np.ptp(data.y, axis=0) > 0).all())
    return prepare(data, "scale_targets") if real and steps == "auto" else data


def _require_options(network: str, given: dict[str, Any], activation: str | None) -> None:
    """Say in a sentence that a network has no such option, before anything is computed."""
    if network not in NETWORKS:
        raise InputError(f"there is no network {network!r}: choose one of {', '.join(NETWORKS)}")
    known = {field.name for field in dataclasses.fields(NETWORKS[network])}
    asked = [*given, *(["activation"] if activation is not None else [])]
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise InputError(f"{network} has no option {', '.join(unknown)}: it has {', '.join(sorted(known))}")


def _fields(network: Network, given: dict[str, Any]) -> dict[str, Any]:
    _require_options(network.name, given, None)
    return {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}


def _candidates(
    data: AnyDataset, kind: str, network: str | None, depth: int | None, activation: str | None, prepare: str
) -> tuple[list[Candidate], list[Candidate]]:
    """Return what is looked at first, and what only if that is not good."""
    if prepare not in ("auto", "none"):
        parse_steps(prepare)
    fixed = None if prepare == "auto" else "" if prepare == "none" else prepare
    if kind != "vectors":
        if network is None and fixed is None:
            return list(FOLDS[kind]), []
        usual = FOLDS[kind][0]
        name = network or usual.network
        steps = fixed if fixed is not None else ",".join(PAPERS_NEED[NETWORKS[name].paper])
        return [Candidate(name, activation or usual.activation, depth or usual.depth, steps)], []
    name = network or "fully-connected"
    smooth = "activation" in {field.name for field in dataclasses.fields(NETWORKS[name])}
    sigma = (activation or "erf") if smooth else None
    layers = depth or (1 if name == "fully-connected" else 2)
    first = [Candidate(name, sigma, layers, steps) for steps in ((fixed,) if fixed is not None else SPHERES)]
    later = [] if fixed is not None else [Candidate(name, sigma, layers, steps) for steps in SHARPER]
    if network is None and fixed is None and depth is None and activation is None:
        later += [
            Candidate("fully-connected", "erf", 3, "whiten,unit"),
            Candidate("residual", "erf", 3, "standardize,sphere(4)"),
        ]
        if not data.target_shape:
            later += [Candidate("deep-relu", None, 2, "standardize,sphere")]
    return first, later


def _pairs(data: AnyDataset, width: int | None) -> bool:
    """Return whether units come in pairs: where the whole Gram matrix is formed, half of the units are enough."""
    return kind_of(data) == "vectors" and distinct(data).y.size <= DENSE and (width is None or width % 2 == 0)


def _cheap(one: Candidate, groups: Distinct) -> bool:
    return one.network == "fully-connected" or (groups.n <= SMALL and groups.y.size <= DENSE)


def _width(data: AnyDataset, candidate: Candidate) -> int:
    """Return the first power of two with a quarter more features than there are distinct inputs.

    Where that takes too much memory, a narrower network with the whole Gram matrix, if that takes less. Units in pairs
    of one hidden layer are 2,048: fewer make the Gram matrix, and so the predictions, noisy, and a proof begins later.
    """
    n, outputs = distinct(data).n, math.prod(data.target_shape)
    if candidate.start == DOUBLED and candidate.depth == 1:
        return NARROW
    width = 1 << max(LEAST_WIDTH.bit_length() - 1, math.ceil(math.log2(1.25 * n)))
    if kind_of(data) != "vectors":
        width = min(width, 256)
    whole, lean = (12 + 6 * outputs) * n * NARROW + 2 * (n * outputs) ** 2, 12 * n * width + 8 * n**2
    if lean > LARGEST and whole < lean:
        width = NARROW

    def weights(width: int) -> int:
        return sum(math.prod(law.shape) for law in candidate.build(data, width).laws().values())

    while width > LEAST_WIDTH and weights(width) > MOST_WEIGHTS:
        width //= 2
    return width
