"""Bayes by Backprop on MNIST: the notebook of Koca and Dittmann, and the paper that it repeats."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.bbb_mnist.figures import draw_all
from credo.experiments.bbb_mnist.measure import CLOCK, CLOCKED, COMPARED, numbers, tables
from credo.experiments.bbb_mnist.problem import PIXELS_OVER, quick, rows
from credo.experiments.classifiers import ClassifierResult, ClassifierRow, digits, images, train
from credo.experiments.rows import results_of_size


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, draw the figures, measure the claims."""
    data = cache(partial(digits, seed) if size is Size.QUICK else partial(images, "mnist", PIXELS_OVER))

    def result(row: ClassifierRow, device: str) -> ClassifierResult:
        return train(row, data(), seed, progress, device)

    found, missing = results_of_size(size, quick(), rows(), ClassifierResult, folder, seed, result)
    claims, measured = {claim.id: claim for claim in EXPERIMENT.card.claims}, numbers(found)
    missing[CLOCK] = missing.get(CLOCKED, "its row was not trained on a GPU")
    unmeasured = {
        name: next(missing[row] for row in COMPARED.get(name, (name.split("/")[0],)) if row in missing)
        for name in claims
        if name not in measured
    }
    figures = draw_all(folder, found, claims) if found else ()
    return Outcome({n: v for n, v in measured.items() if n in claims}, tables(found), figures, unmeasured)


EXPERIMENT = Experiment.beside(__file__, run)
