"""The command line: parse, call one function, print its value.

Exit codes answer the question that was asked: 0 yes, 1 no, 2 could not tell (bad input included); 3 says that a process
of a shared job was lost, 4 that something unexpected happened, 64 that `verify` did not understand its command line,
130 that Ctrl-C ended it (143: SIGTERM).
"""

from __future__ import annotations

import re
import sys
from typing import NoReturn

import typer
from rich.console import Console

from wideproof.cli.audit import audit_command
from wideproof.cli.cache import cache_command
from wideproof.cli.certify import certify_command
from wideproof.cli.check import check_command, cite_command, errata_command
from wideproof.cli.doctor import doctor_command
from wideproof.cli.follow import follow_command
from wideproof.cli.gram import gram_command
from wideproof.cli.lab import lab_command
from wideproof.cli.listing import data_command, losses_command, networks_command
from wideproof.cli.models import models_command
from wideproof.cli.plan import plan_command
from wideproof.cli.prove import predict_command, prove_command
from wideproof.cli.rocq import rocq_command
from wideproof.cli.stopping import INTERRUPTED, Stopped, say_nothing_is_kept
from wideproof.cli.sweep import sweep_command
from wideproof.cli.theorem import theorem_command
from wideproof.cli.train import resume_command, show_command, train_command
from wideproof.cli.verify import VerifyCommand, verify_command
from wideproof.errors import InputError, JobError, MachineError
from wideproof.progress import by_others

UNEXPECTED = 4

app = typer.Typer(
    name="wideproof",
    help="Train wide neural networks, and prove that gradient descent reaches a global minimum.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
PANELS = {
    "Prove": {"prove": prove_command, "follow": follow_command, "certify": certify_command, "verify": verify_command,
              "rocq": rocq_command, "predict": predict_command},
    "Train and measure": {"audit": audit_command, "plan": plan_command, "gram": gram_command, "train": train_command,
                          "resume": resume_command, "show": show_command, "sweep": sweep_command, "lab": lab_command},
    "The papers": {"theorem": theorem_command, "check": check_command, "errata": errata_command, "cite": cite_command},
    "What there is": {"models": models_command, "networks": networks_command, "losses": losses_command,
                      "data": data_command,
                      "doctor": doctor_command, "cache": cache_command},
}  # fmt: skip


def paragraphs(text: str) -> str:
    r"""Return a docstring with one line for each paragraph: the terminal's own width decides where lines end.

    >>> paragraphs("One\n    line.\n\n    Two.")
    'One line.\n\nTwo.'
    """
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


for panel, commands in PANELS.items():
    for name, function in commands.items():
        kind = VerifyCommand if function is verify_command else None
        app.command(name, cls=kind, help=paragraphs(function.__doc__ or ""), rich_help_panel=panel)(function)


@app.callback(invoke_without_command=True)
def begin(
    show: bool = typer.Option(False, "--version", help="Print the version and exit."),
    cache: str | None = typer.Option(
        None, help="Folder for compiled programs, or off (default: in the user's cache folder)."
    ),
) -> None:
    """Show the version, if asked; have compiled programs kept, before JAX is imported."""
    if show:
        from wideproof.version import __version__

        print(__version__)
        raise typer.Exit
    from wideproof.programs import keep

    keep(cache)


def main() -> None:
    """Run the command line; bad input becomes one sentence and exit code 2."""
    try:
        with by_others():
            app()
    except (InputError, MachineError) as error:
        _fail(for_shell(str(error)))
    except JobError as error:
        _fail(str(error), 3)
    except KeyboardInterrupt:
        _interrupted()
    except SystemExit as end:  # Typer makes the code of it that Ctrl-C has
        if end.code != INTERRUPTED or isinstance(end, Stopped):
            raise
        _interrupted()
    except BrokenPipeError:  # the reader of our output went away, as with `| head`
        sys.stderr.close()
        sys.exit(2)
    except OSError as error:  # a path that the system cannot even look at, such as a name that is too long
        _fail(f"cannot use {error.filename or 'a file'}: {error.strerror or error}; choose another path")
    except MemoryError:
        _fail("not enough memory: use fewer rows (--limit) or a smaller network")
    except Exception as error:
        _unexpected(error)


def _interrupted() -> NoReturn:
    say_nothing_is_kept()
    sys.exit(INTERRUPTED)


def _unexpected(error: Exception) -> NoReturn:
    """End with a code of its own: 1 would be an answer."""
    import traceback

    typer.echo("".join(traceback.format_exception(error)), err=True)
    what = f"{type(error).__name__}: {error}"
    _fail(f"unexpected error ({what}): please report it with the lines above and the command", UNEXPECTED)


def _fail(sentence: str, code: int = 2) -> NoReturn:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]error:[/] {_escaped(sentence)}")
    sys.exit(code)


# Arguments of functions that messages name in backticks, and that are options here.
_NAMES = (
    "activation|alpha|batch|budget|classes|depth|header|holdout|keep_ids|kind|limit|margin|missing|network|prepare|seed|"
    "seeds|start|steps|target|task|trained|width"
)


def for_shell(sentence: str) -> str:
    """Return a message with the names of options where it has those of arguments.

    >>> for_shell("choose another column with `target`, or use missing='fill'; prepare with `unit`")
    'choose another column with --target, or use --missing fill; prepare with `unit`'
    >>> for_shell("use `keep_ids`, or `task` 'regression'")
    "use --keep-ids, or --task 'regression'"
    """
    sentence = re.sub(rf"\b({_NAMES})='(\w+)'", r"`\1` \2", sentence)
    return re.sub(rf"`({_NAMES})`", lambda found: f"--{found[1].replace('_', '-')}", sentence)


def _escaped(text: str) -> str:
    """Return the message as one line (a quoted field of a table may hold several) in which brackets are brackets."""
    from rich.markup import escape

    return escape(" ".join(text.splitlines()))
