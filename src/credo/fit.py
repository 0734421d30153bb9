"""The one loop: from a model, data and a method to a posterior."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any

import torch
from torch import nn

from credo.core.checks import check_kind, check_positive
from credo.core.config import encode
from credo.core.record import CredoWarning, Record
from credo.core.rng import Stream
from credo.core.status import Status
from credo.loop.advice import still_improving, unresponsive
from credo.loop.checkpoints import Checkpoint
from credo.loop.preparation import Data, Start, checkpoints_for, chosen_plan, collector_for, prepare
from credo.loop.progress import Listener, listener
from credo.loop.roles import Place, roles_of
from credo.loop.run import Augment, Loop, Services
from credo.loop.units import saved_standards
from credo.loop.validation import HeldOutForm, Validation
from credo.methods.base import Method, Sampler
from credo.model import Model
from credo.nets.plan import Plan
from credo.posteriors import Posterior

__all__ = ["CredoWarning", "fit"]


def fit(
    model: Model | nn.Module,
    data: Any,
    method: Method,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    validation: Any = None,
    inputs: Place | Sequence[Place] | None = None,
    targets: Place | Sequence[str] | None = None,
    weights: Any = None,
    mask: Any = None,
    checkpoint: str | Path | Checkpoint | None = None,
    resume: bool = False,
    progress: bool | Listener | None = None,
    start: Start | None = None,
    seconds: float | None = None,
    temperature: float = 1.0,
    plan: Plan | None = None,
    augment: Augment | None = None,
) -> Posterior:
    """Learn a posterior from data.

    Args:
        model: the statistical model; a bare module chooses its likelihood by the targets, and has inputs and targets
            standardized inside.
        data: a pair (x, y) of tensors or arrays, a TensorDataset, a DataLoader, or `credo.PerMember`. x may be several
            inputs in a dict or tuple, or a `credo.Graph`; a dict or tuple of more than two parts is read as `inputs`,
            `targets` and `weights` say.
        method: how to learn, for example `credo.MAP(epochs=100)`.
        seed: every stream of randomness derives from it; the same seed (and plan) gives the same bits.
        device: where to compute.
        validation: held-out examples in the form of the data, or a pair (x, y), or (x, y, weights); their log
            likelihood joins the history, and the accuracy where y holds classes.
        inputs: key or place of the part of the data (or of a loader's batches) that is x, or several; None for all
            that is neither targets nor weights.
        targets: key or place of the part that is y, such as "labels" or -1, or several keys; `forward` never gets it.
        weights: how much each example counts, (N,): a weight of two is an example that comes twice; a dict of such by
            the name of a head, where heads weigh differently; or the key or place of the part of the data that says so.
        mask: which positions of the targets were observed, (N, *positions) of yes or no, for a network with outputs at
            positions; a dict of masks by the name of a head; or the key or place of the part of the data that says so,
            such as "attention_mask". A class of -100, or a NaN, in y says the same.
        checkpoint: a folder to save the run to as it goes, or a `Checkpoint` with an interval.
        resume: continue the run that the checkpoint folder holds, if there is one.
        progress: True or False; None shows a line where there is a terminal; or a function that takes a `Report`.
        start: weights to begin with: another posterior, a trained module, or tensors by name. None leaves it to the
            method, which draws fresh ones as a rule.
        seconds: stop after this much time, counted from this call, and keep what there is.
        temperature: T of the tempered posterior p(w | data)^(1/T).
        plan: members together or one by one; None chooses, measuring where it is not obvious.
        augment: varies the inputs of each batch in training, such as `credo.data.augmentation.Augmentation(flip=True)`
            for images: a function of the inputs and the step's stream of randomness that returns inputs of the same
            shape.

    Returns:
        The posterior. Its `notes` say what was chosen and what went wrong. Ctrl-C ends a run and keeps its result.

    Examples:
        >>> import torch, credo
        >>> x = torch.linspace(-1, 1, 32)[:, None]
        >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x, x.sin()), credo.DeepEnsemble(members=3, epochs=20))
        >>> posterior.predict(x).stddev.shape
        torch.Size([32, 1])
    """
    if not isinstance(method, Method):
        raise TypeError(f"method must be a value such as credo.MAP(epochs=100), got {method!r}")
    _check_arguments(plan, checkpoint, progress, seconds)
    if augment is not None and not callable(augment):
        raise TypeError(f"augment must be a function of inputs and a stream, such as Augmentation(), got {augment!r}")
    seed, recorded = _integer(seed), encode(method)
    streams = Stream(seed)
    with torch.inference_mode(False), torch.enable_grad():
        roles, of_examples, of_positions = roles_of(inputs, targets, weights, mask)
        standards = saved_standards(checkpoint) if resume else None
        taken = Data(data, roles, of_examples, of_positions, standards)
        run = prepare(model, taken, method, streams, _device(device), start, temperature)
        state = method.init(run.target, run.variables, streams.child("state"))
        state = method.begin_at(state, start) if isinstance(start, Posterior) else state
        settings = {"method": recorded, "seed": seed, "temperature": temperature}
        if augment is not None:
            settings["augment"] = repr(augment) if is_dataclass(augment) else type(augment).__qualname__
        checkpoints = checkpoints_for(checkpoint, resume, run, settings)
        saved = checkpoints.existing(resume=resume) if checkpoints else None
        chosen, why = (
            (saved.plan, "that of the resumed run") if saved else chosen_plan(plan, run, method, state, streams)
        )
        services = Services(
            validation=None
            if validation is None
            else Validation(validation, HeldOutForm(roles, run.source.weighted), run.target, run.variables),
            checkpoints=checkpoints,
            collector=collector_for(method, run, checkpoints),
            listener=listener(progress, type(method).__name__),
            limit=seconds,
            augment=augment,
        )
        loop = Loop(run.target.with_plan(chosen), method, run.source, streams.child("noise"), state, services)
        loop.begin_with(saved)
        result = loop.run()
        posterior = loop.posterior()
    if result.reason:
        warnings.warn(result.reason, CredoWarning, stacklevel=2)
    finished = result.status is Status.FINISHED
    example = run.source.example
    positions = run.target.model.positions(run.variables, example[0])
    better = still_improving(result.history, positions) if finished and not isinstance(method, Sampler) else None
    flat = unresponsive(loop.target, method.current(result.state), *example)
    advice = tuple(note for note in (better, flat, result.reason) if note)
    record = Record(
        method=recorded,
        seed=seed,
        size=_whole(run.source.size),
        plan=f"{chosen.value} ({why})",
        seconds=result.seconds,
        status=result.status,
        interrupted=result.interrupted,
        reason=result.reason,
        notes=(*run.notes, *posterior.record.notes, *result.notes, *advice),
        history=result.history,
    )
    return replace(posterior, record=record)


def _check_arguments(plan: object, checkpoint: object, progress: object, seconds: float | None) -> None:
    if plan is not None and plan not in list(Plan) and plan not in [each.value for each in Plan]:
        raise ValueError(f"plan must be one of {', '.join(repr(each.value) for each in Plan)}, got {plan!r}")
    check_kind("checkpoint", checkpoint, "'runs/first'", str, Path, Checkpoint, NoneType)
    if not callable(progress):
        check_kind("progress", progress, "True", bool, NoneType)
    if seconds is not None:
        check_positive("seconds", seconds)


def _device(name: torch.device | str) -> torch.device:
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be a device of torch's such as 'cpu' or 'cuda', got {name!r}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={str(name)!r}, and torch finds no CUDA device on this machine: use device='cpu'")
    return device


def _whole(size: float) -> float:
    """A whole number as such."""
    return int(size) if float(size).is_integer() else size


def _integer(seed: Any) -> int:
    try:
        return operator.index(seed)
    except TypeError:
        raise TypeError(f"seed must be a whole number, got {seed!r}") from None
