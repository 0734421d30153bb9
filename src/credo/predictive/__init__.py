"""What the posterior believes about new targets: a mixture over drawn functions, or over normals of the outputs."""

from credo.predictive.base import (
    ClassMixture,
    ClassPredictive,
    NumericMixture,
    NumericPredictive,
    Predictive,
)
from credo.predictive.gaussian import (
    Approximation,
    GaussianClassPredictive,
    GaussianPredictive,
    LaplaceBridge,
    OutputNormal,
    Probit,
    gaussian_predictive,
)
from credo.predictive.heads import JointPredictive, predictive

__all__ = [
    "Approximation",
    "ClassMixture",
    "ClassPredictive",
    "GaussianClassPredictive",
    "GaussianPredictive",
    "JointPredictive",
    "LaplaceBridge",
    "NumericMixture",
    "NumericPredictive",
    "OutputNormal",
    "Predictive",
    "Probit",
    "gaussian_predictive",
    "predictive",
]
