"""A posterior to a folder."""

from __future__ import annotations

import dataclasses
import json
import uuid
from pathlib import Path
from typing import Any

from torch import Tensor

from credo.core.config import Kinds, decode, encode, kind_name
from credo.core.record import Record
from credo.core.storage import SCHEMA, environment, write_folder
from credo.likelihoods import Head, Likelihood
from credo.model import Model
from credo.nets.builders import builder_of
from credo.priors import Prior

CONFIG, STATE, HISTORY, ENVIRONMENT = "config.json", "state.safetensors", "history.jsonl", "environment.json"


def write_posterior(
    folder: Path,
    kind: str,
    model: Model,
    tensors: dict[str, Tensor],
    numbers: dict[str, Any],
    record: Record,
    calibrators: list[dict[str, Any]] | None = None,
) -> Path:
    """Write all files of a posterior; both large files carry one identity, so that a mixed folder is noticed."""
    identity = uuid.uuid4().hex
    run = {f.name: getattr(record, f.name) for f in dataclasses.fields(record) if f.name != "history"}
    config = {
        "schema": SCHEMA,
        "identity": identity,
        "posterior": kind,
        "tensors": list(tensors),
        "numbers": numbers,
        "model": describe(model),
        "record": encode(run),
        **({} if calibrators is None else {"calibrators": calibrators}),
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
    built = builder_of(network.module)
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
        **({"noise_off": True} if network.noise_off else {}),
        "scaling": encode(network.scaling),
        "outputs": "a function" if callable(network.output_rule.path) else encode(network.output_rule),
        "likelihood": _described(model.likelihood),
        "prior": _described(model.prior),
    }


def _described(part: Likelihood | Prior) -> dict[str, Any]:
    """A likelihood or prior with its numbers where these make it again; one that holds more, by its name alone."""
    try:
        data: dict[str, Any] = json.loads(json.dumps(encode(part)))
        whole = all(f.compare for f in dataclasses.fields(part))  # type: ignore[arg-type]  # any class may be given
        if whole and decode(data, known_kinds()) == part:
            return data
    except (LookupError, TypeError, ValueError):
        pass
    return {"opaque": kind_name(type(part))}


def known_kinds() -> Kinds:
    """The classes of likelihoods and priors, credo's and the user's, by the names that files give them."""
    return {**Likelihood.registry.kinds, **Prior.registry.kinds, "Head": Head}
