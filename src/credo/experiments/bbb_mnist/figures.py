"""The figures of Bayes by Backprop on images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.ticker import LogLocator, NullFormatter

from credo.experiments.base import Claim, Figure
from credo.experiments.classifiers import EDGES, ClassifierResult
from credo.reports.style import BLACK, BLUE, COLORS, GRAY, ORANGE, SKY, drawing

SHOWN = {
    "plain": ("keras-sgd-400", "sgd-400", "digits-sgd"),
    "dropout": ("keras-dropout-400", "dropout-400", "digits-dropout"),
    "Bayes by Backprop": ("notebook-400-228", "digits-sparse"),
    "Bayes by Backprop, sparse": ("sparse-1200",),
}
"""Rows whose weights are drawn, by what they are called: the first that is there."""


def draw_all(folder: Path, found: Mapping[str, ClassifierResult], claims: Mapping[str, Claim]) -> tuple[Figure, ...]:
    """Every figure that the rows allow."""
    figures = [densities(folder, found)]
    compared = [name for name in found if isinstance(getattr(claims.get(name), "published", None), float)]
    if compared:
        figures.append(errors(folder, [found[name] for name in compared], claims))
    if any(result.pruned for result in found.values()):
        figures.append(pruning(folder, [result for result in found.values() if result.pruned]))
    return tuple(figures)


def densities(folder: Path, found: Mapping[str, ClassifierResult]) -> Figure:
    """The weights of networks that were trained in different ways, as in the notebook and in figure 3 of the paper.

    The two outermost bins hold all weights beyond the edges, and are left out.
    """
    centers, width = ((EDGES[:-1] + EDGES[1:]) / 2)[1:-1], float(EDGES[1] - EDGES[0])
    with drawing(folder / "weights.png") as figure:
        axes = figure.subplots()
        for (label, names), color in zip(SHOWN.items(), COLORS, strict=False):
            result = next((found[name] for name in names if name in found), None)
            if result is not None:
                heights = [n / (sum(result.counts) * width) for n in result.counts[1:-1]]
                axes.plot(centers, heights, color=color, label=f"{label} ({result.name})")
        axes.set(xlabel="weight", ylabel="density", xlim=(-0.3, 0.3))
        axes.set_ylim(bottom=0)
        figure.legend(loc="outside upper center", ncols=2)
    caption = "The weights after training, on the axes of the notebook's figure; for Bayes by Backprop one draw."
    return Figure("weights.png", caption)


def errors(folder: Path, results: Sequence[ClassifierResult], claims: Mapping[str, Claim]) -> Figure:
    """Our errors beside the published ones."""
    shown = [result for result in results if result.finished]
    with drawing(folder / "errors.png", 7.0, 0.32 * len(shown) + 1.6) as figure:
        axes = figure.subplots()
        for place, result in enumerate(reversed(shown)):
            published = float(claims[result.name].published)
            bar = 2 * math.sqrt(published * (100 - published) / 10_000)
            axes.errorbar(published, place, xerr=bar, fmt="s", color=GRAY, capsize=3, label=_once("published", place))
            values = result.at_mean if result.name.startswith("notebook") else result.drawn
            axes.plot(values, [place] * len(values), "o", color=BLUE, alpha=0.8, label=_once("ours, each run", place))
        axes.set_yticks(range(len(shown)), [result.name for result in reversed(shown)])
        axes.set_xlabel("test error (%)")
        figure.legend(loc="outside upper center", ncols=2)
    caption = "Bars are two standard errors of 10,000 test images: what chance alone does to one published run."
    return Figure("errors.png", caption)


def pruning(folder: Path, results: Sequence[ClassifierResult]) -> Figure:
    """Error against the part of the weights that is removed."""
    with drawing(folder / "pruning.png") as figure:
        axes = figure.subplots()
        for result, color in zip(results, (SKY, ORANGE, BLUE, BLACK, *COLORS), strict=False):
            parts = [0.0, *(100 * float(part) for part in result.pruned)]
            values = [fmean(result.at_mean), *(fmean(errors) for errors in result.pruned.values())]
            axes.plot(parts, values, "o-", color=color, label=result.name)
        axes.set(xlabel="weights removed, lowest signal to noise first (%)", ylabel="test error (%, log scale)")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        figure.legend(loc="outside upper center", ncols=4)
    caption = (
        "Where training has brought the scales to their optimum, most weights say little and can go; where it has not, "
        "the ratio of signal to noise does not tell which."
    )
    return Figure("pruning.png", caption)


def _once(label: str, place: int) -> str | None:
    return label if place == 0 else None
