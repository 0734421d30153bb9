"""A class that was never shown: CIFAR-10 without horses, as in the week-8 lecture."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.doubt import DoubtResult, DoubtRow, train
from credo.experiments.doubt_figures import draw_all
from credo.experiments.doubt_tables import reasons, tables
from credo.experiments.novel_class.measure import numbers
from credo.experiments.novel_class.problem import CLASSES, cifar10, digits, full, quick, shorter
from credo.experiments.rows import results_of_size


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, draw the figures, measure the claims."""
    data = cache(partial(digits, seed) if size is Size.QUICK else cifar10)

    def result(row: DoubtRow, device: str) -> DoubtResult:
        return train(row, data(), folder, seed, progress, device)

    rows = [*full(), *shorter()]
    found, missing = results_of_size(size, quick(), rows, DoubtResult, folder, seed, result)
    claims, measured = [claim.id for claim in EXPERIMENT.card.claims], numbers(found)
    absent = reasons(claims, measured, missing)
    classes = [str(k) for k in range(9)] if size is Size.QUICK else CLASSES
    figures = draw_all(folder, found, classes) if found else ()
    return Outcome({n: v for n, v in measured.items() if n in claims}, tables(found), figures, absent)


EXPERIMENT = Experiment.beside(__file__, run)
