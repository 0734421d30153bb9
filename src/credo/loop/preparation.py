"""What is settled before the first step: model, first weights, source of examples, checkpoints, plan."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader

from credo.core.checks import check_positive
from credo.core.inputs import Inputs, Targets, is_graph
from credo.core.record import CredoWarning
from credo.core.rng import Stream
from credo.core.storage import fingerprint
from credo.core.trees import Params, Variables, map_tensors
from credo.loop.batches import Source, tensor_source
from credo.loop.checkpoints import Checkpoint, Checkpoints
from credo.loop.draws import Collector, InMemory, OnDisk
from credo.loop.loaders import LoaderSource
from credo.loop.roles import Roles, checked_targets
from credo.loop.standardizing import Standards
from credo.loop.training_noise import without_noise
from credo.loop.units import Units
from credo.methods.base import Method, Sampler, StartFrom, Tick
from credo.methods.ensemble import Ensemble
from credo.model import LIKELIHOOD_PREFIX, Model, Target, likelihood_params
from credo.nets.heads import Shapes
from credo.nets.plan import Plan, measured_plan, obvious_plan
from credo.nets.structure import COMPILED, fresh_note
from credo.posteriors import Posterior
from credo.posteriors.base import checked_shape
from credo.posteriors.writing import describe

FEW = 2
"""Examples that are looked at."""
Start = Posterior | nn.Module | Params
"""Weights to begin with."""


@dataclass(frozen=True)
class Prepared:
    """All that is settled before the first step."""

    target: Target  # the density, with the likelihood chosen
    variables: Variables  # first weights of every member
    source: Source  # of the batches
    start: Params | None  # the given first weights; None for those that the method starts from
    notes: tuple[str, ...]  # what was chosen


@dataclass(frozen=True)
class Data:
    """What is learned from, as a person gave it."""

    values: Any  # a pair (x, y) and the like
    roles: Roles  # what the parts of the values are
    weights: Any = None  # of the examples, where they are not among the values
    mask: Any = None  # of the positions that were observed, likewise
    standards: Standards | None = None  # those of the run that is resumed


def prepare(
    model: Model | nn.Module,
    data: Data,
    method: Method,
    streams: Stream,
    device: torch.device,
    start: Start | None,
    temperature: float,
) -> Prepared:
    """Bring model, data and method together, or say why they do not fit."""
    check_positive("temperature", temperature)
    model = model if isinstance(model, Model) else Model(model)
    load, bare = partial(_source, data, method, streams.child("order"), device), model.is_bare
    source = load(model.data_dtype)
    x, y = source.example
    model = model.with_heads_for(y)
    model, off = without_noise(model, x) if method.noise_off else (model, ())
    shape, heads = _shapes(model, x, device)
    model, choice = model.with_likelihood_for(y, shape, heads)
    outputs = model.likelihood.outputs_of(shape)
    source.check(partial(checked_targets, model.likelihood, outputs), model.likelihood.observed)
    model, changes = method.prepare(model, x)
    first = model.network.module_weights if method.start_from is StartFrom.MODULE else model.network.initial
    variables = first(method.members, streams.child("init")).to(device)
    checked_shape(model, variables, x)
    if method.needs_gradient and not model.network.differentiable(variables, x):
        raise ValueError(
            f"the network's outputs have no gradient by its weights, and {type(method).__name__} needs one: something "
            "in forward() cuts it, such as detach(), numpy or torch.no_grad(). Use BlackBoxVI, Metropolis or "
            "SimulatedAnnealing, which need none, or operations of torch throughout"
        )
    units = Units(model, source, bare=bare, fresh=method.start_from is StartFrom.FRESH)
    units = units.standardized(variables, outputs, start, load, data.standards)
    model, source = units.model, units.source
    for each in units.warnings:
        warnings.warn(each, CredoWarning, stacklevel=3)
    x, y = source.example
    source.check(partial(checked_targets, model.likelihood, outputs), model.likelihood.observed)
    variables = model.complete(variables, outputs)
    _check_log_prob(model, variables, x, checked_targets(model.likelihood, outputs, y[:FEW]))
    given = None if start is None else start_tensors(start, method.members)
    if given is not None:
        variables = started(variables, given, model.network.module)
    notes = (
        *source.notes,
        *model.network.passing_note(x),
        *_weights_note(source, model),
        *_hooks_note(model.network.hooked),
        *off,
        *changes,
        *([choice] if choice else []),
        *units.notes,
        *_first_weight_notes(model, method, variables, given),
        *model.network.trace(variables, x).notes,
    )
    return Prepared(Target(model, source.size, temperature), variables, source, given, notes)


def _shapes(model: Model, x: Inputs, device: torch.device) -> tuple[tuple[int, ...], Shapes]:
    """Of the outputs for one example, and of those of each head, if there are several."""
    weights = model.network.given().to(device)
    return checked_shape(model, weights, x), model.network.trace(weights, x).heads


@torch.no_grad()
def _check_log_prob(model: Model, variables: Variables, x: Inputs, y: Targets) -> None:
    """Refuse a likelihood, such as one of a person's own, that does not give one number for each example."""
    if is_graph(x):
        return
    first = variables.take([0])
    outputs = model.network.evaluate(first, x[:FEW])
    found = model.likelihood.log_prob(outputs, y, likelihood_params(first.params)).shape
    if found != outputs.shape[:2]:
        name, shape = type(model.likelihood).__name__, tuple(outputs.shape)
        raise ValueError(
            f"{name}.log_prob gives shape {tuple(found)} for outputs {shape}: it must be one number for each member "
            "and example, (M, B), summed over the targets of an example"
        )


