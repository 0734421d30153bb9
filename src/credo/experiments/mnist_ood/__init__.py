"""Digits, and things that are none: MNIST against Fashion-MNIST and notMNIST."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.doubt import DoubtResult, DoubtRow, train
from credo.experiments.doubt_figures import draw_all
from credo.experiments.doubt_tables import reasons, tables
from credo.experiments.mnist_ood.measure import numbers
from credo.experiments.mnist_ood.problem import full, mnist, quick, small
from credo.experiments.rows import results_of_size


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, draw the figures, measure the claims."""
    data = cache(partial(small, seed) if size is Size.QUICK else mnist)

    def result(row: DoubtRow, device: str) -> DoubtResult:
        return train(row, data(), folder, seed, progress, device)

    found, missing = results_of_size(size, quick(), full(), DoubtResult, folder, seed, result)
    claims, measured = [claim.id for claim in EXPERIMENT.card.claims], numbers(found)
    figures = draw_all(folder, found, [str(k) for k in range(10)]) if found else ()
    return Outcome(
        {n: v for n, v in measured.items() if n in claims}, tables(found), figures, reasons(claims, measured, missing)
    )


EXPERIMENT = Experiment.beside(__file__, run)
