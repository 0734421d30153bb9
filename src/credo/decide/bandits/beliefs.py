"""What an agent believes about the rewards of its arms: a distribution over functions from contexts to rewards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from credo.core.checks import check_at_least, check_not_negative
from credo.core.rng import Stream


@dataclass
class PastRounds:
    """All rounds that were seen, of A agents side by side; N grows."""

    parts: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    def __len__(self) -> int:
        """N."""
        return sum(part[1].shape[1] for part in self.parts)

    def append(self, contexts: Tensor, arms: Tensor, rewards: Tensor) -> None:
        self.parts.append((contexts, arms, rewards))

    def all(self) -> tuple[Tensor, Tensor, Tensor]:
        """Contexts (A, N, F), arms (A, N) and rewards (A, N)."""
        if len(self.parts) > 1:
            contexts, arms, rewards = (torch.cat(column, dim=1) for column in zip(*self.parts, strict=True))
            self.parts = [(contexts, arms, rewards)]
        return self.parts[0]


@dataclass(frozen=True)
class Refits:
    """When a network learns anew, and from how many rounds.

    A refit begins at the posterior of the one before.

    The first comes early, and the next whenever the history has doubled, until they are `every` rounds apart.

    Args:
        every: rounds between two refits.
        growth: part by which the history must have grown since the last refit: 0.1 makes refits rarer and rarer, so
            that their number grows with the logarithm of the rounds.
        rows: rounds that a refit learns from, drawn from the history in even shares and weighted so that they count as
            much as all of it; a refit then costs the same however long the history is. None takes every round once.
        first: rounds before the first refit.
    """

    every: int = 50
    growth: float = 0.0
    rows: int | None = None
    first: int = 4

    def __post_init__(self) -> None:
        check_at_least("every", self.every, 1)
        check_at_least("first", self.first, 1)
        check_not_negative("growth", self.growth)
        if self.rows is not None:
            check_at_least("rows", self.rows, 1)

    def due(self, rounds: int, last: int) -> bool:
        """Whether it is time, `rounds` after the start, when the last refit came after `last` of them."""
        return rounds - last >= max(min(self.every, max(last, self.first)), self.growth * last)

    def chosen(self, rounds: int, rng: Stream) -> Tensor:
        """Numbers of the rounds to learn from, (rows,): each comes as often as any other, or once more."""
        assert self.rows is not None
        times = -(-self.rows // rounds)
        return torch.cat([rng.child(i).permutation(rounds) for i in range(times)])[: self.rows]


class Belief(ABC):
    """A distribution over the functions that say the expected reward of each arm, for A agents side by side.

    Attributes:
        agents: A; they share nothing.
        arms: K.
        features: F, the length of a context; None where any is taken.
    """

    agents: int
    arms: int
    features: int | None = None

    @property
    def ready(self) -> bool:
        """Whether there is something to choose by; until then arms are pulled in turn."""
        return True

    @abstractmethod
    def reward_each(self, contexts: Tensor, rng: Stream) -> Tensor:
        """Expected rewards (A, T, K) of contexts (A, T, F), each under a function of its own, drawn for it."""

    @abstractmethod
    def moments(self, contexts: Tensor, rng: Stream) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the expected rewards under the belief, (A, T, K) each."""

    @abstractmethod
    def learn(self, contexts: Tensor, arms: Tensor, rewards: Tensor, rng: Stream) -> None:
        """Take in T rounds: contexts (A, T, F), arms (A, T), rewards (A, T)."""
