"""Ways from data to a posterior. One algorithm, one module; `base` says what a method is."""

from credo.methods.base import Info, Method, State, Tick
from credo.methods.dropout.concrete import ConcreteDropout
from credo.methods.dropout.mc import MCDropout
from credo.methods.dropout.variational import SparseVariationalDropout, VariationalDropout
from credo.methods.ensemble import DeepEnsemble, Ensemble
from credo.methods.point import MAP, MaximumLikelihood
from credo.methods.vi.bayes_by_backprop import BayesByBackprop
from credo.methods.vi.black_box import BlackBoxVI

__all__ = [
    "MAP",
    "BayesByBackprop",
    "BlackBoxVI",
    "ConcreteDropout",
    "DeepEnsemble",
    "Ensemble",
    "Info",
    "MCDropout",
    "MaximumLikelihood",
    "Method",
    "SparseVariationalDropout",
    "State",
    "Tick",
    "VariationalDropout",
]
