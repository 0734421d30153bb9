"""How far the point predictions are off, how probable the truth was, and how often intervals hold it."""

from __future__ import annotations

import math

from torch import Tensor

from credo.metrics.inputs import (
    ArrayLike,
    classes_like,
    columns,
    elements,
    numeric,
    points_and_targets,
    probabilities,
    targets_like,
)
from credo.metrics.weights import average, weights_of_rows
from credo.predictive import Predictive

Interval = tuple[ArrayLike, ArrayLike]
"""Lower and upper ends, (B, D) each."""


def rmse(prediction: Predictive | ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Root of the mean squared error of the predictive mean, over all examples and targets.

    sqrt( 1/B sum_b (mean_b - y_b)^2 )

    Args:
        prediction: a Predictive, or point predictions (B,) or (B, D).
        y: what was observed, in the same shape.
        weights: how much each example counts, (B,); None for one each.

    Examples:
        >>> round(rmse([1.0, 2.0], [1.0, 4.0]), 6)
        1.414214
    """
    prediction, y, weights = elements(prediction, y, weights)
    points, targets = points_and_targets(prediction, y)
    each = weights_of_rows(weights, points, points)
    return math.sqrt(average((points - targets).square(), each))


def mae(prediction: Predictive | ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Mean absolute error of the predictive mean, over all examples and targets.

    Args:
        prediction: a Predictive, or point predictions (B,) or (B, D).
        y: what was observed, in the same shape.
        weights: how much each example counts, (B,); None for one each.
    """
    prediction, y, weights = elements(prediction, y, weights)
    points, targets = points_and_targets(prediction, y)
    return average((points - targets).abs(), weights_of_rows(weights, points, points))


def log_likelihood(prediction: Predictive | ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Mean log predictive density (or probability) of what was observed, in nats per example.

    1/B sum_b log sum_s w_s p(y_b | f_s(x_b))

    Args:
        prediction: a Predictive, or class probabilities (B, K).
        y: what was observed; several targets of one example count with their joint density.
        weights: how much each example counts, (B,); None for one each.
    """
    prediction, y, weights = elements(prediction, y, weights)
    if isinstance(prediction, Predictive):
        log_probs = prediction.log_prob(y)
        return average(log_probs, weights_of_rows(weights, log_probs, log_probs))
    probs = probabilities(prediction)
    log_probs = probs.gather(1, classes_like(y, probs).unsqueeze(1)).log()
    return average(log_probs, weights_of_rows(weights, probs, probs))


def coverage(
    prediction: Predictive | Interval, y: ArrayLike, level: float = 0.95, *, weights: ArrayLike | None = None
) -> float:
    """The part of the observations that lie inside their intervals, ends included; it should be `level`.

    Args:
        prediction: a Predictive over numbers, or the pair (lower, upper) of interval ends.
        y: what was observed, (B,) or (B, D).
        level: of the Predictive's equal-tailed intervals; without meaning for a pair.
        weights: how much each example counts, (B,); None for one each.
    """
    prediction, y, weights = elements(prediction, y, weights)
    lower, upper = _ends(prediction, level)
    targets = targets_like(y, lower)
    return average((lower <= targets) & (targets <= upper), weights_of_rows(weights, lower, lower))


def sharpness(prediction: Predictive | Interval, level: float = 0.95, *, weights: ArrayLike | None = None) -> float:
    """Mean width of the intervals, in units of y: among calibrated predictions the narrower is the better.

    Args:
        prediction: a Predictive over numbers, or the pair (lower, upper) of interval ends.
        level: of the Predictive's equal-tailed intervals; without meaning for a pair.
        weights: how much each example counts, (B,); None for one each.

    Reference: T. Gneiting, F. Balabdaoui, A. E. Raftery, "Probabilistic forecasts, calibration and sharpness", 2007,
        https://doi.org/10.1111/j.1467-9868.2007.00587.x
    """
    lower, upper = _ends(prediction, level)
    examples = prediction if isinstance(prediction, Predictive) else lower  # each with all its positions
    return average(upper - lower, weights_of_rows(weights, examples, lower))


def _ends(prediction: Predictive | Interval, level: float) -> tuple[Tensor, Tensor]:
    if isinstance(prediction, Predictive):
        prediction = numeric(prediction.rows(), "an interval").interval(level)
    lower, upper = columns(prediction[0], "lower"), columns(prediction[1], "upper")
    if lower.shape != upper.shape:
        raise ValueError(f"lower has shape {tuple(lower.shape)} and upper {tuple(upper.shape)}: they must agree")
    return lower, upper
