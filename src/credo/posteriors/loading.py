"""A posterior from a folder, which may come from anybody."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import torch
from torch import Tensor, nn

from credo.core.checks import check_rate, is_number
from credo.core.config import Registry, decode
from credo.core.record import Record
from credo.core.rng import Stream
from credo.core.storage import StorageError, read_json, read_tensors, read_text
from credo.core.trees import Params, Variables
from credo.likelihoods import ClassesAtPositions, Joint, Likelihood, NumbersAtPositions
from credo.model import LIKELIHOOD_PREFIX, Model, likelihood_params
from credo.nets.builders import BUILDERS
from credo.nets.dropout import DropoutChange
from credo.nets.heads import HeadsRule
from credo.nets.mlp import MLP
from credo.nets.network import Net, Network
from credo.nets.outputs import OutputRule
from credo.nets.scaling import InputScaling, LeafScaling
from credo.posteriors.base import Posterior
from credo.posteriors.calibrated import PREFIX, Calibrated, calibrators_from
from credo.posteriors.writing import CONFIG, HISTORY, STATE, known_kinds
from credo.priors import Prior

DTYPES = {
    str(kind).removeprefix("torch."): kind for kind in (torch.float64, torch.float32, torch.bfloat16, torch.float16)
}
LOG_UNIFORM = ("VariationalDropout", "SparseVariationalDropout")
"""Methods of which folders of schema 1 do not say that a log-uniform prior took the place of the model's."""
SETTLED = ("ClassesAtPositions", "NumbersAtPositions", "Joint")
"""Likelihoods that `fit` makes of those that it is given, with what it has seen of the network."""

Values = dict[str, Any]
Trees = list[Params | Variables]


