"""A severe setting: float64 on, no silent broadcasting between ranks; warnings are errors (pyproject)."""

import jax
import numpy as np
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20190512)
