"""A posterior from a folder."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import torch
from torch import Tensor, nn

from credo.core.config import decode
from credo.core.record import Record
from credo.core.storage import StorageError, read_json, read_tensors, read_text
from credo.core.trees import Params, Variables
from credo.model import OWN, Model
from credo.nets.mlp import BUILDERS
from credo.nets.network import Net, Network
from credo.posteriors.base import Posterior
from credo.posteriors.chains import Chains
from credo.posteriors.draws import Draws
from credo.posteriors.dropout import Dropout
from credo.posteriors.gaussian import DiagonalGaussian
from credo.posteriors.unit_noise import UnitNoise
from credo.posteriors.weighted import Weighted
from credo.posteriors.writing import CONFIG, HISTORY, KINDS, STATE

POSTERIORS: dict[str, type[Posterior]] = {
    kind.__name__: kind for kind in (Draws, Dropout, DiagonalGaussian, Chains, UnitNoise, Weighted)
}
"""The posteriors that a folder may hold. Their fields are `Tensor`, `Params` or `Variables`;
a `Mapping[str, Tensor]` has names that are not those of parameters."""


def load(folder: str | Path, net: Net | None = None, *, model: Model | None = None, device: str = "cpu") -> Posterior:
    """Read a posterior that `posterior.save(folder)` wrote. Nothing in the folder can choose code to run.

    Args:
        folder: where it lies.
        net: the module, or a function that makes it, if credo did not build it; names and shapes are checked.
        model: the whole model instead, for likelihoods and priors of your own.
        device: where the tensors go.

    Raises:
        StorageError: if the folder is missing, damaged, foreign, from a newer credo, or does not fit `net`.
    """
    if net is not None and model is not None:
        raise ValueError("pass net= or model=, not both: a model has a network already")
    path = Path(folder)
    config = read_json(path, CONFIG)
    tensors, metadata = read_tensors(path, STATE, device)
    if metadata.get("identity") != config.get("identity"):
        raise StorageError(f"{path}: {CONFIG} and {STATE} come from two different runs; save the posterior again")
    try:
        model = _model(config["model"], net) if model is None else _with_dropout(model, config["model"]["dropout"])
        record = Record(history=_history(path), **_tuples(config["record"]))
        ordered = {name: tensors[name] for name in config["tensors"]}  # seeded draws follow the order
        return _posterior(config["posterior"], model, ordered, record)
    except StorageError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise StorageError(f"{path / CONFIG} does not describe the posterior in {STATE} ({error!r})") from None


def _model(data: dict[str, Any], net: Net | None) -> Model:
    for name in ("likelihood", "prior"):
        if data[name]["kind"] not in KINDS:
            raise StorageError(
                f"the {name} {data[name]['kind']!r} is not one of credo's: pass the model, load(folder, model=...)"
            )
    network = Network(_rebuilt(**data["net"]) if net is None else net, dropout=decode(data["dropout"], KINDS))
    return Model(network, decode(data["likelihood"], KINDS), decode(data["prior"], KINDS))


def _with_dropout(model: Model, data: dict[str, Any] | None) -> Model:
    """The user's model with the dropout that the method had put in or changed."""
    return model if data is None else model.with_network(model.network.with_dropout(decode(data, KINDS)))


def _rebuilt(builder: str | None, config: dict[str, Any], dtype: str, frozen: list[str]) -> nn.Module:
    if builder is None:
        raise StorageError(
            "credo did not build this network, so it cannot rebuild it: pass the module, load(folder, net=...)"
        )
    net = BUILDERS[builder](**config).to(getattr(torch, dtype))
    for name in frozen:
        net.get_parameter(name).requires_grad_(False)
    return net


def _posterior(kind: str, model: Model, tensors: dict[str, Tensor], record: Record) -> Posterior:
    if kind not in POSTERIORS:
        raise StorageError(f"the folder holds a posterior of an unknown kind, {kind!r}")
    made = POSTERIORS[kind]
    hints = get_type_hints(made)
    names = [f.name for f in fields(made) if f.name not in ("model", "record")]
    values = {name: _value(hints[name], name, tensors) for name in names}
    for name, value in values.items():
        if hints[name] in (Params, Variables):
            _check_fit(value, model)
    return made(model, **values, record=record)


def _value(hint: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    if hint is Variables:
        return Variables(_under(tensors, f"{name}/params/"), _under(tensors, f"{name}/buffers/"))
    return tensors[name] if hint is Tensor else _under(tensors, f"{name}/")


def _under(tensors: dict[str, Tensor], prefix: str) -> Params:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _check_fit(value: Params | Variables, model: Model) -> None:
    """What the folder holds for the network must be the network's: the same names, shapes and precision."""
    there = _looks(value if isinstance(value, Variables) else Variables(value))
    here = _looks(model.network.given())
    for name in sorted(there.keys() | here.keys() if isinstance(value, Variables) else there.keys()):
        if there.get(name) != here.get(name):
            raise StorageError(
                f"the folder does not fit the network: {name!r} is {there.get(name, 'absent')} in the folder and "
                f"{here.get(name, 'absent')} in the network"
            )


def _looks(variables: Variables) -> dict[str, str]:
    kinds = {"a parameter": variables.params, "a buffer or frozen": variables.buffers}
    return {
        name: f"{kind}, {str(t.dtype).removeprefix('torch.')}, of shape {tuple(t.shape[1:])}"
        for kind, tree in kinds.items()
        for name, t in tree.items()
        if not name.startswith(OWN)
    }


def _tuples(story: dict[str, Any]) -> dict[str, Any]:
    return {**story, "notes": tuple(story["notes"])}


def _history(path: Path) -> tuple[dict[str, float], ...]:
    try:
        return tuple(json.loads(line) for line in read_text(path, HISTORY).splitlines() if line)
    except json.JSONDecodeError as error:
        raise StorageError(f"{path / HISTORY} is not readable JSON ({error}); the file is damaged") from None
