"""Constants are data; here they are derived."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize

from tests.networks.reference import VALUES
from wideproof.errors import InputError
from wideproof.networks import ACTIVATIONS, get_activation
from wideproof.networks.activations import PARTS, RELU, RELU_CLOSED

EVERY = {**ACTIVATIONS, **PARTS}
ALL = pytest.mark.parametrize("activation", EVERY.values(), ids=EVERY)
GRID = np.concatenate([np.linspace(-30, 30, 4001), [-700.0, -50.0, 50.0, 700.0, 1e-300, -1e-9, 1e-9]])


@ALL
def test_value_and_derivative_agree_with_scipy(activation):
    value, slope = VALUES[activation.name]
    z = GRID[np.abs(GRID) < 600] if activation.name == "mish" else GRID
    np.testing.assert_allclose(activation(jnp.asarray(z)), value(z), rtol=1e-14, atol=3e-15)
    np.testing.assert_allclose(jax.vmap(jax.grad(activation))(jnp.asarray(z)), slope(z), rtol=1e-13, atol=3e-15)


@ALL
def test_float32_is_good_to_its_own_precision(activation):
    value, _ = VALUES[activation.name]
    z = np.linspace(-15, 15, 2001, dtype=np.float32)
    found = activation(jnp.asarray(z))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, value(z.astype(np.float64)), rtol=2e-6, atol=1e-6)


# Compilers turn whole registers and their remainders into different code: 67 has both, the others are slow to compile.
SIZES = [67, pytest.param((1, 7, 64, 1003), marks=pytest.mark.slow, id="others")]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("activation", [*ACTIVATIONS.values(), RELU_CLOSED], ids=lambda a: a.name)
def test_compiled_at_every_size(activation, dtype, sizes):
    """A wish for wider vectors made XLA compile an arctan that was off by 1.25, from 64 entries on."""
    value, slope = VALUES["relu" if activation is RELU_CLOSED else activation.name]
    compiled = jax.jit(lambda z: (activation(z), jax.vjp(activation, z)[1](jnp.ones_like(z))[0]))
    tolerance = {"rtol": 32 * np.finfo(dtype).eps, "atol": 16 * np.finfo(dtype).eps}
    for size in np.atleast_1d(sizes):
        z = np.linspace(-6.1, 5, size, dtype=dtype)
        found, derivative = compiled(z)
        assert found.dtype == derivative.dtype == dtype
        np.testing.assert_allclose(found, value(z.astype(np.float64)), **tolerance)
        np.testing.assert_allclose(derivative, slope(z.astype(np.float64)), **tolerance)


@ALL
def test_c_sigma_is_the_inverse_second_moment(activation):
    value, _ = VALUES[activation.name]

    def integrand(z):
        return value(np.float64(z)) ** 2 * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)

    moment = sum(integrate.quad(integrand, a, b, epsabs=1e-14, epsrel=1e-13)[0] for a, b in [(-12, 0), (0, 12)])
    np.testing.assert_allclose(activation.c_sigma, 1 / moment, rtol=1e-12)


def largest(f):
    """The supremum of |f| over the line, from a grid and a local search."""
    z = np.linspace(-8, 8, 160_001)
    best = z[np.argmax(np.abs(f(z)))]
    local = optimize.minimize_scalar(lambda t: -np.abs(f(np.float64(t))), bounds=(best - 1e-3, best + 1e-3))
    return max(np.abs(f(np.float64(local.x))), np.abs(f(z)).max())  # pyright: ignore[reportAttributeAccessIssue]


@ALL
def test_lipschitz_constant_is_sharp(activation):
    _, slope = VALUES[activation.name]
    far = np.abs(slope(np.array([-30.0, 30.0]))).max()
    np.testing.assert_allclose(activation.lipschitz, max(largest(slope), far), rtol=1e-9)


@ALL
def test_smoothness_is_the_lipschitz_constant_of_the_derivative(activation):
    _, slope = VALUES[activation.name]
    z = np.linspace(-8, 8, 160_001)
    quotients = np.abs(np.diff(slope(z))) / np.diff(z)
    if activation.smoothness is None:
        assert not activation.condition_3_1
        assert quotients.max() > 1e3  # the derivative jumps
    else:
        assert activation.condition_3_1
        assert quotients.max() <= activation.smoothness * (1 + 1e-9) + 1e-10
        assert quotients.max() >= activation.smoothness * (1 - 1e-3)


def test_conditions_of_du_et_al():
    analytic = {name for name, a in ACTIVATIONS.items() if a.condition_3_2}
    assert analytic == {"softplus", "sigmoid", "tanh", "erf", "arctan", "sin", "swish", "gelu", "gelu_tanh", "mish"}
    assert {name for name, a in ACTIVATIONS.items() if not a.condition_3_1} == {"relu"}


@ALL
def test_value_at_zero(activation):
    assert activation(jnp.zeros(())).item() == pytest.approx(activation.at_zero, abs=1e-16)


def test_kink_conventions():
    assert jax.grad(RELU)(jnp.zeros(())) == 0
    assert jax.grad(RELU_CLOSED)(jnp.zeros(())) == 1


def test_unknown_activation_lists_the_known():
    with pytest.raises(InputError, match=r"no activation 'reluu': choose one of softplus"):
        get_activation("reluu")
