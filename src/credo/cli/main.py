"""The command `credo`: names its subcommands without loading them, and turns errors into sentences."""

from __future__ import annotations

import errno
import importlib
import inspect
import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

COMMANDS = {
    "fit": "Learn from a table, and say how far the predictions can be trusted.",
    "predict": "Predict new rows with error bars, and flag those unlike the training data.",
    "report": "Write the report of a run again.",
    "methods": "What methods there are, what each costs and when to use it.",
    "data": "Data sets by name: list them, or write one to a file.",
    "demo": "Fit a real table, predict rows never seen, draw the sine.",
    "compare": "Hold ten methods against a long run of Hamiltonian Monte Carlo, on one problem.",
    "reproduce": "Repeat a published experiment, and hold our numbers against its claims.",
}
"""Every command and its line of help. The command `name` lives in `credo.cli.name`, which has a typer `app`."""

FAILED = 1
"""Exit code for work that did not succeed: a full disk, too little memory, a mistake of ours."""

USAGE = 2
"""Exit code for what the user must change: arguments, files, folders."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Trouble with a disk that no other argument would mend."""

DEBUG = "CREDO_DEBUG"
"""The environment variable under which a mistake of ours shows where it happened."""


class Lazy(TyperGroup):
    """Knows its commands by name and help; imports the module of one only to run it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, line in COMMANDS.items():
            self.commands[name] = TyperCommand(name, help=line)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, known, rest = super().resolve_command(ctx, args)
        if name is None or known is None:
            return name, known, rest
        found = get_command(importlib.import_module(f"credo.cli.{name}").app)
        for command in (found, *getattr(found, "commands", {}).values()):
            command.help = flowing(command.help or "")
        return name, found, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("interrupted; nothing more was written")
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of a pipe has left, which is nobody's mistake
                raise
            complain(_sentence(error))
            raise typer.Exit(FAILED if error.errno in FULL else USAGE) from None
        except ValueError as error:
            complain(str(error))
            raise typer.Exit(USAGE) from None
        except MemoryError:
            complain("this machine has too little memory for that: give fewer rows or columns")
            raise typer.Exit(FAILED) from None


def flowing(text: str) -> str:
    """Help whose paragraphs are broken by the terminal alone; indented lines, which are examples, stay as they are.

    Example:
        >>> flowing("One\\ntwo.\\n\\n    credo fit")
        'One two.\\n\\n    credo fit'
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else part.replace("\n", " ") for part in paragraphs)


def complain(text: str) -> None:
    """One sentence on the standard error."""
    print(f"credo: {text}", file=sys.stderr)


def _sentence(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


app = typer.Typer(
    cls=Lazy,
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

        credo fit houses.csv --target price

        credo predict run new.csv -o predictions.csv

        credo reproduce sine --quick
    """


def main() -> None:
    """The entry point of the program."""
    try:
        app(prog_name="credo")
    except Exception as error:  # whatever a command does not expect is a mistake of ours
        if os.environ.get(DEBUG):
            raise
        complain(f"this should not have happened ({type(error).__name__}: {error}); {DEBUG}=1 shows where it did")
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
