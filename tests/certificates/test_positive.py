"""The positive start: a known Gram matrix at every depth and width, and proofs before training of deep networks."""

import numpy as np
import pytest

from tests.certificates.making import Reference, signs, sphere
from wideproof.certificates import Problem, certify, positive, scale_needed
from wideproof.data import Dataset, load
from wideproof.data.preparation import prepare
from wideproof.errors import InputError
from wideproof.networks import DeepReLU, FullyConnected, get_activation
from wideproof_verify import verify

TANH = get_activation("tanh")


@pytest.fixture(scope="module")
def digits():
    return prepare(load("digits", classes=("0", "1"), limit=20), "unit")


@pytest.mark.parametrize("activation", ["tanh", "erf"])
@pytest.mark.parametrize(("width", "depth"), [(2, 1), (3, 4)])
def test_only_the_first_layer_moves_the_outputs_and_the_gram_matrix_is_known(activation, width, depth):
    network = FullyConnected(6, width, depth, activation)
    x = sphere(4, 6, 1)
    reference = Reference(network, positive(network, 3.0), x)
    outputs, jacobian = reference.both(reference.theta)
    assert (outputs == 0).all()
    assert (jacobian[:, width * 6 :] == 0).all()
    known = get_activation(activation)
    slope = {"tanh": 1.0, "erf": 2 / np.sqrt(np.pi)}[activation]
    np.testing.assert_allclose(jacobian @ jacobian.T, 9 * (known.c_sigma * slope**2) ** depth * x @ x.T, rtol=1e-12)


@pytest.mark.parametrize(
    ("width", "depth", "scale", "h"),
    [(2, 3, 6.5e3, 0.498), (8, 10, 3.9e3, 0.491), (8, 2, 1e4, 0.139), (8, 3, 1e4, 0.16)],
)
def test_digits_are_proved_before_training(digits, tmp_path, width, depth, scale, h):
    network = FullyConnected(64, width, depth, TANH)
    attempt = certify(Problem(network, digits).at(positive(network, scale)))
    assert attempt.certificate is not None, str(attempt)
    assert attempt.h == pytest.approx(h, abs=1e-3)
    assert verify(attempt.certificate.save(tmp_path / "certificate")).answer == "proved"


@pytest.mark.parametrize(("width", "depth", "scale"), [(8, 2, 2804), (8, 3, 3228), (2, 10, 7594)])
def test_the_smallest_scale(digits, tmp_path, width, depth, scale):
    found = scale_needed(FullyConnected(64, width, depth, TANH), digits, start="positive")
    least = found.scales[0]
    assert least is not None
    assert least == pytest.approx(scale, rel=1e-3)
    assert all(one.passed == (one.scale >= least) for one in found.tried)
    best = found.attempts[0]
    assert best is not None
    assert best.certificate is not None
    assert best.certificate.about["anchor"] == "the positive initialization"
    assert verify(best.certificate.save(tmp_path / "certificate")).answer == "proved"


def test_dependent_inputs_have_no_scale():
    """More examples than inputs: the Gram matrix is singular at every scale, and the answer says so at once."""
    data = Dataset(sphere(5, 3, 0), signs(5, 0), "binary")
    network = FullyConnected(3, 4, 2, TANH)
    found = scale_needed(network, data, start="positive")
    assert found.scales == (None,)
    assert len(found.tried) == 1
    obstacle = certify(Problem(network, data).at(positive(network))).obstacle
    assert obstacle is not None
    assert obstacle.quantity == "eigenvalue"


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (FullyConnected(3, 4, 2, TANH, outputs=2), "one output"),
        (DeepReLU(3, 4, 2), "fully-connected"),
        (FullyConnected(3, 4, 2), "0 at 0"),
        (FullyConnected(3, 4, 2, get_activation("relu")), "0 at 0"),
    ],
)
def test_what_it_is_not_for(network, words):
    with pytest.raises(InputError, match=words):
        positive(network)


def test_a_start_that_is_not_there():
    data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    with pytest.raises(InputError, match="'doubled' or 'positive'"):
        scale_needed(FullyConnected(3, 4, 1), data, start="negative")  # pyright: ignore[reportArgumentType]
