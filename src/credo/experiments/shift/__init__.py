"""Does the doubt grow when images get worse? Accuracy, log likelihood and calibration against severity."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.doubt import DoubtRow
from credo.experiments.doubt_tables import reasons
from credo.experiments.rows import results_of_size
from credo.experiments.shift.figures import curves, pictures
from credo.experiments.shift.measure import ShiftResult, numbers, tables, train
from credo.experiments.shift.problem import cifar10, digits, full, quick


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, draw the figures, measure the claims."""
    data = cache(partial(digits, seed) if size is Size.QUICK else cifar10)

    def result(row: DoubtRow, device: str) -> ShiftResult:
        return train(row, data(), folder, seed, progress, device)

    found, missing = results_of_size(size, quick(), full(), ShiftResult, folder, seed, result)
    claims, measured = [claim.id for claim in EXPERIMENT.card.claims], numbers(found)
    figures = (curves(folder, found), pictures(folder, data())) if found else ()
    return Outcome(
        {n: v for n, v in measured.items() if n in claims}, tables(found), figures, reasons(claims, measured, missing)
    )


EXPERIMENT = Experiment.beside(__file__, run)
