"""The normal prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_options, check_positive
from credo.core.trees import Layout, Params, weighted_squares
from credo.priors.base import ElementwisePrior


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
        check_options(self)
        check_positive("scale", self.scale)

    def log_density(self, w: Tensor) -> Tensor:
        return w.square() * (-0.5 / self.scale**2) - (math.log(self.scale) + 0.5 * math.log(2 * math.pi))

    def log_prob(self, params: Params, layout: Layout) -> Tensor:
        """The same as for any elementwise prior, in one pass over the weights."""
        if not params:
            return torch.zeros(())
        every = self._precisions(layout)
        precisions = [every[name] for name in params]
        log_scales = sum(-0.5 * math.log(p) * w[0].numel() for p, w in zip(precisions, params.values(), strict=True))
        count = sum(w[0].numel() for w in params.values())
        squares = weighted_squares(list(params.values()), [-0.5 * p for p in precisions])
        return squares - (log_scales + 0.5 * count * math.log(2 * math.pi))

    def expected_log_prob(self, mean: Params, scale: Params, layout: Layout) -> Tensor:
        """log p at the origin, less half of E[w^2] = mean^2 + scale^2 over every variance of the prior."""
        if not mean:
            return torch.zeros(())
        every = self._precisions(layout)
        logs = sum(0.5 * math.log(every[name] / (2 * math.pi)) * w[0].numel() for name, w in mean.items())
        pairs = [(t, -0.5 * every[name]) for tree in (mean, scale) for name, t in tree.items()]
        return weighted_squares([t for t, _ in pairs], [c for _, c in pairs]) + logs

    def precision(self, layout: Layout) -> dict[str, float]:
        return self._precisions(layout)

    def _precisions(self, layout: Layout) -> dict[str, float]:  # a subclass with its own density has no `precision`
        return {name: (info.fan_in if self.fan_in else 1) / self.scale**2 for name, info in layout.items()}

    def curvature(self, params: Params, layout: Layout) -> Params:
        every = self._precisions(layout)
        return {name: torch.full_like(w, every[name]) for name, w in params.items()}

    def draw(self, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype | None = None) -> Tensor:
        return self.scale * torch.randn(shape, generator=generator, dtype=dtype)
