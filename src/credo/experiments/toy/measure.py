"""Where drawn functions of the six-point curve lie, and how far apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

import credo
from credo.experiments.base import Cell, Progress, Size, Table, uninterrupted
from credo.experiments.toy.problem import RELU, SIGMOID, ToyProblem, ToySetup

RUNS = {Size.QUICK: 4, Size.FULL: 10}
DRAWS = 200
"""Of each run."""


@dataclass(frozen=True)
class ToyMeasures:
    """Of one run: distance of the mean from the six points, and the standard deviation of drawn functions by zone."""

    rmse: float
    points: float
    gap: float
    outside: float


def drawn(problem: ToyProblem, setup: ToySetup, runs: int, seed: int, progress: Progress) -> Tensor:
    """Outputs of the drawn functions of each run at the six points and the grid, (S, R, 407)."""
    method, listener = credo.Ensemble(setup.method, runs), progress.of(f"{setup.name}, {runs} runs at once")
    fitted = credo.fit(setup.model, (problem.x, problem.y), method, seed=seed, progress=listener)
    posterior = uninterrupted(fitted, runs)
    places = torch.cat([problem.x, problem.grid])
    # draws are dealt to the members in turn, so draw s belongs to run s modulo R
    return posterior.draw(DRAWS * runs, seed=seed)(places).squeeze(2).double().reshape(DRAWS, runs, len(places))


def measure(problem: ToyProblem, draws: Tensor) -> ToyMeasures:
    """What drawn functions (S, 407) of one run say."""
    count = len(problem.x)
    off = draws[:, :count].mean(0) - problem.y.squeeze(1).double()
    spread = draws.std(0)
    zones = (spread[:count], spread[count:][problem.gap], spread[count:][problem.outside])
    return ToyMeasures(float(off.square().mean().sqrt()), *(float(zone.mean()) for zone in zones))


def claims(found: Mapping[str, list[ToyMeasures]]) -> dict[str, float]:
    """What claims may be about."""
    sigmoid, relu = found[SIGMOID.name], found[RELU.name]
    return {
        "points": median(m.rmse for m in sigmoid),
        "between": median(m.gap / m.points for m in sigmoid),
        "outside": median(m.outside / m.points for m in sigmoid),
        "points-relu": median(m.rmse for m in relu),
        "outside-relu": median(m.outside / m.points for m in relu),
    }


def table(found: Mapping[str, list[ToyMeasures]]) -> Table:
    """One row per network."""
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
