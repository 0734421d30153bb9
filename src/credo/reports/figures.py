"""Figures of predictions: arrays in, axes out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from credo.reports.style import BLACK, BLUE, GRAY

Curve = tuple[str, ArrayLike]
"""A color, and values in the order of x."""


def predictive_band(
    axes: Axes,
    x: ArrayLike,
    mean: ArrayLike,
    stddev: ArrayLike,
    *,
    epistemic_stddev: ArrayLike | None = None,
    draws: ArrayLike | None = None,
    data: tuple[ArrayLike, ArrayLike] | None = None,
    truth: ArrayLike | None = None,
    color: str = BLUE,
) -> Axes:
    """A prediction over one input: the mean, two standard deviations around it, and single drawn functions.

    Args:
        axes: where to draw.
        x: inputs in ascending order, (B,).
        mean: E[y], (B,).
        stddev: standard deviation of y, (B,); the light band.
        epistemic_stddev: that of the drawn functions alone, (B,); the dark band.
        draws: a few drawn functions, (S, B).
        data: observed x and y, (N,) each.
        truth: the function behind the data, (B,).
        color: of the prediction.

    Returns:
        The same axes.
    """
    across, center = _flat(x), _flat(mean)
    _band(axes, across, center, _flat(stddev), color, 0.18, "±2 std. dev. of y, noise included")
    if epistemic_stddev is not None:
        _band(axes, across, center, _flat(epistemic_stddev), color, 0.28, "±2 std. dev. of the drawn functions")
    if draws is not None:
        for index, draw in enumerate(np.atleast_2d(np.asarray(draws))):
            label = "single drawn functions" if index == 0 else None
            axes.plot(across, draw, color=color, linewidth=0.9, alpha=0.9, label=label)
    if truth is not None:
        axes.plot(across, _flat(truth), color=BLACK, linewidth=1.2, linestyle=(0, (4, 2)), label="truth")
    axes.plot(across, center, color=color, linewidth=2.2, label="mean")
    if data is not None:
        axes.plot(*map(_flat, data), "o", color=BLACK, markersize=3.2, label="data", zorder=5)
    return axes


def _band(
    axes: Axes,
    x: NDArray[np.float64],
    center: NDArray[np.float64],
    stddev: NDArray[np.float64],
    color: str,
    alpha: float,
    label: str,
) -> None:
    axes.fill_between(x, center - 2 * stddev, center + 2 * stddev, color=color, alpha=alpha, linewidth=0, label=label)


def curves(axes: Axes, x: ArrayLike, named: Mapping[str, Curve]) -> Axes:
    """Several curves over the same inputs, distinguished by color and named at the side by a legend.

    Args:
        axes: where to draw.
        x: inputs, (B,).
        named: color and values (B,) by label.
    """
    for label, (color, values) in named.items():
        axes.plot(_flat(x), _flat(values), color=color, label=label)
    return axes


def repeated_curves(axes: Axes, x: ArrayLike, values: ArrayLike, *, color: str = BLUE) -> Axes:
    """One thin line per repetition, and their median as a thick one.

    Args:
        axes: where to draw.
        x: inputs, (B,).
        values: one row per repetition, (R, B).
        color: of all lines.
    """
    rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
    for index, row in enumerate(rows):
        axes.plot(_flat(x), row, color=color, linewidth=0.9, alpha=0.6, label="one run" if index == 0 else None)
    axes.plot(_flat(x), np.median(rows, axis=0), color=BLACK, label=f"median of {len(rows)} runs")
    return axes


def mark_data(axes: Axes, low: float, high: float) -> Axes:
    """Shade the range in which there are data."""
    axes.axvspan(low, high, color=GRAY, alpha=0.12, linewidth=0, zorder=0, label="where the data lie")
    return axes


def _flat(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64).reshape(-1)
