"""What can be typed after `credo data`; nothing heavy is imported here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from credo.cli.options import DATA_SETS, Json


def data() -> None:
    """Data sets by name: list them, or write one to a file.

    The list says which are available, and how to get the others.

    Examples:

        credo data list

        credo data get diabetes && credo fit diabetes.csv --target progression
    """


def data_list(json_wanted: Json = False) -> None:
    """Every data set there is, and whether it is available."""
    import_module("credo.cli.data").list_all(**locals())


def data_get(
    name: Annotated[str, typer.Argument(help="One of `credo data list`.", autocompletion=lambda: [*DATA_SETS])],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; - for the standard output.", show_default="NAME.csv"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file of that name.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Write a data set to a file: tables as CSV, images as npz."""
    import_module("credo.cli.data").get(**locals())
