"""The catalogue of losses: values, slopes and every constant, on a grid and in closed form."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.special import expit, log_ndtr

from wideproof.errors import InputError
from wideproof.training import Objective
from wideproof.training.losses import CROSS_ENTROPY, LOSSES, CrossEntropy, MarginLoss, canonical, get_loss, power_hinge

MARGIN = [loss for loss in LOSSES.values() if isinstance(loss, MarginLoss)]
MARGIN += [power_hinge(1.5), power_hinge(2.0), power_hinge(3.0), canonical(0.25), canonical(0.5), canonical(0.75)]
MARGIN += [canonical(1.0)]
ALL = pytest.mark.parametrize("loss", MARGIN, ids=lambda loss: loss.name)
Z = np.concatenate([np.linspace(-20, 20, 8001), np.linspace(-0.01, 0.01, 201), np.linspace(0.99, 1.01, 201)])
TINY = 1e-12


def short(z):
    return np.maximum(1 - z, 0)


EXPECTED = {
    "logistic": lambda z: np.logaddexp(0, -z),
    "exponential": lambda z: np.exp(-z),
    "exp_linear": lambda z: np.where(z < 0, 1 - z, np.exp(-z)),
    "hinge": short,
    "squared_hinge": lambda z: short(z) ** 2,
    "half_squared_hinge": lambda z: short(z) ** 2 / 2,
    "huber_hinge": lambda z: np.select([z >= 1, z > 0], [0 * z, short(z) ** 2 / 2], 0.5 - z),
    "probit": lambda z: -log_ndtr(z),
    "sigmoid": lambda z: expit(-z),
    "power_hinge(1.5)": lambda z: short(z) ** 1.5,
    "power_hinge(2)": lambda z: short(z) ** 2,
    "power_hinge(3)": lambda z: short(z) ** 3,
    "canonical(0.25)": lambda z: np.where(z < 0, 1 - z, np.maximum(1 - 0.75 * z, 0) ** (4 / 3)),
    "canonical(0.5)": lambda z: np.where(z < 0, 1 - z, np.maximum(1 - z / 2, 0) ** 2),
    "canonical(0.75)": lambda z: np.where(z < 0, 1 - z, np.maximum(1 - z / 4, 0) ** 4),
    "canonical(1)": lambda z: np.where(z < 0, 1 - z, np.exp(-z)),
}


@ALL
def test_values(loss):
    np.testing.assert_allclose(loss.value(jnp.asarray(Z)), EXPECTED[loss.name](Z), rtol=2e-13, atol=1e-300)
    assert loss.value(jnp.zeros(())).item() == pytest.approx(loss.at_zero, rel=1e-15)


@ALL
def test_derivative_is_that_of_the_value(loss):
    z = Z[np.min(np.abs(Z[:, None] - np.array([0.0, 1.0, -5.0])), axis=1) > 1e-3]  # kinks and joints aside
    slopes = jax.vmap(jax.grad(loss.value))(jnp.asarray(z))
    np.testing.assert_allclose(loss.derivative(jnp.asarray(z)), slopes, rtol=1e-10, atol=1e-13)


@ALL
def test_assumption_3_1_falls_to_zero(loss):
    slope = np.asarray(loss.derivative(jnp.asarray(Z)))
    assert loss.meets("3.1")
    assert (slope <= 0).all()
    far = jnp.asarray([60.0, 700.0])
    assert (np.abs(loss.value(far)) < 1e-20).all()
    assert (np.abs(loss.derivative(far)) < 1e-20).all()


@ALL
def test_assumption_3_2_and_4_4_hold_with_the_constants_or_fail(loss):
    value, slope = np.asarray(loss.value(jnp.asarray(Z))), -np.asarray(loss.derivative(jnp.asarray(Z)))
    if not loss.meets("3.2"):
        assert value.max() < 1.0 + TINY  # bounded losses cannot meet it
        return
    powered = np.where(value > 0, value, 0) ** loss.p
    powered[value <= 0] = 0
    lower = np.minimum(loss.alpha0, loss.alpha1 * powered)
    assert (slope >= lower * (1 - 1e-12) - TINY).all()
    slack = 0.03 if loss.name == "probit" else 1e-3  # probit: -l' = 1.02 where l = 1; the others attain their constants
    assert (slope <= lower * (1 + slack)).any()
    if loss.meets("4.4"):
        upper = np.minimum(loss.rho0, loss.rho1 * powered)
        assert (slope <= upper * (1 + 1e-12) + TINY).all()
    else:
        wide = jnp.concatenate([jnp.asarray(Z), jnp.linspace(0.9999, 1.0, 50)[:-1], jnp.linspace(20, 36, 50)])
        big, steep = np.asarray(loss.value(wide)), -np.asarray(loss.derivative(wide))
        seen = big > 0
        assert (steep[seen] / big[seen] ** loss.p).max() > 5  # no constant near those of the others would do


@ALL
def test_assumption_3_3_smoothness_is_sharp_or_absent(loss):
    z = np.linspace(-30, 30, 600_001)
    slope = np.asarray(loss.derivative(jnp.asarray(z)))
    quotient = np.abs(np.diff(slope)).max() / (z[1] - z[0])
    if loss.smoothness is None:
        assert quotient > 20
    elif loss.name == "probit":
        assert quotient <= 1 + 1e-9  # approached only at minus infinity
        assert quotient > 0.99
    else:
        assert quotient <= loss.smoothness * (1 + 1e-6)
        assert quotient >= loss.smoothness * (1 - 1e-3)


def test_which_losses_meet_what():
    meets = {a: {loss.name for loss in MARGIN if loss.meets(a)} for a in ("3.2", "3.3", "4.4")}
    assert "sigmoid" not in meets["3.2"]
    assert {"exponential", "hinge", "power_hinge(3)", "canonical(0.25)"}.isdisjoint(meets["3.3"])
    assert {"hinge", "probit", "sigmoid"}.isdisjoint(meets["4.4"])
    with pytest.raises(InputError, match=r"3.1, 3.2, 3.3 or 4.4"):
        MARGIN[0].meets("9.9")


def test_stable_far_out():
    logistic = get_loss("logistic")
    assert isinstance(logistic, MarginLoss)
    z = jnp.asarray([-1e4, 1e4, 745.0])
    np.testing.assert_allclose(logistic.value(z), [1e4, 0.0, 0.0], atol=1e-320)
    np.testing.assert_allclose(logistic.derivative(z), [-1.0, 0.0, 0.0], atol=1e-320)
    probit = get_loss("probit")
    assert isinstance(probit, MarginLoss)
    np.testing.assert_allclose(probit.derivative(jnp.asarray([-1e3])), [-1e3], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("logistik", "no loss 'logistik': choose one of squared, logistic"),
        (
            "softmax",
            "no loss 'softmax': use 'cross_entropy', softmax cross-entropy over all classes; 'logistic' is the same",
        ),
        ("Cross-Entropy", "use 'cross_entropy'"),
        ("BCEWithLogits", r"use 'logistic', .* cross-entropy for two classes and one output"),
        ("mse", "use 'squared', half the sum of squares"),
        ("canonical(2)", "0 < p <= 1, got 2"),
        ("canonical(x)", "takes a number in parentheses, got 'x'"),
        ("power_hinge(1)", "q > 1, got 1"),
    ],
)
def test_bad_names(name, message):
    with pytest.raises(InputError, match=message):
        get_loss(name)


class TestCrossEntropy:
    RNG = np.random.default_rng(7)
    OUTPUTS, LABELS = RNG.normal(size=(40, 5)) * 4, RNG.integers(0, 5, 40)
    SIGNS = np.where(LABELS[:, None] == np.arange(5), 1.0, -1.0)

    @pytest.mark.parametrize("smoothing", [0.0, 0.3])
    def test_against_long_precision(self, smoothing):
        loss = CrossEntropy(smoothing)
        outputs = np.vstack(
            [self.OUTPUTS, [[0, 0, 0, 0, 0], [800, 0, 0, 0, -800], [60, 1, 2, 3, 4], [0, 0, 60, 60, 0]]]
        )
        labels = np.append(self.LABELS, [0, 0, 0, 2])
        signs = np.where(labels[:, None] == np.arange(5), 1.0, -1.0)
        f, y = jnp.asarray(outputs, float), jnp.asarray(signs)
        value, slope = loss.value(f, y), loss.derivative(f, y)
        with mpmath.workdps(800):
            for i, (row, own) in enumerate(zip(outputs, labels, strict=True)):
                e = [mpmath.exp(mpmath.mpf(v)) for v in row]
                q = [(1 - smoothing) * (c == own) + mpmath.mpf(smoothing) / 5 for c in range(5)]
                p = [v / sum(e) for v in e]
                true = -sum(a * mpmath.log(b) for a, b in zip(q, p, strict=True) if a)
                assert float(value[i]) == pytest.approx(float(true), rel=1e-14, abs=1e-300)
                for c in range(5):
                    off = 1e-13 * abs(float(p[c] - q[c])) + (2e-16 if smoothing else 1e-300)
                    assert abs(float(slope[i, c]) - float(p[c] - q[c])) <= off

    def test_derivative_is_that_of_the_value(self):
        loss = CrossEntropy(0.2)
        slopes = jax.grad(lambda f: loss.value(f, jnp.asarray(self.SIGNS)).sum())(jnp.asarray(self.OUTPUTS))
        np.testing.assert_allclose(
            loss.derivative(jnp.asarray(self.OUTPUTS), jnp.asarray(self.SIGNS)), slopes, rtol=1e-12, atol=1e-15
        )

    def test_one_output_is_the_logistic_loss(self):
        y, f = jnp.asarray(self.SIGNS[:, 0]), jnp.asarray(self.OUTPUTS[:, 0])
        logistic = get_loss("logistic")
        assert isinstance(logistic, MarginLoss)
        for shape in ((-1,), (-1, 1)):
            np.testing.assert_allclose(
                np.ravel(CROSS_ENTROPY.value(f.reshape(shape), y.reshape(shape))), logistic.value(y * f), rtol=1e-14
            )
            slope = CROSS_ENTROPY.derivative(f.reshape(shape), y.reshape(shape))
            np.testing.assert_allclose(np.ravel(slope), y * logistic.derivative(y * f), rtol=1e-14)

    def test_signs_and_shares_are_the_same_labels(self):
        f, signs = jnp.asarray(self.OUTPUTS), jnp.asarray(self.SIGNS)
        assert (CROSS_ENTROPY.value(f, signs) == CROSS_ENTROPY.value(f, jnp.maximum(signs, 0))).all()

    def test_its_bend_is_sharp(self):
        """A half for two equal classes, a quarter for one output, and no direction in which it is more."""

        def hessian(f, y):
            return np.asarray(
                jax.hessian(lambda f: CROSS_ENTROPY.value(f[None], jnp.asarray(y)[None])[0])(jnp.asarray(f))
            )

        two = np.array([1.0, -1.0])
        assert np.linalg.norm(hessian(np.zeros(2), two), 2) == pytest.approx(CROSS_ENTROPY.smoothness)
        assert hessian(np.zeros(1), np.ones(1))[0, 0] == pytest.approx(
            Objective(CROSS_ENTROPY, "mean").curvature(1, True)
        )
        for row, signs in zip(self.OUTPUTS / 4, self.SIGNS, strict=True):
            assert np.linalg.norm(hessian(row, signs), 2) <= 0.5
