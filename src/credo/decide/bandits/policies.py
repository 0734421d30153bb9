"""How an arm is chosen when it is not known which is best."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.checks import check_not_negative, is_number
from credo.core.rng import Stream
from credo.decide.bandits.beliefs import Belief


class Policy(ABC):
    """A rule from a belief about rewards to an arm."""

    @abstractmethod
    def choose(self, belief: Belief, contexts: Tensor, rng: Stream) -> Tensor:
        """Arms (A, T) for contexts (A, T, F)."""


@dataclass(frozen=True)
class ThompsonSampling(Policy):
    """Draw one function from the posterior and act as if it were true.

    arm = argmax_k f_k(x),   f ~ p(f | data),   so that P(arm) = P(arm is the best | data)

    Reference: W. R. Thompson, "On the likelihood that one unknown probability exceeds another in view of the evidence
        of two samples", 1933, https://doi.org/10.1093/biomet/25.3-4.285
    """

    def choose(self, belief: Belief, contexts: Tensor, rng: Stream) -> Tensor:
        return belief.reward_each(contexts, rng).argmax(-1)


@dataclass(frozen=True)
class EpsilonGreedy(Policy):
    """The arm with the largest expected reward, or with probability epsilon any.

    Args:
        epsilon: between 0 and 1.
    """

    epsilon: float = 0.05

    def __post_init__(self) -> None:
        if not is_number(self.epsilon) or not 0.0 <= self.epsilon <= 1.0:
            raise ValueError(f"epsilon must lie between 0 and 1, got {self.epsilon!r}")

    def choose(self, belief: Belief, contexts: Tensor, rng: Stream) -> Tensor:
        best = belief.moments(contexts, rng.child("belief"))[0].argmax(-1)
        explores = torch.rand(best.shape, generator=rng.child("whether").generator()) < self.epsilon
        return torch.where(explores, _any(best.shape, belief.arms, rng), best)


@dataclass(frozen=True)
class UpperConfidence(Policy):
    """The arm that could be best: the largest mean plus some standard deviations of the belief.

    arm = argmax_k E[f_k(x)] + width sd[f_k(x)]

    Args:
        width: standard deviations.

    Reference: L. Li and others, "A contextual-bandit approach to personalized news article recommendation", 2010,
        https://arxiv.org/abs/1003.0146
    """

    width: float = 2.0

    def __post_init__(self) -> None:
        check_not_negative("width", self.width)

    def choose(self, belief: Belief, contexts: Tensor, rng: Stream) -> Tensor:
        mean, stddev = belief.moments(contexts, rng)
        return (mean + self.width * stddev).argmax(-1)


@dataclass(frozen=True)
class UniformChoice(Policy):
    """Any arm, whatever is believed: what others are compared with."""

    def choose(self, belief: Belief, contexts: Tensor, rng: Stream) -> Tensor:
        return _any(contexts.shape[:-1], belief.arms, rng)


def _any(shape: torch.Size, arms: int, rng: Stream) -> Tensor:
    return torch.randint(arms, shape, generator=rng.child("which").generator())
