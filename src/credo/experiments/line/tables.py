"""What a reader wants to see of the line in numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from credo.exact import Grid, LinearRegression, with_intercept
from credo.experiments.base import Table
from credo.experiments.line.problem import INTERCEPT, NOISE, SHIFT, SLOPE

WEIGHTS = ("slope", "intercept")
INPUTS = (-5.0, -2.0, 0.0, 2.0, 5.0)


@dataclass(frozen=True)
class Scores:
    """How good predictions are on average.

    Attributes:
        log_score: expected log density at a new y, in nats.
        error: its standard error over data sets.
        coverage: chance that a new y falls into the 95 % interval.
    """

    log_score: float
    error: float
    coverage: float


def fits_table(exact: LinearRegression, grid: Grid, found: Tensor) -> Table:
    """Slope and intercept, by every way there is."""
    columns = ("", "truth", "max. lik.", "mean", "by grid", "MAP", "std", "by grid")
    values = zip(
        WEIGHTS,
        (SLOPE, INTERCEPT),
        exact.maximum_likelihood.tolist(),
        exact.posterior.mean.tolist(),
        grid.mean.tolist(),
        found.tolist(),
        exact.posterior.scale.tolist(),
        grid.covariance.diagonal().sqrt().tolist(),
        strict=True,
    )
    note = f"Known noise of {NOISE:g}. Posterior mean and std: closed form; MAP: credo.fit by gradient steps."
    return Table("Slope and intercept from four points", columns, tuple(values), note)


def prediction_table(exact: LinearRegression, grid: Grid) -> Table:
    """Predictions near and far."""
    design = with_intercept(list(INPUTS))
    prediction, by_grid = exact.predict(design), exact.predict_by_grid(grid, design)
    rows = zip(
        INPUTS,
        (design @ exact.maximum_likelihood).tolist(),
        prediction.mean.squeeze(1).tolist(),
        prediction.stddev.squeeze(1).tolist(),
        by_grid.stddev.squeeze(1).tolist(),
        prediction.epistemic.sqrt().squeeze(1).tolist(),
        prediction.aleatoric.sqrt().squeeze(1).tolist(),
        strict=True,
    )
    columns = ("x", "max. lik.", "mean", "std of y", "by grid", "epistemic", "aleatoric")
    note = f"The maximum-likelihood fit has the standard deviation {NOISE:g} everywhere; the data lie between -2 and 2."
    return Table("Prediction of y", columns, tuple(rows), note)


def scores_table(best: Scores, average: Scores) -> Table:
    """One fit against all fits."""
    rows = tuple(
        (name, scores.log_score, scores.error, 100 * scores.coverage)
        for name, scores in (("maximum-likelihood fit", best), ("average over all fits", average))
    )
    columns = ("prediction", "log score (nats)", "± s.e.", "coverage, % (95)")
    note = "New data sets of four points from the true line; inputs from -5 to 5; expectations over y are exact."
    return Table("One fit against the average over fits", columns, rows, note)


def mean_field_table(shifted: LinearRegression, means: Tensor, scales: Tensor) -> Table:
    """What Bayes by Backprop finds where slope and intercept depend on each other."""
    errors = (scales.std(0) / math.sqrt(len(scales))).tolist()
    rows = zip(
        WEIGHTS,
        shifted.posterior.mean.tolist(),
        means.mean(0).tolist(),
        shifted.posterior.scale.tolist(),
        shifted.mean_field.scale.tolist(),
        scales.mean(0).tolist(),
        errors,
        strict=True,
    )
    columns = ("", "exact mean", "BBB mean", "marginal std", "1/√prec.", "BBB std", "± s.e.")
    note = (
        f"The same points with {SHIFT:g} added to every x. BBB: Bayes by Backprop, average of {len(means)} runs. The "
        f"best factorised normal falls short of the log evidence by {shifted.mean_field_gap:.3f} nats."
    )
    return Table("The known error of a factorised posterior", columns, tuple(rows), note)
