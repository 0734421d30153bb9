"""A line that says how far the run is, how good it is, and how long it will take."""

from __future__ import annotations

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
    """

    step: int
    total: int
    epoch: float
    seconds: float
    numbers: dict[str, float]


Listener = Callable[[Report], None]


class ProgressLine:
    """One line on a terminal, rewritten in place; nothing where the output is not a terminal unless asked for."""

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        self.name, self.stream = name, stream or sys.stderr
        self.width = 0

    def __call__(self, report: Report) -> None:
        share = report.step / max(report.total, 1)
        left = report.seconds * (1 - share) / share if share > 0 else float("nan")
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in report.numbers.items() if name not in _HIDDEN)
        text = f"{self.name}  {share:4.0%}  {numbers}  {clock(report.seconds)} elapsed, {clock(left)} left"
        self.stream.write("\r" + text.ljust(self.width))
        self.width = len(text)
        if report.step >= report.total:
            self.stream.write("\n")
        self.stream.flush()


_HIDDEN = ("epoch", "seconds")


def clock(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds != seconds:
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
