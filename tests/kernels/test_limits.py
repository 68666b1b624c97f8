"""Infinite-width Gram matrices: reference values, means of finite networks, second routes, the papers' misprints."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from tests.cases import NETWORKS, each, each_network
from wideproof.errors import InputError
from wideproof.kernels import gram, limit_gram, nngp
from wideproof.networks import ConvResidual, DeepRNN, ElmanRNN, FullyConnected, Residual, get_activation

DEARER = ("conv-residual", "elman-rnn")
X4 = np.array([(1, 0, 0), (0, 1, 0), (0.6, 0.8, 0), (-0.6, 0, 0.8)])
XC = np.array([[[1, 2, 0, -1], [0, 1, 1, 2]], [[2, -1, 1, 0], [1, 0, -2, 1]], [[0, 1, 3, 1], [-1, 2, 0, 1]]], float)
XC /= np.linalg.norm(XC, axis=(1, 2), keepdims=True)
NORMS = np.array([1.0, 0.5, 2.0, 1.5])[:, None]

# Values computed elsewhere with 200 quadrature nodes: last hidden block, its ends; whole matrix, its ends.
REFERENCE = [
    ("fc", "softplus", 1, (0.3184590, 0, 0.1795991, -0.1460468), (0.0129497, 0.6737750),
     (1.3184590, 0.7052747, 1.0560614, 0.4047695), (0.0269442, 3.6736644)),
    ("fc", "softplus", 2, (0.3184590, 0.2146216, 0.2738800, 0.1636019), (0.0048385, 0.9975913),
     (1.4198751, 1.1228577, 1.2910300, 0.9820205), (0.0154979, 4.8834235)),
    ("fc", "softplus", 3, (0.3184590, 0.2851985, 0.3042289, 0.2686900), (0.0015280, 1.1837088),
     (1.4521720, 1.3235739, 1.3963223, 1.2626238), (0.0068509, 5.4613239)),
    ("fc", "tanh", 1, (1.1778072, 0, 0.5989246, -0.5989246), (0.1368177, 2.4394819),
     (2.1778072, 0, 1.1701275, -1.1701275), (0.1726435, 4.6292583)),
    ("fc", "tanh", 2, (1.1778072, 0, 0.5661475, -0.5661475), (0.1817633, 2.3767063),
     (3.5650371, 0, 1.7023317, -1.7023317), (0.5651914, 7.1724985)),
    ("fc", "tanh", 3, (1.1778072, 0, 0.5342187, -0.5342187), (0.2269594, 2.3150662),
     (5.1989265, 0, 2.1904251, -2.1904251), (1.2306808, 9.8997406)),
    ("res", "softplus", 2, (0.0183362, 0.0123575, 0.0157694, 0.0094198), (2.7859159e-4, None),
     (1.7386792, 1.1083932, 1.4688630, 0.7997790), (0.0282571, 5.2860098)),
    ("res", "softplus", 3, (0.0104529, 0.0076423, 0.0092484, 0.0062543), (1.2945166e-4, None),
     (1.8924257, 1.2636935, 1.6232885, 0.9557997), (0.0282844, 5.8993964)),
    ("res", "tanh", 2, (0.0290252, 0, 0.0139518, -0.0139518), (4.4792677e-3, None),
     (2.2656619, 0, 1.2120788, -1.2120788), (0.1865856, 4.8059796)),
    ("res", "tanh", 3, (0.0129869, 0, 0.0062272, -0.0062272), (2.0254993e-3, None),
     (2.2563395, 0, 1.2075649, -1.2075649), (0.1851928, 4.7871069)),
]  # fmt: skip


@pytest.mark.parametrize("row", REFERENCE, ids=lambda r: f"{r[0]}-{r[1]}-{r[2]}")
def test_reference_values_of_du_to_all_printed_digits(row):
    kind, activation, depth, block, block_ends, total, ends = row
    make = FullyConnected if kind == "fc" else Residual
    found = limit_gram(make(3, 1, depth, get_activation(activation)), X4, by_weight=True)
    last = found.blocks[f"W{depth}"]
    np.testing.assert_allclose(last[0], block, atol=5.1e-8)
    np.testing.assert_allclose(found.matrix[0], total, atol=5.1e-8)
    smallest, largest = np.linalg.eigvalsh(last)[[0, -1]]
    digits = 5.1e-8 if smallest > 5e-3 or block_ends[1] else 5.1e-8 * 10 ** math.floor(math.log10(smallest))
    assert smallest == pytest.approx(block_ends[0], abs=digits)
    if block_ends[1]:
        assert largest == pytest.approx(block_ends[1], abs=5.1e-8)
    np.testing.assert_allclose(np.linalg.eigvalsh(found)[[0, -1]], ends, atol=5.1e-8)


def test_reference_values_of_the_convolutional_network():
    found = limit_gram(ConvResidual(2, 4, 1, 3), XC, by_weight=True)
    upper = np.triu_indices(3)
    expected = {
        "W1": (0.8014558, -0.0922345, 0.2937008, 0.8014558, 0.1274517, 0.9189146),
        "W2": (0.0757822, 0.0526368, 0.0637469, 0.0757822, 0.0594254, 0.0807147),
        "W3": (0.1033017, 0.0784352, 0.0906963, 0.1033017, 0.0860388, 0.1091495),
        "a": (5.8180457, 4.9677640, 5.4072850, 5.8180457, 5.2440663, 6.0415514),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(found.blocks[name][upper], values, atol=5.1e-8)
    np.testing.assert_allclose(np.linalg.eigvalsh(found.blocks["W3"]), (0.0146305, 0.0255294, 0.2755928), atol=5.1e-8)
    np.testing.assert_allclose(np.linalg.eigvalsh(found), (1.0563766, 1.8405316, 17.8505926), atol=5.1e-8)


# ---- a second route: tensor Gauss-Hermite quadrature, written from the recursion of the papers ----------------------

NODES, WEIGHTS = hermegauss(140)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def expect(f, a, b, c):
    """E f(u) f(v) for one pair by a tensor rule."""
    rho = 0.0 if a * b == 0 else np.clip(c / math.sqrt(a * b), -1, 1)
    u = math.sqrt(a) * NODES[:, None]
    v = math.sqrt(b) * (rho * NODES[:, None] + math.sqrt(1 - rho**2) * NODES[None, :])
    return float(np.einsum("i,j,ij->", WEIGHTS, WEIGHTS, np.asarray(f(jnp.asarray(u)) * f(jnp.asarray(v)))))


def by_hand(network, x, printed=()):
    """Du's recursion for vectors, entry by entry; `printed` names misprints to plant."""
    activation, n, depth = network.activation, len(x), network.depth
    residual = isinstance(network, Residual)
    tau = network.c_res / depth if residual else 0.0
    root = math.sqrt(activation.c_sigma)
    s, b = x @ x.T, np.zeros(n)
    history, slopes = [s], []

    def mean(q):
        return float(WEIGHTS @ np.asarray(activation.value(jnp.asarray(math.sqrt(q) * NODES))))

    for h in range(1, depth + 1):
        scale, skip = (root, False) if h == 1 or not residual else (tau, True)
        value, slope = np.zeros((n, n)), np.zeros((n, n))
        mu = np.array([mean(s[i, i]) for i in range(n)])
        for i in range(n):
            for j in range(n):
                value[i, j] = expect(activation.value, s[i, i], s[j, j], s[i, j])
                slope[i, j] = expect(activation.derivative, s[i, i], s[j, j], s[i, j])
        slopes.append((scale, slope))
        pairing = np.outer(b, mu) + np.outer(mu, b)
        if "pairing" in printed:
            pairing = b[:, None] * mu[:, None] + b[None, :] * mu[None, :]
        s = scale**2 * value + (s + scale * pairing if skip else 0)
        b = scale * mu + (b if skip else 0)
        history.append(s)
    blocks, back = {"a": s}, np.ones((n, n))
    for h in range(depth, 0, -1):
        scale, slope = slopes[h - 1]
        if "index" in printed and h == depth:
            slope = slopes[h - 2][1]
        blocks[f"W{h}"] = scale**2 * history[h - 1] * slope * back
        back = back * (scale**2 * slope + (1 if residual and h > 1 else 0))
    return blocks


