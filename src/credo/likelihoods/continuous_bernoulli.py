"""Gray values: the density on the unit interval that the Bernoulli is mistaken for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.trees import Params
from credo.likelihoods.base import NumericLikelihood, as_columns

SERIES = (
    *(1 / 3, -1 / 45, 2 / 945, -1 / 4725, 2 / 93555),
    *(-1382 / 638512875, 4 / 18243225, -3617 / 162820783125, 87734 / 38979295480125),
)
"""c_n = 4^n B_2n / (2n)!, by Bernoulli numbers: coth h - 1/h = sum_n c_n h^(2n - 1)."""
NEAR = 0.5
"""Where |h| is smaller the series is taken: at h = 0, which is a mean of one half, the closed forms are 0/0."""


@dataclass(frozen=True)
class ContinuousBernoulli(NumericLikelihood):
    """D values between 0 and 1, such as gray pixels; the network's D outputs are logits.

    p(y | f) = exp(f y) f / (exp(f) - 1),   0 <= y <= 1

    It is the Bernoulli's exp(f y) with the factor that makes it a density. Without that factor, the cross-entropy of
    gray values is none: see `GrayCrossEntropy`.

    Examples:
        >>> y = torch.linspace(0, 1, 1001)[:, None]
        >>> density = ContinuousBernoulli().log_prob(torch.full_like(y, 3.0), y, {}).exp()
        >>> round(float(torch.trapezoid(density, y[:, 0])), 4)
        1.0

    Reference: G. Loaiza-Ganem, J. P. Cunningham, "The continuous Bernoulli: fixing a pervasive error in variational
        autoencoders", 2019, https://arxiv.org/abs/1907.06845
    """

    def check_targets(self, y: Tensor, outputs: int) -> Tensor:
        y = as_columns(y, outputs, "ContinuousBernoulli")
        check_unit_interval(y, "ContinuousBernoulli")
        return y

    def log_prob_each(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        h = 0.5 * outputs
        return h * (2.0 * y - 1.0) - _log_sinhc(h)

    def mean(self, outputs: Tensor, params: Params) -> Tensor:
        return 0.5 + 0.5 * _langevin(0.5 * outputs)

    def variance(self, outputs: Tensor, params: Params) -> Tensor:
        h = 0.5 * outputs
        near, far = _apart(h)
        rest = torch.exp(-2.0 * far)
        closed = far.square().reciprocal() - 4.0 * rest / (1.0 - rest).square()
        series = _polynomial([(2 * n + 1) * c for n, c in enumerate(SERIES)], near.square())
        return 0.25 * torch.where(h.abs() < NEAR, series, closed)

    def sample(self, outputs: Tensor, params: Params, generator: torch.Generator) -> Tensor:
        size = _above_zero(outputs)
        uniform = torch.rand(outputs.shape, generator=generator, dtype=outputs.dtype, device=outputs.device)
        small = -torch.log1p(uniform * torch.expm1(-size)) / size  # the quantile for a negative logit
        return torch.where(outputs > 0, 1.0 - small, small).clamp(0.0, 1.0)

    def entropy(self, outputs: Tensor, params: Params) -> Tensor:
        h = 0.5 * outputs
        _, far = _apart(h)
        rest = torch.exp(-2.0 * far)
        closed = 1.0 - (2.0 * far).log() + torch.log1p(-rest) - 2.0 * far * rest / (1.0 - rest)
        return torch.where(h.abs() < NEAR, _log_sinhc(h) - h * _langevin(h), closed)

    def cdf(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        size, inside = _above_zero(outputs), y.clamp(0.0, 1.0)
        rising = torch.exp(-outputs.clamp_min(0.0) * (1.0 - inside))
        return rising * torch.expm1(-size * inside) / torch.expm1(-size)

    def survival(self, outputs: Tensor, y: Tensor, params: Params) -> Tensor:
        return self.cdf(-outputs, 1.0 - y, params)

    def fisher(self, outputs: Tensor, params: Params) -> Tensor:
        """The variance, on the diagonal."""
        return torch.diag_embed(self.variance(outputs, params))

    def spread(self, outputs: Tensor, params: Params) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(outputs), torch.ones_like(outputs)


def check_unit_interval(y: Tensor, name: str) -> None:
    """Refuse gray values that are none."""
    if not bool(((y >= 0) & (y <= 1)).all()):  # NaN compares false
        raise ValueError(
            f"y holds values from {float(y.min()):g} to {float(y.max()):g}: likelihoods.{name} needs values from 0 to "
            "1; divide bytes by 255"
        )


def _above_zero(outputs: Tensor) -> Tensor:
    """|f|, to be divided by: what is smaller than the precision of f makes no difference."""
    return outputs.abs().clamp_min(torch.finfo(outputs.dtype).eps)


def _log_sinhc(h: Tensor) -> Tensor:
    """log(sinh(h) / h)."""
    near, far = _apart(h)
    closed = far - (2.0 * far).log() + torch.log(-torch.expm1(-2.0 * far))
    squared = near.square()
    series = squared * _polynomial([c / (2 * n + 2) for n, c in enumerate(SERIES)], squared)
    return torch.where(h.abs() < NEAR, series, closed)


def _langevin(h: Tensor) -> Tensor:
    """coth(h) - 1/h, the derivative of log(sinh(h) / h)."""
    near, far = _apart(h)
    closed = h.sign() * (far.tanh().reciprocal() - far.reciprocal())
    return torch.where(h.abs() < NEAR, near * _polynomial(SERIES, near.square()), closed)


def _apart(h: Tensor) -> tuple[Tensor, Tensor]:
    """h where it is small, and |h| where it is not; elsewhere numbers that give both forms finite gradients."""
    small = h.abs() < NEAR
    return torch.where(small, h, 0.0), torch.where(small, 1.0, h.abs())


def _polynomial(coefficients: Sequence[float], t: Tensor) -> Tensor:
    """sum_n c_n t^n, by Horner's scheme."""
    total = torch.full_like(t, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * t + c
    return total
