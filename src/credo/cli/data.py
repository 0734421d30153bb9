"""`credo data`: data sets by name."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from credo.cli.display import answers
from credo.cli.files import STDOUT, write
from credo.core.storage import StorageError
from credo.data.sets import DataSet, available, load
from credo.reports.tables import Table
from credo.reports.terminal import terminal_table

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def data() -> None:
    """Data sets by name: list them, or write one to a file.

    The list says which are at hand, and how to get the others.

    Examples:

        credo data list

        credo data get diabetes && credo fit diabetes.csv --target progression
    """


@app.command("list")
def list_all(
    json_wanted: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Every data set there is, and whether it is at hand."""
    lines = available()
    if json_wanted:
        answers().out(json.dumps([asdict(line) for line in lines], indent=2, ensure_ascii=False))
        return
    rows = tuple((line.name, line.about, "yes" if line.ready else "no") for line in lines)
    console = answers()
    console.print(terminal_table(Table("Data sets", ("name", "what", "at hand"), rows)))
    for why in [line.why for line in lines if not line.ready][:1]:
        console.print(f"For example: {why}.", markup=False)
    console.print("Write one to a file with: credo data get NAME")


@app.command()
def get(
    name: Annotated[
        str,
        typer.Argument(help="One of `credo data list`.", autocompletion=lambda: [line.name for line in available()]),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write; - for the standard output.", show_default="NAME.csv"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file of that name.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Write a data set to a file: tables as CSV, images as npz."""
    found = load(name)
    images = found.x.ndim > 2
    place = out or Path(f"{name}.{'npz' if images else 'csv'}")
    content = _images(found) if images else as_frame(found).to_csv(index=False).encode()
    if not force:
        _check_place(place, content)
    write(place, content)
    if place != STDOUT:
        told = f"{len(found.x):,} rows written to {place}."
        advice = "" if images else f" Next: credo fit {place} --target {found.target}"
        answers(quiet).print(told + advice, markup=False, soft_wrap=True)


def _check_place(place: Path, content: bytes) -> None:
    # the same file once more harms nobody, so that a line of commands can be given again
    if place != STDOUT and place.is_file() and place.read_bytes() != content:
        raise StorageError(
            f"{place} is there already, with other content: choose another --out, or replace it with --force"
        )


def as_frame(found: DataSet) -> pd.DataFrame:
    """A data set as a table, its target in the last column, classes by their names."""
    frame = pd.DataFrame(found.x, columns=list(found.features))
    frame[found.target] = [found.classes[int(number)] for number in found.y] if found.classes else found.y
    return frame


def _images(found: DataSet) -> bytes:
    arrays = {"x": found.x, "y": found.y}
    if found.test is not None:
        arrays |= {"x_test": found.test[0], "y_test": found.test[1]}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()
