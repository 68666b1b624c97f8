"""Gram matrices by threads of NumPy products: the same as by XLA, the same bits from any number of threads."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import NETWORKS
from wideproof.kernels import gram, host, tiles
from wideproof.kernels.finite import FiniteKernel, finite_kernel
from wideproof.networks import FullyConnected

PLAIN = ["fully-connected", "fully-connected-tanh-outputs", "residual", "conv-residual", "conv-residual-outputs"]


def problem(name, n=9):
    network = NETWORKS[name]
    x = np.random.default_rng(1).normal(size=(n, *network.input_shape))
    return finite_kernel(network, n, network.trained_names, False), network.init(0), jnp.asarray(x)


@pytest.mark.parametrize("name", PLAIN)
def test_the_same_matrix_as_by_xla(name, monkeypatch):
    kernel, params, x = problem(name)
    assert kernel.host
    monkeypatch.setattr(host, "LARGEST_TILE", 4 * kernel.product_rows)
    for other in (None, x[:5]):
        by_threads = host.assemble(kernel, params, x, other)["total"]
        by_xla = np.asarray(tiles.assemble(kernel, params, x, other)["total"])
        np.testing.assert_allclose(by_threads, by_xla, rtol=0, atol=1e-13 * np.abs(by_xla).max())
        if other is None:
            assert (by_threads == by_threads.T).all()


def test_sums_over_pairs_of_places_stay_with_xla():
    assert not problem("elman-rnn", n=50)[0].host


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    network = FullyConnected(input_dim=3, width=40, depth=2)
    x = np.random.default_rng(0).normal(size=(700, 3))
    found = []
    for cores in ({0}, {0, 1}, set(range(7))):
        monkeypatch.setattr(host.os, "sched_getaffinity", lambda _, cores=cores: cores, raising=False)
        found.append(gram(network, network.init(0), x).matrix)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_what_goes_wrong_in_a_thread_is_raised(monkeypatch):
    kernel, params, x = problem("residual")

    def fail(*_):
        raise MemoryError("no room for this block")

    monkeypatch.setattr(FiniteKernel, "block", fail)
    with pytest.raises(MemoryError, match="no room for this block"):
        host.assemble(kernel, params, x)
