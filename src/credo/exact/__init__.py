"""Models whose posterior is known in closed form: the ground truth that every approximate method is held to."""

from credo.exact.coin import Coin
from credo.exact.gaussian import GaussianWeights
from credo.exact.grid import Grid, midpoints
from credo.exact.linear import LinearRegression, with_intercept
from credo.exact.predictives import MixturePredictive, NormalPredictive
from credo.exact.unknown_noise import NormalInverseGamma

__all__ = [
    "Coin",
    "GaussianWeights",
    "Grid",
    "LinearRegression",
    "MixturePredictive",
    "NormalInverseGamma",
    "NormalPredictive",
    "midpoints",
    "with_intercept",
]
