"""Means and standard deviations that are right wherever the numbers lie."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ROUNDING = 8
"""Units in the last place of the largest number: values no further apart than that differ by rounding alone."""


def mean_and_scale(values: Any) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, computed around the column's first value.

    mean = x_1 + mean(x - x_1),  scale^2 = mean((x - mean)^2)

    so that a clock that shows 1.7e18 nanoseconds and moves by a millisecond has a spread, and a constant column has
    none. A column whose values differ by no more than rounding gets a scale of one, or of that rounding where it is
    more than one.

    Args:
        values: (N,) or (N, F).

    Examples:
        >>> mean, scale = mean_and_scale([2020.0, 2022.0])
        >>> float(mean), float(scale)
        (2021.0, 1.0)
    """
    x = np.asarray(values, dtype=np.float64)
    largest = np.abs(x).max(0, initial=0.0)
    # a power of two changes no digit, and keeps squares of huge and tiny numbers within float64
    unit = np.ldexp(1.0, np.clip(np.frexp(largest)[1], -1000, 1000))
    offset = x / unit - x[0] / unit
    center = offset.mean(0)
    spread = np.sqrt(np.square(offset - center).mean(0)) * unit
    mean = (x[0] / unit + center) * unit
    rounding = ROUNDING * np.spacing(largest)
    constant = (np.ptp(offset, axis=0) <= rounding / unit) | (spread == 0.0)
    return mean, np.where(constant, np.maximum(rounding, 1.0), spread)


def standardized(values: Floats, mean: Any, scale: Any) -> Floats:
    """z = (x - mean) / scale, which may be as far from zero as float64 goes."""
    return np.asarray((values / 2.0 - mean / 2.0) / scale * 2.0)
