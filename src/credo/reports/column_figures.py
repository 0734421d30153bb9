"""Figures of single columns: how much they matter, how the prediction depends on them, where it errs along them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from credo.evaluation.digits import number, percent, with_error
from credo.evaluation.table_values import Effect, Importance, Residuals
from credo.reports.inline import hover
from credo.reports.style import BLACK, BLUE, GRAY, GREEN, RED

BARS = 12
"""Columns in the figure of importance."""
COLORS = (BLUE, RED, GREEN)
STYLES = ("-", (0, (5, 2)), (0, (1, 1.5)))
LONGEST = 22
"""Letters of a name that fit beside an axis."""


def importance(axes: Axes, columns: Sequence[Importance], *, classes: bool) -> None:
    """A bar for each column, the most important on top, with two standard errors."""
    shown = list(columns[:BARS])[::-1]
    rises, errors = ([getattr(one, name) for one in shown] for name in ("rise", "error"))
    bars = axes.barh(range(len(shown)), rises, color=BLUE, height=0.65)
    axes.errorbar(rises, range(len(shown)), xerr=[2 * e for e in errors], fmt="none", ecolor=BLACK, elinewidth=1.2)
    for bar, one in zip(bars, shown, strict=True):
        hover(bar, [f"{one.column}: {with_error(one.rise, one.error or None)}"])
    axes.axvline(0.0, color=GRAY, linewidth=1.0)
    axes.set_yticks(range(len(shown)), [short(one.column) for one in shown])
    axes.set(xlabel=f"rise of the {'Brier score' if classes else 'root mean square error'}")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid(visible=False, axis="y")


def effect(axes: Axes, curves: Sequence[Effect], target: str) -> None:
    """The prediction along a column with a band of two standard deviations of the posterior's functions.

    Args:
        axes: where to draw.
        curves: of one column, one for each class that is shown.
        target: name of what is predicted.
    """
    for curve, color, style in zip(curves, COLORS, STYLES, strict=False):
        mean, spread = np.asarray(curve.mean), 2.0 * np.asarray(curve.spread)
        low, high = mean - spread, mean + spread
        if curve.label:
            low, high = low.clip(0.0), high.clip(None, 1.0)
        if curve.words and not curve.values:
            place = np.arange(len(mean)) + 0.2 * (COLORS.index(color) - (len(curves) - 1) / 2)
            axes.vlines(place, low, high, color=color, linewidth=2.2, alpha=0.45)
            (line,) = axes.plot(place, mean, "o", color=color, markersize=5, label=short(curve.label))
        else:
            place = np.asarray(curve.values)
            axes.fill_between(place, low, high, color=color, alpha=0.18, linewidth=0)
            (line,) = axes.plot(
                place, mean, linestyle=style, marker="o", markersize=2.5, color=color, label=short(curve.label)
            )
        hover(line, [_said(curve, k) for k in range(len(mean))])
    _ticks(axes, curves[0])
    axes.set(xlabel=short(curves[0].column, 40))
    if curves[0].label:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda part, _: f"{100 * part:.3g} %"))
        if len(curves) > 1:
            axes.legend(loc="best", handlelength=1.6)
    axes.set(ylabel=f"P({short(curves[0].label, 16)})" if len(curves) == 1 and curves[0].label else short(target, 24))


def _said(curve: Effect, place: int) -> str:
    at = curve.words[place] if curve.words else number(curve.values[place])
    mean, spread = curve.mean[place], curve.spread[place]
    value = with_error(mean, spread or None, share=bool(curve.label))
    return f"{curve.column} = {at}: {f'P({curve.label}) = ' if curve.label else ''}{value}"


def _ticks(axes: Axes, curve: Effect) -> None:
    if not curve.words:
        axes.xaxis.set_major_locator(MaxNLocator(5))
        return
    count = len(curve.words)
    if curve.values:
        chosen = np.unique(np.linspace(0, count - 1, 3).round().astype(int))
        axes.set_xticks([curve.values[k] for k in chosen], [curve.words[k] for k in chosen])
        return
    slanted: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if count > 4 else {}
    axes.set_xticks(range(count), [short(word, 14) for word in curve.words], **slanted)


def residuals(axes: Axes, found: Residuals, *, classes: bool) -> None:
    """The mean error of each group of rows with two standard errors; what zero explains is gray."""
    mean, error = np.asarray(found.mean)[::-1], 2.0 * np.asarray(found.error)[::-1]
    groups, rows, size = found.groups[::-1], found.rows[::-1], found.size[::-1]
    place, off = np.arange(len(mean)), np.abs(mean) > 1.5 * error  # three standard errors
    axes.axvline(0.0, color=GRAY, linewidth=1.0)
    for some, color, mark in ((~off, BLUE, "o"), (off, RED, "X")):
        axes.hlines(place[some], (mean - error)[some], (mean + error)[some], color=color, linewidth=2.0, alpha=0.5)
        (dots,) = axes.plot(mean[some], place[some], mark, color=color, markersize=5.5)
        hover(
            dots,
            [
                f"{groups[k]}: {rows[k]:,.0f} rows, mean error {number(mean[k])} ± {number(error[k] / 2)}, "
                + (f"{percent(size[k])} mistakes" if classes else f"typical error {number(size[k])}")
                for k in place[some]
            ],
        )
    axes.set_yticks(place, [short(group) for group in groups])
    axes.set_ylim(-0.6, len(mean) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set(xlabel="part right minus stated" if classes else "observed minus predicted")
    axes.grid(visible=False, axis="y")


def short(name: str, most: int = LONGEST) -> str:
    """A name from the user's file, such that it fits and matplotlib does not read it as mathematics."""
    cut = name if len(name) <= most else name[: most - 1] + "…"
    return cut.replace("$", r"\$")
