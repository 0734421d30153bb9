"""Sets of classes that hold the right one as often as they promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from credo.calibration.base import Calibrator, Predictions, parts
from credo.calibration.ranks import check_scores, guaranteed, in_order, rounded
from credo.core.checks import check_between, check_not_negative
from credo.predictive import ClassPredictive, Predictive


@dataclass(frozen=True, eq=False)
class ConformalSets(Calibrator):
    """Sets of classes that hold the right one with at least the stated probability, whatever the network has learned.

    set(level) = {c : score(x, c) <= s_k} and the most probable class,   k = ceil((n + 1) level)

    with s_k the k-th smallest score of the right class among n examples. Plain sets have score 1 - p_c: the smallest
    sets on average. Adaptive ones add up the classes that are at least as probable,

    score(x, c) = sum of p over classes up to c + penalty max(0, rank_c - free)

    which are larger for difficult inputs and smaller for easy ones, and so hold the right class more evenly. If the n
    examples and a new one are exchangeable, and the posterior has not seen them, the set of any one level holds the new
    label with a probability of at least `level`, on average over inputs. All classes are in it above level n / (n + 1).
    Where outputs have positions, what is promised is the part of a new example's positions that are held, as in
    `ConformalIntervals`, which says what holds for predictions of several folds too. Probabilities stay as they are:
    `prediction.prediction_set(level)` gives the sets.

    Attributes:
        scores: of the right class of n examples, sorted, (n, 1).
        weights: what each of them counts, (n, 1).
        adaptive: whether sets adapt to the input.
        penalty: of each further class in adaptive sets.
        free: how many classes have none.

    Reference: M. Sadinle, J. Lei, L. Wasserman, "Least ambiguous set-valued classifiers with bounded error levels",
        2019, https://arxiv.org/abs/1609.00451; Y. Romano, M. Sesia, E. Candès, "Classification with valid and adaptive
        coverage", 2020, https://arxiv.org/abs/2006.02544; A. Angelopoulos et al., "Uncertainty sets for image
        classifiers using conformal prediction", 2021, https://arxiv.org/abs/2009.14193
    """

    scores: Tensor
    weights: Tensor
    adaptive: bool = False
    penalty: float = 0.0
    free: int = 1

    def __post_init__(self) -> None:
        check_scores("ConformalSets", self.scores, self.weights)
        check_not_negative("penalty", self.penalty)
        if not isinstance(self.adaptive, bool) or not isinstance(self.free, int) or self.free < 0:
            raise ValueError("adaptive must be True or False, and free a whole number of classes")

    @staticmethod
    def of(
        predictions: Predictions,
        y: Any,
        *,
        adaptive: bool = False,
        penalty: float = 0.0,
        free: int = 1,
        weights: Any = None,
    ) -> ConformalSets:
        """From predictions for examples that were not learned from.

        Args:
            predictions: of the posterior; or a list of those of several folds.
            y: class numbers, (B,), or at positions; of several predictions a list.
            adaptive: whether sets adapt to the input.
            penalty: of each further class in adaptive sets; some hundredths keep sets of many classes small.
            free: how many classes have none.
            weights: how much each example counts, (B,), likewise; a weight of two is a repeated example.

        Examples:
            >>> import torch, credo
            >>> x = torch.linspace(-1, 1, 80)[:, None]
            >>> y = (x[:, 0] + 0.3 * credo.Stream(0).normal(80) > 0).long()
            >>> posterior = credo.fit(credo.nets.MLP(1, 2), (x[::2], y[::2]), credo.MAP(epochs=50))
            >>> calibrator = ConformalSets.of(posterior.predict(x[1::2]), y[1::2])
            >>> credo.Calibrated.of(posterior, calibrator).predict(x).prediction_set(0.9).shape
            torch.Size([80, 2])
        """
        empty = torch.zeros(1, 1, dtype=torch.float64)
        rule = ConformalSets(empty, empty + 1.0, adaptive, penalty, free)
        scores, each = [], []
        for part in parts(predictions, y, weights):
            every = rule.score(_classes(part.prediction).probs)
            scores.append(every.gather(1, part.y.unsqueeze(1)))
            each.append(part.shares)
        ordered, counts = rounded(*in_order(torch.cat(scores), torch.cat(each)))
        return replace(rule, scores=ordered, weights=counts)

    @property
    def highest_level(self) -> float:
        """n / (n + 1): the highest level at which a set need not hold all classes."""
        total = float(self.weights.sum())
        return total / (total + 1.0)

    def score(self, probs: Tensor) -> Tensor:
        """How little each class fits, (B, K) in float64."""
        exact = probs.double()
        if not self.adaptive:
            return 1.0 - exact
        ordered = exact.sort(dim=-1, descending=True, stable=True)
        rank = torch.arange(1, exact.shape[-1] + 1, dtype=exact.dtype, device=exact.device)
        each = ordered.values.cumsum(-1) + self.penalty * (rank - self.free).clamp_min(0.0)
        return torch.zeros_like(each).scatter(-1, ordered.indices, each)

    def includes(self, probs: Tensor, level: float) -> Tensor:
        """Which classes belong to the set of this level, (B, K), given their probabilities."""
        check_between("level", level)
        found = guaranteed(self.scores, self.weights, level).to(probs.device)
        most_probable = torch.zeros_like(probs, dtype=torch.bool).scatter(-1, probs.argmax(-1, keepdim=True), True)
        return (self.score(probs) <= found) | most_probable

    def apply(self, prediction: Predictive) -> Predictive:
        return replace(_classes(prediction), conformal=self)


def _classes(prediction: Predictive) -> ClassPredictive:
    if not isinstance(prediction, ClassPredictive):
        raise TypeError(f"ConformalSets is for classes, got a {type(prediction).__name__}: use ConformalIntervals")
    if not prediction.likelihood.exclusive:
        raise ValueError("ConformalSets is for one of K classes: these targets are separate yes-or-no answers")
    return prediction
