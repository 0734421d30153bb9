"""What each method answers for the held-out rows of a table, and how the answers are scored: the same for all.

A method for numbers gives a mean, and quantiles at twenty levels, the middles of twenty equal parts of (0, 1):

    tau_k = (k - 1/2) / 20,   interval at 95 % = [q(0.025), q(0.975)]
    CRPS = 2 / 20 sum_k (y - q_k) (tau_k - 1[y < q_k])
    interval score = (u - l) + 2 / 0.05 ((l - y)+ + (y - u)+)

The sum is the midpoint rule of the integral that the CRPS is. It asks nothing but quantiles, so it is the same
for methods that give a density and for those that do not.

References:
    T. Gneiting and A. Raftery, Strictly proper scoring rules, prediction, and estimation, JASA 102, 2007
    https://doi.org/10.1198/016214506000001437
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from credo.metrics import expected_calibration_error

Floats = NDArray[np.float64]
LEVELS: Floats = (np.arange(20) + 0.5) / 20
"""Of the quantiles; the first and the last are the ends of the interval at 95 %."""
MISS = 0.05
"""Part of the rows that may lie outside."""
LEAST_PROBABILITY = 1e-6
"""A smaller probability of a class is raised to this, whoever gave it: a single row cannot decide."""


@dataclass(frozen=True, eq=False)
class NumberAnswer:
    """Of the B held-out rows.

    Attributes:
        mean: (B,).
        quantiles: at `LEVELS`, (B, 20).
        log_likelihood: mean log predictive density of what was observed; None where the method has no density.
    """

    mean: Floats
    quantiles: Floats
    log_likelihood: float | None

    def scores(self, y: Floats) -> dict[str, float | None]:
        """All measures, against what was observed, (B,)."""
        quantiles = np.sort(self.quantiles, axis=1)  # quantiles that were fitted one by one can cross
        lower, upper = quantiles[:, 0], quantiles[:, -1]
        above = y[:, None] - quantiles
        outside = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
        return {
            "rmse": float(np.sqrt(np.mean((y - self.mean) ** 2))),
            "log_likelihood": self.log_likelihood,
            "crps": float(2 * np.mean(above * (LEVELS - (above < 0)))),
            "interval_score": float(np.mean(upper - lower + 2 / MISS * outside)),
            "coverage": float(np.mean((lower <= y) & (y <= upper))),
        }


@dataclass(frozen=True, eq=False)
class ClassAnswer:
    """Of the B held-out rows.

    Attributes:
        probabilities: (B, K), of the classes in alphabetical order.
    """

    probabilities: Floats

    def scores(self, y: NDArray[np.int64]) -> dict[str, float | None]:
        """All measures, against the class numbers that were observed, (B,)."""
        probabilities = np.maximum(self.probabilities, LEAST_PROBABILITY)
        probabilities = probabilities / probabilities.sum(axis=1, keepdims=True)
        observed = np.eye(probabilities.shape[1])[y]
        return {
            "accuracy": float(np.mean(probabilities.argmax(axis=1) == y)),
            "log_likelihood": float(np.mean(np.log(probabilities[np.arange(len(y)), y]))),
            "brier": float(np.mean(np.sum((probabilities - observed) ** 2, axis=1))),
            "calibration_error": expected_calibration_error(probabilities, y),
        }


Answer = NumberAnswer | ClassAnswer
