"""An agent: a belief about the rewards of its arms, and a policy that chooses by it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.core.checks import check_at_least, check_kind
from credo.core.rng import Stream
from credo.decide.bandits.beliefs import Belief
from credo.decide.bandits.policies import Policy, ThompsonSampling


@dataclass
class BanditAgent:
    """Chooses one of K arms by a context, sees the reward of that arm alone, and learns from it.

    It is driven by two calls:

        arm = agent.act(context)
        agent.learn(context, arm, reward)

    Contexts are (F,) for one decision, (T, F) for T, or (A, T, F) for T of each of A agents; arms and rewards have the
    same axes but for the last. What `learn` refuses changes nothing: the session goes on.

    Args:
        belief: about the rewards: `LinearBelief`, `NetworkBelief` or `NeuralLinearBelief`. It is learned in place.
        policy: how an arm is chosen.
        first: how often each arm is pulled, in turn, before the policy chooses.
        seed: of everything that is random.

    Examples:
        >>> from credo.decide import LinearBelief
        >>> agent = BanditAgent(LinearBelief(features=0, arms=2))
        >>> context = torch.zeros(0)
        >>> for _ in range(100):
        ...     arm = agent.act(context)
        ...     agent.learn(context, arm, [0.1, 0.9][int(arm)])
        >>> int(agent.act(context))
        1
    """

    belief: Belief
    policy: Policy = field(default_factory=ThompsonSampling)
    first: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        check_kind("belief", self.belief, "LinearBelief(features=3, arms=2)", Belief)
        check_kind("policy", self.policy, "ThompsonSampling()", Policy)
        check_at_least("first", self.first, 1)
        self.decisions = self.rounds = 0
        self._features = self.belief.features

    def act(self, contexts: Any) -> Tensor:
        """Numbers of the arms to pull, from 0 on, in the shape of the contexts without their last axis."""
        given = self._contexts(contexts)
        x = self._side_by_side(given)
        rng = Stream(self.seed, ("bandit", "act", self.decisions))
        in_turn = (self.decisions + torch.arange(x.shape[1])).expand(x.shape[:2])
        arms = in_turn % self.belief.arms
        later = in_turn[0] >= self.first * self.belief.arms
        if bool(later.any()) and self.belief.ready:
            arms = arms.clone()
            arms[:, later] = self.policy.choose(self.belief, x[:, later], rng)
        self.decisions += x.shape[1]
        return arms.reshape(given.shape[:-1])

    def learn(self, contexts: Any, arms: Any, rewards: Any) -> None:
        """Take in what came of some decisions; they need not be those of `act`.

        Args:
            contexts: (F,), (T, F) or (A, T, F).
            arms: that were pulled, (), (T,) or (A, T).
            rewards: that came of it, likewise.
        """
        given = self._contexts(contexts)
        shape = tuple(given.shape[:-1])
        pulled, paid = tensor(arms, "arms"), tensor(rewards, "rewards")
        for name, values in (("arms", pulled), ("rewards", paid)):
            if tuple(values.shape) != shape:
                raise ValueError(
                    f"{name} has shape {tuple(values.shape)}, and the contexts are {tuple(given.shape)}: there must be "
                    f"one for each of them, {shape}"
                )
        self._check_arms(pulled)
        if not bool(paid.isfinite().all()):
            raise ValueError(
                "rewards holds NaN or infinite numbers: leave rounds without a reward out; none of these was learned "
                "from, and the session is as it was"
            )
        x = self._side_by_side(given)
        self._features, self.rounds = x.shape[-1], self.rounds + x.shape[1]
        rng = Stream(self.seed, ("bandit", "learn", self.rounds))
        self.belief.learn(x, pulled.long().reshape(x.shape[:2]), paid.double().reshape(x.shape[:2]), rng)

    def _contexts(self, contexts: Any) -> Tensor:
        x = tensor(contexts, "contexts")
        x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
        agents = self.belief.agents
        if not ((x.ndim == 3 and len(x) == agents) or (1 <= x.ndim <= 2 and agents == 1)) or not x.shape[:-1].numel():
            raise ValueError(
                f"contexts has shape {tuple(x.shape)}: it must be (F,) or (T, F), or (A, T, F) for A agents side by "
                f"side, of which there are {agents}"
            )
        if self._features is not None and x.shape[-1] != self._features:
            raise ValueError(f"contexts have {x.shape[-1]} feature(s), and the agent knows {self._features}")
        if not bool(x.isfinite().all()):
            raise ValueError("contexts holds NaN or infinite numbers: fill them")
        return x

    def _side_by_side(self, x: Tensor) -> Tensor:
        """(A, T, F)."""
        return x if x.ndim == 3 else x.reshape(1, x.shape[:-1].numel(), x.shape[-1])

    def _check_arms(self, arms: Tensor) -> None:
        whole = not arms.is_floating_point() or bool((arms == arms.round()).all())
        if not whole or arms.dtype is torch.bool or not bool(((arms >= 0) & (arms < self.belief.arms)).all()):
            raise ValueError(f"arms must hold whole numbers from 0 to {self.belief.arms - 1}")
