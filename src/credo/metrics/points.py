"""How far the point predictions are off, how probable the truth was, and how often intervals hold it."""

from __future__ import annotations

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
from credo.predictive import Predictive

Interval = tuple[ArrayLike, ArrayLike]
"""Lower and upper ends, (B, D) each."""


def rmse(prediction: Predictive | ArrayLike, y: ArrayLike) -> float:
    """Root of the mean squared error of the predictive mean, over all examples and targets.

    sqrt( 1/B sum_b (mean_b - y_b)^2 )

    Args:
        prediction: a Predictive, or point predictions (B,) or (B, D).
        y: what was observed, in the same shape.

    Examples:
        >>> round(rmse([1.0, 2.0], [1.0, 4.0]), 6)
        1.414214
    """
    prediction, y, _ = elements(prediction, y)
    points, targets = points_and_targets(prediction, y)
    return float((points - targets).square().mean().sqrt())


def mae(prediction: Predictive | ArrayLike, y: ArrayLike) -> float:
    """Mean absolute error of the predictive mean, over all examples and targets.

    Args:
        prediction: a Predictive, or point predictions (B,) or (B, D).
        y: what was observed, in the same shape.
    """
    prediction, y, _ = elements(prediction, y)
    points, targets = points_and_targets(prediction, y)
    return float((points - targets).abs().mean())


def log_likelihood(prediction: Predictive | ArrayLike, y: ArrayLike) -> float:
    """Mean log predictive density (or probability) of what was observed, in nats per example.

    1/B sum_b log sum_s w_s p(y_b | f_s(x_b))

    Args:
        prediction: a Predictive, or class probabilities (B, K).
        y: what was observed; several targets of one example count with their joint density.
    """
    prediction, y, _ = elements(prediction, y)
    if isinstance(prediction, Predictive):
        return float(prediction.log_prob(y).double().mean())
    probs = probabilities(prediction)
    return float(probs.gather(1, classes_like(y, probs).unsqueeze(1)).log().mean())


def coverage(prediction: Predictive | Interval, y: ArrayLike, level: float = 0.95) -> float:
    """The part of the observations that lie inside their intervals, ends included; it should be `level`.

    Args:
        prediction: a Predictive over numbers, or the pair (lower, upper) of interval ends.
        y: what was observed, (B,) or (B, D).
        level: of the Predictive's equal-tailed intervals; without meaning for a pair.
    """
    prediction, y, _ = elements(prediction, y)
    lower, upper = _ends(prediction, level)
    targets = targets_like(y, lower)
    return float(((lower <= targets) & (targets <= upper)).double().mean())


def sharpness(prediction: Predictive | Interval, level: float = 0.95) -> float:
    """Mean width of the intervals, in units of y: among calibrated predictions the narrower is the better.

    Args:
        prediction: a Predictive over numbers, or the pair (lower, upper) of interval ends.
        level: of the Predictive's equal-tailed intervals; without meaning for a pair.

    Reference: T. Gneiting, F. Balabdaoui, A. E. Raftery, "Probabilistic forecasts, calibration and sharpness", 2007,
        https://doi.org/10.1111/j.1467-9868.2007.00587.x
    """
    lower, upper = _ends(prediction, level)
    return float((upper - lower).mean())


def _ends(prediction: Predictive | Interval, level: float) -> tuple[Tensor, Tensor]:
    if isinstance(prediction, Predictive):
        prediction = numeric(prediction.rows(), "an interval").interval(level)
    lower, upper = columns(prediction[0], "lower"), columns(prediction[1], "upper")
    if lower.shape != upper.shape:
        raise ValueError(f"lower has shape {tuple(lower.shape)} and upper {tuple(upper.shape)}: they must agree")
    return lower, upper
