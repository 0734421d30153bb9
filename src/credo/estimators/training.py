"""Training on a table: held-out rows say when to stop, and no row is wasted on them.

A network that is trained for too long on a small table is too sure of itself, and so are ensembles of such networks.
So M networks are trained side by side, each without its own M-th of the rows, and looked at from time to time on the
rows that each has not seen: every row of the table has a say in when to stop. An ensemble keeps these networks; for
a method of one network, another is trained on all rows for as many epochs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.data.splits import folds, split
from credo.estimators.recipes import Numbers, Recipe, members_of
from credo.fit import fit
from credo.loop.batches import PerMember
from credo.methods import Method
from credo.model import Batch, Model, Target
from credo.posteriors import Posterior

FEW_ROWS = 20
"""Below this many rows none is held out."""
FIRST_LOOK = 40
"""Steps before the first look."""
GROWTH = 1.3
"""Each look comes after so many times the epochs of the look before."""
PATIENCE = 3
"""Looks without an improvement that end the training."""
DOUBT = 0.01
"""Part of a prediction that knows nothing, which is mixed in where held-out rows are scored: without it, a single row
that a network is wrongly sure of outweighs all others."""
NAIVE_SCALE = 3.0
"""Standard deviation of that prediction for standardised numbers."""
LARGEST_COPY = 5 * 10**7
"""Entries of x that may be copied so that each member has its own rows; beyond, all share one held-out part."""


@dataclass(frozen=True)
class Look:
    """What was seen at one moment of the training.

    Attributes:
        epochs: passes over the data so far.
        limit: passes after which training ends in any case.
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
    """

    posterior: Posterior
    epochs: int | None
    held_out: float | None


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
    """
    if isinstance(how, Method):
        return Learnt(fit(model, (x, y), how, seed=seed, device=device, progress=False), None, None)
    limit = how.numbers.limit(len(x))
    if not how.watched or len(x) < FEW_ROWS:
        epochs = limit if how.watched is False else min(limit, _first_look(how.numbers, len(x)))
        return Learnt(_fit_all(model, x, y, how, epochs, seed, device), epochs, None)
    held = _held_out(x, y, how.lanes, seed)
    chosen = _watch(model, held, how, limit, seed, device, told)
    if how.keeps_lanes:
        return chosen
    assert chosen.epochs is not None
    posterior = _fit_all(model, x, y, how, chosen.epochs, seed, device)
    note = f"{how.lanes} networks, each without its own part of the rows, chose {chosen.epochs} epochs"
    return replace(chosen, posterior=_with_notes(posterior, (note,)))


def _fit_all(
    model: Model, x: Tensor, y: Tensor, how: Recipe, epochs: int, seed: int, device: torch.device | str
) -> Posterior:
    members = how.lanes if how.keeps_lanes else 1
    method = members_of(how.method(epochs, len(x)), members)
    return fit(model, (x, y), method, seed=seed, device=device, progress=False)


@dataclass(frozen=True)
class _HeldOut:
    """Rows to train on, rows to look at, and the log density of these for who knows nothing."""

    data: PerMember | tuple[Tensor, Tensor]
    batch: Batch
    naive: Tensor
    rows: int


def _held_out(x: Tensor, y: Tensor, lanes: int, seed: int) -> _HeldOut:
    classes, naive = None if y.is_floating_point() else y.numpy(), _naive(y)
    if x.numel() * lanes <= LARGEST_COPY:
        parts = folds(len(x), lanes, seed=seed, classes=classes)
        kept, held = torch.from_numpy(parts.kept), torch.from_numpy(parts.held)
        return _HeldOut(PerMember(x[kept], y[kept]), Batch(x[held], y[held], own=True), naive[held], kept.shape[1])
    part = split(len(x), test=0.1, seed=seed, classes=classes)
    kept, held = torch.from_numpy(part.train), torch.from_numpy(part.test)
    return _HeldOut((x[kept], y[kept]), Batch(x[held], y[held]), naive[held], len(kept))


