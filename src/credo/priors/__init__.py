"""What is believed about the weights before any data: Normal, ScaleMixture, Laplace, StudentT, LogUniform."""

from credo.priors.base import ElementwisePrior, Prior
from credo.priors.heavy_tailed import Laplace, StudentT
from credo.priors.log_uniform import LogUniform
from credo.priors.normal import Normal
from credo.priors.scale_mixture import ScaleMixture

__all__ = ["ElementwisePrior", "Laplace", "LogUniform", "Normal", "Prior", "ScaleMixture", "StudentT"]
