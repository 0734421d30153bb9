"""Variational inference: the closest member of a family to the posterior."""

from credo.methods.vi.bayes_by_backprop import BayesByBackprop
from credo.methods.vi.black_box import BlackBoxVI
from credo.methods.vi.estimators import Estimator
from credo.methods.vi.flipout import Flipout
from credo.methods.vi.local import LocalReparameterization
from credo.methods.vi.reparameterization import Reparameterization
from credo.methods.vi.starts import At, Between, Scattered, Start
from credo.methods.vi.weighting import BatchWeights, EvenWeights, GeometricWeights, WarmUp

__all__ = [
    "At",
    "BatchWeights",
    "BayesByBackprop",
    "Between",
    "BlackBoxVI",
    "Estimator",
    "EvenWeights",
    "Flipout",
    "GeometricWeights",
    "LocalReparameterization",
    "Reparameterization",
    "Scattered",
    "Start",
    "WarmUp",
]
