"""The measures of a table, each for the posterior, for a single network, and for the answer that ignores the inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo import metrics
from credo.evaluation.losses import mean_and_error, row_losses
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
        of: gives the number, of a prediction, of what was observed and of the weights of the rows.
        better: "lower", "higher", or the number that it should be.
        rows: gives what the measure is the mean of, (B,), for its standard error; None where it is no mean.
        root: whether the measure is the root of that mean.
    """

    id: str
    title: str
    of: Callable[[Predictive, Tensor, Tensor | None], float]
    better: str | float
    rows: Callable[[Predictive, Tensor], Tensor] | None = None
    root: bool = False

    def error(self, prediction: Predictive, y: Tensor, weights: Tensor | None) -> float | None:
        """Standard error of the measure over rows; of a root by its derivative."""
        if self.rows is None:
            return None
        mean, error = mean_and_error(self.rows(prediction, y), weights)
        return _finite((error / (2.0 * math.sqrt(mean)) if mean > 0.0 else 0.0) if self.root else error)


def _of(metric: Callable[..., float]) -> Callable[[Predictive, Tensor, Tensor | None], float]:
    return lambda prediction, y, weights: metric(prediction, y, weights=weights)


def _absolute(prediction: Predictive, y: Tensor) -> Tensor:
    return row_losses(prediction, y).sqrt()


def _inside(prediction: Predictive, y: Tensor) -> Tensor:
    lower, upper = (end.double().reshape(-1) for end in _numeric(prediction).interval(LEVEL))
    observed = y.double().reshape(-1)
    return ((lower <= observed) & (observed <= upper)).double()


def _width(prediction: Predictive, y: Tensor) -> Tensor:
    lower, upper = _numeric(prediction).interval(LEVEL)
    return (upper - lower).double().reshape(-1)


def _numeric(prediction: Predictive) -> NumericPredictive:
    assert isinstance(prediction, NumericPredictive)
    return prediction


def _right(prediction: Predictive, y: Tensor) -> Tensor:
    assert isinstance(prediction, ClassPredictive)
    return (prediction.probs.argmax(-1) == y.reshape(-1)).double()


def _log_prob(prediction: Predictive, y: Tensor) -> Tensor:
    numeric = isinstance(prediction, NumericPredictive) and y.dim() == 1
    return prediction.log_prob(y.unsqueeze(1) if numeric else y)


OF_NUMBERS = (
    Measure("rmse", "root mean square error (typical error)", _of(metrics.rmse), "lower", row_losses, root=True),
    Measure("mae", "mean absolute error", _of(metrics.mae), "lower", _absolute),
    Measure(
        "coverage",
        "rows inside their 95 % interval",
        lambda p, y, w: metrics.coverage(p, y, LEVEL, weights=w),
        LEVEL,
        _inside,
    ),
    Measure(
        "sharpness",
        "mean width of the 95 % interval",
        lambda p, _, w: metrics.sharpness(p, LEVEL, weights=w),
        "lower",
        _width,
    ),
    Measure("crps", "continuous ranked probability score (CRPS)", _of(metrics.crps), "lower"),
    Measure("log_likelihood", "log likelihood per row", _of(metrics.log_likelihood), "higher", _log_prob),
)
OF_CLASSES = (
    Measure("accuracy", "rows with the right class (accuracy)", _of(metrics.accuracy), "higher", _right),
    Measure("calibration_error", "expected calibration error", _of(metrics.expected_calibration_error), "lower"),
    Measure("brier", "Brier score", _of(metrics.brier), "lower", row_losses),
    Measure("log_likelihood", "log likelihood per row", _of(metrics.log_likelihood), "higher", _log_prob),
)


def scores(
    prediction: Predictive, plain: Sequence[Predictive], naive: Predictive, y: Tensor, weights: Tensor | None = None
) -> tuple[Score, ...]:
    """All measures of a prediction, side by side.

    Args:
        prediction: of the posterior.
        plain: of single networks; empty where the posterior is one.
        naive: of the answer that ignores the inputs.
        y: what was observed.
        weights: how much each row counts, (B,); None for one each.
    """
    found = []
    for measure in OF_CLASSES if isinstance(prediction, ClassPredictive) else OF_NUMBERS:
        single = [measure.of(one, y, weights) for one in plain]
        mean = math.fsum(single) / len(single) if single else None
        model, ignorant = _finite(measure.of(prediction, y, weights)), _finite(measure.of(naive, y, weights))
        error = measure.error(prediction, y, weights)
        found.append(Score(measure.id, measure.title, model, _finite(mean), ignorant, measure.better, error))
    return tuple(found)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def naive_numbers(trained: Tensor, rows: int, weights: Tensor | None = None) -> NumericPredictive:
    """Always the mean of the training targets, with their standard deviation as the error bar.

    Args:
        trained: training targets, (N,).
        rows: how many rows to answer for.
        weights: how much each training row counts, (N,); None for one each.
    """
    values = trained.double().reshape(-1)
    mean, scale = values.mean(), values.std(correction=0)
    if weights is not None:
        share = weights / weights.sum()
        mean = mean + (share * (values - mean)).sum()
        scale = (share * (values - mean).square()).sum().sqrt()
    found = predictive(Gaussian(scale=float(scale)), mean.expand(1, rows, 1), {}, torch.zeros(1, dtype=torch.float64))
    assert isinstance(found, NumericPredictive)
    return found


def naive_classes(trained: Tensor, classes: int, rows: int, weights: Tensor | None = None) -> ClassPredictive:
    """Always the frequencies of the training classes, so that the answer is the most frequent one.

    Args:
        trained: training class numbers, (N,).
        classes: K.
        rows: how many rows to answer for.
        weights: how much each training row counts, (N,); None for one each.
    """
    counts = torch.bincount(trained.long().reshape(-1), weights, minlength=classes).double()
    logits = (counts / counts.sum()).log().expand(1, rows, classes)
    found = predictive(Categorical(), logits, {}, torch.zeros(1, dtype=torch.float64))
    assert isinstance(found, ClassPredictive)
    return found
