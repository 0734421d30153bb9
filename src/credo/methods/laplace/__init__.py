"""Laplace's method: normal weights around a mode, by its curvature."""

from credo.methods.laplace.curvature import Curvature, EmpiricalFisher, GaussNewton, Hessian
from credo.methods.laplace.method import Laplace, PrecisionFrom
from credo.methods.laplace.sharing import WeightSharing
from credo.methods.laplace.structures import DenseCurvature, DiagonalCurvature, KroneckerCurvature, Structure

__all__ = [
    "Curvature",
    "DenseCurvature",
    "DiagonalCurvature",
    "EmpiricalFisher",
    "GaussNewton",
    "Hessian",
    "KroneckerCurvature",
    "Laplace",
    "PrecisionFrom",
    "Structure",
    "WeightSharing",
]
