"""The one loop: from a model, data and a method to a posterior."""

from __future__ import annotations

import operator
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from credo.core.checks import check_kind, check_positive
from credo.core.config import encode
from credo.core.record import CredoWarning, Record
from credo.core.rng import Stream
from credo.core.storage import fingerprint
from credo.core.trees import Params, Variables, map_tensors
from credo.loop.batches import Source, tensor_source
from credo.loop.checkpoints import Checkpoint, Checkpoints
from credo.loop.draws import Collector, InMemory, OnDisk
from credo.loop.improving import still_improving
from credo.loop.loaders import LoaderSource
from credo.loop.progress import Listener, listener
from credo.loop.response import unresponsive
from credo.loop.run import Loop, Surroundings
from credo.loop.start import Start, start_tensors, started
from credo.loop.validation import Validation
from credo.methods.base import Method, Sampler, State, Tick
from credo.methods.ensemble import Ensemble
from credo.model import Model, Target
from credo.nets.plan import Plan, measured_plan, obvious_plan
from credo.posteriors import Posterior
from credo.posteriors.inputs import checked_outputs
from credo.posteriors.writing import describe

__all__ = ["CredoWarning", "fit"]


def fit(
    model: Model | nn.Module,
    data: Any,
    method: Method,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    validation: Any = None,
    checkpoint: str | Path | Checkpoint | None = None,
    resume: bool = False,
    progress: bool | Listener | None = None,
    start: Start | None = None,
    seconds: float | None = None,
    temperature: float = 1.0,
    plan: Plan | None = None,
) -> Posterior:
    """Learn a posterior from data.

    Args:
        model: the statistical model; a bare module chooses its likelihood by the targets.
        data: a pair (x, y) of tensors or arrays, a TensorDataset, a DataLoader, or `credo.PerMember`.
        method: how to learn, for example `credo.MAP(epochs=100)`.
        seed: every stream of randomness derives from it; the same seed (and plan) gives the same bits.
        device: where to compute.
        validation: a pair (x, y); its log likelihood joins the history.
        checkpoint: a folder to save the run to as it goes, or a `Checkpoint` with an interval.
        resume: go on with the run that the checkpoint folder holds, if there is one.
        progress: True or False; None shows a line where there is a terminal; or a function that takes a `Report`.
        start: weights to begin with: another posterior, a trained module, or tensors by name. None draws fresh weights.
        seconds: stop after this much time, counted from this call, and keep what there is.
        temperature: T of the tempered posterior p(w | data)^(1/T).
        plan: members together or one by one; None chooses, measuring where it is not obvious.

    Returns:
        The posterior. Its `notes` say what was chosen and what went wrong. Ctrl-C ends a run and keeps its result.

    Example:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 32)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), credo.DeepEnsemble(members=3, epochs=20))
        >>> posterior.predict(x).stddev.shape
        torch.Size([32, 1])
    """
    if not isinstance(method, Method):
        raise TypeError(f"method must be a value such as credo.MAP(epochs=100), got {method!r}")
    _check_wishes(plan, checkpoint, progress, seconds)
    seed, recorded = _whole(seed), encode(method)
    streams = Stream(seed)
    with torch.inference_mode(False), torch.enable_grad():
        run = _prepare(model, data, method, streams, _device(device), start, temperature)
        state = method.init(run.target, run.variables, streams.child("state"))
        settings = {"method": recorded, "seed": seed, "temperature": temperature}
        checkpoints = _checkpoints(checkpoint, resume, run, settings)
        saved = checkpoints.existing(resume=resume) if checkpoints else None
        chosen, reason = (saved.plan, "that of the resumed run") if saved else _plan(plan, run, method, state, streams)
        around = Surroundings(
            validation=None if validation is None else Validation(validation, run.target, run.variables),
            checkpoints=checkpoints,
            collector=_collector(method, run, checkpoints),
            told=listener(progress, type(method).__name__),
            limit=seconds,
        )
        loop = Loop(run.target.with_plan(chosen), method, run.source, streams.child("noise"), state, around)
        loop.begin_with(saved)
        ending = loop.run()
        posterior = loop.posterior()
    if ending.unfinished is not None:
        warnings.warn(ending.unfinished, CredoWarning, stacklevel=2)
    better = None if isinstance(method, Sampler) or ending.unfinished else still_improving(ending.history)
    flat = unresponsive(loop.target, method.current(ending.state), *run.source.example)
    record = Record(
        method=recorded,
        seed=seed,
        size=run.source.size,
        plan=f"{chosen.value} ({reason})",
        seconds=ending.seconds,
        finished=ending.unfinished is None,
        notes=(
            *run.notes,
            *posterior.record.notes,
            *ending.notes,
            *(note for note in (better, flat, ending.unfinished) if note),
        ),
        history=ending.history,
    )
    return replace(posterior, record=record)


