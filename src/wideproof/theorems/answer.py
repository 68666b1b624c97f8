"""How wide is wide enough: what each paper's theorem asks for on one table, with the constants behind it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from wideproof.cards import Told
from wideproof.data import AnyDataset, load
from wideproof.errors import InputError
from wideproof.networks import get_activation
from wideproof.storage import plain
from wideproof.theorems import allenzhu2018, du2019, frei2019, zou2018
from wideproof.theorems.facts import Measured, Table
from wideproof.theorems.trace import LN10, Constant, Requirement, Trace
from wideproof.titles import PAPERS

Write = Callable[[Trace], Any]


@dataclass(frozen=True)
class Asks(Told):
    """The width, step size and number of steps that one theorem requires on one table.

    They are given as logarithms to base 10, and are `None` if the data do not meet the assumptions of the theorem
    (`unmet` says which). The `how` of a constant says where its value comes from.

    Attributes
    ----------
    paper
        The paper, such as `"Du et al. 2019"`.
    theorem
        The theorem, such as `"Theorem 5.1"`.
    network
        The network of the theorem.
    method
        The training method: `"GD"` or `"SGD"`.
    log10_width
        Logarithm of the required width.
    log10_step
        Logarithm of the step size.
    log10_iterations
        Logarithm of the number of steps.
    requirements
        The inequalities of the proof, each with the width that it requires, the largest first.
    constants
        The constants in them, the most expensive first.
    numbers
        Quantities measured on the data, by name.
    prepared
        How the table was brought into the form that the theorem assumes.
    unmet
        The assumption that is not met; empty if all are.
    notes
        Remarks on this width, one sentence each.
    """

    paper: str
    theorem: str
    network: str
    method: str
    log10_width: float | None
    log10_step: float | None
    log10_iterations: float | None
    requirements: tuple[Requirement, ...]
    constants: tuple[Constant, ...]
    numbers: dict[str, float]
    prepared: tuple[str, ...]
    unmet: str
    notes: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether every constant follows from the proof."""
        return self.log10_width is not None and all(
            constant.how in ("data", "asked", "proof") for constant in self.constants
        )

    @property
    def binding(self) -> Requirement | None:
        """The inequality that asks for most."""
        return self.requirements[0] if self.requirements else None

    @property
    def costliest(self) -> Constant | None:
        """The proof's constant that costs most width; what was measured or asked for is left out."""
        return next((one for one in self.constants if one.how not in ("data", "asked")), None)

    def __str__(self) -> str:
        name = f"{PAPERS[self.paper]}, {self.theorem} ({self.network}, {self.method})"
        if self.log10_width is None:
            return f"{name}: {self.unmet}"
        sizes = f"width 10^{self.log10_width:.1f}, step size 10^{self.log10_step:.1f}"
        return f"{name}: {sizes}, 10^{self.log10_iterations:.1f} steps"


