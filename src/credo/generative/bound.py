"""The bound of log p(x) that an encoder and a decoder climb."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_not_negative, check_rate, one_of
from credo.core.inputs import TensorTree
from credo.core.rng import Stream
from credo.core.trees import Variables
from credo.likelihoods import BinarizedBernoulli
from credo.methods import Info, StartFrom, Tick
from credo.methods.ascent import GradientAscent, Group, leaves_of
from credo.methods.point import PointState
from credo.model import Batch, Target, likelihood_params
from credo.nets.autoencoder import Autoencoder
from credo.nets.dropout import draw_masks
from credo.posteriors import Draws

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class Bound(StrEnum):
    """Which lower bound of log p(x) is climbed."""

    ELBO = "elbo"
    """E_q[log p(x | z)] - KL(q(z | x) || p(z)), the KL in closed form."""
    IWAE = "iwae"
    """E[log 1/S sum_s p(x, z_s) / q(z_s | x)], the importance-weighted bound, tighter with every draw."""


class Latents(NamedTuple):
    """q(z | x) and the decoder's outputs at draws from it."""

    outputs: Tensor  # (S, M, B, E)
    mean: Tensor  # (M, B, L)
    scale: Tensor  # (M, B, L)
    noise: Tensor  # (M, B, S, L)


def kl_to_standard_normal(mean: Tensor, scale: Tensor) -> Tensor:
    """KL(N(mean, scale^2) || N(0, 1)) of each dimension, in nats."""
    return 0.5 * (mean.square() + scale.square() - 1.0) - scale.log()


def elbo(log_likelihood: Tensor, kl: Tensor, beta: float | Tensor = 1.0) -> Tensor:
    """1/S sum_s log p(x | z_s) - beta KL, of log likelihoods (S, ...) and a KL (...)."""
    return log_likelihood.mean(0) - beta * kl


def log_weights(log_likelihood: Tensor, latents: Latents) -> Tensor:
    """log p(x | z_s) + log p(z_s) - log q(z_s | x), (S, M, B)."""
    z = latents.mean.unsqueeze(2) + latents.scale.unsqueeze(2) * latents.noise
    # the constants of both normals cancel
    log_ratio = 0.5 * (latents.noise.square() - z.square()) + latents.scale.unsqueeze(2).log()
    return log_likelihood + log_ratio.sum(-1).movedim(-1, 0)


def importance_weighted(weights: Tensor) -> Tensor:
    """log 1/S sum_s w_s of log weights (S, ...)."""
    return torch.logsumexp(weights, 0) - math.log(len(weights))


