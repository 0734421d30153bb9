"""Milliseconds of a round of the mushroom game, its share of the refits included: `python benchmarks/bandits.py`.

Names of agents, such as "neural-linear", measure these alone. Processor time is taken, on one thread.

The limit is 10 ms with one agent and decisions taken one by one. Refits are those of the reproduction, a hundred steps
every fifty rounds, and rarer from a thousand rounds on. Without the data set (`CREDO_DATA`) the mushrooms are random.
"""

from __future__ import annotations

import sys
import time

import torch

import credo
from credo.data import DataError
from credo.decide import MushroomGame, play
from credo.experiments.bandit_mushroom.problem import BELIEFS, TOGETHER, MushroomRow, game

ROUNDS = 1000
FEATURES = 117


def mushrooms() -> MushroomGame:
    try:
        return game()
    except DataError as error:
        print(error)
        stream = credo.Stream(0)
        x = (stream.child("x").normal(8124, FEATURES) > 0.8).float()
        return MushroomGame(x, x[:, :5].sum(1) > 1)


def milliseconds(agent: str, agents: int, together: int, played: MushroomGame) -> float:
    """Of one round of one agent."""
    made = MushroomRow(agent, ROUNDS, agents).made(played.x.shape[1], seed=0)
    begin = time.process_time()
    play(made, played, ROUNDS, together=together)
    return 1e3 * (time.process_time() - begin) / ROUNDS / agents


if __name__ == "__main__":
    torch.set_num_threads(1)
    table = mushrooms()
    print(f"{'agent':20}{'one by one':>12}{'50 at once':>12}{'3 agents, 50 at once':>22}")
    for name in sys.argv[1:] or BELIEFS:
        each = [milliseconds(name, *how, table) for how in ((1, 1), (1, TOGETHER), (3, TOGETHER))]
        print(f"{name:20}{each[0]:9.2f} ms{each[1]:9.2f} ms{each[2]:19.2f} ms", flush=True)
