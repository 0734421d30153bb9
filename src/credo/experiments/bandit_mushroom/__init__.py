"""Eat or pass: the mushroom game of "Weight uncertainty in neural networks", and of the Bayesian bandits showdown."""

from __future__ import annotations

from pathlib import Path

from credo.data import DataError
from credo.experiments.bandit_mushroom.figures import draw
from credo.experiments.bandit_mushroom.measure import numbers, table
from credo.experiments.bandit_mushroom.problem import TOGETHER, MushroomRow, game, rows
from credo.experiments.bandits import BanditResult, trials
from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.rows import results


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Let every agent play, but for those whose games the folder has."""
    claims = [claim.id for claim in EXPERIMENT.card.claims]
    try:
        mushrooms = game()
    except DataError as error:
        return Outcome({}, unmeasured=dict.fromkeys(claims, str(error)))

    def played(row: MushroomRow) -> BanditResult:
        text = f"{row.agent}, {row.trials} trials at once"
        agent = row.made(mushrooms.x.shape[1], seed)
        return trials(agent, mushrooms, row.rounds, seed, TOGETHER, progress, text)

    wanted = rows(size)
    stored = results(wanted, BanditResult, folder, seed, played)
    found = {row.agent: stored[row.name] for row in wanted}
    measured = {name: value for name, value in numbers(found).items() if name in claims}
    missing = {name: "part of the full size" for name in claims if name not in measured}
    return Outcome(measured, (table(found),), (draw(folder, found),), missing)


EXPERIMENT = Experiment.beside(__file__, run)
"""The mushroom game."""