@dataclass(frozen=True)
class Answer(Told):
    """The widths that the theorems require on one table.

    Attributes
    ----------
    name
        Name of the data.
    n
        Number of examples.
    depth
        Number of hidden layers.
    epsilon
        The accuracy that was asked for.
    failure
        The probability with which a theorem may fail.
    activation
        Activation of the networks of Du et al.
    asks
        What each theorem requires.
    trains
        The least width that was found to train; `None` if it was not looked for.
    trained
        Which network was trained for `trains`.
    proves
        The least width that was found to be provable; `None` if it was not looked for.
    proved
        Which network `prove` chose for `proves`.
    """

    name: str
    n: int
    depth: int
    epsilon: float
    failure: float
    activation: str
    asks: tuple[Asks, ...]
    trains: int | None = None
    trained: str = ""
    proves: int | None = None
    proved: str = ""

    def __iter__(self) -> Iterator[Asks]:
        return iter(self.asks)

    def __getitem__(self, theorem: str) -> Asks:
        for one in self.asks:
            if theorem in (one.theorem, f"{one.theorem} ({one.network})"):
                return one
        known = ", ".join(one.theorem for one in self.asks)
        raise InputError(f"no theorem called '{theorem}' was asked: these were: {known}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers, texts and None, ready for JSON."""
        return plain(asdict(self))

    def __str__(self) -> str:
        return "\n".join(map(str, self.asks))


def theorem(
    data: AnyDataset | str,
    *,
    epsilon: float = 0.01,
    failure: float = 0.05,
    depth: int = 2,
    batch: int = 1,
    activation: str = "softplus",
    c_res: float = 0.5,
    widths: bool = False,
    **loading: Any,
) -> Answer:
    r"""Compute the width, step size and number of steps that each of the papers' theorems requires on some data.

    The constants are those of the proofs: where a paper says "for a small enough constant", the condition of its proof
    is solved for it. If the text does not determine a value, the result says so (`Asks.exact`, `Asks.notes`).

    Parameters
    ----------
    data
        A data set, or a name or path for `load`.
    epsilon
        The accuracy, in each theorem's own loss: half the sum of squares (Du et al., Allen-Zhu et al.), mean logistic
        loss (Zou et al.), surrogate error (Frei et al.).
    failure
        The probability, over the random initial weights, with which the theorem may fail.
    depth
        Number of hidden layers: $H$ of Du et al., $L$ of Zou et al. and Frei et al.
    batch
        Batch size, for Theorems 4.5 and 2.
    activation
        Activation of the networks of Du et al.
    c_res
        Scale of their residual branches.
    widths
        Also train networks of growing width, and prove one of them as `prove` does; this takes minutes.
    **loading
        Options of `load`, if `data` is a name or a path.

    Returns
    -------
    Answer
        What each theorem requires; `answer["Theorem 5.1"]` is one of them.

    Examples
    --------
    >>> found = theorem("sphere:n=4,d=3,separation=0.5")
    >>> print(found["Theorem 5.1"])
    Du et al. 2019, Theorem 5.1 (fully-connected, GD): width 10^22.9, step size 10^-13.2, 10^16.4 steps
    >>> found["Theorem 5.1"].binding.lemma, found["Theorem 1"].unmet
    ('Lemmas B.4 and B.5', 'the theorem is about sequences')
    """
    if isinstance(data, str):
        data = load(data, **loading)
    for name, value, low, high in (("epsilon", epsilon, 0.0, 1.0), ("failure", failure, 0.0, 1.0)):
        if not low < value < high:
            raise InputError(f"`{name}` must be a number between 0 and 1, got {value}: try 0.01")
    if depth < 1 or batch < 1:
        raise InputError(f"`depth` and `batch` must be at least 1, got {depth} and {batch}")
    if get_activation(activation).smoothness is None:
        raise InputError(
            f"the theorems of Du et al. ask for a smooth activation, and {activation} is not: try softplus"
        )
    table = Table(data)
    sigma = get_activation(activation)
    ask = du2019.DuAsk(depth, sigma, epsilon, failure, c_res)
    asks = [
        _asks("du2019", name, network, "GD", measured, lambda t, m, write=write: write(t, m.facts, ask))
        for name, network, kind, write in (
            ("Theorem 5.1", "fully-connected", "fully-connected", du2019.fully_connected),
            ("Theorem 6.1", "residual", "residual", du2019.residual),
            ("Theorem 7.1", "convolutional residual", "convolutional", du2019.convolutional),
        )
        for measured in [table.du(kind, depth, activation, c_res)]
    ]
    measured = table.zou()
    for name, size in (("Theorem 4.1", None), ("Theorem 4.5", batch)):
        small = zou2018.ZouAsk(depth, epsilon, failure, size)
        write = lambda t, m, small=small: zou2018.deep_relu(t, m.facts, small)  # noqa: E731
        asks.append(_asks("zou2018", name, "deep ReLU", "GD" if size is None else "SGD", measured, write))
    measured = table.allen_zhu()
    for name, size in (("Theorem 1", None), ("Theorem 2", batch)):
        wanted = allenzhu2018.AllenZhuAsk(epsilon, failure, size)
        write = lambda t, m, wanted=wanted: allenzhu2018.recurrent(t, m.facts, wanted)  # noqa: E731
        asks.append(_asks("allenzhu2018", name, "recurrent", "GD" if size is None else "SGD", measured, write))
    last = frei2019.FreiAsk(depth, epsilon, failure)
    write = lambda t, m: frei2019.residual_relu(t, m.facts, last)  # noqa: E731
    asks.append(_asks("frei2019", "Theorem 3.5", "residual ReLU", "GD", table.frei(), write))
    answer = Answer(data.name, data.n, depth, epsilon, failure, activation, tuple(asks))
    if not widths:
        return answer
    from wideproof.theorems.widths import proves, trains

    (least, trained), (proved, about) = trains(table, depth, epsilon), proves(data)
    return replace(answer, trains=least, trained=trained, proves=proved, proved=about)


def _asks(
    paper: str, name: str, network: str, method: str, measured: Measured, write: Callable[[Trace, Measured], Any]
) -> Asks:
    common = (measured.numbers, measured.prepared, measured.unmet)
    if measured.facts is None:
        return Asks(paper, name, network, method, None, None, None, (), (), *common, ())
    found = traced(functools.partial(_write, write, measured))
    x, trace = found.solve(), found
    notes = (*trace.notes, *([measured.estimate] if measured.estimate else ()))
    if x == math.inf:
        unmet = "no width meets what the proof asks for with these constants"
        return Asks(
            paper, name, network, method, None, None, None, (), tuple(trace.constants), *common[:2], unmet, notes
        )
    assert trace.step is not None
    assert trace.iterations is not None
    constants = costs(functools.partial(_write, write, measured), trace, x)
    return Asks(
        paper, name, network, method, x / LN10, trace.step(x) / LN10, trace.iterations(x) / LN10,
        trace.requirements(x), constants, *common, notes,
    )  # fmt: skip


def _write(write: Callable[[Trace, Measured], Any], measured: Measured, trace: Trace) -> None:
    write(trace, measured)


def traced(write: Write, without: str | None = None) -> Trace:
    """Return what a proof needs; with `without`, that constant is 1."""
    trace = Trace(without)
    write(trace)
    return trace


def costs(write: Write, trace: Trace, x: float) -> tuple[Constant, ...]:
    """Return the constants with the powers of ten that each is worth, the most expensive first."""
    priced = []
    for one in trace.constants:
        other = traced(write, one.name).solve()
        priced.append(Constant(one.name, one.value, one.place, one.how, (x - other) / LN10))
    return tuple(sorted(priced, key=lambda one: -one.cost))
