"""Norms of convolutions and of whole products of layers, against dense matrices and dense derivatives."""

import dataclasses

import numpy as np
import pytest

from tests.certificates.making import TINY, Reference, at, problem
from tests.networks.derivatives import Derivatives
from wideproof.certificates.enclosure import exact
from wideproof.certificates.lipschitz import lipschitz
from wideproof.certificates.passes import reading
from wideproof.certificates.tangents import Tangents, operator_norm
from wideproof.networks.maps import same

SHAPES = [(4, 3, 3, 6), (3, 4, 5, 3), (5, 2, 7, 2), (3, 3, 3, 1), (2, 2, 5, 40)]  # units, channels, window, pixels


def unrolled(weight, window, pixels):
    """The matrix of x -> M phi(x), by its columns."""
    size = pixels * weight.shape[1] // window
    images = exact(np.eye(size).reshape(size, pixels, -1), False)
    return (reading(images, same((pixels,), window), pixels).mid @ weight.T).reshape(size, -1).T


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_convolution_is_no_longer_than_on_the_circle(rng, shape, tracked):
    units, channels, window, pixels = shape
    for _ in range(20):
        weight = rng.standard_normal((units, channels * window))
        truth = np.linalg.norm(unrolled(weight, window, pixels), 2)
        found = operator_norm(weight, same((pixels,), window), tracked)
        assert truth * (1 - 1e-12) <= found <= np.sqrt(window) * np.linalg.norm(weight, 2) * (1 + 1e-6)
        assert pixels < window or found <= 1.6 * truth  # half of it would be too little


def test_it_is_sharp_on_long_images(rng):
    """The gap closes like one over the square of the length; the root of the window times the norm stays above."""
    weight = rng.standard_normal((4, 9))
    truth = np.linalg.norm(unrolled(weight, 3, 60), 2)
    assert operator_norm(weight, same((60,), 3), True) < 1.01 * truth
    assert np.sqrt(3) * np.linalg.norm(weight, 2) > 1.1 * truth


def test_the_shortest_circle_that_is_allowed_matters():
    """On a circle of as many pixels as the image has, an edge would meet the other edge."""
    weight = np.array([[1.0, 0.0, -1.0]])  # on two pixels (b, -a): a rotation; on a circle of two pixels: zero
    assert operator_norm(weight, same((2,), 3), True) >= 1


def jacobian_norms(network, params, x):
    """The norm of the derivative of every hidden value by every trained array, of each example: layers x n x arrays."""
    run = Derivatives(network, x)
    layers = [run.hidden(params, k) for k in range(len(run.layers))]
    norms = [[np.linalg.norm(layer[name].reshape(*layer[name].shape[:2], -1).swapaxes(0, 1), 2, axis=(1, 2))
              for name in network.trained_names] for layer in layers]  # fmt: skip
    return np.array(norms).transpose(0, 2, 1)


@pytest.mark.parametrize("name", TINY)
def test_values_move_as_backward_passes_say(name):
    network = TINY[name]
    params, x, y = problem(network)
    found = at(network, params, x, y, sharp=True).tangents
    assert found is not None
    truth = jacobian_norms(network, params, x)
    assert np.all(np.stack(found.x) >= truth * (1 - 1e-9))
    np.testing.assert_allclose(np.stack(found.x), truth, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", TINY)
def test_all_examples_together(name, rng):
    """Between the longest example and the root of the sum of squares, and above what directions really do."""
    network = TINY[name]
    params, x, y = problem(network)
    found = at(network, params, x, y, sharp=True).tangents
    assert found is not None
    for whole, each in ((found.all_x, found.x), (found.all_z, found.z)):
        for k in range(len(each)):
            assert np.all(whole[k][0] >= each[k].max(axis=0) * (1 - 1e-6))
            assert np.all(whole[k][0] <= np.sqrt(np.square(each[k]).sum(axis=0)) * (1 + 1e-6))


def shrunk(anchor, which):
    """The anchor with one kind of norm halved."""
    if which == "tangents":
        assert anchor.tangents is not None
        halves = Tangents(*(tuple(0.5 * a for a in part) for part in anchor.tangents))
        return dataclasses.replace(anchor, tangents=halves)
    return dataclasses.replace(anchor, g2=tuple(0.5 * g for g in anchor.g2), b2=tuple(0.5 * b for b in anchor.b2))


@pytest.mark.parametrize(
    ("name", "which"),
    [
        ("deep-relu", "tangents"),
        ("residual-relu", "tangents"),
        ("deep-relu", "gains"),
        ("elman-rnn", "gains"),
    ],
)
def test_a_halved_norm_is_caught(name, which):
    """The bound falls below the truth: the comparisons with second derivatives can fail."""
    network = TINY[name]
    params, x, y = problem(network)
    reference = Reference(network, params, x)
    anchor = at(network, params, x, y, sharp=True)
    truth = reference.curvature(reference.theta)
    assert lipschitz(anchor, 0.0).value >= truth
    assert lipschitz(shrunk(anchor, which), 0.0).value < truth
