"""The figure of calibration before and after."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.ticker import NullLocator

from credo.experiments.base import Figure
from credo.experiments.laplace_calibration.measure import ERROR, CalibrationResult
from credo.experiments.laplace_calibration.problem import AS_IT_IS, TEMPERATURE
from credo.reports.style import BLUE, GRAY, GREEN, ORANGE, PURPLE, RED, drawing

SHOWN = {
    AS_IT_IS: (RED, "o"),
    "last layer": (BLUE, "s"),
    "last layer, held out": (GREEN, "^"),
    "all weights": (ORANGE, "D"),
    TEMPERATURE: (PURPLE, "v"),
}
"""Color and mark of the treatments in the diagrams of reliability."""
TICKS = (0.3, 1.0, 3.0, 10.0, 30.0)
"""Calibration errors in per cent."""
FEWEST = 0.01
"""Part of the images that a bin must hold to be drawn: few say little about an accuracy."""


def reliability(folder: Path, found: Mapping[str, CalibrationResult]) -> Figure:
    """Accuracy against confidence for each network, and the calibration errors of all treatments."""
    with drawing(folder / "calibration.png", 11.0, 4.4) as figure:
        panels = figure.subplots(1, len(found) + 1, width_ratios=[*[1.0] * len(found), 0.9])
        for axes, (name, result) in zip(panels, found.items(), strict=False):
            _diagram(axes, result)
            axes.set(title=f"trained for {_shown(name)}", xlabel="confidence", ylabel="accuracy")
        _errors(panels[-1], found)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    caption = (
        "Left and middle: accuracy against stated confidence in 15 bins, larger marks for more images, without bins of "
        "less than 1 % of them. Below the dotted line a network is surer than it is right, above it less sure. Right: "
        "the calibration error, the mean distance from that line, as it is and after each treatment; the precision of "
        "the prior was chosen by the evidence, and by held-out images where it says so."
    )
    return Figure("calibration.png", caption)


def _diagram(axes: Any, result: CalibrationResult) -> None:
    axes.plot((0, 1), (0, 1), ":", color=GRAY)
    for name, (color, mark) in SHOWN.items():
        if name not in result.reliability:
            continue
        bins = list(zip(*result.reliability[name], strict=True))
        total = sum(count for _, _, count in bins)
        confidence, accuracy, parts = zip(*((c, a, n / total) for c, a, n in bins if n >= FEWEST * total), strict=True)
        axes.plot(confidence, accuracy, "-", color=color, alpha=0.5, linewidth=1)
        sizes = [8.0 + 60.0 * math.sqrt(part) for part in parts]
        axes.scatter(confidence, accuracy, sizes, color=color, marker=mark, label=name, alpha=0.85, linewidths=0)
    axes.set(xlim=(0.2, 1.02), ylim=(0.2, 1.02))


def _errors(axes: Any, found: Mapping[str, CalibrationResult]) -> None:
    names = list(next(iter(found.values())).treatments)
    for (name, result), mark, color in zip(found.items(), "ox", (BLUE, RED), strict=True):
        errors = [100.0 * result.treatments[each][ERROR] for each in names]
        axes.plot(errors, range(len(names)), mark, color=color, label=f"trained for {_shown(name)}")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.xaxis.set_minor_locator(NullLocator())
    shown = [100.0 * each[ERROR] for result in found.values() for each in result.treatments.values()]
    axes.set_xlim(0.8 * min(shown), 1.25 * max(shown))
    axes.set(title="all treatments", xlabel="calibration error (%)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.35, -0.16))


def _shown(name: str) -> str:
    """The name of a row in a figure."""
    return "a short time" if name.endswith("short") else "long"
