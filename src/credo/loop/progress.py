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
        draws: so far, of all chains together; None for a method that makes none.
        divergences: steps that diverged since the warm-up, of all chains; None where none can.
        epochs: of the whole run.
    """

    step: int
    total: int
    epoch: float
    seconds: float
    numbers: dict[str, float]
    last: bool = False
    draws: int | None = None
    divergences: int | None = None
    epochs: float = 0.0


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


_OF_CHAINS = ("acceptance_rate", "log_likelihood")
"""What the line says of all that a sampler reports: it must leave room for the time."""


def progress_text(name: str, report: Report) -> str:
    """What the line says.

    Examples:
        >>> progress_text("MAP", Report(25, 100, 2.5, 30.0, {"epoch": 2.0, "loss": 1.5}, epochs=10.0))
        'MAP   25%  epoch 3/10  loss 1.5  1:30 left'
        >>> progress_text("HMC", Report(25, 100, 25.0, 30.0, {"acceptance_rate": 0.81}, draws=0))
        'HMC   25%  warm-up  acceptance_rate 0.81  1:30 left'
        >>> progress_text("HMC", Report(75, 100, 75.0, 90.0, {"step_size": 0.1}, draws=100, divergences=2))
        'HMC   75%  100 draws, 2 divergences  0:30 left'
        >>> progress_text("MAP", Report(100, 100, 10.0, 120.0, {"loss": 1.25}, last=True, epochs=10.0))
        'MAP  100%  epoch 10/10  loss 1.25  2:00 elapsed'
    """
    share = report.step / max(report.total, 1)
    left = report.seconds * (1 - share) / share if share > 0 else math.nan
    time_text = f"{clock(report.seconds)} elapsed" if report.last else f"{clock(left)} left"
    numbers = [f"{key} {value:.4g}" for key, value in _shown(report).items()]
    return "  ".join([name, f"{share:4.0%}", *_stage(report), *numbers, time_text])


def _shown(report: Report) -> dict[str, float]:
    """The metrics that fit into a line."""
    row = report.numbers
    if report.draws is not None:
        return {key: value for key, value in row.items() if key in _OF_CHAINS}
    first = next((key for key in ("loss", "log_likelihood") if key in row), None)
    shown = {} if first is None else {str(first): row[first]}
    if "validation_log_likelihood" in row:
        shown["val_loss"] = -row["validation_log_likelihood"]
    if "validation_accuracy" in row:
        shown["val_accuracy"] = row["validation_accuracy"]
    return shown


def _stage(report: Report) -> list[str]:
    """The epoch that is under way, or how many draws there are."""
    if report.draws is None:
        epoch = math.ceil(report.epoch) if report.last else math.floor(report.epoch) + 1
        epochs = math.ceil(report.epochs)
        return [f"epoch {min(epoch, epochs)}/{epochs}"] if epochs else []
    if report.draws == 0:
        return ["warm-up"]
    return [f"{report.draws} draws" + ("" if report.divergences is None else f", {report.divergences} divergences")]


def clock(seconds: float) -> str:
    """Seconds as a person says them.

    Examples:
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
    """A function of the user's, a line on the terminal, or none. None: a line where there is a terminal."""
    if callable(progress):
        return progress
    wanted = sys.stderr.isatty() if progress is None else progress
    return ProgressLine(name) if wanted else None