def _first_weight_notes(model: Model, method: Method, variables: Variables, given: Params | None) -> tuple[str, ...]:
    """Sentences about first weights that are not what a person would think."""
    network, fresh = model.network, method.start_from is StartFrom.FRESH
    names, notes = network.undrawn, tuple[str, ...]()
    if given is None and fresh:
        module = network.given().to(variables.device).params
        notes = fresh_note(module, {name: variables.params[name] for name in module})
    if method.members == 1 or not names or not fresh:
        return notes
    return (
        *notes,
        f"all members start with the same {', '.join(names)}: no initializer of the module reaches them; give Model a "
        "function that makes the network, so that each member draws its own",
    )


def _weights_note(source: Source, model: Model) -> tuple[str, ...]:
    """A sentence about what weights of examples do not reach."""
    if not source.weighted or not any(isinstance(m, _BatchNorm) for m in model.network.module.modules()):
        return ()
    return ("the weights of examples count in the likelihood alone: for batch norm every example is one",)


def _hooks_note(names: tuple[str, ...]) -> tuple[str, ...]:
    """A sentence about hooks on parameters, which a copy of them does not have."""
    if not names:
        return ()
    return (
        f"the hooks on the gradients of {', '.join(names)} are not called: freeze a parameter by "
        "requires_grad_(False), or multiply it by a mask in forward()",
    )


def _source(data: Data, method: Method, order: Stream, device: torch.device, dtype: torch.dtype) -> Source:
    values = data.values
    if isinstance(values, DataLoader):
        if data.weights is not None:
            raise ValueError(
                "weights of a DataLoader's examples come with its batches, in its own order: let it give them, and say "
                "where they are, as in fit(..., weights=2) for batches (x, y, weights)"
            )
        if data.mask is not None:
            raise ValueError(
                "a mask of a DataLoader's examples comes with its batches: let it give one, and say where it is, as in "
                "fit(..., mask='attention_mask'), or mask=2 for batches (x, y, mask)"
            )
        if method.whole_data and len(values) > 1:
            raise ValueError(
                f"{type(method).__name__} needs all the data in every step, and the DataLoader cuts them into batches: "
                "give whole tensors, (x, y)"
            )
        return LoaderSource(values, data.roles, order=order, device=device, dtype=dtype)
    return tensor_source(
        values,
        data.roles,
        batch_size=method.batch_size,
        members=method.members,
        order=order,
        device=device,
        dtype=dtype,
        weights=data.weights,
        mask=data.mask,
    )


def collector_for(method: Method, run: Prepared, checkpoints: Checkpoints | None) -> Collector | None:
    """Where a sampler's draws go; None for other methods."""
    if isinstance(method, Ensemble) and isinstance(method.method, Sampler):
        name = type(method.method).__name__
        more = f"chains={method.members}, ..." if hasattr(method.method, "chains") else "draws=..."
        raise ValueError(
            f"an ensemble of samplers would lose their draws: give {name}({more}) in place of "
            f"Ensemble({name}(...), members={method.members})"
        )
    if not isinstance(method, Sampler):
        return None
    rows = InMemory() if checkpoints is None else OnDisk(checkpoints.folder)
    return Collector(rows, run.target.model.network.frozen)


