"""The figures of sparse variational dropout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from credo.experiments.base import Figure
from credo.experiments.sparse_lenet.measure import EDGES, SparseResult
from credo.reports.style import BLACK, COLORS, GRAY, drawing

TICKS = [digit * 10**power for power in range(4) for digit in (1, 2, 5)]
"""Of compression."""


def draw_all(folder: Path, results: Sequence[SparseResult]) -> tuple[Figure, ...]:
    """Every figure that the rows allow."""
    sparse = [result for result in results if result.counts]
    return (noise(folder, sparse), thresholds(folder, sparse), curves(folder, sparse)) if sparse else ()


def noise(folder: Path, results: Sequence[SparseResult]) -> Figure:
    """How the log alphas of every layer are spread."""
    with drawing(folder / "noise.png", 9.0, 3.8) as figure:
        for axes, result in zip(figure.subplots(1, len(results), squeeze=False)[0], results, strict=True):
            for (name, counts), color in zip(result.counts.items(), COLORS, strict=False):
                above = [100.0 * (1.0 - below / sum(counts)) for below in accumulate(counts)]
                axes.plot(EDGES[1:-1], above[:-1], color=color, label=name.removesuffix(".weight"))
            axes.axvline(result.threshold, color=BLACK, linestyle="--", linewidth=1.0)
            axes.set(xlabel="log alpha", ylabel="weights with more noise (%)", ylim=(0, 102), title=result.name)
            axes.legend(title="layer")
    caption = (
        "The part of each layer's weights whose log alpha is above the one on the axis. Those beyond the dashed line "
        "are removed."
    )
    return Figure("noise.png", caption)


def thresholds(folder: Path, results: Sequence[SparseResult]) -> Figure:
    """Error against compression as the threshold moves."""
    with drawing(folder / "thresholds.png", 7.0, 4.4) as figure:
        axes = figure.subplots()
        for result, color in zip(results, COLORS, strict=False):
            ratios, errors = [r for _, _, r in result.by_threshold], [e for _, e, _ in result.by_threshold]
            axes.plot(ratios, errors, "o-", color=color, label=result.name)
            for place, (threshold, error, ratio) in enumerate(result.by_threshold):
                if place % 2 == 0:
                    axes.annotate(f"{threshold:g}", (ratio, error), (0, 7), textcoords="offset points", color=GRAY)
        axes.set_xscale("log")
        axes.set(xlabel="compression, times fewer weights (log scale)", ylabel="test error (%)")
        axes.set_ylim(0.0, 1.1 * max(error for result in results for _, error, _ in result.by_threshold))
        low, high = axes.get_xlim()
        ticks = [tick for tick in TICKS if low <= tick <= high]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        figure.legend(loc="outside upper center", ncols=2)
    used = " and ".join(f"{result.threshold:g} ({result.name})" for result in results)
    caption = f"Test error at the means of the pruned network. Small numbers are thresholds of log alpha; used: {used}."
    return Figure("thresholds.png", caption)


def curves(folder: Path, results: Sequence[SparseResult]) -> Figure:
    """How much of the network is noise in the course of training."""
    with drawing(folder / "curves.png") as figure:
        axes = figure.subplots()
        for result, color in zip(results, COLORS, strict=False):
            epochs = [line["epoch"] for line in result.curve]
            axes.plot(epochs, [100 * (1 - line["removable"]) for line in result.curve], color=color, label=result.name)
        axes.set(xlabel="epoch", ylabel="weights with log alpha below 3 (%, log scale)", yscale="log")
        figure.legend(loc="outside upper center", ncols=2)
    return Figure("curves.png", "The part of the weights that is worth keeping, at the end of each epoch.")
