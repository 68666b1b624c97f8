"""Outside the float64 scope, where users are: the functions open it themselves. (The other tests run inside of it.)"""

import jax
import numpy as np
import pytest

from tests.certificates.making import TINY, problem
from wideproof.certificates import Problem, certify, fit_read_out, polish, pull, residual_of
from wideproof.data import Dataset
from wideproof.planning.measured import measured

NETWORK = next(network for network in TINY.values() if network.output_shape == () and network.data_kind == "vectors")
CALLS = {
    "residual_of": lambda params, x, y: residual_of(NETWORK, params, x, y),
    "pull": lambda params, x, y: pull(NETWORK, params, x, y)[NETWORK.trained_names[0]],
    "polish": lambda params, x, y: polish(NETWORK, params, x, y, steps=2).params[NETWORK.trained_names[0]],
    "fit_read_out": lambda params, x, y: getattr(fit_read_out(NETWORK, params, x, y), "residuals", (0.0,)),
    "certify": lambda params, x, y: certify(Problem(NETWORK, Dataset(x, y, "regression")).at(params)).h,
    "measured": lambda params, x, y: measured(NETWORK, Dataset(x, y, "regression"), 0).eigenvalues,
}


@pytest.mark.parametrize("name", CALLS)
def test_float64_decides_whatever_the_session_says(name):
    params, x, y = problem(NETWORK)
    inside = np.asarray(CALLS[name](params, x, y))
    with jax.enable_x64(False):  # a truncated dtype warns, and warnings are errors
        outside = np.asarray(CALLS[name](params, x, y))
    assert outside.dtype == np.float64
    np.testing.assert_array_equal(outside, inside)
