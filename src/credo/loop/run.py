"""Steps, and what happens between them: history, validation, progress, checkpoints, interrupts."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.record import CredoWarning
from credo.core.rng import Stream
from credo.core.storage import StorageError
from credo.loop.batches import Source
from credo.loop.checkpoints import Checkpoints, Saved
from credo.loop.draws import Collector
from credo.loop.graphs import Replay
from credo.loop.history import History, Row
from credo.loop.interrupts import Interrupts
from credo.loop.progress import Listener, Report, Throttle
from credo.loop.validation import Validation
from credo.methods.base import Info, Method, Sampler, State, Tick
from credo.model import Batch, Target
from credo.posteriors import Posterior

WORTH_RECORDING = 100
"""Steps of a run on a GPU from which on one is recorded and replayed."""

ROWS = 1000
"""Of a sampler's history at most; twice as many where it does not come out even."""

LOOK = 0.2
"""Seconds between two looks at the numbers: each waits for the device."""


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        state: after the last step.
        seconds: wall-clock time of the loop, that before a resumption included.
        history: one row per epoch.
        unfinished: why the run did not come to its end; None if it did.
        notes: other trouble on the way.
    """

    state: State
    seconds: float
    history: tuple[Row, ...]
    unfinished: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Surroundings:
    """What goes on around the steps and leaves their numbers alone.

    Attributes:
        validation: held-out examples.
        checkpoints: where the run is saved.
        collector: where a sampler's draws go.
        told: who hears how far the run is.
        limit: seconds after which this call stops.
    """

    validation: Validation | None = None
    checkpoints: Checkpoints | None = None
    collector: Collector | None = None
    told: Listener | None = None
    limit: float | None = None


class Loop:
    """One run, from its first step or from a checkpoint to its end."""

    def __init__(
        self, target: Target, method: Method, source: Source, noise: Stream, state: State, around: Surroundings
    ) -> None:
        self.target, self.method, self.source, self.noise, self.around = target, method, source, noise, around
        self.state, self.step, self.history, self.before = state, 0, History(), 0.0
        self.total = method.steps(source.batches)
        epochs = self.total // source.batches
        # the steps of a sampler are many and alike
        self.row_every = max(1, epochs // ROWS) if isinstance(method, Sampler) else 1
        self.validate_every = self.row_every * max(1, epochs // self.row_every // 100)
        self.notes: list[str] = []
        self.replay: Replay | None = None
        self.eager = method.current(state).device.type != "cuda" or not method.recordable
        self.trouble: str | None = None
        self.begin = time.monotonic()

    def begin_with(self, saved: Saved | None) -> None:
        """Go on from a checkpoint; without one, write the first, so that trouble with the disk shows at once."""
        if saved is not None:
            self.state = saved.state(self.state)
            self.step, self.history, self.before = saved.step, saved.history, saved.seconds
        if self.around.collector is not None:
            if saved is None:
                self.around.collector.begin()
            else:
                self.around.collector.resume(saved.draws, self.method.current(self.state))
        if saved is None and self.around.checkpoints is not None:
            self._write(self.around.checkpoints)

    def posterior(self) -> Posterior:
        """What is believed now: by the draws if there are any, by the state alone if not."""
        collector, method = self.around.collector, self.method
        if collector is None or collector.count == 0 or not isinstance(method, Sampler):
            return method.posterior(self.target, self.state)
        return method.collected(self.target, self.state, collector.kept(method.current(self.state)))

    def run(self) -> Ending:
        """Step until the end, Ctrl-C, the time limit or divergence, whichever comes first."""
        look, why = Throttle(LOOK), None
        with Interrupts() as interrupts:
            batches = self.source.steps(self.step)
            while self.step < self.total and why is None:
                self._advance(next(batches))
                why = self._reason_to_stop(looking=look(), interrupted=interrupts.requested)
                self._save(now=why is not None or self.step == self.total)
        if interrupts.requested and why is None:  # too late to stop this run, but whoever made it may have more to do
            self.notes.append("interrupted in the last step: the run is whole")
            warnings.warn(self.notes[-1], CredoWarning, stacklevel=3)
        self._tell(last=True)
        why = self._divergence() or why
        return Ending(self.state, self.seconds, tuple(self.history.rows()), why, tuple(self.notes))

    @property
    def seconds(self) -> float:
        """Time of the loop so far, that before a resumption included."""
        return self.before + time.monotonic() - self.begin

    def _advance(self, batch: Batch) -> None:
        info = self._replayed(batch) if self._replays() else None
        if info is None:
            tick = Tick(self.step, self.total, self.noise.child(self.step))
            self.state, info = self.method.step(self.target, self.state, batch, tick)
        self._keep(info)
        self.step += 1
        self.history.add(info)
        if self.step % (self.source.batches * self.row_every) == 0 or self.step == self.total:
            told = {**self._summary(), **self._validated()}
            self.history.close(self.step / self.source.batches, self.seconds, told)

    def _keep(self, info: Info) -> None:
        """Copy the state if it is a draw. A disk that takes no more ends the run, not what it has given."""
        collector, method = self.around.collector, self.method
        if collector is None or not isinstance(method, Sampler) or not method.keeps(self.step, self.total):
            return
        try:
            collector.add(method.current(self.state), info)
        except StorageError as error:
            self.trouble = f"{error}; make room and go on with resume=True: stopped"

    def _replays(self) -> bool:
        """Whether steps are recorded and replayed: on a GPU, where a run is long enough to be worth a recording."""
        return self.replay is not None or (not self.eager and self.total >= WORTH_RECORDING)

    def _replayed(self, batch: Batch) -> Info | None:
        """A step by replay; None if this method and network cannot be recorded, and then never again."""
        try:
            if self.replay is None:
                self.replay = Replay(self.target, self.method, self.noise, self.total, self.state)
            return self.replay(batch, self.step)
        except RuntimeError as error:
            if self.replay is not None and self.replay.recordings:
                raise
            self.replay, self.eager = None, True
            self.notes.append(f"steps are launched one kernel at a time, since they cannot be recorded ({error})")
            return None

    @torch.no_grad()
    def _summary(self) -> dict[str, Tensor]:
        told = self.method.summary(self.target, self.state, self.noise.child("summary", self.step))
        return {name: value.mean() for name, value in told.items()}

    def _validated(self) -> dict[str, Tensor]:
        last, epoch = self.step == self.total, self.step // self.source.batches
        if self.around.validation is None or (epoch % self.validate_every and not last):
            return {}
        return {"validation_log_likelihood": self.around.validation(self.target, self.method.current(self.state))}

    def _reason_to_stop(self, *, looking: bool, interrupted: bool) -> str | None:
        if self.step == self.total and self.trouble is None:
            return None
        if looking:
            self._tell()
            if self.history.diverged():
                return self._divergence()
        spent = time.monotonic() - self.begin
        late = self.around.limit is not None and spent >= self.around.limit
        if not interrupted and not late and self.trouble is None:
            return None
        cause = self.trouble or ("interrupted" if interrupted else f"stopped after {spent:.1f} seconds")
        return f"{cause} at step {self.step} of {self.total}: {self._result()}"

    def _result(self) -> str:
        """What there is when a run ends early."""
        kept = self._kept()
        if kept is None:
            return "the result is what there was by then"
        if kept == 0:
            return (
                "no draw was kept yet, since the chains were still warming up; the result is where they stood by then"
            )
        return f"the result is the {kept} draw(s) that were kept by then"

    def _kept(self) -> int | None:
        """Draws so far, of all chains; None for a method that keeps none."""
        collector = self.around.collector
        return None if collector is None else collector.count * self.method.members

    def _divergence(self) -> str | None:
        if not self._broken():
            return None
        epoch = self.history.first_broken_epoch() or math.ceil(self.step / self.source.batches)
        return (
            f"diverged in epoch {epoch:g}: numbers were no longer finite, and the weights are of no use; lower "
            "learning_rate, or scale inputs and targets to order one"
        )

    def _broken(self) -> bool:
        params = self.method.current(self.state).params.values()
        return self.history.diverged() or not all(bool(w.isfinite().all()) for w in params)

    def _tell(self, *, last: bool = False) -> None:
        if self.around.told is not None:
            rows, epoch = self.history.rows(), self.step / self.source.batches
            newest, collector = rows[-1] if rows else {}, self.around.collector
            diverged = None if collector is None else collector.divergences
            self.around.told(Report(self.step, self.total, epoch, self.seconds, newest, last, self._kept(), diverged))

    def _save(self, *, now: bool) -> None:
        """Write a checkpoint if it is time. What cannot be written does not end a run, and no broken run is kept.

        Nor is one that has lost a draw: it goes on from the checkpoint before, and computes the draw again.
        """
        checkpoints = self.around.checkpoints
        if checkpoints is None or self.trouble or not (now or checkpoints.due()) or self._broken():
            return
        try:
            self._write(checkpoints)
        except StorageError as error:
            self.notes.append(f"the checkpoint of step {self.step} was not written: {error}")
            warnings.warn(self.notes[-1], CredoWarning, stacklevel=4)

    def _write(self, checkpoints: Checkpoints) -> None:
        collector = self.around.collector
        checkpoints.write(self.step, self.seconds, self.target.plan, self.history, self.state, collector)
