"""The figure of cumulative regret."""

from __future__ import annotations

from pathlib import Path

import torch

from credo.experiments.bandit_mushroom.measure import Found
from credo.experiments.bandit_mushroom.problem import GREEDY
from credo.experiments.base import Figure
from credo.reports.style import BLACK, COLORS, GRAY, drawing

LINES = dict(zip(GREEDY, ("-", "--", ":"), strict=True))


def draw(folder: Path, found: Found) -> Figure:
    """Cumulative regret of every agent on logarithmic axes, with the range of the trials."""
    colors = dict(zip((agent for agent in found if agent not in GREEDY), COLORS, strict=False))
    with drawing(folder / "mushroom.png", 7.5, 4.8) as figure:
        axes = figure.subplots()
        for agent, result in found.items():
            regret = torch.tensor(result.regret)
            seen = torch.tensor(result.rounds) >= 10
            rounds, color = torch.tensor(result.rounds)[seen], colors.get(agent, GRAY)
            axes.plot(rounds, regret.mean(0)[seen], color=color, linestyle=LINES.get(agent, "-"), label=agent)
            ends = regret.amin(0)[seen], regret.amax(0)[seen]
            axes.fill_between(rounds, *ends, color=color, alpha=0.12, linewidth=0)
        axes.set(xscale="log", yscale="log", xlabel="round", ylabel="cumulative regret (rewards)")
        axes.tick_params(colors=BLACK)
        figure.legend(loc="outside right center")
    caption = (
        "Cumulative regret, the mean of the trials and their range. A line that flattens belongs to an agent that has "
        "learned what it needs; one that explores forever at a fixed rate bends up again."
    )
    return Figure("mushroom.png", caption)
