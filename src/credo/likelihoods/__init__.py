"""How the outputs of a network say what may be observed: Gaussian, Categorical, Bernoulli, Poisson."""

from credo.likelihoods.base import Likelihood, NumericLikelihood
from credo.likelihoods.bernoulli import Bernoulli
from credo.likelihoods.categorical import Categorical
from credo.likelihoods.gaussian import Gaussian, HeteroscedasticGaussian, LearnedGaussian
from credo.likelihoods.poisson import Poisson

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "HeteroscedasticGaussian",
    "LearnedGaussian",
    "Likelihood",
    "NumericLikelihood",
    "Poisson",
]
