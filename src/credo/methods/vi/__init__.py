"""Variational inference: the closest member of a family to the posterior."""

from credo.methods.vi.bayes_by_backprop import BayesByBackprop
from credo.methods.vi.black_box import BlackBoxVI
from credo.methods.vi.estimators import Estimator, Reparameterization
from credo.methods.vi.flipout import Flipout
from credo.methods.vi.initializers import ConstantInit, Initializer, NormalInit, UniformInit
from credo.methods.vi.local import LocalReparameterization
from credo.methods.vi.objective import BatchWeights, EvenWeights, GeometricWeights, WarmUp, elbo

__all__ = [
    "BatchWeights",
    "BayesByBackprop",
    "BlackBoxVI",
    "ConstantInit",
    "Estimator",
    "EvenWeights",
    "Flipout",
    "GeometricWeights",
    "Initializer",
    "LocalReparameterization",
    "NormalInit",
    "Reparameterization",
    "UniformInit",
    "WarmUp",
    "elbo",
]
