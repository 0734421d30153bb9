"""Bandit games whose rewards are known, to compare agents with: the mushrooms, and the wheel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from credo.core.arrays import check_finite, tensor
from credo.core.checks import is_number, whole_number
from credo.core.rng import Stream
from credo.decide.bandits.agent import BanditAgent


@dataclass(frozen=True, eq=False)
class Rounds:
    """Rounds of a game, with what each arm would pay.

    Attributes:
        contexts: (T, F).
        rewards: of each arm, were it pulled, (T, K).
        expected: their expectations, (T, K).
    """

    contexts: Tensor
    rewards: Tensor
    expected: Tensor


class BanditGame(ABC):
    """Contexts, and what each of K arms pays in them."""

    arms: int

    @abstractmethod
    def rounds(self, count: int, rng: Stream) -> Rounds:
        """So many rounds."""


@dataclass(frozen=True, eq=False)
class MushroomGame(BanditGame):
    """Eat a mushroom, arm 1, or pass it by, arm 0.

    To pass pays 0, an edible mushroom 5, and a poisonous one 5 or -35, each with probability 1/2.

    Args:
        x: features of the mushrooms, (N, F).
        poisonous: whether each is, (N,).

    Reference: C. Blundell et al., "Weight uncertainty in neural networks", 2015, https://arxiv.org/abs/1505.05424
    """

    x: Any
    poisonous: Any
    arms = 2

    def __post_init__(self) -> None:
        x, poisonous = tensor(self.x, "x"), tensor(self.poisonous, "poisonous").bool()
        if x.ndim != 2 or poisonous.shape != x.shape[:1] or not len(x):
            raise ValueError(
                f"x has shape {tuple(x.shape)} and poisonous {tuple(poisonous.shape)}: they must be (N, F) and (N,)"
            )
        check_finite(x, "x")
        object.__setattr__(self, "x", x.to(torch.get_default_dtype()))
        object.__setattr__(self, "poisonous", poisonous)

    def rounds(self, count: int, rng: Stream) -> Rounds:
        chosen = torch.randint(len(self.x), (count,), generator=rng.child("mushrooms").generator())
        unlucky = torch.rand(count, generator=rng.child("luck").generator()) < 0.5
        poisonous = self.poisonous[chosen]
        eaten = torch.where(poisonous & unlucky, -35.0, 5.0)
        expected = torch.where(poisonous, -15.0, 5.0)
        nothing = torch.zeros(count)
        return Rounds(self.x[chosen], torch.stack([nothing, eaten], 1), torch.stack([nothing, expected], 1))


@dataclass(frozen=True)
class WheelGame(BanditGame):
    """Contexts in the unit disk; outside a radius one arm pays much, and the larger it is, the rarer are such contexts.

    Arm 4 pays 1.2 on average and arms 0 to 3 pay 1, with a standard deviation of 0.05. Where |x| > delta the arm of the
    quadrant, one of 0 to 3, pays 50 with a standard deviation of 0.01.

    Args:
        delta: the radius, from 0 to 1 (1 excluded).

    Reference: C. Riquelme, G. Tucker, J. Snoek, "Deep Bayesian bandits showdown", 2018,
        https://arxiv.org/abs/1802.09127
    """

    delta: float = 0.5
    arms = 5

    def __post_init__(self) -> None:
        if not is_number(self.delta) or not 0.0 <= self.delta < 1.0:
            raise ValueError(f"delta must lie between 0 and 1 (1 excluded), got {self.delta!r}")

    def rounds(self, count: int, rng: Stream) -> Rounds:
        radius = torch.rand(count, generator=rng.child("radius").generator()).sqrt()
        angle = 2.0 * math.pi * torch.rand(count, generator=rng.child("angle").generator())
        contexts = radius.unsqueeze(1) * torch.stack([angle.cos(), angle.sin()], 1)
        outside = radius > self.delta
        quadrant = (contexts[:, 0] < 0).long() + 2 * (contexts[:, 1] < 0).long()
        expected = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.2]).repeat(count, 1)
        scale = torch.full((count, 5), 0.05)
        expected[outside, quadrant[outside]] = 50.0
        scale[outside, quadrant[outside]] = 0.01
        return Rounds(contexts, expected + scale * rng.child("noise").normal(count, 5), expected)


@dataclass(frozen=True, eq=False)
class Played:
    """What A agents did in T rounds of a game.

    Attributes:
        arms: that they pulled, (A, T).
        rewards: that they got, (A, T).
        regret: by how much the best arm pays more than theirs, in expectation, (A, T).
        uniform: the same of an agent that pulls any arm, (A, T).
    """

    arms: Tensor
    rewards: Tensor
    regret: Tensor
    uniform: Tensor

    @property
    def cumulative_regret(self) -> Tensor:
        """(A, T)."""
        return self.regret.double().cumsum(1)

    @property
    def relative_regret(self) -> Tensor:
        """The whole regret, as a part of that of an agent that pulls any arm, (A,)."""
        return self.regret.double().sum(1) / self.uniform.double().sum(1)


def play(
    agent: BanditAgent,
    game: BanditGame,
    rounds: int,
    *,
    seed: int = 0,
    together: int = 1,
    listener: Callable[[int, int], None] | None = None,
) -> Played:
    """Let an agent, or several side by side, play a game; each sees rounds of its own.

    Args:
        agent: it learns.
        game: what is played.
        rounds: how many.
        seed: of the game's rounds.
        together: decisions that are taken before their rewards are learned from, fewer in the first rounds. While a
            belief is refitted every 50 rounds, 50 at once are as good as one by one, and much faster.
        listener: is called with the rounds that were played, and their total.
    """
    rounds, together, agents = whole_number("rounds", rounds), whole_number("together", together), agent.belief.agents
    if game.arms != agent.belief.arms:
        raise ValueError(f"the game has {game.arms} arms, and the agent {agent.belief.arms}")
    each = [game.rounds(rounds, Stream(seed, ("game", a))) for a in range(agents)]
    contexts, rewards, expected = (
        torch.stack(column) for column in zip(*((r.contexts, r.rewards, r.expected) for r in each), strict=True)
    )
    pulled = list[Tensor]()
    while (start := sum(part.shape[1] for part in pulled)) < rounds:
        some = slice(start, start + min(together, max(1, start)))
        arms = agent.act(contexts[:, some])
        agent.learn(contexts[:, some], arms, rewards[:, some].gather(2, arms.unsqueeze(2)).squeeze(2))
        pulled.append(arms)
        if listener is not None:
            listener(min(some.stop, rounds), rounds)
    arms = torch.cat(pulled, 1)
    best = expected.amax(2)
    return Played(
        arms,
        rewards.gather(2, arms.unsqueeze(2)).squeeze(2),
        best - expected.gather(2, arms.unsqueeze(2)).squeeze(2),
        best - expected.mean(2),
    )
