"""A severe setting: float64 on, no silent broadcasting between ranks; warnings are errors (pyproject)."""

import gc
import os
from pathlib import Path

import jax
import numpy as np
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
MOST_BYTES = 4e9  # of a worker, after a file

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


def resident() -> float:
    """Return the memory that this process has now, in bytes; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0.0


@pytest.fixture(scope="module", autouse=True)
def _programs_do_not_fill_the_memory():
    """Drop compiled programs where a worker has too many of them: a machine with 16 GB runs two workers."""
    yield
    if resident() > MOST_BYTES:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20190512)
