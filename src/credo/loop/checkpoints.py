"""A run on disk, so that it can be killed at any instant and go on to the same bits."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from credo.core.storage import SCHEMA, StorageError, environment, find, read_json, read_tensors, write_folder
from credo.core.trees import ValueT, flatten, restore
from credo.loop.draws import Collector, Mark
from credo.loop.history import History
from credo.nets.plan import Plan

RUN, STATE = "run.json", "checkpoint.safetensors"

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is saved.

    Args:
        folder: of the checkpoint; made when it is not there.
        seconds: at least this long between two checkpoints; 0 saves after every step.
    """

    folder: str | Path
    seconds: float = 30.0

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ValueError(f"seconds between two checkpoints must be zero or more, got {self.seconds!r}")


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds: how far the run was, all that the next step needs, and how many draws there were."""

    step: int
    seconds: float
    plan: Plan
    history: History
    tensors: dict[str, Tensor]
    draws: Mark = Mark()

    def state(self, template: ValueT) -> ValueT:
        """The saved state, in the form of a fresh one."""
        if _forms(flatten(template)) != _forms(self.tensors):
            raise StorageError("the checkpoint does not fit the method and the network: it belongs to another run")
        return restore(template, self.tensors)


def _forms(tensors: dict[str, Tensor]) -> dict[str, tuple[Any, ...]]:
    return {name: (t.shape, t.dtype) for name, t in tensors.items()}


class Checkpoints:
    """Writes a run's checkpoints, and finds the one to go on from."""

    def __init__(self, checkpoint: Checkpoint, identity: dict[str, Any]) -> None:
        self.folder = Path(checkpoint.folder)
        self.every = checkpoint.seconds
        self.identity: dict[str, Any] = json.loads(json.dumps(identity))
        self.last = time.monotonic()

    def existing(self, *, resume: bool) -> Saved | None:
        """The checkpoint in the folder, if there is one; refused if it is not to be resumed or is another run's."""
        if find(self.folder, STATE) is None:
            return None
        if not resume:
            raise StorageError(
                f"{self.folder} holds the checkpoint of a run: pass resume=True to continue it, or another folder"
            )
        run = read_json(self.folder, RUN)
        if run["schema"] != SCHEMA:
            raise StorageError(
                f"{self.folder} holds a run that an older credo began, and only that can continue it: start the run "
                "anew in another folder"
            )
        self._check_identity(run.get("identity"))
        tensors, text = read_tensors(self.folder, STATE)
        try:
            return Saved(
                _at_least_zero(int(text["step"])),
                _at_least_zero(float(text["seconds"])),
                Plan(text["plan"]),
                History.restored(json.loads(text["history"]), _under("history/", tensors)),
                _under("state/", tensors),
                _mark(json.loads(text.get("draws", "{}"))),
            )
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise StorageError(f"{self.folder / STATE} is not a checkpoint of credo's ({error!r})") from None

    def _check_identity(self, saved: Any) -> None:
        for name, value in self.identity.items():
            was = saved.get(name) if isinstance(saved, dict) else None
            if was != value:
                raise StorageError(
                    f"{self.folder} holds the checkpoint of another run: its {name} was {was}, and now it is {value}; "
                    "give what was given then, or another folder"
                )

    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() - self.last >= self.every

    def write(
        self, step: int, seconds: float, plan: Plan, history: History, state: Any, collector: Collector | None = None
    ) -> None:
        """Replace the checkpoint; the draws that it speaks of are on disk before it is."""
        rows, sums = history.saved()
        text = {"step": str(step), "seconds": repr(seconds), "plan": plan.value, "history": json.dumps(rows)}
        if collector is not None:
            text["draws"] = json.dumps(dataclasses.asdict(collector.mark()))
        run = {"schema": SCHEMA, "identity": self.identity, "environment": environment()}
        tensors = flatten({"state": state, "history": sums})
        write_folder(self.folder, {RUN: json.dumps(run, indent=2) + "\n"}, {STATE: (tensors, text)})
        self.last = time.monotonic()


def _mark(saved: dict[str, Any]) -> Mark:
    mark = Mark(**{**saved, "statistics": tuple(saved.get("statistics", ()))})
    if type(mark.count) is not int or not all(isinstance(text, str) for text in (*mark.statistics, mark.digest)):
        raise ValueError("what it says of its draws is of another kind")
    return replace(mark, count=_at_least_zero(mark.count))


def _at_least_zero(number: Number) -> Number:
    if not 0 <= number < math.inf:
        raise ValueError(f"{number} where a number from zero on is meant")
    return number


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
