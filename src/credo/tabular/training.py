"""Training on a table: validation rows say when to stop, and no row is wasted on them.

A network that is trained for too long on a small table is too sure of itself, and so are ensembles of such networks.
So M networks are trained side by side, each without its own M-th of the rows, and validated from time to time on the
rows that each has not seen: every row of the table has a say in when to stop. Then the learning rate is brought to
zero, and the result is used where it is better. An ensemble consists of these networks; for a method of one network,
another is trained in the same way on all rows.
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
from credo.core.status import Status
from credo.data.splits import Index
from credo.fit import fit
from credo.loop.checkpoints import Checkpoint
from credo.methods import Method
from credo.model import Model
from credo.posteriors import Posterior
from credo.tabular.recipes import Recipe, Settings, members_of
from credo.tabular.run_history import RunHistory
from credo.tabular.validation import ValidationRows, hold_out

SECONDS = 10.0
"""Between two checkpoints."""
FEW_ROWS = 20
"""Below this many rows none is held out."""
FEW_STEPS = 300
"""Steps of the training on so few rows."""
FIRST_VALIDATION = 40
"""Steps before the first validation."""
GROWTH = 1.3
"""Each validation comes after so many times the epochs of the one before."""
PATIENCE = 4
"""Validations without an improvement that end the training."""
LEAST_STEPS = 800
"""Steps before which it does not end: scores of networks that have learned little yet go up and down."""
COOLING = 0.3
"""Epochs of the cooling, as a part of those before it."""


@dataclass(frozen=True)
class ValidationPoint:
    """One validation in the course of training.

    Attributes:
        epochs: passes over the data so far.
        limit: passes after which training ends in any case (and cooling begins).
        log_likelihood: mean log density of the validation targets, under the networks that have not seen them, each
            density mixed with a little of a naive one.
        best: whether it is the best so far.
        candidate: what is tried, in a choice between several; empty for the training itself.
    """

    epochs: int
    limit: int
    log_likelihood: float
    best: bool
    candidate: str = ""


@dataclass(frozen=True, eq=False)
class FitResult:
    """What came out of the training.

    Attributes:
        posterior: its record is that of the whole training.
        epochs: passes over the data of the networks in the posterior; None where a given method decided.
        validation: the log likelihood of its `ValidationPoint`; None where no row was held out.
        cooling: how many of the epochs were cooling.
        folds: the networks that were trained without a part of the rows each: the posterior itself, if it consists of
            them; None where no row was held out, or where a network diverged.
        unseen: which of their networks was not trained on which row, (M, N); the rows have a say in how long all
            networks train, and in nothing else.
    """

    posterior: Posterior
    epochs: int | None
    validation: float | None
    cooling: int = 0
    folds: Posterior | None = None
    unseen: Tensor | None = None


ValidationListener = Callable[[ValidationPoint], None]


class DivergedError(ValueError):
    """A training came to numbers that are none before there was a result."""


def learn(
    model: Model,
    x: Tensor,
    y: Tensor,
    recipe: Recipe | Method,
    *,
    weights: Tensor | None = None,
    groups: Index | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    listener: ValidationListener | None = None,
    folder: Path | None = None,
) -> FitResult:
    """Train on the rows of a table.

    Args:
        model: with its likelihood.
        x: inputs, (N, F), that the model standardizes or that are so already.
        y: targets (N, D), likewise, or class numbers (N,).
        recipe: how; or a method that is run once on all rows, as it is.
        weights: how much each row counts, (N,), all above zero; None for one each.
        groups: number of the group of each row, (N,), which validation rows do not cut; None for none.
        seed: the same seed gives the same bits.
        device: where to compute.
        listener: called at every validation.
        folder: where the training is saved as it goes; one that was begun there is resumed, to the same bits.

    Raises:
        ValueError: the training diverged before there was a result.
        KeyboardInterrupt: Ctrl-C, where there is a folder to resume from; without one the best so far is the result.
    """
    stages, data = _Stages(model, device, folder), (x, y) if weights is None else (x, y, weights)
    if isinstance(recipe, Method):
        return FitResult(stages.run("all", data, recipe, seed), None, None)
    limit = recipe.settings.limit(len(x))
    if recipe.early_stopping and len(x) >= FEW_ROWS:
        rows = hold_out(x, y, recipe.networks, seed, likelihood=model.likelihood, weights=weights, groups=groups)
        search = _EarlyStopping(stages, recipe, rows, limit, seed, listener)
        chosen = _with_folds(search.cooled(search.best()), rows.unseen)
        if recipe.keeps_networks:
            return chosen
        result = _again_on_all(chosen, _Trainer(stages, recipe, data, len(x), 1), seed)
        return _refined(result, stages, recipe, data, rows, seed)
    trainer = _Trainer(stages, recipe, data, len(x), recipe.networks if recipe.keeps_networks else 1)
    epochs = min(limit, _epochs_of(FEW_STEPS, recipe.settings, len(x))) if recipe.early_stopping else limit
    result = FitResult(trainer.train("all", epochs, seed), epochs, None)
    return _refined(result, stages, recipe, data, None, seed)


def out_of_fold_scores(
    model: Model,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    *,
    weights: Tensor | None = None,
    groups: Index | None = None,
    seed: int = 0,
    listener: ValidationListener | None = None,
    folder: Path | None = None,
) -> Tensor:
    """Validation log likelihood of each row, (N,), by the networks that are not trained on it, at its best moment.

    NaN for rows that every network is trained on; minus infinity where the training diverges.

    Args:
        model: with its likelihood.
        x: inputs, (N, F).
        y: targets.
        recipe: of networks side by side.
        weights: how much each row counts, (N,); None for one each.
        groups: number of the group of each row, (N,).
        seed: the same for candidates that are to be compared.
        listener: called at every validation.
        folder: where the training is saved as it goes.
    """
    rows = hold_out(x, y, recipe.networks, seed, likelihood=model.likelihood, weights=weights, groups=groups)
    stages = _Stages(model, "cpu", folder)
    found = torch.full((len(x),), -math.inf, dtype=torch.float64)
    try:
        best = _EarlyStopping(stages, recipe, rows, recipe.settings.limit(len(x)), seed, listener).best()
    except DivergedError:
        return found
    if best.posterior.members().members < recipe.networks:
        return found
    return rows.by_row(best.posterior)


def _refined(
    found: FitResult, stages: _Stages, recipe: Recipe, data: Any, rows: ValidationRows | None, seed: int
) -> FitResult:
    """The result after the method that begins at its weights, if the recipe has one; the networks of the folds too."""
    size = len(data[0])
    refinement = recipe.refinement(size)
    if refinement is None or not found.posterior.record.finished:
        return found
    key = Stream(seed, ("refinement",)).key()
    posterior = stages.run("refined", data, refinement.method, key, found.posterior, refinement.temperature)
    history = RunHistory().after(found.posterior, 0)
    length = int(max((row["epoch"] for row in history.rows), default=0.0))
    notes = refinement.note
    result = replace(found, epochs=refinement.epochs, cooling=0)
    if rows is not None and found.folds is not None:
        method = members_of(refinement.method, recipe.networks)
        folds = stages.run("refined-folds", rows.data, method, key, found.folds, refinement.temperature)
        score, naive = rows.score(folds), float(rows.naive.double().mean())
        notes += f"; the validation log likelihood per row went from {found.validation:.3f} to {score:.3f}"
        if not score > naive:
            notes += f", below {naive:.3f} of a guess without inputs: it failed on this table, use the ensemble"
        result = replace(result, folds=folds, validation=score)
    posterior = history.after(posterior, length).recorded(posterior, notes, seed)
    earlier = tuple(note for note in found.posterior.record.notes if note not in posterior.record.notes)
    record = replace(posterior.record, notes=(*earlier, *posterior.record.notes))
    return replace(result, posterior=replace(posterior, record=record))


def _with_folds(chosen: FitResult, unseen: Tensor | None) -> FitResult:
    """With its networks as those of the folds, unless some have diverged and left, and nobody can say which."""
    if unseen is None or chosen.posterior.members().members != len(unseen):
        return chosen
    return replace(chosen, folds=chosen.posterior, unseen=unseen)


@dataclass(frozen=True)
class _Stages:
    """Runs of the loop that follow one another, each with a name and a checkpoint of its own."""

    model: Model
    device: torch.device | str
    folder: Path | None

    def run(
        self,
        name: str,
        data: Any,
        method: Method,
        seed: int,
        start: Posterior | None = None,
        temperature: float = 1.0,
    ) -> Posterior:
        place = None if self.folder is None else Checkpoint(self.folder / name, SECONDS)
        posterior = fit(
            self.model,
            data,
            method,
            weights=2 if isinstance(data, tuple) and len(data) == 3 else None,
            seed=seed,
            device=self.device,
            progress=False,
            start=start,
            temperature=temperature,
            checkpoint=place,
            resume=place is not None,
        )
        if self.folder is not None and posterior.record.interrupted:
            raise KeyboardInterrupt  # the checkpoint is there to be resumed, and half a stage is no result
        if posterior.record.status is Status.DIVERGED and start is None:
            raise DivergedError(f"the training {posterior.record.reason}")
        return posterior


def _again_on_all(chosen: FitResult, trainer: _Trainer, seed: int) -> FitResult:
    """One network on all rows, for as long as was chosen with validation rows."""
    assert chosen.epochs is not None
    posterior = trainer.train("all", chosen.epochs - chosen.cooling, seed)
    history = RunHistory().after(posterior, 0)
    if chosen.cooling:
        again = Stream(seed, ("cooling",)).key()
        posterior = trainer.train("all-cooling", chosen.cooling, again, posterior, cooling=True)
        history = history.after(posterior, chosen.epochs - chosen.cooling)
    networks = trainer.recipe.networks
    note = f"{networks} networks, each without its own part of the rows, chose {chosen.epochs} epochs"
    return replace(chosen, posterior=history.recorded(posterior, note, seed))


@dataclass(frozen=True)
class _Trainer:
    """Some epochs of a recipe on some rows."""

    stages: _Stages
    recipe: Recipe
    data: Any
    rows: int
    networks: int

    def train(
        self, name: str, epochs: int, seed: int, start: Posterior | None = None, *, cooling: bool = False
    ) -> Posterior:
        method = members_of(self.recipe.method(epochs, self.rows, cooling=cooling), self.networks)
        return self.stages.run(name, self.data, method, seed, start)


class _EarlyStopping:
    """Training from validation to validation, until they bring nothing better."""

    def __init__(
        self,
        stages: _Stages,
        recipe: Recipe,
        validation: ValidationRows,
        limit: int,
        seed: int,
        listener: ValidationListener | None,
    ) -> None:
        self.recipe, self.validation, self.limit, self.seed = recipe, validation, limit, seed
        self.trainer = _Trainer(stages, recipe, validation.data, validation.rows, recipe.networks)
        self.listener = listener or (lambda point: None)
        self.history = RunHistory()

    def best(self) -> FitResult:
        """The networks of the best validation."""
        posterior: Posterior | None = None
        best: FitResult | None = None
        done = since = 0
        first, least = (
            _epochs_of(steps, self.recipe.settings, self.validation.rows) for steps in (FIRST_VALIDATION, LEAST_STEPS)
        )
        for number, epochs in enumerate(_validations(first, self.limit)):
            key = Stream(self.seed, ("look", number)).key()  # the name is part of every seed
            posterior = self.trainer.train(f"look-{number}", epochs - done, key, posterior)
            score = self._score(posterior)
            self.history = self.history.after(posterior, done, score)
            done = epochs
            better = _beats(score, best)
            if best is None or better:
                best = FitResult(posterior, epochs, score)
            since = 0 if better else since + 1
            self.listener(ValidationPoint(epochs, self.limit, score, better))
            if since >= PATIENCE and epochs >= least:
                break
            if not math.isfinite(score) or not posterior.record.finished:
                break
        assert best is not None
        return best

    def cooled(self, best: FitResult) -> FitResult:
        """The same networks after some epochs with a falling learning rate, where that is better on validation rows."""
        assert best.epochs is not None
        if not best.posterior.record.finished or best.posterior.members().members < self.recipe.networks:
            return self._recorded(best, self.history)
        more = max(1, round(COOLING * best.epochs))
        seed = Stream(self.seed, ("cooling",)).key()
        posterior = self.trainer.train("cooling", more, seed, best.posterior, cooling=True)
        score = self._score(posterior)
        better = _beats(score, best)
        self.listener(ValidationPoint(best.epochs + more, self.limit, score, better))
        if not better:
            return self._recorded(best, self.history)
        history = self.history.until(best.epochs).after(posterior, best.epochs, score)
        return self._recorded(FitResult(posterior, best.epochs + more, score, more), history)

    def _score(self, posterior: Posterior) -> float:
        """Of all networks on the rows that each has not seen; NaN once one of them has diverged and left."""
        complete = posterior.members().members == self.recipe.networks
        return self.validation.score(posterior) if complete else math.nan

    def _recorded(self, result: FitResult, history: RunHistory) -> FitResult:
        note = (
            f"each of {self.recipe.networks} networks was trained without its own part of the rows; all stopped after "
            f"{result.epochs} epochs, "
        )
        if result.validation is None or not math.isfinite(result.validation):
            note += "where some diverged: the others are the result, and no validation rows were scored"
            result = replace(result, validation=None)
        else:
            note += f"where the validation log likelihood per row was best ({result.validation:.3f})"
        return replace(result, posterior=history.recorded(result.posterior, note, self.seed))


def _beats(score: float, best: FitResult | None) -> bool:
    return best is None or best.validation is None or score > best.validation


def _epochs_of(steps: int, settings: Settings, rows: int) -> int:
    return math.ceil(steps / math.ceil(rows / settings.batch(rows)))


def _validations(first: int, limit: int) -> Iterator[int]:
    """Numbers of epochs, each about `GROWTH` times the one before, up to the limit."""
    epochs = min(first, limit)
    while epochs < limit:
        yield epochs
        epochs = min(max(epochs + 1, round(GROWTH * epochs)), limit)
    yield limit
