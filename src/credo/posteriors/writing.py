"""A posterior to a folder."""

from __future__ import annotations

import dataclasses
import json
import uuid
from pathlib import Path
from typing import Any

from torch import Tensor

from credo import likelihoods, priors
from credo.core.config import Kinds, encode
from credo.core.record import Record
from credo.core.storage import SCHEMA, environment, write_folder
from credo.model import Model
from credo.nets.dropout import DropoutChange
from credo.nets.mlp import BUILDERS

CONFIG, STATE, HISTORY, ENVIRONMENT = "config.json", "state.safetensors", "history.jsonl", "environment.json"

KINDS: Kinds = {name: getattr(room, name) for room in (likelihoods, priors) for name in room.__all__}
KINDS = {**KINDS, "DropoutChange": DropoutChange}
"""The classes that a folder may name."""


def write_posterior(folder: Path, kind: str, model: Model, tensors: dict[str, Tensor], record: Record) -> Path:
    """Write all files of a posterior; both large files carry one identity, so that a mixed folder is noticed."""
    identity = uuid.uuid4().hex
    story = {f.name: getattr(record, f.name) for f in dataclasses.fields(record) if f.name != "history"}
    config = {
        "schema": SCHEMA,
        "identity": identity,
        "posterior": kind,
        "tensors": list(tensors),
        "model": describe(model),
        "record": encode(story),
    }
    texts = {
        CONFIG: json.dumps(config, indent=2) + "\n",
        HISTORY: "".join(json.dumps(row) + "\n" for row in record.history),
        ENVIRONMENT: json.dumps(environment(), indent=2) + "\n",
    }
    write_folder(folder, texts, {STATE: (tensors, {"identity": identity})})
    return folder


def describe(model: Model) -> dict[str, Any]:
    """A model as JSON. A network that credo did not build is described by the names and shapes of its tensors."""
    network = model.network
    built = type(network.module).__name__ if type(network.module) in BUILDERS.values() else None
    return {
        "net": {
            "builder": built,
            "config": getattr(network.module, "config", None) if built else None,
            "dtype": str(network.dtype).removeprefix("torch."),
            "frozen": list(network.frozen),
        },
        "parameters": {name: list(info.shape) for name, info in network.layout.items()},
        "buffers": {name: list(t.shape[1:]) for name, t in network.given().buffers.items()},
        "dropout": encode(network.dropout),
        "likelihood": _described(model.likelihood),
        "prior": _described(model.prior),
    }


def _described(part: Any) -> dict[str, Any]:
    """A likelihood or prior with its numbers; one of the user's own by where its class lives, so none is mistaken."""
    kind = type(part)
    if KINDS.get(kind.__name__) is kind:
        return dict(encode(part))
    return {"kind": f"{kind.__module__}.{kind.__qualname__}"}