@dataclass(frozen=True)
class AutoEncodingBayes(GradientAscent[PointState]):
    """Variational inference of a latent variable for each example, by a network that all examples share.

    log p(x) >= E_q(z | x)[log p(x | z)] - KL(q(z | x) || N(0, I)),   z_s = mean(x) + scale(x) noise_s

    Encoder and decoder climb the bound together; their weights are points, as in maximum likelihood.

    Args:
        samples: S, the draws of z for each example and step.
        bound: elbo or iwae.
        beta: factor of the KL; other than 1 it is no bound of log p(x), but a trade between both terms.
        warm_up: part of the run in which that factor rises from 0 to beta, so that dimensions are not given up early.

    Reference: D. P. Kingma, M. Welling, "Auto-encoding variational Bayes", 2014, https://arxiv.org/abs/1312.6114
        Y. Burda, R. Grosse, R. Salakhutdinov, "Importance weighted autoencoders", 2016,
        https://arxiv.org/abs/1509.00519
    """

    graph_safe: ClassVar[bool] = True
    start_from: ClassVar[StartFrom] = StartFrom.MODULE

    batch_size: int | None = 100
    samples: int = 1
    bound: Bound | str = Bound.ELBO
    beta: float = 1.0
    warm_up: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bound", one_of("bound", self.bound, Bound))
        check_at_least("samples", self.samples, 1)
        check_not_negative("beta", self.beta)
        check_rate("warm_up", self.warm_up)
        if self.bound is Bound.IWAE and (self.beta != 1.0 or self.warm_up > 0.0):
            raise ValueError("the importance-weighted bound has no KL to weigh: leave out beta and warm_up")

    def init(self, target: Target, variables: Variables, rng: Stream) -> PointState:
        return PointState(variables, self.optimizer.init(variables.params))

    def step(self, target: Target, state: PointState, batch: Batch, tick: Tick) -> tuple[PointState, Info]:
        params = leaves_of(state.variables.params)
        variables = Variables(params, state.variables.buffers)
        batch = binarized(target, batch, tick.rng.child("binary"))
        latents = encoded(target, variables, batch, self.samples, tick.rng, training=True)
        log_likelihood = target.model.likelihood.log_prob(latents.outputs, batch.y, likelihood_params(params))
        kl = kl_to_standard_normal(latents.mean, latents.scale).sum(-1)
        each = self._bound(log_likelihood, kl, latents, tick)
        total = target.data_term(each, batch)
        objective = total + target.model.likelihood.log_prior(likelihood_params(params))
        self.ascend(objective, [Group(params, state.optimizer, self.learning_rate)], target, tick)
        parts = {"bound": total, "reconstruction": log_likelihood.mean(0), "kl": kl}
        return state, {
            name: (part if name == "bound" else target.data_term(part, batch)).detach() / target.size
            for name, part in parts.items()
        }

    def _bound(self, log_likelihood: Tensor, kl: Tensor, latents: Latents, tick: Tick) -> Tensor:
        """Of each example, (M, B)."""
        if self.bound is Bound.IWAE:
            return importance_weighted(log_weights(log_likelihood, latents))
        if self.warm_up == 0.0:
            return elbo(log_likelihood, kl, self.beta)
        return elbo(log_likelihood, kl, tick.scheduled(lambda now: self.beta * min(1.0, now.fraction / self.warm_up)))

    def held_out(self, target: Target, variables: Variables, batch: Batch, rng: Stream) -> Info:
        """The bound itself, with the whole KL, of each held-out example."""
        batch = binarized(target, batch, rng.child("binary"))
        latents = encoded(target, variables, batch, self.samples, rng, training=False)
        params = likelihood_params(variables.params)
        log_likelihood = target.model.likelihood.log_prob(latents.outputs, batch.y, params)
        if self.bound is Bound.IWAE:
            return {"bound": importance_weighted(log_weights(log_likelihood, latents))}
        return {"bound": elbo(log_likelihood, kl_to_standard_normal(latents.mean, latents.scale).sum(-1))}

    def loss(self, target: Target, metrics: Info) -> Tensor:
        return -metrics["bound"]

    def current(self, state: PointState) -> Variables:
        return state.variables

    def posterior(self, target: Target, state: PointState) -> Draws:
        return Draws(target.model, state.variables, Draws.uniform(state.variables))


def binarized(target: Target, batch: Batch, rng: Stream) -> Batch:
    """The same examples, or binary ones drawn with their gray values as probabilities, in x and y alike."""
    likelihood, x, y = target.model.likelihood, batch.x, batch.y
    if not isinstance(likelihood, BinarizedBernoulli) or not isinstance(x, Tensor):
        return batch
    drawn = likelihood.binarized(y, rng.generator(y.device))
    return Batch(drawn.reshape(x.shape).to(x.dtype), drawn, batch.per_member, batch.weight, batch.factor)


def encoded(
    target: Target, variables: Variables, batch: Batch, samples: int, rng: Stream, *, training: bool
) -> Latents:
    """q(z | x) of a batch, and the decoder's outputs at `samples` draws from it."""
    network, members, count = target.model.network, variables.members, batch.examples
    module = network.module
    assert isinstance(module, Autoencoder)
    assert isinstance(batch.x, Tensor)
    shape = (members, count, samples, module.latent)
    noise = rng.child("latent").normal(*shape, dtype=network.dtype, device=variables.device)
    x = batch.x if batch.per_member else batch.x.unsqueeze(0).expand(members, *batch.x.shape)
    both = TensorTree((x, noise))
    if training:
        traced = network.trace(variables, both[0])
        masks = draw_masks(traced.sites, rng.child("dropout"), members, count, network.dtype, variables.device)
        own = rng.child("own")
        flat = network.train(variables, both, masks, target.plan, rng=own, x_per_member=True)
    else:
        flat = network.evaluate(variables, both, target.plan, x_per_member=True)
    latent = module.latent
    outputs, mean, scale = torch.split(flat, [flat.shape[-1] - 2 * latent, latent, latent], dim=-1)
    return Latents(outputs.reshape(members, count, samples, -1).movedim(2, 0), mean, scale, noise)
