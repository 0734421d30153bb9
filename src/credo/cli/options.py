"""Options that several commands share, and how a command finds its work."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and JSON).")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]
RunFolder = Annotated[Path, typer.Argument(help="The folder that `credo fit` wrote.")]


def do_work(module: str, function: str = "run", /, **arguments: Any) -> None:
    """Do the work of a command."""
    getattr(import_module(f"credo.cli.{module}"), function)(**arguments)
