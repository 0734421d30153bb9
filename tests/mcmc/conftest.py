"""A law whose draws and distribution functions are known, skewed and correlated, so that signs and factors show."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from scipy import stats
from torch import Tensor

from credo.methods.mcmc.integrators import ChainState


@dataclass(frozen=True)
class SkewedLaw:
    """exp(a) ~ Gamma(2), and b given a ~ N(1 + 1.5 a, 0.4^2): skewed, bent out of shape, correlated at 0.93.

    Every kernel here takes any flat log density, so that the law needs no network.
    """

    shape: float = 2.0
    slope: float = 1.5
    scale: float = 0.4

    def __call__(self, q: Tensor) -> tuple[Tensor, Tensor]:
        a, b = q.unbind(1)
        z = (b - 1.0 - self.slope * a) / self.scale
        value = self.shape * a - a.exp() - 0.5 * z.square()
        slope = torch.stack([self.shape - a.exp() + z * self.slope / self.scale, -z / self.scale], dim=1)
        return value, slope

    def draw(self, count: int, seed: int) -> Tensor:
        """Exact draws, (count, 2)."""
        generator = torch.Generator().manual_seed(seed)
        gamma = torch._standard_gamma(torch.full((count,), self.shape).double(), generator=generator)
        noise = torch.randn(count, generator=generator, dtype=torch.float64)
        a = gamma.log()
        return torch.stack([a, 1.0 + self.slope * a + self.scale * noise], dim=1)

    def chains(self, count: int, seed: int) -> ChainState:
        return ChainState.at(self.draw(count, seed), self)

    def p_value(self, q: Tensor) -> float:
        """That independent positions (C, 2) follow the law: Kolmogorov-Smirnov of both coordinates, Bonferroni."""
        a, b = q.unbind(1)
        z = (b - 1.0 - self.slope * a) / self.scale
        first = stats.kstest(a.exp().numpy(), stats.gamma(self.shape).cdf).pvalue
        return 2.0 * min(float(first), float(stats.kstest(z.numpy(), stats.norm.cdf).pvalue))


@pytest.fixture(scope="session")
def law() -> SkewedLaw:
    return SkewedLaw()
