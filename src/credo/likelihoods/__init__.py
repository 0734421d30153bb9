"""How the outputs of a network say what may be observed: numbers, counts, classes, gray values."""

from credo.likelihoods.arms import ChosenArm
from credo.likelihoods.base import ClassLikelihood, Likelihood, NumericLikelihood
from credo.likelihoods.classes import Bernoulli, Categorical
from credo.likelihoods.continuous_bernoulli import ContinuousBernoulli
from credo.likelihoods.gaussian import Gaussian, HeteroscedasticGaussian, LearnedGaussian, SharedGaussian
from credo.likelihoods.gray import BinarizedBernoulli, GrayCrossEntropy
from credo.likelihoods.joint import Head, Joint
from credo.likelihoods.log_normal import LogNormal
from credo.likelihoods.multivariate import MultivariateGaussian
from credo.likelihoods.negative_binomial import NegativeBinomial
from credo.likelihoods.poisson import Poisson
from credo.likelihoods.positions import ClassesAtPositions, NumbersAtPositions, at_positions
from credo.likelihoods.standardized import Standardized
from credo.likelihoods.student import HeteroscedasticStudentT

__all__ = [
    "Bernoulli",
    "BinarizedBernoulli",
    "Categorical",
    "ChosenArm",
    "ClassLikelihood",
    "ClassesAtPositions",
    "ContinuousBernoulli",
    "Gaussian",
    "GrayCrossEntropy",
    "Head",
    "HeteroscedasticGaussian",
    "HeteroscedasticStudentT",
    "Joint",
    "LearnedGaussian",
    "Likelihood",
    "LogNormal",
    "MultivariateGaussian",
    "NegativeBinomial",
    "NumbersAtPositions",
    "NumericLikelihood",
    "Poisson",
    "SharedGaussian",
    "Standardized",
    "at_positions",
]
