"""Rows of a table, each trained once and stored in the run folder: an interrupted run resumes with those it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from credo.core.storage import SCHEMA, environment, find, read_json, write_folder
from credo.core.threads import one_thread
from credo.data import DataError
from credo.experiments.base import Size

FOLDER = "rows"
"""Where the rows lie in a run folder."""


class StoredRow(Protocol):
    """A row of any experiment: a name, and all that its result depends on."""

    @property
    def name(self) -> str: ...

    def settings(self, seed: int) -> dict[str, Any]: ...


RowT = TypeVar("RowT", bound=StoredRow)
ResultT = TypeVar("ResultT")


def stored(row: StoredRow, kind: type[ResultT], folder: Path, seed: int) -> ResultT | None:
    """The result of a row that the folder has for exactly these settings, a dataclass of plain numbers."""
    if find(folder / FOLDER, f"{row.name}.json") is None:
        return None
    data = read_json(folder / FOLDER, f"{row.name}.json")
    return kind(**data["result"]) if data["settings"] == row.settings(seed) else None


def store(result: Any, row: StoredRow, folder: Path, seed: int) -> None:
    """Write the result of a row for the next time."""
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    parts = {"settings": row.settings(seed), "environment": environment(), "result": asdict(result)}
    text = json.dumps({"schema": SCHEMA, **parts}, allow_nan=False) + "\n"
    write_folder(folder / FOLDER, {f"{row.name}.json": text}, {})


def results(
    rows: Sequence[RowT], kind: type[ResultT], folder: Path, seed: int, train: Callable[[RowT], ResultT]
) -> dict[str, ResultT]:
    """The results of all rows: read where the folder has them for these settings, trained and stored where not."""
    found = {row.name: stored(row, kind, folder, seed) for row in rows}
    for row in rows:
        if found[row.name] is None:
            found[row.name] = result = train(row)
            store(result, row, folder, seed)
    return {name: result for name, result in found.items() if result is not None}


def results_of_size(
    size: Size,
    quick: Sequence[RowT],
    full: Sequence[RowT],
    kind: type[ResultT],
    folder: Path,
    seed: int,
    train: Callable[[RowT, str], ResultT],
) -> tuple[dict[str, ResultT], dict[str, str]]:
    """The results of the rows of a size, and why the others are missing.

    The quick rows are trained on one thread. The full ones are trained where there is a GPU; elsewhere the results are
    those that the folder has.

    Args:
        size: which rows.
        quick: rows of the quick size.
        full: rows of the full size.
        kind: class of the results.
        folder: the run folder.
        seed: of every row.
        train: gives the result of a row on a device.
    """
    if size is Size.QUICK:
        with one_thread():
            return results(quick, kind, folder, seed, lambda row: train(row, "cpu")), {
                row.name: "part of the full size" for row in full
            }
    missing = {row.name: "part of the quick size" for row in quick}
    why = f"there is no GPU here, and {folder / FOLDER} has no result of this row for seed {seed}"
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")  # ten bits of mantissa in a product are enough for these nets
        try:
            return results(full, kind, folder, seed, lambda row: train(row, "cuda")), missing
        except DataError as error:
            why = str(error)
    found = {row.name: stored(row, kind, folder, seed) for row in full}
    present = {name: result for name, result in found.items() if result is not None}
    return present, {**missing, **{name: why for name in found if name not in present}}
