"""Frames, sets of points and settings."""

import numpy as np
import pytest

from wideproof.errors import InputError
from wideproof.lab.frames import frame, parse
from wideproof.lab.lane import Lane
from wideproof.lab.looks import DRAWN, thinned
from wideproof.lab.planes import LINES, PLANES, plane
from wideproof.lab.settings import begin_run, build_network, read, ready_data


class TestFrames:
    def test_arrays_come_back_as_they_went(self):
        arrays = {
            "a": np.arange(7, dtype="u1"), "b": np.array([[1.5, np.nan], [np.inf, -0.0]], "f4"),
            "c": np.array([], "f8"), "d": np.arange(6, dtype="i4").reshape(2, 3).T,
        }  # fmt: skip
        kind, fields, found = parse(frame("x", arrays, text="λ → ½", none=None, deep={"a": [1, 2.5]}))
        assert (kind, fields) == ("x", {"text": "λ → ½", "none": None, "deep": {"a": [1, 2.5]}})
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)

    @pytest.mark.parametrize("text", ["", "a", "ab", "abcdefg", "λ"])
    def test_arrays_begin_at_multiples_of_eight(self, text):
        message = frame("x", {"a": np.zeros(3, "u1"), "b": np.ones(2, "f8")}, text=text)
        length = int.from_bytes(message[:4], "little")
        assert (4 + length) % 8 == 0
        assert len(message) == 4 + length + 8 + 16
        np.testing.assert_array_equal(np.frombuffer(message[-16:], "<f8"), [1.0, 1.0])

    def test_what_is_no_number_is_null(self):
        _, fields, _ = parse(frame("x", a=np.float64("nan"), b=[float("inf")], c=np.int64(3), d={"e": float("nan")}))
        assert fields == {"a": None, "b": [None], "c": 3, "d": {"e": None}}

    @pytest.mark.parametrize("array", [np.zeros(1, "i8"), np.zeros(1, "c8"), np.array(["a"]), np.zeros(1, bool)])
    def test_other_types_are_refused(self, array):
        with pytest.raises(ValueError, match="a frame holds arrays of"):
            frame("x", {"a": array})


class TestPoints:
    @pytest.mark.parametrize("name", PLANES)
    @pytest.mark.parametrize("n", [2, 7, 40])
    def test_a_set(self, name, n):
        found = plane(name, n, 0.3, seed=5)
        assert found.shape == (n, 3)
        assert (abs(found) <= 1).all()
        assert set(found[:, 2]) <= ({0.0} if name in LINES else {-1.0, 1.0})
        np.testing.assert_array_equal(found, plane(name, n, 0.3, seed=5))
        assert (found != plane(name, n, 0.3, seed=6)).any()

    @pytest.mark.parametrize(("n", "noise"), [(1, 0.1), (5, -0.1), (5, 1.5), (5, float("nan"))])
    def test_what_is_no_set(self, n, noise):
        with pytest.raises(InputError, match="at least 2"):
            plane("circles", n, noise)


class TestSettings:
    def test_the_step_is_a_multiple_of_the_edge(self):
        """At 1 the largest eigenvalue of the Gram matrix times the step size is 2."""
        from wideproof.kernels import gram

        asked = read({"data": {"n": 6}, "networks": [{"width": 16, "depth": 1, "step": 1.0, "scale": 3.0}]})
        _, data = ready_data(asked.data, "fully-connected")
        network = build_network(asked.networks[0], data)
        run = begin_run(asked.networks[0], network, data)
        largest = np.linalg.eigvalsh(np.asarray(gram(network, run.initial, data.x).matrix))[-1]
        assert run.step_size * largest == pytest.approx(2.0, rel=1e-6)
        read_out = network.graph.read_out
        np.testing.assert_array_equal(run.initial[read_out], 3.0 * np.asarray(network.init(0)[read_out]))

    def test_momentum_and_epochs(self):
        """What cannot be followed from the start is not offered for it, and nothing is foretold of it."""
        asked = {"width": 16, "depth": 1, "batch": 4, "order": "epochs", "momentum": 0.5}
        found = {}
        for name, change in (("all", {}), ("even", {"momentum": 0, "batch": 3}), ("odd", {"momentum": 0})):
            settings = read({"data": {"n": 6}, "networks": [asked | change]})
            raw, data = ready_data(settings.data, "fully-connected")
            found[name] = Lane(settings.networks[0], raw, data)
        assert found["all"].run.recipe.method == "SGD, shuffled batches of 4, momentum 0.5"
        assert [found[name].pure for name in ("all", "even", "odd")] == [False, True, False]
        assert found["all"].forecast is None
        assert found["all"].advance(3)[0].tolist() == [0, 1, 2]

    def test_points_are_taken_as_they_are(self):
        points = [[0.5, -0.5, 1], [0.25, 0.75, -1], [0, 0, 1]]
        raw, data = ready_data(read({"data": {"points": points, "prepare": "none"}}).data, "fully-connected")
        np.testing.assert_array_equal(raw.x, [[0.5, -0.5], [0.25, 0.75], [0, 0]])
        np.testing.assert_array_equal(data.y, [1, -1, 1])

    @pytest.mark.parametrize(
        ("value", "sentence"),
        [
            ([], "the settings: Input should be"), ({"more": 1}, "more: Extra inputs"),
            ({"networks": []}, "networks: "), ({"networks": [{}] * 3}, "networks: "),
            ({"networks": [{"step": float("nan")}]}, "networks.0.step"), ({"data": {"n": 1}}, "data.n"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_named(self, value, sentence):
        with pytest.raises(InputError, match=sentence):
            read(value)


def test_thinned_steps_are_those_that_a_page_shows():
    steps = np.arange(20_000)
    at, values = thinned(steps, steps * 2)
    np.testing.assert_array_equal(at, [*DRAWN[DRAWN < 19_999], 19_999])
    np.testing.assert_array_equal(values, 2 * at)
    assert len(thinned(np.zeros(0), np.zeros(0))[0]) == 0
    np.testing.assert_array_equal(thinned(at, values)[0], at)
