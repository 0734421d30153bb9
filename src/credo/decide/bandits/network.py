"""A belief about rewards that is the posterior of a network, whatever the method."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from credo.core.checks import check_at_least, check_kind
from credo.core.rng import Stream
from credo.core.status import Status
from credo.decide.bandits.beliefs import Belief, PastRounds, Refits
from credo.fit import fit
from credo.likelihoods import ChosenArm, LearnedGaussian
from credo.loop.roles import PerMember
from credo.methods import Ensemble, Method
from credo.methods.base import Sampler
from credo.model import Model
from credo.posteriors import Chains, Draws, Functions, NetworkFunctions, Posterior, Weighted
from credo.posteriors.base import checked_shape

TOGETHER = 64
"""Contexts that are decided at once: each draws a function, and all functions are computed at all of them."""


class DivergedAgentsError(ValueError):
    """Networks of a refit diverged. The rounds are kept, and so is what was believed before."""


class NetworkBelief(Belief):
    """The posterior of a network with one output for each arm, learned from the rewards of the arms that were chosen.

    Any method of credo's will do. A refit begins at the posterior of the one before. With several agents, their
    networks are members of one run, each with its own history.

    Args:
        model: network and likelihood of one reward, `credo.Model(net, likelihoods.Gaussian(scale=1.0))`; of a bare
            module the noise is learned. Rewards are taken as they are: bring them to order one, or give a scale.
        method: how to learn at each refit.
        arms: K.
        refits: when, and from how many rounds.
        agents: A, side by side.

    Examples:
        >>> import credo
        >>> belief = NetworkBelief(credo.nets.MLP(3, 2), credo.DeepEnsemble(members=4, epochs=5), arms=2)
    """

    def __init__(
        self, model: Model | nn.Module, method: Method, arms: int, refits: Refits = Refits(), agents: int = 1
    ) -> None:
        check_kind("method", method, "credo.MAP(epochs=10)", Method)
        check_kind("refits", refits, "Refits(every=50)", Refits)
        check_at_least("arms", arms, 2)
        check_at_least("agents", agents, 1)
        if agents > 1 and isinstance(method, Sampler):
            raise ValueError(f"several agents cannot share a run of {type(method).__name__}, whose members are chains")
        self.arms, self.agents, self.refits = arms, agents, refits
        self.model, self.method = _of_arms(model), method
        self.history, self.fitted = PastRounds(), 0
        self.posterior: Posterior | None = None
        self.posteriors: list[Posterior] = []

    @property
    def ready(self) -> bool:
        return self.posterior is not None

    def reward_each(self, contexts: Tensor, rng: Stream) -> Tensor:
        return torch.stack(
            [
                torch.cat([self._each(posterior, part, rng.child(a, i)) for i, part in enumerate(x.split(TOGETHER))])
                for a, (posterior, x) in enumerate(zip(self._fitted(), contexts, strict=True))
            ]
        )

    def moments(self, contexts: Tensor, rng: Stream) -> tuple[Tensor, Tensor]:
        each = zip(self._fitted(), contexts, strict=True)
        found = [posterior.predict(x, seed=rng.child(a).key() % 2**31) for a, (posterior, x) in enumerate(each)]
        return torch.stack([p.mean for p in found]), torch.stack([p.epistemic.sqrt() for p in found])

    def learn(self, contexts: Tensor, arms: Tensor, rewards: Tensor, rng: Stream) -> None:
        if not len(self.history):
            self._check_outputs(contexts[0])
        self.history.append(contexts, arms, rewards)
        if self.refits.due(len(self.history), self.fitted):
            self.refit(rng)

    def refit(self, rng: Stream) -> None:
        """Learn from the history now."""
        contexts, arms, rewards = self.history.all()
        y = torch.stack([rewards, arms.to(rewards.dtype)], dim=-1)
        weights = None
        if self.refits.rows is not None:
            chosen = self.refits.chosen(len(self.history), rng.child("rows"))
            contexts, y = contexts[:, chosen], y[:, chosen]
            weights = torch.full(y.shape[:2], len(self.history) / len(chosen), dtype=y.dtype)
        self._learn_from(contexts, y, weights, rng.child("fit").key() % 2**31)
        self.fitted = len(self.history)

    def _learn_from(self, x: Tensor, y: Tensor, weights: Tensor | None, seed: int) -> None:
        data: Any = (x[0], y[0])
        method = self.method
        if self.agents > 1:
            each = self.method.members
            inner = self.method.method if isinstance(self.method, Ensemble) else self.method
            x, y = x.repeat_interleave(each, 0), y.repeat_interleave(each, 0)
            weights = None if weights is None else weights.repeat_interleave(each, 0)
            data, method = PerMember(x, y, weights), Ensemble(inner, self.agents * each)
        of_rows = None if weights is None or self.agents > 1 else weights[0]
        found = fit(self.model, data, method, weights=of_rows, seed=seed, start=self.posterior, progress=False)
        self._take_over(found)
        if found.record.interrupted:  # which `fit` takes for the end of its run, and no more
            raise KeyboardInterrupt

    def _take_over(self, found: Posterior) -> None:
        """Believe what a refit has found, or nothing of it where networks diverged."""
        each = self.method.members
        lost = self.agents > 1 and found.members().members < self.agents * each
        if lost or found.record.status is Status.DIVERGED:
            raise DivergedAgentsError(
                "networks diverged in a refit: lower the learning rate, or bring rewards and contexts to order one; "
                "the rounds are kept, and the agent believes what it did before"
            )
        self.posterior, self.posteriors = found, [found]
        if self.agents > 1:
            numbers = torch.arange(self.agents * each).view(self.agents, each)
            self.posteriors = [found.of_members(mine) for mine in numbers]

    def _fitted(self) -> list[Posterior]:
        if not self.posteriors:
            raise ValueError(f"there was no refit yet: the first comes after {self.refits.first} rounds")
        return self.posteriors

    def _check_outputs(self, contexts: Tensor) -> None:
        """Refuse a network with more or fewer outputs than arms."""
        network, likelihood = self.model.network, self.model.likelihood
        shape = checked_shape(self.model, network.given(), contexts.to(network.input_dtype))
        assert isinstance(likelihood, ChosenArm)
        found = likelihood.arms(likelihood.outputs_of(shape))
        if found != self.arms:
            raise ValueError(f"the network says the rewards of {found} arm(s), and there are {self.arms}")

    def _each(self, posterior: Posterior, x: Tensor, rng: Stream) -> Tensor:
        """Expected rewards (T, K) of contexts (T, F), each under a function of its own."""
        functions, chosen = functions_for(posterior, len(x), rng)
        outputs = functions(posterior.inputs(x))
        rewards = self.model.likelihood.mean(outputs, functions.likelihood_params)  # (S, T, K)
        return rewards[chosen, torch.arange(len(x))]


def functions_for(posterior: Posterior, count: int, rng: Stream) -> tuple[Functions, Tensor]:
    """Functions, and the numbers of those that belong to `count` occasions: independent draws of the posterior.

    `posterior.draw` deals its draws evenly to members and along chains, so that one of them alone would always be of
    the first member.

    Returns:
        S functions, and numbers of them, (count,).
    """
    if isinstance(posterior, Draws | Chains | Weighted):
        functions = posterior.draw()
        weights = functions.log_weights.double().exp()
        chosen = torch.multinomial(weights, count, replacement=True, generator=rng.child("choice").generator())
        if len(functions) <= count:
            return functions, chosen
        some = functions.variables.take(chosen)
        return NetworkFunctions(posterior.model, some, Draws.uniform(some)), torch.arange(count)
    members = posterior.members().members
    drawn = posterior.draw(members * -(-count // members), seed=rng.child("draw").key() % 2**31)
    return drawn, rng.child("order").permutation(len(drawn))[:count]


def _of_arms(model: Model | nn.Module) -> Model:
    """The model with a likelihood that looks at the chosen arm alone."""
    model = model if isinstance(model, Model) else Model(model)
    base = model.given_likelihood or LearnedGaussian()
    return model if isinstance(base, ChosenArm) else model.with_likelihood(ChosenArm(base))
