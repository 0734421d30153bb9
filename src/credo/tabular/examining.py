"""What held-out rows say beyond the scores: other models, columns, classes, strange rows, and ways to be fooled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd
import torch
from torch import Tensor

from credo.calibration import MappedPredictive
from credo.core.record import Record
from credo.data.encoder import Encoder
from credo.evaluation.baselines import baseline_answers, compared
from credo.evaluation.checks import NAIVE_QUESTION, beats_simpler, replaced, trained_well
from credo.evaluation.class_scores import class_scores, finds_every_class
from credo.evaluation.columns import SHOWN, ColumnProbe, effects, importances, residuals
from credo.evaluation.honesty import INTERVALS_QUESTION, PROBABILITIES_QUESTION
from credo.evaluation.losses import brier_of_rows
from credo.evaluation.metadata import TrainingLength
from credo.evaluation.strange_rows import knows_unknowns, probes
from credo.evaluation.table_values import Baseline, TableFindings
from credo.evaluation.trust import trusted
from credo.evaluation.values import Check, Evaluation, Rating
from credo.predictive import Predictive
from credo.tabular.loading import LoadedTable


@dataclass(frozen=True, eq=False)
class Examination:
    """A trained posterior and the rows that it is examined by.

    Attributes:
        loaded: the table.
        encoder: from cells to inputs.
        predict: from inputs to predictions in units of the user.
        answer: from rows to the predictions that a user sees.
        answers: those of the held-out rows.
        trained: the training rows.
        held_out: the others.
        known: targets of the training rows in units of the user, (N,).
        observed: targets of the others, (B,).
        weights: how much training rows and held-out rows count; None for one each.
    """

    loaded: LoadedTable
    encoder: Encoder
    predict: Callable[[Tensor], Predictive]
    answer: Callable[[pd.DataFrame], pd.DataFrame]
    answers: pd.DataFrame
    trained: pd.DataFrame
    held_out: pd.DataFrame
    known: Tensor
    observed: Tensor
    weights: tuple[Tensor, Tensor] | None = None

    def of(self, evaluation: Evaluation, record: Record, training: TrainingLength) -> Evaluation:
        """The evaluation with all of it, and with the checks that follow.

        Args:
            evaluation: of the held-out rows.
            record: of the training.
            training: how long it was.
        """
        findings = self._findings(evaluation.classes)
        request = self.loaded.request
        losses, naive = self._losses(evaluation.classes), _naive_loss(evaluation)
        simpler = beats_simpler(findings.baselines, losses, naive, classes=bool(evaluation.classes))
        found = [
            *_named(evaluation, NAIVE_QUESTION),
            simpler,
            trusted(self.loaded.leaks, request.time, request.group),
            *_named(evaluation, INTERVALS_QUESTION, PROBABILITIES_QUESTION),
            *([finds_every_class(findings.classes)] if evaluation.classes else []),
            knows_unknowns(findings.probes),
            trained_well(record.finished, record.notes, training, [*_results(evaluation), simpler]),
        ]
        flags = self.answers["unfamiliar"].fillna(False).astype(bool).to_numpy()
        strange = set(self.loaded.file_rows[self.loaded.parts.test][flags].tolist())
        doubtful = tuple(replace(row, unfamiliar=row.row in strange) for row in evaluation.doubtful)
        return replace(evaluation, doubtful=doubtful, checks=replaced(evaluation.checks, *found), findings=findings)

    def _findings(self, classes: tuple[str, ...]) -> TableFindings:
        seed = self.loaded.request.seed
        probe = ColumnProbe(
            self._plain, self.encoder, self.held_out, self.observed, classes, seed, self.weights and self.weights[1]
        )
        important = importances(probe)
        shown = [one.column for one in important[:SHOWN]]
        error, size = self._errors(classes)
        return TableFindings(
            baselines=self._baselines(classes),
            importance=important,
            effects=effects(probe, shown, self.trained),
            residuals=residuals(probe, shown, error, size),
            classes=class_scores(self._probs(classes), self.observed, classes) if classes else (),
            probes=probes(self.answer, self.held_out, self.trained, self.encoder.inputs, seed),
        )

    def _plain(self, x: Tensor) -> Predictive:
        """Before calibration, whose mean is nearly the same, and costs no integral for each row."""
        prediction = self.predict(x)
        return prediction.base if isinstance(prediction, MappedPredictive) else prediction

    def _probs(self, classes: tuple[str, ...]) -> Tensor:
        """Of the held-out rows, (B, K)."""
        return torch.tensor(self.answers[[f"probability_{name}" for name in classes]].to_numpy(dtype="float64"))

    def _errors(self, classes: tuple[str, ...]) -> tuple[Tensor, Tensor]:
        """Error and size of each row, as `residuals` takes them."""
        if classes:
            confidence, label = self._probs(classes).max(-1)
            right = (label == self.observed).double()
            return right - confidence, 1.0 - right
        error = self.observed.double().reshape(-1) - torch.tensor(self.answers["mean"].to_numpy(dtype="float64"))
        return error, error.square()

    def _losses(self, classes: tuple[str, ...]) -> Tensor:
        """Of each row, as `row_losses` counts."""
        return brier_of_rows(self._probs(classes), self.observed) if classes else self._errors(classes)[1]

    def _baselines(self, classes: tuple[str, ...]) -> tuple[Baseline, ...]:
        own, weights = self._losses(classes), self.weights
        found = []
        for one in baseline_answers(
            self.encoder.inputs,
            self.trained,
            self.known.numpy(),
            self.held_out,
            classes=len(classes),
            weights=None if weights is None else weights[0].numpy(),
            seed=self.loaded.request.seed,
        ):
            held = None if weights is None else weights[1]
            found.append(compared(one, own, self.observed, weights=held))
        return tuple(found)


def _named(evaluation: Evaluation, *questions: str) -> list[Check]:
    return [check for check in evaluation.checks if check.question in questions]


def _naive_loss(evaluation: Evaluation) -> float:
    """Of guessing, as `row_losses` counts."""
    score = evaluation.score("brier" if evaluation.classes else "rmse").naive or 0.0
    return score if evaluation.classes else score**2


def _results(evaluation: Evaluation) -> list[Check]:
    """What speaks for or against the training: guessing, and a likelihood below that of guessing."""
    found = _named(evaluation, NAIVE_QUESTION)
    score = evaluation.score("log_likelihood")
    if score.naive is not None and (score.model is None or score.model < score.naive):
        found.append(Check("Are its probabilities better than guessing?", Rating.POOR.value, ""))
    return found
