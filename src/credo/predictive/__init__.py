"""What the posterior believes about new targets: a mixture over drawn functions, or over normals of the outputs."""

from credo.predictive.base import Predictive
from credo.predictive.classes import ClassMixture, ClassPredictive
from credo.predictive.gaussian import (
    Approximation,
    GaussianClassPredictive,
    GaussianPredictive,
    LaplaceBridge,
    OutputNormal,
    Probit,
    gaussian_predictive,
)
from credo.predictive.gaussian_heads import GaussianJointPredictive, is_in_closed_form, normal_predictive
from credo.predictive.heads import JointMixture, JointPredictive, predictive
from credo.predictive.numbers import NumericMixture, NumericPredictive

__all__ = [
    "Approximation",
    "ClassMixture",
    "ClassPredictive",
    "GaussianClassPredictive",
    "GaussianJointPredictive",
    "GaussianPredictive",
    "JointMixture",
    "JointPredictive",
    "LaplaceBridge",
    "NumericMixture",
    "NumericPredictive",
    "OutputNormal",
    "Predictive",
    "Probit",
    "gaussian_predictive",
    "is_in_closed_form",
    "normal_predictive",
    "predictive",
]
