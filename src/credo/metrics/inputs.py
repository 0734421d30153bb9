"""What a metric is given, brought into one shape: numbers as (B, D), class probabilities as (B, K), classes as (B,)."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from credo.core.arrays import check_finite, tensor
from credo.core.weights import example_weights
from credo.likelihoods import Bernoulli
from credo.predictive import ClassPredictive, JointPredictive, NumericPredictive, Predictive

ArrayLike = Any
"""A tensor, an array, or nested lists of numbers."""


Prediction = TypeVar("Prediction")


def elements(
    prediction: Prediction, y: ArrayLike, weights: ArrayLike | None = None
) -> tuple[Prediction | Predictive, ArrayLike, ArrayLike | None]:
    """A prediction with positions as one of rows, one for each position that was observed, with targets and weights.

    All others are what they are. A position weighs as much as its example.
    """
    if isinstance(prediction, JointPredictive):
        names = list(map(repr, prediction.heads))
        raise ValueError(
            f"there are several heads, {', '.join(names)}, and a metric is of one: give prediction[{names[0]}]"
        )
    if not isinstance(prediction, Predictive) or prediction.likelihood.event_axes == 1:
        return prediction, y, weights
    rows, targets, example = prediction.elements(y)
    if weights is None:
        return rows, targets, None
    return rows, targets, example_weights(weights, (len(prediction),)).to(example.device)[example]


def columns(values: ArrayLike, name: str) -> Tensor:
    """Numbers as (B, D) in float64; a single column may come as (B,)."""
    result = tensor(values, name).detach().double()
    if result.ndim == 1:
        result = result.unsqueeze(1)
    if result.ndim != 2 or result.numel() == 0:
        raise ValueError(f"{name} has shape {tuple(result.shape)}: it must be (B,) or (B, D) with at least one row")
    return result


def points_and_targets(prediction: Predictive | ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]:
    """Point predictions and what was observed, (B, D) each."""
    points = columns(prediction.mean if isinstance(prediction, Predictive) else prediction, "prediction")
    return points, targets_like(y, points)


def targets_like(y: ArrayLike, points: Tensor) -> Tensor:
    """What was observed, finite, in the shape (B, D) and on the device of the prediction."""
    targets = columns(y, "y").to(points.device)
    if targets.shape != points.shape:
        raise ValueError(
            f"y has shape {tuple(targets.shape)} and the prediction {tuple(points.shape)}: they must agree"
        )
    check_finite(targets)
    return targets


def numeric(prediction: Predictive, metric: str) -> NumericPredictive:
    """The prediction, if it is one of numbers."""
    if not isinstance(prediction, NumericPredictive):
        raise TypeError(f"{metric} needs a predictive distribution over numbers, got {type(prediction).__name__}")
    return prediction


def probabilities(prediction: Predictive | ArrayLike) -> Tensor:
    """Class probabilities (B, K) in float64; the probability of yes alone, (B,) or (B, 1), becomes (B, 2).

    D separate yes-or-no targets count as B * D decisions between two classes.
    """
    if isinstance(prediction, Predictive) and not isinstance(prediction, ClassPredictive):
        raise TypeError(f"this metric needs a predictive distribution over classes, got {type(prediction).__name__}")
    separate = isinstance(prediction, ClassPredictive) and isinstance(prediction.likelihood, Bernoulli)
    probs = columns(prediction.probs if isinstance(prediction, ClassPredictive) else prediction, "prediction")
    if separate or probs.shape[1] == 1:
        yes = probs.reshape(-1)
        probs = torch.stack([1.0 - yes, yes], dim=1)
    # float32 probabilities of many classes sum to one only to about 1e-4
    if not bool((probs >= -1e-4).all() and ((probs.sum(1) - 1.0).abs() < 1e-3).all()):
        raise ValueError("the prediction holds no probabilities: each row must be non-negative and sum to one")
    return probs


def classes_like(y: ArrayLike, probs: Tensor) -> Tensor:
    """The observed class numbers, (B,), for probabilities (B, K)."""
    classes = labels_like(y, probs)
    if int(classes.min()) < 0 or int(classes.max()) >= probs.shape[1]:
        raise ValueError(
            f"y holds class numbers from {int(classes.min())} to {int(classes.max())}, and the prediction has "
            f"{probs.shape[1]} classes: they must be 0 to {probs.shape[1] - 1}"
        )
    return classes


def labels_like(y: ArrayLike, rows: Tensor) -> Tensor:
    """The observed whole numbers, (B,), one for each of B rows and on their device."""
    labels = tensor(y, "y").to(rows.device).reshape(-1)
    if len(labels) != len(rows) or len(rows) == 0:
        raise ValueError(f"y has {len(labels)} classes and the prediction {len(rows)} rows: they must agree")
    check_finite(labels)
    if labels.is_floating_point() and not bool((labels == labels.round()).all()):
        raise ValueError("y holds fractions: it must hold class numbers 0, 1, 2, ...")
    return labels.long()


def scores(values: ArrayLike, name: str) -> Tensor:
    """One finite number per example, (B,) in float64."""
    result = tensor(values, name).detach().double()
    if result.ndim == 2 and result.shape[1] == 1:
        result = result.squeeze(1)
    if result.ndim != 1 or len(result) == 0:
        raise ValueError(f"{name} has shape {tuple(result.shape)}: it must be (B,) with at least one entry")
    if bool(torch.isnan(result).any()):
        raise ValueError(f"{name} has NaN values: they cannot be put in order")
    return result
