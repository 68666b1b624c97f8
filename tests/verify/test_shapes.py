"""Every array of a certificate in every wrong shape, digests made right: nothing is broadcast, nothing is proved.

What may still be proved is what the format calls the same numbers: an example of x as a flat vector, and a weight whose
entries, row by row of the same units, are the same matrix, as long as no start or centre has to have its shape.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.certificates.rewriting import parts, put
from tests.certificates.test_starting import steps_of
from tests.verify import corpus, stated
from wideproof_verify import verify
from wideproof_verify.theorems import THEOREMS

BESIDE = ("start/", "centre/", "goal/", "direction/")
KINDS = (*BESIDE, "weights/")


def shapes(a: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the array in other shapes: axes dropped, added, cut, exchanged, merged; rows and columns repeated."""
    for axis in range(a.ndim):
        yield f"axis {axis} dropped", a.take(0, axis)
        yield f"axis {axis} cut to one", a.take([0], axis)
        yield f"axis {axis} without its last", np.delete(a, -1, axis)
        yield f"axis {axis} one longer", np.concatenate([a, a.take([-1], axis)], axis)
        yield f"axis {axis} twice", np.concatenate([a, a], axis)
    for axis in range(a.ndim + 1):
        yield f"an axis of one at {axis}", np.expand_dims(a, axis)
    for order in itertools.permutations(range(a.ndim)):
        yield f"axes {order}", a.transpose(order)
    yield "flat", a.reshape(-1)
    yield "a column", a.reshape(-1, 1)
    yield "one number", a.reshape(-1)[:1]
    yield "a number without an axis", a.reshape(-1)[0].reshape(())
    yield "nothing", a[:0]
    for axis in range(a.ndim - 1):
        yield f"axes {axis} and {axis + 1} merged", a.reshape(*a.shape[:axis], -1, *a.shape[axis + 2 :])


def mutants(arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield all arrays with one of them in another shape, or all of a kind in the same way."""
    for name, a in arrays.items():
        for what, changed in shapes(a):
            if changed.shape != a.shape:
                yield f"{name}: {what}", {**arrays, name: changed}
    for kind in KINDS:
        own = [name for name in arrays if name.startswith(kind)]
        ways: list[tuple[str, Any]] = [
            ("cut to the first row", lambda a: a[:1]), ("cut to the first column", lambda a: a[..., :1]),
            ("an axis in front", lambda a: a[None]), ("an axis behind", lambda a: a[..., None]),
            ("flat", lambda a: a.reshape(-1)), ("turned", lambda a: a.T), ("the first row", lambda a: a[0]),
            ("one row longer", lambda a: np.concatenate([a, a[-1:]])),
        ]  # fmt: skip
        for what, way in ways if own else []:
            changed = {name: way(arrays[name]) for name in own}
            if any(changed[name].shape != arrays[name].shape for name in own):
                yield f"all of {kind}: {what}", {**arrays, **changed}


def same_numbers(config: Any, before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> bool:
    """Whether the format reads the same numbers from both, weights as matrices and examples as vectors."""
    changed = {name for name in before if before[name].shape != after[name].shape}
    if "x" in changed:
        kept = len(before["x"]) == len(after["x"]) and after["x"].ndim > 1 and not config["times"]
        return kept and changed == {"x"} and np.array_equal(before["x"].ravel(), after["x"].ravel())
    for name in (name.removeprefix("weights/") for name in changed if name.startswith("weights/")):
        for other in (f"{kind}{name}" for kind in BESIDE):
            if other in after and after[other].shape != after[f"weights/{name}"].shape:
                return False
    if not all(name.startswith("weights/") for name in changed):
        return False
    first, second = (
        stated.matrices(config, {k.removeprefix("weights/"): a for k, a in given.items() if k.startswith("weights/")})
        for given in (before, after)
    )
    return all(np.array_equal(first[name], second[name]) for name in first)


def holds(document: Any, before: dict[str, np.ndarray], after: dict[str, np.ndarray], said: str) -> bool:
    """Whether what is called proved is right: the same numbers, or other ones of which the sentence speaks."""
    if "any function of them" in said and all(before[key].shape == after[key].shape for key in "xy"):
        return True  # whatever the weights are
    if "batches" in after and before["batches"].shape != after["batches"].shape:  # another run, of smaller batches
        size, rows = after["batches"].shape[1], len(after["x"])
        assert f" · {rows}/{size} · (sum over the batch" in said
        assert f"with the stored batches of {size} in their order" in said
        return steps_of(document, after).apart <= document["start"]["distance"] * (1 + 1e-9)
    return same_numbers(document["network"], before, after)


def test_there_is_a_certificate_of_every_theorem():
    assert {name.split("-")[0] for name in corpus.MAKERS} == set(THEOREMS)
    every = {key.split("/")[0] for name in corpus.MAKERS for key in parts(corpus.folder(name))[1]}
    assert every == {"x", "y", "weights", "start", "centre", "batches", "goal", "direction"}


@pytest.mark.parametrize("name", corpus.MAKERS)
def test_no_array_has_another_shape(tmp_path, name):
    document, arrays = parts(corpus.folder(name))
    assert verify(corpus.folder(name)).answer == "proved"
    document["anchor"].pop("digest", None)  # the data may be other data
    count, same = 0, 0
    for what, changed in mutants(arrays):
        verdict = verify(put(tmp_path, document, changed, digests=True))
        count += 1
        if verdict.answer == "proved":
            same += 1
            assert holds(document, arrays, changed, verdict.statement), what
        else:
            assert verdict.answer in ("malformed", "not proved"), (what, verdict.reason)
            assert "verifier failed" not in verdict.reason
    assert count > 30
    assert same < count / 2


def test_a_start_of_equal_units_is_not_given_by_one_of_them(tmp_path):
    """All rows of this start are equal: broadcast, the first one alone would be the same weights, and was proved."""
    document, arrays = parts(corpus.folder("basin-start"))
    for name in ("start/W1", "start/a"):
        assert (arrays[name] == arrays[name][:1]).all()
        cut = {**arrays, name: arrays[name][:1]}
        verdict = verify(put(tmp_path, document, cut, digests=True))
        assert verdict.answer == "malformed"
        assert verdict.reason.startswith(f"the start's {name.removeprefix('start/')!r} has the shape (1")
    every = {key: a[:1] if key.startswith("start/") else a for key, a in arrays.items()}
    assert verify(put(tmp_path, document, every, digests=True)).answer == "malformed"


def test_flat_inputs_are_the_same_inputs(tmp_path):
    """An image as a vector is an image; what is not one of the documented forms is refused."""
    document, arrays = parts(corpus.folder("descent-image"))
    document["anchor"].pop("digest", None)
    first, x = verify(corpus.folder("descent-image")), arrays["x"]
    n, shape = len(x), tuple(document["network"]["shape"])
    for form in (shape, (shape[0], math.prod(shape[1:])), (math.prod(shape),)):
        flat = {**arrays, "x": x.reshape(n, *form)}
        verdict = verify(put(tmp_path, document, flat, digests=True))
        assert verdict.answer == "proved"
        assert verdict.checks == first.checks
    for form in ((1, *shape), (*shape, 1), shape[::-1], (math.prod(shape), 1)):
        if form != shape:
            other = {**arrays, "x": x.reshape(n, *form)}
            assert verify(put(tmp_path, document, other, digests=True)).answer == "malformed"
