"""Evidence against complexity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from credo.experiments.base import Figure
from credo.experiments.evidence.measure import NetworkScore, Polynomials, SmallScore
from credo.experiments.evidence.problem import DEGREES
from credo.reports.style import BLUE, GREEN, ORANGE, drawing


def evidence_figure(
    folder: Path, lines: Polynomials, nets: Sequence[NetworkScore], few: Sequence[SmallScore]
) -> Figure:
    """Polynomials, networks, and small networks beside annealing."""
    path = "evidence.png"
    with drawing(folder / path, 12.0, 4.2) as figure:
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.0, 1.3, 0.9))
        left.plot(DEGREES, lines.exact, "o", color=BLUE, markersize=9, fillstyle="none", label="closed form")
        left.plot(DEGREES, lines.laplace, ".-", color=ORANGE, label="Laplace")
        left.set(title="Polynomials", xlabel="degree", ylabel="log evidence (nats)", ylim=_window(lines.exact, 40.0))
        places = range(len(nets))
        middle.plot(places, [n.evidence for n in nets], "o-", color=ORANGE, label="log evidence by Laplace")
        scaled = [80 * n.held_out for n in nets]
        middle.plot(places, scaled, "s--", color=GREEN, label="held-out log likelihood, times 80")
        middle.set_xticks(list(places), [n.name for n in nets], rotation=40, ha="right")
        middle.set(title="Networks", xlabel="network", ylabel="nats")
        units = [score.units for score in few]
        middle_errors = [score.annealed.standard_error for score in few]
        values = [score.annealed.value for score in few]
        right.errorbar(units, values, middle_errors, fmt="o", color=BLUE, capsize=4, label="annealing")
        right.plot(units, [s.laplace for s in few], "v:", color=ORANGE, label="Laplace, one mode")
        right.plot(units, [s.with_symmetries for s in few], "^-", color=ORANGE, label="and its symmetries")
        right.set_xticks(units)
        right.set(title="Small networks", xlabel="hidden units", ylabel="log evidence (nats)")
        for axes in (left, middle, right):
            axes.legend(loc="lower right")
    caption = (
        "Left: the evidence of polynomials has its maximum at the degree that made the data; Laplace is exact there. "
        "Middle: networks for a sine; where the evidence is high, held-out targets are predicted well, and it was "
        "computed without them. Right: Laplace beside annealed importance sampling."
    )
    return Figure(path, caption)


def _window(values: Sequence[float], depth: float) -> tuple[float, float]:
    top = max(values)
    return top - depth, top + 0.1 * depth
