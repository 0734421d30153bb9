"""Numbers above zero, whose errors are factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from credo.core import checks
from credo.core.checks import check_options, check_positive
from credo.core.trees import Params
from credo.likelihoods.base import NumericLikelihood, as_columns, check_finite
from credo.likelihoods.gaussian import HALF_LOG_2PI, TAIL, HeteroscedasticGaussian, normal_cdf

KNOTS = 32
"""Places at which integrals are cut."""


@dataclass(frozen=True)
class LogNormal(NumericLikelihood):
    """Numbers above zero whose logarithm is normal: the network has two outputs for each target.

    log y ~ N(m, s^2),   m = loc + scale f,   s = scale (softplus(r) + floor),   outputs = (f_1 .. f_D, r_1 .. r_D)

    The mean of y is exp(m + s^2 / 2), above the median exp(m).

    Args:
        floor: smallest standard deviation of the logarithm, as a part of `scale`; keeps the density bounded.
        loc: what is subtracted from log y, so that the network works in numbers of order one: its mean in training.
        scale: what it is divided by: its standard deviation.

    Examples:
        >>> outputs = torch.tensor([[0.0, 0.5413]])  # softplus(0.5413) = 1
        >>> found = LogNormal(loc=4.0, scale=0.5)
        >>> round(float(found.mean(outputs, {})), 1)  # exp(4 + 1 / 8)
        61.9
    """

    outputs_per_target: ClassVar[int] = 2
    logarithmic: ClassVar[bool] = True  # type: ignore[misc]

    floor: float = 1e-3
    loc: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("floor", self.floor)
        checks.check_finite("loc", self.loc)
        check_positive("scale", self.scale)

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, type(self).__name__, self.outputs_per_target)
        check_finite(y)
        if not bool((y > 0).all()):
            raise ValueError("y holds numbers that are not above zero: likelihoods.LogNormal needs y > 0")
        return y

    def location_scale(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of log y, (..., B, D)."""
        location, scale = HeteroscedasticGaussian(self.floor).location_scale(outputs, params)
        return self.loc + self.scale * location, self.scale * scale

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        location, scale = self.location_scale(outputs, params)
        logs = y.clamp_min(torch.finfo(y.dtype).tiny).log()
        each = -0.5 * ((logs - location) / scale).square() - scale.log() - HALF_LOG_2PI - logs
        return torch.where(y > 0, each, -torch.inf)

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        location, scale = self.location_scale(outputs, params)
        return (location + 0.5 * scale.square()).exp()

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        location, scale = self.location_scale(outputs, params)
        return torch.expm1(scale.square()) * (2.0 * location + scale.square()).exp()

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        location, scale = self.location_scale(outputs, params)
        noise = torch.randn(location.shape, generator=generator, dtype=location.dtype, device=location.device)
        return (location + scale * noise).exp()

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        location, scale = self.location_scale(outputs, params)
        return location + scale.log() + (HALF_LOG_2PI + 0.5)

    def cdf(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return normal_cdf(self._score(outputs, y, params))

    def survival(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return normal_cdf(-self._score(outputs, y, params))

    def _score(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        """(log y - m) / s, minus infinity where y is not above zero."""
        location, scale = self.location_scale(outputs, params)
        return (y.clamp_min(0.0).log() - location) / scale

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """That of a normal log y: 1 / (softplus(r) + floor)^2 for f, and likewise for r."""
        return HeteroscedasticGaussian(self.floor).fisher(outputs, params)

    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        location, scale = self.location_scale(outputs, params)
        return (location - TAIL * scale).exp(), (location + TAIL * scale).exp()

    def knots(self, outputs: Tensor, params: Params) -> Tensor:
        """Even steps of log y."""
        location, scale = self.location_scale(outputs, params)
        grid = torch.linspace(-TAIL, TAIL, KNOTS, dtype=outputs.dtype, device=outputs.device)
        return (location + scale * grid.view(-1, *[1] * location.ndim)).exp()
