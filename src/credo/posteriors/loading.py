"""A posterior from a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from credo import likelihoods, priors
from credo.core.config import Kinds, decode
from credo.core.record import Record
from credo.core.storage import StorageError, check_schema, read_json, read_tensors
from credo.core.trees import Params, Variables
from credo.model import Model
from credo.nets.dropout import DropoutChange
from credo.nets.mlp import BUILDERS
from credo.nets.network import Net, Network
from credo.posteriors.base import Posterior
from credo.posteriors.draws import Draws
from credo.posteriors.dropout import Dropout
from credo.posteriors.gaussian import DiagonalGaussian
from credo.posteriors.writing import CONFIG, HISTORY, STATE

KINDS: Kinds = {name: getattr(room, name) for room in (likelihoods, priors) for name in room.__all__}
KINDS = {**KINDS, "DropoutChange": DropoutChange}
"""The classes that a folder may name."""


def load(folder: str | Path, net: Net | None = None, *, model: Model | None = None, device: str = "cpu") -> Posterior:
    """Read a posterior that `posterior.save(folder)` wrote.

    Args:
        folder: where it lies.
        net: the module, or a function that makes it, if credo did not build it; names and shapes are checked.
        model: the whole model instead, for likelihoods and priors of your own.
        device: where the tensors go.

    Raises:
        StorageError: if the folder is missing, damaged, foreign, from a newer credo, or does not fit `net`.
    """
    path = Path(folder)
    config = read_json(path / CONFIG)
    check_schema(config, path / CONFIG)
    tensors, metadata = read_tensors(path / STATE, device)
    if metadata.get("identity") != config.get("identity"):
        raise StorageError(f"{path}: {CONFIG} and {STATE} come from two different runs; save the posterior again")
    try:
        model = model or _model(config["model"], net)
        _check(config["model"]["parameters"], model, path)
        record = Record(history=_history(path / HISTORY), **_tuples(config["record"]))
        return _posterior(config["posterior"], model, _in_order(tensors, model), record)
    except (KeyError, TypeError) as error:
        raise StorageError(f"{path / CONFIG} does not have what a posterior needs ({error!r})") from None


def _model(data: dict[str, Any], net: Net | None) -> Model:
    builder = data["net"]["builder"]
    if net is None:
        if builder is None:
            raise StorageError(
                "credo did not build this network, so it cannot rebuild it: pass the module, load(folder, net=...)"
            )
        net = BUILDERS[builder](**data["net"]["config"])
    for name in ("likelihood", "prior"):
        if data[name]["kind"] not in KINDS:
            raise StorageError(
                f"the {name} {data[name]['kind']!r} is not one of credo's: pass the model, load(folder, model=...)"
            )
    network = Network(net, dropout=decode(data["dropout"], KINDS))
    return Model(network, decode(data["likelihood"], KINDS), decode(data["prior"], KINDS))


def _check(saved: dict[str, list[int]], model: Model, path: Path) -> None:
    present = {name: list(info.shape) for name, info in model.network.layout.items()}
    for name in saved.keys() | present.keys():
        if saved.get(name) != present.get(name):
            raise StorageError(
                f"{path} does not fit the network: parameter {name!r} has shape {saved.get(name, '(absent)')} in the "
                f"folder and {present.get(name, '(absent)')} in the network"
            )


def _posterior(kind: str, model: Model, tensors: dict[str, Tensor], record: Record) -> Posterior:
    if kind == "Draws":
        return Draws(model, _variables(tensors, "variables"), tensors["log_weights"], record=record)
    if kind == "Dropout":
        return Dropout(model, _variables(tensors, "variables"), record=record)
    if kind == "DiagonalGaussian":
        return DiagonalGaussian(model, _variables(tensors, "mean"), _under(tensors, "scale/"), record=record)
    raise StorageError(f"the folder holds a posterior of an unknown kind, {kind!r}")


def _in_order(tensors: dict[str, Tensor], model: Model) -> dict[str, Tensor]:
    """The tensors in the network's own order, which a file does not keep and seeded draws follow."""
    place = {name: i for i, name in enumerate(model.network.layout)}
    return dict(sorted(tensors.items(), key=lambda item: place.get(item[0].split("/")[-1], len(place))))


def _variables(tensors: dict[str, Tensor], name: str) -> Variables:
    return Variables(_under(tensors, f"{name}/params/"), _under(tensors, f"{name}/buffers/"))


def _under(tensors: dict[str, Tensor], prefix: str) -> Params:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _tuples(story: dict[str, Any]) -> dict[str, Any]:
    return {**story, "notes": tuple(story["notes"])}


def _history(path: Path) -> tuple[dict[str, float], ...]:
    if not path.is_file():
        return ()
    return tuple(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line)
