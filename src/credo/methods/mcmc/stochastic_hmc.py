"""Stochastic gradient Hamiltonian Monte Carlo."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params
from credo.methods.mcmc.stochastic import StochasticSampler


@dataclass(frozen=True)
class SGHMC(StochasticSampler):
    """SGLD with momentum: friction takes out what the noise of minibatches puts in.

    u <- u + s grad log p(data, w),   w <- w + s/2 u
    u <- (1 - friction) u + sqrt(1 - (1 - friction)^2) noise,   w <- w + s/2 u,   with s = sqrt(l G / N)

    u is the velocity in units of its own standard deviation, so that a change of the step size leaves its distribution
    as it is, and friction and noise balance exactly, at any friction. The two half moves around the friction make the
    positions right to second order in s, and exact for a normal posterior and full batches. (With one whole move after
    the friction their variance would be off by friction / 2 at any step size.) 1 - friction is the momentum of an
    optimiser with learning rate l.

    Args:
        friction: part of the velocity that is lost in a step.

    Reference: T. Chen, E. B. Fox, C. Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", 2014,
        https://arxiv.org/abs/1402.4102; B. Leimkuhler, C. Matthews, "Rational construction of stochastic numerical
        methods for molecular sampling", 2013, https://arxiv.org/abs/1203.5428
    """

    friction: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.friction <= 1.0:
            raise ValueError(f"friction must lie between 0 and 1 (0 excluded), got {self.friction!r}")

    def first_velocity(self, params: Params, noise: Stream) -> Params:
        return noise.normal_like(params)

    def move(
        self, weights: Tensor, velocity: Tensor | None, gradient: Tensor, step: Tensor, noise: Tensor, size: int
    ) -> None:
        assert velocity is not None
        left, root = 1.0 - self.friction, (step / size).sqrt()
        velocity.add_(root * size * gradient)
        weights.add_(0.5 * root * velocity)
        velocity.mul_(left).add_(math.sqrt(1.0 - left * left) * noise)
        weights.add_(0.5 * root * velocity)
