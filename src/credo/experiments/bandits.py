"""What the two bandit experiments share: trials of an agent, side by side, and what came of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import torch

from credo.core.threads import one_thread
from credo.decide import BanditAgent, BanditGame, play
from credo.experiments.base import Progress

POINTS = 60
"""Rounds at which a curve of regret is kept, evenly on a logarithmic axis."""


@dataclass(frozen=True)
class BanditResult:
    """Trials of one agent in one game.

    Attributes:
        rounds: at which regret is kept, ascending.
        regret: cumulative, in rewards, at each of these rounds, for each trial.
        relative: the whole regret in per cent of that of pulling any arm, for each trial.
        seconds: wall-clock time of all trials.
    """

    rounds: list[int]
    regret: list[list[float]]
    relative: list[float]
    seconds: float

    @property
    def mean(self) -> float:
        """Of the relative regret."""
        return fmean(self.relative)

    @property
    def spread(self) -> float:
        """Standard deviation of the relative regret among trials; NaN for a single one."""
        return stdev(self.relative) if len(self.relative) > 1 else float("nan")

    @property
    def last(self) -> float:
        """Cumulative regret after the last round, the mean over trials."""
        return fmean(trial[-1] for trial in self.regret)


def trials(
    agent: BanditAgent, game: BanditGame, rounds: int, seed: int, together: int, progress: Progress, text: str
) -> BanditResult:
    """Let the agents play side by side."""
    begin = time.monotonic()
    with one_thread():
        played = play(
            agent,
            game,
            rounds,
            seed=seed,
            together=together,
            listener=lambda done, total: progress.say(text, done / total),
        )
    places = log_spaced(rounds)
    regret = played.cumulative_regret[:, [place - 1 for place in places]]
    relative = 100.0 * played.relative_regret
    return BanditResult(places, regret.tolist(), relative.tolist(), time.monotonic() - begin)


def log_spaced(rounds: int) -> list[int]:
    """Numbers of rounds, from 1 to all of them."""
    each = torch.logspace(0.0, 1.0, POINTS, base=rounds, dtype=torch.float64).round().long()
    return sorted({*each.tolist(), rounds})


def text(values: Sequence[float], digits: int = 2) -> str:
    """A mean with the standard deviation among trials."""
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{spread}"
