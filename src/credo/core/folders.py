"""The folders of runs: looked at before the work, replaced as a whole after it, and never over anything else."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from credo.core.storage import StorageError, find

MINIMUM_FREE = 32 * 2**20
"""Bytes that must be free before training begins."""
RUN_FILES = ("table.json", "images.json", "vae.json")
"""Files by which the folder of a run is known."""

RunT = TypeVar("RunT")


class SavedElsewhereError(StorageError):
    """A folder could not be written after training; the run was saved to a temporary one.

    Attributes:
        run: the run, with the folder in which it is.
    """

    def __init__(self, text: str, run: Any) -> None:
        super().__init__(text)
        self.run = run


class UnsavedError(StorageError):
    """A run could be written nowhere after training; the training can be resumed."""


def check_folder(folder: Path, *, force: bool, needed: int | None = None) -> None:
    """Find out before the work begins whether a run can be written to a folder.

    Args:
        folder: where the run should lie.
        force: whether a run that lies there may be replaced.
        needed: bytes that must be free; None for as many as a run without data takes.

    Raises:
        StorageError: if it cannot, or may not.
    """
    where = folder.resolve()
    if where.exists() and not where.is_dir():
        raise StorageError(f"{folder} is a file: choose another folder (--out)")
    if where.is_dir() and any(where.iterdir()):
        if all(find(where, name) is None for name in RUN_FILES):
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
    if free < max(needed or 0, MINIMUM_FREE):
        wanted = "" if needed is None else f", and {needed // 2**20:,} MB are needed"
        raise StorageError(
            f"the disk of {folder} is full ({free // 2**20:,} MB left{wanted}): make room or choose another folder "
            "(--out)"
        )


def write_whole(folder: Path, write: Callable[[Path], None], files: Collection[str]) -> None:
    """Write a folder aside and put it in its place, so that it holds all of the new files or all of the old ones.

    Args:
        folder: where it goes; what lies there is replaced.
        write: writes the files into a folder that it is given.
        files: names of files of the old folder that do not outlive it; all others stay.

    Raises:
        StorageError: if it cannot be written.
    """
    where = folder.resolve()
    made = where.with_name(f".{where.name}.{uuid.uuid4().hex[:8]}")
    try:
        write(made)
        _put(made, where, files)
    except StorageError as error:
        raise StorageError(str(error).replace(str(made), str(folder))) from error
    except OSError as error:
        raise StorageError(f"{folder} cannot be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def save_or_rescue(save: Callable[[Path], RunT], folder: Path) -> RunT:
    """Write a run; where that fails after all, into a temporary folder, so that the training is not lost.

    Args:
        save: writes the run to a folder, and returns it with that.
        folder: where it should go.

    Raises:
        SavedElsewhereError: if it had to be the temporary folder.
        UnsavedError: if that failed too.
    """
    try:
        return save(folder)
    except StorageError as error:
        trouble = str(error)
    spare = Path(tempfile.mkdtemp(prefix="credo-"))
    place = spare / folder.resolve().name
    try:
        saved = save(place)
    except StorageError:
        shutil.rmtree(spare, ignore_errors=True)
        raise UnsavedError(
            f"{trouble}; nor could the run be saved to {spare}: make room, and give the same command with --resume "
            "(resume=True)"
        ) from None
    raise SavedElsewhereError(f"{trouble}; the run was saved to {place} instead", saved)


def _put(made: Path, where: Path, files: Collection[str]) -> None:
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
        if path.name not in (*files, *RUN_FILES) and not (where / path.name).exists():
            os.replace(path, where / path.name)
    shutil.rmtree(old, ignore_errors=True)
