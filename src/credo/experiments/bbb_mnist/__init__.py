"""Bayes by Backprop on MNIST: the notebook of Koca and Dittmann, and the paper that it repeats."""

from __future__ import annotations

from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.bbb_mnist.measure import run as measured


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train the rows and measure the claims."""
    return measured(EXPERIMENT.card.claims, size, folder, seed, progress)


EXPERIMENT = Experiment.beside(__file__, run)