def _naive(y: Tensor) -> Tensor:
    """Log density of each target, (N,): a wide normal distribution, or every class alike."""
    if y.is_floating_point():
        return (-0.5 * (y / NAIVE_SCALE).square() - math.log(NAIVE_SCALE * math.sqrt(2 * math.pi))).sum(1)
    return torch.full((len(y),), -math.log(int(y.max()) + 1))


def _first_look(numbers: Numbers, rows: int) -> int:
    return math.ceil(FIRST_LOOK / math.ceil(rows / numbers.batch(rows)))


def _looks(first: int, limit: int) -> Iterator[int]:
    """Numbers of epochs, each about `GROWTH` times the one before, up to the limit."""
    epochs = min(first, limit)
    while epochs < limit:
        yield epochs
        epochs = min(max(epochs + 1, round(GROWTH * epochs)), limit)
    yield limit


def _watch(
    model: Model,
    held: _HeldOut,
    how: Recipe,
    limit: int,
    seed: int,
    device: torch.device | str,
    told: Told | None,
) -> Learnt:
    """Train from look to look, until looks bring nothing better, and keep the best."""
    posterior: Posterior | None = None
    best: Learnt | None = None
    done, since, story = 0, 0, _Story()
    for look, epochs in enumerate(_looks(_first_look(how.numbers, held.rows), limit)):
        method = members_of(how.method(epochs - done, held.rows), how.lanes)
        stream = Stream(seed, ("look", look))
        posterior = fit(model, held.data, method, seed=stream.key(), device=device, progress=False, start=posterior)
        score = _score(posterior, held)
        story = story.after(posterior, done, score)
        done = epochs
        better = best is None or best.held_out is None or score > best.held_out
        if better:
            best = Learnt(posterior, epochs, score)
        since = 0 if better else since + 1
        if told is not None:
            told(Look(epochs, limit, score, better))
        if since >= PATIENCE or not math.isfinite(score):
            break
    assert best is not None
    return replace(best, posterior=story.told_by(best, how.lanes, seed))


@torch.no_grad()
def _score(posterior: Posterior, held: _HeldOut) -> float:
    """Mean of log((1 - DOUBT) p(y) + DOUBT naive(y)) over the held-out rows of each network."""
    variables, batch = posterior.point(), held.batch
    moved = Batch(batch.x.to(variables.device), batch.y.to(variables.device), batch.own)
    each = Target(posterior.model, batch.examples).log_likelihood(variables, moved).double().cpu()
    return float(torch.logaddexp(each + math.log1p(-DOUBT), held.naive.double() + math.log(DOUBT)).mean())


@dataclass(frozen=True)
class _Story:
    """The records of all looks as one."""

    history: tuple[dict[str, float], ...] = ()
    seconds: float = 0.0

    def after(self, posterior: Posterior, done: int, score: float) -> _Story:
        rows = [
            {**row, "epoch": row["epoch"] + done, "seconds": round(row["seconds"] + self.seconds, 4)}
            for row in posterior.history
        ]
        if rows:
            rows[-1]["validation_log_likelihood"] = score
        return _Story((*self.history, *rows), self.seconds + posterior.record.seconds)

    def told_by(self, best: Learnt, lanes: int, seed: int) -> Posterior:
        note = (
            f"each of {lanes} networks was trained without its own part of the rows; all stopped after {best.epochs} "
            f"epochs, where they predicted the rows they had not seen best (log score {best.held_out:.3f})"
        )
        posterior = _with_notes(best.posterior, (note,))
        record = replace(posterior.record, history=self.history, seconds=self.seconds, seed=seed)
        return replace(posterior, record=record)


def _with_notes(posterior: Posterior, notes: tuple[str, ...]) -> Posterior:
    return replace(posterior, record=replace(posterior.record, notes=(*posterior.record.notes, *notes)))