def load(folder: str | Path, net: Net | None = None, *, model: Model | None = None, device: str = "cpu") -> Posterior:
    """Read a posterior that `posterior.save(folder)` wrote. Nothing in the folder can choose code to run.

    Likelihoods, priors and posteriors of your own are made again from their numbers, if the module that defines them
    was imported before.

    Args:
        folder: where it lies.
        net: the module, or a function that makes it, if credo did not build it; names and shapes are checked.
        model: the whole model instead, for likelihoods and priors that hold more than numbers.
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
        return _posterior(_upgraded(config), tensors, _history(path), net, model)
    except StorageError:
        raise
    except LookupError as error:
        said = str(error) if len(str(error).split()) > 1 else repr(error)
        raise StorageError(f"{path / CONFIG} does not describe a posterior that is known here: {said}") from None
    except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError, MemoryError) as error:
        raise StorageError(f"{path / CONFIG} does not describe the posterior in {STATE} ({error!r})") from None


def _posterior(
    config: Values, tensors: Params, history: tuple[dict[str, float], ...], net: Net | None, model: Model | None
) -> Posterior:
    """The posterior, of which nothing large is made before the shapes of all tensors are known to fit."""
    data, kind = config["model"], Posterior.registry.find(config["posterior"])
    if alone := {*config["tensors"]} ^ tensors.keys():
        raise ValueError(f"{min(alone)!r} is in one of the two alone")
    # seeded draws follow the order
    ordered = {name: tensors[name] for name in config["tensors"] if not name.startswith(PREFIX)}
    values, hints = _fields(kind, ordered, config["numbers"]), get_type_hints(kind)
    trees = [value for name, value in values.items() if hints[name] in (Params, Variables)]
    model = _model(data, net, trees) if model is None else _completed(model, data)
    _check_fit(trees, model.network.module)
    posterior: Posterior = kind(model, **values, record=_record(config["record"], history))
    posterior.check()
    _check_likelihood(trees, model)
    if isinstance(model.network.module, MLP):  # tensors that fit each other and no forward pass show here
        posterior.draw(1)(posterior.inputs(torch.zeros(1, model.network.module.config["inputs"])))
    if "calibrators" in config:
        return Calibrated.of(posterior, *calibrators_from(config["calibrators"], tensors))
    return posterior


def _upgraded(config: Values) -> Values:
    """What an older version wrote, as this version would have written it."""
    if config["schema"] >= 2:
        return config
    model, record = dict(config["model"]), dict(config["record"])
    if "finished" in record:
        record["status"] = "finished" if record.pop("finished") else "interrupted"
    for name in ("likelihood", "prior"):
        if "." in model[name]["kind"]:  # of the user's own, without its numbers
            model[name] = {"opaque": model[name]["kind"]}
    if _innermost(record["method"]).get("kind") in LOG_UNIFORM:
        paths = (name.partition("/") for name in config["tensors"])
        noisy = [name for field, _, name in paths if field in ("scale", "relative_scale")]
        model["prior"] = {"kind": "LogUniform", "names": noisy, "others": model["prior"]}
    return {**config, "model": model, "record": record, "numbers": {}}


def _innermost(method: Values) -> Values:
    """What an ensemble is made of, or the method itself."""
    inner = method.get("method")
    return _innermost(inner) if isinstance(inner, dict) else method


def _fields(kind: type, tensors: Params, numbers: Values, prefix: str = "") -> Values:
    """The fields of a posterior, or of a dataclass of tensors inside one."""
    hints = get_type_hints(kind)
    names = [f.name for f in fields(kind) if f.init and f.name not in ("model", "record")]
    return {name: _field(hints[name], f"{prefix}{name}", tensors, numbers) for name in names}


def _field(hint: Any, path: str, tensors: Params, numbers: Values) -> Any:
    if hint is Tensor:
        return tensors[path]
    if path in numbers:
        return numbers[path]
    if is_dataclass(hint) and isinstance(hint, type):
        return hint(**_fields(hint, tensors, numbers, f"{path}/"))
    return {name.removeprefix(f"{path}/"): t for name, t in tensors.items() if name.startswith(f"{path}/")}


def _model(data: Values, net: Net | None, trees: Trees) -> Model:
    likelihood, prior = (_part(registry, data[registry.family]) for registry in (Likelihood.registry, Prior.registry))
    made = _rebuilt(data["net"], trees) if net is None else net
    network = Network(made, dropout=_dropout(data["dropout"]), scaling=scaling_from(data))
    network = network.with_outputs(_output_rule(data.get("outputs")))
    return Model(network.without_noise() if data.get("noise_off") is True else network, likelihood, prior)


def _output_rule(data: Values | str | None) -> OutputRule | HeadsRule:
    """Folders that are older than the rule have none."""
    if isinstance(data, str):
        raise StorageError(
            f"the output of the network is picked by {data}, which a file cannot hold: pass the model, "
            "load(folder, model=Model(net, ..., outputs=...))"
        )
    rule = OutputRule() if data is None else decode(data, {"OutputRule": OutputRule, "HeadsRule": HeadsRule})
    if not isinstance(rule, OutputRule | HeadsRule):
        raise ValueError(f"{data!r} does not say which output of the network is meant")
    return rule


def _part(registry: Registry, data: Values) -> Any:
    if "opaque" in data:
        raise StorageError(
            f"the {registry.family} {data['opaque']!r} holds more than its numbers, so it cannot be made from a file: "
            "pass the model, load(folder, model=...)"
        )
    try:
        registry.find(data["kind"])
    except LookupError as error:
        raise StorageError(f"{error}; or pass the model, load(folder, model=...)") from None
    return decode(data, {**known_kinds(), **registry.kinds})


def scaling_from(model: Values) -> InputScaling | None:
    """How a model that `describe` wrote standardizes its inputs."""
    data = model.get("scaling")
    scaling = None if data is None else decode(data, {"InputScaling": InputScaling, "LeafScaling": LeafScaling})
    if scaling is not None and not isinstance(scaling, InputScaling):
        raise ValueError(f"{data!r} does not say how inputs are standardized")
    return scaling


def _dropout(data: Values | None) -> DropoutChange | None:
    change = None if data is None else decode(data, {"DropoutChange": DropoutChange})
    if change is None:
        return None
    if not isinstance(change, DropoutChange) or not isinstance(change.inserted, bool):
        raise ValueError(f"{data!r} is no change of dropout")
    for pattern, rate in (("*", change.rate or 0.0), *change.rates):
        if not isinstance(pattern, str):
            raise TypeError(f"a pattern of dropout rates must be text, got {pattern!r}")
        check_rate("a rate of dropout", rate)
    return change


def _completed(model: Model, data: Values) -> Model:
    """The user's model with what the method changed: the dropout that it put in, the prior that it replaced."""
    prior, change, likelihood = data["prior"], _dropout(data["dropout"]), data["likelihood"]
    if likelihood.get("kind") in SETTLED:
        model = _settled(model, _part(Likelihood.registry, likelihood))
    name = prior.get("opaque") or prior["kind"]
    if "opaque" not in prior and name in Prior.registry.kinds:
        model = model.with_prior(_part(Prior.registry, prior))
    elif name.rpartition(".")[2] != type(model.prior).__name__:
        raise StorageError(
            f"the posterior was found under the prior {name!r}, and the model that was given has {model.prior}"
        )
    if (scaling := scaling_from(data)) is not None:
        model = model.with_network(model.network.with_scaling(scaling))
    if model.given_likelihood is None:
        model = model.with_likelihood(_part(Likelihood.registry, data["likelihood"]))
    if change is not None:
        model = model.with_network(model.network.with_dropout(change))
    return model.with_network(model.network.without_noise()) if data.get("noise_off") is True else model


def _settled(model: Model, saved: Likelihood) -> Model:
    """The user's model with the likelihood that `fit` has made of its own."""
    if not _made_of(saved, model.given_likelihood):
        raise StorageError(
            f"the posterior was found under {saved}, and the model that was given has {model.given_likelihood}"
        )
    return Model(model.network, saved, model.prior)


