"""A smooth monotone map of normal scores, with its inverse and its slope in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
LARGEST = 600.0
"""Of what is exponentiated: beyond it there is no number."""


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """h(z) = loc + scale sinh(tail asinh(z) - skew), for each of D targets, (D,), or of each row, (B, D)."""

    loc: Tensor
    scale: Tensor
    skew: Tensor
    tail: Tensor

    def at(self, rows: Tensor, count: int) -> ScoreMap:
        """The map for some of `count` rows, of which each may have numbers of its own, (B, D)."""
        return ScoreMap(*(t[rows] if t.ndim == 2 and len(t) == count else t for t in vars(self).values()))

    def __call__(self, z: Tensor) -> Tensor:
        """h(z), (..., D)."""
        return self.loc + self.scale * self._bent(z).sinh()

    def inverse(self, z: Tensor) -> Tensor:
        """h^-1(z) = sinh((asinh((z - loc) / scale) + skew) / tail); infinite ones stay infinite."""
        inner = (((z - self.loc) / self.scale).asinh() + self.skew) / self.tail
        return inner.clamp(-LARGEST, LARGEST).sinh()

    def log_slope(self, z: Tensor) -> Tensor:
        """log h'(z)."""
        bent = self._bent(z).abs()
        log_cosh = bent + (-2.0 * bent).exp().log1p() - math.log(2.0)
        return self.scale.log() + self.tail.log() + log_cosh - 0.5 * z.square().log1p()

    def log_density(self, z: Tensor) -> Tensor:
        """log N(h(z); 0, 1) + log h'(z): how likely scores are that h makes standard normal."""
        return -0.5 * self(z).square() - HALF_LOG_2PI + self.log_slope(z)

    def log_gradient(self, z: Tensor) -> Tensor:
        """log g'(F) at F = Phi(z), for g = Phi h Phi^-1."""
        return self.log_density(z) + 0.5 * z.square() + HALF_LOG_2PI

    def _bent(self, z: Tensor) -> Tensor:
        return (self.tail * z.asinh() - self.skew).clamp(-LARGEST, LARGEST)
