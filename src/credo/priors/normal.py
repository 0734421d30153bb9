"""The normal prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.squares import weighted_squares
from credo.core.trees import Layout, ParameterInfo, Params
from credo.priors.base import ElementwisePrior, check_scale


@dataclass(frozen=True)
class Normal(ElementwisePrior):
    """Independent normal weights: N(0, scale^2), or N(0, scale^2 / fan-in) layer by layer.

    Args:
        scale: standard deviation.
        fan_in: divide the standard deviation of each weight by the root of its layer's fan-in, so that the prior over
            functions does not depend on the width of the net. Biases, and parameters with no fan-in, keep `scale`.
    """

    scale: float = 1.0
    fan_in: bool = False

    def __post_init__(self) -> None:
        check_scale("scale", self.scale)

    def log_density(self, w: Tensor) -> Tensor:
        return w.square() * (-0.5 / self.scale**2) - (math.log(self.scale) + 0.5 * math.log(2 * math.pi))

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        """The same as for any elementwise prior, in one pass over the weights."""
        precisions = [self._fan_in(layout[name]) / self.scale**2 for name in params]
        log_scales = sum(-0.5 * math.log(p) * w[0].numel() for p, w in zip(precisions, params.values(), strict=True))
        count = sum(w[0].numel() for w in params.values())
        squares = weighted_squares(list(params.values()), [-0.5 * p for p in precisions])
        return squares - (log_scales + 0.5 * count * math.log(2 * math.pi))

    def expected_log_prob(self, mean: Params, scale: Params, layout: Layout) -> Tensor:
        """log p at the mean, less half of every variance over that of the prior."""
        halves = [-0.5 * self._fan_in(layout[name]) / self.scale**2 for name in scale]
        return self.log_prob(mean, layout) + weighted_squares(list(scale.values()), halves)

    def _fan_in(self, info: ParameterInfo) -> int:
        return info.fan_in if self.fan_in else 1

    def draw(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return self.scale * torch.randn(shape, generator=generator)
