"""Everything the theorems ask of data, measured on one data set before any training.

>>> from wideproof.data.generators import two_classes
>>> found = audit(two_classes(n=20, d=5, separation=0.3, mu=0.5), margin="never")
>>> found.holds("zou2018").value, found.zero_loss_possible
('holds', True)
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from wideproof.answers import Answer
from wideproof.cards import card, grid
from wideproof.data.conflicts import Conflicts, conflicts
from wideproof.data.dataset import AnyDataset, Dataset, SequenceDataset
from wideproof.data.geometry import Pair, PairGeometry, nearest_opposite_each, pairs
from wideproof.data.margin import UNIT_TOLERANCE, Margin, margin
from wideproof.data.verdicts import NOT_ASKED, Verdict, verdicts
from wideproof.errors import InputError
from wideproof.storage import plain
from wideproof.titles import PAPERS

MOST_FOR_MARGIN = 400  # with more examples the margin is taken on a part of them
PART_FOR_MARGIN = 300


@dataclass(frozen=True)
class Audit:
    """Measurements of a data set, and the verdicts that follow from them.

    `norms`, `zero_rows` and `geometry` are about whole inputs (Frobenius norm for images; first tokens for sequences).

    Attributes
    ----------
    name
        Name of the data set.
    n
        Number of examples.
    input_shape
        Shape of one example.
    target_shape
        Shape of one target.
    task
        `"binary"`, `"multiclass"` or `"regression"`.
    norms
        Smallest and largest norm of an input.
    zero_rows
        Positions of inputs that are zero.
    constant_columns
        Columns with a single value.
    conflicts
        Repeated inputs, and contradictions among them.
    geometry
        The extreme pairs: the distance of `nearest` is the separation δ, that of `opposite` is φ.
    margin
        The margin; `None` if it was not computed.
    margin_note
        Why there is no margin; or, beside a margin, that it is an upper estimate.
    verdicts
        One verdict for each assumption of the papers.
    """

    name: str
    n: int
    input_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    task: str
    norms: tuple[float, float]
    zero_rows: tuple[int, ...]
    constant_columns: tuple[int, ...]
    conflicts: Conflicts
    geometry: PairGeometry
    margin: Margin | None
    margin_note: str
    verdicts: tuple[Verdict, ...] = ()

    def _repr_html_(self) -> str:
        low, high = self.norms
        facts = {
            "examples": f"{self.n} of shape {' x '.join(map(str, self.input_shape))}", "task": self.task,
            "norms": f"{low:.3g} to {high:.3g}", "constant columns": len(self.constant_columns),
            "a function fits all targets": "yes" if self.zero_loss_possible else "no",
        }  # fmt: skip
        distances = {"separation δ": self.separation, "φ, of different classes": self.opposite_separation}
        facts |= {name: f"{value:.3g}" for name, value in distances.items() if value is not None}
        if self.margin is not None:
            facts["margin"] = f"{self.margin.lower:.3g} to {self.margin.upper:.3g}"
        rows = [(PAPERS[one.paper], one.status, one.assumption, one.detail, one.remedy) for one in self.verdicts]
        return card(f"Audit of {self.name}", facts, grid(("paper", "", "assumption", "numbers", "what helps"), rows))

    @property
    def separation(self) -> float | None:
        """δ: the least distance between two inputs (first tokens of sequences); None for one example."""
        return None if self.geometry.nearest is None else self.geometry.nearest.distance

    @property
    def opposite_separation(self) -> float | None:
        """φ: the least distance between two inputs of different classes; None for regression."""
        return None if self.geometry.opposite is None else self.geometry.opposite.distance

    @property
    def zero_loss_possible(self) -> bool:
        """Whether some function fits every target: no equal inputs (prefixes) with different targets."""
        return self.conflicts.pairs == 0

    def holds(self, paper: str | None = None) -> Answer:
        """Return whether all data assumptions of a paper hold; undecided on other kinds of data.

        Parameters
        ----------
        paper
            Key of the paper; by default any paper.

        Returns
        -------
        Answer
            The answer.
        """
        if paper is None:
            answers = {self.holds(one) for one in PAPERS}
            return next((answer for answer in Answer if answer in answers), Answer.UNDECIDED)
        if paper not in PAPERS:
            raise InputError(f"'{paper}' is not one of the papers: use {', '.join(PAPERS)}")
        found = [verdict.status for verdict in self.verdicts if verdict.paper == paper]
        return Answer.joined(found) if found else Answer.UNDECIDED

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers, texts and None, ready for JSON."""
        return plain(asdict(self) | {"zero_loss_possible": self.zero_loss_possible})

    def __str__(self) -> str:
        clash = self.conflicts
        lines = [
            f"{self.name}: {self.n} examples of {' x '.join(map(str, self.input_shape))}, {self.task}",
            f"norms {self.norms[0]:.6g} to {self.norms[1]:.6g}, {len(self.zero_rows)} zero rows, "
            f"{len(self.constant_columns)} constant columns",
            f"{clash.duplicate_groups} groups of repeated inputs, {clash.pairs} contradicting pairs"
            + ("" if self.zero_loss_possible else f" (least loss {clash.least_square:.6g})"),
            f"separation {_shown(self.geometry.nearest)}, opposite labels {_shown(self.geometry.opposite)}",
            f"{self.geometry.parallel_count} parallel and {self.geometry.antipodal_count} antipodal pairs",
            *map(str, self.verdicts),
        ]
        return "\n".join(lines)


