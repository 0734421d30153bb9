"""The one loop: from a model, data and a method to a posterior."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from credo.core.config import encode
from credo.core.record import Record
from credo.core.rng import Stream
from credo.core.trees import Params, Variables, map_tensors
from credo.loop.batches import Source, pair, prepared, source_of
from credo.loop.checkpoints import Checkpoint, Checkpoints, Saved
from credo.loop.history import History
from credo.loop.interrupts import Interrupts
from credo.loop.progress import Listener, Report, Throttle, listener
from credo.methods.base import Method, State, Tick
from credo.model import Batch, Model, Target
from credo.nets.plan import Plan, measured_plan, obvious_plan
from credo.posteriors import Posterior
from credo.posteriors.writing import describe


class CredoWarning(UserWarning):
    """Trouble that does not stop a run, in a sentence."""


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
    start: Posterior | nn.Module | Params | None = None,
    seconds: float | None = None,
    temperature: float = 1.0,
    plan: Plan | None = None,
) -> Posterior:
    """Learn a posterior from data.

    Args:
        model: the statistical model; a bare module chooses its likelihood by the targets.
        data: a pair (x, y) of tensors or arrays, a TensorDataset, a DataLoader, or `credo.PerMember`.
        method: how to learn, for example `credo.MAP(epochs=100)`.
        seed: every stream of randomness derives from it; the same seed gives the same bits.
        device: where to compute.
        validation: a pair (x, y); its log likelihood joins the history.
        checkpoint: a folder to save the run to as it goes, or a `Checkpoint` with an interval.
        resume: go on with the run that the checkpoint folder holds, if there is one.
        progress: True or False; None shows a line where there is a terminal; or a function that takes a `Report`.
        start: weights to begin with: another posterior, a trained module, or tensors by name. None draws fresh weights.
        seconds: stop after this much time and keep what there is.
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
    streams = Stream(seed)
    run = _prepare(model, data, method, streams, torch.device(device), start, temperature)
    told = listener(progress, type(method).__name__)
    checked = None if validation is None else _validation(validation, run)

    state = method.init(run.target, run.variables, streams.child("state"))
    saved, checkpoints = _checkpoints(checkpoint, resume, run, method, seed, temperature)
    if saved is not None:
        state = saved.state(state)
        chosen, reason = Plan(saved.plan), "that of the resumed run"
    else:
        chosen, reason = _plan(plan, run, method, state, streams)
    target = run.target.with_plan(chosen)
    loop = _Loop(target, method, run.source, streams.child("noise"), checked, checkpoints, told, seconds)
    state, ending = loop.run(state, saved)

    notes = (*run.notes, *ending.notes)
    for note in ending.notes:
        warnings.warn(note, CredoWarning, stacklevel=2)
    record = Record(
        method=encode(method),
        seed=seed,
        size=run.source.size,
        plan=f"{chosen.value} ({reason})",
        seconds=ending.seconds,
        finished=not ending.notes,
        notes=notes,
        history=tuple(ending.history),
    )
    return replace(method.posterior(target, state), record=record)


@dataclass(frozen=True)
class _Run:
    """All that is settled before the first step."""

    target: Target
    variables: Variables
    source: Source
    notes: tuple[str, ...]


def _prepare(
    model: Model | nn.Module,
    data: Any,
    method: Method,
    streams: Stream,
    device: torch.device,
    start: Posterior | nn.Module | Params | None,
    temperature: float,
) -> _Run:
    if not isinstance(model, Model):
        model = Model(model)
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    source = source_of(
        data,
        batch_size=method.batch_size,
        members=method.members,
        order=streams.child("order"),
        device=device,
        dtype=model.network.dtype,
    )
    x, y = source.example
    model, notes = method.prepare(model, x)
    variables = model.network.initial(method.members, streams.child("init")).to(device)
    outputs = _outputs(model, variables, x)
    model, choice = model.with_likelihood_for(y, outputs)
    likelihood = model.likelihood
    source.check(lambda targets: likelihood.check_targets(targets, outputs))
    variables = _started(model.complete(variables, outputs), start)
    return _Run(Target(model, source.size, temperature), variables, source, (*notes, *([choice] if choice else [])))


