"""Arguments of every theorem: bad values are refused in a sentence with the name, good ones pass."""

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
import pytest

from wideproof import certificates
from wideproof.arguments import LONGEST
from wideproof.certificates import arguments
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof.training import Recipe, train

NETWORK = FullyConnected(input_dim=3, width=64, depth=1)
DATA = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary", name="corners")
ROWS = DATA.n

NO_NUMBERS = (math.nan, math.inf, -math.inf, True, "0.1", [0.1], 1j, 10**400, np.array([0.1]))
NO_POSITIVE = (0, 0.0, -1.0, *NO_NUMBERS)
NO_WHOLE = (0, -1, 1.5, 2.0, math.nan, math.inf, True, "2", [2], np.array([1, 2]))
NO_WEIGHTS = {
    "a list": [np.ones(3)],
    "a word": "W1",
    "one missing": {"W1": np.ones((64, 3))},
    "another shape": {"W1": np.ones((10, 3)), "a": np.ones(64)},
    "NaN": {"W1": np.full((64, 3), math.nan), "a": np.ones(64)},
    "infinity": {"W1": np.full((64, 3), math.inf), "a": np.ones(64)},
    "words": {"W1": np.full((64, 3), "1"), "a": np.ones(64)},
    "ragged": {"W1": [[1.0], [1.0, 2.0]], "a": np.ones(64)},
    "complex": {"W1": np.full((64, 3), 1j), "a": np.ones(64)},
    "no names": {1: np.ones((64, 3)), 2: np.ones(64)},
}

# For every argument values that are refused. `None` is added where an argument cannot be left out.
BAD = {
    "network": ("fully-connected", FullyConnected, dataclasses.replace(NETWORK, input_dim=4)),
    "params": (*NO_WEIGHTS.values(), {"W1": np.ones((64, 3)), "a": np.ones(64), "b": np.ones(3)}),
    "data": (
        "iris", (np.eye(3), np.ones(3)), Dataset(np.eye(4), np.ones(4), "regression"),
        Dataset(np.eye(3), np.eye(3), "regression"),
    ),
    "loss": ("mse", "", 1, True, math.nan, ["logistic"]),
    "level": ("rigorous", "proved", "", 1, True, math.nan, ["enclosed"], np.array(["enclosed", "float64"])),
    "sharp": ("no", 1, 0.0, math.nan, [True]),
    "careful": ("no", 1, 0.0, math.nan, [True]),
    "require_zero": ("no", 1, 0.0, math.nan, [True]),
    "about": ("iris", 3, ["anchor"], {1: "anchor"}, True),
    "step_size": ("safe", *NO_POSITIVE),
    "target_loss": NO_POSITIVE,
    "decay": NO_POSITIVE,
    "distance": (-1e-300, *NO_NUMBERS),
    "room": (-1e-300, *NO_NUMBERS),
    "rooms": ((), "0.1", 0.1, {0.1}, (0.1, -1.0), (0.1, math.nan), (0.1, True), ("0.1",), True, math.nan),
    "momentum": (1, 1.0, -0.1, *NO_NUMBERS),
    "failure": (1, 1.0, *NO_POSITIVE),
    "share": (2, 2.0, *NO_POSITIVE),
    "steps": (2**63, *NO_WHOLE),
    "batch": (ROWS + 1, *NO_WHOLE),
    "partition": (
        "001", 1, (0, 1), (0, 1, 3), (1, 2, 3), (-1, 0, 1), (0.0, 1.0, 2.0), (0, 0, 0), (math.nan,) * 3, [[0], [1, 2]],
        True,
    ),
    "start": NO_WEIGHTS.values(),
    "centre": NO_WEIGHTS.values(),
    "run": ("runs/first", None, {}),
}  # fmt: skip

# And values that every function takes, with what else has to be said then.
GOOD = {
    "level": ("float64", "enclosed"),
    "sharp": (True, False, np.True_),
    "require_zero": (True, False),
    "about": ({}, {"anchor": "these weights"}, None),
    "step_size": (1e-3, 1e300, np.float64(1e-3), np.float32(1e-3), 1, None),
    "target_loss": (1e-12, 1e-300, 1, np.float64(1e-3)),
    "loss": ("squared", "logistic", None),
    "decay": (1.0, 1, 1e-9, np.float32(1.0)),
    "distance": (0, 0.0, 1e-3, np.int64(1), None),
    "room": (0, 0.0, 0.5, 3),
    "rooms": ((0.0,), [0.5, 0], (1e-5,)),
    "momentum": (0, 0.0, 0.9, np.float32(0.5)),
    "failure": (0.5, 1e-300),
    "share": (0.5, 1, 1.99),
    "steps": (1, 1000, np.int64(5), 2**63 - 1),
    "batch": (1, ROWS, np.int64(2)),
    "partition": (None, (0, 0, 1), [1, 0, 0], np.array([0, 1, 1])),
}
NEEDED = {"batch": 2, "decay": 1.0}  # of those functions that have no default


OPTIONS = ("level", "sharp", "about")
KINDS = dict(inspect.getmembers(certificates, inspect.isclass))
THEOREMS = {name: kind for name, kind in KINDS.items() if issubclass(kind, certificates.Theorem) and name != "Theorem"}
FIELDS = {name: {field.name: field for field in dataclasses.fields(one)} for name, one in THEOREMS.items()}
PAIRS = [(name, argument) for name in THEOREMS for argument in ("network", "params", "data", *FIELDS[name], *OPTIONS)]


