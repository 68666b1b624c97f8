"""One server for all tests that need one."""

import pytest

from tests.lab.tools import serving


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("lab")) as server:
        yield server
