"""The coin: heads and tails, a beta prior, and everything in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_between, check_positive
from credo.core.integrals import smallest_where
from credo.core.rng import Stream
from credo.exact.beta import beta_cdf, log_beta
from credo.exact.grid import Grid, midpoints


@dataclass(frozen=True)
class Coin:
    """What is believed about a coin's probability of heads after some tosses.

    p(theta) = Beta(prior_heads, prior_tails),   p(theta | data) = Beta(prior_heads + heads, prior_tails + tails)

    Args:
        heads: how often the coin showed heads.
        tails: how often it showed tails.
        prior_heads: pseudo-count of heads in the prior; 1 and 1 is the uniform prior.
        prior_tails: pseudo-count of tails.

    Examples:
        >>> three = Coin(heads=3, tails=0)  # the posterior is 4 theta^3
        >>> three.head_probability
        0.8
        >>> three.maximum_likelihood
        1.0

    Reference: T. Bayes, "An essay toward solving a problem in the doctrine of chances", 1763.
    """

    heads: int
    tails: int
    prior_heads: float = 1.0
    prior_tails: float = 1.0

    def __post_init__(self) -> None:
        check_at_least("heads", self.heads, 0)
        check_at_least("tails", self.tails, 0)
        check_positive("prior_heads", self.prior_heads)
        check_positive("prior_tails", self.prior_tails)

    @property
    def a(self) -> float:
        """The posterior's first parameter, prior_heads + heads."""
        return self.prior_heads + self.heads

    @property
    def b(self) -> float:
        """The posterior's second parameter, prior_tails + tails."""
        return self.prior_tails + self.tails

    @property
    def prior(self) -> Coin:
        """The same coin before any toss."""
        return replace(self, heads=0, tails=0)

    def observe(self, heads: int, tails: int) -> Coin:
        """The belief after more tosses: the posterior is the next prior."""
        return Coin(heads, tails, self.a, self.b)

    @property
    def mean(self) -> float:
        """E[theta | data]."""
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> float:
        """Var(theta | data)."""
        total = self.a + self.b
        return self.a * self.b / (total**2 * (total + 1))

    @property
    def head_probability(self) -> float:
        """P(next toss is heads | data) = E[theta | data]: the average over all coins, not the best of them."""
        return self.mean

    @property
    def epistemic(self) -> float:
        """Part of the next toss's variance that more tosses would remove: Var(theta | data)."""
        return self.variance

    @property
    def aleatoric(self) -> float:
        """Part that stays however often the coin is tossed: E[theta (1 - theta) | data]."""
        total = self.a + self.b
        return self.a * self.b / (total * (total + 1))

    @property
    def maximum_likelihood(self) -> float:
        """heads / tosses: the theta under which the data are most probable."""
        if self.heads + self.tails == 0:
            raise ValueError("without a toss every theta has the same likelihood: give heads or tails")
        return self.heads / (self.heads + self.tails)

    @property
    def log_evidence(self) -> float:
        """log p(data), of the sequence of tosses in their order."""
        return log_beta(self.a, self.b) - log_beta(self.prior_heads, self.prior_tails)

    def log_likelihood(self, theta: Tensor) -> Tensor:
        """log p(data | theta), of the sequence of tosses in their order."""
        return torch.special.xlogy(float(self.heads), theta) + torch.special.xlog1py(float(self.tails), -theta)

    def log_density(self, theta: Tensor) -> Tensor:
        """log p(theta | data); minus infinity outside [0, 1]."""
        powers = torch.special.xlogy(self.a - 1, theta) + torch.special.xlog1py(self.b - 1, -theta)
        inside = (theta >= 0) & (theta <= 1)
        return torch.where(inside, powers - log_beta(self.a, self.b), -torch.inf)

    def density(self, theta: Tensor) -> Tensor:
        """p(theta | data)."""
        return self.log_density(theta).exp()

    def cdf(self, theta: Tensor) -> Tensor:
        """P(theta' <= theta | data)."""
        return beta_cdf(theta.double().clamp(0, 1), self.a, self.b)

    def quantile(self, levels: Tensor) -> Tensor:
        """The theta below which the given part of the posterior lies, element by element."""
        levels = levels.double()
        return smallest_where(
            lambda theta: self.cdf(theta) >= levels,
            torch.zeros_like(levels),
            torch.ones_like(levels),
            discrete=False,
        )

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Lower and upper ends with equal mass outside and `level` between them."""
        check_between("level", level)
        lower, upper = self.quantile(torch.tensor([0.5 - level / 2, 0.5 + level / 2], dtype=torch.float64)).tolist()
        return lower, upper

    def sample(self, count: int, stream: Stream) -> Tensor:
        """`count` draws of theta, (count,), by inverting the distribution function."""
        check_at_least("count", count, 1)
        return self.quantile(torch.rand(count, generator=stream.generator(), dtype=torch.float64))

    def grid(self, points: int = 1000) -> Grid:
        """The same posterior the hacker's way: prior and likelihood at the midpoints of a grid of theta, no integral.

        Examples:
            >>> grid = Coin(heads=3, tails=0).grid()
            >>> round(float(grid.expect(grid.axes[0])), 5)
            0.8
        """
        theta = midpoints(0.0, 1.0, points)
        return Grid((theta,), self.prior.log_density(theta), self.log_likelihood(theta))