@pytest.fixture(scope="module")
def weights():
    return certificates.polish(NETWORK, NETWORK.init(0), DATA.x, DATA.y).params


@pytest.fixture(scope="module")
def run():
    return train(NETWORK, DATA, Recipe(steps=30))


def call(name, weights, **changed):
    """Certify with everything as it should be but for what is changed."""
    given = {"network": NETWORK, "params": weights, "data": DATA} | changed
    point = certificates.Problem(given.pop("network"), given.pop("data")).at(given.pop("params"))
    options = {key: given.pop(key) for key in OPTIONS if key in given}
    needed = {key: value for key, value in NEEDED.items() if key in FIELDS[name]}
    return certificates.certify(point, THEOREMS[name](**needed | given), **options)


def refused(argument, function):
    """Check that a call is refused in one line that names the argument and is not drowned in the value."""
    with pytest.raises(InputError, match=argument) as raised:
        function()
    said = str(raised.value)
    assert "\n" not in said
    assert len(said) < 200 + LONGEST


def test_the_tables_know_every_theorem_and_every_argument():
    assert len(THEOREMS) == 11
    assert {argument for _, argument in PAIRS} | {"run", "careful"} == BAD.keys()
    assert {argument for _, argument in PAIRS} - GOOD.keys() == {"network", "params", "data", "start", "centre"}
    fields = {argument for name in THEOREMS for argument in FIELDS[name]}
    assert fields - arguments.ALONE.keys() == {"batch", "partition", "start", "centre"}


@pytest.mark.parametrize(("name", "argument"), PAIRS)
def test_bad_values_are_refused_by_name(weights, name, argument):
    default = None if argument == "about" else FIELDS[name][argument].default if argument in FIELDS[name] else ...
    for value in (*BAD[argument], *(() if default is None else (None,))):
        word = "data" if argument == "network" and isinstance(value, FullyConnected) else argument
        refused(word, lambda value=value: call(name, weights, **{argument: value}))


@pytest.mark.parametrize(("name", "argument"), [pair for pair in PAIRS if pair[1] in GOOD])
def test_good_values_pass(weights, name, argument):
    for value in GOOD[argument]:
        if value is None and argument in FIELDS[name] and FIELDS[name][argument].default is not None:
            continue
        found = call(name, weights, **{"level": "float64", argument: value})
        assert found.certificate is not None or str(found.obstacle)


def test_weights_of_any_kind_of_array_pass(weights):
    as_lists = {name: weight.tolist() for name, weight in weights.items()}
    as_singles = {name: np.asarray(weight, np.float32) for name, weight in weights.items()}
    as_whole = {name: np.ones(weight.shape, int) for name, weight in weights.items()}
    for given in (weights, NETWORK.init(0), as_lists, as_singles, as_whole):
        assert call("Descent", given, level="float64").anchor is not None
        for name, argument in (("Basin", "start"), ("Ridge", "centre")):
            assert call(name, weights, level="float64", **{argument: given}).anchor is not None


def test_what_is_no_point_or_no_theorem_is_refused(weights):
    point = certificates.Problem(NETWORK, DATA).at(weights)
    not_points: list[Any] = [NETWORK, weights, None, point.problem]
    for wrong in not_points:
        refused("point", lambda wrong=wrong: certificates.certify(wrong))
    not_theorems: list[Any] = ["momentum", certificates.Momentum, None, 0.9, certificates.Finite()]
    for wrong in not_theorems:
        refused("theorem", lambda wrong=wrong: certificates.certify(point, wrong))


@pytest.mark.parametrize("theorem", [None, certificates.Descent(), certificates.Finite()])
def test_of_a_run(run, theorem):
    begun = certificates.certify_from_start
    assert begun(run, theorem, about={"anchor": "its end"}).certificate is not None
    for argument in ("level", "sharp", "careful", "about"):
        for value in BAD[argument]:
            refused(argument, lambda name=argument, value=value: begun(run, theorem, **{name: value}))
    for value in BAD["run"]:
        refused("run", lambda value=value: begun(value, theorem))


def test_from_the_start_a_theorem_takes_step_size_and_room_from_the_run(run):
    for theorem in (certificates.Descent(0.1), certificates.Logistic(step_size=0.1)):
        refused("step_size", lambda theorem=theorem: certificates.certify_from_start(run, theorem))
    refused("rooms", lambda: certificates.certify_from_start(run, certificates.Descent(rooms=(0.1,))))
    refused("room", lambda: certificates.certify_from_start(run, certificates.Logistic(room=0.1)))
    momentum: Any = certificates.Momentum()
    refused("theorem", lambda: certificates.certify_from_start(run, momentum))
    refused("Theorem 3", lambda: certificates.certify_from_start(run, certificates.Logistic()))


@pytest.mark.parametrize("search", [certificates.width_needed, certificates.scale_needed])
def test_a_search_refuses_a_level_before_it_begins(search):
    refused("level", lambda: search(NETWORK, DATA, level="rigorous", progress=pytest.fail))
