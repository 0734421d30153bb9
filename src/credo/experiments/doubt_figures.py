"""The figures of classifiers that were asked about images of no known class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy
from matplotlib.figure import Figure as Canvas

from credo.experiments.base import Figure
from credo.experiments.doubt import FILTERED, DoubtResult
from credo.experiments.doubt_tables import AUROC, kinds
from credo.reports.style import BLUE, COLORS, GRAY, RED, drawing

QUICK = "digits-"
"""With what the names of rows of the quick size begin."""
MARKS = ("o", "s", "^", "D", "v", "P", "X")


def draw_all(folder: Path, found: Mapping[str, DoubtResult], classes: Sequence[str]) -> tuple[Figure, ...]:
    """Every figure; rows of the quick size go by their names without the word for it."""
    found = {name.removeprefix(QUICK): result for name, result in found.items()}
    return predictive(folder, found, classes), filtered(folder, found), detection(folder, found)


def predictive(folder: Path, found: Mapping[str, DoubtResult], classes: Sequence[str]) -> Figure:
    """The probabilities that the draws of each method give to the classes of a known and of an unknown image."""
    first = next(iter(found.values()))
    names = (f"known: {classes[first.truth]}", f"unknown: {kinds(found)[0]}")
    with drawing(folder / "predictive.png", 8.0, 2.0 + 1.5 * len(found)) as figure:
        grid = figure.subplots(len(found) + 1, 2, height_ratios=[1.3, *[1.0] * len(found)])
        for column, (picture, name) in enumerate(zip(first.pictures, names, strict=True)):
            _picture(grid[0, column], picture, name)
            for axes, (row, result) in zip(grid[1:, column], found.items(), strict=True):
                color = BLUE if column == 0 else RED
                _probabilities(axes, result.probabilities[column], color)
                axes.set_xticks(range(len(classes)), [] if result is not list(found.values())[-1] else classes)
                if column == 0:
                    axes.set_ylabel(row.replace("-", "-\n", 1) if len(row) > 12 else row)
            grid[-1, column].tick_params(axis="x", rotation=60)
    caption = (
        "The predictive distribution of each method: bars are averaged probabilities, points those of single draws. "
        "One network has one point and nothing to disagree with; where draws are spread, they do not know."
    )
    return Figure("predictive.png", caption)


def _picture(axes: Any, picture: Any, title: str) -> None:
    pixels = numpy.asarray(picture, dtype=numpy.uint8)
    gray = len(pixels) == 1
    axes.imshow(pixels[0] if gray else pixels.transpose(1, 2, 0), cmap="gray" if gray else None)
    axes.set_title(title, loc="center")
    axes.set_axis_off()


def _probabilities(axes: Any, by_draw: Sequence[Sequence[float]], color: str) -> None:
    mean = [fmean(column) for column in zip(*by_draw, strict=True)]
    axes.bar(range(len(mean)), mean, color=color, alpha=0.35, width=0.7)
    for s, probs in enumerate(by_draw):
        shift = 0.5 * ((s + 0.5) / len(by_draw) - 0.5)
        axes.plot([k + shift for k in range(len(probs))], probs, ".", color=color, markersize=3, alpha=0.7)
    axes.set_ylim(-0.03, 1.03)


def filtered(folder: Path, found: Mapping[str, DoubtResult]) -> Figure:
    """Accuracy on the most certain part of the images."""
    kind = kinds(found)[0]
    with drawing(folder / "filter.png", 8.0, 4.2) as figure:
        both = figure.subplots(1, 2, sharey=True)
        parts = [100.0 * (i + 1) / FILTERED for i in range(FILTERED)]
        for (name, result), color in zip(found.items(), COLORS, strict=False):
            both[0].plot(parts, [100 * v for v in result.kept], color=color, label=name)
            both[1].plot(parts, [100 * v for v in result.filtered["entropy"]], color=color)
        both[0].set(title="known images", xlabel="most certain part of the images (%)", ylabel="accuracy (%)")
        both[1].set(title=f"known and {kind} together", xlabel="most certain part of the images (%)")
        figure.legend(loc="outside upper center", ncols=3)
    caption = (
        "The filter experiment: images in the order of their entropy, the most certain ones first. A curve that falls "
        f"to the right has its mistakes among the images it was in doubt of; on the right no {kind} counts as right."
    )
    return Figure("filter.png", caption)


def detection(folder: Path, found: Mapping[str, DoubtResult]) -> Figure:
    """Area under the ROC curve by method and score."""
    shown = kinds(found)
    names = list(dict.fromkeys(name for each in found.values() for name in each.detection[shown[0]]))
    with drawing(folder / "auroc.png", 8.0, 1.4 + 0.36 * len(names)) as figure:
        panels = _row(figure, len(shown))
        for axes, kind in zip(panels, shown, strict=True):
            for (name, result), color, mark in zip(found.items(), COLORS, MARKS, strict=False):
                points = [(v[AUROC], names.index(score)) for score, v in result.detection[kind].items()]
                axes.plot(*zip(*points, strict=True), mark, color=color, label=name, alpha=0.85)
            axes.axvline(0.5, color=GRAY, linestyle=":")
            axes.set(title=kind, xlabel="area under the ROC curve", ylim=(len(names) - 0.5, -0.5))
        panels[0].set_yticks(range(len(names)), names)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    caption = "How well each measure of doubt tells unknown images from known ones; the dotted line is chance."
    return Figure("auroc.png", caption + _below_chance(found, shown))


def _below_chance(found: Mapping[str, DoubtResult], shown: Sequence[str]) -> str:
    """A sentence on the measures that are larger for known images than for unknown ones, where there are such."""
    below = {
        score: None
        for each in found.values()
        for kind in shown
        for score, values in each.detection[kind].items()
        if values[AUROC] < 0.5
    }
    if not below:
        return ""
    return (
        f" Below chance, for some method and kind of images: {', '.join(below)}. There it is larger for known images "
        "than for unknown ones, and an alarm by it rings for the wrong ones."
    )


def _row(figure: Canvas, count: int) -> list[Any]:
    return list(figure.subplots(1, count, sharey=True, squeeze=False)[0])
