"""Steps, and what happens between them: history, validation, progress, checkpoints, interrupts."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from credo.core.inputs import shape_key
from credo.core.record import CredoWarning
from credo.core.rng import Stream
from credo.core.status import Status
from credo.core.storage import StorageError
from credo.loop.batches import Source
from credo.loop.checkpoints import Checkpoints, Saved
from credo.loop.draws import Collector
from credo.loop.graphs import Steps, recorder_for
from credo.loop.history import History, Row
from credo.loop.interrupts import Interrupts
from credo.loop.progress import Listener, Report, Throttle
from credo.loop.validation import Validation
from credo.methods.base import Info, Method, Sampler, Tick
from credo.methods.ensemble import Ensemble
from credo.model import Batch, Target
from credo.posteriors import Posterior

WORTH_RECORDING = 100
"""Steps of a run on a GPU from which on one is recorded and replayed."""

ROWS = 1000
"""Of a sampler's history at most; twice as many where it does not come out even."""

REPORT_SECONDS = 0.2
"""Seconds between two reports: each waits for the device."""

LOWER = "lower learning_rate, or scale inputs and targets to order one"


Augment = Callable[[Any, Stream], Any]
"""Inputs of a batch, and the step's stream of randomness, to inputs of the same shape."""


@dataclass(frozen=True)
class LoopResult:
    """How a run ended."""

    state: Any  # after the last step
    seconds: float  # wall-clock time of the loop, that before a resumption included
    history: tuple[Row, ...]  # one row per epoch
    status: Status  # how the run ended
    reason: str  # why it did not come to its end, in a sentence; empty if it did
    notes: tuple[str, ...]  # other trouble on the way
    interrupted: bool = False  # whether Ctrl-C was pressed, be it too late to stop the run


@dataclass(frozen=True)
class Services:
    """What goes on around the steps and leaves their numbers alone."""

    validation: Validation | None = None  # held-out examples
    checkpoints: Checkpoints | None = None  # where the run is saved
    collector: Collector | None = None  # where a sampler's draws go
    listener: Listener | None = None  # is called with how far the run is
    limit: float | None = None  # seconds after which this call stops
    augment: Augment | None = None  # varies the inputs of each step


class _Stopped(Exception):  # noqa: N818 (no error)
    """Ends the last pass over the data."""


