"""Bayes by Backprop on Fashion-MNIST: the three rows of the notebook of Koca and Dittmann, and better ones.

What is measured and drawn is that of `bbb_mnist`.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.bbb_fashion.problem import quick, rows
from credo.experiments.bbb_mnist.figures import errors
from credo.experiments.bbb_mnist.measure import numbers, tables
from credo.experiments.bbb_mnist.problem import PIXELS_OVER
from credo.experiments.classifiers import ClassifierResult, ClassifierRow, digits, images, train
from credo.experiments.rows import results_of_size


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, draw the figure, measure the claims."""
    data = cache(partial(digits, seed) if size is Size.QUICK else partial(images, "fashion-mnist", PIXELS_OVER))

    def result(row: ClassifierRow, device: str) -> ClassifierResult:
        return train(row, data(), seed, progress, device)

    found, missing = results_of_size(size, quick(), rows(), ClassifierResult, folder, seed, result)
    measured, claims = numbers(found), {claim.id: claim for claim in EXPERIMENT.card.claims}
    compared = [result for name, result in found.items() if isinstance(claims[name].published, float)]
    figures = (errors(folder, compared, claims),) if compared else ()
    unmeasured = {name: missing[name] for name in claims if name not in measured}
    return Outcome(measured, tables(found), figures, unmeasured)


EXPERIMENT = Experiment.beside(__file__, run)