def audit(data: AnyDataset, *, margin: Literal["auto", "never", "full"] = "auto") -> Audit:
    """Measure a data set against the assumptions of the papers.

    Parameters
    ----------
    data
        A data set of any kind.
    margin
        `"auto"` solves the margin program on all examples if there are at most 400, otherwise on the 300 closest to the
        other class; `"full"` always on all; `"never"` leaves it out.

    Returns
    -------
    Audit
        The measurements, with a verdict for each assumption.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [1, -1, 1], "binary")
    >>> found = audit(data)
    >>> found.zero_loss_possible, found.conflicts.least_square, found.opposite_separation
    (False, 1.0, 0.0)
    """
    if margin not in ("auto", "never", "full"):
        raise InputError(f"`margin` must be auto, never or full, got '{margin}'")
    rows = data.x[:, 0] if isinstance(data, SequenceDataset) else data.x.reshape(data.n, -1)
    norms = np.linalg.norm(rows, axis=1)
    flat = data.x.reshape(data.n, -1)
    geometry = pairs(rows, data.labels)
    value, note = _margin(data, norms, geometry, margin)
    measured = Audit(
        name=data.name,
        n=data.n,
        input_shape=data.input_shape,
        target_shape=data.target_shape,
        task=data.task,
        norms=(float(norms.min()), float(norms.max())),
        zero_rows=tuple(np.flatnonzero(~rows.any(axis=1)).tolist()),
        constant_columns=tuple(np.flatnonzero(flat.min(axis=0) == flat.max(axis=0)).tolist()) if data.n > 1 else (),
        conflicts=conflicts(data),
        geometry=geometry,
        margin=value,
        margin_note=note,
    )
    return replace(measured, verdicts=verdicts(data, measured))


def _margin(data: AnyDataset, norms: np.ndarray, geometry: PairGeometry, how: str) -> tuple[Margin | None, str]:
    if how == "never":
        return None, NOT_ASKED
    if not isinstance(data, Dataset) or data.task != "binary":
        return None, "the margin is defined for vectors with two classes"
    if np.abs(norms - 1).max() > UNIT_TOLERANCE:
        return None, "the margin is defined on the unit sphere"
    if how == "full" or data.n <= MOST_FOR_MARGIN:
        return margin(data.x, data.y), ""
    distance = nearest_opposite_each(data.x, data.y > 0)
    part = np.argsort(distance, kind="stable")[:PART_FOR_MARGIN]
    pair = geometry.opposite
    assert pair is not None
    part = np.union1d(part, [pair.i, pair.j])
    on_part = margin(data.x[part], data.y[part])
    return replace(on_part, lower=0.0), f"an upper estimate from the {len(part)} examples closest to the other class"


def _shown(pair: Pair | None) -> str:
    return "none" if pair is None else f"{pair.distance:.6g} ({pair.i}, {pair.j})"
