"""credo: neural networks with error bars that can be trusted."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from credo import diagnostics, exact, likelihoods, metrics, nets, priors
from credo.core.optimizers import SGD, Adam, Constant, Cosine, StepDecay
from credo.core.rng import Stream
from credo.core.schedules import Cyclical, Geometric, Polynomial
from credo.core.storage import StorageError
from credo.core.trees import Params, Variables
from credo.fit import CredoWarning, fit
from credo.loop.batches import PerMember
from credo.loop.checkpoints import Checkpoint
from credo.methods import (
    HMC,
    MAP,
    MCLMC,
    NUTS,
    SGHMC,
    SGLD,
    AnnealedImportanceSampling,
    BayesByBackprop,
    BlackBoxVI,
    ConcreteDropout,
    DeepEnsemble,
    Ensemble,
    ImportanceSampling,
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
from credo.posteriors import Functions, Posterior, load
from credo.predictive import ClassPredictive, NumericPredictive, Predictive

if TYPE_CHECKING:
    from credo.estimators import BayesianClassifier, BayesianRegressor

__version__ = "0.1.0"

__all__ = [
    "HMC",
    "MAP",
    "MCLMC",
    "NUTS",
    "SGD",
    "SGHMC",
    "SGLD",
    "Adam",
    "AnnealedImportanceSampling",
    "Batch",
    "BayesByBackprop",
    "BayesianClassifier",
    "BayesianRegressor",
    "BlackBoxVI",
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
    "ImportanceSampling",
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
    "StepDecay",
    "StorageError",
    "Stream",
    "Target",
    "Variables",
    "VariationalDropout",
    "diagnostics",
    "exact",
    "fit",
    "likelihoods",
    "load",
    "metrics",
    "nets",
    "priors",
]


def __getattr__(name: str) -> Any:
    """The scikit-learn estimators, loaded when first asked for: the rest of credo does without scikit-learn."""
    if name in ("BayesianClassifier", "BayesianRegressor"):
        return getattr(import_module("credo.estimators"), name)
    raise AttributeError(f"module 'credo' has no attribute {name!r}")
