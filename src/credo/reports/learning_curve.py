"""The figure of a session of labeling: how good it was after each round."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from credo.reports.style import BLUE, drawing


def draw_learning_curve(
    path: Path, labels: Sequence[int], scores: Sequence[float], errors: Sequence[float], measure: str
) -> None:
    """Scores by the number of labels, each with one standard error.

    Args:
        path: file to write.
        labels: that each round had learned from.
        scores: of each round.
        errors: their standard errors.
        measure: what the score is, with its unit.
    """
    with drawing(path) as figure:
        axes = figure.subplots()
        axes.errorbar(labels, scores, yerr=errors, fmt="o-", color=BLUE, capsize=3)
        axes.set(xlabel="labels learned from", ylabel=measure)
