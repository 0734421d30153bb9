"""Counts that vary more than a Poisson distribution says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core import checks
from credo.core.checks import check_options, check_positive
from credo.core.integrals import entropy_by_sum
from credo.core.special import incomplete_beta
from credo.core.trees import Params
from credo.likelihoods.base import NumericLikelihood, as_columns, check_finite

TAIL = 7.5
"""Standard deviations of a normal beyond which less than 1e-12 lies, with room for Wilson and Hilferty's formula."""
EXPONENTS = 29.0
"""exp(-29) is less than 1e-12: how many of its scales the tail of a gamma distribution with a small shape is long."""


@dataclass(frozen=True)
class NegativeBinomial(NumericLikelihood):
    """Counts 0, 1, 2, ... with a mean and a dispersion of their own: the network has two outputs for each target.

    p(y | f, r) = Gamma(y + c) / (y! Gamma(c)) (c / (c + mu))^c (mu / (c + mu))^y,
    mu = exp(offset + f),   1 / c = softplus(r) + floor,   outputs = (f_1 .. f_D, r_1 .. r_D)

    It is a Poisson distribution whose rate is drawn from a gamma distribution of mean mu; the variance is
    mu + mu^2 / c, and with a dispersion 1 / c near zero it is Poisson's.

    Args:
        floor: smallest dispersion.
        offset: what is added to every log mean, so that the network works in numbers of order one: the logarithm of the
            mean count in training.

    Examples:
        >>> outputs = torch.tensor([[0.0, 0.5413]])  # softplus(0.5413) = 1
        >>> round(float(NegativeBinomial().variance(outputs, {})), 2)
        2.0

    Reference: J. M. Hilbe, "Negative binomial regression", 2011.
    """

    discrete = True

    outputs_per_target: ClassVar[int] = 2

    floor: float = 1e-4
    offset: float = 0.0

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("floor", self.floor)
        checks.check_finite("offset", self.offset)

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, type(self).__name__, self.outputs_per_target)
        check_finite(y)
        if not bool(((y >= 0) & (y == y.round())).all()):
            raise ValueError(
                "y holds negative numbers or fractions: likelihoods.NegativeBinomial needs counts 0, 1, 2, ..."
            )
        return y

    def mean_shape(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """mu and c, (..., B, D) in float64: their logarithms of gamma functions cancel."""
        log_mean, raw = outputs.double().chunk(2, dim=-1)
        return (self.offset + log_mean).exp(), (F.softplus(raw) + self.floor).reciprocal()

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        mean, shape = self.mean_shape(outputs)
        y = y.double()
        log_mean = self.offset + outputs.double().chunk(2, dim=-1)[0]
        ways = torch.lgamma(y + shape) - torch.lgamma(y + 1.0) - torch.lgamma(shape)
        rest = -shape * torch.log1p(mean / shape) + y * (log_mean - (shape + mean).log())
        return (ways + rest).to(outputs.dtype)

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return self.mean_shape(outputs)[0].to(outputs.dtype)

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        mean, shape = self.mean_shape(outputs)
        return (mean + mean.square() / shape).to(outputs.dtype)

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        mean, shape = self.mean_shape(outputs)
        rate = torch._standard_gamma(shape.contiguous(), generator=generator) * mean / shape
        return torch.poisson(rate, generator=generator).to(outputs.dtype)

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        lower, upper = self.spread(outputs, params)
        return entropy_by_sum(lambda k: self.log_prob_each(outputs, k, params), lower.unsqueeze(0), upper.unsqueeze(0))

    def cdf(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        below = self._tails(outputs, y)[0]
        return torch.where(y < 0, torch.zeros_like(below), below)

    def survival(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        above = self._tails(outputs, y)[1]
        return torch.where(y < 0, torch.ones_like(above), above)

    def _tails(self, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """P(target <= y) = I_x(c, y + 1) with x = c / (c + mu), and the rest."""
        mean, shape = self.mean_shape(outputs)
        total, above = shape + mean, (y.double().floor() + 1.0).clamp_min(1.0)
        found = incomplete_beta(shape / total, mean / total, shape, above)
        below, rest = (t.to(outputs.dtype) for t in found)
        return below, rest

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """mu c / (c + mu) for f; for r, by the sum over j of P(y > j) / (c + j)^2; on the diagonal.

        Reference: C. R. Rao, "Linear statistical inference and its applications", 1973, on information; the sum is that
            of W. W. Piegorsch, "Maximum likelihood estimation for the negative binomial dispersion parameter", 1990.
        """
        mean, shape = self.mean_shape(outputs)
        last = self.spread(outputs, params)[1]
        total = torch.zeros_like(mean)
        for j in range(int(last.max()) + 1):
            total = total + self._tails(outputs, torch.full_like(mean, float(j)))[1] / (shape + j).square()
        information = total - mean / (shape * (shape + mean))
        slope = outputs.double().chunk(2, dim=-1)[1].sigmoid() * shape.square()  # -dc/dr
        each = torch.cat([mean * shape / (shape + mean), information * slope.square()], dim=-1)
        return torch.diag_embed(each).to(outputs.dtype)

    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        """Of the gamma distribution by Wilson and Hilferty, and of a Poisson one at its ends by Bernstein."""
        mean, shape = self.mean_shape(outputs)
        step = TAIL / (3.0 * shape.sqrt())
        center = 1.0 - 1.0 / (9.0 * shape)
        low = mean * (center - step).clamp_min(0.0) ** 3
        high = torch.maximum(mean * (center + step).clamp_min(0.0) ** 3, EXPONENTS * mean / shape)
        ends = (low - _poisson_reach(low)).clamp_min(0.0).floor(), (high + _poisson_reach(high)).ceil()
        return ends[0].to(outputs.dtype), ends[1].to(outputs.dtype)


def _poisson_reach(rate: Tensor) -> Tensor:
    """t with P(|y - rate| > t) below 1e-12: Bernstein's bound exp(-t^2 / (2 rate + 2 t / 3))."""
    return 9.3 + (86.5 + 55.3 * rate).sqrt()
