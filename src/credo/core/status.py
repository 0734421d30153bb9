"""How a run ended, as a value that code can test; the sentence beside it is for people."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    """It came to its end."""
    INTERRUPTED = "interrupted"
    """Ctrl-C: what there was by then is the result."""
    OUT_OF_TIME = "out_of_time"
    """The time limit: what there was by then is the result."""
    DIVERGED = "diverged"
    """Numbers were no longer finite: the weights are of no use."""
    STORAGE_FAILED = "storage_failed"
    """The disk took no more: what it had taken is the result."""
