"""Rewards that are linear in the context, or in what a network makes of it: beliefs in closed form."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from credo.core.checks import check_at_least
from credo.core.rng import Stream
from credo.decide.bandits.beliefs import Belief
from credo.decide.bandits.network import DivergedAgentsError, NetworkBelief
from credo.exact import NormalInverseGamma
from credo.uncertainty import features

PRIOR_PRECISION = 0.25
PRIOR_SHAPE = PRIOR_RATE = 6.0
"""The settings of the Bayesian bandits showdown."""
TOGETHER = 1024
"""Contexts for which weights are drawn at a time."""


class LinearBelief(Belief):
    """One Bayesian linear regression with unknown noise for each arm, in closed form.

    reward_k = w_k^T (context, 1) + noise,   (w_k, noise variance) ~ NormalInverseGamma

    Args:
        features: F, the length of a context; 0 for none, so that each arm has one unknown mean.
        arms: K.
        agents: A, side by side.
        precision: of the prior of every weight, relative to that of the noise.
        shape: of the prior of the noise variance.
        rate: likewise.

    Examples:
        >>> belief = LinearBelief(features=1, arms=2)
        >>> contexts = torch.tensor([[[1.0], [2.0], [3.0]]])
        >>> belief.learn(contexts, torch.tensor([[0, 0, 0]]), torch.tensor([[2.0, 4.0, 6.0]]), Stream(0))
        >>> mean, stddev = belief.moments(contexts, Stream(0))
        >>> bool(mean[0, 2, 0] > 5.0), bool(stddev[0, 2, 1] > stddev[0, 2, 0])
        (True, True)
    """

    def __init__(
        self,
        features: int,
        arms: int,
        agents: int = 1,
        precision: float = PRIOR_PRECISION,
        shape: float = PRIOR_SHAPE,
        rate: float = PRIOR_RATE,
    ) -> None:
        check_at_least("features", features, 0)
        check_at_least("arms", arms, 2)
        check_at_least("agents", agents, 1)
        self.features, self.arms, self.agents = features, arms, agents
        self.weights = NormalInverseGamma.isotropic((agents, arms), features + 1, precision, shape, rate)

    def reward_each(self, contexts: Tensor, rng: Stream) -> Tensor:
        parts = torch.split(_design(contexts), TOGETHER, dim=1)
        weights = (self.weights.sample(part.shape[1], rng.child(i)) for i, part in enumerate(parts))  # (T, A, K, P)
        return torch.cat([torch.einsum("atp,takp->atk", *each) for each in zip(parts, weights, strict=True)], dim=1)

    def moments(self, contexts: Tensor, rng: Stream) -> tuple[Tensor, Tensor]:
        mean, variance = self.weights.predict(_design(contexts).unsqueeze(1))
        return mean.mT, variance.sqrt().mT

    def learn(self, contexts: Tensor, arms: Tensor, rewards: Tensor, rng: Stream) -> None:
        for a, (x, chosen, paid) in enumerate(zip(_design(contexts), arms, rewards, strict=True)):
            for arm in chosen.unique().tolist():
                mine = chosen == arm
                after = self.weights.of(a, arm).updated(x[mine], paid[mine])
                self.weights = self.weights.replaced(after, a, arm)


def _design(contexts: Tensor) -> Tensor:
    return F.pad(contexts.double(), (0, 1), value=1.0)


class NeuralLinearBelief(Belief):
    """A network whose last hidden layer is the input of a `LinearBelief`: learned features, exact doubt about the rest.

    The regressions take in every round at once. When the network is refitted, its features mean something else, and the
    regressions begin anew with the whole history.

    Args:
        network: learns the features; its own doubt is not used, so `credo.MAP` will do.
        precision: of the prior of the last layer's weights, relative to that of the noise.
        shape: of the prior of the noise variance.
        rate: likewise.

    Reference: C. Riquelme, G. Tucker, J. Snoek, "Deep Bayesian bandits showdown", 2018,
        https://arxiv.org/abs/1802.09127
    """

    def __init__(
        self,
        network: NetworkBelief,
        precision: float = PRIOR_PRECISION,
        shape: float = PRIOR_SHAPE,
        rate: float = PRIOR_RATE,
    ) -> None:
        self.network, self.prior = network, (precision, shape, rate)
        self.features, self.arms, self.agents = network.features, network.arms, network.agents
        self.last: LinearBelief | None = None

    @property
    def ready(self) -> bool:
        return self.network.ready

    def reward_each(self, contexts: Tensor, rng: Stream) -> Tensor:
        found = self._features(contexts)
        return self._last(found).reward_each(found, rng)

    def moments(self, contexts: Tensor, rng: Stream) -> tuple[Tensor, Tensor]:
        found = self._features(contexts)
        return self._last(found).moments(found, rng)

    def learn(self, contexts: Tensor, arms: Tensor, rewards: Tensor, rng: Stream) -> None:
        before = self.network.fitted
        try:
            self.network.learn(contexts, arms, rewards, rng)
        except DivergedAgentsError:  # the features are what they were
            self._take_in(contexts, arms, rewards, rng)
            raise
        if self.network.fitted == 0:  # no features yet
            return
        if self.network.fitted != before:
            self.last = None
            contexts, arms, rewards = self.network.history.all()
        self._take_in(contexts, arms, rewards, rng)

    def _take_in(self, contexts: Tensor, arms: Tensor, rewards: Tensor, rng: Stream) -> None:
        if self.network.ready:
            found = self._features(contexts)
            self.last = self._last(found)
            self.last.learn(found, arms, rewards, rng)

    def _last(self, found: Tensor) -> LinearBelief:
        return self.last or LinearBelief(found.shape[-1], self.arms, self.agents, *self.prior)

    def _features(self, contexts: Tensor) -> Tensor:
        each = zip(self.network.posteriors, contexts, strict=True)
        return torch.stack([features(posterior, x) for posterior, x in each])
