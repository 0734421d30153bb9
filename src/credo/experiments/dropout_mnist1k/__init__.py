"""A thousand images of digits: the dropout table of Lee's KAIST tutorial, its learned rates and its doubtful digits."""

from __future__ import annotations

from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.dropout_mnist1k.measure import run as measured


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train the rows and measure the claims."""
    return measured(EXPERIMENT.card.claims, size, folder, seed, progress)


EXPERIMENT = Experiment.beside(__file__, run)
