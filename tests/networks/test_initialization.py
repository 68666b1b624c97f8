"""The laws of the start, in standard errors with fixed seeds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.cases import NETWORKS
from wideproof.networks import DeepReLU, ElmanRNN, FullyConnected, ResidualReLU
from wideproof.networks.base import Gaussian
from wideproof.precision import double

LIMIT = 4.5  # standard errors; with about 60 comparisons a true law passes with probability above 0.9995


def over_seeds(measure, seeds):
    """Evaluate a function of a key for many independent keys, in one compiled call."""
    keys = jax.random.split(jax.random.key(12), seeds)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(measure))(keys))


def z_of_mean(samples, mean):
    return (np.mean(samples) - mean) / (np.std(samples, ddof=1) / np.sqrt(len(samples)))


def z_of_variance(samples, variance):
    """How many standard errors the second moment about 0 is from `variance`."""
    return z_of_mean(np.square(samples), variance)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_entries_have_the_variance_of_the_paper(network):
    m = getattr(network, "width", 0)
    draws = [network.init(seed) for seed in range(40)]
    for name, first in draws[0].items():
        entries = np.concatenate([draw[name].ravel() for draw in draws])
        if name == "v":
            assert (entries.reshape(40, -1) == first).all()
            assert first.sum() == 0
            assert set(np.unique(first)) == {-1.0, 1.0}
            continue
        if network.name in ("fully-connected", "residual", "conv-residual"):
            variance = 1.0
        elif network.name in ("deep-relu", "residual-relu"):
            variance = 2 / first.shape[1]
        else:
            variance = 1 / network.outputs if name == "B" else 2 / m
        assert abs(z_of_mean(entries, 0.0)) < LIMIT, name
        assert abs(z_of_variance(entries, variance)) < LIMIT, name
        assert stats.kstest(entries / np.sqrt(variance), "norm").pvalue > 1e-6, name


def test_zou_norm_law_is_two_over_m_chi_square_of_a_binomial():
    r"""‖x_l‖²/‖x_{l-1}‖² is (2/m) χ²_N with N ~ Binomial(m, 1/2): mean 1, variance 5/m, exactly at finite width."""
    m, seeds = 32, 3000
    network = DeepReLU(4, m, 2)
    x = np.full((1, 4), 0.5)

    def norms(key):
        first, second = (jnp.sum(f**2) for f in network.features(network.init(key), x))
        return jnp.stack([first, second / first])

    ratios = over_seeds(norms, seeds).ravel()
    assert abs(z_of_mean(ratios, 1.0)) < LIMIT
    assert abs(z_of_mean((ratios - 1) ** 2, 5 / m)) < LIMIT
    counts = np.arange(m + 1)

    def law(t):
        tails = np.where(counts[:, None] == 0, 1.0, stats.chi2.cdf(t * m / 2, np.maximum(counts, 1)[:, None]))
        return stats.binom.pmf(counts, m, 0.5) @ tails

    assert stats.kstest(ratios, law).pvalue > 1e-4
    # the planted violation: fan-in scaling of the first layer, which is what libraries call He initialization
    assert stats.kstest(ratios * 8 / 4, law).pvalue < 1e-10


@pytest.mark.parametrize("kind", [DeepReLU, ResidualReLU])
def test_variance_of_the_first_output_is_one_minus_one_over_pi(kind):
    r"""Given the last hidden features but one, E ŷ = 0 and Var ŷ = (1 - 1/π) ‖x_{L-1}‖² for balanced signs."""
    network = kind(4, 64, 2)
    x = np.full((1, 4), 0.5)

    def output(key):
        params = network.init(key)
        return network(params, x)[0] / jnp.linalg.norm(network.features(params, x)[-2])

    scaled = over_seeds(output, 3000)
    assert abs(z_of_mean(scaled, 0.0)) < LIMIT
    assert abs(z_of_variance(scaled, 1 - 1 / np.pi)) < LIMIT
    assert abs(z_of_variance(scaled, 1.0)) > 10  # what random signs would give


def test_du_norms_stay_at_one():
    """c_sigma keeps E‖x^(h)‖² near 1: exactly for the first layer."""
    network = FullyConnected(4, 64, 3)
    x = np.full((1, 4), 0.5)
    first = over_seeds(lambda key: jnp.sum(network.features(network.init(key), x)[0] ** 2), 1000)
    assert abs(z_of_mean(first, 1.0)) < LIMIT


def test_recurrent_norms_follow_the_tokens():
    """E‖h_l‖² = Σ_{j<=l} ‖x_j‖² in the limit; at l = 1 exactly, later within the bias of order 1/m."""
    network = ElmanRNN(3, 256, 4)
    x = np.zeros((1, 4, 3))
    x[0, :, 0] = 1.0
    x[0, 2] *= 0.5
    squares = over_seeds(lambda key: jnp.sum(network.features(network.init(key), x)[0][0] ** 2, axis=1), 400)
    assert abs(z_of_mean(squares[:, 0], 1.0)) < LIMIT
    np.testing.assert_allclose(squares.mean(axis=0), [1.0, 2.0, 2.25, 3.25], rtol=0.05)


def test_seeds_decide_and_precisions_share_the_draw():
    network = NETWORKS["residual"]
    again, other, single = network.init(7), network.init(8), network.init(7, "float32")
    for name, weight in network.init(7).items():
        assert (weight == again[name]).all()
        assert (weight != other[name]).all()
        assert single[name].dtype == np.float32
        assert (weight.astype(np.float32) == single[name]).all()


@pytest.mark.parametrize("kind", ["deep-relu", "elman-rnn"])
@double
def test_a_start_is_jax_s_own_draw_and_the_same_inside_a_trace(kind):
    """However long the draw that the entries are cut from, and whatever program it is part of."""
    network, keys = NETWORKS[kind], jax.random.split(jax.random.key(3), 2)
    drawn, traced, batched = network.init(keys[1]), jax.jit(network.init)(keys[1]), jax.vmap(network.init)(keys)
    for i, (name, law) in enumerate(network.laws().items()):
        np.testing.assert_array_equal(traced[name], drawn[name])
        np.testing.assert_array_equal(batched[name][1], drawn[name])
        if isinstance(law, Gaussian):
            own = jax.random.normal(jax.random.fold_in(keys[1], i), law.shape, jnp.float64)
            np.testing.assert_array_equal(np.sqrt(law.variance) * np.asarray(own), drawn[name])


@double
def test_a_long_start_is_jax_s_own_draw_too():
    network = FullyConnected(3, 300, 2)
    key = jax.random.fold_in(jax.random.key(0), 1)
    np.testing.assert_array_equal(network.init(0)["W2"], jax.random.normal(key, (300, 300), jnp.float64))