class Loop:
    """One run, from its first step or from a checkpoint to its end."""

    def __init__(
        self, target: Target, method: Method, source: Source, rng: Stream, state: Any, services: Services
    ) -> None:
        self.target, self.method, self.source, self.rng, self.services = target, method, source, rng, services
        # members of an ensemble are runs of their own: one that diverges leaves the others alone
        self.state, self.step, self.before = state, 0, 0.0
        self.history = History(independent=isinstance(method, Ensemble))
        self.total = method.steps(source.batches)
        epochs = self.total // source.batches
        # the steps of a sampler are many and alike
        self.row_every = max(1, epochs // ROWS) if isinstance(method, Sampler) else 1
        self.validate_every = self.row_every * max(1, epochs // self.row_every // 100)
        self.notes: list[str] = []
        weights = method.current(state)
        alone = target.model.network.trace(weights, source.example[0]).alone  # a replay would repeat its noise
        recorded = method.graph_safe and self.total >= WORTH_RECORDING and alone is None
        recorder = recorder_for(weights.device) if recorded else None
        self.steps = Steps(target, method, rng, self.total, recorder)
        self.trouble: str | None = None
        self.begin = time.monotonic()

    def begin_with(self, saved: Saved | None) -> None:
        """Go on from a checkpoint; without one, write the first, so that trouble with the disk shows at once."""
        if saved is not None:
            self.state = saved.state(self.state)
            if saved.step > self.total:
                raise StorageError(
                    f"the checkpoint is damaged: it speaks of step {saved.step}, and the run has {self.total}; start "
                    "anew in another folder"
                )
            if self._broken():
                raise StorageError(
                    "the checkpoint is damaged: its weights are not finite; start anew in another folder"
                )
            self.step, self.before = saved.step, saved.seconds
            saved.history.independent = self.history.independent
            self.history = saved.history
        if self.services.collector is not None:
            if saved is None:
                self.services.collector.begin()
            else:
                self.services.collector.resume(saved.draws, self.method.current(self.state))
        if saved is None and self.services.checkpoints is not None:
            self._write(self.services.checkpoints)

    def posterior(self) -> Posterior:
        """What is believed now: by the draws if there are any, by the state alone if not."""
        collector, method = self.services.collector, self.method
        if collector is None or collector.count == 0 or not isinstance(method, Sampler):
            return method.posterior(self.target, self.state)
        return method.from_draws(self.target, self.state, collector.states(method.current(self.state)))

    def run(self) -> LoopResult:
        """Step until the end, Ctrl-C, the time limit or divergence, whichever comes first."""
        report_due = Throttle(REPORT_SECONDS)
        end: tuple[Status, str] | None = None
        with Interrupts() as interrupts:
            batches = self.source.steps(self.step)
            while self.step < self.total and end is None:
                self._advance(next(batches))
                end = self._reason_to_stop(report_due=report_due(), interrupted=interrupts.requested)
                self._save(now=end is not None or self.step == self.total)
            end = end or self._divergence() or self._finish(interrupts)
        if interrupts.requested and end is None:  # too late to stop this run, but whoever made it may have more to do
            self._warn("interrupted in the last step: the run is whole", stacklevel=4)
        self._report(last=True)
        status, reason = self._divergence() or end or (Status.FINISHED, "")
        if status is not Status.DIVERGED:
            self._name_diverged_members()
        notes = (*self.steps.notes, *self.notes)
        rows = tuple(self.history.rows())
        return LoopResult(self.state, self.seconds, rows, status, reason, notes, interrupts.requested)

    @property
    def seconds(self) -> float:
        """Time of the loop so far, that before a resumption included."""
        return self.before + time.monotonic() - self.begin

    def _advance(self, batch: Batch) -> None:
        self.state, info = self.steps(self.state, self._augmented(batch), self.step)
        self._collect(info)
        self.step += 1
        self.history.add(info)
        if self.step % (self.source.batches * self.row_every) == 0 or self.step == self.total:
            self.history.close(self.step / self.source.batches, self.seconds, self._metrics())

    @torch.no_grad()
    def _augmented(self, batch: Batch) -> Batch:
        """The batch with other inputs, drawn for this step."""
        if self.services.augment is None:
            return batch
        x = self.services.augment(batch.x, self.rng.child("augment", self.step))
        if type(x) is not type(batch.x) or shape_key(x) != shape_key(batch.x) or len(x) != len(batch.x):
            raise ValueError(
                f"augment must return inputs of the shape and type that it was given, {len(batch.x)} of "
                f"{shape_key(batch.x)}, and it returned another {type(x).__name__}"
            )
        return replace(batch, x=x)

    def _collect(self, info: Info) -> None:
        """Copy the state if it is a draw. A disk that takes no more ends the run, not what it has given."""
        collector, method = self.services.collector, self.method
        if collector is None or not isinstance(method, Sampler) or not method.is_draw(self.step, self.total):
            return
        try:
            collector.add(method.current(self.state), info)
        except StorageError as error:
            self.trouble = f"{error}; make room and continue with resume=True: stopped"

    @torch.no_grad()
    def _metrics(self) -> Info:
        """Of an epoch that ends, beside what its steps reported."""
        summary = self.method.summary(self.target, self.state, self.rng.child("summary", self.step))
        averages = self.history.averages()
        loss = None if "loss" in averages else self.method.loss(self.target, {**averages, **summary})
        return {**summary, **({} if loss is None else {"loss": loss}), **self._validated()}

    def _validated(self) -> Info:
        last, epoch = self.step == self.total, self.step // self.source.batches
        if self.services.validation is None or (epoch % self.validate_every and not last):
            return {}
        return self.services.validation(self.target, self.method.current(self.state), self.method.held_out)

    def _finish(self, interrupts: Interrupts) -> tuple[Status, str] | None:
        """Give the method one more pass over the data. Nothing is saved after it: a resumed run does it again."""
        stopped: tuple[Status, str] | None = None

        def batches() -> Iterator[Batch]:
            nonlocal stopped
            epochs = math.ceil(self.step / self.source.batches)
            for batch in islice(self.source.steps(epochs * self.source.batches), self.source.batches):
                stopped = self._stop_sign(interrupted=interrupts.requested)
                if stopped is not None:
                    raise _Stopped
                yield batch

        tick = Tick(self.total, self.total, self.rng.child("finish"))
        try:
            self.state = self.method.finish(self.target, self.state, batches(), tick)
        except _Stopped:
            assert stopped is not None
            status, cause = stopped
            return status, f"{cause} in the last pass over the data: the result is what there was before it"
        return None

    def _reason_to_stop(self, *, report_due: bool, interrupted: bool) -> tuple[Status, str] | None:
        if self.step == self.total and self.trouble is None:
            return None
        if report_due:
            self._report()
            if self.history.diverged():
                return self._divergence()
        sign = self._stop_sign(interrupted=interrupted)
        return sign and (sign[0], f"{sign[1]} at step {self.step} of {self.total}: {self._result()}")

    def _stop_sign(self, *, interrupted: bool) -> tuple[Status, str] | None:
        """Why the run must not go on, apart from its numbers."""
        elapsed, limit = time.monotonic() - self.begin, self.services.limit
        if self.trouble is not None:
            return Status.STORAGE_FAILED, self.trouble
        if interrupted:
            return Status.INTERRUPTED, "interrupted"
        if limit is not None and elapsed >= limit:
            return Status.OUT_OF_TIME, f"stopped after {elapsed:.1f} seconds"
        return None

    def _result(self) -> str:
        """What there is when a run ends early."""
        draws = self._draws()
        if draws is None:
            return "the result is what there was by then"
        if draws == 0:
            return (
                "there is no draw yet, since the chains were still warming up; the result is where they stood by then"
            )
        return f"the result is the {draws} draw(s) that there were by then"

    def _draws(self) -> int | None:
        """Draws so far, of all chains; None for a method that makes none."""
        collector = self.services.collector
        return None if collector is None else collector.count * self.method.members

    def _divergence(self) -> tuple[Status, str] | None:
        if not self._broken():
            return None
        epoch = self.history.first_broken_epoch() or math.ceil(self.step / self.source.batches)
        return Status.DIVERGED, (
            f"diverged in epoch {epoch:g}: numbers were no longer finite, and the weights are of no use; {LOWER}"
        )

    def _broken(self) -> bool:
        """Whether the run has diverged: of an ensemble, all of its members."""
        finite = self.method.is_finite(self.state)
        return self.history.diverged() or not bool(finite.any() if self.history.independent else finite.all())

    def _name_diverged_members(self) -> None:
        finite = self.method.is_finite(self.state).tolist()
        lost = [str(m) for m, well in enumerate(finite, start=1) if not well]
        if lost:
            self._warn(
                f"member(s) {', '.join(lost)} of {len(finite)} diverged: their numbers were no longer finite, and they "
                f"are left out of the posterior; {LOWER}",
                stacklevel=5,
            )

    def _warn(self, note: str, stacklevel: int) -> None:
        self.notes.append(note)
        warnings.warn(note, CredoWarning, stacklevel=stacklevel)

    def _report(self, *, last: bool = False) -> None:
        if self.services.listener is not None:
            rows, collector = self.history.rows(), self.services.collector
            row, divergences = rows[-1] if rows else {}, None if collector is None else collector.divergences
            epoch, epochs = self.step / self.source.batches, self.total / self.source.batches
            seen = (self.step, self.total, epoch, self.seconds, row, last, self._draws(), divergences, epochs)
            self.services.listener(Report(*seen))

    def _save(self, *, now: bool) -> None:
        """Write a checkpoint if it is time. What cannot be written does not end a run, and no broken run is saved.

        Nor is one that has lost a draw: it goes on from the checkpoint before, and computes the draw again.
        """
        checkpoints = self.services.checkpoints
        if checkpoints is None or self.trouble or not (now or checkpoints.due()) or self._broken():
            return
        try:
            self._write(checkpoints)
        except StorageError as error:
            self._warn(f"the checkpoint of step {self.step} was not written: {error}", stacklevel=5)

    def _write(self, checkpoints: Checkpoints) -> None:
        collector = self.services.collector
        checkpoints.write(self.step, self.seconds, self.target.plan, self.history, self.state, collector)
