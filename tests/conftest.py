"""A severe setting: float64 on, no silent broadcasting between ranks; warnings are errors (pyproject)."""

import gc
import os

import jax
import numpy as np
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
os.environ.setdefault("WIDEPROOF_CACHE", "off")  # no test leaves anything in the user's cache folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep each file in one worker, where fixtures and programs are made once; mark doctests that say `# slow`."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
        if isinstance(item, pytest.DoctestItem) and any("# slow" in line.source for line in item.dtest.examples):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what lives to the end: thousands of tests, programs and their modules."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20190512)
