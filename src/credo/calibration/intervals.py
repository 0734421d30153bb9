"""Intervals that hold what they promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from credo.calibration.base import Calibrator, Predictions, parts
from credo.calibration.ranks import check_scores, guaranteed, in_order, rounded
from credo.core.checks import check_between
from credo.predictive import NumericPredictive, Predictive

STRICTLY = 1e-9
"""By how much a normal score must exceed that of the whole number below, since F(y - 1) < b is strict."""


@dataclass(frozen=True, eq=False)
class ConformalIntervals(Calibrator):
    """Intervals of numbers that hold at least the stated part of new targets, whatever the network has learned.

    interval(level) = [Q(Phi(-s_k)), Q(Phi(s_k))],   s_k the k-th smallest |Phi^-1(F_i(y_i))|,   k = ceil((n + 1) level)

    Q and F are the posterior's own quantiles and distribution function, so an interval stays wide where the posterior
    is in doubt. If the n examples and a new one are exchangeable, and the posterior has not seen them, the interval of
    any one level holds the new target with a probability of at least `level`, and of at most level + 1 / (n + 1) where
    F is continuous. The promise is one on average over inputs, not at each of them. Above level n / (n + 1) no finite
    interval could promise it: there it is the prediction's own interval, or the widest with a guarantee if that is
    wider. Means, variances and densities stay as they are; `quantile` gives the ends of the intervals.

    Where outputs have positions, an example counts once, and its positions share its weight: what is promised is the
    part of the positions of a new example that are held, on average over examples. Positions of an example may depend
    on each other as they like. Of very many scores 50,000 are kept, each the largest of its run.

    With predictions of several folds, each for rows that it has not seen, coverage is near `level` in practice, but the
    promise needs care: 1 - 2 (1 - level) belongs to the intervals of cross-validation+, which join those of the fold
    models themselves, and none to a posterior that was fitted again on all rows.

    Attributes:
        scores: |Phi^-1(F_i(y_i))| of n examples for each of D targets, sorted, (n, D).
        weights: what each of them counts, (n, D).

    Reference: V. Chernozhukov, K. Wüthrich, Y. Zhu, "Distributional conformal prediction", 2021,
        https://arxiv.org/abs/1909.07889; R. F. Barber et al., "Predictive inference with the jackknife+", 2021,
        https://arxiv.org/abs/1905.02928; for positions Y. Lee, R. F. Barber, R. Willett, "Distribution-free inference
        with hierarchical data", 2023, https://arxiv.org/abs/2306.06342
    """

    scores: Tensor
    weights: Tensor

    def __post_init__(self) -> None:
        check_scores("ConformalIntervals", self.scores, self.weights)

    @staticmethod
    def of(predictions: Predictions, y: Any, *, weights: Any = None) -> ConformalIntervals:
        """From predictions for examples that were not learned from.

        Args:
            predictions: of the posterior; or a list of those of several folds. Where a `CdfMap` comes first, those that
                it gives, for other examples than it was made of.
            y: what was observed, (B,) or (B, D), or at positions; of several predictions a list.
            weights: how much each example counts, (B,), likewise; a weight of two is a repeated example.

        Examples:
            >>> import torch, credo
            >>> x = torch.linspace(-1, 1, 80)[:, None]
            >>> y = x + 0.1 * credo.Stream(0).normal(80, 1)
            >>> posterior = credo.fit(credo.nets.MLP(1, 1), (x[::2], y[::2]), credo.MAP(epochs=50))
            >>> calibrator = ConformalIntervals.of(posterior.predict(x[1::2]), y[1::2])
            >>> lower, upper = credo.Calibrated.of(posterior, calibrator).predict(x).interval(0.9)
        """
        scores, each = [], []
        for part in parts(predictions, y, weights):
            prediction = numbers(part.prediction, "ConformalIntervals")
            scores.append(ranked_scores(prediction, part.y).abs())
            each.append(part.shares)
        return ConformalIntervals(*rounded(*in_order(torch.cat(scores), torch.cat(each))))

    @property
    def highest_level(self) -> float:
        """n / (n + 1): the highest level with a guarantee."""
        total = float(self.weights[:, 0].sum())
        return total / (total + 1.0)

    def reach(self, level: float) -> Tensor:
        """How far an interval of this level reaches, in normal scores, (D,)."""
        level = float(level)  # one of numpy's makes tensors of numbers where these hold yes and no
        if level <= 0.0:
            return self.scores.new_zeros(self.scores.shape[1])
        check_between("level", level)
        stated = torch.special.ndtri(self.scores.new_tensor(0.5 + 0.5 * level))
        found = guaranteed(self.scores, self.weights, level)
        return torch.where(found.isinf() & (level > self.highest_level), stated.maximum(self.scores[-1]), found)

    def apply(self, prediction: Predictive) -> Predictive:
        return replace(numbers(prediction, "ConformalIntervals"), conformal=self)


def ranked_scores(prediction: NumericPredictive, y: Tensor) -> Tensor:
    """Normal scores (B, D) of targets: of counts the one that is farther from the median, so that a set holds them all.

    An interval [Q(a), Q(b)] of whole numbers holds y when F(y) >= a and F(y - 1) < b.
    """
    at = prediction.normal_score(y)
    if not prediction.likelihood.discrete:
        return at
    below = prediction.normal_score(y - 1.0)
    return torch.where(at < 0.0, at, torch.where(below > 0.0, below + STRICTLY, 0.0))


def numbers(prediction: Predictive, name: str) -> NumericPredictive:
    """The prediction, if it is one of numbers."""
    if not isinstance(prediction, NumericPredictive):
        raise TypeError(f"{name} is for numbers, got a {type(prediction).__name__}: of classes use ConformalSets")
    return prediction
