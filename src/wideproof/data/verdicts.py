"""The data assumptions of the four papers, each decided on one data set: holds, fails or undecided."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wideproof.answers import Answer
from wideproof.data.dataset import AnyDataset, Dataset, ImageDataset, SequenceDataset
from wideproof.data.margin import UNIT_TOLERANCE

if TYPE_CHECKING:
    from wideproof.data.audit import Audit

NOT_ASKED = "the margin was not asked for"
LARGE_TARGET = 10.0  # the papers ask for targets of order one; beyond this the audit no longer says "holds"


@dataclass(frozen=True)
class Verdict:
    """The verdict on one assumption of one paper.

    Attributes
    ----------
    paper
        Key of the paper.
    assumption
        Name of the assumption.
    status
        Whether it holds.
    detail
        The numbers that decide.
    remedy
        What to do if it fails; `"none: ..."` if nothing helps, empty if it holds.
    """

    paper: str
    assumption: str
    status: Answer
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        advice = f" -> {self.remedy}" if self.remedy else ""
        return f"{self.paper:<12} {self.status:<9} {self.assumption}: {self.detail}{advice}"


def verdicts(data: AnyDataset, audit: "Audit") -> tuple[Verdict, ...]:
    """Decide every assumption that speaks of this kind of data; `audit` brings the numbers."""
    return tuple(_all(data, audit))


def _all(data: AnyDataset, audit: "Audit") -> Iterator[Verdict]:
    if isinstance(data, Dataset | ImageDataset):
        yield _unit("du2019", "unit inputs", audit)
        yield _bounded("du2019", data, LARGE_TARGET)
        yield _not_parallel(audit)
    if isinstance(data, Dataset):
        yield _last_coordinate(data, audit)
        yield _signs("zou2018", data)
        yield _separated(audit)
        yield _unit("frei2019", "inputs on the unit sphere", audit)
        yield _signs("frei2019", data)
        yield _margin(data, audit)
    if isinstance(data, SequenceDataset):
        yield from _sequences(data, audit)


def _verdict(paper: str, assumption: str, holds: bool, detail: str, remedy: str) -> Verdict:
    return Verdict(paper, assumption, Answer.of(holds), detail, "" if holds else remedy)


def _unit(paper: str, assumption: str, audit: "Audit") -> Verdict:
    low, high = audit.norms
    holds = low >= 1 - UNIT_TOLERANCE and high <= 1 + UNIT_TOLERANCE
    remedy = "prepare with `unit`"
    if audit.zero_rows:
        remedy = f"remove {_rows(audit.zero_rows)}, or `center`, then prepare with `unit`"
    return _verdict(paper, assumption, holds, _norms(audit), remedy)


def _norms(audit: "Audit") -> str:
    low, high = (f"{norm:.6g}" for norm in audit.norms)
    return f"all norms are {low}" if low == high else f"norms from {low} to {high}"


def _rows(rows: tuple[int, ...]) -> str:
    return f"row {rows[0]}" if len(rows) == 1 else f"the {len(rows)} zero rows (first: {rows[0]})"


def _bounded(paper: str, data: AnyDataset, limit: float) -> Verdict:
    largest = float(np.abs(data.y).max())
    if largest <= limit:
        return Verdict(paper, "bounded targets", Answer.HOLDS, f"largest |y| is {largest:.4g}")
    detail = f"largest |y| is {largest:.4g}, the paper asks for order 1"
    return Verdict(paper, "bounded targets", Answer.UNDECIDED, detail, "prepare with `scale_targets`")


def _not_parallel(audit: "Audit") -> Verdict:
    name, counted = "no two parallel inputs", (audit.geometry.parallel_count, audit.geometry.antipodal_count)
    if audit.zero_rows:
        detail = f"{_rows(audit.zero_rows)}: zero is parallel to every input"
        return Verdict("du2019", name, Answer.FAILS, detail, "remove the zero rows, or `center` first")
    if not any(counted):
        gaps = [p.distance for p in (audit.geometry.direction, audit.geometry.antipode) if p is not None]
        detail = f"directions at least {min(gaps):.4g} apart" if gaps else "a single input"
        return Verdict("du2019", name, Answer.HOLDS, detail)
    detail = f"{counted[0]} parallel and {counted[1]} antipodal pairs"
    if audit.conflicts.pairs:
        remedy = "none: equal inputs carry different targets"
    elif audit.conflicts.duplicate_pairs:
        remedy = "drop repeated rows, then audit again"
    elif counted[0]:
        remedy = "drop rows that are multiples of another, or prepare with `sphere`"
    else:
        remedy = "prepare with `constant`"
    return Verdict("du2019", name, Answer.FAILS, detail, remedy)


def _last_coordinate(data: Dataset, audit: "Audit") -> Verdict:
    last = data.x[:, -1]
    low, high = audit.norms
    unit = low >= 1 - UNIT_TOLERANCE and high <= 1 + UNIT_TOLERANCE
    constant = last.max() - last.min() <= UNIT_TOLERANCE and last.min() > 0 and last.max() < 1
    detail = f"{_norms(audit)}, last coordinate from {last.min():.6g} to {last.max():.6g}"
    remedy = "prepare with `constant`" if not audit.zero_rows else "remove the zero rows, prepare with `constant`"
    return _verdict("zou2018", "3.4 unit inputs, constant last coordinate", bool(unit and constant), detail, remedy)


def _signs(paper: str, data: AnyDataset) -> Verdict:
    remedy = "none: use a paper on regression"
    if data.task == "multiclass":
        remedy = "keep two `classes`, or prepare with `binarize(class)`"
    return _verdict(paper, "labels -1 and +1", data.task == "binary", f"the task is {data.task}", remedy)


def _separated(audit: "Audit") -> Verdict:
    name, pair = "3.5 opposite labels apart", audit.geometry.opposite
    if pair is None:
        return Verdict("zou2018", name, Answer.UNDECIDED, "there are no labels to compare", "use two classes")
    detail = f"phi = {pair.distance:.6g}, examples {pair.i} and {pair.j}"
    return _verdict("zou2018", name, pair.distance > 0, detail, "none: the same input carries both labels")


def _margin(data: Dataset, audit: "Audit") -> Verdict:
    name, pair = "3.2 positive margin", audit.geometry.opposite
    if data.task == "binary" and pair is not None and pair.distance == 0:
        detail = f"margin 0: examples {pair.i} and {pair.j} are equal with opposite labels"
        return Verdict("frei2019", name, Answer.FAILS, detail, "none: the same input carries both labels")
    if audit.margin is None:
        remedy = "prepare with `unit`" if data.task == "binary" else "use two classes"
        if data.task == "binary" and audit.margin_note == NOT_ASKED:
            remedy = "`wideproof audit` computes it for rows that are prepared with `unit`"
        return Verdict("frei2019", name, Answer.UNDECIDED, audit.margin_note, remedy)
    detail = f"margin {audit.margin}" + (f", {audit.margin_note}" if audit.margin_note else "")
    # The assumption is about every input that may occur, and no sample shows it: labels drawn by coin flips have a
    # positive margin on a sample too, since the σ(u·x_i) have kinks on different hyperplanes unless inputs are equal or
    # antipodal.
    if audit.margin.lower > 0 or audit.geometry.antipodal_count == 0:
        detail = f"positive on these rows, {detail}; the assumption is about all inputs that may occur"
        return Verdict("frei2019", name, Answer.UNDECIDED, detail, "none: a sample cannot show it")
    return Verdict("frei2019", name, Answer.UNDECIDED, detail, "prepare with `constant`")


def _sequences(data: SequenceDataset, audit: "Audit") -> Iterator[Verdict]:
    paper, remedy = "allenzhu2018", "prepare with `pad`"
    first = np.linalg.norm(data.x[:, 0], axis=1)
    last = data.x[:, 0, -1]
    largest = float(np.linalg.norm(data.x, axis=2).max())
    length, features = data.input_shape
    yield _verdict(paper, "length >= 2", length >= 2, f"length {length}", "give longer sequences")
    yield _verdict(paper, "token size >= 2", features >= 2, f"token size {features}", remedy)
    off = float(np.abs(first - 1).max())
    detail = f"norms from {first.min():.6g} to {first.max():.6g}"
    yield _verdict(paper, "first tokens of norm 1", off <= UNIT_TOLERANCE, detail, remedy)
    detail = f"from {last.min():.6g} to {last.max():.6g}"
    close = float(np.abs(last - np.sqrt(0.5)).max()) <= UNIT_TOLERANCE
    yield _verdict(paper, "last coordinate of first tokens 1/sqrt(2)", close, detail, remedy)
    detail = f"largest norm {largest:.6g}"
    either = "prepare with `pad` or `token_norm`"
    yield _verdict(paper, "token norms at most 1", largest <= 1 + UNIT_TOLERANCE, detail, either)
    pair = audit.geometry.nearest
    if pair is None:
        yield Verdict(paper, "2.1 first tokens apart", Answer.HOLDS, "a single sequence, delta = 1 by convention")
    else:
        detail = f"delta = {pair.distance:.6g}, sequences {pair.i} and {pair.j}"
        advice = "drop repeated sequences or a first token they share"
        if audit.conflicts.pairs:
            advice = "none: sequences with equal beginnings carry different targets"
        yield _verdict(paper, "2.1 first tokens apart", pair.distance > 0, detail, advice)
    yield _bounded(paper, data, LARGE_TARGET * length)
