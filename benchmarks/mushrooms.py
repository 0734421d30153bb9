"""What the agents of the mushroom game owe to more training: a short game, many trials, regret with standard errors.

    CREDO_DATA=data python benchmarks/mushrooms.py runs/mushrooms greedy 'Bayes by Backprop' --steps 100 400

The games are those of `credo reproduce bandit-mushroom`, but for the steps at each refit, the rounds, the trials and
the noise. A game that the folder has is read from there. Mistakes are counted in the last thousand rounds. With
`--longer` the agents then train on, on the rounds that they have seen, and are asked about every mushroom.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

import torch

from credo import Stream, likelihoods
from credo.decide import BanditAgent, NeuralLinearBelief, play
from credo.decide.bandits.network import NetworkBelief
from credo.experiments.bandit_mushroom.problem import BELIEFS, TOGETHER, MushroomRow, game

LATE = 1000
"""Rounds at the end in which mistakes are counted."""
MORE, DRAWS = 400, 24
"""Steps of a training after the game, and functions by which mistakes are counted then."""


@dataclass(frozen=True)
class ShortGame:
    """An agent in a short game.

    Attributes:
        agent: a name of the reproduction's.
        steps: of training at each refit.
        noise: standard deviation of the rewards in the likelihood.
        rounds: of the game.
        trials: side by side.
    """

    agent: str
    steps: int = 100
    noise: float = 1.0
    rounds: int = 3000
    trials: int = 12

    @property
    def name(self) -> str:
        return f"{self.agent.lower().replace(' % ', '-percent-').replace(' ', '-')}-{self.steps}-{self.noise:g}"

    def made(self, features: int, seed: int) -> BanditAgent:
        agent = MushroomRow(self.agent, self.rounds, self.trials).made(features, seed)
        belief = agent.belief
        network = belief.network if isinstance(belief, NeuralLinearBelief) else belief
        if isinstance(network, NetworkBelief):
            network.refits = replace(network.refits, rows=64 * self.steps)
            network.model = network.model.with_likelihood(likelihoods.ChosenArm(likelihoods.Gaussian(self.noise)))
        return agent


def played(each: ShortGame, seed: int) -> dict[str, list[float] | float]:
    """Regret in per cent of the uniform one, in all rounds and in the last ones, and the mistakes there, by trial."""
    mushrooms, begin = game(), time.process_time()
    found = play(each.made(mushrooms.x.shape[1], seed), mushrooms, each.rounds, seed=seed, together=TOGETHER)
    regret, arms, uniform = (part[:, -LATE:] for part in (found.regret, found.arms, found.uniform))
    return {
        "whole": (100.0 * found.relative_regret).tolist(),
        "late": (100.0 * regret.double().sum(1) / uniform.double().sum(1)).tolist(),
        "eaten": ((regret > 0) & (arms == 1)).sum(1).double().tolist(),
        "passed": ((regret > 0) & (arms == 0)).sum(1).double().tolist(),
        "seconds": time.process_time() - begin,
    }


def longer(each: ShortGame, seed: int, learning_rate: float) -> None:
    """Print what is mistaken after the game, and after more steps of training on the same rounds."""
    mushrooms = game()
    agent = each.made(mushrooms.x.shape[1], seed)
    play(agent, mushrooms, each.rounds, seed=seed, together=TOGETHER)
    belief = agent.belief
    assert isinstance(belief, NetworkBelief)
    belief.refits = replace(belief.refits, rows=64 * MORE)
    belief.method = replace(belief.method, learning_rate=learning_rate)
    for k in range(4):
        if k:
            belief.refit(Stream(seed, ("longer", k)))
        gain = torch.stack(
            [p.predict(mushrooms.x, DRAWS, seed=3).draws.diff(dim=-1)[..., 0] for p in belief.posteriors]
        )
        bad, told = mushrooms.poisonous, []
        for name, wrong in (("by the mean", gain.mean(1, keepdim=True)), ("by draws", gain)):
            eaten, passed = (wrong[..., bad] > 0).double().mean(), (wrong[..., ~bad] < 0).double().mean()
            told.append(f"{name} {100 * eaten:.2f} % of the poisonous eaten, {100 * passed:.2f} % of the edible passed")
        print(f"{each.name}, {MORE * k} steps more: {'; '.join(told)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("agents", nargs="*", default=["greedy", "Bayes by Backprop"], help=", ".join(BELIEFS))
    parser.add_argument("--steps", type=int, nargs="+", default=[100])
    parser.add_argument("--noise", type=float, nargs="+", default=[1.0])
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--longer", type=float, metavar="RATE", help="train on at this learning rate, and store nothing"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.folder.mkdir(parents=True, exist_ok=True)
    for steps, noise, agent in itertools.product(given.steps, given.noise, given.agents):
        each = ShortGame(agent, steps, noise, given.rounds, given.trials)
        if given.longer is not None:
            longer(each, given.seed, given.longer)
            continue
        file = given.folder / f"{each.name}.json"
        settings = {**asdict(each), "seed": given.seed}
        if not file.exists() or json.loads(file.read_text())["settings"] != settings:
            file.write_text(json.dumps({"settings": settings, "result": played(each, given.seed)}) + "\n")
        result = json.loads(file.read_text())["result"]
        told = "  ".join(
            f"{k} {fmean(v):6.2f} +- {stdev(v) / len(v) ** 0.5:.2f}" for k, v in result.items() if k != "seconds"
        )
        print(f"{each.name:32}{told}  {result['seconds']:.0f} s of a processor", flush=True)


if __name__ == "__main__":
    main()