def _outputs(model: Model, variables: Variables, x: Tensor) -> int:
    try:
        return model.outputs(variables, x)
    except (RuntimeError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(
            f"the network cannot be called on inputs of shape (B, {_sizes(x)}), {x.dtype}: {error}"
        ) from error


def _sizes(x: Tensor) -> str:
    return ", ".join(map(str, x.shape[1:]))


def _started(fresh: Variables, start: Posterior | nn.Module | Params | None) -> Variables:
    """Fresh weights, overwritten by the given ones as far as these go."""
    if start is None:
        return fresh
    if isinstance(start, Posterior):
        point = start.point()
        lanes = torch.arange(fresh.members) % point.members
        given = {**point.take(lanes).params, **point.take(lanes).buffers}
    else:
        tensors = (
            start if isinstance(start, dict) else {**dict(start.named_parameters()), **dict(start.named_buffers())}
        )
        given = {name: t.detach().expand(fresh.members, *t.shape) for name, t in tensors.items()}
    known = {**fresh.params, **fresh.buffers}
    missing = sorted(name for name in fresh.params if name not in given and not name.startswith("likelihood."))
    wrong = [name for name in given.keys() & known.keys() if given[name].shape != known[name].shape]
    if missing or wrong:
        raise ValueError(
            f"start does not fit the network: parameter {(missing or wrong)[0]!r} is missing or of another shape"
        )

    def fill(tree: Params) -> Params:
        return {name: given[name].to(t).clone() if name in given else t for name, t in tree.items()}

    return Variables(fill(fresh.params), fill(fresh.buffers))


def _validation(data: Any, run: _Run) -> Batch:
    x, y = pair(data)
    model, device = run.target.model, run.variables.device
    inputs, targets = (prepared(v, n, model.network.dtype).to(device) for v, n in ((x, "x"), (y, "y")))
    if len(inputs) != len(targets):
        raise ValueError(f"validation: x has {len(inputs)} rows and y has {len(targets)}: they must be the same number")
    return Batch(inputs, model.likelihood.check_targets(targets, model.outputs(run.variables, inputs)))


def _checkpoints(
    wish: str | Path | Checkpoint | None, resume: bool, run: _Run, method: Method, seed: int, temperature: float
) -> tuple[Saved | None, Checkpoints | None]:
    if wish is None:
        if resume:
            raise ValueError("resume=True needs checkpoint=, the folder of the run to go on with")
        return None, None
    identity = {
        "method": encode(method),
        "seed": seed,
        "temperature": temperature,
        "data": run.source.fingerprint(),
        "model": describe(run.target.model),
    }
    checkpoints = Checkpoints(wish if isinstance(wish, Checkpoint) else Checkpoint(wish), identity)
    return checkpoints.existing(resume=resume), checkpoints


def _plan(wish: Plan | None, run: _Run, method: Method, state: State, streams: Stream) -> tuple[Plan, str]:
    if wish is not None:
        return wish, "as asked"
    obvious = obvious_plan(run.target.model.network.module, method.members)
    if obvious is not None and obvious[0] is Plan.ONE_BY_ONE:
        return obvious
    batch = next(run.source.steps(0))
    tick = Tick(0, 1, streams.child("trial"))

    def attempt(plan: Plan) -> None:
        copied = map_tensors(lambda _, t: t.clone(), state)
        method.step(run.target.with_plan(plan), copied, batch, tick)

    if obvious is None:
        return measured_plan(attempt)
    try:
        attempt(Plan.TOGETHER)
    except RuntimeError:
        return Plan.ONE_BY_ONE, "torch cannot vectorise this network"
    return obvious


@dataclass(frozen=True)
class _Ending:
    seconds: float
    history: list[dict[str, float]]
    notes: tuple[str, ...]


class _Loop:
    """Steps, and what happens between them: history, validation, progress, checkpoints, interrupts."""

    def __init__(
        self,
        target: Target,
        method: Method,
        source: Source,
        noise: Stream,
        validation: Batch | None,
        checkpoints: Checkpoints | None,
        told: Listener | None,
        limit: float | None,
    ) -> None:
        self.target, self.method, self.source, self.noise = target, method, source, noise
        self.validation, self.checkpoints, self.told, self.limit = validation, checkpoints, told, limit
        self.total = method.steps(source.batches)
        epochs = max(1, self.total // source.batches)
        self.validate_every = max(1, epochs // 100)

    def run(self, state: State, saved: Saved | None) -> tuple[State, _Ending]:
        step = first = saved.step if saved else 0
        before = saved.seconds if saved else 0.0
        history = History(saved.history if saved else [], first)
        begin, look = time.monotonic(), Throttle(0.2)
        notes: tuple[str, ...] = ()
        with Interrupts() as interrupts:
            batches = self.source.steps(step)
            while step < self.total:
                tick = Tick(step, self.total, self.noise.child(step))
                state, info = self.method.step(self.target, state, next(batches), tick)
                step += 1
                history.add(info)
                elapsed = before + time.monotonic() - begin
                whole_epoch = step % self.source.batches == 0 or step == self.total
                if whole_epoch:
                    history.close(step / self.source.batches, elapsed, self._validate(state, step))
                if look():
                    self._tell(step, elapsed, history)
                    if (trouble := history.trouble()) is not None:
                        notes = (_diverged(trouble),)
                        break
                if whole_epoch and self.checkpoints and self.checkpoints.due():
                    self._save(step, elapsed, history, state)
                if interrupts.requested or (self.limit is not None and elapsed >= self.limit):
                    why = "interrupted" if interrupts.requested else f"stopped after {elapsed:.1f} seconds"
                    notes = (f"{why} at step {step} of {self.total}: the result is what there was by then",)
                    break
            elapsed = before + time.monotonic() - begin
            if not notes and (trouble := history.trouble()) is not None:
                notes = (_diverged(trouble),)
            if self.checkpoints and step > first and not (notes and notes[0].startswith("diverged")):
                self._save(step, elapsed, history, state)
        self._tell(step, elapsed, history)
        return state, _Ending(elapsed, history.rows(), notes)

    def _validate(self, state: State, step: int) -> dict[str, Tensor]:
        epoch = step // self.source.batches
        if self.validation is None or (epoch % self.validate_every and step < self.total):
            return {}
        with torch.no_grad():
            each = self.target.log_likelihood(self.method.current(state), self.validation)  # (M, B)
            mixture = torch.logsumexp(each, 0) - torch.log(torch.tensor(float(len(each))))
        return {"validation_log_likelihood": mixture.mean()}

    def _tell(self, step: int, seconds: float, history: History) -> None:
        if self.told is None:
            return
        rows = history.rows()
        self.told(Report(step, self.total, step / self.source.batches, seconds, rows[-1] if rows else {}))

    def _save(self, step: int, seconds: float, history: History, state: State) -> None:
        assert self.checkpoints is not None
        self.checkpoints.write(step, seconds, history.rows(), self.target.plan.value, state)


def _diverged(epoch: int) -> str:
    return f"diverged in epoch {epoch}: a loss was no longer a finite number; lower learning_rate or scale the inputs"
