"""How the outputs of a network say what may be observed: Gaussian, Categorical, Bernoulli, Poisson."""

from credo.likelihoods.base import ClassLikelihood, Likelihood, NumericLikelihood
from credo.likelihoods.classes import Bernoulli, Categorical
from credo.likelihoods.gaussian import Gaussian, HeteroscedasticGaussian, LearnedGaussian
from credo.likelihoods.poisson import Poisson

__all__ = [
    "Bernoulli",
    "Categorical",
    "ClassLikelihood",
    "Gaussian",
    "HeteroscedasticGaussian",
    "LearnedGaussian",
    "Likelihood",
    "NumericLikelihood",
    "Poisson",
]
