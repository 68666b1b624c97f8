r"""Which network to prove something about: preparation, activation, width, scale and step size, before any training.

A proof from the initial weights needs a Gram matrix that is not too badly conditioned; people need a network that is
of use on new rows. For one hidden layer whose start has output 0 both are read off the Gram matrix of the very network
(`outlook`): candidates are compared on some of the rows, the best of them on all; of those with an estimate as good as
the best one's, within a standard error, the one is taken whose proof fits into the time with the least $\alpha$,
and of these the one with the fewest steps, unless it is slow.

Vectors are put on a sphere of radius r with a constant coordinate, which keeps different rows different. The larger r,
the sharper the kernel: $\tfrac2\pi \arcsin \frac{2 r^2 \rho}{1 + 2 r^2}$ for erf units and correlation $\rho$ goes from
smooth to one with a kink, and its condition number from hopeless to small.

Other networks are taken as they are asked for, and their preparation is chosen at infinite width (`looking`). They
begin at output 0, unless another start is asked for, and the scale of their outputs is chosen by what is measured at
their initial weights (`measured`).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wideproof.cards import card
from wideproof.certificates import DENSE, memory_of, scale_needed
from wideproof.data import PAPERS_NEED, AnyDataset, Dataset, distinct, parse_steps, prepare
from wideproof.errors import InputError
from wideproof.networks import NETWORKS, FullyConnected, Network, PaperNetwork, build
from wideproof.networks.starts import DOUBLED, NORMAL, POSITIVE, ZERO, written
from wideproof.planning.candidates import Candidate, kind_of
from wideproof.planning.comparing import (
    NARROW,
    NARROWEST,
    OTHER_RADII,
    Asked,
    Compared,
    candidates,
    compared,
    ranked,
)
from wideproof.planning.estimates import Estimate
from wideproof.planning.looking import LEAST_WIDTH, PROVABLE, Looked, look, rank
from wideproof.planning.measured import measured
from wideproof.planning.outlook import Outlook, forecast
from wideproof.planning.scales import BUDGET, MOST_STEPS, Scale, insisted, ladder, seconds_of, shown_steps, steps_within
from wideproof.planning.unseen import by_folds
from wideproof.progress import Watch, shown
from wideproof.threads import one_blas_thread

LIFTED = ("standardize,lift,sphere(2)", "whiten,lift,sphere(4)")  # for the positive start, which needs many columns
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
MULTIPLIED = "outputs are multiplied by"
MOST_WEIGHTS = 2**26
LARGEST = 10**9  # the width `NARROW` where a wide read-out would take more than so many numbers, 8 GB
ROOM = 2.0  # of the smallest scale of the positive start with a proof, where the proven rate is next to nothing


@dataclass(frozen=True, eq=False)
class Choice:
    r"""What to train, and why.

    Attributes
    ----------
    data
        The prepared data; `network` is built for it.
    network
        The network, built for `data`.
    preparation
        The preparation steps, already applied to `data`.
    seed
        Seed of the initial weights.
    step_size
        Step size (learning rate): $1/\lambda_{\max}$ of the weighted Gram matrix, or the name of a rule.
    steps
        Maximum number of training steps.
    estimate
        Estimate of the quality on unseen rows, by folds: for this network at its start, with preparation and activation
        chosen anew without each fold (`unseen.by_folds`). `None` if it cannot be computed.
    scales
        Scales of the outputs to try, one after another; the network has the first.
    looked
        All candidates that were compared on all rows, the chosen one first.
    left
        Candidates that were dropped after a comparison on some of the rows, or on a narrower network.
    notes
        What a user should know, one sentence each.
    """

    data: AnyDataset
    network: Network
    preparation: str
    seed: int
    step_size: float | str
    steps: int
    estimate: Estimate | None
    scales: tuple[Scale, ...] = ()
    looked: tuple[Compared | Looked, ...] = ()
    left: tuple[Compared, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.network}, prepared by {self.preparation or 'nothing'}"

    def _repr_html_(self) -> str:
        step = self.step_size if isinstance(self.step_size, str) else f"{self.step_size:.4g}"
        facts: dict[str, Any] = {
            "network": self.network, "preparation": self.preparation or "none", "seed": self.seed, "step size": step,
            "steps, at most": self.steps, "candidates": len(self.looked) + len(self.left),
        }  # fmt: skip
        if self.estimate is not None:
            facts["unseen rows"] = self.estimate
        facts |= {"note" if k == 0 else f"note {k + 1}": one for k, one in enumerate(self.notes)}
        return card("Choice", facts)

    def to_dict(self) -> dict[str, Any]:
        """Return what decides a proof again, as JSON-ready values."""
        from wideproof.networks import to_config

        return {
            "network": to_config(self.network), "preparation": self.preparation, "seed": self.seed,
            "step_size": self.step_size, "steps": self.steps, "notes": list(self.notes),
            "scales": [list(scale) for scale in self.scales],
            "estimate": None if self.estimate is None else dataclasses.asdict(self.estimate),
        }  # fmt: skip

    def lazier(self, because: str = "") -> Choice | None:
        """Return the same choice with the next scale.

        Parameters
        ----------
        because
            Why the scale before was not enough; added to the notes.

        Returns
        -------
        Choice | None
            The choice; `None` if there is no further scale.
        """
        if len(self.scales) < 2:
            return None
        now, more = (scale.alpha for scale in self.scales[:2])
        why = (
            f"{MULTIPLIED} alpha = {more:g}: with alpha = {now:g} no proof that begins at the initial weights was found"
            + (f" ({because})" if because else "")
        )
        notes = tuple(note for note in self.notes if not note.startswith(MULTIPLIED))
        return dataclasses.replace(self.at(self.scales[1:]), notes=(*notes, why))

    def at(self, scales: tuple[Scale, ...]) -> Choice:
        """Return the same choice with other scales, the first of which the network gets.

        Parameters
        ----------
        scales
            The scales to try; the network gets the first.

        Returns
        -------
        Choice
            The choice.
        """
        assert isinstance(self.network, PaperNetwork)
        share, now = scales[0].alpha / self.network.alpha, scales[0]
        size = self.step_size / share**2 if isinstance(self.step_size, float) else self.step_size
        network = dataclasses.replace(self.network, alpha=now.alpha)
        old, new = (f"{MULTIPLIED} alpha = {alpha:g}:" for alpha in (self.network.alpha, now.alpha))
        notes = tuple(note.replace(old, new) for note in self.notes)
        return dataclasses.replace(self, network=network, step_size=size, steps=now.most, scales=scales, notes=notes)


@shown
def choose(
    data: AnyDataset,
    *,
    network: str | None = None,
    width: int | None = None,
    depth: int | None = None,
    activation: str | None = None,
    prepare: str = "auto",
    seed: int = 0,
    budget: float = BUDGET,
    alpha: float | None = None,
    steps: int | None = None,
    progress: Watch | None = None,
    **options: object,
) -> Choice:
    r"""Choose preparation, network, width, scale and step size for some data; options that are given are kept.

    Parameters
    ----------
    data
        The data as loaded.
    network
        Name of the network; `None` leaves it open.
    width
        Number of hidden units in each layer; `None` leaves it open.
    depth
        Number of hidden layers; `None` leaves it open.
    activation
        Name of the activation; `None` leaves it open.
    prepare
        Preparation steps, `"none"`, or `"auto"` to leave them open.
    seed
        Seed of the initial weights; it is kept with the choice.
    budget
        Seconds that following the steps from the initial weights may take.
    alpha
        Scale of the outputs; `None` leaves it open. A given scale is kept however many steps it needs.
    steps
        Maximum number of training steps; `None` leaves it open.
    progress
        Callback; receives a `Progress` with the number of candidates compared so far, their total, and the next one.
    **options
        Further options of the network, as in `build`.

    Returns
    -------
    Choice
        The choice, with the reasons and with all candidates that were compared.

    Examples
    --------
    >>> from wideproof.data import load
    >>> found = choose(load("iris"))
    >>> found.network.name, found.network.start, found.estimate.value > 0.9
    ('fully-connected', 'doubled', True)
    """
    for name, value in (("width", width), ("depth", depth)):
        if value is not None and value < 1:
            raise InputError(f"the {name} must be a whole number of at least 1, got {value}")
    given = {key: value for key, value in options.items() if value is not None}
    start = written(str(given["start"])) if "start" in given else None
    network = network or (None if start is None else FullyConnected.name)
    if network is not None:
        more = {"depth": depth} if depth else {}
        more |= {"alpha": alpha} if alpha is not None else {}
        _require_options(network, {**given, **more}, activation)
    ask = Asked(width, depth, activation, prepare, start, seed, budget, alpha, steps, given)
    if _is_plain(data, network, ask):
        assert isinstance(data, Dataset)
        _require_room(data, ask)
        return _by_forecast(data, ask, progress)
    return _by_limit(data, network, ask, progress)


def _require_room(data: Dataset, ask: Asked) -> None:
    """Refuse more rows than the narrowest network has a certificate for, before anything is computed."""
    if distinct(data).y.size <= DENSE:
        return
    width = ask.width or NARROWEST
    least = build(FullyConnected.name, data.input_shape, data.target_shape, width=width, depth=1, start=ZERO)
    try:
        memory_of(least, distinct(data).n)
    except InputError as error:
        most = str(error).replace("of this network", f"at width {width}").partition(", or a narrower")[0]
        raise InputError(f"{most} (--limit); NTKRegressor and NTKClassifier fit such a table without a proof") from None


def _is_plain(data: AnyDataset, network: str | None, ask: Asked) -> bool:
    """Return whether all can be read off the matrix of one hidden layer that begins at 0."""
    from wideproof.networks import get_activation

    usual = network in (None, FullyConnected.name) and ask.depth in (None, 1) and ask.start in (None, DOUBLED, ZERO)
    whole = tuple(ask.options.get("trained") or ("hidden", "output")) == ("hidden", "output")
    smooth = ask.activation is None or (
        get_activation(ask.activation).proved is not None and not get_activation(ask.activation).kinked
    )
    odd = ask.start != ZERO and ask.width is not None and ask.width % 2 == 1
    return isinstance(data, Dataset) and usual and whole and smooth and not odd


def _by_forecast(data: Dataset, ask: Asked, progress: Watch | None) -> Choice:
    """Compare candidates by the Gram matrices of the very networks; see `outlook`."""
    _require_options(FullyConnected.name, ask.options, None)
    raw = data
    if is_scaled(data, ask.prepare):
        data = prepare(data, "scale_targets")
    groups = distinct(data)
    start = ask.start or (ZERO if groups.y.size > DENSE and (ask.width or math.inf) > groups.n else DOUBLED)
    notes: list[str] = []
    found = compared(data, start, ask, notes, progress)
    best, *others = ranked(found.last)
    targets = ("scale_targets",) if data is not raw else ()
    steps = best.preparation
    own = prepare(data, steps) if steps else data
    network = best.network
    among = [(name, ",".join((*targets, *filter(None, [one])))) for name, one in candidates(raw, ask)]
    estimate = by_folds(raw, ",".join((*targets, *filter(None, [steps]))), network, ask.seed, among)
    ahead = best.ahead
    if network.outputs > 1 and ahead is best.outlook:
        with one_blas_thread():
            ahead = forecast(network, own, ask.seed, joint=True)
    scales = _scales(ahead, own, ask, notes)
    plain = Choice(
        own, network, steps, ask.seed, 1 / float(ahead.eigenvalues[-1]),
        0, estimate, (), (best, *others), tuple(found.left), tuple(notes),
    )  # fmt: skip
    return plain.at(scales)


def _scales(ahead: Outlook, data: AnyDataset, ask: Asked, notes: list[str]) -> tuple[Scale, ...]:
    """Return the scales to try, and note why the first of them is not 1."""
    per, shown = seconds_of(ahead.network, distinct(data).n), shown_steps(ahead.network, data.n)
    if ask.alpha is not None:
        return insisted(ahead, per, ask.budget, ask.alpha, shown, ask.steps)
    scales = ladder(ahead, per, ask.budget, shown, ask.steps)
    if scales[0].alpha > 1 and getattr(ahead.network, "start", None) == ZERO:
        notes.append(
            f"{MULTIPLIED} alpha = {scales[0].alpha:g}: a proof from the zero start is one of the initial weights "
            "themselves, no steps are followed"
        )
    elif scales[0].alpha > 1:
        needed = ahead.steps(1.0)
        many = f"about {needed:,} steps" if needed < MOST_STEPS else "too many steps"
        notes.append(
            f"{MULTIPLIED} alpha = {scales[0].alpha:g}: with alpha = 1 {many} would have to be followed, "
            f"and {ask.budget:.0f} s are allowed (--budget, or --alpha 1 to insist)"
        )
    return scales


def _by_limit(data: AnyDataset, network: str | None, ask: Asked, progress: Watch | None) -> Choice:
    """Take the network that is asked for, or the usual one of its kind, with the best preparation at infinite width."""
    kind, raw = kind_of(data), data
    data = scaled(data, ask.prepare)
    first = _candidates(kind, network, ask)
    notes: list[str] = []
    ready: dict[str, AnyDataset] = {}
    looked = look(data, first, ready, notes, progress)
    if not looked:
        raise InputError(notes[-1] if notes else f"no network is known for '{data.name}': choose one with `network`")
    best, *others = rank(looked, PROVABLE)
    own = ready[best.candidate.preparation]
    made = best.candidate.build(own, ask.width or _width_at_least(own, best.candidate))
    made = _from_zero(dataclasses.replace(made, **_fields(made, ask.options)), own, ask)
    targets = ("scale_targets",) if data is not raw else ()
    own_steps = ",".join((*targets, *filter(None, [best.candidate.preparation])))
    among = [(one.activation or "", ",".join((*targets, *filter(None, [one.preparation])))) for one in first]
    if getattr(made, "start", None) in (DOUBLED, ZERO) and distinct(own).y.size <= DENSE:
        with one_blas_thread():
            ahead = measured(made, own, ask.seed)
        plain = Choice(
            own, made, best.candidate.preparation, ask.seed, 1 / float(ahead.eigenvalues[-1]), 0,
            by_folds(raw, own_steps, made, ask.seed, among), (), (best, *others),
        )  # fmt: skip
        scales = _scales(ahead, own, ask, notes)
        return dataclasses.replace(plain.at(scales), notes=tuple(notes))
    if ask.alpha is not None:
        made = dataclasses.replace(made, alpha=ask.alpha)  # pyright: ignore[reportCallIssue]
    largest = best.largest * float(getattr(made, "alpha", 1.0)) ** 2
    if isinstance(made, FullyConnected) and made.start == POSITIVE:
        made = _with_scale(made, own, best.candidate.preparation)
        largest *= (made.start_scale or 1.0) ** 2
    if isinstance(made, FullyConnected) and made.start_scale is not None:
        notes.append(f"{made.start} start: {LAZY}")
    steps = int(np.clip(4 * steps_within(made, data.n), 16, NARROW))
    estimate = by_folds(raw, own_steps, made, ask.seed, among)
    return Choice(
        own, made, best.candidate.preparation, ask.seed, 1 / largest if largest > 0 else "safe",
        1 << (steps.bit_length() - 1), estimate, (), (best, *others), notes=tuple(notes),
    )  # fmt: skip


def _from_zero(network: Network, data: AnyDataset, ask: Asked) -> Network:
    """Return the network with the start in pairs, where none is asked for and the whole Gram matrix is looked at."""
    plain = ask.start is None and getattr(network, "start", None) == NORMAL
    if not plain or distinct(data).y.size > DENSE:
        return network
    try:
        return dataclasses.replace(network, start=DOUBLED)  # pyright: ignore[reportCallIssue]
    except InputError:  # an odd width
        return network


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
    """Scale real targets, if the preparation is left open.

    Parameters
    ----------
    data
        The data as loaded.
    steps
        The preparation that was asked for, or `"auto"`.

    Returns
    -------
    AnyDataset
        The data, with scaled targets where they are real and `steps` is `"auto"`.

    Examples
    --------
    >>> from wideproof.data import Dataset
    >>> scaled(Dataset(np.eye(3), [10.0, 20.0, 30.0], "regression"), "auto").y.round(3).tolist()
    [-1.225, 0.0, 1.225]
    """
    return prepare(data, "scale_targets") if is_scaled(data, steps) else data


def is_scaled(data: AnyDataset, steps: str) -> bool:
    """Return whether real targets are scaled: weights stay near their start only if targets are of size 1."""
    real = data.task == "regression" and bool((np.ptp(data.y, axis=0) > 0).all())
    return real and steps == "auto"


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


def _candidates(kind: str, network: str | None, ask: Asked) -> list[Candidate]:
    """Return the preparations to compare for a network of this kind of data."""
    if ask.fixed:
        parse_steps(ask.fixed)
    if kind != "vectors":
        if network is None and ask.fixed is None:
            return list(FOLDS[kind])
        usual = FOLDS[kind][0]
        name = network or usual.network
        steps = ask.fixed if ask.fixed is not None else ",".join(PAPERS_NEED[NETWORKS[name].paper])
        return [Candidate(name, ask.activation or usual.activation, ask.depth or usual.depth, steps)]
    name = network or FullyConnected.name
    smooth = "activation" in {field.name for field in dataclasses.fields(NETWORKS[name])}
    sigma = (ask.activation or "erf") if smooth else None
    layers = ask.depth or (1 if name == FullyConnected.name else 2)
    start = ask.start or (DOUBLED if name == FullyConnected.name and not (ask.width or 2) % 2 else None)
    spheres = [f"{first},sphere({r})" for first in ("standardize", "whiten") for r in OTHER_RADII]
    spheres += LIFTED if start is not None and start.startswith(POSITIVE) else ()
    return [
        Candidate(name, sigma, layers, steps, start if name == FullyConnected.name else None)
        for steps in ((ask.fixed,) if ask.fixed is not None else spheres)
    ]


def _width_at_least(data: AnyDataset, candidate: Candidate) -> int:
    """Return the first power of two with a quarter more features than there are distinct inputs.

    Where that takes too much memory, a narrower network with the whole Gram matrix, if that takes less.
    """
    n, outputs = distinct(data).n, math.prod(data.target_shape)
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
