"""The Student-t prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_options, check_positive
from credo.priors.base import ElementwisePrior


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
