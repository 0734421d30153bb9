"""The protocol of the UCI regression tables: standard splits, standardised columns, scores in the target's units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import torch
from torch import Tensor

from credo.data.sets import DataSet
from credo.predictive import Predictive

NAMES = ("boston", "concrete", "energy", "kin8nm", "naval", "power-plant", "protein", "wine-quality-red", "yacht")
"""The nine sets, as the literature lists them."""


@dataclass(frozen=True)
class Splits:
    """All splits of a set at once, standardised by their own training rows.

    Attributes:
        x: training inputs, (M, N, F).
        y: training targets, (M, N).
        x_test: test inputs, (M, T, F).
        y_test: test targets, (M, T).
        unit: standard deviation of each split's training targets, (M,): scores times this are in the target's units.
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    unit: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def held_out(self, fraction: float) -> Splits:
        """The training rows alone, cut again: the last part of each split's (shuffled) rows for validation."""
        cut = round(self.x.shape[1] * (1 - fraction))
        return Splits(self.x[:, :cut], self.y[:, :cut], self.x[:, cut:], self.y[:, cut:], self.unit)


def splits_of(data: DataSet) -> Splits:
    """The set's own splits. A column that is constant in the training rows becomes zero."""
    x, y = torch.as_tensor(data.x, dtype=torch.float64), torch.as_tensor(data.y, dtype=torch.float64)
    parts = [_standardised(x, y, torch.as_tensor(s.train), torch.as_tensor(s.test)) for s in data.splits]
    x_train, y_train, x_test, y_test, unit = (torch.stack(column) for column in zip(*parts, strict=True))
    return Splits(x_train.float(), y_train.float(), x_test.float(), y_test.float(), unit)


def _standardised(x: Tensor, y: Tensor, train: Tensor, test: Tensor) -> tuple[Tensor, ...]:
    centre, spread = x[train].mean(0), x[train].std(0, correction=0)
    spread = torch.where(spread > 0, spread, 1.0)
    middle, unit = y[train].mean(), y[train].std(correction=0)
    scaled = (x - centre) / spread, (y - middle) / unit
    return scaled[0][train], scaled[1][train], scaled[0][test], scaled[1][test], unit


@dataclass(frozen=True)
class Scores:
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
    def of(predictions: list[Predictive], splits: Splits, seconds: float) -> Scores:
        """The scores of one prediction per split. A density in standardised units is divided by the unit."""
        rmse, log_likelihood = [], []
        for prediction, y, unit in zip(predictions, splits.y_test, splits.unit, strict=True):
            rmse.append(float((prediction.mean.squeeze(1) - y).square().mean().sqrt() * unit))
            log_likelihood.append(float(prediction.log_prob(y).mean() - unit.log()))
        return Scores(rmse, log_likelihood, seconds)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean over splits and its standard error."""
    return fmean(values), stdev(values) / math.sqrt(len(values))
