"""The numbers of the line, and their tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.optimizers import Cosine
from credo.core.rng import Stream
from credo.core.trees import ravel
from credo.exact import Grid, LinearRegression, midpoints, with_intercept
from credo.experiments.base import Progress, Size, Table, uninterrupted
from credo.experiments.line.problem import HALF_95, INTERCEPT, NOISE, SHIFT, SLOPE, X, Y, network, regression
from credo.fit import fit
from credo.methods import MAP, BayesByBackprop, Ensemble
from credo.posteriors import DiagonalGaussian

WEIGHTS = ("slope", "intercept")
INPUTS = (-5.0, -2.0, 0.0, 2.0, 5.0)


@dataclass(frozen=True)
class AverageScores:
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


def scores_table(best: AverageScores, average: AverageScores) -> Table:
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
        f"best factorized normal falls short of the log evidence by {shifted.mean_field_gap:.3f} nats."
    )
    return Table("The known error of a factorized posterior", columns, tuple(rows), note)


FAR, CENTER = 5.0, 0.0
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


def axes_around(model: LinearRegression, points: int, reach: float = 7.0) -> tuple[Tensor, Tensor]:
    """Axes for slope and intercept that reach so many posterior standard deviations to either side."""
    mean, scale = model.posterior.mean, model.posterior.scale
    low, high = (mean - reach * scale).tolist(), (mean + reach * scale).tolist()
    return midpoints(low[0], high[0], points), midpoints(low[1], high[1], points)


def maximum_a_posteriori(seed: int, progress: Progress) -> Tensor:
    """Slope and intercept, (2,), that `credo.fit` finds by gradient steps."""
    method = MAP(epochs=1000, learning_rate=0.1, batch_size=None, schedule=Cosine())
    listener = progress.of("maximum a posteriori")
    posterior = fit(network(), (X.unsqueeze(1), Y.unsqueeze(1)), method, seed=seed, progress=listener)
    return ravel(uninterrupted(posterior).members().params)[0].double()


def bayes_by_backprop(effort: Effort, seed: int, progress: Progress) -> tuple[Tensor, Tensor]:
    """Means and standard deviations of slope and intercept, (M, 2) each, from M runs on the shifted data."""
    alone = BayesByBackprop(
        epochs=effort.epochs, learning_rate=0.3, batch_size=None, initial_scale=1.0, schedule=Cosine()
    )
    data = ((X + SHIFT).unsqueeze(1), Y.unsqueeze(1))
    listener = progress.of(f"Bayes by Backprop, {effort.members} runs at once")
    posterior = uninterrupted(fit(network(), data, Ensemble(alone, effort.members), seed=seed, progress=listener))
    if not isinstance(posterior, DiagonalGaussian):
        raise TypeError(f"Bayes by Backprop gave a {type(posterior).__name__}, not a DiagonalGaussian")
    return ravel(posterior.mean.params).double(), ravel(posterior.scale).double()


def compare(data_sets: int, rng: Stream) -> tuple[AverageScores, AverageScores]:
    """The maximum-likelihood fit and the average over fits, on new data sets of four points from the true line.

    The score of a prediction is its expected log density at a new y, and its coverage the chance that a new y falls
    into its 95 % interval; both are exact expectations over y, at inputs evenly spread over the pictures.
    """
    design = with_intercept(torch.linspace(-FAR, FAR, 101, dtype=torch.float64))
    truth = design @ torch.tensor([SLOPE, INTERCEPT], dtype=torch.float64)
    line = with_intercept(X) @ torch.tensor([SLOPE, INTERCEPT], dtype=torch.float64)
    errors = NOISE * rng.normal(data_sets, len(X), dtype=torch.float64)
    models = [regression(X, line + error) for error in errors]
    best = torch.stack([design @ model.maximum_likelihood for model in models])
    predictions = [model.predict(design) for model in models]
    mean = torch.stack([p.mean.squeeze(1) for p in predictions])
    stddev = torch.stack([p.stddev.squeeze(1) for p in predictions])
    return _scores(truth, best, torch.full_like(best, NOISE)), _scores(truth, mean, stddev)


def _scores(truth: Tensor, mean: Tensor, stddev: Tensor) -> AverageScores:
    """Expectations over y ~ N(truth, NOISE^2) for predictions N(mean, stddev^2), (data sets, inputs) each."""
    squares = ((mean - truth).square() + NOISE**2) / stddev.square()
    log_score = -0.5 * squares - stddev.log() - 0.5 * math.log(2 * math.pi)
    half = HALF_95 * stddev
    above, below = (torch.special.ndtr((mean + side * half - truth) / NOISE) for side in (1, -1))
    each = log_score.mean(1)
    error = float(each.std() / math.sqrt(len(each)))
    return AverageScores(float(each.mean()), error, float((above - below).mean()))


def exact_numbers(exact: LinearRegression, grid: Grid) -> dict[str, float]:
    """The claims about the closed form and the grid."""
    slope, intercept = exact.maximum_likelihood.tolist()
    density = exact.posterior.log_prob(grid.points).exp()
    at = exact.predict(with_intercept([CENTER, FAR])).stddev.squeeze(1)
    by_grid = exact.predict_by_grid(grid, with_intercept([CENTER, FAR])).stddev.squeeze(1)
    return {
        "maximum_likelihood_slope": slope,
        "maximum_likelihood_intercept": intercept,
        "grid_density_error": float((grid.posterior - density).abs().max() / density.max()),
        "grid_prediction_error": float((by_grid / at - 1).abs().max()),
        "wider_away": float(at[1] / at[0]),
    }


def variational_numbers(shifted: LinearRegression, means: Tensor, scales: Tensor) -> dict[str, float]:
    """The claims about Bayes by Backprop on the shifted data."""
    slope, intercept = (scales.mean(0) / shifted.mean_field.scale).tolist()
    off = (means.mean(0) - shifted.posterior.mean) / shifted.mean_field.scale
    return {
        "variational_mean_error": float(off.abs().max()),
        "variational_slope_ratio": slope,
        "variational_intercept_ratio": intercept,
        "variational_marginal_ratio": float((scales.mean(0) / shifted.posterior.scale).max()),
    }
