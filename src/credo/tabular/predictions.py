"""Predictions for new rows, as a person or a program reads them: one row of the output for each row of the input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.data import DataError
from credo.data.encoder import ClassTarget, Encoder, NumericTarget
from credo.decide.abstain import Mistakes, Promise
from credo.decide.guarantee import ERROR, FixedSequence, SelectionCurve
from credo.evaluation.values import Evaluation, Rejection, Sample
from credo.posteriors import Posterior
from credo.predictive import ClassPredictive, NumericPredictive, Predictive
from credo.tabular.costs import ActionCosts
from credo.tabular.supporting import FAR
from credo.uncertainty.familiarity import disagreement
from credo.uncertainty.support import Support

RISK = 0.05
"""Part of mistakes among decided rows, when the user does not say."""
NOTHING_PROMISED = "actions follow the model's own probabilities; nothing is promised about what they cost"
CHUNK = 20_000
"""Rows that are predicted at once."""

Columns = dict[str, Any]


@dataclass(frozen=True, eq=False)
class RowPredictions:
    """Predictions for new rows.

    Attributes:
        frame: one row of predictions for each row, in their order.
        notes: what was strange about the rows, in sentences.
        promise: what is promised about the rows that are decided; None for numbers.
    """

    frame: pd.DataFrame
    notes: tuple[str, ...]
    promise: Promise | None = None


def predict_rows(
    posterior: Posterior,
    encoder: Encoder,
    evaluation: Evaluation,
    rows: pd.DataFrame,
    *,
    level: float = 0.95,
    risk: float = RISK,
    costs: ActionCosts | None = None,
    within: float | None = None,
    support: Support | None = None,
) -> RowPredictions:
    """Predict new rows.

    For numbers the columns are mean, stddev, lower, upper (the equal-tailed interval of the level; of
    counts its ends are whole numbers from 0 on), epistemic and
    aleatoric (variances, which add up to stddev squared). For classes they are label, a probability for each class,
    epistemic (mutual information) and aleatoric (expected entropy, both in nats), and abstain. For both there are
    unfamiliar, a flag, and unfamiliarity, a score: the flag is set where the score is above 1, and where a cell is
    infinite, or is missing or cannot be read in a column that was complete in training, or holds a category that no
    training row has. What stands in for such a cell is ordinary, so that the networks agree about it and their error
    bars are too narrow.

    Args:
        posterior: in standardized units.
        encoder: of the training table.
        evaluation: of the held-out rows, from which come the thresholds.
        rows: with the columns of the training table.
        level: of the intervals.
        risk: part of mistakes among the decided rows that is acceptable, kept with a probability of 90 % for rows like
            the held-out ones (`credo.decide.FixedSequence`); without meaning for numbers.
        costs: of actions, for classes. There are then two more columns, action and expected_cost, and abstain says that
            asking is expected to cost less than the best action; nothing is promised.
        within: for numbers: there is then a column abstain, set where the interval is wider than this, from its lower
            to its upper end, or the row is unfamiliar.
        support: of the training rows, by which unfamiliar ones are told; None for a run of an older version, where
            nothing but the disagreement of the networks tells them.

    Raises:
        DataError: if the rows do not have the columns of the training table, or the costs not its classes.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    if not 0.0 <= risk < 1.0:
        raise ValueError(f"risk must lie between 0 and 1, got {risk}")
    if costs is not None and not isinstance(encoder.target, ClassTarget):
        raise DataError(f"{evaluation.target!r} holds numbers, and costs of actions are for classes")
    if within is not None:
        _check_within(within, encoder)
    encoded = encoder.encode(rows)
    threshold, promise = threshold_for(evaluation, risk) if evaluation.classes else (None, None)
    novelty = torch.as_tensor(encoder.novelty(rows))
    parts = [
        _columns(predict_exactly(posterior, x), encoder, level, threshold, _Unfamiliarity(evaluation, support, x, new))
        for x, new in zip(torch.split(encoded.x, CHUNK), torch.split(novelty, CHUNK), strict=True)
    ]
    frame = pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True)
    if within is not None:
        unlike = frame["unfamiliar"].fillna(False).astype(bool)
        frame.insert(6, "abstain", unlike | ~(frame["upper"] - frame["lower"] <= within))
    for flag in ("unfamiliar", "abstain"):
        if flag in frame:
            frame[flag] = frame[flag] | encoded.strange
    if costs is not None:
        assert isinstance(encoder.target, ClassTarget)
        return RowPredictions(costs.decided(frame, tuple(encoder.target.classes)), (*encoded.notes, NOTHING_PROMISED))
    refusal = (str(promise),) if promise is not None and not promise.is_kept else ()
    narrow = () if within is None else (_held_by_narrow(evaluation.sample, within),)
    return RowPredictions(frame, (*encoded.notes, *refusal, *narrow), promise)


def _check_within(within: float, encoder: Encoder) -> None:
    if isinstance(encoder.target, ClassTarget):
        raise DataError(f"{encoder.target.name!r} has classes, and within is for intervals of numbers: use risk")
    if not within > 0.0:
        raise ValueError(f"within is the width of an interval and must be above 0, got {within}")


def _held_by_narrow(sample: Sample, within: float) -> str:
    """How many held-out rows have intervals so narrow, and how often these held."""
    ends = zip(sample.lower, sample.upper, sample.observed, strict=True)
    narrow = [low <= y <= high for low, high, y in ends if high - low <= within]
    said = f"{len(narrow):,} of {len(sample.observed):,} held-out rows have 95 % intervals no wider than {within:g}"
    return f"{said}, and these hold {sum(narrow):,} of their targets" if narrow else said


