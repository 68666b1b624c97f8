"""Reference values of the networks of Du et al. (2019), computed elsewhere and reproduced here.

Not reproduced, because the data behind them are not recorded: the eigenvalues of one draw of eight vectors (only their
trends are), and the convolutional spot check with two images that differ in one pixel.
"""

import math

import numpy as np
import pytest

from wideproof.data.dataset import Dataset
from wideproof.monitors.smooth import (
    block_measure,
    feature_movement,
    first_order_measure,
    outputs_measure,
    second_order_change,
    tracked_movement,
)
from wideproof.networks import ConvResidual, FullyConnected, Residual, get_activation
from wideproof.papers.du2019.functions import FUNCTIONS
from wideproof.papers.du2019.initialization import least_moment
from wideproof.papers.du2019.lab import FOUR, THREE, Lab
from wideproof.papers.du2019.positivity import pair_eigenvalues, tensor_rank
from wideproof.papers.du2019.recursion import averages, expectations, recursion
from wideproof.training import Recipe, train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "c_sigma", "mean", "slope", "chi", "growth"),
    [
        ("softplus", 1.085487, 0.806059, 0.293379, 0.31846, 0.49205),
        ("sigmoid", 3.408560, 0.5, 0.044836, 0.15283, 0.10634),
        ("tanh", 2.536175, 0.0, 0.464403, 1.17781, 0.46107),
        ("erf", 2.152579, 0.0, 0.569410, 1.22570, 0.40857),
        ("swish", 2.810761, 0.206621, 0.379482, 1.06663, 1.17259),
        ("gelu", 2.351716, 0.282095, 0.455851, 1.07203, 1.14406),
    ],
)
def test_moments_of_activations(name, c_sigma, mean, slope, chi, growth):
    sigma, derivative, second = FUNCTIONS[name]
    one = np.ones(1)

    def average(f):
        return float(averages(f, one, nodes=200)[0])

    c = 1 / average(lambda z: sigma(z) ** 2)
    assert c == pytest.approx(c_sigma, abs=6e-7)
    assert c == pytest.approx(get_activation(name).c_sigma, rel=1e-9)
    assert average(sigma) == pytest.approx(mean, abs=6e-7)
    assert average(lambda z: derivative(z) ** 2) == pytest.approx(slope, abs=6e-7)
    assert c * average(lambda z: derivative(z) ** 2) == pytest.approx(chi, abs=6e-6)
    assert c * average(lambda z: z * sigma(z) * derivative(z)) == pytest.approx(growth, abs=6e-6)
    z, h = np.linspace(-3, 3, 25), 1e-5
    np.testing.assert_allclose((sigma(z + h) - sigma(z - h)) / (2 * h), derivative(z), atol=1e-9)
    np.testing.assert_allclose((derivative(z + h) - derivative(z - h)) / (2 * h), second(z), atol=1e-9)


def test_closed_form_of_erf():
    a, b, c = 1.3, 0.8, -0.5
    k = np.array([[a, c], [c, b]])
    value, slope = (expectations(f, k, 200)[0, 1] for f in FUNCTIONS["erf"][:2])
    assert value == pytest.approx(2 / np.pi * np.arcsin(2 * c / np.sqrt((1 + 2 * a) * (1 + 2 * b))), abs=1e-9)
    assert slope == pytest.approx(4 / np.pi / np.sqrt((1 + 2 * a) * (1 + 2 * b) - 4 * c**2), abs=1e-8)


