"""The program `credo`: its commands, and errors as sentences."""

from __future__ import annotations

import errno
import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from credo.cli.commands import COMMANDS, SUBCOMMANDS
from credo.cli.options import flowing

FAILED = 1
"""Exit code for work that did not succeed: a full disk, too little memory, a bug of ours."""

USAGE = 2
"""Exit code for what the user must change: arguments, files, folders."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Trouble with a disk that no other argument would solve."""

DEBUG = "CREDO_DEBUG"
"""The environment variable that makes a bug of ours show where it happened."""


class Sentences(TyperGroup):
    """Turns errors that a user can mend into sentences and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            complain(f"interrupted; {interrupt}" if str(interrupt) else "interrupted; nothing more was written")
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of a pipe has left, which is no error
                raise
            complain(_sentence(error))
            raise typer.Exit(FAILED if error.errno in FULL else USAGE) from None
        except ValueError as error:
            complain(str(error))
            raise typer.Exit(USAGE) from None
        except MemoryError:
            complain("this machine has too little memory for that: give fewer rows or columns")
            raise typer.Exit(FAILED) from None


def complain(text: str) -> None:
    """One sentence on the standard error."""
    print(f"credo: {text}", file=sys.stderr)


def _sentence(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


app = typer.Typer(
    cls=Sentences,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"credo {version('credo')}")
        raise typer.Exit


@app.callback()
def credo(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Neural networks with error bars that can be trusted.

    Every command has a --help of its own, with examples.

    Examples:

        credo fit diabetes.csv --target progression

        credo predict run new.csv -o predictions.csv

        credo reproduce sine --quick
    """


STYLE: Any = {"add_completion": False, "rich_markup_mode": "rich", "pretty_exceptions_enable": False}

for _name, _command in COMMANDS.items():
    if _name != "data":
        app.command(_name, help=flowing(_command))(_command)
        continue
    _group = typer.Typer(**STYLE, no_args_is_help=True)
    _group.callback(help=flowing(_command))(_command)
    for _sub, _subcommand in SUBCOMMANDS.items():
        _group.command(_sub, help=flowing(_subcommand))(_subcommand)
    app.add_typer(_group, name=_name)


def main() -> None:
    """The entry point of the program."""
    try:
        app(prog_name="credo")
    except Exception as error:  # whatever a command does not expect is a bug of ours
        if os.environ.get(DEBUG):
            raise
        complain(f"this should not have happened ({type(error).__name__}: {error}); {DEBUG}=1 shows where it did")
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
