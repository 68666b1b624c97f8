"""`import wideproof as wp` leads to everything that is public, without importing any of it before it is used."""

import subprocess
import sys
from pathlib import Path

import pytest

import wideproof as wp


def test_every_name_of_the_front_door_is_there():
    for name in dir(wp):
        assert getattr(wp, name) is not None
    assert {"Any", "TYPE_CHECKING", "annotations"} & set(dir(wp)) == set()


def test_every_package_can_be_reached_but_the_command_line():
    packages = {path.parent.name for path in Path(wp.__file__).parent.glob("*/__init__.py")}
    assert packages - set(dir(wp)) == {"cli"}


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'wideproof' has no attribute 'lod'"):
        wp.lod  # pyright: ignore[reportAttributeAccessIssue]


def test_nothing_is_imported_before_it_is_used():
    code = "import sys, wideproof as wp; wp.Dataset; assert 'jax' not in sys.modules"
    code += "; wp.build; assert 'jax' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_type_checkers_see_the_same_names():
    source = Path(wp.__file__).read_text()
    block = source.partition("if _TYPE_CHECKING:")[2].partition("__getattr__")[0]
    seen = {line.split(" as ")[1] for line in block.splitlines() if " as " in line}
    assert seen == set(dir(wp))


@pytest.mark.parametrize("truth", [True, False, None])
def test_three_answers(truth):
    answer = wp.Answer.of(truth)
    assert (answer.truth, bool(answer)) == (truth, truth is True)
    assert answer.exit_code == [True, False, None].index(truth)
    for other in (True, False, None):
        both = False if False in (truth, other) else None if None in (truth, other) else True
        assert wp.Answer.joined([answer, wp.Answer.of(other)]).truth is both
