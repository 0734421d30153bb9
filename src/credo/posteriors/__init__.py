"""What is believed after the data: weighted draws, normal weights, or a network with dropout left on."""

from credo.posteriors.base import Posterior
from credo.posteriors.calibrated import Calibrated
from credo.posteriors.chains import Chains
from credo.posteriors.draws import Draws
from credo.posteriors.dropout import Dropout
from credo.posteriors.functions import Functions, NetworkFunctions
from credo.posteriors.gaussian import DiagonalGaussian
from credo.posteriors.laplace import LaplaceGaussian, PredictionFrom
from credo.posteriors.loading import load
from credo.posteriors.low_rank import LowRankGaussian
from credo.posteriors.unit_noise import UnitNoise
from credo.posteriors.weighted import Evidence, Weighted

__all__ = [
    "Calibrated",
    "Chains",
    "DiagonalGaussian",
    "Draws",
    "Dropout",
    "Evidence",
    "Functions",
    "LaplaceGaussian",
    "LowRankGaussian",
    "NetworkFunctions",
    "Posterior",
    "PredictionFrom",
    "UnitNoise",
    "Weighted",
    "load",
]
