"""The mushrooms, the agents and their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import credo
from credo import likelihoods, nets, priors
from credo.data.sets import load
from credo.decide import (
    BanditAgent,
    Belief,
    EpsilonGreedy,
    LinearBelief,
    MushroomGame,
    NetworkBelief,
    NeuralLinearBelief,
    Refits,
    ThompsonSampling,
)
from credo.experiments.base import Size
from credo.methods import Method

ROUNDS, SHORT = 50_000, 2_000
"""Of the game of Blundell and others, and of that of the showdown."""
TRIALS = {Size.QUICK: 2, Size.FULL: 3}
HIDDEN = (100, 100)
NOISE = 1.0
"""Standard deviation of rewards in the likelihood of every network."""
STEPS: Mapping[str, Any] = {"epochs": 1, "learning_rate": 1e-3, "batch_size": 64}
REFITS = Refits(every=50, growth=0.05, rows=100 * 64)
"""A hundred steps every fifty rounds, and rarer from a thousand rounds on."""
TOGETHER = 50
"""Decisions between two looks at rewards."""
DROPPED = 0.2

GREEDY = ("greedy", "1 % greedy", "5 % greedy")
"""The agents that the others must beat."""


def game() -> MushroomGame:
    """The mushrooms, each attribute as zeros and ones.

    Raises:
        DataError: the file is not at hand.
    """
    data = load("mushroom")
    return MushroomGame(data.x, data.y)


def _network(method: Method, features: int, agents: int) -> NetworkBelief:
    model = credo.Model(nets.MLP(features, 2, HIDDEN), likelihoods.Gaussian(NOISE), priors.Normal(1.0))
    return NetworkBelief(model, method, arms=2, refits=REFITS, agents=agents)


def _neural_linear(features: int, agents: int) -> NeuralLinearBelief:
    return NeuralLinearBelief(_network(credo.MAP(**STEPS), features, agents))


def _greedy(features: int, agents: int) -> NetworkBelief:
    return _network(credo.MAP(**STEPS), features, agents)


BELIEFS: Mapping[str, Callable[[int, int], Belief]] = {
    "Bayes by Backprop": lambda f, a: _network(credo.BayesByBackprop(**STEPS), f, a),
    "dropout": lambda f, a: _network(credo.MCDropout(rate=DROPPED, **STEPS), f, a),
    "ensemble": lambda f, a: _network(credo.DeepEnsemble(members=4, **STEPS), f, a),
    "neural-linear": _neural_linear,
    "linear": lambda f, a: LinearBelief(f, 2, a),
    "greedy": _greedy,
    "1 % greedy": _greedy,
    "5 % greedy": _greedy,
}
"""What each agent believes, from the number of features and of agents side by side."""
EPSILON = {"greedy": 0.0, "1 % greedy": 0.01, "5 % greedy": 0.05}


@dataclass(frozen=True)
class MushroomRow:
    """An agent in the game.

    Attributes:
        agent: a name in `BELIEFS`.
        rounds: of the game.
        trials: side by side.
    """

    agent: str
    rounds: int
    trials: int

    @property
    def name(self) -> str:
        """As in the claims."""
        return f"{self.agent.lower().replace(' % ', '-percent-').replace(' ', '-')}-{self.rounds}"

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the data."""
        numbers = {"agent": self.agent, "rounds": self.rounds, "trials": self.trials, "seed": seed}
        refits = {"every": REFITS.every, "growth": REFITS.growth, "rows": REFITS.rows}
        return {
            **numbers,
            **refits,
            **STEPS,
            "hidden": list(HIDDEN),
            "noise": NOISE,
            "together": TOGETHER,
            "dropped": DROPPED,
        }

    def made(self, features: int, seed: int) -> BanditAgent:
        """The agent."""
        epsilon = EPSILON.get(self.agent)
        policy = ThompsonSampling() if epsilon is None else EpsilonGreedy(epsilon)
        return BanditAgent(BELIEFS[self.agent](features, self.trials), policy, seed=seed)


def rows(size: Size) -> list[MushroomRow]:
    """The games of a size: the short one with two agents, or the long one with all of them."""
    trials = TRIALS[size]
    if size is Size.QUICK:
        return [MushroomRow(agent, SHORT, trials) for agent in ("linear", "neural-linear", "greedy")]
    return [MushroomRow(agent, ROUNDS, trials) for agent in BELIEFS]
