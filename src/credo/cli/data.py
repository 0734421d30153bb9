"""`credo data`: data sets by name."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from credo.cli.console import answers, progress, remarks, write
from credo.cli.options import STDOUT
from credo.core.storage import StorageError
from credo.data.sets import DataSet, available, load
from credo.reports.tables import Table, terminal_table


def list_all(json_wanted: bool) -> None:
    """The work of `credo data list`."""
    lines = available()
    if json_wanted:
        answers().out(json.dumps([asdict(line) for line in lines], indent=2, ensure_ascii=False))
        return
    rows = tuple((line.name, line.about, "yes" if line.ready else "no") for line in lines)
    console = answers()
    console.print(terminal_table(Table("Data sets", ("name", "what", "available"), rows)))
    for why in [line.why for line in lines if not line.ready][:1]:
        console.print(f"For example: {why}.", markup=False)
    console.print("Write one to a file with: credo data get NAME")


def get(name: str, out: Path | None, force: bool, quiet: bool) -> None:
    """The work of `credo data get`."""
    found = _loaded(name, remarks(quiet))
    images = found.x.ndim > 2
    place = out or Path(f"{name}.{'npz' if images else 'csv'}")
    content = _images(found) if images else as_frame(found).to_csv(index=False).encode()
    if not force:
        _check_place(place, content)
    write(place, content)
    if place != STDOUT:
        done = f"{len(found.x):,} rows written to {place}."
        advice = "" if images else f" Next: credo fit {place} --target {found.target}"
        answers(quiet).print(done + advice, markup=False, soft_wrap=True)


def _loaded(name: str, notes: Console) -> DataSet:
    with progress(notes) as bar:

        def show(text: str, share: float | None) -> None:
            # where there is no terminal, one line for each file
            bar.say(text if notes.is_terminal else text.partition(":")[0], share)

        return load(name, show)


def _check_place(place: Path, content: bytes) -> None:
    # the same file again is fine, so that a line of commands can be repeated
    if place != STDOUT and place.is_file() and place.read_bytes() != content:
        raise StorageError(
            f"{place} exists already, with other content: choose another --out, or replace it with --force"
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
