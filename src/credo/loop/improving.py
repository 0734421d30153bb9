"""Whether training was still getting better when it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

NATS = 0.05
"""A rise of the log likelihood per example in a tenth of the run that is worth a word."""
ERRORS = 2.0
"""By how many standard errors the slope must be above the noise of single epochs."""
FEWEST = 10
"""Rows of a history that can show it."""


def still_improving(history: Sequence[Mapping[str, float]]) -> str | None:
    """A sentence where the log likelihood rose in the last third of a run; None where it did not, or nobody can tell.

    Args:
        history: rows of a finished run.

    Example:
        >>> still_improving([{"log_likelihood": float(i)} for i in range(50)]).split(";")[1]
        ' train longer, or with larger steps'
        >>> still_improving([{"log_likelihood": -1.0}] * 50) is None
        True
    """
    values = [row["log_likelihood"] for row in history if "log_likelihood" in row]
    if len(values) < FEWEST:
        return None
    last = values[-max(6, len(values) // 3) :]
    slope, error = _line(last)
    rise = slope * len(values) / 10
    if not (rise > NATS and slope > ERRORS * error):  # a NaN is no rise
        return None
    return (
        f"still getting better when it ended: the log likelihood per example was rising by {rise:.2g} in each tenth of "
        "the run; train longer, or with larger steps"
    )


def _line(values: Sequence[float]) -> tuple[float, float]:
    """The slope of a line through values by their number, and its standard error."""
    count, middle, mean = len(values), (len(values) - 1) / 2, fmean(values)
    spread = sum((i - middle) ** 2 for i in range(count))
    slope = sum((i - middle) * (value - mean) for i, value in enumerate(values)) / spread
    rest = sum((value - mean - slope * (i - middle)) ** 2 for i, value in enumerate(values))
    return slope, (rest / (count - 2) / spread) ** 0.5
