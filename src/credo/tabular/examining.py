"""What held-out rows say beyond the scores: other models, columns, classes, strange rows, and ways to be fooled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd
from torch import Tensor

from credo.core.record import Record
from credo.data.encoder import Encoder
from credo.evaluation.baselines import baseline_answers, compared
from credo.evaluation.checks import NAIVE_QUESTION, beats_simpler, replaced, trained_well
from credo.evaluation.class_scores import class_scores, finds_every_class
from credo.evaluation.columns import SHOWN, ColumnProbe, effects, importances, residuals
from credo.evaluation.honesty import INTERVALS_QUESTION, PROBABILITIES_QUESTION
from credo.evaluation.losses import row_losses
from credo.evaluation.metadata import TrainingLength
from credo.evaluation.strange_rows import knows_unknowns, probes
from credo.evaluation.table_values import Baseline, TableFindings
from credo.evaluation.trust import trusted
from credo.evaluation.values import Check, Evaluation, Rating
from credo.predictive import ClassPredictive, Predictive
from credo.tabular.loading import LoadedTable


@dataclass(frozen=True, eq=False)
class Examination:
    """A trained posterior and the rows that it is examined by.

    Attributes:
        loaded: the table.
        encoder: from cells to inputs.
        predict: from inputs to predictions in units of the user.
        answer: from rows to the predictions that a user sees.
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
        prediction = self.predict(self.encoder.encode(self.held_out).x)
        findings = self._findings(evaluation, prediction)
        request = self.loaded.request
        losses, naive = row_losses(prediction, self.observed), _naive_loss(evaluation)
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
        flags = self.answer(self.held_out)["unfamiliar"].fillna(False).astype(bool).to_numpy()
        strange = set(self.loaded.file_rows[self.loaded.parts.test][flags].tolist())
        doubtful = tuple(replace(row, unfamiliar=row.row in strange) for row in evaluation.doubtful)
        return replace(evaluation, doubtful=doubtful, checks=replaced(evaluation.checks, *found), findings=findings)

    def _findings(self, evaluation: Evaluation, prediction: Predictive) -> TableFindings:
        seed, classes = self.loaded.request.seed, evaluation.classes
        probe = ColumnProbe(
            self.predict, self.encoder, self.held_out, self.observed, classes, seed, self.weights and self.weights[1]
        )
        important = importances(probe)
        shown = [one.column for one in important[:SHOWN]]
        error, size = _errors(prediction, self.observed)
        scores = (
            class_scores(prediction.probs, self.observed, classes) if isinstance(prediction, ClassPredictive) else ()
        )
        return TableFindings(
            baselines=self._baselines(prediction, classes),
            importance=important,
            effects=effects(probe, shown, self.trained),
            residuals=residuals(probe, shown, error, size),
            classes=scores,
            probes=probes(self.answer, self.held_out, self.trained, self.encoder.inputs, seed),
        )

    def _baselines(self, prediction: Predictive, classes: tuple[str, ...]) -> tuple[Baseline, ...]:
        own, weights = row_losses(prediction, self.observed), self.weights
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


def _errors(prediction: Predictive, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Error and size of each row, as `residuals` takes them."""
    if isinstance(prediction, ClassPredictive):
        confidence, label = prediction.probs.double().max(-1)
        right = (label == observed).double()
        return right - confidence, 1.0 - right
    error = observed.double().reshape(-1) - prediction.mean.double().reshape(-1)
    return error, error.square()
