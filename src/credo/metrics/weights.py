"""Averages over examples of which each counts as much as it weighs."""

from __future__ import annotations

import torch
from torch import Tensor

from credo.core.weights import example_weights
from credo.metrics.inputs import ArrayLike
from credo.predictive import Predictive


def weights_of_rows(
    weights: ArrayLike | None, prediction: Predictive | ArrayLike, rows: Tensor, name: str = "weights"
) -> Tensor | None:
    """Weights of the rows that a metric averages over, (R,) in float64; None where all count alike.

    Args:
        weights: one for each of B examples, or None.
        prediction: of the B examples, or anything else that is as long.
        rows: (R, ...), where R is B, or B times the number of decisions of an example, which share its weight.
        name: what a person calls the weights.
    """
    if weights is None:
        return None
    examples = len(prediction)
    each = example_weights(weights, (examples,), name).double().to(rows.device)
    return each.repeat_interleave(len(rows) // examples)


def average(values: Tensor, weights: Tensor | None) -> float:
    """sum_b w_b mean(values_b) / sum_b w_b of values (R, ...)."""
    values = values.double()
    if weights is None:
        return float(values.mean())
    counts = weights > 0  # what weighs nothing may be infinite
    each, weights = values.reshape(len(values), -1).mean(1)[counts], weights[counts]
    return float((each * weights).sum() / weights.sum())


def or_ones(weights: Tensor | None, rows: Tensor) -> Tensor:
    """The weights, or one for each of the rows."""
    return torch.ones(len(rows), dtype=torch.float64, device=rows.device) if weights is None else weights
