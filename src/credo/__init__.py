"""credo: neural networks with error bars that can be trusted."""

# ruff: noqa: TC004 (the names are loaded when first asked for)

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from credo import calibration, diagnostics, exact, generative, likelihoods, metrics, nets, priors, uncertainty
    from credo.core.inputs import Graph
    from credo.core.optimizers import SGD, Adam, Constant, Cosine, StepDecay
    from credo.core.rng import Stream
    from credo.core.schedules import Cyclical, Geometric, Polynomial
    from credo.core.status import Status
    from credo.core.storage import StorageError
    from credo.core.trees import Params, Variables
    from credo.estimators import BayesianClassifier, BayesianRegressor
    from credo.fit import CredoWarning, fit
    from credo.loop.checkpoints import Checkpoint
    from credo.loop.class_weights import class_weights
    from credo.loop.roles import PerMember
    from credo.methods import (
        HMC,
        MAMS,
        MAP,
        MCLMC,
        NUTS,
        SGHMC,
        SGLD,
        SWAG,
        AnnealedImportanceSampling,
        BayesByBackprop,
        BlackBoxVI,
        ConcreteDropout,
        DeepEnsemble,
        Ensemble,
        ImportanceSampling,
        Laplace,
        MaximumLikelihood,
        MCDropout,
        Method,
        Metropolis,
        RMSPreconditioner,
        SimulatedAnnealing,
        SparseVariationalDropout,
        VariationalDropout,
    )
    from credo.model import Batch, Model, Target
    from credo.nets.plan import Plan
    from credo.posteriors import Calibrated, Functions, Posterior, load
    from credo.predictive import ClassPredictive, NumericPredictive, Predictive

__version__ = "0.1.0"

__all__ = [
    "HMC",
    "MAMS",
    "MAP",
    "MCLMC",
    "NUTS",
    "SGD",
    "SGHMC",
    "SGLD",
    "SWAG",
    "Adam",
    "AnnealedImportanceSampling",
    "Batch",
    "BayesByBackprop",
    "BayesianClassifier",
    "BayesianRegressor",
    "BlackBoxVI",
    "Calibrated",
    "Checkpoint",
    "ClassPredictive",
    "ConcreteDropout",
    "Constant",
    "Cosine",
    "CredoWarning",
    "Cyclical",
    "DeepEnsemble",
    "Ensemble",
    "Functions",
    "Geometric",
    "Graph",
    "ImportanceSampling",
    "Laplace",
    "MCDropout",
    "MaximumLikelihood",
    "Method",
    "Metropolis",
    "Model",
    "NumericPredictive",
    "Params",
    "PerMember",
    "Plan",
    "Polynomial",
    "Posterior",
    "Predictive",
    "RMSPreconditioner",
    "SimulatedAnnealing",
    "SparseVariationalDropout",
    "Status",
    "StepDecay",
    "StorageError",
    "Stream",
    "Target",
    "Variables",
    "VariationalDropout",
    "calibration",
    "class_weights",
    "diagnostics",
    "exact",
    "fit",
    "generative",
    "likelihoods",
    "load",
    "metrics",
    "nets",
    "priors",
    "uncertainty",
]

_ELSEWHERE = {
    "core.inputs": ("Graph",),
    "core.optimizers": ("SGD", "Adam", "Constant", "Cosine", "StepDecay"),
    "core.rng": ("Stream",),
    "core.schedules": ("Cyclical", "Geometric", "Polynomial"),
    "core.status": ("Status",),
    "core.storage": ("StorageError",),
    "core.trees": ("Params", "Variables"),
    "estimators": ("BayesianClassifier", "BayesianRegressor"),
    "fit": ("CredoWarning", "fit"),
    "loop.checkpoints": ("Checkpoint",),
    "loop.class_weights": ("class_weights",),
    "loop.roles": ("PerMember",),
    "model": ("Batch", "Model", "Target"),
    "nets.plan": ("Plan",),
    "posteriors": ("Calibrated", "Functions", "Posterior", "load"),
    "predictive": ("ClassPredictive", "NumericPredictive", "Predictive"),
}
"""Where names live that are neither methods nor modules of their own."""
_MODULES = (
    "calibration",
    "diagnostics",
    "exact",
    "generative",
    "likelihoods",
    "metrics",
    "nets",
    "priors",
    "uncertainty",
)


class _Package(ModuleType):
    """The package: names are loaded when first asked for, so that `credo --help` need not wait for torch."""

    def __getattr__(self, name: str) -> Any:
        if name in _MODULES:
            return import_module(f"credo.{name}")
        if name not in __all__:
            raise AttributeError(f"module 'credo' has no attribute {name!r}")
        home = next((module for module, names in _ELSEWHERE.items() if name in names), "methods")
        value = getattr(import_module(f"credo.{home}"), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # importing the module credo.fit binds it to the name `fit` of its package, which is the function's
        if name == "fit" and isinstance(value, ModuleType):
            value = value.fit
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


if not TYPE_CHECKING:
    sys.modules[__name__].__class__ = _Package
