"""One number that makes class probabilities neither too sure nor too timid."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from credo.calibration.base import CalibrationRows, Calibrator, Predictions, parts
from credo.core.checks import check_positive
from credo.likelihoods import Bernoulli, Categorical
from credo.predictive import ClassMixture, GaussianClassPredictive, OutputNormal, Predictive, gaussian_predictive

LOWEST, HIGHEST = math.log(1 / 64), math.log(64)
"""Between which log temperatures are sought."""
GRID, CUTS = 33, 25
"""Temperatures that are tried at first; how often the distance of the best two is cut by the golden section."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, eq=False)
class Temperature(Calibrator):
    """Temperature scaling: the logits of every drawn function are divided by one number.

    p(y | x) = sum_s w_s softmax(f_s(x) / T)_y,   T = argmax sum_i log p(y_i | x_i) + log N(log T; 0, 1)

    The number fits the mixture as a whole, so an ensemble that is too timid once its members are averaged gets a T
    below one. It changes no ranking within a draw, and leaves the split into draws as it is: entropy and mutual
    information are those of the calibrated draws. The normal density, worth one example, keeps T finite where
    all examples are right.

    Attributes:
        temperature: T; above one the predictions were too sure.

    Reference: C. Guo et al., "On calibration of modern neural networks", 2017, https://arxiv.org/abs/1706.04599; for
        ensembles R. Rahaman, A. H. Thiery, "Uncertainty quantification and deep ensembles", 2021,
        https://arxiv.org/abs/2007.08792
    """

    temperature: float

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)

    @staticmethod
    def of(predictions: Predictions, y: Any, *, weights: Any = None) -> Temperature:
        """From predictions for examples that were not learned from.

        Args:
            predictions: of the posterior; or a list of those of several folds, for the rows that each has not seen.
            y: classes, (B,) or (B, D), or at positions; of several predictions a list.
            weights: how much each example counts, (B,), likewise; None for one each.

        Examples:
            >>> import torch, credo
            >>> x = torch.linspace(-1, 1, 80)[:, None]
            >>> y = (x[:, 0] + 0.3 * credo.Stream(0).normal(80) > 0).long()
            >>> posterior = credo.fit(credo.nets.MLP(1, 2), (x[::2], y[::2]), credo.MAP(epochs=50))
            >>> calibrator = Temperature.of(posterior.predict(x[1::2]), y[1::2])
            >>> calibrated = credo.Calibrated.of(posterior, calibrator)
        """
        given = parts(predictions, y, weights)

        def cost(log_temperature: float) -> float:
            scaled = Temperature(math.exp(log_temperature))
            return 0.5 * log_temperature**2 - sum(_log_likelihood(scaled, part) for part in given)

        return Temperature(math.exp(_minimum(cost)))

    def extrapolated(self, before: Temperature, steps: float) -> Temperature:
        """The temperature that comes `steps` of the way from `before` to this one further on, in logarithms.

        Examples:
            >>> Temperature(2.0).extrapolated(Temperature(4.0), 1.0).temperature
            1.0
        """
        return Temperature(self.temperature * (self.temperature / before.temperature) ** steps)

    def apply(self, prediction: Predictive) -> Predictive:
        likelihood = prediction.likelihood
        if getattr(prediction, "conformal", None) is not None:
            raise ValueError("a temperature comes before conformal sets, which would lose their guarantee")
        if type(getattr(likelihood, "base", likelihood)) not in (Categorical, Bernoulli):
            raise TypeError(
                f"a temperature is for logits of classes, and the predictions are by {likelihood}: it knows "
                "likelihoods.Categorical and likelihoods.Bernoulli; for numbers use CdfMap"
            )
        if isinstance(prediction, GaussianClassPredictive):
            normal = prediction.outputs
            square = self.temperature**2
            joint = None if normal.joint is None else normal.joint / square
            cooled = OutputNormal(normal.mean / self.temperature, normal.covariance / square, joint)
            return gaussian_predictive(likelihood, cooled, {}, prediction.log_weights, prediction.approximation)
        if type(prediction) is not ClassMixture:
            raise TypeError(f"a temperature is for drawn functions or normal outputs, got {type(prediction).__name__}")
        return replace(prediction, draws=prediction.draws / self.temperature)


def _log_likelihood(calibrator: Temperature, part: CalibrationRows) -> float:
    each: Tensor = calibrator.apply(part.prediction).log_prob(part.y)
    return float((each.double() * part.weights).sum())


def _minimum(cost: Callable[[float], float]) -> float:
    """Where a function of log T is smallest: the best of a grid, then the golden section around it."""
    grid = torch.linspace(LOWEST, HIGHEST, GRID, dtype=torch.float64).tolist()
    values = [cost(t) for t in grid]
    if not all(map(math.isfinite, values)):
        raise ValueError(
            "the predictions give an observed class no probability at any temperature: they are not finite"
        )
    best = min(range(GRID), key=values.__getitem__)
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
    for _ in range(CUTS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if cost(left) <= cost(right):
            high = right
        else:
            low = left
    return 0.5 * (low + high)
