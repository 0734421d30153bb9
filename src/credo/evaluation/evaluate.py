"""From a prediction of held-out rows to an evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo import metrics
from credo.core.record import Record
from credo.core.rng import Stream
from credo.decide.certificates import certified_risks, smallest_risk
from credo.decide.guarantee import SelectionCurve
from credo.evaluation import checks, honesty
from credo.evaluation.digits import number, percent, rounded
from credo.evaluation.doubtful import doubtful_rows
from credo.evaluation.losses import row_losses
from credo.evaluation.metadata import TrainingLength
from credo.evaluation.scores import LEVEL, scores
from credo.evaluation.values import Calibration, Certificates, Check, Doubtful, Evaluation, Floats, Rejection, Sample
from credo.predictive import ClassPredictive, NumericPredictive, Predictive
from credo.uncertainty.familiarity import Familiarity, disagreement

POINTS = 400
"""Points of a curve that are kept."""
ROWS = 600
"""Rows that figures show."""


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Rows that were not learned from, and what is predicted for them.

    Attributes:
        prediction: of the posterior, in the units of the target.
        plain: of single networks; empty where the posterior is one.
        naive: of the answer that ignores the inputs.
        y: what was observed, (B,): numbers, or class numbers.
        row: their numbers in the user's file, from 1, the header not counted.
        inputs: their cells, as the file has them.
        trained: cells of the training rows.
        target: name of the column that is predicted.
        classes: names of the classes; empty for numbers.
        record: how training went.
        plain_share: part of the training rows that a single network learned from.
        training: how long training was; None where that is not known.
        weights: how much each row counts in the scores, (B,); None for one each.
        unseen_doubt: for classes one minus the largest probability of training rows, as the networks predict them that
            were not trained on them, (n,); None where that is not known.
        unseen_mistakes: whether their most probable class is wrong, (n,), 1 or 0.
    """

    prediction: Predictive
    plain: Sequence[Predictive]
    naive: Predictive
    y: Tensor
    row: NDArray[np.int64]
    inputs: pd.DataFrame
    trained: pd.DataFrame
    target: str
    classes: tuple[str, ...]
    record: Record
    plain_share: float = 1.0
    training: TrainingLength | None = None
    weights: Tensor | None = None
    unseen_doubt: Tensor | None = None
    unseen_mistakes: Tensor | None = None


def evaluate(case: HeldOutRows, seed: int = 0) -> Evaluation:
    """Hold a prediction against what was observed.

    Args:
        case: the rows.
        seed: of the choice of rows that figures show.
    """
    view = _of_classes(case) if isinstance(case.prediction, ClassPredictive) else _of_numbers(case)
    apart = disagreement(case.prediction)
    curve = metrics.risk_coverage_of_losses(view.doubt, view.losses)
    return Evaluation(
        task="classification" if case.classes else "regression",
        target=case.target,
        classes=case.classes,
        trained=len(case.trained),
        held_out=len(case.y),
        scores=scores(case.prediction, case.plain, case.naive, case.y, case.weights),
        calibration=view.calibration,
        rejection=_thinned(curve),
        familiarity=Familiarity.of(apart),
        sample=_sample(view, case.row, seed),
        confusion=_confusion(view, len(case.classes)),
        epistemic_share=float(view.epistemic.sum() / (view.epistemic + view.aleatoric).sum().clamp_min(1e-300)),
        doubtful=_doubtful(case, view),
        checks=checks.worst_first(
            (
                *view.checks,
                checks.points_at_mistakes(view.doubt, view.losses, "mistakes" if case.classes else "error"),
                checks.doubts_at_all(apart),
                checks.enough_rows(len(case.y)),
                checks.trained_well(case.record.finished, case.record.notes, case.training, view.checks[:1]),
            )
        ),
        plain_share=case.plain_share,
        **_promises(case, view),
    )


class _Promises(TypedDict, total=False):
    certificates: Certificates
    out_of_fold: Rejection
    out_of_fold_certificates: Certificates


def _promises(case: HeldOutRows, view: _View) -> _Promises:
    """What held-out rows promise about mistakes, and what training rows do, predicted by networks of the folds."""
    if not case.classes:
        return {}
    found: _Promises = {"certificates": _certificates(SelectionCurve.of(view.doubt, view.losses))}
    if case.unseen_doubt is not None and case.unseen_mistakes is not None:
        curve = metrics.risk_coverage_of_losses(case.unseen_doubt, case.unseen_mistakes)
        found["out_of_fold"] = _thinned(curve)
        of_rows = SelectionCurve.of(case.unseen_doubt, case.unseen_mistakes)
        found["out_of_fold_certificates"] = _certificates(of_rows)
    return found


def _certificates(curve: SelectionCurve) -> Certificates:
    return Certificates(curve.rows, certified_risks(curve), smallest_risk(curve))


@dataclass(frozen=True, eq=False)
class _View:
    """What numbers and classes have in common: one of each for every row, (B,)."""

    observed: Tensor
    mean: Tensor
    lower: Tensor
    upper: Tensor
    confidence: Tensor
    epistemic: Tensor
    aleatoric: Tensor
    doubt: Tensor
    losses: Tensor
    predicted: list[str]
    answers: list[str]
    calibration: Calibration
    checks: tuple[Check, ...]


