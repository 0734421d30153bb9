"""The scale mixture of two normals of Bayes by Backprop."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.priors.base import ElementwisePrior, check_scale


@dataclass(frozen=True)
class ScaleMixture(ElementwisePrior):
    """A wide and a narrow normal, both centred at zero.

    p(w) = weight N(w; 0, scale_1^2) + (1 - weight) N(w; 0, scale_2^2)

    Args:
        weight: mass of the first normal, strictly between 0 and 1.
        scale_1: its standard deviation.
        scale_2: standard deviation of the second normal.
        fan_in: narrow both by the root of the layer's fan-in.

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, eq. 7, https://arxiv.org/abs/1505.05424
    """

    weight: float = 0.5
    scale_1: float = 1.0
    scale_2: float = 0.1
    fan_in: bool = False

    def __post_init__(self) -> None:
        check_scale("scale_1", self.scale_1)
        check_scale("scale_2", self.scale_2)
        if not 0.0 < self.weight < 1.0:
            raise ValueError(f"weight must lie strictly between 0 and 1, got {self.weight}")

    def log_density(self, w: Tensor) -> Tensor:
        square = w.square()
        log_1 = square * (-0.5 / self.scale_1**2) + math.log(self.weight / self.scale_1)
        log_2 = square * (-0.5 / self.scale_2**2) + math.log((1.0 - self.weight) / self.scale_2)
        return torch.logaddexp(log_1, log_2) - 0.5 * math.log(2 * math.pi)

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        wide = torch.rand(shape, generator=generator) < self.weight
        return torch.where(wide, self.scale_1, self.scale_2) * torch.randn(shape, generator=generator)
