"""credo beside every peer, table by table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from credo.data import Task
from credo.reports.style import BLACK, BLUE, GRAY, GREEN, ORANGE, PURPLE, RED, SKY, drawing
from table_compare import MEASURES, OURS, TITLES, Measure, Results
from table_peers import PEERS
from table_sets import TABLES, Purpose

LOOKS = {
    "hgb": ("o", BLUE),
    "gp": ("s", RED),
    "logistic": ("P", GRAY),
    "catboost": ("^", GREEN),
    "quantile-forest": ("D", ORANGE),
    "ngboost": ("v", PURPLE),
    "mapie-catboost": ("X", SKY),
}


def draw(results: Results, path: Path) -> None:
    """Ratios of credo to each peer (log likelihood: differences), numbers above and classes below.

    Args:
        results: all rows.
        path: of the picture.
    """
    parts = [(task, results.tables(task, OURS)) for task in Task if results.tables(task, OURS)]
    heights = [0.3 * len(tables) + 1.2 for _, tables in parts]
    with drawing(path, 11.5, sum(heights) + 0.4) as figure:
        panels = figure.subfigures(len(parts), 1, height_ratios=heights, squeeze=False)
        for panel, (task, tables) in zip(panels[:, 0], parts, strict=True):
            for axes, measure in zip(panel.subplots(1, 4, sharey=True), MEASURES[task], strict=True):
                _draw(axes, results, tables, measure)
        handles = {h.get_label(): h for axes in figure.axes for h in axes.get_legend_handles_labels()[0]}
        figure.legend(handles=list(handles.values()), loc="outside upper center", ncols=len(handles))


def _draw(axes: Any, results: Results, tables: list[str], measure: Measure) -> None:
    low, high = _reach(measure)
    for number, method in enumerate(PEERS):
        found = results.against(OURS, method, tables, measure)
        if found:
            marker, color = LOOKS[method]
            values = np.clip([value for _, value in found], low, high)
            places = [tables.index(name) + 0.08 * (number - 3) for name, _ in found]  # equal scores stay apart
            axes.plot(
                values, places, marker, color=color, markersize=5, label=TITLES[method], clip_on=False, alpha=0.85
            )
    axes.axvline(1.0 if measure.by == "ratio" else 0.0, color=BLACK, linewidth=1)
    if measure.by == "ratio":
        axes.set_xscale("log")
        axes.set_xticks([0.5, 0.7, 1.0, 1.4, 2.0], ["0.5", "0.7", "1", "1.4", "2"])
        axes.minorticks_off()
    axes.set_xlim(low, high)
    stars = [f"{name} *" if TABLES[name].purpose is Purpose.CHOOSING else name for name in tables]
    axes.set_yticks(range(len(tables)), stars)
    axes.set_ylim(len(tables) - 0.5, -0.5)
    title = measure.title.removesuffix(" (nats per row)")
    axes.set_title(title, fontsize=10)
    side, how = "left" if measure.better == "lower" else "right", "/" if measure.by == "ratio" else "-"
    axes.set_xlabel(f"credo {how} peer\n{side}: credo is better", fontsize=9)


def _reach(measure: Measure) -> tuple[float, float]:
    if measure.by == "ratio":
        return 0.5, 2.0
    return (-0.5, 0.5) if measure.id == "log_likelihood" else (-0.1, 0.1)
