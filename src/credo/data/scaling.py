"""Means and standard deviations of the columns of a table, and what is left of a column without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from credo.core.moments import ColumnMoments

Floats = NDArray[np.float64]


def mean_and_scale(values: Any, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, computed around a value of the column itself.

    A column whose values differ by no more than rounding gets a scale of one, or of that rounding where it is more than
    one.

    Args:
        values: (N,) or (N, F).
        weights: how much each row counts, (N,), all above zero; None for one each.

    Examples:
        >>> mean, scale = mean_and_scale([2020.0, 2022.0])
        >>> float(mean), float(scale)
        (2021.0, 1.0)
        >>> mean, scale = mean_and_scale([2020.0, 2022.0], weights=np.array([3.0, 1.0]))
        >>> float(mean), round(float(scale), 4)
        (2020.5, 0.866)
    """
    x = np.array(values, dtype=np.float64)
    each = None if weights is None else torch.from_numpy(np.asarray(weights, dtype=np.float64))
    found = ColumnMoments.of(torch.from_numpy(x.reshape(len(x), -1)), each)
    return found.mean.numpy().reshape(x.shape[1:]), found.scale.numpy().reshape(x.shape[1:])


def standardized(values: Floats, mean: Any, scale: Any) -> Floats:
    """z = (x - mean) / scale, which may be as far from zero as float64 goes."""
    return np.asarray((values / 2.0 - mean / 2.0) / scale * 2.0)
