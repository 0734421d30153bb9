"""A training that has not ended: where it lies, what was asked of it, and whether it can be resumed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from credo.core.storage import SCHEMA, StorageError, find, read_json, write_folder

REQUEST = "order.json"


def training_folder(out: Path, *, resume: bool, force: bool) -> Path:
    """The folder beside that of the run in which its training is saved until it is over.

    Raises:
        StorageError: if there is an interrupted training and the user has not said what to do with it, or the reverse.
    """
    folder = out.resolve().with_name(f"{out.resolve().name}.training")
    if not has_begun(folder):
        if resume:
            raise StorageError(f"there is no training to resume: {folder} does not exist; leave --resume out")
        shutil.rmtree(folder, ignore_errors=True)
    elif force and not resume:
        shutil.rmtree(folder)
    elif not resume:
        raise StorageError(
            f"{folder} holds an interrupted training: continue it with --resume (resume=True), or start over with "
            "--force (force=True)"
        )
    return folder


def has_begun(training: Path) -> bool:
    """Whether the folder of a training holds more than what was asked of it."""
    return training.is_dir() and any(path.name != REQUEST for path in training.iterdir())


@contextmanager
def interruptible(training: Path) -> Iterator[None]:
    """Say after Ctrl-C that the training can be resumed, and leave no empty folder behind."""
    try:
        yield
    except KeyboardInterrupt:
        if has_begun(training):
            text = "the training so far is saved: the same command with --resume (resume=True) continues it"
            raise KeyboardInterrupt(text) from None
        raise
    finally:
        if not has_begun(training):
            shutil.rmtree(training, ignore_errors=True)


def save_request(training: Path, options: Mapping[str, object]) -> None:
    """Write down what is asked of a training that begins, for whoever resumes it."""
    if not has_begun(training):
        text = json.dumps({"schema": SCHEMA, "options": dict(options)}, indent=1) + "\n"
        write_folder(training, {REQUEST: text}, {})


def check_request(training: Path, options: Mapping[str, object], out: Path) -> None:
    """Check that a training is resumed with the options with which it was started.

    Args:
        training: its folder.
        options: what is asked now, by the names that the user knows.
        out: the folder of the run, as the user calls it.

    Raises:
        StorageError: if another target, method, part, seed or the like is asked for than was then.
    """
    if find(training, REQUEST) is None:
        return
    before = read_json(training, REQUEST).get("options")
    for option, value in options.items():
        was = before.get(option) if isinstance(before, dict) else None
        if was != value:
            then = f"without {option}" if was is None else f"with {option} {was}"
            asked = "left out" if value is None else value
            raise StorageError(
                f"the training of {out} was started {then}, and now it is {asked}: use the options of the first "
                "start, or start over with --force and without --resume"
            )
