"""Training on a table: held-out rows say when to stop, and no row is wasted on them.

A network that is trained for too long on a small table is too sure of itself, and so are ensembles of such networks.
So M networks are trained side by side, each without its own M-th of the rows, and looked at from time to time on the
rows that each has not seen: every row of the table has a say in when to stop. Then the learning rate is brought to
zero, and that is kept where it helps. An ensemble keeps these networks; for a method of one network, another is
trained in the same way on all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.estimators.held_out import LARGEST_COPY, HeldOut, hold_out
from credo.estimators.recipes import Numbers, Recipe, members_of
from credo.fit import fit
from credo.loop.checkpoints import Checkpoint
from credo.methods import Method
from credo.model import Model
from credo.posteriors import Posterior

__all__ = ["FEW_ROWS", "LARGEST_COPY", "Learnt", "Look", "Told", "learn"]

SECONDS = 10.0
"""Between two checkpoints."""
FEW_ROWS = 20
"""Below this many rows none is held out."""
FEW_STEPS = 300
"""Steps of the training on so few rows."""
FIRST_LOOK = 40
"""Steps before the first look."""
GROWTH = 1.3
"""Each look comes after so many times the epochs of the look before."""
PATIENCE = 3
"""Looks without an improvement that end the training."""
COOLING = 0.3
"""Epochs of the cooling, as a part of those before it."""


@dataclass(frozen=True)
class Look:
    """What was seen at one moment of the training.

    Attributes:
        epochs: passes over the data so far.
        limit: passes after which training ends in any case (and cooling begins).
        log_likelihood: mean guarded log density of held-out targets, under the networks that have not seen them.
        best: whether it is the best so far.
    """

    epochs: int
    limit: int
    log_likelihood: float
    best: bool


@dataclass(frozen=True, eq=False)
class Learnt:
    """What came out of the training.

    Attributes:
        posterior: its record tells of the whole training.
        epochs: passes over the data of the networks that were kept; None where a given method decided.
        held_out: mean guarded log density of held-out targets; None where no row was held out.
        cooling: how many of the epochs were cooling.
    """

    posterior: Posterior
    epochs: int | None
    held_out: float | None
    cooling: int = 0


Told = Callable[[Look], None]


def learn(
    model: Model,
    x: Tensor,
    y: Tensor,
    how: Recipe | Method,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    told: Told | None = None,
    folder: Path | None = None,
) -> Learnt:
    """Train on the rows of a table.

    Args:
        model: with its likelihood.
        x: standardised inputs, (N, F).
        y: standardised targets (N, D), or class numbers (N,).
        how: a recipe, or a method that is run once on all rows, as it is.
        seed: the same seed gives the same bits.
        device: where to compute.
        told: called at every look.
        folder: where the training is saved as it goes; one that lies there already is gone on with, to the same bits.
    """
    stages = _Stages(model, device, folder)
    if isinstance(how, Method):
        return Learnt(stages.run("all", (x, y), how, seed), None, None)
    limit = how.numbers.limit(len(x))
    if how.watched and len(x) >= FEW_ROWS:
        watch = _Watch(stages, how, hold_out(x, y, how.lanes, seed), limit, seed, told)
        chosen = watch.cooled(watch.best())
        return chosen if how.keeps_lanes else _again_on_all(chosen, _Trainer(stages, how, (x, y), len(x), 1), seed)
    trainer = _Trainer(stages, how, (x, y), len(x), how.lanes if how.keeps_lanes else 1)
    epochs = min(limit, _epochs_of(FEW_STEPS, how.numbers, len(x))) if how.watched else limit
    return Learnt(trainer.train("all", epochs, seed), epochs, None)


@dataclass(frozen=True)
class _Stages:
    """Runs of the loop that follow one another, each with a name and a checkpoint of its own."""

    model: Model
    device: torch.device | str
    folder: Path | None

    def run(self, name: str, data: Any, method: Method, seed: int, start: Posterior | None = None) -> Posterior:
        place = None if self.folder is None else Checkpoint(self.folder / name, SECONDS)
        return fit(
            self.model,
            data,
            method,
            seed=seed,
            device=self.device,
            progress=False,
            start=start,
            checkpoint=place,
            resume=place is not None,
        )


def _again_on_all(chosen: Learnt, trainer: _Trainer, seed: int) -> Learnt:
    """One network on all rows, for as long as was chosen with held-out rows."""
    assert chosen.epochs is not None
    posterior = trainer.train("all", chosen.epochs - chosen.cooling, seed)
    story = _Story().after(posterior, 0)
    if chosen.cooling:
        again = Stream(seed, ("cooling",)).key()
        posterior = trainer.train("all-cooling", chosen.cooling, again, posterior, cooling=True)
        story = story.after(posterior, chosen.epochs - chosen.cooling)
    note = f"{trainer.how.lanes} networks, each without its own part of the rows, chose {chosen.epochs} epochs"
    return replace(chosen, posterior=story.told_by(posterior, note, seed))


@dataclass(frozen=True)
class _Trainer:
    """Some epochs of a recipe on some rows."""

    stages: _Stages
    how: Recipe
    data: Any
    rows: int
    lanes: int

    def train(
        self, name: str, epochs: int, seed: int, start: Posterior | None = None, *, cooling: bool = False
    ) -> Posterior:
        method = members_of(self.how.method(epochs, self.rows, cooling=cooling), self.lanes)
        return self.stages.run(name, self.data, method, seed, start)


class _Watch:
    """Training from look to look, until looks bring nothing better."""

    def __init__(self, stages: _Stages, how: Recipe, held: HeldOut, limit: int, seed: int, told: Told | None) -> None:
        self.how, self.held, self.limit, self.seed = how, held, limit, seed
        self.trainer = _Trainer(stages, how, held.data, held.rows, how.lanes)
        self.told = told or (lambda look: None)
        self.story = _Story()

    def best(self) -> Learnt:
        """The networks of the best look."""
        posterior: Posterior | None = None
        best: Learnt | None = None
        done = since = 0
        first = _epochs_of(FIRST_LOOK, self.how.numbers, self.held.rows)
        for look, epochs in enumerate(_looks(first, self.limit)):
            noise = Stream(self.seed, ("look", look)).key()
            posterior = self.trainer.train(f"look-{look}", epochs - done, noise, posterior)
            score = self.held.score(posterior)
            self.story = self.story.after(posterior, done, score)
            done = epochs
            better = _beats(score, best)
            if best is None or better:
                best = Learnt(posterior, epochs, score)
            since = 0 if better else since + 1
            self.told(Look(epochs, self.limit, score, better))
            if since >= PATIENCE or not math.isfinite(score) or not posterior.record.finished:
                break
        assert best is not None
        return best

    def cooled(self, best: Learnt) -> Learnt:
        """The same networks after some epochs with a falling learning rate, where held-out rows like them better."""
        assert best.epochs is not None
        if not best.posterior.record.finished:
            return self._told_by(best, self.story)
        more = max(1, round(COOLING * best.epochs))
        seed = Stream(self.seed, ("cooling",)).key()
        posterior = self.trainer.train("cooling", more, seed, best.posterior, cooling=True)
        score = self.held.score(posterior)
        better = _beats(score, best)
        self.told(Look(best.epochs + more, self.limit, score, better))
        if not better:
            return self._told_by(best, self.story)
        story = self.story.until(best.epochs).after(posterior, best.epochs, score)
        return self._told_by(Learnt(posterior, best.epochs + more, score, more), story)

    def _told_by(self, learnt: Learnt, story: _Story) -> Learnt:
        note = (
            f"each of {self.how.lanes} networks was trained without its own part of the rows; all stopped after "
            f"{learnt.epochs} epochs, where they predicted the rows they had not seen best "
            f"(log score {learnt.held_out:.3f})"
        )
        return replace(learnt, posterior=story.told_by(learnt.posterior, note, self.seed))


def _beats(score: float, best: Learnt | None) -> bool:
    return best is None or best.held_out is None or score > best.held_out


def _epochs_of(steps: int, numbers: Numbers, rows: int) -> int:
    return math.ceil(steps / math.ceil(rows / numbers.batch(rows)))


def _looks(first: int, limit: int) -> Iterator[int]:
    """Numbers of epochs, each about `GROWTH` times the one before, up to the limit."""
    epochs = min(first, limit)
    while epochs < limit:
        yield epochs
        epochs = min(max(epochs + 1, round(GROWTH * epochs)), limit)
    yield limit


@dataclass(frozen=True)
class _Story:
    """The records of several runs as one."""

    history: tuple[dict[str, float], ...] = ()
    seconds: float = 0.0

    def after(self, posterior: Posterior, done: int, score: float | None = None) -> _Story:
        rows = [
            {**row, "epoch": row["epoch"] + done, "seconds": round(row["seconds"] + self.seconds, 4)}
            for row in posterior.history
        ]
        if rows and score is not None:
            rows[-1]["validation_log_likelihood"] = score
        return _Story((*self.history, *rows), self.seconds + posterior.record.seconds)

    def until(self, epochs: int) -> _Story:
        return replace(self, history=tuple(row for row in self.history if row["epoch"] <= epochs))

    def told_by(self, posterior: Posterior, note: str, seed: int) -> Posterior:
        notes = (*posterior.record.notes, note)
        record = replace(posterior.record, notes=notes, history=self.history, seconds=self.seconds, seed=seed)
        return replace(posterior, record=record)
