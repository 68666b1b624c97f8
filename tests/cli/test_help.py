"""Help and listings can be read at 80 columns: no line is longer, and nothing is cut off."""

import itertools

import click
import pytest
import typer.main
from typer.testing import CliRunner

from wideproof.cli import app
from wideproof.training import LOSSES, MarginLoss

GROUP = typer.main.get_command(app)
COMMANDS = sorted(GROUP.commands)  # pyright: ignore[reportAttributeAccessIssue]


def printed(*arguments: str) -> list[str]:
    found = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80", "TERM": "dumb"})
    assert found.exit_code == 0
    return found.output.splitlines()


def command_of(name: str) -> click.Command:
    return GROUP.commands[name]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits(name: str):
    lines = printed(name, "--help")
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]
    words = " ".join(lines).replace(",", " ").split()  # two spellings of an option stand with a comma between them
    for parameter in command_of(name).params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            assert not option.startswith("--") or option in words


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described(name: str):
    for parameter in command_of(name).params:
        assert len(getattr(parameter, "help", None) or "") > 8, parameter.name


@pytest.mark.parametrize("name", COMMANDS)
def test_paragraphs_are_filled(name: str):
    """A sentence goes on to the end of the line; where it does not, a line of the source was taken for one of the help.

    Words that would not have fitted are what ends a line.
    """
    lines = [line.strip() for line in printed(name, "--help")]
    prose = lines[lines.index(next(line for line in lines if line.startswith("Usage"))) + 1 : _first_panel(lines)]
    for line, after in itertools.pairwise(prose):
        if line and after:
            assert len(line) + 1 + len(after.split()[0]) > 78, line


def _first_panel(lines: list[str]) -> int:
    return next(k for k, line in enumerate(lines) if line.startswith("╭"))


def test_the_list_of_commands_fits():
    lines = printed("--help")
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]
    for name in COMMANDS:
        assert any(line.startswith(f"│ {name} ") for line in lines)


@pytest.mark.parametrize("name", ["networks", "losses", "data"])
def test_listings_fit(name: str):
    lines = printed(name)
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]


def test_every_formula_of_a_loss_is_on_one_line():
    lines = printed("losses")
    for loss in LOSSES.values():
        if isinstance(loss, MarginLoss):
            assert [line for line in lines if line.split()[:1] == [loss.name] and loss.formula in line]


@pytest.mark.parametrize("name", COMMANDS)
def test_words_to_choose_from_are_completed_and_in_the_help(name: str):
    """An option that checks its words completes each of them, and its help names each."""
    for parameter in command_of(name).params:
        complete = getattr(parameter, "_custom_shell_complete", None)
        if parameter.callback is None or complete is None:
            continue
        words = [str(getattr(word, "value", word)) for word in complete(None, parameter, "")]
        assert len(words) > 1
        assert all(word in (parameter.help or "") for word in words)  # pyright: ignore[reportAttributeAccessIssue]
        assert {getattr(one, "value", one) for one in complete(None, parameter, words[0])} == {words[0]}


def test_the_shell_is_told_the_words():
    asked = {
        "COMP_WORDS": "wideproof train iris --optimizer ",
        "COMP_CWORD": "4",
        "_WIDEPROOF_COMPLETE": "complete_bash",
    }
    found = CliRunner().invoke(app, [], env=asked, prog_name="wideproof")
    assert found.output.split() == ["plain", "momentum", "nesterov", "adam", "adamw"]
