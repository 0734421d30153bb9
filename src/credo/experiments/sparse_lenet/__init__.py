"""Sparse variational dropout on MNIST: LeNets that lose nearly all of their weights."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.classifiers import digits, images
from credo.experiments.rows import results_of_size
from credo.experiments.sparse_lenet.figures import draw_all
from credo.experiments.sparse_lenet.measure import SparseResult, numbers, tables, train
from credo.experiments.sparse_lenet.problem import PIXELS_OVER, SparseRow, full, quick


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, draw the figures, measure the claims."""
    data = cache(partial(digits, seed) if size is Size.QUICK else partial(images, "mnist", PIXELS_OVER))

    def result(row: SparseRow, device: str) -> SparseResult:
        return train(row, data(), seed, progress, device)

    found, missing = results_of_size(size, quick(), full(), SparseResult, folder, seed, result)
    measured, claims = numbers(found), [claim.id for claim in EXPERIMENT.card.claims]
    unmeasured = {name: missing[name.split("/")[0]] for name in claims if name not in measured}
    shown = {name: measured[name] for name in claims if name in measured}
    return Outcome(shown, tables(found), draw_all(folder, list(found.values())), unmeasured)


EXPERIMENT = Experiment.beside(__file__, run)