QUADRATURE = [
    FullyConnected(3, 1, 3, get_activation("sigmoid")),
    Residual(3, 1, 3, get_activation("gelu"), c_res=0.9),
    FullyConnected(3, 1, 2, get_activation("swish")),
    Residual(3, 1, 2, get_activation("softplus"), c_res=0.9),
]


@pytest.mark.parametrize(
    ("network", "norms"),
    [pytest.param(network, np.ones((4, 1)), id=f"unit-{network}") for network in QUADRATURE]
    + [pytest.param(network, NORMS, id=f"unequal-{network}") for network in QUADRATURE[:2]]
    + [pytest.param(network, NORMS, id=f"unequal-{network}", marks=pytest.mark.slow) for network in QUADRATURE[2:]],
)
def test_against_tensor_quadrature(network, norms):
    found = limit_gram(network, X4 * norms, by_weight=True)
    for name, expected in by_hand(network, X4 * norms).items():
        np.testing.assert_allclose(found.blocks[name], expected, atol=2e-9 * np.abs(expected).max())


# ---- the mean of finite networks -----------------------------------------------------------------------------------


def wide(network, width, **changes):
    """The same network at another width."""
    if isinstance(getattr(network, "width", None), tuple):
        width = (width, width + 2, width - 2)[: len(network.width)]
    return replace(network, width=width, **changes)


