"""credo: neural networks with error bars that can be trusted."""

from credo import likelihoods, nets, priors
from credo.core.optimizers import SGD, Adam, Constant, Cosine, StepDecay
from credo.core.rng import Stream
from credo.core.storage import StorageError
from credo.core.trees import Params, Variables
from credo.fit import CredoWarning, fit
from credo.loop.batches import PerMember
from credo.loop.checkpoints import Checkpoint
from credo.methods import MAP, BayesByBackprop, DeepEnsemble, Ensemble, MaximumLikelihood, MCDropout, Method
from credo.model import Batch, Model, Target
from credo.nets.plan import Plan
from credo.posteriors import Functions, Posterior, load
from credo.predictive import ClassPredictive, NumericPredictive, Predictive

__version__ = "0.1.0"

__all__ = [
    "MAP",
    "SGD",
    "Adam",
    "Batch",
    "BayesByBackprop",
    "Checkpoint",
    "ClassPredictive",
    "Constant",
    "Cosine",
    "CredoWarning",
    "DeepEnsemble",
    "Ensemble",
    "Functions",
    "MCDropout",
    "MaximumLikelihood",
    "Method",
    "Model",
    "NumericPredictive",
    "Params",
    "PerMember",
    "Plan",
    "Posterior",
    "Predictive",
    "StepDecay",
    "StorageError",
    "Stream",
    "Target",
    "Variables",
    "fit",
    "likelihoods",
    "load",
    "nets",
    "priors",
]
