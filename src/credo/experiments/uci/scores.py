"""What a method reached on the splits of a set, and which of several candidates is the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import torch
from torch import Tensor

from credo.experiments.uci.problem import Splits
from credo.predictive import Predictive


@dataclass(frozen=True)
class SplitScores:
    """What one method reached on the splits of one set, in the units of the target.

    Attributes:
        rmse: root mean squared error of the predictive mean on each split.
        log_likelihood: mean log density of the test targets in nats on each split.
        seconds: training and prediction together.
    """

    rmse: list[float]
    log_likelihood: list[float]
    seconds: float

    @staticmethod
    def of(predictions: list[Predictive], splits: Splits, seconds: float) -> SplitScores:
        """The scores of one prediction per split. A density in standardized units is divided by the unit."""
        rmse, log_likelihood = [], []
        for prediction, y, unit in zip(predictions, splits.y_test, splits.unit, strict=True):
            rmse.append(float((prediction.mean.squeeze(1) - y).square().mean().sqrt() * unit))
            log_likelihood.append(float(prediction.log_prob(y).mean() - unit.log()))
        return SplitScores(rmse, log_likelihood, seconds)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean over splits and its standard error."""
    return fmean(values), stdev(values) / math.sqrt(len(values))


def best(scores: Tensor) -> int:
    """Which row of scores, (candidates, M), has the largest mean; one with a score that is no number is the worst."""
    means = scores.mean(1)
    return int(torch.where(means.isfinite(), means, -math.inf).argmax())
