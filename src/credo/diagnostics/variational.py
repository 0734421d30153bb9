"""How far a variational posterior can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.pareto import pareto_k
from credo.core.trees import take
from credo.core.weights import example_weights
from credo.methods.mcmc.metropolis import full_log_likelihood
from credo.model import Batch, Target
from credo.posteriors import DiagonalGaussian
from credo.posteriors.gaussian import check_proper, independent_normals

GOOD, USABLE = 0.5, 0.7
"""Bounds of k-hat: below the first q is close to the posterior, above the second importance weights cannot mend it."""


@dataclass(frozen=True)
class Trust:
    """The verdict on q, from log weights log p(data, w) - log q(w) at its own draws.

    Attributes:
        k: k-hat of each member, the shape of the tail of the weights.
        elbo: the bound of each member, in nats, with its Monte Carlo standard error.
        log_evidence: log p(data) of each member by importance sampling; worth something where k is below 0.7.
    """

    k: tuple[float, ...]
    elbo: tuple[tuple[float, float], ...]
    log_evidence: tuple[float, ...]

    @property
    def verdict(self) -> str:
        """A sentence for a person."""
        worst = max(self.k)
        known = (
            "k-hat cannot be estimated from so few draws"
            if math.isinf(worst) and worst > 0
            else f"k-hat is {worst:.2f}"
        )
        if worst < GOOD:
            return f"{known}: q is close to the posterior"
        if worst < USABLE:
            return f"{known}: q is off, but importance weights can mend what is computed from it"
        return (
            f"{known}: q misses parts of the posterior that matter. Its predictions may still be good: test their "
            "calibration on data that it has not seen"
        )


def trust(
    posterior: DiagonalGaussian,
    data: tuple[Any, Any],
    draws: int = 500,
    seed: int = 0,
    temperature: float = 1.0,
    *,
    weights: Any = None,
) -> Trust:
    """Draw weights from q and compare its density there with that of the posterior.

    Args:
        posterior: a fitted q.
        data: x and y that it was fitted to, all of them.
        draws: weights drawn from each member; at least 25.
        seed: of the draws.
        temperature: that of the fit.
        weights: those of the examples in the fit, (N,); None for one each.

    Raises:
        TypeError: if the posterior has no density over the weights, as dropout and draws.
        ValueError: if the prior is improper, as that of variational dropout: there is no posterior.

    Reference: Y. Yao, A. Vehtari, D. Simpson, A. Gelman, "Yes, but did it work? Evaluating variational inference",
        2018, https://arxiv.org/abs/1802.02538
    """
    posterior = independent_normals(posterior, "trust", "BayesByBackprop or BlackBoxVI")
    check_proper(posterior, "trust")
    batch = _whole(posterior, data, weights)
    target = Target(posterior.model, posterior.record.size or batch.examples, temperature)
    each = [_log_weights(_member(posterior, m), target, batch, draws, seed) for m in range(posterior.mean.members)]
    return Trust(
        tuple(pareto_k(w) for w in each),
        tuple((w.mean().item(), (w.std() / math.sqrt(draws)).item()) for w in each),
        tuple((torch.logsumexp(w, 0) - math.log(draws)).item() for w in each),
    )


def _member(posterior: DiagonalGaussian, member: int) -> DiagonalGaussian:
    return replace(posterior, mean=posterior.mean.take([member]), scale=take(posterior.scale, [member]))


def _whole(posterior: DiagonalGaussian, data: tuple[Any, Any], weights: Any) -> Batch:
    """All data that the posterior was fitted to, as one batch."""
    model = posterior.model
    x, y = posterior.inputs(data[0]), tensor(data[1], "y").to(posterior.device)
    targets = model.likelihood.check_targets(y, model.outputs(posterior.mean, x))
    if len(targets) != len(x):
        raise ValueError(f"x has {len(x)} rows and y has {len(targets)}: they must be the same number")
    each = None if weights is None else example_weights(weights, (len(x),)).to(posterior.device, model.network.dtype)
    size, fitted = float(len(x) if each is None else each.double().sum()), posterior.record.size
    if fitted and abs(size - fitted) > 1e-4 * fitted:
        raise ValueError(
            f"the posterior was fitted to data that count as {fitted:g} examples, and these count as {size:g}: give "
            "all of them, and the weights that they had"
        )
    return Batch(x, targets, weight=each, factor=1.0)


@torch.no_grad()
def _log_weights(posterior: DiagonalGaussian, target: Target, batch: Batch, draws: int, seed: int) -> Tensor:
    variables = posterior.draw(draws, seed).variables
    log_likelihood = full_log_likelihood(target, variables, batch)
    log_joint = target.temper(log_likelihood + target.log_prior(variables.params).double())
    return log_joint - posterior.log_prob(variables.params)
