"""The six-point curve of the Bayes by Backprop tutorials: where a network doubts, and where it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

import credo
from credo.experiments.base import Cell, Experiment, Figure, Outcome, Progress, Size, Table, uninterrupted
from credo.experiments.threads import one_thread
from credo.experiments.toy.problem import NOISE, RELU, SIGMOID, Entry, Problem, curve
from credo.reports.figures import predictive_band
from credo.reports.style import drawing

RUNS = {Size.QUICK: 4, Size.FULL: 10}
DRAWS = 200
"""Of each run."""


@dataclass(frozen=True)
class Measures:
    """Of one run: distance of the mean from the six points, and the standard deviation of drawn functions by zone."""

    rmse: float
    points: float
    gap: float
    outside: float


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Fit both networks several times, draw the first run, measure the claims."""
    problem, runs = Problem.given(), RUNS[size]
    with one_thread():
        drawn = {entry: _drawn(problem, entry, runs, seed, progress) for entry in (SIGMOID, RELU)}
    found = {entry.name: [measure(problem, one) for one in draws.unbind(1)] for entry, draws in drawn.items()}
    figure = _figure(folder, problem, {entry: draws[:, 0] for entry, draws in drawn.items()})
    return Outcome(_claims(found), (_table(found),), (figure,))


def _drawn(problem: Problem, entry: Entry, runs: int, seed: int, progress: Progress) -> Tensor:
    """Outputs of the drawn functions of each run at the six points and the grid, (S, R, 407)."""
    method, told = credo.Ensemble(entry.method, runs), progress.of(f"{entry.name}, {runs} runs at once")
    posterior = uninterrupted(credo.fit(entry.model, (problem.x, problem.y), method, seed=seed, progress=told))
    places = torch.cat([problem.x, problem.grid])
    # draws are dealt to the members in turn, so draw s belongs to run s modulo R
    return posterior.draw(DRAWS * runs, seed=seed)(places).squeeze(2).double().reshape(DRAWS, runs, len(places))


def measure(problem: Problem, draws: Tensor) -> Measures:
    """What drawn functions (S, 407) of one run say."""
    count = len(problem.x)
    off = draws[:, :count].mean(0) - problem.y.squeeze(1).double()
    spread = draws.std(0)
    zones = (spread[:count], spread[count:][problem.gap], spread[count:][problem.outside])
    return Measures(float(off.square().mean().sqrt()), *(float(zone.mean()) for zone in zones))


def _claims(found: Mapping[str, list[Measures]]) -> dict[str, float]:
    sigmoid, relu = found[SIGMOID.name], found[RELU.name]
    return {
        "points": median(m.rmse for m in sigmoid),
        "between": median(m.gap / m.points for m in sigmoid),
        "outside": median(m.outside / m.points for m in sigmoid),
        "points-relu": median(m.rmse for m in relu),
        "outside-relu": median(m.outside / m.points for m in relu),
    }


def _table(found: Mapping[str, list[Measures]]) -> Table:
    columns = ("network", "runs", "RMSE at the points", "sd at the points", "sd between", "sd outside")
    rows: list[tuple[Cell, ...]] = []
    for name, runs in found.items():
        numbers = ([m.rmse for m in runs], [m.points for m in runs], [m.gap for m in runs], [m.outside for m in runs])
        rows.append((name, len(runs), *map(_text, numbers)))
    note = (
        "Median of the runs, with the least and the largest. sd: standard deviation of drawn functions, at the six "
        "points, between the inner ones (|x| <= 0.6), and outside (3 <= |x| <= 5)."
    )
    return Table("Distance and doubt", columns, tuple(rows), note)


def _text(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _figure(folder: Path, problem: Problem, drawn: Mapping[Entry, Tensor]) -> Figure:
    grid, truth = problem.grid.squeeze(1), curve(problem.grid).squeeze(1)
    with drawing(folder / "toy.png", 10.0, 4.4) as figure:
        for axes, (entry, draws) in zip(figure.subplots(1, 2, sharey=True), drawn.items(), strict=True):
            functions = draws[:, len(problem.x) :]
            mean, spread = functions.mean(0), functions.std(0)
            total, data = (spread.square() + NOISE**2).sqrt(), (problem.x, problem.y)
            predictive_band(
                axes, grid, mean, total, epistemic_stddev=spread, draws=functions[:8], data=data, truth=truth
            )
            axes.set(title=f"{entry.activation} units", xlabel="x", ylim=(-15, 15))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    caption = (
        "Six points, and what Bayes by Backprop believes between and beyond them. Sigmoid units are flat far out, and "
        "so is every drawn function: doubt grows between the points and not outside. With ReLU units it grows outside."
    )
    return Figure("toy.png", caption)


EXPERIMENT = Experiment.beside(__file__, run)