def threshold_for(evaluation: Evaluation, risk: float, error: float = ERROR) -> tuple[float | None, Promise]:
    """The largest doubt up to which rows are decided, and what is promised of them.

    Held-out rows promise it. Where they are too few, the training rows do, each as the networks predict it that were
    not trained on it: a weaker promise, which says so.

    Args:
        evaluation: of a model of classes.
        risk: part of mistakes among the decided rows that is acceptable.
        error: probability with which the promise may fail.
    """
    held, others = evaluation.certificates, evaluation.out_of_fold_certificates
    threshold, promise = _promised(evaluation.rejection, evaluation.held_out, risk, error)
    if threshold is None and evaluation.out_of_fold is not None and others is not None:
        weaker, by_others = _promised(evaluation.out_of_fold, others.rows, risk, error)
        if weaker is not None:
            return weaker, replace(by_others, out_of_fold=True)
    if threshold is None and held is not None and held.smallest is not None:
        promise = replace(promise, smallest=f"{held.smallest.risk:.1%} of mistakes")
    return threshold, promise


def _promised(seen: Rejection, rows: int, risk: float, error: float) -> tuple[float | None, Promise]:
    counts = [round(part * rows) for part in seen.kept]
    mistakes = [float(round(each * count)) for each, count in zip(seen.risk, counts, strict=True)]
    curve = SelectionCurve(rows, tuple(counts), tuple(mistakes), seen.doubt)
    place = FixedSequence().place(curve, risk, error)
    promise = Promise.of(curve, place, Mistakes().claim(risk), risk, error)
    return None if place is None else curve.doubt[place], promise


def predict_exactly(posterior: Posterior, x: Tensor) -> Predictive:
    """The predictive at standardized inputs, in float64 from the outputs on: variances of absurd rows overflow less."""
    found = posterior.predict(x.clamp(-FAR, FAR))
    if isinstance(found, NumericPredictive):
        return found.in_double()
    params = {name: t.double() for name, t in found.params.items()}
    return replace(found, draws=found.draws.double(), params=params, log_weights=found.log_weights.double())


@dataclass(frozen=True, eq=False)
class _Unfamiliarity:
    """How unlike the training rows some rows are."""

    evaluation: Evaluation
    support: Support | None
    x: Tensor
    novelty: Tensor

    def scores(self, prediction: Predictive, scale: float) -> Tensor:
        """By the support; without one by the disagreement alone, in the units of the target, (B,)."""
        apart = disagreement(prediction)
        if self.support is None:
            return self.evaluation.familiarity.score(apart * scale)
        return self.support.score(self.x.clamp(-FAR, FAR), apart, self.novelty)

    def columns(self, scores: Tensor) -> Columns:
        if bool(scores.isnan().all()):  # a single network of an older version, which disagrees with nobody
            return {"unfamiliar": pd.array([pd.NA] * len(scores), dtype="boolean"), "unfamiliarity": scores.numpy()}
        return {"unfamiliar": (scores > 1.0).numpy(), "unfamiliarity": scores.numpy()}


def _columns(
    prediction: Predictive, encoder: Encoder, level: float, threshold: float | None, unlike: _Unfamiliarity
) -> Columns:
    target = encoder.target
    if isinstance(target, ClassTarget):
        assert isinstance(prediction, ClassPredictive)
        scores = unlike.scores(prediction, 1.0)
        return {**_of_classes(prediction, target), **_abstain(prediction, scores, threshold), **unlike.columns(scores)}
    assert isinstance(prediction, NumericPredictive)
    return {**_of_numbers(prediction, target, level), **unlike.columns(unlike.scores(prediction, target.scale))}


def _of_numbers(prediction: NumericPredictive, target: NumericTarget, level: float) -> Columns:
    lower, upper = target.decode_interval(*(_flat(end) for end in prediction.interval(level)))
    square = target.scale**2
    return {
        "mean": target.decode(_flat(prediction.mean)),
        "stddev": target.decode_scale(_flat(prediction.stddev)),
        "lower": lower,
        "upper": upper,
        "epistemic": _flat(prediction.epistemic) * square,
        "aleatoric": _flat(prediction.aleatoric) * square,
    }


def _of_classes(prediction: ClassPredictive, target: ClassTarget) -> Columns:
    probs = prediction.probs.numpy()
    return {
        "label": target.decode(probs.argmax(1)),
        **{f"probability_{name}": probs[:, k] for k, name in enumerate(target.classes)},
        "epistemic": _flat(prediction.mutual_information),
        "aleatoric": _flat(prediction.expected_entropy),
    }


def _abstain(prediction: ClassPredictive, unlike: Tensor, threshold: float | None) -> Columns:
    """Doubt above what keeps the risk, as far as held-out rows can promise it, or a row of which they say nothing."""
    doubt = 1.0 - prediction.probs.max(-1).values
    # of equal doubts one may come out a rounding error larger
    doubtful = doubt > (-1.0 if threshold is None else threshold + 1e-9)
    return {"abstain": (doubtful | (unlike > 1.0)).numpy()}


def _flat(values: Tensor) -> NDArray[np.float64]:
    return np.asarray(values.double().reshape(-1).numpy())
