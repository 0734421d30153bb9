"""How much of the KL divergence each minibatch bears, and how much of it counts as training goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from credo.core.checks import check_options
from credo.core.optimizers import Schedule


class BatchWeights(ABC):
    """The share of the KL that each of the M minibatches of an epoch bears; the shares of an epoch sum to one."""

    @abstractmethod
    def share(self, index: int, batches: int) -> float:
        """Of batch `index` (0 .. batches - 1)."""


@dataclass(frozen=True)
class EvenWeights(BatchWeights):
    """The same share, 1 / M, for every batch: each batch estimates the same bound."""

    def share(self, index: int, batches: int) -> float:
        return 1.0 / batches


@dataclass(frozen=True)
class GeometricWeights(BatchWeights):
    """Blundell's shares 2^(M - i) / (2^M - 1), i = 1 .. M: the first batches of an epoch are ruled by the prior.

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, section 3.4,
        https://arxiv.org/abs/1505.05424
    """

    def share(self, index: int, batches: int) -> float:
        return 2.0 ** -(index + 1) / (1.0 - 2.0**-batches)


@dataclass(frozen=True)
class WarmUp(Schedule):
    """From `initial` up to 1 in a straight line, reached when the fraction `until` of the run is over.

    For a KL divergence that should not crush the weights before the likelihood has been heard.
    """

    until: float = 0.2
    initial: float = 0.0

    def __post_init__(self) -> None:
        check_options(self)
        if not 0.0 < self.until <= 1.0:
            raise ValueError(f"until must be a fraction of the run, above 0 and up to 1, got {self.until}")
        if not 0.0 <= self.initial <= 1.0:
            raise ValueError(f"initial must lie between 0 and 1, got {self.initial}")

    def factor(self, fraction: float) -> float:
        return self.initial + (1.0 - self.initial) * min(1.0, fraction / self.until)
