"""The numbers of the line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from credo.core.optimizers import Cosine
from credo.core.rng import Stream
from credo.core.trees import ravel
from credo.exact import Grid, LinearRegression, midpoints, with_intercept
from credo.experiments.base import Outcome, Progress, Size, uninterrupted
from credo.experiments.line.figures import mean_field_figure, posterior_figure, prediction_figure
from credo.experiments.line.problem import HALF_95, INTERCEPT, NOISE, SHIFT, SLOPE, X, Y, network, regression
from credo.experiments.line.tables import Scores, fits_table, mean_field_table, prediction_table, scores_table
from credo.fit import fit
from credo.methods import MAP, BayesByBackprop, Ensemble
from credo.posteriors import DiagonalGaussian

FAR, CENTRE = 5.0, 0.0
"""Inputs away from the data, at the edge of the notebook's pictures, and in their middle."""


@dataclass(frozen=True)
class Effort:
    """What a size means here.

    Attributes:
        points: of the grid, along each axis.
        epochs: of Bayes by Backprop.
        members: independent runs of it, whose average is free of most of its noise.
        data_sets: on which the maximum-likelihood fit and the average over fits are compared.
    """

    points: int
    epochs: int
    members: int
    data_sets: int


EFFORTS = {Size.QUICK: Effort(80, 1500, 64, 1000), Size.FULL: Effort(300, 2500, 256, 4000)}


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
        **_exact_numbers(exact, grid),
        "map_error": float(((found - exact.posterior.mean) / exact.posterior.scale).abs().max()),
        "averaging_gain": average.log_score - best.log_score,
        "averaging_coverage": average.coverage,
        "best_fit_coverage": best.coverage,
        **_variational_numbers(shifted, means, scales),
    }
    return Outcome(measured, tables, figures)


def axes_around(model: LinearRegression, points: int, reach: float = 7.0) -> tuple[Tensor, Tensor]:
    """Axes for slope and intercept that reach so many posterior standard deviations to either side."""
    mean, scale = model.posterior.mean, model.posterior.scale
    low, high = (mean - reach * scale).tolist(), (mean + reach * scale).tolist()
    return midpoints(low[0], high[0], points), midpoints(low[1], high[1], points)


def maximum_a_posteriori(seed: int, progress: Progress) -> Tensor:
    """Slope and intercept, (2,), that `credo.fit` finds by gradient steps."""
    method = MAP(epochs=1000, learning_rate=0.1, batch_size=None, schedule=Cosine())
    told = progress.of("maximum a posteriori")
    posterior = fit(network(), (X.unsqueeze(1), Y.unsqueeze(1)), method, seed=seed, progress=told)
    return ravel(uninterrupted(posterior).point().params)[0].double()


def bayes_by_backprop(effort: Effort, seed: int, progress: Progress) -> tuple[Tensor, Tensor]:
    """Means and standard deviations of slope and intercept, (M, 2) each, from M runs on the shifted data."""
    alone = BayesByBackprop(
        epochs=effort.epochs, learning_rate=0.3, batch_size=None, initial_scale=1.0, schedule=Cosine()
    )
    data = ((X + SHIFT).unsqueeze(1), Y.unsqueeze(1))
    told = progress.of(f"Bayes by Backprop, {effort.members} runs at once")
    posterior = uninterrupted(fit(network(), data, Ensemble(alone, effort.members), seed=seed, progress=told))
    if not isinstance(posterior, DiagonalGaussian):
        raise TypeError(f"Bayes by Backprop gave a {type(posterior).__name__}, not a DiagonalGaussian")
    return ravel(posterior.mean.params).double(), ravel(posterior.scale).double()


def compare(data_sets: int, noise: Stream) -> tuple[Scores, Scores]:
    """The maximum-likelihood fit and the average over fits, on new data sets of four points from the true line.

    The score of a prediction is its expected log density at a new y, and its coverage the chance that a new y falls
    into its 95 % interval; both are exact expectations over y, at inputs evenly spread over the pictures.
    """
    design = with_intercept(torch.linspace(-FAR, FAR, 101, dtype=torch.float64))
    truth = design @ torch.tensor([SLOPE, INTERCEPT], dtype=torch.float64)
    line = with_intercept(X) @ torch.tensor([SLOPE, INTERCEPT], dtype=torch.float64)
    errors = NOISE * noise.normal(data_sets, len(X), dtype=torch.float64)
    models = [regression(X, line + error) for error in errors]
    best = torch.stack([design @ model.maximum_likelihood for model in models])
    predictions = [model.predict(design) for model in models]
    mean = torch.stack([p.mean.squeeze(1) for p in predictions])
    stddev = torch.stack([p.stddev.squeeze(1) for p in predictions])
    return _scores(truth, best, torch.full_like(best, NOISE)), _scores(truth, mean, stddev)


def _scores(truth: Tensor, mean: Tensor, stddev: Tensor) -> Scores:
    """Expectations over y ~ N(truth, NOISE^2) for predictions N(mean, stddev^2), (data sets, inputs) each."""
    squares = ((mean - truth).square() + NOISE**2) / stddev.square()
    log_score = -0.5 * squares - stddev.log() - 0.5 * math.log(2 * math.pi)
    half = HALF_95 * stddev
    above, below = (torch.special.ndtr((mean + side * half - truth) / NOISE) for side in (1, -1))
    each = log_score.mean(1)
    error = float(each.std() / math.sqrt(len(each)))
    return Scores(float(each.mean()), error, float((above - below).mean()))


def _exact_numbers(exact: LinearRegression, grid: Grid) -> dict[str, float]:
    slope, intercept = exact.maximum_likelihood.tolist()
    density = exact.posterior.log_prob(grid.points).exp()
    at = exact.predict(with_intercept([CENTRE, FAR])).stddev.squeeze(1)
    by_grid = exact.predict_by_grid(grid, with_intercept([CENTRE, FAR])).stddev.squeeze(1)
    return {
        "maximum_likelihood_slope": slope,
        "maximum_likelihood_intercept": intercept,
        "grid_density_error": float((grid.posterior - density).abs().max() / density.max()),
        "grid_prediction_error": float((by_grid / at - 1).abs().max()),
        "wider_away": float(at[1] / at[0]),
    }


def _variational_numbers(shifted: LinearRegression, means: Tensor, scales: Tensor) -> dict[str, float]:
    slope, intercept = (scales.mean(0) / shifted.mean_field.scale).tolist()
    off = (means.mean(0) - shifted.posterior.mean) / shifted.mean_field.scale
    return {
        "variational_mean_error": float(off.abs().max()),
        "variational_slope_ratio": slope,
        "variational_intercept_ratio": intercept,
        "variational_marginal_ratio": float((scales.mean(0) / shifted.posterior.scale).max()),
    }
