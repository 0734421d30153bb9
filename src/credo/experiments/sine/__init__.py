"""The sine of the TEK5040 assignment: what several methods believe where there are data, and where there are none."""

from __future__ import annotations

from pathlib import Path

from credo.core.threads import one_thread
from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.sine.figures import draw_all
from credo.experiments.sine.measure import (
    REPEATED,
    claims,
    comparison_table,
    fitted,
    measures_of_runs,
    repeated,
    runs_table,
    spread_of,
)
from credo.experiments.sine.problem import SineProblem, setups


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Fit all methods, repeat some, draw the figures, measure the claims."""
    problem, table = SineProblem.of(seed), setups(size)
    with one_thread():
        results = {setup.name: fitted(problem, setup, seed, progress) for setup in table}
        draws = {setup: repeated(problem, setup, seed, progress) for setup in table if setup.name in REPEATED}
    progress.say("drawing figures")
    spreads = {setup: spread_of(each) for setup, each in draws.items()}
    figures = draw_all(folder, problem, list(results.values()), spreads)
    runs = {setup: measures_of_runs(problem, each) for setup, each in draws.items()}
    return Outcome(claims(results, runs), (comparison_table(results), runs_table(runs)), figures)


EXPERIMENT = Experiment.beside(__file__, run)
