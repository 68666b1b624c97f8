"""One server for all tests that need one, and a bench for each that does not."""

import pytest

from tests.lab.benching import SETTINGS, Heard
from tests.lab.tools import serving
from wideproof.lab.bench import Bench


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def bench(heard, tmp_path):
    made = Bench(heard, tmp_path / "uploads", tmp_path / "work")
    made.do({"do": "configure", "settings": SETTINGS})
    assert [kind for kind, *_ in heard] == ["busy", "data", "network", "forecast", "look", "field", "ready"]
    yield made
    made.close()
