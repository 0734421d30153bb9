"""What the methods believe, beside the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray
from torch import Tensor

from credo.experiments.base import Figure
from credo.experiments.judge.measure import Comparison, MethodResult
from credo.reports.figures import mark_data
from credo.reports.style import BLACK, COLORS, GRAY, YELLOW, drawing

ACROSS = 4
"""Panels in a row, at most."""


def draw(folder: Path, comparison: Comparison) -> Figure:
    """One panel per method, bands for one input and maps for two; or bars, where there is nothing to draw over."""
    name, inputs = f"{comparison.contest.name}.png", comparison.contest.inputs.shape[1]
    if not comparison.contest.pictured:
        return _bars(folder / name, comparison)
    results = (comparison.judge, *comparison.results)
    across = min(len(results), ACROSS)
    rows = -(-len(results) // across)
    with drawing(folder / name, 1.0 + 2.5 * across, 1.0 + 2.4 * rows) as figure:
        panels = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False)
        for axes, result in zip(panels.flat, results, strict=False):
            (_band if inputs == 1 else _map)(axes, comparison, result)
        for axes in panels.flat[len(results) :]:
            axes.set_axis_off()
        return _finished(figure, panels, name, inputs)


def _finished(figure: Canvas, panels: NDArray[Any], name: str, inputs: int) -> Figure:
    if inputs == 1:
        figure.supxlabel("x")
        figure.supylabel("y")
        # the judge's own panel is gray, which stands for the color of any method
        figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
        return Figure(
            name,
            "Bands of two standard deviations of y. The black lines are the judge's own band, the same in every panel: "
            "where a method's band is narrower it is too sure, where it is wider it doubts too much.",
        )
    figure.supxlabel("first input")
    figure.supylabel("second input")
    figure.colorbar(panels.flat[0].images[0], ax=panels, label="probability of the second class", shrink=0.6)
    return Figure(
        name,
        "The probability of one class over both inputs, and the points learned from. The black line is where the judge "
        "is undecided, the yellow one where the method is.",
    )


def _band(axes: Axes, comparison: Comparison, result: MethodResult) -> None:
    contest, color = comparison.contest, result.color or GRAY
    x, inside = contest.inputs.squeeze(1), contest.inputs[contest.inside]
    mark_data(axes, float(inside.min()), float(inside.max()))
    (mean, spread), (center, width) = (_moments(one) for one in (result, comparison.judge))
    axes.fill_between(x, mean - 2 * spread, mean + 2 * spread, color=color, alpha=0.35, linewidth=0, label="the method")
    axes.plot(x, mean, color=color)
    axes.plot(x, center - 2 * width, color=BLACK, linewidth=1.0, label="the judge")
    axes.plot(x, center + 2 * width, color=BLACK, linewidth=1.0)
    axes.plot(contest.x.squeeze(1), contest.y.squeeze(1), "o", color=BLACK, markersize=2.0, label="data")
    reach = float((center.abs() + 2 * width).max())
    axes.set(title=result.label, ylim=(-1.3 * reach, 1.3 * reach))


def _moments(result: MethodResult) -> tuple[Tensor, Tensor]:
    return result.prediction.mean.squeeze(1).double(), result.prediction.stddev.squeeze(1).double()


def _map(axes: Axes, comparison: Comparison, result: MethodResult) -> None:
    inputs, data = comparison.contest.inputs, comparison.contest
    across, up = (np.unique(inputs[:, i].numpy()) for i in (0, 1))
    shape = (len(across), len(up))

    def grid(one: MethodResult) -> NDArray[np.float64]:
        return one.prediction.mean[:, 1].double().numpy().reshape(shape).T

    ends = (across[0], across[-1], up[0], up[-1])
    axes.imshow(grid(result), origin="lower", extent=ends, aspect="auto", cmap="RdBu_r", vmin=0, vmax=1)
    axes.contour(across, up, grid(comparison.judge), levels=[0.5], colors=BLACK, linewidths=1.2)
    if result is not comparison.judge:
        axes.contour(across, up, grid(result), levels=[0.5], colors=YELLOW, linewidths=1.6)
    for label, color in enumerate((COLORS[0], COLORS[1])):
        points = data.x[data.y == label]
        axes.plot(points[:, 0], points[:, 1], "o", color=color, markeredgecolor="white", markersize=3.2)
    axes.set_title(result.label)
    axes.grid(False)


def _bars(path: Path, comparison: Comparison) -> Figure:
    results = (comparison.judge, *comparison.results)
    with drawing(path, 7.0, 1.2 + 0.4 * len(results)) as figure:
        axes = figure.subplots()
        for place, result in enumerate(results):
            value = float(result.agreement.total_variation.mean())
            axes.barh(place, value, color=result.color or GRAY)
        axes.set_yticks(range(len(results)), [result.label for result in results])
        axes.invert_yaxis()
        axes.set(xlabel="total variation distance from the judge", xlim=(0.0, None))
    return Figure(
        path.name,
        "How far each method's predictive distribution is from the judge's. The judge's bar is the distance of one "
        "half of its chains from the other.",
    )
