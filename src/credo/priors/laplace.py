"""The Laplace (double exponential) prior."""

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
    """Independent double-exponential weights, which favour exact zeros in a MAP fit.

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

    def expected_log_prob(self, mean: Params, scale: Params, layout: Layout) -> Tensor:
        """By the folded normal: E|w| = scale sqrt(2 / pi) exp(-z^2) + mean erf(z),   z = mean / (scale sqrt(2))."""
        total = self.log_prob(mean, layout)  # that of points; for the others E|w| is put in the place of |mean|
        for name, s in scale.items():
            z = mean[name] / (math.sqrt(2.0) * s).clamp_min(torch.finfo(s.dtype).tiny)
            excess = s * math.sqrt(2.0 / math.pi) * torch.exp(-z.square()) - mean[name].abs() * torch.erfc(z.abs())
            total = total - self._standard(excess, layout[name].fan_in).sum(1) * (math.sqrt(2.0) / self.scale)
        return total

    def draw(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype | None = None) -> Tensor:
        size = torch.empty(shape, dtype=dtype).exponential_(generator=generator)
        sign = torch.randint(0, 2, shape, generator=generator) * 2 - 1
        return self.scale / math.sqrt(2.0) * size * sign
