"""credo beside every peer, table by table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from credo.data import Task
from credo.reports.style import BLACK, BLUE, GRAY, GREEN, ORANGE, PURPLE, RED, SKY, drawing
from table_compare import MEASURES, TITLES, Measure, Results
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
    numbers, classes = (results.tables(task) for task in (Task.REGRESSION, Task.CLASSIFICATION))
    with drawing(path, 11.5, 0.3 * (len(numbers) + len(classes)) + 2.6) as figure:
        above, below = figure.subfigures(2, 1, height_ratios=[len(numbers) + 2, len(classes) + 2])
        axes = above.subplots(1, 4, sharey=True)
        for each, measure in zip(axes, MEASURES[Task.REGRESSION], strict=True):
            _panel(each, results, numbers, measure)
        axes = below.subplots(1, 4, sharey=True)
        for each, measure in zip(axes, MEASURES[Task.CLASSIFICATION], strict=True):
            _panel(each, results, classes, measure)
        handles = {h.get_label(): h for a in (*above.axes, *below.axes) for h in a.get_legend_handles_labels()[0]}
        figure.legend(handles=list(handles.values()), loc="outside upper center", ncols=len(handles))


def _panel(axes: Any, results: Results, tables: list[str], measure: Measure) -> None:
    low, high = _reach(measure)
    for method in PEERS:
        found = results.against(method, tables, measure)
        if found:
            marker, color = LOOKS[method]
            values = np.clip([value for _, value in found], low, high)
            places = [tables.index(name) for name, _ in found]
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
