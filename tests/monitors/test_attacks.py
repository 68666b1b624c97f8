"""Attacks: each one is of the size it claims and reaches what brute force or linear algebra says is there to reach."""

import numpy as np
import pytest

from wideproof.monitors import attacks
from wideproof.monitors.norms import spectral_norm
from wideproof.monitors.recurrent import Unrolled, backward, objective, unroll
from wideproof.networks import ElmanRNN

WIDTH, LENGTH = 200, 4
X = np.random.default_rng(5).normal(size=(3, LENGTH, 5))
X /= np.linalg.norm(X, axis=-1, keepdims=True)


def seen(seed: int = 0) -> Unrolled:
    return unroll(ElmanRNN(input_dim=5, width=WIDTH, length=LENGTH, outputs=2).init(seed), X)


def moved(before: Unrolled, change: np.ndarray) -> Unrolled:
    return unroll({"W": before.W + change, "A": before.A, "B": before.B}, X)


def test_the_isolated_part_is_orthogonal_to_everything_else() -> None:
    before = seen()
    v = attacks.isolated(before, 1, 3)
    others = np.concatenate([before.h[:, :2].reshape(-1, WIDTH), before.h[[0, 2], 2]])
    np.testing.assert_allclose(others @ v, 0, atol=1e-12)
    assert v @ before.h[1, 2] == pytest.approx(v @ v)


@pytest.mark.parametrize("time", [2, 3, 4])
def test_flips_are_as_many_as_the_budget_buys(time: int) -> None:
    before, radius = seen(), 1.5
    change = attacks.flip_attack(before, radius, sample=1, time=time)
    after = moved(before, change)
    flipped = before.mask != after.mask
    assert spectral_norm(change) <= radius / np.sqrt(WIDTH)
    assert not flipped[:, : time - 1].any()
    assert not flipped[[0, 2], time - 1].any()
    r = np.linalg.norm(attacks.isolated(before, 1, time - 1))
    costs = np.sort(before.g[1, time - 1] ** 2)
    affordable = next(s for s in range(WIDTH) if costs[: s + 1].sum() * (1 + 1e-5) > (radius * r) ** 2 / WIDTH)
    assert flipped[1, time - 1].sum() == affordable > 5


def test_the_push_flips_one_unit_and_leaves_it_far_from_zero() -> None:
    before, radius = seen(), 0.5
    change = attacks.push_attack(before, radius, sample=0, time=3)
    assert spectral_norm(change) == pytest.approx(radius / np.sqrt(WIDTH))
    after = moved(before, change)
    (unit,) = np.flatnonzero(before.mask[0, 2] != after.mask[0, 2])
    r = np.linalg.norm(attacks.isolated(before, 0, 2))
    assert abs(after.g[0, 2, unit]) == pytest.approx(radius * r / np.sqrt(WIDTH) - abs(before.g[0, 2, unit]))


def test_the_polar_factor_reaches_the_nuclear_norm_and_beats_random_directions() -> None:
    before, radius = seen(), 1e-3
    change = attacks.polar_attack(before, radius, sample=2)
    assert spectral_norm(change) == pytest.approx(radius / np.sqrt(WIDTH))
    reached = np.linalg.norm(moved(before, change).h[2, -1] - before.h[2, -1])
    jacobians = [before.matrix(2, a + 2, LENGTH) * before.mask[2, a] for a in range(1, LENGTH)]  # D W .. W D
    # for the direction p that it reached, no W' of this norm does better: the value is the nuclear norm
    p = (moved(before, change).h[2, -1] - before.h[2, -1]) / reached
    pulled = sum(np.outer(j.T @ p, before.h[2, a]) for a, j in enumerate(jacobians))
    best = radius / np.sqrt(WIDTH) * np.linalg.norm(pulled, "nuc")
    assert reached == pytest.approx(best, rel=0.02)
    rng = np.random.default_rng(0)
    for _ in range(5):
        other = attacks.gaussian_attack(WIDTH, radius, rng)
        assert np.linalg.norm(moved(before, other).h[2, -1] - before.h[2, -1]) < reached / 2


def test_the_remainder_is_the_sum_of_the_gains_and_half_the_square_of_the_shift() -> None:
    before, radius = seen(), 1.0
    losses = before.outputs - 1.0
    targets = np.ones_like(losses)
    change = attacks.remainder_attack(before, losses, radius)
    assert spectral_norm(change) <= radius / np.sqrt(WIDTH) * (1 + 1e-12)
    after = moved(before, change)
    np.testing.assert_allclose(after.h[:, :-1], before.h[:, :-1], atol=1e-12)
    remainder = objective(after.outputs, targets) - objective(before.outputs, targets)
    remainder -= backward(before, losses).pair(change)
    # Where φ bends between g and g + s, it exceeds its tangent by |g + s|; elsewhere it is its tangent.
    sample = int(np.linalg.norm(losses[:, -1], axis=-1).argmax())
    flipped = before.mask[sample, -1] != after.mask[sample, -1]
    gains = (losses[sample, -1] @ before.B)[flipped] * np.abs(after.g[sample, -1, flipped])
    assert len(gains) > 1
    assert (gains > 0).all()
    shifts = after.outputs - before.outputs
    assert remainder == pytest.approx(gains.sum() + (shifts**2).sum() / 2, rel=1e-9)
    assert remainder != pytest.approx(gains[1:].sum() + (shifts**2).sum() / 2, rel=1e-9)
    rng = np.random.default_rng(1)
    for _ in range(5):
        other = attacks.gaussian_attack(WIDTH, radius, rng)
        there = objective(moved(before, other).outputs, targets) - objective(before.outputs, targets)
        assert there - backward(before, losses).pair(other) < remainder


def test_the_backward_attack_moves_the_backward_product_as_computed() -> None:
    before = seen()
    change = attacks.backward_attack(before, 2.0, sample=0, time=3)
    assert spectral_norm(change) == pytest.approx(2.0 / np.sqrt(WIDTH))
    b = (before.back(0, 3, LENGTH) * before.mask[0, 2])[0]
    gain = b @ change @ before.h[0, 1]
    assert gain == pytest.approx(2.0 / np.sqrt(WIDTH) * np.linalg.norm(b) * np.linalg.norm(before.h[0, 1]))


def test_gaussian_and_trajectory_have_the_norm_they_say() -> None:
    drawn = attacks.gaussian_attack(WIDTH, 3.0, np.random.default_rng(0))
    assert np.linalg.norm(drawn, 2) == pytest.approx(3.0 / np.sqrt(WIDTH), rel=0.05)
    there = attacks.trajectory_attack(drawn, 0.5)
    assert np.linalg.norm(there, 2) == pytest.approx(0.5 / np.sqrt(WIDTH))
    assert np.linalg.matrix_rank(there) == WIDTH


def test_sparse_attacks_are_sparse_and_alignment_is_the_best_of_all_signs() -> None:
    rng = np.random.default_rng(2)
    z, row = rng.normal(size=6), rng.normal(size=6)
    change = attacks.sparse_attack(z, 2, 0.7, rng)
    entries = change @ z / np.linalg.norm(z)
    assert np.count_nonzero(np.round(entries, 12)) == 2
    assert np.abs(entries).max() == pytest.approx(0.7 / np.sqrt(6))
    aligned = attacks.aligned_attack(row, z, 3, 0.7) @ z / np.linalg.norm(z)
    signs = np.array(np.meshgrid(*[[-1, 0, 1]] * 6)).reshape(6, -1).T
    best = max(row @ s for s in signs if np.abs(s).sum() == 3) * 0.7 / np.sqrt(6)
    assert row @ aligned == pytest.approx(best)
