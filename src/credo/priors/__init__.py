"""What is believed about the weights before any data: Normal, ScaleMixture, Laplace, StudentT."""

from credo.priors.base import ElementwisePrior, Prior
from credo.priors.laplace import Laplace
from credo.priors.normal import Normal
from credo.priors.scale_mixture import ScaleMixture
from credo.priors.student_t import StudentT

__all__ = ["ElementwisePrior", "Laplace", "Normal", "Prior", "ScaleMixture", "StudentT"]