def means(network, x, seeds):
    """Mean and standard error of the Gram blocks of finite networks."""
    names = tuple(network.laws())
    stacks = {name: [] for name in names}
    for seed in range(seeds):
        for name, block in gram(network, network.init(seed), x, names=names, by_weight=True).blocks.items():
            stacks[name].append(block)
    return {
        name: (np.mean(blocks, axis=0), np.std(blocks, axis=0, ddof=1) / math.sqrt(seeds))
        for name, blocks in stacks.items()
    }


def z_score(found, mean, error):
    """Largest deviation in standard errors; entries that never vary must agree."""
    settled = error < 1e-12 * np.abs(mean).max()
    np.testing.assert_allclose(found[settled], mean[settled], atol=1e-10 * np.abs(mean).max())
    return (np.abs(found - mean)[~settled] / error[~settled]).max(initial=0.0)


def spread_out(network, limit):
    """Repeat the matrix of one output coordinate for all of them."""
    outputs = network.output_shape[-1] if network.output_shape else 1
    return np.kron(limit, np.eye(outputs))


@pytest.mark.parametrize("name", each_network("names", slow=["conv-residual", "deep-rnn", "elman-rnn"]))
def test_mean_of_finite_networks(name, rng):
    width, seeds = (128, 40) if "conv" in name or "rnn" in name else (256, 50)
    network = wide(NETWORKS[name], width)
    x = rng.normal(size=(3, *network.input_shape))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    limit = limit_gram(network, x, names=tuple(network.laws()), by_weight=True)
    scores = {}
    for weight, (mean, error) in means(network, x, seeds).items():
        scores[weight] = z_score(spread_out(network, limit.blocks[weight]), mean, error)
    assert max(scores.values()) < 4, scores


@pytest.mark.parametrize(
    "name",
    each(["residual", "deep-relu", "residual-relu", "elman-rnn", "deep-rnn", "conv-residual"],
         slow=["residual", "conv-residual"]),
)  # fmt: skip
def test_covariance_of_the_outputs(name, rng):
    network = wide(NETWORKS[name], 128)
    x = rng.normal(size=(3, *network.input_shape)) / 2
    outputs = jax.jit(lambda params: network.scored(network.forward(network.linear(params), jnp.asarray(x)).outputs))
    draws = np.stack([outputs(network.as_params(network.init(seed))) for seed in range(300)])
    draws = draws.reshape(300, 3, -1, network.output_shape[-1] if network.output_shape else 1)[..., 0].reshape(300, -1)
    expected = nngp(network, x).matrix
    products = draws[:, :, None] * draws[:, None, :]
    error = products.std(axis=0, ddof=1) / math.sqrt(300)
    assert (np.abs(products.mean(axis=0) - expected) / error).max() < 4


