"""Bayes by Backprop: a factorised normal over the weights, fitted by the reparameterisation gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.optimizers import Adam, Constant, Optimizer, Schedule
from credo.core.rng import Stream
from credo.core.trees import Params, Variables, ravel
from credo.methods.base import Info, Method, Tick
from credo.methods.checks import check_at_least, check_positive
from credo.model import Batch, Target
from credo.posteriors import DiagonalGaussian, Posterior


@dataclass(frozen=True)
class VariationalState:
    """Means and rho of q(w) = N(mean, softplus(rho)^2), (M, *shape) each, and the optimiser's memory."""

    mean: Variables
    rho: Params
    optimizer: list[Tensor]


@dataclass(frozen=True)
class BayesByBackprop(Method):
    """Mean-field variational inference in weight space.

    max_q  E_q[ sum_n log p(y_n | x_n, w) ] - KL(q || prior),   q = prod_i N(w_i; mean_i, softplus(rho_i)^2)

    The expectation is estimated with `samples` reparameterised draws w = mean + softplus(rho) * noise, one draw for the
    whole batch; log q and log p are evaluated at the same draws, so any prior will do. The number of data comes from
    the data: there is no KL weight to guess.

    Args:
        epochs: passes over the data.
        learning_rate: step size of the optimiser.
        batch_size: examples per step; None for all of them.
        samples: draws per step.
        initial_scale: standard deviation of every weight before the first step.
        optimizer: the update rule.
        schedule: how the learning rate changes in the course of the run.

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, https://arxiv.org/abs/1505.05424
    """

    epochs: int = 100
    learning_rate: float = 1e-3
    batch_size: int | None = 128
    samples: int = 1
    initial_scale: float = 0.05
    optimizer: Optimizer = Adam()
    schedule: Schedule = Constant()

    def __post_init__(self) -> None:
        check_at_least("epochs", self.epochs, 1)
        check_at_least("samples", self.samples, 1)
        check_positive("learning_rate", self.learning_rate)
        check_positive("initial_scale", self.initial_scale)

    def steps(self, batches: int) -> int:
        return self.epochs * batches

    def init(self, target: Target, variables: Variables, noise: Stream) -> VariationalState:
        start = math.log(math.expm1(self.initial_scale))  # softplus(start) = initial_scale
        rho = {name: torch.full_like(w, start) for name, w in variables.params.items()}
        return VariationalState(variables, rho, self.optimizer.init(_joined(variables.params, rho)))

    def step(self, target: Target, state: VariationalState, batch: Batch, tick: Tick) -> tuple[VariationalState, Info]:
        mean = {name: w.detach().requires_grad_() for name, w in state.mean.params.items()}
        rho = {name: w.detach().requires_grad_() for name, w in state.rho.items()}
        scale = {name: F.softplus(r) for name, r in rho.items()}
        fits, divergences = [], []
        for s in range(self.samples):
            noise = tick.noise.child("weights", s).normal_like(mean)
            weights = {name: w + scale[name] * noise[name] for name, w in mean.items()}
            drawn = Variables(weights, state.mean.buffers)
            each = target.training_log_likelihood(drawn, batch, tick.noise.child("network", s))
            fits.append(target.full(each))
            divergences.append(_log_normal(noise, scale) - target.temper(target.log_prior(weights)))
        log_likelihood = torch.stack(fits).mean(0)  # (M,)
        divergence = torch.stack(divergences).mean(0)  # (M,)
        loss = -(target.temper(log_likelihood) - divergence).sum() / target.size
        gradients = torch.autograd.grad(loss, [*mean.values(), *rho.values()])
        rate = self.learning_rate * self.schedule.factor(tick.fraction)
        with torch.no_grad():
            leaves = _joined(state.mean.params, state.rho)
            self.optimizer.update(leaves, list(gradients), state.optimizer, rate)
        info = {"log_likelihood": log_likelihood.detach() / target.size, "kl": divergence.detach() / target.size}
        return state, info

    def current(self, state: VariationalState) -> Variables:
        return state.mean

    def posterior(self, target: Target, state: VariationalState) -> Posterior:
        scale = {name: F.softplus(r) for name, r in state.rho.items()}
        return DiagonalGaussian(target.model, state.mean, scale)


def _joined(mean: Params, rho: Params) -> Params:
    return {**{f"mean/{name}": w for name, w in mean.items()}, **{f"rho/{name}": r for name, r in rho.items()}}


def _log_normal(noise: Params, scale: Params) -> Tensor:
    """log q(w) at w = mean + scale * noise, (M,)."""
    flat_noise, flat_scale = ravel(noise), ravel(scale)
    return (-0.5 * flat_noise.square() - flat_scale.log() - 0.5 * math.log(2 * math.pi)).sum(1)
