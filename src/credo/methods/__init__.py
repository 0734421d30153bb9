"""Ways from data to a posterior. One algorithm, one module; `base` says what a method is."""

from credo.methods.base import Info, Method, StartFrom, Tick
from credo.methods.dropout.concrete import ConcreteDropout
from credo.methods.dropout.mc import MCDropout
from credo.methods.dropout.variational import SparseVariationalDropout, VariationalDropout
from credo.methods.ensemble import DeepEnsemble, Ensemble
from credo.methods.laplace.method import Laplace
from credo.methods.mcmc.annealing import SimulatedAnnealing
from credo.methods.mcmc.hmc import HMC
from credo.methods.mcmc.mams import MAMS
from credo.methods.mcmc.mclmc import MCLMC
from credo.methods.mcmc.metropolis import Metropolis
from credo.methods.mcmc.nuts import NUTS
from credo.methods.mcmc.sgmcmc import SGHMC, SGLD, RMSPreconditioner
from credo.methods.point import MAP, MaximumLikelihood
from credo.methods.swag import SWAG
from credo.methods.vi.bayes_by_backprop import BayesByBackprop
from credo.methods.vi.black_box import BlackBoxVI
from credo.methods.weighted.annealed import AnnealedImportanceSampling
from credo.methods.weighted.importance import ImportanceSampling
from credo.methods.weighted.transitions import Hamiltonian, RandomWalk

__all__ = [
    "HMC",
    "MAMS",
    "MAP",
    "MCLMC",
    "NUTS",
    "SGHMC",
    "SGLD",
    "SWAG",
    "AnnealedImportanceSampling",
    "BayesByBackprop",
    "BlackBoxVI",
    "ConcreteDropout",
    "DeepEnsemble",
    "Ensemble",
    "Hamiltonian",
    "ImportanceSampling",
    "Info",
    "Laplace",
    "MCDropout",
    "MaximumLikelihood",
    "Method",
    "Metropolis",
    "RMSPreconditioner",
    "RandomWalk",
    "SimulatedAnnealing",
    "SparseVariationalDropout",
    "StartFrom",
    "Tick",
    "VariationalDropout",
]