class TestMisprints:
    """The forms printed in Du et al. (2019) are further from the finite networks than chance allows."""

    def test_residual_definition(self):
        """The index of the last block, and the pairing of the means; a strong skip makes both plain."""
        network = Residual(3, 256, 2, get_activation("softplus"), c_res=2.0)
        x = X4 * np.array([4.0, 0.25, 1.0, 2.0])[:, None]
        found = means(network, x, 80)
        right = by_hand(network, x)
        assert z_score(right["W2"], *found["W2"]) < 4
        assert z_score(by_hand(network, x, ("index",))["W2"], *found["W2"]) > 6
        assert z_score(right["a"], *found["a"]) < 4
        assert z_score(by_hand(network, x, ("pairing",))["a"], *found["a"]) > 6

    def test_index_in_the_fully_connected_definition(self):
        network = FullyConnected(3, 256, 2)
        found = means(network, X4 * NORMS, 80)
        assert z_score(by_hand(network, X4 * NORMS)["W2"], *found["W2"]) < 4
        assert z_score(by_hand(network, X4 * NORMS, ("index",))["W2"], *found["W2"]) > 6

    def test_convolutional_definition(self):
        """Definition 7.1 as printed: no factor c_res^2/H^2, the index of A, and the pixel sum on patch level."""
        network = ConvResidual(2, 4, 128, 3)
        mean, error = means(network, XC, 50)["W3"]
        right = limit_gram(network, XC, names=["W3"]).matrix
        assert z_score(right, mean, error) < 4
        assert z_score(right / (network.c_res / 3) ** 2, mean, error) > 6
        earlier = limit_gram(replace(network, depth=2), XC, names=["W2"]).matrix * (2 / 3) ** 2
        assert z_score(earlier, mean, error) > 6


