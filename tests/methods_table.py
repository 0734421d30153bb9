"""The one list of methods that contract and GPU tests run: a new method joins both by one line."""

from __future__ import annotations

import credo
from credo.methods import Method


def methods(epochs: int, iterations: int) -> dict[str, Method]:
    """Every method by what it is called in tests.

    Args:
        epochs: of methods that take minibatches.
        iterations: of those that see all data in every step, warm-up included.
    """
    fast = {"epochs": epochs, "batch_size": 8, "learning_rate": 1e-2}
    half = {"draws": iterations // 2, "warmup": iterations // 2}
    cosine, coarse = credo.Cosine(), credo.RMSPreconditioner(floor=1.0)
    return {
        "maximum likelihood": credo.MaximumLikelihood(**fast, schedule=cosine),
        "map": credo.MAP(**fast),
        "map by sgd": credo.MAP(**fast, optimizer=credo.SGD(momentum=0.9), schedule=credo.StepDecay()),
        "deep ensemble": credo.DeepEnsemble(members=3, **fast),
        "mc dropout": credo.MCDropout(rate=0.2, **fast),
        "mc dropout of weights": credo.MCDropout(rate=0.2, drops="weights", **fast),
        "mc dropout by patterns": credo.MCDropout(rate={"*": 0.2}, length_scale=0.1, **fast),
        "ensemble of mc dropout": credo.Ensemble(credo.MCDropout(rate=0.2, **fast), members=2),
        "concrete dropout": credo.ConcreteDropout(**fast, schedule=cosine),
        "ensemble of concrete dropout": credo.Ensemble(credo.ConcreteDropout(**fast, sharing="unit"), members=2),
        "bayes by backprop": credo.BayesByBackprop(**fast),
        "local reparameterization": credo.BayesByBackprop(**fast, estimator="local"),
        "ensemble of flipout": credo.Ensemble(credo.BayesByBackprop(**fast, estimator="flipout"), members=2),
        "black-box vi": credo.BlackBoxVI(**fast, samples=4),
        "variational dropout": credo.VariationalDropout(**fast, sharing="unit"),
        "ensemble of correlated variational dropout": credo.Ensemble(
            credo.VariationalDropout(**fast, correlated=True), members=2
        ),
        "ensemble of sparse variational dropout": credo.Ensemble(
            credo.SparseVariationalDropout(**fast, schedule=cosine), members=2
        ),
        "hmc": credo.HMC(**half, chains=3),
        "nuts": credo.NUTS(**half, chains=3, max_depth=4),
        "mclmc": credo.MCLMC(**half, chains=2),
        "mams": credo.MAMS(**half, chains=2),
        "metropolis": credo.Metropolis(**half, chains=3, moves=2),
        "simulated annealing": credo.SimulatedAnnealing(sweeps=iterations, moves=2),
        "swag": credo.SWAG(**fast, draws=8, rank=3, every=1),
        "ensemble of swag after map": credo.Ensemble(
            credo.SWAG(**{**fast, "epochs": epochs - 1}, every=1, draws=4, after=credo.MAP(**{**fast, "epochs": 1})),
            members=2,
        ),
        "laplace after map": credo.Laplace(after=credo.MAP(**{**fast, "epochs": epochs - 1}), batch_size=8),
        "ensemble of laplace at the last layer": credo.Ensemble(
            credo.Laplace(
                structure="dense",
                subset="last",
                after=credo.MAP(**{**fast, "epochs": epochs - 1}),
                batch_size=8,
            ),
            members=2,
        ),
        "laplace at drawn weights": credo.Laplace(
            structure="diagonal",
            prediction="weights",
            curvature="fisher",
            after=credo.MAP(**{**fast, "epochs": epochs - 1}),
            batch_size=8,
        ),
        "sgld": credo.SGLD(**fast, draws=3, chains=2, preconditioner=coarse),
        "cyclical sghmc": credo.SGHMC(**fast, draws=3, schedule=credo.Cyclical(cycles=2, exploration=0.5)),
        "importance sampling": credo.ImportanceSampling(draws=10 * iterations, draws_per_step=10),
        "annealed importance sampling": credo.AnnealedImportanceSampling(draws=6, temperatures=iterations, pilots=2),
    }
