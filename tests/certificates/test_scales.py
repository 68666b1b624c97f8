"""The smallest output scale with a proof before training, at a given width."""

from typing import Any

import numpy as np
import pytest

from tests.certificates.making import signs, sphere
from wideproof.certificates import Problem, certify
from wideproof.certificates.scales import scale_needed
from wideproof.certificates.widths import doubled
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import DeepReLU, FullyConnected
from wideproof_verify import verify

DATA = Dataset(sphere(6, 12, 0), signs(6, 0), "binary")


def hidden(width):
    return FullyConnected(12, width, 1, trained=("hidden",))


def results(found) -> list[Any]:
    """Seed, scale and attempt, of all seeds."""
    assert None not in found.scales
    assert None not in found.attempts
    return list(zip(found.seeds, found.scales, found.attempts, strict=True))


def check_bracket(found):
    """Each seed's scale passes, what was tried below it did not, and the two are close."""
    for seed, scale, best in results(found):
        tried = [one for one in found.tried if one.seed == seed]
        assert best.passed
        assert all(one.passed == (one.scale >= scale) for one in tried)
        assert max(one.scale for one in tried if not one.passed) >= scale / 1.02


def test_the_scale_is_where_the_ratio_passes_one_half(tmp_path):
    """With fixed outputs the ratio is exactly inverse to the scale: the answer is twice the ratio at scale 1."""
    network = hidden(64)
    found = scale_needed(network, DATA, seeds=(0, 3))
    check_bracket(found)
    for seed, scale, best in results(found):
        needed = 2 * certify(Problem(network, DATA).at(doubled(network, seed))).h
        assert needed * (1 - 1e-6) <= scale <= 1.021 * needed
        assert best.certificate.params["a"].max() == scale
        assert best.certificate.about["scale"] == scale
        assert verify(best.certificate.save(tmp_path / str(seed))).answer == "proved"
    low, high = sorted(scale for _, scale, _ in results(found))
    assert str(found) == (
        f"a proof before training passes at width 64 from output scale {low:.3g} to {high:.3g} (2 seeds)"
    )


def test_a_scale_below_one():
    """Where 1 is more than enough the scale is halved."""
    network = FullyConnected(40, 2000, 1, trained=("hidden",))
    data = Dataset(sphere(3, 40, 0), signs(3, 0), "binary")
    found = scale_needed(network, data, level="float64")
    check_bracket(found)
    ((_, scale, _),) = results(found)
    assert 0.05 < scale < 0.5


def test_width_times_the_square_of_the_scale():
    """Four times the width halves the scale, up to the draw."""
    both = [scale_needed(hidden(width), DATA, seeds=(0, 1), level="float64") for width in (128, 512)]
    narrow, wide = (np.mean([scale for _, scale, _ in results(found)]) for found in both)
    assert narrow / wide == pytest.approx(2, rel=0.25)


def test_all_layers_trained(tmp_path):
    found = scale_needed(FullyConnected(12, 128, 1), DATA)
    check_bracket(found)
    ((_, _, best),) = results(found)
    assert verify(best.certificate.save(tmp_path / "one")).answer == "proved"


def test_the_search_stops_at_its_ends():
    wide = FullyConnected(40, 2000, 1, trained=("hidden",))
    data = Dataset(sphere(3, 40, 0), signs(3, 0), "binary")
    assert scale_needed(wide, data, smallest=0.9, level="float64").scales == (0.9,)
    found = scale_needed(hidden(64), DATA, largest=2.0, level="float64")
    assert found.scales == (None,)
    assert str(found) == "no proof before training at width 64 up to output scale 2"


def test_only_the_scale_one_may_be_tried():
    found = scale_needed(hidden(64), DATA, smallest=1.0, largest=1.0, level="float64")
    assert [one.scale for one in found.tried] == [1.0]


def test_a_singular_gram_matrix_is_refused_at_once():
    """No scale helps: one attempt is enough."""
    x = sphere(4, 6, 0)
    x[1] = 0
    network = FullyConnected(6, 32, 1, trained=("hidden",))
    for y in ([1.0, 1, -1, -1], [1.0, -1, 1, -1]):
        found = scale_needed(network, Dataset(x, np.array(y), "binary"))
        assert found.scales == (None,)
        assert found.attempts == (None,)
        assert len(found.tried) == 1


def test_misuse_is_named():
    with pytest.raises(InputError, match="even width"):
        scale_needed(hidden(63), DATA)
    with pytest.raises(InputError, match="must be at most 1"):
        scale_needed(hidden(64), DATA, smallest=2.0)
    with pytest.raises(InputError, match="fully-connected"):
        scale_needed(DeepReLU(12, 8, 2), DATA)  # pyright: ignore[reportArgumentType]
