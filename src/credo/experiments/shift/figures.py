"""The figures of shifted images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy

from credo.data.corruptions import SEVERITIES, Corruption, corrupt
from credo.experiments.base import Figure
from credo.experiments.shift.measure import ACCURACY, ERROR, LOG_LIKELIHOOD, ShiftResult
from credo.experiments.shift.problem import Shifted
from credo.reports.style import COLORS, drawing


def curves(folder: Path, found: Mapping[str, ShiftResult]) -> Figure:
    """Accuracy, log likelihood and calibration error against severity."""
    titles = {ACCURACY: "accuracy", LOG_LIKELIHOOD: "log likelihood (nats)", ERROR: "calibration error"}
    with drawing(folder / "shift.png", 9.0, 3.6) as figure:
        panels = figure.subplots(1, 3)
        for axes, (place, title) in zip(panels, titles.items(), strict=True):
            for (name, result), color in zip(found.items(), COLORS, strict=False):
                axes.plot((0, *SEVERITIES), result.by_severity(place), "o-", color=color, label=name)
            axes.set(title=title, xlabel="severity")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    caption = (
        "Averages over noise, blur, contrast, rotation and pixelate. As images get worse every method is wrong more "
        "often; the question is which one says so."
    )
    return Figure("shift.png", caption)


def pictures(folder: Path, data: Shifted) -> Figure:
    """One test image at every severity of every corruption."""
    image = data.x_test[:1]
    with drawing(folder / "corruptions.png", 7.0, 6.4) as figure:
        grid = figure.subplots(len(Corruption), len(SEVERITIES) + 1)
        for row, kind in zip(grid, Corruption, strict=True):
            for axes, severity in zip(row, (0, *SEVERITIES), strict=True):
                shown = image if severity == 0 else corrupt(image, kind, severity, low=data.low)
                pixels = ((shown[0] - data.low) / (1.0 - data.low)).permute(1, 2, 0).numpy()
                axes.imshow(numpy.squeeze(pixels), cmap="gray", vmin=0.0, vmax=1.0)
                axes.set(xticks=[], yticks=[])
                axes.grid(visible=False)
                if kind is Corruption.NOISE:
                    axes.set_title(f"severity {severity}" if severity else "clean", fontsize=9, loc="center")
            row[0].set_ylabel(str(kind))
    return Figure("corruptions.png", "One test image, made worse in five ways and five steps.")
