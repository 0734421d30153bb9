"""Weights of examples by their class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from credo.core.weights import check_weights, example_weights
from credo.likelihoods.positions import UNOBSERVED

BALANCED = "balanced"
"""All classes weigh the same."""
SHOWN = 10
"""Names that a sentence lists."""


def class_weights(
    y: Any, classes: str | Mapping[Any, float] = BALANCED, *, weights: Any = None, missing: int | None = UNOBSERVED
) -> Tensor:
    """Weights of examples by their class, for `fit(..., weights=...)`.

    balanced: w_n = v_n (sum_m v_m) / (K sum of v_m over the examples of the same class)

    so that each of K classes weighs the same and all together as much as before. The posterior then is that of a world
    in which classes are equally frequent: its probabilities are too high for classes that are rare in yours.

    Args:
        y: the class of each example, numbers or names, (N,).
        classes: "balanced", or the weight of each class by its name; classes that are not named weigh one.
        weights: v, what the examples weigh already, (N,); None for one each.
        missing: the number that stands for no class, whose examples weigh what they do; None where all are classes.

    Returns:
        Weights, (N,), in float64.

    Raises:
        ValueError: a class is named that y does not have, or a weight is no number from 0 on.

    Examples:
        >>> class_weights(["no", "no", "no", "yes"])
        tensor([0.6667, 0.6667, 0.6667, 2.0000], dtype=torch.float64)
        >>> class_weights([0, 0, 0, 1], {1: 5.0})
        tensor([1., 1., 1., 5.], dtype=torch.float64)
    """
    labels = _labels(y)
    found = torch.ones(len(labels), dtype=torch.float64)
    if weights is not None:
        found = example_weights(weights, (len(labels),)).double().cpu().clone()
    numeric = np.issubdtype(labels.dtype, np.number)
    known = labels != missing if numeric and missing is not None else np.ones(len(labels), dtype=bool)
    names, numbers = _classes_of(labels[known])
    place, there = torch.from_numpy(numbers), torch.from_numpy(known)
    balanced = isinstance(classes, str) and classes == BALANCED
    by_class = _balanced(len(names), place, found[there]) if balanced else _given(names, classes)
    found[there] *= by_class[place]
    check_weights(found, "class weights")
    return found


def _labels(y: Any) -> NDArray[Any]:
    """The class of each example, (N,)."""
    labels = np.asarray(y.detach().cpu().numpy() if isinstance(y, Tensor) else y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(f"y has shape {labels.shape}: class weights need one class for each example, (N,)")
    if np.issubdtype(labels.dtype, np.inexact) and not bool((labels == np.round(labels)).all()):
        raise ValueError("y holds fractions or NaN: class weights need classes, numbers 0, 1, 2, ... or names")
    return labels


def _classes_of(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes, and the number of each example's."""
    try:
        names, numbers = np.unique(labels, return_inverse=True)
    except TypeError:
        raise ValueError("y holds classes of several kinds, such as numbers among names: give one kind") from None
    return names, numbers.reshape(-1).astype(np.int64)


def _balanced(classes: int, place: Tensor, each: Tensor) -> Tensor:
    total = torch.zeros(classes, dtype=torch.float64).index_add_(0, place, each)
    there = total > 0
    return torch.where(there, each.sum() / (int(there.sum()) * total.clamp_min(torch.finfo(torch.float64).tiny)), 0.0)


def _given(names: NDArray[Any], classes: str | Mapping[Any, float]) -> Tensor:
    if not isinstance(classes, Mapping):
        raise ValueError(f"class weights must be {BALANCED!r}, or a dict such as {{'yes': 5.0}}, got {classes!r}")
    known = names.tolist()
    for name, weight in classes.items():
        if name not in known:
            listed = ", ".join(map(repr, known[:SHOWN])) + (" ..." if len(known) > SHOWN else "")
            raise ValueError(f"a weight is given for class {name!r}, which y does not have: its classes are {listed}")
        if not isinstance(weight, int | float | np.number) or not math.isfinite(weight) or weight < 0:
            raise ValueError(f"the weight of class {name!r} must be a finite number, 0 or more, got {weight!r}")
    return torch.tensor([float(classes.get(name, 1.0)) for name in known], dtype=torch.float64)
