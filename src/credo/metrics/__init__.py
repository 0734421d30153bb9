"""Measures of predictions against what was observed.

One convention: a metric is called as `metric(prediction, y)`. The prediction is a `Predictive`, or the plain array that
the metric needs of it (points, probabilities, interval ends); y is what was observed. Arrays may be tensors, numpy
arrays or lists; (B,) and (B, 1) are the same. A metric is a float, averaged over examples (and over the targets of
an example), in float64; a curve is a frozen value of tensors with its summaries as properties. Where a Predictive has
positions (pixels, tokens), each position that was observed counts as an example. `weights=` says how much each example
counts, with all its positions: a weight of two is an example that comes twice.
"""

from credo.metrics.calibration import (
    CoverageCurve,
    ReliabilityCurve,
    coverage_curve,
    expected_calibration_error,
    pit,
    reliability_curve,
    reliability_of_scores,
)
from credo.metrics.classes import accuracy, brier
from credo.metrics.detection import aupr, false_positive_rate
from credo.metrics.points import coverage, log_likelihood, mae, rmse, sharpness
from credo.metrics.ranked_score import crps, crps_of_gaussian_mixture, pointwise_crps
from credo.metrics.ranking import RiskCoverage, auroc, risk_coverage, risk_coverage_of_losses

__all__ = [
    "CoverageCurve",
    "ReliabilityCurve",
    "RiskCoverage",
    "accuracy",
    "aupr",
    "auroc",
    "brier",
    "coverage",
    "coverage_curve",
    "crps",
    "crps_of_gaussian_mixture",
    "expected_calibration_error",
    "false_positive_rate",
    "log_likelihood",
    "mae",
    "pit",
    "pointwise_crps",
    "reliability_curve",
    "reliability_of_scores",
    "risk_coverage",
    "risk_coverage_of_losses",
    "rmse",
    "sharpness",
]
