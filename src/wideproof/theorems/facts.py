"""What the theorems suppose and measure, on one table: how it was prepared, what had to be changed, what is not met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wideproof.data import (
    AnyDataset,
    Dataset,
    ImageDataset,
    SequenceDataset,
    distinct,
    equal_rows,
    margin,
    pairs,
    prepare,
)
from wideproof.errors import InputError
from wideproof.kernels import limit_gram, spectrum
from wideproof.networks import ConvResidual, FullyConnected, Network, Residual, get_activation
from wideproof.theorems.allenzhu2018 import AllenZhuFacts
from wideproof.theorems.du2019 import DuFacts
from wideproof.theorems.frei2019 import FreiFacts
from wideproof.theorems.zou2018 import ZouFacts

FILTER = 3  # of the convolutional network on rows that are no images
UNIT = 1e-8


@dataclass(frozen=True)
class Measured:
    """The facts of a theorem on this table, or what it supposes that these data do not meet."""

    facts: Any  # one of the papers' facts, or None
    numbers: dict[str, float]
    prepared: tuple[str, ...] = ()
    unmet: str = ""
    estimate: str = ""  # where a number is an estimate: which way the width errs


@dataclass
class Table:
    """One data set, and for each paper the form that its theorem asks for."""

    data: AnyDataset
    said: list[str] = field(default_factory=list)

    def single(self) -> AnyDataset:
        """Return the rows of norm 1, each once and with one target."""
        return self._single(_unit)[0]

    def two_classes(self) -> Dataset:
        """Return the rows as Zou et al. suppose them."""
        found = self._two_classes(_constant)
        assert not isinstance(found, Measured)
        return found[0]

    def du(self, kind: str, depth: int, activation: str, c_res: float) -> Measured:
        r"""Unit rows, no two parallel, $\lambda_0$ from the limit of the last hidden layer's Gram matrix."""
        if isinstance(self.data, SequenceDataset):
            return _unmet("the theorem is about vectors or images, and these are sequences")
        if kind != "fully-connected" and depth < 2:
            return _unmet("Definitions 6.1 and 7.1 ask for a depth of at least 2")
        try:
            data, said = self._single(_unit)
        except InputError as error:
            return _unmet(str(error))
        flat = data.x.reshape(data.n, -1)
        found = pairs(flat)
        if found.parallel_count + found.antipodal_count > 0 and isinstance(data, Dataset):
            data, said = prepare(data, "sphere"), (*said, "prepared with `sphere`: some rows were parallel")
            flat = data.x
            found = pairs(flat)
        if found.parallel_count + found.antipodal_count > 0:
            counted = f"{found.parallel_count} parallel and {found.antipodal_count} antipodal pairs"
            return _unmet(f"no two inputs may be parallel: {counted} after preparation", said)
        network, x = _network(kind, data, depth, activation, c_res)
        seen = spectrum(limit_gram(network, x, names=[f"W{depth}"]))
        least, radius = float(seen.smallest.value), float(seen.smallest.radius)
        numbers = {"n": data.n, "d": flat.shape[1], "lambda_0": least, "radius": radius}
        if kind == "convolutional":
            numbers |= {"pixels": x.shape[2]}
            said = (*said, *(() if isinstance(data, ImageDataset) else ("each row as an image of one channel",)))
        if not seen.positive_definite:
            detail = f"λ_min(K^(H)) = {least:.3g} is within its error {radius:.1g}: no width follows from it"
            return Measured(None, numbers, said, detail)
        norm = float(np.linalg.norm(data.y))
        if kind == "convolutional":
            facts = DuFacts(data.n, x.shape[1] * FILTER, least, norm, x.shape[2], FILTER)
        else:
            facts = DuFacts(data.n, flat.shape[1], least, norm)
        return Measured(facts, numbers | {"label_norm": norm}, said)

    def zou(self) -> Measured:
        r"""Unit rows with a constant last coordinate; $\varphi$ over opposite labels."""
        measured = self._two_classes(_constant)
        if isinstance(measured, Measured):
            return measured
        data, said = measured
        found = pairs(data.x, data.labels).opposite
        mu = float(data.x[0, -1])
        numbers = {"n": data.n, "d": data.x.shape[1], "mu": mu}
        if found is None:
            return Measured(ZouFacts(data.n, data.x.shape[1], 2.0, mu), numbers, (*said, "one class only: φ is free"))
        numbers |= {"phi": found.distance}
        return Measured(ZouFacts(data.n, data.x.shape[1], found.distance, mu), numbers, said)

    def frei(self) -> Measured:
        r"""Unit rows; $\gamma$ by the linear program on random features, an estimate for the sample."""
        measured = self._two_classes(_unit)
        if isinstance(measured, Measured):
            return measured
        data, said = measured
        seen = margin(data.x, data.y, bracket=False)
        numbers = {"n": data.n, "d": data.x.shape[1], "gamma": seen.estimate}
        if seen.estimate <= 0:
            return Measured(None, numbers, said, "no positive margin was found on 4000 random features")
        bound = "γ is measured on the rows; the assumption is about all rows that may occur, whose margin is smaller"
        return Measured(FreiFacts(data.n, data.x.shape[1], seen.estimate), numbers, said, estimate=bound)

    def allen_zhu(self) -> Measured:
        r"""Sequences with first tokens on the sphere; $\delta$ of the first tokens."""
        if not isinstance(self.data, SequenceDataset):
            return _unmet("the theorem is about sequences")
        data, said = self.data, ()
        first = np.linalg.norm(data.x[:, 0], axis=1)
        ready = np.abs(first - 1).max() <= UNIT and np.abs(data.x[:, 0, -1] - np.sqrt(0.5)).max() <= UNIT
        if not ready or np.linalg.norm(data.x, axis=2).max() > 1 + UNIT:
            data, said = prepare(data, "pad"), ("prepared with `pad`",)
            assert isinstance(data, SequenceDataset)
        length, outputs = data.target_shape
        pair = pairs(data.x[:, 0]).nearest
        delta = 1.0 if pair is None else pair.distance
        numbers = {"n": data.n, "length": length, "outputs": outputs, "delta": delta}
        if delta <= 0:
            assert pair is not None
            detail = f"first tokens have to differ: sequences {pair.i} and {pair.j} begin with the same one"
            return Measured(None, numbers, said, detail)
        return Measured(AllenZhuFacts(data.n, length, outputs, delta), numbers, said)

    def _single(
        self, form: Callable[[AnyDataset], tuple[AnyDataset, tuple[str, ...]]]
    ) -> tuple[AnyDataset, tuple[str, ...]]:
        """Return distinct rows with one target each, in the form asked for, and what was done to get there."""
        data, said = self.data, ()
        if data.y.ndim > 1:
            y, what = (np.where(data.y.argmax(axis=1) == 0, 1.0, -1.0), "the first class against the rest")
            if data.task == "regression":
                y, what = data.y[:, 0], "the first of the targets"
            kind = type(data)
            task = "regression" if data.task == "regression" else "binary"
            data, said = kind(data.x, y, task), (what,)  # pyright: ignore[reportCallIssue, reportArgumentType]
        data, more = form(data)
        groups = distinct(data)
        if len(groups.contradicting):
            raise InputError(
                f"equal rows carry different targets ({len(groups.contradicting)} rows): no network fits them"
            )
        rows, _ = equal_rows(data.x.reshape(data.n, -1))
        if len(rows) < data.n:
            more = (*more, f"{data.n - len(rows)} repeated rows left out")
            data = type(data)(data.x[rows], data.y[rows], data.task)  # pyright: ignore[reportCallIssue, reportArgumentType]
        return data, (*said, *more)

    def _two_classes(self, form: Callable[..., Any]) -> Measured | tuple[Dataset, tuple[str, ...]]:
        if not isinstance(self.data, Dataset):
            return _unmet("the theorem is about vectors")
        if self.data.task == "regression":
            return _unmet("the theorem is about labels -1 and +1, and these targets are numbers")
        try:
            data, said = self._single(form)
        except InputError as error:
            return _unmet(str(error))
        assert isinstance(data, Dataset)
        return data, said