def checkpoints_for(
    checkpoint: str | Path | Checkpoint | None, resume: bool, run: Prepared, settings: dict[str, Any]
) -> Checkpoints | None:
    """The checkpoints of a run, which differs from others by its settings, data, model and first weights."""
    if checkpoint is None:
        if resume:
            raise ValueError("resume=True needs checkpoint=, the folder of the run to continue")
        return None
    identity = {
        **settings,
        "data": run.source.fingerprint(),
        "model": describe(run.target.model),
        "start": None if run.start is None else fingerprint(run.start),
    }
    return Checkpoints(checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint), identity)


def chosen_plan(requested: Plan | None, run: Prepared, method: Method, state: Any, streams: Stream) -> tuple[Plan, str]:
    """How members are computed, and why."""
    network, x = run.target.model.network, run.source.example[0]
    alone = network.trace(run.variables, x).alone
    if alone is not None:
        return Plan.ONE_BY_ONE, alone
    if requested is not None:
        asked = Plan(requested)
        if asked is Plan.TOGETHER and method.members > 1 and not network.vectorizes(run.variables, x):
            return Plan.ONE_BY_ONE, "together was asked for, and torch cannot vectorize this network"
        return asked, "as asked"
    obvious = obvious_plan(network.module, method.members)
    if obvious is not None and obvious[0] is Plan.ONE_BY_ONE:
        return obvious
    if not network.vectorizes(run.variables, x):
        return Plan.ONE_BY_ONE, "torch cannot vectorize this network"
    batch, tick = next(run.source.steps(0)), Tick(0, 1, streams.child("trial"))

    def attempt(plan: Plan) -> None:
        copied = map_tensors(lambda _, t: t.clone(), state)
        method.attempt(run.target.with_plan(plan), copied, batch, tick)
        if run.variables.device.type == "cuda":
            torch.cuda.synchronize(run.variables.device)

    if obvious is None:
        return measured_plan(attempt)
    try:
        attempt(Plan.TOGETHER)
    except RuntimeError:
        return Plan.ONE_BY_ONE, "torch cannot vectorize this network"
    return obvious


def start_tensors(start: Any, members: int) -> Params:
    """The given weights and buffers by name, with a member axis or without."""
    if isinstance(start, Posterior):
        networks = start.members(members)
        return {**networks.params, **networks.buffers}
    if isinstance(start, nn.Module):
        return start_tensors({**dict(start.named_parameters()), **dict(start.named_buffers())}, members)
    if not isinstance(start, dict) or not all(isinstance(value, Tensor) for value in start.values()):
        raise TypeError(f"start must be a posterior, a module or a dict of tensors by name, got {type(start).__name__}")
    return {name.replace(f"{COMPILED}.", ""): value.detach() for name, value in start.items()}


def started(fresh: Variables, given: Params, module: nn.Module) -> Variables:
    """Fresh weights, overwritten by the given ones.

    Every parameter of the network must be given; buffers and the likelihood's own parameters may be missing. A tensor
    that the network does not have is refused.
    """
    known = {**fresh.params, **fresh.buffers}
    second_names = module.state_dict().keys()  # of tied weights
    expanded = {name: _expanded(name, value, known[name]) for name, value in given.items() if name in known}
    unknown = [n for n in given if n not in known and n not in second_names and not n.startswith(LIKELIHOOD_PREFIX)]
    missing = [n for n in fresh.params if n not in expanded and not n.startswith(LIKELIHOOD_PREFIX)]
    if unknown or missing:
        which = f"the network has no {unknown[0]!r}" if unknown else f"parameter {missing[0]!r} is missing"
        raise ValueError(f"start does not fit the network: {which}")
    return Variables(
        {name: expanded.get(name, value) for name, value in fresh.params.items()},
        {name: expanded.get(name, value) for name, value in fresh.buffers.items()},
    )


def _expanded(name: str, value: Tensor, like: Tensor) -> Tensor:
    if value.shape not in (like.shape, like.shape[1:]):
        raise ValueError(
            f"start does not fit the network: {name!r} has shape {tuple(value.shape)}, and the network needs "
            f"{tuple(like.shape[1:])}"
        )
    return value.to(like).expand(like.shape).clone()
