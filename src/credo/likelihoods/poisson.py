"""Counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.integrals import entropy_by_sum
from credo.core.trees import Params
from credo.likelihoods.base import NumericLikelihood, as_columns, check_finite


@dataclass(frozen=True)
class Poisson(NumericLikelihood):
    """Counts 0, 1, 2, ...; the network's outputs are logarithms of rates.

    p(y | f) = exp(y f - exp(f)) / y!
    """

    discrete = True

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, "Poisson")
        check_finite(y)
        if not bool(((y >= 0) & (y == y.round())).all()):
            raise ValueError("y holds negative numbers or fractions: likelihoods.Poisson needs counts 0, 1, 2, ...")
        return y

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        # y f - exp(f) - log y! cancels to nothing at large counts; around the mode f = log y its terms stay small
        count = torch.where(y > 0, y, 1.0)
        excess = outputs - count.log()
        positive = -count * (torch.expm1(excess) - excess) - _minus_log_mode(count)
        return torch.where(y > 0, positive, -outputs.exp())

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return outputs.exp()

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        return outputs.exp()

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        return torch.poisson(outputs.exp(), generator=generator)

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        lower, upper = self.spread(outputs, params)
        return entropy_by_sum(lambda k: self.log_prob_each(outputs, k, params), lower.unsqueeze(0), upper.unsqueeze(0))

    def cdf(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        below = torch.special.gammaincc((y.floor() + 1.0).clamp_min(1.0), outputs.exp())
        return torch.where(y < 0, torch.zeros_like(below), below)

    def survival(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        above = torch.special.gammainc((y.floor() + 1.0).clamp_min(1.0), outputs.exp())
        return torch.where(y < 0, torch.ones_like(above), above)

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """exp(f) on the diagonal."""
        return torch.diag_embed(outputs.exp())

    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        rate = outputs.exp()
        # Bernstein's bound P(y > rate + t) <= exp(-t^2 / (2 rate + 2 t / 3)) is below 1e-12 at this t
        reach = 9.3 + (86.5 + 55.3 * rate).sqrt()
        return (rate - reach).clamp_min(0.0).floor(), (rate + reach).ceil()


def _minus_log_mode(y: Tensor) -> Tensor:
    """-log p(y) at the rate y: log y! - y log y + y, by Stirling's series where its terms would cancel."""
    series = 0.5 * (2.0 * math.pi * y).log() + 1.0 / (12.0 * y) - 1.0 / (360.0 * y**3) + 1.0 / (1260.0 * y**5)
    return torch.where(y < 16.0, torch.lgamma(y + 1.0) - y * y.log() + y, series)
