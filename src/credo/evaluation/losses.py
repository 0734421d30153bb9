"""The loss of each held-out row, by which models are compared."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from credo.predictive import ClassPredictive, Predictive


def row_losses(prediction: Predictive, y: Tensor) -> Tensor:
    """The squared error of each row, or its Brier score, (B,) in float64.

    Args:
        prediction: of numbers or classes.
        y: what was observed, (B,).
    """
    if isinstance(prediction, ClassPredictive):
        return brier_of_rows(prediction.probs, y)
    return (prediction.mean.double().reshape(-1) - y.double().reshape(-1)).square()


def brier_of_rows(probs: Tensor, y: Tensor) -> Tensor:
    """sum_k (p_bk - [y_b = k])^2 of each row, (B,) in float64.

    Examples:
        >>> brier_of_rows(torch.tensor([[0.75, 0.25]]), torch.tensor([0])).tolist()
        [0.125]
    """
    truth = torch.nn.functional.one_hot(y.long().reshape(-1), probs.shape[-1])
    return (probs.double() - truth).square().sum(-1)


def mean_and_error(values: Tensor, weights: Tensor | None = None) -> tuple[float, float]:
    """Mean over rows with its standard error, which is infinite for one row.

    Rows are drawn and weights are not: for equal weights it is the standard error of a mean.

    Args:
        values: of each row, (B,).
        weights: how much each row counts, (B,); None for one each.

    Examples:
        >>> mean_and_error(torch.tensor([1.0, 3.0]))
        (2.0, 1.0)
    """
    each = values.double()
    share = torch.full_like(each, 1.0 / len(each)) if weights is None else (weights / weights.sum()).to(each)
    mean = float((share * each).sum())
    if len(each) < 2:
        return mean, math.inf
    squares = float((share * (each - mean)).square().sum())
    return mean, math.sqrt(squares * len(each) / (len(each) - 1))


def beyond_chance(rows: int, z: float = 1.959964) -> float:
    """How many standard errors a mean of so many rows exceeds by chance once in twenty, on either side.

    The quantile of Student's t with rows - 1 degrees of freedom, by Fisher's expansion in their inverse; few rows need
    more than the 1.96 of many.

    Args:
        rows: behind the mean, at least 2.
        z: the quantile of the normal distribution.

    Examples:
        >>> round(beyond_chance(11), 3), round(beyond_chance(1001), 3)
        (2.228, 1.962)

    Reference: M. Abramowitz, I. Stegun, "Handbook of mathematical functions", 1964, 26.7.5.
    """
    n = max(rows - 1, 1)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n ** (k + 1) for k, term in enumerate(terms))
