"""The figure of the six-point curve."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from credo.experiments.base import Figure
from credo.experiments.toy.problem import NOISE, ToyProblem, ToySetup, curve
from credo.reports.figures import predictive_band
from credo.reports.style import drawing


def draw(folder: Path, problem: ToyProblem, drawn: Mapping[ToySetup, Tensor]) -> Figure:
    """Both networks side by side, from their outputs at the points and the grid, (S, 407)."""
    grid, truth = problem.grid.squeeze(1), curve(problem.grid).squeeze(1)
    with drawing(folder / "toy.png", 10.0, 4.4) as figure:
        for axes, (setup, draws) in zip(figure.subplots(1, 2, sharey=True), drawn.items(), strict=True):
            functions = draws[:, len(problem.x) :]
            mean, spread = functions.mean(0), functions.std(0)
            total, data = (spread.square() + NOISE**2).sqrt(), (problem.x, problem.y)
            predictive_band(
                axes, grid, mean, total, epistemic_stddev=spread, draws=functions[:8], data=data, truth=truth
            )
            axes.set(title=f"{setup.activation} units", xlabel="x", ylim=(-15, 15))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        "Six points, and what Bayes by Backprop believes between and beyond them. Sigmoid units are flat far out, and "
        "so is every drawn function: doubt grows between the points and not outside. With ReLU units it grows outside."
    )
    return Figure("toy.png", caption)
