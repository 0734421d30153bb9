"""The coin of the week-8 lecture: prior, likelihood and posterior, by sums and in closed form."""

from __future__ import annotations

from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.coin.figures import beliefs_figure, tosses_figure
from credo.experiments.coin.measure import examples, measured, table
from credo.experiments.coin.problem import TOSSES, after


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Compare the closed form with the grid; nothing here is random, so the seed changes nothing."""
    progress.say("the posterior in closed form and on a grid")
    points = 1000 if size is Size.FULL else 200
    grids = {name: coin.grid(points) for name, coin in examples().items()}
    progress.say("drawing figures")
    figures = (beliefs_figure(folder, examples()), tosses_figure(folder, [after(n) for n in TOSSES]))
    return Outcome(measured(grids), (table(grids),), figures)


EXPERIMENT = Experiment.beside(__file__, run)