def _unmet(why: str, said: tuple[str, ...] = ()) -> Measured:
    return Measured(None, {}, said, why)


def _unit(data: AnyDataset) -> tuple[AnyDataset, tuple[str, ...]]:
    norms = np.linalg.norm(data.x.reshape(data.n, -1), axis=1)
    if np.abs(norms - 1).max() <= UNIT:
        return data, ()
    if isinstance(data, ImageDataset):
        return prepare(data, "unit"), ("prepared with `unit`",)
    return prepare(data, "standardize,sphere"), ("prepared with `standardize,sphere`",)


def _constant(data: AnyDataset) -> tuple[AnyDataset, tuple[str, ...]]:
    norms, last = np.linalg.norm(data.x, axis=1), data.x[:, -1]
    if np.abs(norms - 1).max() <= UNIT and last.max() - last.min() <= UNIT and 0 < last.min() < 1:
        return data, ()
    steps = "constant" if np.abs(norms - 1).max() <= UNIT else "standardize,sphere,constant"
    return prepare(data, steps), (f"prepared with `{steps}`",)


def _network(kind: str, data: AnyDataset, depth: int, activation: str, c_res: float) -> tuple[Network, np.ndarray]:
    """Return the network of Theorem 5.1, 6.1 or 7.1 (its width does not matter) and its inputs."""
    named = get_activation(activation)
    if kind == "convolutional":
        x = data.x if data.x.ndim == 3 else data.x[:, None, :]
        network = ConvResidual(x.shape[1], x.shape[2], 8, depth, FILTER, activation=named, c_res=c_res)
        return network, x
    flat = data.x.reshape(data.n, -1)
    if kind == "residual":
        return Residual(flat.shape[1], 8, depth, activation=named, c_res=c_res), flat
    return FullyConnected(flat.shape[1], 8, depth, activation=named), flat