# ---- structure ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_convolution_reduces_to_the_residual_network(rng):
    """One pixel is the residual network; a filter of one pixel is a sum over pixels of residual networks."""
    x = rng.normal(size=(3, 4, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    one = limit_gram(ConvResidual(4, 1, 1, 3), x[:, :, :1], by_weight=True)
    flat = limit_gram(Residual(4, 1, 3), x[:, :, 0], by_weight=True)
    for name in flat.blocks:
        np.testing.assert_allclose(one.blocks[name], flat.blocks[name], atol=1e-11)
    narrow = limit_gram(ConvResidual(4, 2, 1, 3, filter_size=1), x)
    pixels = sum(limit_gram(Residual(4, 1, 3), x[:, :, p]).matrix for p in range(2))
    np.testing.assert_allclose(narrow, pixels, atol=1e-11)


def test_recurrent_kernel_is_the_sum_over_equal_lags(rng):
    """The recursion against the explicit sum over lags with the literal closed forms."""
    length, outputs = 5, 2
    network = ElmanRNN(3, 10, length, outputs, trained=("recurrent", "input", "output"))
    x = rng.normal(size=(3, length, 3))
    n, q = len(x), np.cumsum(np.square(x).sum(axis=2), axis=1)
    forward, kappa = np.zeros((n, length + 1, n, length + 1)), np.zeros((n, length + 1, n, length + 1))
    for a in range(1, length + 1):
        for b in range(1, length + 1):
            for i in range(n):
                for j in range(n):
                    norm = math.sqrt(q[i, a - 1] * q[j, b - 1])
                    angle = math.acos(min(1, (forward[i, a - 1, j, b - 1] + x[i, a - 1] @ x[j, b - 1]) / norm))
                    forward[i, a, j, b] = norm * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / math.pi
                    kappa[i, a, j, b] = (math.pi - angle) / (2 * math.pi)
    expected = {name: np.zeros((n, length, n, length)) for name in "WA"} | {"B": forward[:, 1:, :, 1:]}
    for a in range(1, length + 1):
        for b in range(1, length + 1):
            lag = 10 / outputs * kappa[:, a, :, b]
            for k in range(min(a, b)):
                if k:
                    lag = lag * 2 * kappa[:, a - k, :, b - k]
                expected["A"][:, a - 1, :, b - 1] += lag * (x[:, a - k - 1] @ x[:, b - k - 1].T)
                expected["W"][:, a - 1, :, b - 1] += lag * forward[:, a - k - 1, :, b - k - 1]
    found = limit_gram(network, x, by_weight=True)
    for name, values in expected.items():
        scored = values[:, 1:, :, 1:].reshape(n * (length - 1), -1)
        np.testing.assert_allclose(found.blocks[name], scored, atol=1e-11 * np.abs(scored).max())
    deep = limit_gram(DeepRNN(3, 10, length, 1, outputs), x)
    np.testing.assert_allclose(deep, found.blocks["W"], atol=1e-12 * np.max(deep))


@pytest.mark.parametrize("name", each(["fully-connected", "deep-relu", *DEARER], slow=DEARER))
def test_tiles_and_two_sets_change_nothing(name, rng):
    network = NETWORKS[name]
    x = rng.normal(size=(7, *network.input_shape))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    whole = limit_gram(network, x)
    rows = len(whole.matrix) // 7
    for memory in (40_000, 150_000):
        np.testing.assert_allclose(limit_gram(network, x, memory=memory), whole, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        limit_gram(network, x[:3], x[3:]), whole.matrix[: 3 * rows, 3 * rows :], rtol=1e-12, atol=1e-12
    )


def test_zero_rows_and_antipodes(rng):
    """A zero input has a zero row where the activation vanishes at 0; odd activations give antipodes a null vector."""
    x = np.stack([np.zeros(3), X4[0], -X4[0]])
    tanh = limit_gram(FullyConnected(3, 1, 2, get_activation("tanh")), x)
    np.testing.assert_allclose(tanh.matrix[0], 0, atol=1e-12)
    np.testing.assert_allclose(tanh.matrix[1] + tanh.matrix[2], 0, atol=1e-12)
    relu = limit_gram(NETWORKS["deep-relu"], np.concatenate([np.zeros((1, 5)), np.eye(5)]))
    assert np.all(relu.matrix[0] == 0)
    assert np.linalg.eigvalsh(relu.matrix[1:, 1:])[0] > 0


@pytest.mark.parametrize("name", each(["softplus", "sigmoid", "tanh"], slow=["softplus", "sigmoid"]))
def test_nothing_but_zero_rows(name):
    """All norms are equal and zero: the same as between rows of other norms, which go another way."""
    network = Residual(3, 16, 2, get_activation(name))
    zero = np.zeros((2, 3))
    beside = np.concatenate([zero, np.eye(3)])
    for kernel in (limit_gram, nngp):
        np.testing.assert_allclose(kernel(network, zero), np.asarray(kernel(network, beside))[:2, :2], atol=1e-13)


def test_parallel_patches_of_a_relu_network_are_not_called_independent(rng):
    """A homogeneous network cannot tell x from 1.7 x: the bound covers what rounding makes of the zero eigenvalue."""
    x = rng.normal(size=(6, 2, 5))
    x[1] = 1.7 * x[0]
    found = limit_gram(ConvResidual(2, 5, 1, 2, activation=get_activation("relu")), x)
    assert abs(np.linalg.eigvalsh(found)[0]) < found.error < 1e-5 * found.matrix.max()
    vectors = limit_gram(NETWORKS["residual-relu"], x.reshape(6, 10)[:, :5])
    assert abs(np.linalg.eigvalsh(vectors)[0]) < vectors.error < 1e-10 * vectors.matrix.max()


def test_near_duplicates_keep_their_digits():
    """lambda_min of two points at angle eps is proportional to eps^2 down to where the entries' last digits are."""
    ratios = []
    for angle in (1e-1, 1e-2, 1e-3):
        x = np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])
        found = limit_gram(FullyConnected(2, 1, 2), x, names=["W2"])
        ratios.append(np.linalg.eigvalsh(found)[0] / angle**2)
    # Depth 2, softplus: the ratio tends to 0.0585.
    assert ratios[-1] == pytest.approx(0.0585, abs=1e-4)
    assert ratios[1] == pytest.approx(ratios[2], rel=1e-3)


def test_misuse():
    network = FullyConnected(3, 1, 2)
    with pytest.raises(InputError, match="example 1 has an entry that is not a finite number"):
        limit_gram(network, np.array([[1.0, 0, 0], [np.nan, 0, 0]]))
    with pytest.raises(InputError, match=r"takes examples of shape \(3,\), got a batch of shape \(2, 4\)"):
        limit_gram(network, X4, np.zeros((2, 4)))
    with pytest.raises(InputError, match="memory=100 bytes is too small for one tile"):
        limit_gram(NETWORKS["conv-residual"], np.ones((2, 2, 6)), memory=100)
