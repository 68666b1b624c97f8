"""Gram matrices by threads of NumPy products: the same as by XLA, the same bits from any number of threads."""

import weakref
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from tests.cases import NETWORKS, each
from wideproof.kernels import gram, on_cpu, tiles
from wideproof.kernels.finite import FiniteKernel, finite_kernel
from wideproof.networks import FullyConnected
from wideproof.resources import cores

PLAIN = ["fully-connected", "fully-connected-tanh-outputs", "residual", "conv-residual", "conv-residual-outputs"]


def problem(name, n=9):
    network = NETWORKS[name]
    x = np.random.default_rng(1).normal(size=(n, *network.input_shape))
    return finite_kernel(network, n, network.trained_names, False), network.init(0), jnp.asarray(x)


@pytest.mark.parametrize("name", each(PLAIN, slow=["conv-residual-outputs"]))
def test_the_same_matrix_as_by_xla(name, monkeypatch):
    kernel, params, x = problem(name)
    assert kernel.by_numpy
    monkeypatch.setattr(on_cpu, "LARGEST_TILE", 4 * kernel.product_rows)
    for other in (None, x[:5]):
        by_threads = on_cpu.assemble(kernel, params, x, other)["total"]
        by_xla = np.asarray(tiles.assemble(kernel, params, x, other)["total"])
        np.testing.assert_allclose(by_threads, by_xla, rtol=0, atol=1e-13 * np.abs(by_xla).max())
        if other is None:
            assert (by_threads == by_threads.T).all()


def test_sums_over_pairs_of_places_stay_with_xla():
    assert not problem("elman-rnn", n=50)[0].by_numpy


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    network = FullyConnected(input_dim=3, width=40, depth=2)
    x = np.random.default_rng(0).normal(size=(700, 3))
    found = []
    for count in (1, 2, 7):
        monkeypatch.setattr(on_cpu, "cores", lambda count=count: count)
        found.append(gram(network, network.init(0), x).matrix)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_what_goes_wrong_in_a_thread_is_raised(monkeypatch):
    kernel, params, x = problem("residual")

    def fail(*_):
        raise MemoryError("no room for this block")

    monkeypatch.setattr(FiniteKernel, "block", fail)
    with pytest.raises(MemoryError, match="no room for this block"):
        on_cpu.assemble(kernel, params, x)


def test_records_are_forgotten_when_memory_is_short(monkeypatch):
    kernel, params, x = problem("residual", n=64)
    example, pair = tiles.need(kernel, params, x)
    whole = on_cpu.assemble(kernel, params, x)["total"]
    kept, alive, keep = [], [], FiniteKernel.keep

    def counted(self, record):
        found = keep(self, record)
        kept.append(weakref.ref(found["W1"][0]))
        alive.append(sum(one() is not None for one in kept))
        return found

    monkeypatch.setattr(FiniteKernel, "keep", counted)
    monkeypatch.setattr(on_cpu, "SMALLEST_TILE", 4)
    monkeypatch.setattr(on_cpu, "LARGEST_TILE", 4)
    tight = on_cpu.assemble(kernel, params, x, memory=int(24 * example + 128 * pair))["total"]
    np.testing.assert_allclose(tight, whole, rtol=0, atol=1e-13 * np.abs(whole).max())
    tiles_across = 64 // 4
    assert len(kept) == tiles_across * (tiles_across + 1) // 2  # one a row, and one for each tile left of the diagonal
    # Unfinished work, one job more than threads, has two records each; two more are in hand.
    assert max(alive) <= 2 * (cores() + 1) + 2


def test_two_threads_leave_the_number_of_blas_threads_as_it_was():
    kernel, params, x = problem("residual")
    before = [library["num_threads"] for library in threadpool_info()]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: on_cpu.assemble(kernel, params, x), range(12)))
    assert [library["num_threads"] for library in threadpool_info()] == before
