"""The figures of a fitted table: an evaluation in, axes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from credo.evaluation.checks import chance_range, wilson
from credo.evaluation.digits import number, percent
from credo.evaluation.values import Calibration, Evaluation, Rejection, Sample
from credo.reports.inline import hover
from credo.reports.style import BLACK, BLUE, GRAY, GREEN, ORANGE, RED

BARS = 120
"""Rows with an error bar: more cannot be distinguished."""


def error_bars(axes: Axes, sample: Sample, target: str) -> None:
    """Observed against predicted numbers, each row with its interval; what falls outside is marked."""
    chosen = slice(None, None, max(1, -(-len(sample.mean) // BARS)))
    mean, observed, lower, upper = (
        np.asarray(values)[chosen] for values in (sample.mean, sample.observed, sample.lower, sample.upper)
    )
    inside = (lower <= observed) & (observed <= upper)
    axes.vlines(mean, lower, upper, color=BLUE, alpha=0.35, linewidth=1.6, label="95 % interval")
    ends = [float(min(mean.min(), observed.min())), float(max(mean.max(), observed.max()))]
    axes.plot(ends, ends, color=GRAY, linewidth=1.0, linestyle=(0, (4, 3)), label="observed = predicted")
    said = np.array(_rows_said(sample, target)[chosen], dtype=object)
    (good,) = axes.plot(
        mean[inside], observed[inside], "o", color=BLACK, markersize=3.0, label="row inside its interval"
    )
    (bad,) = axes.plot(mean[~inside], observed[~inside], "X", color=RED, markersize=5.5, label="row outside")
    hover(good, list(said[inside]))
    hover(bad, list(said[~inside]))
    axes.set(xlabel=f"predicted {_short(target)}", ylabel=f"observed {_short(target)}")
    _legend(axes, 2)


def _rows_said(sample: Sample, target: str) -> list[str]:
    """Each row in words."""
    return [
        f"row {row:,}: {target} {number(y)}, predicted {number(m)} ({number(low)} to {number(high)})"
        for row, y, m, low, high in zip(
            sample.row, sample.observed, sample.mean, sample.lower, sample.upper, strict=True
        )
    ]


def confidences(axes: Axes, sample: Sample) -> None:
    """How sure the posterior was of its labels, right and wrong ones apart."""
    confidence = np.asarray(sample.confidence)
    right = np.asarray(sample.mean) == np.asarray(sample.observed)
    edges = np.linspace(min(0.5, float(confidence.min())), 1.0, 16)
    axes.hist(
        [confidence[right], confidence[~right]],
        bins=list(edges),
        stacked=True,
        color=[BLUE, RED],
        label=["right", "wrong"],
        rwidth=0.92,
    )
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.set(xlabel="probability of the predicted class", ylabel="held-out rows")
    _legend(axes, 2)


def coverage(axes: Axes, calibration: Calibration) -> None:
    """Stated level against the part of the rows inside, with the range that chance allows."""
    stated, observed = np.asarray(calibration.stated), np.asarray(calibration.observed)
    band = np.array([chance_range(level, int(n)) for level, n in zip(stated, calibration.count, strict=True)])
    axes.fill_between(stated, band[:, 0], band[:, 1], color=GRAY, alpha=0.22, linewidth=0, label="what chance allows")
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=1.0, linestyle=(0, (4, 3)), label="honest")
    (curve,) = axes.plot(stated, observed, "o-", color=BLUE, markersize=3.5, label="this model")
    hover(
        curve, [f"{percent(s)} intervals hold {percent(o)} of the rows" for s, o in zip(stated, observed, strict=True)]
    )
    _percents(axes)
    axes.set(xlabel="stated level of the interval", ylabel="rows inside it", xlim=(0, 1), ylim=(0, 1))
    _legend(axes, 3)


def reliability(axes: Axes, calibration: Calibration) -> None:
    """Stated confidence against the part that was right, with the range of each bin; larger dots hold more rows."""
    stated, observed, count = map(np.asarray, (calibration.stated, calibration.observed, calibration.count))
    ranges = np.array([wilson(part, int(n)) for part, n in zip(observed, count, strict=True)])
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=1.0, linestyle=(0, (4, 3)), label="honest")
    axes.vlines(stated, ranges[:, 0], ranges[:, 1], color=BLUE, alpha=0.4, linewidth=2.0, label="what chance allows")
    dots = axes.scatter(stated, observed, s=18 + 150 * count / count.sum(), color=BLUE, zorder=3, label="this model")
    told = zip(stated, observed, count, strict=True)
    hover(dots, [f"{n:,.0f} rows: stated {percent(s)}, right {percent(o)}" for s, o, n in told])
    _percents(axes)
    axes.set(xlabel="stated probability of the predicted class", ylabel="part that was right")
    axes.set(xlim=(min(0.5, float(stated.min())) - 0.03, 1.03), ylim=(-0.03, 1.03))
    _legend(axes, 3)


def rejection(axes: Axes, curve: Rejection, *, classes: bool) -> None:
    """What is gained when the most doubtful rows are left to a person."""
    kept, risk = np.asarray(curve.kept), np.asarray(curve.risk)
    enough = kept >= min(0.05, float(kept.max()))
    quality = 1.0 - risk if classes else np.sqrt(risk)
    axes.plot(1.0 - kept[enough], quality[enough], color=BLUE, label="most doubtful left out first")
    axes.axhline(quality[-1], color=GRAY, linewidth=1.0, linestyle=(0, (4, 3)), label="left out at random")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    if classes:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda part, _: f"{100 * part:.3g} %"))
    axes.set(xlabel="rows left to a person", ylabel="right among the rest" if classes else "typical error on the rest")
    _legend(axes, 2)


def two_doubts(axes: Axes, sample: Sample, *, classes: bool) -> None:
    """The doubt that more data would remove against the noise that stays, row by row."""
    epistemic, aleatoric = np.asarray(sample.epistemic), np.asarray(sample.aleatoric)
    if not classes:
        epistemic, aleatoric = np.sqrt(epistemic), np.sqrt(aleatoric)
    wrong = _missed(sample, classes)
    unit = "nats" if classes else "std. dev."
    style: dict[bool, Any] = {False: {"marker": "o", "color": BLUE, "markersize": 3.0, "alpha": 0.7}}
    style[True] = {"marker": "X", "color": RED, "markersize": 5.5}
    for which, some in ((False, ~wrong), (True, wrong)):
        label = _HELD[classes][which]
        (dots,) = axes.plot(aleatoric[some], epistemic[some], linestyle="", label=label, **style[which])
        told = zip(np.asarray(sample.row)[some], aleatoric[some], epistemic[some], strict=True)
        hover(dots, [f"row {row:,}: noise {number(a)}, model uncertainty {number(e)} ({unit})" for row, a, e in told])
    limit = max(axes.get_xlim()[1], axes.get_ylim()[1])
    axes.plot([0, limit], [0, limit], color=GRAY, linewidth=1.0, linestyle=(0, (4, 3)), label="equal parts")
    axes.set(xlabel=f"noise ({unit})", ylabel=f"model uncertainty ({unit})")
    axes.set(xlim=(0, 1.05 * float(aleatoric.max()) or 1.0), ylim=(0, 1.05 * float(epistemic.max()) or 1.0))
    _legend(axes, 3)


_HELD = {False: ("row inside its interval", "row outside"), True: ("right", "wrong")}


def _missed(sample: Sample, classes: bool) -> np.ndarray:
    observed = np.asarray(sample.observed)
    if classes:
        return np.asarray(np.asarray(sample.mean) != observed)
    return np.asarray((observed < np.asarray(sample.lower)) | (observed > np.asarray(sample.upper)))


def training(axes: Axes, history: Sequence[dict[str, float]]) -> None:
    """Log likelihood per row in the course of training, on training rows and on others."""
    series = {"log_likelihood": ("training rows", BLUE), "validation_log_likelihood": ("validation rows", ORANGE)}
    lows = []
    for name, (label, color) in series.items():
        rows = [(row["epoch"], row[name]) for row in history if name in row and np.isfinite(row[name])]
        if rows:
            epochs, values = np.array(rows).T
            axes.plot(epochs, values, color=color, label=label, marker="o" if len(rows) == 1 else None)
            lows += [float(np.quantile(values, 0.05))]
    validated = [
        (row["validation_log_likelihood"], row["epoch"]) for row in history if "validation_log_likelihood" in row
    ]
    if len(validated) > 1:
        axes.axvline(max(validated)[1], color=GRAY, linewidth=1.0, linestyle=(0, (4, 3)), label="result")
    if lows:  # the first epochs are far below the rest and would flatten it
        top = axes.get_ylim()[1]
        axes.set_ylim(bottom=max(axes.get_ylim()[0], min(lows) - 0.6 * (top - min(lows))))
    axes.set(xlabel="epoch", ylabel="log likelihood per row")
    _legend(axes, 3)


def shares(axes: Axes, evaluation: Evaluation) -> None:
    """The two parts of the average doubt as one bar."""
    part = evaluation.epistemic_share
    axes.barh([0], [part], color=BLUE, label="model uncertainty (epistemic)")
    axes.barh([0], [1.0 - part], left=[part], color=GREEN, label="noise (aleatoric)")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.set(xlim=(0, 1), yticks=[], xlabel="part of the average uncertainty")
    axes.grid(visible=False)
    _legend(axes, 2)


def _percents(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def _legend(axes: Axes, columns: int) -> None:
    axes.figure.legend(loc="outside upper left", ncols=columns, handlelength=1.6, columnspacing=1.2)


def _short(name: str, most: int = 40) -> str:
    """A name from the user's file, such that it fits and matplotlib does not read it as mathematics."""
    cut = name if len(name) <= most else name[: most - 1] + "…"
    return cut.replace("$", r"\$")
