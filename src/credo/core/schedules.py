"""Schedules for samplers and annealing: slow decay, geometric cooling, and cycles."""

from __future__ import annotations

import math
from dataclasses import dataclass

from credo.core.checks import check_at_least, check_not_negative, check_options, check_rate
from credo.core.optimizers import Schedule


@dataclass(frozen=True)
class Polynomial(Schedule):
    """The slow decay of stochastic gradient samplers.

    factor = (1 + decay * fraction)^-power

    With power above 1/2 and at most 1 the steps sum to infinity and their squares do not, which is what convergence
    without a Metropolis correction asks for.

    Args:
        power: how fast it falls in the end.
        decay: the larger, the earlier it falls.

    Examples:
        >>> round(Polynomial(power=1.0, decay=9.0).factor(1.0), 3)
        0.1
    """

    power: float = 0.55
    decay: float = 10.0

    def __post_init__(self) -> None:
        check_options(self)
        check_not_negative("power", self.power)
        check_not_negative("decay", self.decay)

    def factor(self, fraction: float) -> float:
        return float((1.0 + self.decay * fraction) ** -self.power)


@dataclass(frozen=True)
class Geometric(Schedule):
    """The same ratio from each step to the next, from 1 down to `final`.

    Examples:
        >>> round(Geometric(final=1e-4).factor(0.5), 6)
        0.01
    """

    final: float = 1e-3

    def __post_init__(self) -> None:
        check_options(self)
        if not 0.0 < self.final <= 1.0:
            raise ValueError(f"final must lie between 0 and 1 (0 excluded), got {self.final!r}")

    def factor(self, fraction: float) -> float:
        return float(self.final**fraction)


@dataclass(frozen=True)
class Cyclical(Schedule):
    """Half a cosine from 1 to 0, again and again: large steps find a mode, small ones sample from it.

    factor = (cos(pi r) + 1) / 2,   r the part of the present cycle that is over

    Args:
        cycles: how often.
        exploration: the first part of every cycle, in which a sampler moves without noise and keeps no draw.

    Reference: R. Zhang, C. Li, J. Zhang, C. Chen, A. G. Wilson, "Cyclical stochastic gradient MCMC for Bayesian deep
        learning", 2020, https://arxiv.org/abs/1902.03932
    """

    cycles: int = 4
    exploration: float = 0.75

    def __post_init__(self) -> None:
        check_options(self)
        check_at_least("cycles", self.cycles, 1)
        check_rate("exploration", self.exploration)

    def factor(self, fraction: float) -> float:
        return 0.5 * (math.cos(math.pi * self._position(fraction)) + 1.0)

    def explores(self, fraction: float) -> bool:
        """Whether the present cycle is still looking for a mode."""
        return self._position(fraction) < self.exploration

    def _position(self, fraction: float) -> float:
        return (self.cycles * fraction) % 1.0
