"""Runs to folders: whole or not at all, never over anything else."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

from credo.core.config import encode
from credo.core.storage import SCHEMA, StorageError, find, write_folder
from credo.reports.page import page
from credo.tabular.runs import EVALUATION, FILES, PREDICTIONS, REPORT, TABLE, TableRun

MINIMUM_FREE = 32 * 2**20
"""Bytes that must be free before training begins."""


class SavedElsewhereError(StorageError):
    """A folder could not be written after training; the run was saved to a temporary one.

    Attributes:
        run: the run, with the folder in which it is.
    """

    def __init__(self, text: str, run: TableRun) -> None:
        super().__init__(text)
        self.run = run


class UnsavedError(StorageError):
    """A run could be written nowhere after training; the training can be resumed."""


def check_folder(folder: Path, *, force: bool) -> None:
    """Find out before the work begins whether a run can be written to a folder.

    Args:
        folder: where the run should lie.
        force: whether a run that lies there may be replaced.

    Raises:
        StorageError: if it cannot, or may not.
    """
    where = folder.resolve()
    if where.exists() and not where.is_dir():
        raise StorageError(f"{folder} is a file: choose another folder (--out)")
    if where.is_dir() and any(where.iterdir()):
        if find(where, TABLE) is None:
            raise StorageError(f"{folder} holds other files, which are not touched: choose another folder (--out)")
        if not force:
            raise StorageError(
                f"{folder} holds a run already: choose another folder (--out), or replace it with --force (force=True)"
            )
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        probe = where.parent / f".{uuid.uuid4().hex}"
        probe.mkdir()
        probe.rmdir()
        free = shutil.disk_usage(where.parent).free
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror}): choose another folder (--out)") from None
    if free < MINIMUM_FREE:
        raise StorageError(
            f"the disk of {folder} is full ({free // 2**20} MB left): make room or choose another folder (--out)"
        )


def save_run(run: TableRun, folder: Path) -> TableRun:
    """Write a run and its report, so that the folder holds all of it or what it held before.

    Args:
        run: what to write.
        folder: where it goes; a run that lies there is replaced, other files in the folder stay.

    Returns:
        The run, with its folder.

    Raises:
        StorageError: if it cannot be written.
    """
    where = folder.resolve()
    made = where.with_name(f".{where.name}.{uuid.uuid4().hex[:8]}")
    table = {"schema": SCHEMA, "metadata": encode(run.metadata), "encoder": run.encoder.to_json()}
    texts = {
        TABLE: _json(table),
        EVALUATION: _json({"schema": SCHEMA, **run.evaluation.to_json()}),
        PREDICTIONS: run.predictions.to_csv(index=False),
        REPORT: report_page(run, where.name),
    }
    try:
        run.posterior.save(made)
        write_folder(made, texts, {})
        _put(made, where)
    except StorageError as error:
        raise StorageError(str(error).replace(str(made), str(folder))) from error
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return replace(run, folder=folder)


def save_or_rescue(run: TableRun, folder: Path) -> TableRun:
    """Write a run; where that fails after all, into a temporary folder, so that the training is not lost.

    Raises:
        SavedElsewhereError: if it had to be the temporary folder.
        UnsavedError: if that failed too.
    """
    try:
        return save_run(run, folder)
    except StorageError as error:
        trouble = str(error)
    spare = Path(tempfile.mkdtemp(prefix="credo-"))
    try:
        saved = save_run(run, spare / folder.resolve().name)
    except StorageError:
        shutil.rmtree(spare, ignore_errors=True)
        raise UnsavedError(
            f"{trouble}; nor could the run be saved to {spare}: make room, and give the same command with --resume "
            "(resume=True)"
        ) from None
    raise SavedElsewhereError(f"{trouble}; the run was saved to {saved.folder} instead", saved)


def report_page(run: TableRun, name: str) -> str:
    """The report of a run as HTML.

    Args:
        run: what it is about.
        name: of its folder, for the examples on the page.
    """
    record = run.posterior.record
    return page(run.metadata, run.evaluation, record.history, record.notes, name)


def _json(data: object) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _put(made: Path, where: Path) -> None:
    """Move a finished folder to its place, and other files of the old folder into it."""
    if not where.exists():
        made.rename(where)
        return
    old = where.with_name(f"{made.name}.old")
    where.rename(old)
    try:
        made.rename(where)
    except OSError:
        old.rename(where)
        raise
    for path in old.iterdir():
        if path.name not in FILES and not (where / path.name).exists():
            os.replace(path, where / path.name)
    shutil.rmtree(old, ignore_errors=True)
