"""The wheel at five radii, and the neural-linear agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import credo
from credo import likelihoods, nets, priors
from credo.decide import BanditAgent, NetworkBelief, NeuralLinearBelief, Refits, WheelGame
from credo.experiments.base import Size

DELTAS = {Size.QUICK: (0.5,), Size.FULL: (0.5, 0.7, 0.9, 0.95, 0.99)}
ROUNDS = {Size.QUICK: 2_000, Size.FULL: 80_000}
TRIALS = {Size.QUICK: 2, Size.FULL: 5}
HIDDEN = (100, 100)
STEPS: Mapping[str, Any] = {"epochs": 1, "learning_rate": 3e-3, "batch_size": 128}
REFITS = Refits(every=50, growth=0.1, rows=100 * 128)
TOGETHER = 200


@dataclass(frozen=True)
class WheelRow:
    """Trials at one radius.

    Attributes:
        delta: the radius.
        rounds: of the game.
        trials: side by side.
    """

    delta: float
    rounds: int
    trials: int

    @property
    def name(self) -> str:
        """As in the claims."""
        return f"delta-{self.delta}"

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on."""
        refits = {"every": REFITS.every, "growth": REFITS.growth, "rows": REFITS.rows}
        numbers = {"delta": self.delta, "rounds": self.rounds, "trials": self.trials, "seed": seed}
        return {**numbers, **refits, **STEPS, "hidden": list(HIDDEN), "together": TOGETHER}

    def made(self, seed: int) -> tuple[BanditAgent, WheelGame]:
        """The agents, side by side, and their game."""
        model = credo.Model(nets.MLP(2, 5, HIDDEN), likelihoods.Gaussian(1.0), priors.Normal(10.0))
        network = NetworkBelief(model, credo.MAP(**STEPS), arms=5, refits=REFITS, agents=self.trials)
        return BanditAgent(NeuralLinearBelief(network), seed=seed), WheelGame(self.delta)


def rows(size: Size) -> list[WheelRow]:
    """The radii of a size."""
    return [WheelRow(delta, ROUNDS[size], TRIALS[size]) for delta in DELTAS[size]]