ROWS = [
    (
        "fc",
        "softplus",
        1,
        (0.3184590, 0, 0.1795991, -0.1460468),
        0.0129497,
        (1.3184590, 0.7052747, 1.0560614, 0.4047695),
        (0.0269442, 3.6736644),
    ),
    (
        "fc",
        "softplus",
        2,
        (0.3184590, 0.2146216, 0.2738800, 0.1636019),
        0.0048385,
        (1.4198751, 1.1228577, 1.2910300, 0.9820205),
        (0.0154979, 4.8834235),
    ),
    (
        "fc",
        "softplus",
        3,
        (0.3184590, 0.2851985, 0.3042289, 0.2686900),
        0.0015280,
        (1.4521720, 1.3235739, 1.3963223, 1.2626238),
        (0.0068509, 5.4613239),
    ),
    (
        "fc",
        "tanh",
        1,
        (1.1778072, 0, 0.5989246, -0.5989246),
        0.1368177,
        (2.1778072, 0, 1.1701275, -1.1701275),
        (0.1726435, 4.6292583),
    ),
    (
        "fc",
        "tanh",
        2,
        (1.1778072, 0, 0.5661475, -0.5661475),
        0.1817633,
        (3.5650371, 0, 1.7023317, -1.7023317),
        (0.5651914, 7.1724985),
    ),
    (
        "fc",
        "tanh",
        3,
        (1.1778072, 0, 0.5342187, -0.5342187),
        0.2269594,
        (5.1989265, 0, 2.1904251, -2.1904251),
        (1.2306808, 9.8997406),
    ),
    (
        "res",
        "softplus",
        2,
        (0.0183362, 0.0123575, 0.0157694, 0.0094198),
        2.7859159e-4,
        (1.7386792, 1.1083932, 1.4688630, 0.7997790),
        (0.0282571, 5.2860098),
    ),
    (
        "res",
        "softplus",
        3,
        (0.0104529, 0.0076423, 0.0092484, 0.0062543),
        1.2945166e-4,
        (1.8924257, 1.2636935, 1.6232885, 0.9557997),
        (0.0282844, 5.8993964),
    ),
    (
        "res",
        "tanh",
        2,
        (0.0290252, 0, 0.0139518, -0.0139518),
        4.4792677e-3,
        (2.2656619, 0, 1.2120788, -1.2120788),
        (0.1865856, 4.8059796),
    ),
    (
        "res",
        "tanh",
        3,
        (0.0129869, 0, 0.0062272, -0.0062272),
        2.0254993e-3,
        (2.2563395, 0, 1.2075649, -1.2075649),
        (0.1851928, 4.7871069),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}-{row[2]}")
def test_limits_on_four_vectors(row):
    kind, name, depth, last, least, total, ends = row
    network = (FullyConnected if kind == "fc" else Residual)(3, 1, depth, get_activation(name))
    found = recursion(network, FOUR, nodes=200)
    block = found.blocks[f"W{depth}"]
    np.testing.assert_allclose(block[0], last, atol=6e-8)
    assert np.linalg.eigvalsh(block)[0] == pytest.approx(least, abs=6e-8)
    np.testing.assert_allclose(found.total[0], total, atol=6e-8)
    np.testing.assert_allclose(np.linalg.eigvalsh(found.total)[[0, -1]], ends, atol=6e-8)


def test_limits_on_three_images():
    found = recursion(ConvResidual(2, 4, 1, 3), THREE, nodes=100)
    upper = np.triu_indices(3)
    expected = {
        "W1": (0.8014558, -0.0922345, 0.2937008, 0.8014558, 0.1274517, 0.9189146),
        "W2": (0.0757822, 0.0526368, 0.0637469, 0.0757822, 0.0594254, 0.0807147),
        "W3": (0.1033017, 0.0784352, 0.0906963, 0.1033017, 0.0860388, 0.1091495),
        "a": (5.8180457, 4.9677640, 5.4072850, 5.8180457, 5.2440663, 6.0415514),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(found.blocks[name][upper], values, atol=6e-8)
    np.testing.assert_allclose(np.linalg.eigvalsh(found.blocks["W3"]), (0.0146305, 0.0255294, 0.2755928), atol=6e-8)
    np.testing.assert_allclose(np.linalg.eigvalsh(found.total), (1.0563766, 1.8405316, 17.8505926), atol=6e-8)


def test_misprinted_convolutional_limit_is_off_by_97_percent():
    network = ConvResidual(2, 4, 1, 3)
    right = recursion(network, THREE).blocks["W3"]
    printed = recursion(network, THREE, ("index", "pairing", "patch", "factor")).blocks["W3"]
    assert np.linalg.norm(printed - right) / np.linalg.norm(printed) == pytest.approx(0.97, abs=0.02)


def test_means_and_covariances_of_the_residual_network():
    two, three = (recursion(Residual(3, 1, depth), FOUR) for depth in (2, 3))
    assert two.means[2][0, 0] == pytest.approx(1.0413211, abs=6e-8)
    np.testing.assert_allclose(two.covariances[2][0, :, 0, 0], (1.3960447, 1.0960358, 1.2702631, 0.9389036), atol=6e-8)
    assert three.means[3][0, 0] == pytest.approx(1.1127399, abs=6e-8)
    np.testing.assert_allclose(
        three.covariances[3][0, :, 0, 0], (1.5500189, 1.2505150, 1.4244527, 1.0936355), atol=6e-8
    )


def test_very_deep_residual_networks():
    """The deep limit is one hidden layer plus a constant; the hidden blocks fade."""
    found = {depth: recursion(Residual(3, 1, depth), FOUR) for depth in (4, 8, 16, 64)}
    first = recursion(FullyConnected(3, 1, 1), FOUR)
    b_1 = first.means[1][0, 0]
    limit = first.total + 1.263073**2 - b_1**2
    for depth, value in ((4, 3.949), (8, 3.980), (16, 3.991), (64, 3.997)):
        assert depth * np.linalg.norm(found[depth].total - limit) == pytest.approx(value, abs=2e-3)
    shares = {
        depth: sum(np.trace(found[depth].blocks[f"W{h}"]) for h in range(2, depth + 1)) / np.trace(found[depth].total)
        for depth in (4, 64)
    }
    assert shares[4] == pytest.approx(0.0085, abs=1e-4)
    assert shares[64] == pytest.approx(0.00075, abs=1e-5)


@pytest.mark.parametrize(
    ("depth", "sizes"),
    [(2, (0.5695, 0.13541, 0.13541, 1.1815)), (4, (0.5683, 0.06802, 0.08142, 1.2771)),
     (8, (0.5667, 0.03397, 0.04442, 1.3258)), (16, (0.5656, 0.01696, 0.02317, 1.3502)),
     (32, (0.5650, 0.00847, 0.01183, 1.3625))],
)  # fmt: skip
def test_only_the_inner_blocks_shrink_with_depth(depth, sizes):
    blocks = recursion(Residual(3, 1, depth), FOUR).blocks
    found = [math.sqrt(blocks[name][0, 0]) for name in ("W1", "W2", f"W{depth}", "a")]
    np.testing.assert_allclose(found, sizes, atol=6e-5)


def test_counterexample_to_lemma_f_3():
    rows = {
        "softplus": (1, 0.2947, 0.2960, 0.2974, 0.2988),
        "tanh": (1, 1, 1.0062, 1.0123, 1.0185),
    }
    for name, values in rows.items():
        found = recursion(Residual(2, 1, 4, get_activation(name)), np.eye(2))
        np.testing.assert_allclose(pair_eigenvalues(found), values, atol=6e-5)
    assert pair_eigenvalues(recursion(Residual(2, 1, 4, get_activation("sigmoid")), np.eye(2)))[1] == pytest.approx(
        0.1479, abs=6e-5
    )


@pytest.mark.parametrize(("name", "values"), [("softplus", (0.1836, 0.0585, 0.0186)), ("tanh", (0.970, 1.142, 1.345))])
def test_near_duplicates(name, values):
    """The least eigenvalue falls with the square of the angle, by these factors at depths 1, 2, 3."""
    angle = 1e-3
    x = np.array([[1.0, 0], [math.cos(angle), math.sin(angle)]])
    for depth, value in enumerate(values, 1):
        block = recursion(FullyConnected(2, 1, depth, get_activation(name)), x, nodes=120).blocks[f"W{depth}"]
        assert np.linalg.eigvalsh(block)[0] / angle**2 == pytest.approx(value, rel=5e-3)


def test_depth_dependence_of_eigenvalues(rng):
    """Softplus loses a factor 0.318 a layer; H² λ0 settles for skips, while the whole matrix does not fade."""
    x = rng.normal(size=(8, 10))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    fully = [np.linalg.eigvalsh(recursion(FullyConnected(10, 1, h), x).blocks[f"W{h}"])[0] for h in (6, 7, 8)]
    np.testing.assert_allclose(np.divide(fully[1:], fully[:-1]), 0.318, rtol=0.05)
    last, whole = [], []
    for depth in (4, 8, 16, 32):
        found = recursion(Residual(10, 1, depth), x)
        last.append(depth**2 * np.linalg.eigvalsh(found.blocks[f"W{depth}"])[0])
        whole.append(np.linalg.eigvalsh(found.total)[0])
    np.testing.assert_allclose(last, last[-1], rtol=0.1)
    np.testing.assert_allclose(whole, whole[-1], rtol=0.05)
    assert whole[-1] / (last[-1] / 32**2) > 5e3


def test_constants_of_the_convolutional_lemma():
    rows = {
        "softplus": (1.085, 1.702, 1.972, 2.053),
        "tanh": (2.5, 5.8, 17.9, 66.0),
        "swish": (2.8, 13.8, 61.3, 253.1),
    }
    for name, values in rows.items():
        found = [least_moment(get_activation(name), 1 / math.sqrt(p)) for p in (1, 4, 16, 64)]
        np.testing.assert_allclose(found, values, atol=0.06 if name != "softplus" else 6e-4)


def test_growth_constants():
    for name, value in (("softplus", 4.17), ("tanh", 6.37), ("swish", 7.38), ("gelu", 6.93)):
        activation = get_activation(name)
        assert 4 * math.sqrt(activation.c_sigma) * activation.lipschitz == pytest.approx(value, abs=6e-3)


def test_ranks_of_tensor_powers_in_a_plane():
    vectors = np.column_stack([np.ones(6, int), np.arange(6)])
    assert [tensor_rank(vectors, power) for power in range(1, 7)] == [2, 3, 4, 5, 6, 6]


def test_softplus_of_short_inputs(rng):
    m = 1500
    w, x = rng.standard_normal((m, 3)), np.array([1.0, 0, 0])
    softplus = FUNCTIONS["softplus"][0]
    found = [np.linalg.norm(softplus(w @ (t * x))) / math.sqrt(m) for t in (1, 0.1, 0.01)]
    np.testing.assert_allclose(found, (0.924, 0.694, 0.693), atol=0.03)  # the first varies by 0.02 from draw to draw


# ---- measured on finite networks -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [("fully-connected", "softplus"), ("residual", "softplus"), ("fully-connected", "tanh")]
)
def test_last_block_concentrates_like_the_root_of_the_width(kind, name):
    lab = Lab("quick")
    x = lab.data(kind).x
    widths, errors = (64, 128, 256, 512), []
    for width in widths:
        network = lab.network(kind, width, 3, name)
        limit = lab.last(network, x)
        blocks = lab.keep(("concentrating", network), lambda network=network: _last_blocks(lab, network, x))
        errors.append(np.mean(np.linalg.norm(blocks - limit, 2, axis=(1, 2))))
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)


