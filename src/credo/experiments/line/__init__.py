"""The line of the week-8 notebook: averaging over all lines instead of choosing one."""

from __future__ import annotations

from pathlib import Path

from credo.core.rng import Stream
from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.line.figures import mean_field_figure, posterior_figure, prediction_figure
from credo.experiments.line.measure import (
    EFFORTS,
    axes_around,
    bayes_by_backprop,
    compare,
    exact_numbers,
    fits_table,
    maximum_a_posteriori,
    mean_field_table,
    prediction_table,
    scores_table,
    variational_numbers,
)
from credo.experiments.line.problem import SHIFT, X, Y, regression


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Grid, closed form and credo's methods on the lecture's line."""
    effort = EFFORTS[size]
    exact, shifted = regression(X, Y), regression(X + SHIFT, Y)
    progress.say("the posterior in closed form and on a grid")
    grid = exact.grid(axes_around(exact, effort.points))
    found = maximum_a_posteriori(seed, progress)
    means, scales = bayes_by_backprop(effort, seed, progress)
    progress.say("maximum likelihood against the average over fits")
    best, average = compare(effort.data_sets, Stream(seed, ("line", "data sets")))
    progress.say("drawing figures")
    figures = (
        posterior_figure(folder, exact, exact.grid(axes_around(exact, 40, 4.0))),
        prediction_figure(folder, exact, Stream(seed, ("line", "draws"))),
        mean_field_figure(folder, shifted, means.mean(0), scales.mean(0)),
    )
    tables = (
        fits_table(exact, grid, found),
        prediction_table(exact, grid),
        scores_table(best, average),
        mean_field_table(shifted, means, scales),
    )
    measured = {
        **exact_numbers(exact, grid),
        "map_error": float(((found - exact.posterior.mean) / exact.posterior.scale).abs().max()),
        "averaging_gain": average.log_score - best.log_score,
        "averaging_coverage": average.coverage,
        "best_fit_coverage": best.coverage,
        **variational_numbers(shifted, means, scales),
    }
    return Outcome(measured, tables, figures)


EXPERIMENT = Experiment.beside(__file__, run)
