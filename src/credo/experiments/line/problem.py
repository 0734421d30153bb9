"""Four points, a line, and known noise."""

from __future__ import annotations

import torch
from torch import Tensor

from credo.exact import GaussianWeights, LinearRegression, with_intercept
from credo.likelihoods import Gaussian as GaussianNoise
from credo.model import Model
from credo.nets import MLP
from credo.priors import Normal

SLOPE, INTERCEPT = 2.0, -1.0
"""The line behind the data."""

NOISE = 3.0
"""Standard deviation of y around the line, known to everyone."""

PRIOR_SCALE = 10.0
"""Standard deviation of slope and intercept before the data: wide beside what four points determine."""

X = torch.linspace(-2.0, 2.0, 4, dtype=torch.float64)
Y = torch.tensor([-6.25027354, -2.50213382, -6.07525495, 7.92081243], dtype=torch.float64)
"""The data of the notebook: the line at four inputs, plus noise from NumPy's generator with the seed 2."""

HALF_95 = 1.959963984540054
"""Standard deviations on either side of the mean that hold 95 % of a normal distribution."""

SHIFT = 3.0
"""Added to every x to make slope and intercept depend on each other: the same picture with another origin."""


def regression(x: Tensor, y: Tensor) -> LinearRegression:
    """The exact model of targets at inputs, (N,) each."""
    return LinearRegression(with_intercept(x), y, NOISE, GaussianWeights.isotropic(2, PRIOR_SCALE))


def network() -> Model:
    """The same statistical model as a network without hidden layers, for credo's methods."""
    return Model(MLP(1, 1, hidden=()), GaussianNoise(scale=NOISE), Normal(scale=PRIOR_SCALE))
