"""The measures of a table, each for the posterior, for a single network, and for the answer that ignores the inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo import metrics
from credo.evaluation.values import Score
from credo.likelihoods import Categorical, Gaussian
from credo.predictive import ClassPredictive, NumericPredictive, Predictive, predictive

LEVEL = 0.95
"""Of the intervals that are judged."""


@dataclass(frozen=True)
class Measure:
    """A metric as a table shows it.

    Attributes:
        id: its name.
        title: in plain words.
        of: gives the number.
        better: "lower", "higher", or the number that it should be.
    """

    id: str
    title: str
    of: Callable[[Predictive, Tensor], float]
    better: str | float


OF_NUMBERS = (
    Measure("rmse", "typical error (root mean square)", metrics.rmse, "lower"),
    Measure("mae", "mean absolute error", metrics.mae, "lower"),
    Measure("coverage", "rows inside their 95 % interval", lambda p, y: metrics.coverage(p, y, LEVEL), LEVEL),
    Measure("sharpness", "mean width of the 95 % interval", lambda p, y: metrics.sharpness(p, LEVEL), "lower"),
    Measure("crps", "continuous ranked probability score", metrics.crps, "lower"),
    Measure("log_likelihood", "log likelihood per row", metrics.log_likelihood, "higher"),
)
OF_CLASSES = (
    Measure("accuracy", "rows with the right class", metrics.accuracy, "higher"),
    Measure("calibration_error", "expected calibration error", metrics.expected_calibration_error, "lower"),
    Measure("brier", "Brier score", metrics.brier, "lower"),
    Measure("log_likelihood", "log likelihood per row", metrics.log_likelihood, "higher"),
)


def scores(prediction: Predictive, plain: Sequence[Predictive], naive: Predictive, y: Tensor) -> tuple[Score, ...]:
    """All measures of a prediction, side by side.

    Args:
        prediction: of the posterior.
        plain: of single networks; empty where the posterior is one.
        naive: of the answer that ignores the inputs.
        y: what was observed.
    """
    found = []
    for measure in OF_CLASSES if isinstance(prediction, ClassPredictive) else OF_NUMBERS:
        single = [measure.of(one, y) for one in plain]
        mean = math.fsum(single) / len(single) if single else None
        model, ignorant = _finite(measure.of(prediction, y)), _finite(measure.of(naive, y))
        found.append(Score(measure.id, measure.title, model, _finite(mean), ignorant, measure.better))
    return tuple(found)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def naive_numbers(trained: Tensor, rows: int) -> NumericPredictive:
    """Always the mean of the training targets, with their standard deviation as the error bar.

    Args:
        trained: training targets, (N,).
        rows: how many rows to answer for.
    """
    values = trained.double().reshape(-1)
    draws = values.mean().expand(1, rows, 1)
    found = predictive(Gaussian(scale=float(values.std(correction=0))), draws, {}, torch.zeros(1, dtype=torch.float64))
    assert isinstance(found, NumericPredictive)
    return found


def naive_classes(trained: Tensor, classes: int, rows: int) -> ClassPredictive:
    """Always the frequencies of the training classes, so that the answer is the most frequent one.

    Args:
        trained: training class numbers, (N,).
        classes: K.
        rows: how many rows to answer for.
    """
    counts = torch.bincount(trained.long().reshape(-1), minlength=classes).double()
    logits = (counts / counts.sum()).log().expand(1, rows, classes)
    found = predictive(Categorical(), logits, {}, torch.zeros(1, dtype=torch.float64))
    assert isinstance(found, ClassPredictive)
    return found
