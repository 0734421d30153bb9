"""Accuracy by labels, every repetition and their mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from credo.experiments.active_mnist.measure import LabelResult, curves
from credo.experiments.active_mnist.problem import THRESHOLDS
from credo.experiments.base import Figure
from credo.reports.style import BLUE, GRAY, ORANGE, PURPLE, drawing

LOOKS = {
    "batchbald-10": ("BatchBALD, ten at a time", BLUE),
    "bald-10": ("BALD, ten at a time", ORANGE),
    "bald-1": ("BALD, one at a time", PURPLE),
    "random-10": ("at random", GRAY),
}
"""What each curve is called, and its color."""
PANELS = {
    "": "MNIST",
    "repeated-": "Repeated MNIST",
    "small-": "MNIST, smaller setting",
    "small-repeated-": "Repeated MNIST, smaller setting",
    "digits-": "Repeated digits",
}
"""Titles by what names begin with."""


def learning_curves(folder: Path, found: Mapping[str, LabelResult]) -> Figure:
    """A panel for each set of images: thin lines are repetitions, the thick one their mean."""
    grouped = curves(found)
    panels = [prefix for prefix in PANELS if any(f"{prefix}{name}" in grouped for name in LOOKS)]
    with drawing(folder / "curves.png", width=max(7.0, 5.0 * len(panels))) as figure:
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, prefix in zip(grid, panels, strict=True):
            for name, (label, color) in LOOKS.items():
                results = grouped.get(f"{prefix}{name}", [])
                for result in results if len(results) > 1 else []:
                    axes.plot(result.labels, result.accuracy, color=color, alpha=0.35, linewidth=0.9)
                if results:
                    mean = [fmean(values) for values in zip(*(result.accuracy for result in results), strict=True)]
                    axes.plot(results[0].labels, mean, color=color, label=label)
            for threshold in THRESHOLDS:
                axes.axhline(threshold, color=GRAY, linewidth=0.8, linestyle=":")
            axes.set(xlabel="labels", ylabel="test accuracy (%)", title=PANELS[prefix])
            axes.legend(loc="lower right")
    caption = (
        "Accuracy by the number of labels; thin lines are repetitions, thick ones their mean, dotted lines the "
        "accuracies for which labels are counted."
    )
    return Figure("curves.png", caption)
