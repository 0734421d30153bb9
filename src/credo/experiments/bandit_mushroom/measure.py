"""Regret of the agents, and what claims say of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from credo.experiments.bandit_mushroom.problem import GREEDY, ROUNDS, SHORT
from credo.experiments.bandits import BanditResult, text
from credo.experiments.base import Cell, Table

UNIFORM = 2.5 * 0.518 + 7.5 * 0.482
"""Regret of pulling any arm, in a round: half of 5 where a mushroom is edible, half of 15 where it is not."""

Found = Mapping[str, BanditResult]
"""Results by the name of the agent."""


def share(result: BanditResult, rounds: int = SHORT) -> list[float]:
    """Regret up to a round, in per cent of that of pulling any arm, for each trial; linear between kept rounds."""
    after = min(bisect_left(result.rounds, rounds), len(result.rounds) - 1)
    before = max(0, after - 1)
    step = result.rounds[after] - result.rounds[before]
    part = (min(rounds, result.rounds[after]) - result.rounds[before]) / step if step else 1.0
    each = (trial[before] + part * (trial[after] - trial[before]) for trial in result.regret)
    return [100.0 * regret / (UNIFORM * min(rounds, result.rounds[after])) for regret in each]


def numbers(found: Found) -> dict[str, float]:
    """What claims are about."""
    measured = {}
    for agent, result in found.items():
        each = share(result)
        measured[f"showdown.{agent}"] = sum(each) / len(each)
    rivals = [found[agent].last for agent in GREEDY if agent in found and found[agent].rounds[-1] == ROUNDS]
    if len(rivals) == len(GREEDY):
        for agent in found.keys() - set(GREEDY):
            measured[f"below.{agent}"] = found[agent].last / min(rivals)
        measured["regret.Bayes by Backprop"] = found["Bayes by Backprop"].last
    return measured


def table(found: Found) -> Table:
    """One row per agent."""
    columns = ("agent", "rounds", "trials", "regret at the end", "% of uniform's, 2,000 rounds", "seconds")
    rows: list[tuple[Cell, ...]] = []
    for agent, result in found.items():
        last = [trial[-1] for trial in result.regret]
        rows.append((agent, result.rounds[-1], len(last), text(last, 0), text(share(result), 1), round(result.seconds)))
    note = (
        "Cumulative regret in rewards, and that of the first 2,000 rounds in per cent of what pulling any arm costs: "
        "means and standard deviations of the trials."
    )
    return Table("Regret among mushrooms", columns, tuple(rows), note)
