"""A run on disk, so that it can be killed at any instant and go on to the same bits."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from credo.core.storage import SCHEMA, StorageError, check_schema, environment, read_json, read_tensors, write_folder
from credo.core.trees import ValueT, flatten, restore

RUN, STATE = "run.json", "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is saved.

    Args:
        folder: of the checkpoint; made when it is not there.
        seconds: at least this long between two checkpoints.
    """

    folder: str | Path
    seconds: float = 30.0


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds: how far the run was, and all that the next step needs."""

    step: int
    seconds: float
    history: list[dict[str, float]]
    plan: str
    tensors: dict[str, Tensor]

    def state(self, template: ValueT) -> ValueT:
        """The saved state, in the form of a fresh one."""
        fresh = flatten(template)
        if fresh.keys() != self.tensors.keys() or any(fresh[n].shape != t.shape for n, t in self.tensors.items()):
            raise StorageError("the checkpoint does not fit the method and the network: it belongs to another run")
        return restore(template, self.tensors)


class Checkpoints:
    """Writes a run's checkpoints, and finds the one to go on from.

    Args:
        wish: where and how often.
        identity: what must be the same for a run to be resumed: method, seed, data, model.
    """

    def __init__(self, wish: Checkpoint, identity: dict[str, Any]) -> None:
        self.folder = Path(wish.folder)
        self.every = wish.seconds
        self.identity: dict[str, Any] = json.loads(json.dumps(identity))
        self.last = time.monotonic()

    def existing(self, *, resume: bool) -> Saved | None:
        """The checkpoint in the folder, if there is one; refused if it is not to be resumed or is another run's."""
        if not (self.folder / STATE).exists():
            return None
        if not resume:
            raise StorageError(
                f"{self.folder} holds the checkpoint of a run: pass resume=True to go on with it, or another folder"
            )
        run = read_json(self.folder / RUN)
        check_schema(run, self.folder / RUN)
        for name, value in self.identity.items():
            if run.get("identity", {}).get(name) != value:
                raise StorageError(
                    f"{self.folder} holds the checkpoint of another run: its {name} was "
                    f"{run.get('identity', {}).get(name)}, and now it is {value}"
                )
        tensors, text = read_tensors(self.folder / STATE)
        return Saved(int(text["step"]), float(text["seconds"]), json.loads(text["history"]), text["plan"], tensors)

    def due(self) -> bool:
        return time.monotonic() - self.last >= self.every

    def write(self, step: int, seconds: float, history: list[dict[str, float]], plan: str, state: Any) -> None:
        """Replace the checkpoint. All that changes lies in one file, so its renaming is the whole commit."""
        text = {"step": str(step), "seconds": repr(seconds), "history": json.dumps(history), "plan": plan}
        run = {"schema": SCHEMA, "identity": self.identity, "environment": environment()}
        texts = {} if (self.folder / RUN).exists() else {RUN: json.dumps(run, indent=2) + "\n"}
        write_folder(self.folder, texts, {STATE: (flatten(state), text)})
        self.last = time.monotonic()
