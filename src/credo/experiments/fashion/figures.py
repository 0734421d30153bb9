"""The figure of garments: which are taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from credo.experiments.base import Figure
from credo.experiments.fashion.measure import FashionResult
from credo.reports.style import drawing


def confusion(folder: Path, result: FashionResult, classes: Sequence[str]) -> Figure:
    """Which class was taken for which, in per cent of the class."""
    shares = [[n / max(sum(counts), 1) for n in counts] for counts in result.confusion]
    with drawing(folder / "confusion.png", 6.4, 5.4) as figure:
        axes = figure.subplots()
        axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        for i, row in enumerate(shares):
            for j, share in enumerate(row):
                if share >= 0.005:
                    color = "white" if share > 0.5 else "black"
                    axes.text(j, i, f"{100 * share:.0f}", ha="center", va="center", color=color)
        axes.set_xticks(range(len(classes)), classes, rotation=60)
        axes.set_yticks(range(len(classes)), classes)
        axes.set(xlabel="answer", ylabel="truth")
        axes.grid(visible=False)
    return Figure("confusion.png", f"Which is taken for which, in per cent of the row, by {result.name}.")