def _check_wishes(plan: object, checkpoint: object, progress: object, seconds: float | None) -> None:
    if plan is not None and plan not in list(Plan) and plan not in [each.value for each in Plan]:
        raise ValueError(f"plan must be one of {', '.join(repr(each.value) for each in Plan)}, got {plan!r}")
    check_kind("checkpoint", checkpoint, "'runs/first'", str, Path, Checkpoint, NoneType)
    if not callable(progress):
        check_kind("progress", progress, "True", bool, NoneType)
    if seconds is not None:
        check_positive("seconds", seconds)


def _device(wish: torch.device | str) -> torch.device:
    try:
        device = torch.device(wish)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be a device of torch's such as 'cpu' or 'cuda', got {wish!r}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={str(wish)!r}, and torch finds no CUDA device on this machine: use device='cpu'")
    return device


def _whole(seed: Any) -> int:
    try:
        return operator.index(seed)
    except TypeError:
        raise TypeError(f"seed must be a whole number, got {seed!r}") from None


@dataclass(frozen=True)
class _Run:
    """All that is settled before the first step."""

    target: Target
    variables: Variables
    source: Source
    start: Params | None
    notes: tuple[str, ...]


def _prepare(
    model: Model | nn.Module,
    data: Any,
    method: Method,
    streams: Stream,
    device: torch.device,
    start: Start | None,
    temperature: float,
) -> _Run:
    check_positive("temperature", temperature)
    model = model if isinstance(model, Model) else Model(model)
    source = _source(data, method, streams.child("order"), device, model.network.dtype)
    x, y = source.example
    checked_outputs(model, model.network.given().to(device), x)
    model, changes = method.prepare(model, x)
    variables = model.network.initial(method.members, streams.child("init")).to(device)
    outputs = checked_outputs(model, variables, x)
    if method.follows_slopes and not model.network.differentiable(variables, x):
        raise ValueError(
            f"the network's outputs have no slope by its weights, and {type(method).__name__} follows slopes: "
            "something in forward() cuts them, such as detach(), numpy or torch.no_grad(). Use BlackBoxVI, Metropolis "
            "or SimulatedAnnealing, which need none, or operations of torch throughout"
        )
    model, choice = model.with_likelihood_for(y, outputs)
    source.check(partial(model.likelihood.check_targets, outputs=outputs))
    variables = model.complete(variables, outputs)
    given = None if start is None else start_tensors(start, method.members)
    if given is not None:
        variables = started(variables, given, model.network.module)
    notes = (*source.notes, *changes, *([choice] if choice else []), *_alike(model, method))
    return _Run(Target(model, source.size, temperature), variables, source, given, notes)


def _alike(model: Model, method: Method) -> tuple[str, ...]:
    """A sentence about parameters that all members start with alike."""
    names = model.network.undrawn
    if method.members == 1 or not names:
        return ()
    return (
        f"all members start with the same {', '.join(names)}: no initialiser of the module reaches them; give Model a "
        "function that makes the network, so that each member draws its own",
    )


def _collector(method: Method, run: _Run, checkpoints: Checkpoints | None) -> Collector | None:
    if isinstance(method, Ensemble) and isinstance(method.method, Sampler):
        name = type(method.method).__name__
        raise ValueError(
            f"an ensemble of chains would lose their draws: give {name}(chains={method.members}, ...) in place of "
            f"Ensemble({name}(...), members={method.members})"
        )
    if not isinstance(method, Sampler):
        return None
    rows = InMemory() if checkpoints is None else OnDisk(checkpoints.folder)
    return Collector(rows, run.target.model.network.frozen)


def _source(data: Any, method: Method, order: Stream, device: torch.device, dtype: torch.dtype) -> Source:
    if isinstance(data, DataLoader):
        if method.whole_data and len(data) > 1:
            raise ValueError(
                f"{type(method).__name__} needs all the data in every step, and the DataLoader cuts them into batches: "
                "give whole tensors, (x, y)"
            )
        return LoaderSource(data, order=order, device=device, dtype=dtype)
    return tensor_source(
        data, batch_size=method.batch_size, members=method.members, order=order, device=device, dtype=dtype
    )


def _checkpoints(
    wish: str | Path | Checkpoint | None, resume: bool, run: _Run, settings: dict[str, Any]
) -> Checkpoints | None:
    if wish is None:
        if resume:
            raise ValueError("resume=True needs checkpoint=, the folder of the run to go on with")
        return None
    identity = {
        **settings,
        "data": run.source.fingerprint(),
        "model": describe(run.target.model),
        "start": None if run.start is None else fingerprint(run.start),
    }
    return Checkpoints(wish if isinstance(wish, Checkpoint) else Checkpoint(wish), identity)


def _plan(wish: Plan | None, run: _Run, method: Method, state: State, streams: Stream) -> tuple[Plan, str]:
    if wish is not None:
        return Plan(wish), "as asked"
    obvious = obvious_plan(run.target.model.network.module, method.members)
    if obvious is not None and obvious[0] is Plan.ONE_BY_ONE:
        return obvious
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
        return Plan.ONE_BY_ONE, "torch cannot vectorise this network"
    return obvious
