"""The hacker's way against the exact way."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.exact import Coin, GaussianWeights, Grid, LinearRegression, midpoints, with_intercept

F64 = torch.float64


def line() -> LinearRegression:
    x = torch.linspace(-2.0, 5.0, 8, dtype=F64)
    y = 2.0 * x + 1.0 + 3.0 * Stream(0).normal(8, dtype=F64)
    return LinearRegression(with_intercept(x), y, 3.0, GaussianWeights.isotropic(2, 5.0))


def axes(model: LinearRegression, points: int = 161) -> tuple[Tensor, Tensor]:
    slope, intercept = (
        midpoints(float(m - 8 * s), float(m + 8 * s), points)
        for m, s in zip(model.posterior.mean, model.posterior.scale, strict=True)
    )
    return slope, intercept


def test_a_line_by_the_grid_agrees_with_the_exact_posterior() -> None:
    model = line()
    grid = model.grid(axes(model))
    torch.testing.assert_close(grid.mean, model.posterior.mean, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(grid.covariance, model.posterior.covariance, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(grid.posterior, model.posterior.log_prob(grid.points).exp(), rtol=1e-9, atol=1e-12)
    assert grid.edge_mass < 1e-10


def test_marginals_are_normal() -> None:
    model = line()
    grid = model.grid(axes(model))
    for k in (0, 1, -1):
        wanted = torch.distributions.Normal(model.posterior.mean[k], model.posterior.scale[k]).log_prob(grid.axes[k])
        torch.testing.assert_close(grid.marginal(k), wanted.exp(), rtol=1e-8, atol=1e-10)


def test_the_weighted_lines_predict_as_the_exact_posterior_does() -> None:
    model, design = line(), with_intercept([-15.0, 0.0, 15.0])
    by_grid, exact = model.predict_by_grid(model.grid(axes(model)), design), model.predict(design)
    y = torch.tensor([-20.0, 3.0, 40.0], dtype=F64)
    for name in ("mean", "epistemic", "aleatoric", "variance", "stddev"):
        torch.testing.assert_close(getattr(by_grid, name), getattr(exact, name), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(by_grid.log_prob(y), exact.log_prob(y), rtol=1e-9, atol=1e-9)
    mean_of_logs = by_grid.weights @ torch.distributions.Normal(by_grid.functions[..., 0], 3.0).log_prob(y)
    with pytest.raises(AssertionError):  # twin: a mean of logs
        torch.testing.assert_close(mean_of_logs, exact.log_prob(y), rtol=1e-9, atol=1e-9)


def test_without_a_prior_the_best_point_is_the_maximum_likelihood_line() -> None:
    model = line()
    wide = LinearRegression(model.design, model.y, 3.0, GaussianWeights.isotropic(2, 1e6))
    grid = wide.grid(axes(wide)).with_flat_prior()
    best = grid.points.flatten(0, 1)[grid.weights.argmax()]
    cells = torch.stack([axis[1] - axis[0] for axis in grid.axes])
    assert bool(((best - model.maximum_likelihood).abs() <= cells / 2 + 1e-12).all())
    torch.testing.assert_close(grid.mean, model.maximum_likelihood, rtol=1e-8, atol=1e-8)


def test_the_evidence_of_a_grid_that_holds_the_prior() -> None:
    model = line()
    wide = midpoints(-45.0, 45.0, 1201)  # nine standard deviations of the prior
    assert model.grid((wide, wide)).log_evidence == pytest.approx(model.log_evidence, abs=1e-9)


def test_a_grid_that_cuts_the_posterior_says_so() -> None:
    model = line()
    slope, intercept = model.posterior.mean.tolist()
    narrow = model.grid((midpoints(slope, slope + 0.5, 20), midpoints(intercept - 9, intercept + 9, 60)))
    assert narrow.edge_mass > 0.01


def test_any_prior_will_do_on_a_grid() -> None:
    theta = midpoints(0.0, 1.0, 4000)
    triangle = (1 - (2 * theta - 1).abs()).log()
    grid = Grid((theta,), triangle, Coin(1, 0).log_likelihood(theta))
    assert float(grid.mean) == pytest.approx(7 / 12, abs=1e-6)  # E[theta^2] / E[theta] of the triangle
    assert grid.log_evidence == pytest.approx(math.log(0.5), abs=1e-6)
    assert float(grid.likelihood.max()) == 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1.0, 0.0, 5), "lower must be below upper"),
        ((0.0, 1.0, 1), "points must be a whole number of at least 2"),
    ],
)
def test_bad_axes_are_refused(arguments: tuple[float, float, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        midpoints(*arguments)


def test_bad_grids_are_refused() -> None:
    theta, zeros = midpoints(0.0, 1.0, 5), torch.zeros(5)
    with pytest.raises(ValueError, match="axis 0 must be evenly spaced"):
        Grid((theta**2,), zeros, zeros)
    with pytest.raises(ValueError, match=r"log_prior has shape \(4,\), and the axes make a grid of shape \(5,\)"):
        Grid((theta,), zeros[:4], zeros)
    with pytest.raises(ValueError, match="zero at every point"):
        Grid((theta,), zeros, zeros - torch.inf)
    with pytest.raises(ValueError, match=r"1 axes were given for 2 weight\(s\)"):
        line().grid((theta,))