def _of_numbers(case: HeldOutRows) -> _View:
    prediction = case.prediction
    assert isinstance(prediction, NumericPredictive)
    mean, observed = _flat(prediction.mean), _flat(case.y)
    lower, upper = (_flat(end) for end in prediction.interval(LEVEL))
    losses, naive = (row_losses(each, case.y) for each in (prediction, case.naive))
    stddev = _flat(prediction.variance).sqrt()
    outer, middle = (_held(prediction, observed, level) for level in (honesty.OUTER, honesty.MIDDLE))
    curve = metrics.coverage_curve(prediction, case.y)
    errors = [number(math.sqrt(_mean(each, case.weights))) for each in (losses, naive)]
    text = f"its typical error is {errors[0]}, and {errors[1]} for always answering the mean"
    none = torch.empty(0, dtype=torch.float64)
    return _View(
        observed=observed,
        mean=mean,
        lower=lower,
        upper=upper,
        confidence=none,
        epistemic=_flat(prediction.epistemic),
        aleatoric=_flat(prediction.aleatoric),
        doubt=_flat(prediction.variance),
        losses=losses,
        predicted=[
            f"{rounded(m, sd)} ({rounded(low, sd)} to {rounded(high, sd)})"
            for m, low, high, sd in zip(*(each.tolist() for each in (mean, lower, upper, stddev)), strict=True)
        ],
        answers=[number(value) for value in observed.tolist()],
        calibration=Calibration(
            _floats(curve.level), _floats(curve.coverage), (float(len(observed)),) * len(curve.level)
        ),
        checks=(checks.beats_naive(losses, naive, text, case.weights), honesty.covers(outer, middle, len(observed))),
    )


def _of_classes(case: HeldOutRows) -> _View:
    prediction = case.prediction
    assert isinstance(prediction, ClassPredictive)
    confidence, label = prediction.probs.double().max(-1)
    right = label == case.y
    naive = case.naive.mean.argmax(-1) == case.y
    curve = metrics.reliability_curve(prediction, case.y, bins=10)
    parts = [percent(_mean(each.double(), case.weights)) for each in (right, naive)]
    briers = [row_losses(each, case.y) for each in (prediction, case.naive)]
    scores_of = [number(_mean(each, case.weights)) for each in briers]
    text = (
        f"its Brier score is {scores_of[0]}, and {scores_of[1]} for always answering how frequent each class is; it is "
    )
    text += f"right in {parts[0]} of the rows, and always answering the most frequent class in {parts[1]}"
    none = torch.empty(0, dtype=torch.float64)
    return _View(
        observed=case.y.double(),
        mean=label.double(),
        lower=none,
        upper=none,
        confidence=confidence,
        epistemic=_flat(prediction.mutual_information),
        aleatoric=_flat(prediction.expected_entropy),
        doubt=1.0 - confidence,
        losses=(~right).double(),
        predicted=[
            f"{case.classes[k]} ({percent(p)})" for k, p in zip(label.tolist(), confidence.tolist(), strict=True)
        ],
        answers=[case.classes[k] for k in case.y.tolist()],
        calibration=Calibration(_floats(curve.confidence), _floats(curve.accuracy), _floats(curve.count)),
        checks=(
            checks.beats_naive(briers[0], briers[1], text, case.weights),
            honesty.sure_enough(confidence, right),
        ),
    )


def _mean(values: Tensor, weights: Tensor | None) -> float:
    return float(values.mean() if weights is None else (values * weights).sum() / weights.sum())


def _held(prediction: NumericPredictive, observed: Tensor, level: float) -> float:
    """Part of the rows inside their intervals."""
    lower, upper = (_flat(end) for end in prediction.interval(level))
    return int(((lower <= observed) & (observed <= upper)).sum()) / len(observed)


def _flat(values: Tensor) -> Tensor:
    return values.double().reshape(-1)


def _floats(values: Tensor) -> Floats:
    return tuple(values.double().tolist())


def _thinned(curve: metrics.RiskCoverage) -> Rejection:
    """At most so many points of the curve, each at the end of a group of equal doubt, the last one included."""
    ends = torch.ones_like(curve.doubt, dtype=torch.bool)
    ends[:-1] = curve.doubt[1:] > curve.doubt[:-1]
    places = ends.nonzero().reshape(-1)
    if len(places) > POINTS:
        places = places[torch.linspace(0, len(places) - 1, POINTS).round().long()]
    return Rejection(_floats(curve.coverage[places]), _floats(curve.risk[places]), _floats(curve.doubt[places]))


def _sample(view: _View, row: NDArray[np.int64], seed: int) -> Sample:
    count = len(row)
    chosen = torch.arange(count)
    if count > ROWS:
        chosen = Stream(seed, ("rows of figures",)).permutation(count)[:ROWS].sort().values

    def some(values: Tensor) -> Floats:
        return _floats(values[chosen]) if len(values) else ()

    return Sample(
        row=tuple(int(row[i]) for i in chosen.tolist()),
        observed=some(view.observed),
        mean=some(view.mean),
        lower=some(view.lower),
        upper=some(view.upper),
        confidence=some(view.confidence),
        epistemic=some(view.epistemic),
        aleatoric=some(view.aleatoric),
    )


def _confusion(view: _View, classes: int) -> tuple[tuple[int, ...], ...]:
    if not classes:
        return ()
    counts = torch.zeros(classes, classes, dtype=torch.long)
    ones = torch.ones(len(view.mean), dtype=torch.long)
    counts.index_put_((view.observed.long(), view.mean.long()), ones, accumulate=True)
    return tuple(tuple(row) for row in counts.tolist())


def _doubtful(case: HeldOutRows, view: _View) -> tuple[Doubtful, ...]:
    whole = view.epistemic + view.aleatoric
    share = view.epistemic / whole.clamp_min(1e-300)
    return doubtful_rows(
        view.doubt.numpy(), share.numpy(), view.predicted, view.answers, case.row, case.inputs, case.trained
    )
