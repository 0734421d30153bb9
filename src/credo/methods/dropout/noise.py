"""Two ways to write normal noise on a weight: a share alpha of its size, or a variance of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.methods.dropout.log_uniform import LogUniform, Polynomial, Sigmoid
from credo.methods.dropout.sharing import PerLayer, Sharing

NOTHING = 1e-16
"""Added to theta^2 where its logarithm is taken: a weight may be exactly 0."""

CEILING = 0.0
"""Largest log variance. A weight whose input is always zero feels the prior alone, which would let it grow forever."""


@dataclass(frozen=True)
class Divergence:
    """The KL of one parameter's weights from the log-uniform prior.

    Attributes:
        kl: of each member, (M,).
        by_weight: slope by the weights, (M, *shape); None for 0.
        by_level: slope by what the noise is written in.
        log_alpha: in the shape in which alphas are shared.
    """

    kl: Tensor
    by_weight: Tensor | None
    by_level: Tensor
    log_alpha: Tensor


class Noise(ABC):
    """q(w) = N(theta, variance), written in a level that training moves. All is for one parameter, (M, *shape)."""

    prior: LogUniform

    @abstractmethod
    def first(self, weight: Tensor, initial: float) -> Tensor:
        """The level before the first step."""

    @abstractmethod
    def variance(self, weight: Tensor, level: Tensor) -> Tensor:
        """alpha theta^2, (M, *shape)."""

    @abstractmethod
    def log_alpha(self, weight: Tensor, level: Tensor) -> Tensor:
        """In the shape in which alphas are shared."""

    @abstractmethod
    def divergence(self, weight: Tensor, level: Tensor) -> Divergence:
        """From the log-uniform prior, with its slopes."""

    @abstractmethod
    def chain(
        self, weight: Tensor, level: Tensor, variance: Tensor, by_variance: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        """Slopes by the weights (None for 0) and by the level, from the slope by the variance."""

    @abstractmethod
    def confine(self, level: Tensor) -> None:
        """Bring the level back, in place, to where it may be."""


@dataclass(frozen=True)
class Multiplicative(Noise):
    """w = theta (1 + sqrt(alpha) noise), with log alpha at most 0: beyond 1 the cubic is no divergence any more."""

    sharing: Sharing = PerLayer()
    prior: LogUniform = Polynomial()

    def first(self, weight: Tensor, initial: float) -> Tensor:
        shape = self.sharing.shape(tuple(weight.shape[1:]))
        return torch.full((len(weight), *shape), initial, dtype=weight.dtype, device=weight.device).log_()

    def variance(self, weight: Tensor, level: Tensor) -> Tensor:
        return weight.square().mul_(level.exp())

    def log_alpha(self, weight: Tensor, level: Tensor) -> Tensor:
        return level

    def divergence(self, weight: Tensor, level: Tensor) -> Divergence:
        weights_each = weight[0].numel() // level[0].numel()  # that share one alpha
        kl = self.prior.kl(level).flatten(1).sum(1) * weights_each
        return Divergence(kl, None, self.prior.slope(level).mul_(weights_each), level)

    def chain(
        self, weight: Tensor, level: Tensor, variance: Tensor, by_variance: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        by_level = (by_variance * variance).sum_to_size(level.shape)
        return by_variance.mul(weight).mul_(2.0 * level.exp()), by_level

    def confine(self, level: Tensor) -> None:
        level.clamp_(max=0.0)


@dataclass(frozen=True)
class Additive(Noise):
    """w = theta + sigma noise, written in log sigma^2: the gradient by theta is free of the noise at large alpha."""

    prior: LogUniform = Sigmoid()

    def first(self, weight: Tensor, initial: float) -> Tensor:
        return torch.full_like(weight, initial).square_().log_()

    def variance(self, weight: Tensor, level: Tensor) -> Tensor:
        return level.exp()

    def log_alpha(self, weight: Tensor, level: Tensor) -> Tensor:
        return level - weight.square().add_(NOTHING).log_()

    def divergence(self, weight: Tensor, level: Tensor) -> Divergence:
        size = weight.square().add_(NOTHING)
        log_alpha = level - size.log()
        slope = self.prior.slope(log_alpha)
        kl = self.prior.kl(log_alpha).flatten(1).sum(1)
        return Divergence(kl, slope.mul(weight).mul_(-2.0).div_(size), slope, log_alpha)

    def chain(
        self, weight: Tensor, level: Tensor, variance: Tensor, by_variance: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        return None, by_variance * variance

    def confine(self, level: Tensor) -> None:
        level.clamp_(max=CEILING)
