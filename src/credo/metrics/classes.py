"""How often the classes are right, and how good their probabilities are."""

from __future__ import annotations

import torch.nn.functional as F

from credo.core.arrays import tensor
from credo.metrics.inputs import ArrayLike, classes_like, elements, labels_like, probabilities
from credo.metrics.weights import average, weights_of_rows
from credo.predictive import Predictive


def accuracy(prediction: Predictive | ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """The part of the examples whose most probable class is the observed one.

    Args:
        prediction: a Predictive over classes, class probabilities (B, K), the probability of yes (B,), or class
            numbers (B,) of an integer type.
        y: observed class numbers, (B,).
        weights: how much each example counts, (B,); None for one each.
    """
    prediction, y, weights = elements(prediction, y, weights)
    if not isinstance(prediction, Predictive):
        given = tensor(prediction, "prediction")
        if not given.is_floating_point():
            labels = given.reshape(-1)
            return average(labels == labels_like(y, labels), weights_of_rows(weights, labels, labels))
    probs = probabilities(prediction)
    return average(probs.argmax(1) == classes_like(y, probs), weights_of_rows(weights, prediction, probs))


def brier(prediction: Predictive | ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None) -> float:
    """Mean squared distance of the probabilities from the observed class; 0 is best, 2 is worst.

    1/B sum_b sum_k (p_bk - [y_b = k])^2

    This is Brier's own definition, a sum over all classes; for two classes it is twice the squared error of the
    probability of yes.

    Args:
        prediction: a Predictive over classes, class probabilities (B, K), or the probability of yes (B,).
        y: observed class numbers, (B,).
        weights: how much each example counts, (B,); None for one each.

    Reference: G. W. Brier, "Verification of forecasts expressed in terms of probability", 1950,
        https://doi.org/10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2

    Examples:
        >>> brier([[1.0, 0.0], [0.5, 0.5]], [0, 1])
        0.25
    """
    prediction, y, weights = elements(prediction, y, weights)
    probs = probabilities(prediction)
    observed = F.one_hot(classes_like(y, probs), probs.shape[1])
    return average((probs - observed).square().sum(1), weights_of_rows(weights, prediction, probs))
