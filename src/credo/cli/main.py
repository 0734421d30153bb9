"""The command `credo`: names its subcommands without loading them, and turns errors into sentences."""

from __future__ import annotations

import errno
import importlib
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

COMMANDS = {
    "reproduce": "Repeat a published experiment, and hold our numbers against its claims.",
}
"""Every command and its line of help. The command `name` lives in `credo.cli.name`, which has a typer `app`."""

USAGE = 2
"""Exit code for what the user must change: arguments, files, folders."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


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
        return name, get_command(importlib.import_module(f"credo.cli.{name}").app), rest

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
            raise typer.Exit(USAGE) from None
        except ValueError as error:
            complain(str(error))
            raise typer.Exit(USAGE) from None


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

    Examples:

        credo reproduce

        credo reproduce sine --quick
    """


def main() -> None:
    """The entry point of the program."""
    app(prog_name="credo")


if __name__ == "__main__":
    main()
