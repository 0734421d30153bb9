"""A line that says how far the run is, how good it is, and how long it will take."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class Report:
    """How far a run is.

    Attributes:
        step: steps done.
        total: steps of the whole run.
        epoch: epochs done.
        seconds: wall-clock time so far.
        numbers: the newest row of the history.
        last: whether the run is over, finished or not.
        draws: kept so far, of all chains together; None for a method that keeps none.
        divergences: steps that diverged since draws are kept, of all chains; None where none can.
    """

    step: int
    total: int
    epoch: float
    seconds: float
    numbers: dict[str, float]
    last: bool = False
    draws: int | None = None
    divergences: int | None = None


Listener = Callable[[Report], None]


class ProgressLine:
    """One line on a terminal, rewritten in place and cut to the terminal's width."""

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        self.name, self.stream = name, stream or sys.stderr
        self.width = 0

    def __call__(self, report: Report) -> None:
        text = progress_text(self.name, report)
        if self.stream.isatty():
            text = text[: shutil.get_terminal_size().columns - 1]
        self.stream.write("\r" + text.ljust(self.width) + ("\n" if report.last else ""))
        self.width = len(text)
        self.stream.flush()


_HIDDEN = ("epoch", "seconds")
_OF_CHAINS = ("acceptance_rate", "log_likelihood")
"""What the line says of all that a sampler reports: it must leave room for the time."""


def progress_text(name: str, report: Report) -> str:
    """What the line says.

    Example:
        >>> progress_text("MAP", Report(25, 100, 2.5, 30.0, {"epoch": 2.0, "log_likelihood": -1.5}))
        'MAP   25%  log_likelihood -1.5  0:30 elapsed, 1:30 left'
        >>> progress_text("HMC", Report(25, 100, 25.0, 30.0, {"acceptance_rate": 0.81}, draws=0))
        'HMC   25%  warm-up  acceptance_rate 0.81  0:30 elapsed, 1:30 left'
        >>> progress_text("HMC", Report(75, 100, 75.0, 90.0, {"step_size": 0.1}, draws=100, divergences=2))
        'HMC   75%  100 draws, 2 divergences  1:30 elapsed, 0:30 left'
    """
    share = report.step / max(report.total, 1)
    left = report.seconds * (1 - share) / share if share > 0 else math.nan
    shown = [key for key in report.numbers if (key not in _HIDDEN if report.draws is None else key in _OF_CHAINS)]
    numbers = [f"{key} {report.numbers[key]:.4g}" for key in shown]
    stage = [] if report.draws is None else [_stage(report.draws, report.divergences)]
    return "  ".join([name, f"{share:4.0%}", *stage, *numbers, f"{clock(report.seconds)} elapsed, {clock(left)} left"])


def _stage(draws: int, divergences: int | None) -> str:
    if draws == 0:
        return "warm-up"
    return f"{draws} draws" if divergences is None else f"{draws} draws, {divergences} divergences"


def clock(seconds: float) -> str:
    """Seconds as a person says them.

    Example:
        >>> clock(59.7), clock(3725)
        ('1:00', '1:02:05')
    """
    if math.isnan(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Throttle:
    """True at most every so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.last = seconds, time.monotonic()

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self.last < self.seconds:
            return False
        self.last = now
        return True


def listener(progress: bool | Listener | None, name: str) -> Listener | None:
    """Whom to tell: a function of the user's, a line on the terminal, or nobody. None: a line on a terminal."""
    if callable(progress):
        return progress
    wanted = sys.stderr.isatty() if progress is None else progress
    return ProgressLine(name) if wanted else None
