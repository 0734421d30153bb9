"""A posterior to a folder."""

from __future__ import annotations

import dataclasses
import json
import uuid
from pathlib import Path
from typing import Any

from torch import Tensor

from credo.core.config import encode
from credo.core.record import Record
from credo.core.storage import SCHEMA, environment, write_folder
from credo.model import Model
from credo.nets.mlp import BUILDERS

CONFIG, STATE, HISTORY, ENVIRONMENT = "config.json", "state.safetensors", "history.jsonl", "environment.json"


def write_posterior(folder: Path, kind: str, model: Model, tensors: dict[str, Tensor], record: Record) -> Path:
    """Write all files of a posterior; both large files carry one identity, so that a mixed folder is noticed."""
    identity = uuid.uuid4().hex
    story = {f.name: getattr(record, f.name) for f in dataclasses.fields(record) if f.name != "history"}
    config = {
        "schema": SCHEMA,
        "identity": identity,
        "posterior": kind,
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
    """A model as JSON. A network that credo did not build is described by the names and shapes of its parameters."""
    module = model.network.module
    built = type(module).__name__ if type(module) in BUILDERS.values() else None
    return {
        "net": {"builder": built, "config": getattr(module, "config", None) if built else None},
        "parameters": {name: list(info.shape) for name, info in model.network.layout.items()},
        "dropout": encode(model.network.dropout),
        "likelihood": encode(model.likelihood),
        "prior": encode(model.prior),
    }
