"""Choosing a model by its evidence, without held-out data."""

from __future__ import annotations

from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.evidence.figures import evidence_figure
from credo.experiments.evidence.measure import networks, numbers, polynomials, small_networks, tables


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Polynomials in closed form, networks by Laplace, small ones beside annealing."""
    progress.say("polynomials, in closed form and by Laplace")
    lines = polynomials(seed)
    nets = networks(size, seed, progress)
    few = small_networks(size, seed, progress)
    figure = evidence_figure(folder, lines, nets, few)
    return Outcome(numbers(lines, nets, few), tables(lines, nets, few), (figure,))


EXPERIMENT = Experiment.beside(__file__, run)
