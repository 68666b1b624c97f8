"""Products without the matrix against the matrix itself, on one device and on several."""

import os
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

from wideproof.errors import InputError
from wideproof.kernels import limit_gram, streamed
from wideproof.kernels.limits import limit_pairs
from wideproof.kernels.streamed import product_between, stream
from wideproof.networks import build

CASES = [("fully-connected", "relu", "unit"), ("fully-connected", "erf", "unit"), ("fully-connected", "tanh", "any"),
         ("residual", "erf", "any")]  # fmt: skip


def problem(rng, network, activation, norms, n=150):
    x = rng.normal(size=(n, 4))
    if norms == "unit":
        x /= np.linalg.norm(x, axis=1)[:, None]
    net = build(network, (4,), (), width=2, depth=2, activation=activation)
    return net, x, rng.normal(size=(n, 2))


@pytest.mark.parametrize(("network", "activation", "norms"), CASES)
def test_the_product_is_that_of_the_matrix(network, activation, norms, rng, monkeypatch):
    monkeypatch.setattr(streamed, "LARGEST_ON_CPU", 64)
    net, x, v = problem(rng, network, activation, norms)
    matrix = limit_gram(net, x).matrix
    kernel, state, (side,), _ = limit_pairs(net, x, on_device=True)
    whole = stream(kernel, state, side)
    assert whole.tiles == 3
    seen = []
    np.testing.assert_allclose(whole.product(v, seen.append), matrix @ v, rtol=1e-12, atol=1e-11)
    assert seen == sorted(seen)
    assert seen[-1] == 1
    some = whole.columns(np.array([3, 70, 149]))
    columns, weight = matrix[:, [3, 70, 149]], rng.uniform(size=len(x))
    np.testing.assert_allclose(some.corner(), columns[[3, 70, 149]], atol=1e-12)
    np.testing.assert_allclose(some.times(v[:3]), columns @ v[:3], atol=1e-12)
    np.testing.assert_allclose(some.transposed_times(v), columns.T @ v, atol=1e-11)
    np.testing.assert_allclose(some.weighted_square(weight), columns.T @ (weight[:, None] * columns), atol=1e-10)


@pytest.mark.parametrize(("network", "activation", "norms"), CASES[:2])
def test_between_two_sets(network, activation, norms, rng, monkeypatch):
    monkeypatch.setattr(streamed, "LARGEST", 16)
    monkeypatch.setattr(streamed, "LARGEST_ON_CPU", 64)
    net, x, v = problem(rng, network, activation, norms)
    kernel, state, sides, _ = limit_pairs(net, x[:40], x, on_device=True)
    np.testing.assert_allclose(
        product_between(kernel, state, sides[0], sides[1], v), limit_gram(net, x).matrix[:40] @ v, atol=1e-11
    )
    none = jax.tree.map(lambda leaf: leaf[:0], sides[0])
    assert product_between(kernel, state, none, sides[1], v).shape == (0, 2)


def test_float32_products_are_off_by_float32(rng):
    net, x, v = problem(rng, "fully-connected", "erf", "unit")
    kernel, state, (side,), _ = limit_pairs(net, x, precision="float32", on_device=True)
    found, matrix = stream(kernel, state, side).product(v), limit_gram(net, x).matrix
    off = np.abs(found - matrix @ v).max() / np.abs(matrix @ v).max()
    assert 1e-9 < off < 1e-5


def test_records_that_do_not_fit(rng):
    net, x, _ = problem(rng, "fully-connected", "erf", "unit")
    kernel, state, (side,), _ = limit_pairs(net, x, on_device=True)
    with pytest.raises(InputError, match=r"150 examples take .* GB .* enough for 0 examples"):
        stream(kernel, state, side, memory=1000)
    enough = stream(kernel, state, side, memory=400_000)
    assert enough.tile < 150


def test_several_devices_share_the_rows():
    script = """
        import jax, numpy as np
        from wideproof.kernels import streamed, limit_gram
        from wideproof.kernels.limits import limit_pairs
        from wideproof.networks import build
        assert jax.device_count() == 3
        streamed.LARGEST_ON_CPU = 64
        rng = np.random.default_rng(0)
        x, v = rng.normal(size=(500, 3)), rng.normal(size=(500, 2))
        net = build("fully-connected", (3,), (), width=2, depth=1, activation="erf")
        kernel, state, (side,), _ = limit_pairs(net, x, on_device=True)
        whole = streamed.stream(kernel, state, side)
        assert whole.tiles == 8 and whole.mesh.size == 3
        wanted = limit_gram(net, x).matrix
        np.testing.assert_allclose(whole.product(v), wanted @ v, atol=1e-10)
        some = whole.columns(np.array([3, 70, 149]))
        np.testing.assert_allclose(some.transposed_times(v), wanted[[3, 70, 149]] @ v, atol=1e-10)
    """
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env={**os.environ, **flags},
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
