"""A training that has not ended: where it lies, what was asked of it, and whether it can be gone on with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from credo.cli.pipeline import Order
from credo.core.storage import SCHEMA, StorageError, find, read_json, write_folder

ORDER = "order.json"


def training_place(out: Path, *, resume: bool, force: bool) -> Path:
    """The folder beside the run's own in which its training is saved until it is over.

    Raises:
        StorageError: if there is a training that did not end, and no word on what to do with it, or the reverse.
    """
    place = out.resolve().with_name(f"{out.resolve().name}.training")
    if not has_begun(place):
        if resume:
            raise StorageError(f"there is no training to go on with: {place} is not there; leave --resume out")
        shutil.rmtree(place, ignore_errors=True)
    elif force and not resume:
        shutil.rmtree(place)
    elif not resume:
        raise StorageError(
            f"{place} holds a training that did not end: go on with it by --resume, or begin anew with --force"
        )
    return place


def has_begun(training: Path) -> bool:
    """Whether the folder of a training holds more than what was asked of it."""
    return training.is_dir() and any(path.name != ORDER for path in training.iterdir())


def keep_order(training: Path, order: Order) -> None:
    """Write down what is asked of a training that begins, for whoever goes on with it."""
    if not has_begun(training):
        text = json.dumps({"schema": SCHEMA, "options": _options(order)}, indent=1) + "\n"
        write_folder(training, {ORDER: text}, {})


def check_order(training: Path, order: Order, out: Path) -> None:
    """See that a training is gone on with as it was begun.

    Args:
        training: its folder.
        order: what is asked now.
        out: the folder of the run, as the user calls it.

    Raises:
        StorageError: if another target, method, part, seed or the like is asked for than was then.
    """
    if find(training, ORDER) is None:
        return
    before, now = read_json(training, ORDER).get("options"), _options(order)
    for option, value in now.items():
        was = before.get(option) if isinstance(before, dict) else None
        if was != value:
            begun = f"without {option}" if was is None else f"with {option} {was}"
            asked = "left out" if value is None else value
            raise StorageError(
                f"the training of {out} was begun {begun}, and now it is {asked}: give what was given "
                "then, or begin anew with --force and without --resume"
            )


def _options(order: Order) -> dict[str, object]:
    """What the numbers depend on, beside the cells of the table, by the names that the user knows."""
    return {
        "--target": order.target,
        "--method": order.method,
        "--task": None if order.task is None else order.task.value,
        "--test": order.test,
        "--seed": order.seed,
        "--epochs": order.epochs,
        "--drop": " --drop ".join(sorted(set(order.drop))) or None,
    }
