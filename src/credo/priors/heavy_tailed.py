"""Priors with heavier tails than a normal: Laplace (double exponential) and Student-t."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_options, check_positive
from credo.core.trees import Layout, Params
from credo.priors.base import ElementwisePrior


@dataclass(frozen=True)
class Laplace(ElementwisePrior):
    """Independent double-exponential weights, which favor exact zeros in a MAP fit.

    p(w) = exp(-|w| / b) / (2 b),   b = scale / sqrt(2)

    Args:
        scale: standard deviation (not the rate's inverse b).
        fan_in: divide by the root of the layer's fan-in.
    """

    scale: float = 1.0
    fan_in: bool = False

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("scale", self.scale)

    def log_density(self, w: Tensor) -> Tensor:
        b = self.scale / math.sqrt(2.0)
        return w.abs() * (-1.0 / b) - math.log(2.0 * b)

    def curvature(self, params: Params, layout: Layout) -> Params:
        raise ValueError(
            "priors.Laplace has no curvature: its density has a kink at zero and straight flanks, so that no normal "
            "fits it at the mode; use priors.Normal() or priors.StudentT()"
        )

    def expected_log_prob(self, mean: Params, scale: Params, layout: Layout) -> Tensor:
        """By the folded normal: E|w| = scale sqrt(2 / pi) exp(-z^2) + mean erf(z),   z = mean / (scale sqrt(2))."""
        total = self.log_prob(mean, layout)  # that of points; for the others E|w| is put in the place of |mean|
        for name, s in scale.items():
            z = mean[name] / (math.sqrt(2.0) * s).clamp_min(torch.finfo(s.dtype).tiny)
            excess = s * math.sqrt(2.0 / math.pi) * torch.exp(-z.square()) - mean[name].abs() * torch.erfc(z.abs())
            rate = math.sqrt(2.0) / self.scale * self._root(layout[name])
            total = total - excess.unsqueeze(-1).flatten(1).sum(1) * rate
        return total

    def draw(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype | None = None) -> Tensor:
        size = torch.empty(shape, dtype=dtype).exponential_(generator=generator)
        sign = torch.randint(0, 2, shape, generator=generator) * 2 - 1
        return self.scale / math.sqrt(2.0) * size * sign


@dataclass(frozen=True)
class StudentT(ElementwisePrior):
    """Independent Student-t weights: most are small, a few may be large.

    p(w) = t_df(w / scale) / scale

    Args:
        df: degrees of freedom; the variance is finite above 2.
        scale: the multiplier of a standard t variable (its standard deviation is scale sqrt(df / (df - 2))).
        fan_in: divide by the root of the layer's fan-in.
    """

    df: float = 4.0
    scale: float = 1.0
    fan_in: bool = False

    def __post_init__(self) -> None:
        check_options(self)
        check_positive("scale", self.scale)
        check_positive("df", self.df)

    def log_density(self, w: Tensor) -> Tensor:
        half = 0.5 * (self.df + 1.0)
        constant = (
            math.lgamma(half) - math.lgamma(0.5 * self.df) - 0.5 * math.log(self.df * math.pi) - math.log(self.scale)
        )
        return constant - half * torch.log1p((w / self.scale).square() / self.df)

    def draw(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype | None = None) -> Tensor:
        gamma = torch._standard_gamma(torch.full(shape, 0.5 * self.df, dtype=dtype), generator=generator)
        return self.scale * torch.randn(shape, generator=generator, dtype=dtype) * (0.5 * self.df / gamma).sqrt()