def _made_of(saved: Likelihood, given: Likelihood | None) -> bool:
    """Whether `fit` makes the one of the other."""
    if isinstance(saved, Joint) and isinstance(given, Joint) and saved.names == given.names:
        return all(_made_of(s.likelihood, g.likelihood) for s, g in zip(saved.heads, given.heads, strict=True))
    base = saved.base if isinstance(saved, ClassesAtPositions | NumbersAtPositions) else saved
    return given is None or given in (saved, base)


def _rebuilt(data: Values, trees: Trees) -> nn.Module:
    """The network that credo built, made once its shapes, which cost nothing, are known to be those of the tensors."""
    if data["builder"] is None:
        raise StorageError(
            "credo did not build this network, so it cannot rebuild it: pass the module, load(folder, net=...)"
        )
    hidden, tensors = data["config"].get("hidden"), sum(len(_flat(tree)) for tree in trees)
    if isinstance(hidden, list) and len(hidden) > tensors:
        raise StorageError(f"the folder does not fit the network: {len(hidden)} hidden layers and {tensors} tensors")
    with torch.device("meta"):
        _check_fit(trees, _built(data))
    with Stream(0, ("structure",)).borrowed_global():
        return _built(data)


def _built(data: Values) -> nn.Module:
    net = BUILDERS[data["builder"]](**data["config"]).to(DTYPES[data["dtype"]])
    for name in data["frozen"]:
        net.get_parameter(name).requires_grad_(False)
    return net


def _check_fit(trees: Trees, module: nn.Module) -> None:
    """What the folder holds for the network must be the network's: the same names, shapes and precision."""
    every = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    inferred = {name for name, p in module.named_parameters() if p.requires_grad}
    here = {name: _look(t, name in inferred, t.shape) for name, t in every.items()}
    for tree in trees:
        params = tree.params if isinstance(tree, Variables) else tree
        there = {
            name: _look(t, name in params, t.shape[1:])
            for name, t in _flat(tree).items()
            if not name.startswith(LIKELIHOOD_PREFIX)
        }
        for name in sorted(there.keys() | here.keys() if isinstance(tree, Variables) else there.keys()):
            if there.get(name) != here.get(name):
                raise StorageError(
                    f"the folder does not fit the network: {name!r} is {there.get(name, 'absent')} in the folder and "
                    f"{here.get(name, 'absent')} in the network"
                )


def _flat(tree: Params | Variables) -> Params:
    if not isinstance(tree, Variables):
        return tree
    if twice := tree.params.keys() & tree.buffers.keys():
        raise StorageError(f"the folder holds {min(twice)!r} twice: as a parameter and as a buffer")
    return {**tree.params, **tree.buffers}


def _look(t: Tensor, inferred: bool, shape: torch.Size) -> str:
    kind = "a parameter" if inferred else "a buffer or frozen"
    return f"{kind}, {str(t.dtype).removeprefix('torch.')}, of shape {tuple(shape)}"


def _check_likelihood(trees: Trees, model: Model) -> None:
    """The likelihood's learned parameters must be those that it names, one for each output of the network."""
    for variables in trees:
        if not isinstance(variables, Variables):
            continue
        there = likelihood_params(variables.params)
        outputs = next((t.shape[-1] for t in there.values() if t.ndim > 1), 1)
        if isinstance(model.network.module, MLP):
            outputs = model.network.module.config["outputs"]
        shapes = {name: tuple(t.shape) for name, t in model.likelihood.parameters(outputs).items()}
        right_type = all(t.dtype == model.network.dtype for t in there.values())
        if not right_type or {name: tuple(t.shape[1:]) for name, t in there.items()} != shapes:
            raise StorageError(
                f"the folder does not fit the likelihood {model.likelihood}: the parameters of its noise are "
                f"{', '.join(there) or 'absent'} in the folder, and should be "
                f"{', '.join(f'{name} {shape}' for name, shape in shapes.items()) or 'absent'}"
            )


def _record(data: Values, history: tuple[dict[str, float], ...]) -> Record:
    if not isinstance(data["notes"], list):
        raise TypeError("the notes of the run are no list of sentences")
    record = Record(**{**data, "notes": tuple(data["notes"])}, history=history)
    texts = (record.plan, record.reason, *record.notes)
    whole = type(record.seed) is int or record.seed is None
    counted = record.size is None or is_number(record.size)  # a total weight may be a fraction
    if not whole or not counted or not is_number(record.seconds) or not all(isinstance(text, str) for text in texts):
        raise TypeError("the record of the run holds values of the wrong type")
    if not isinstance(record.method, dict):
        raise TypeError("the record of the run does not say by what method it was made")
    return record


def _history(path: Path) -> tuple[dict[str, float], ...]:
    try:
        rows = tuple(json.loads(line) for line in read_text(path, HISTORY).splitlines() if line)
    except StorageError:
        raise
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path / HISTORY} is not readable JSON ({error}); the file is damaged") from None
    if not all(isinstance(row, dict) and all(map(is_number, row.values())) for row in rows):
        raise StorageError(f"{path / HISTORY} holds other things than numbers by name; the file is damaged")
    return rows
