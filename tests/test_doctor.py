"""The doctor finds nothing on a sound machine, and names what was planted."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from tests.cli.conftest import cli as cli
from wideproof import doctor


@pytest.fixture(scope="module")
def sound():
    return doctor.examine()


@pytest.fixture
def quick(monkeypatch):
    """Only what is planted, and the quick rest."""
    monkeypatch.setattr(doctor, "_activations", list)
    monkeypatch.setattr(doctor, "LENGTHS", (7, 67))
    monkeypatch.setattr(doctor, "FUNCTIONS", {name: doctor.FUNCTIONS[name] for name in ("sqrt", "arctan")})


@pytest.mark.slow
def test_a_sound_machine(sound):
    assert sound.wrong == ()
    assert {finding.what for finding in sound.findings} >= {*doctor.FUNCTIONS, "matrix product", "Cholesky factor"}
    assert {finding.precision for finding in sound.findings} == {"float64", "float32"}
    assert sound.versions["jaxlib"]
    assert sound.machine["cores"] >= 1
    (root,) = [f for f in sound.findings if (f.what, f.by) == ("sqrt", "NumPy")]
    assert root.error <= 0.5  # IEEE rounds the square root correctly: the references and the units are right


def test_references_are_exact_to_twice_the_digits():
    high, low = doctor._exact(lambda z: z.exp(), np.array([1.0]))
    assert high[0] == np.e
    assert low[0] == pytest.approx(1.4456468917292502e-16, rel=1e-12)


@pytest.mark.usefixtures("quick")
def test_a_wrong_function_is_named(cli, monkeypatch):
    """Wrong for long vectors only, as the compiler's own fault was."""
    arctan = doctor.FUNCTIONS["arctan"]

    def wrong(z):
        return jnp.where((z > 1) & (z.size >= 64), jnp.pi / 2, jnp.arctan(z))

    monkeypatch.setitem(doctor.FUNCTIONS, "arctan", arctan._replace(compiled=wrong))
    shown = cli("doctor")
    assert shown.code == 1
    assert "wrong: arctan by XLA in float64, off by" in shown.out
    assert "Do not trust results of this machine" in shown.out
    answer = cli("doctor", "--json")
    assert answer.code == 1
    found = json.loads(answer.out)
    assert not found["right"]
    assert {f["what"] for f in found["findings"] if not f["right"]} == {"arctan"}


@pytest.mark.usefixtures("quick")
def test_wrong_products_factors_and_draws_are_named(cli, monkeypatch):
    right = np.matmul
    monkeypatch.setattr(np, "matmul", lambda a, b: right(a, b) + 1)
    monkeypatch.setattr(doctor, "factor", lambda matrix: True)
    monkeypatch.setattr(doctor, "BITS", 1)
    assert {f.what for f in doctor.examine().wrong} == {"matrix product", "Cholesky factor", "normal draws"}


@pytest.mark.usefixtures("quick")
def test_the_command_says_that_all_is_right(cli):
    shown = cli("doctor")
    assert (shown.code, shown.err) == (0, "")
    assert "All is right." in shown.out
    assert "jaxlib" in shown.out