def _last_blocks(lab, network, x):
    from wideproof.papers.du2019.records import draws_of

    starts = (lab.draw(network, "concentrating", i) for i in range(24))
    return draws_of(network, x, starts).blocks[f"W{network.depth}"]


@pytest.mark.slow
def test_movement_against_width(rng):
    """Weights move by O(1), features by m^-1/2, the last block by about 1/m; I_2 is of second order in the step."""
    x = rng.normal(size=(8, 10))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    data = Dataset(x, np.where(np.arange(8) % 2, 1.0, -1.0), "binary", "sphere")
    widths = (64, 128, 256, 512)
    weights, features, drift = [], [], []
    for width in widths:
        network = FullyConnected(10, width, 3, get_activation("tanh"))
        eta = 0.5 / np.linalg.eigvalsh(recursion(network, x).total)[-1]
        record = {
            "block": block_measure(network, x, "W3"),
            "outputs": outputs_measure,
            "first": first_order_measure(network, x),
        }
        rows = []
        for seed in range(3):
            run = train(network, data, Recipe(step_size=eta, steps=200, record_every=1, seed=seed), record=record)
            moved = tracked_movement(run.params, run.initial, 1)["W3"]
            change = feature_movement(network, run.params, run.initial, x)[1].max()
            block = run.records["block"]
            rows.append((moved, change, np.linalg.norm(block[-1] - block[0], 2)))
        for values, row in zip((weights, features, drift), np.mean(rows, axis=0), strict=True):
            values.append(row)
    slopes = [np.polyfit(np.log(widths), np.log(values), 1)[0] for values in (weights, features, drift)]
    assert slopes[0] == pytest.approx(0.0, abs=0.2)
    assert slopes[1] == pytest.approx(-0.5, abs=0.2)
    assert slopes[2] <= -0.4
    sizes, parts = (1e-3, 2e-3, 4e-3), []
    for size in sizes:
        run = train(network, data, Recipe(step_size=size, steps=1, record_every=1), record=record)
        parts.append(np.linalg.norm(second_order_change(run.records["outputs"], run.records["first"], size)))
    assert np.polyfit(np.log(sizes), np.log(parts), 1)[0] == pytest.approx(2.0, abs=0.05)
