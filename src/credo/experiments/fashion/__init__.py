"""Garments by LeNet-5, alone and as five: what the notebook of Koca and Dittmann leaves to convolutional networks."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from credo.data.sets import load
from credo.experiments.base import Experiment, Figure, Outcome, Progress, Size
from credo.experiments.doubt import DoubtRow
from credo.experiments.doubt_tables import reasons
from credo.experiments.fashion.figures import confusion
from credo.experiments.fashion.measure import FashionResult, numbers, tables, train
from credo.experiments.fashion.problem import digits, full, garments, quick
from credo.experiments.rows import results_of_size


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, draw the figures, measure the claims."""
    data = cache(partial(digits, seed) if size is Size.QUICK else garments)

    def result(row: DoubtRow, device: str) -> FashionResult:
        return train(row, data(), folder, seed, progress, device)

    found, missing = results_of_size(size, quick(), full(), FashionResult, folder, seed, result)
    claims, measured = [claim.id for claim in EXPERIMENT.card.claims], numbers(found)
    figures: tuple[Figure, ...] = ()
    if found:
        classes = [str(k) for k in range(10)] if size is Size.QUICK else load("fashion-mnist").classes
        figures = (confusion(folder, list(found.values())[-1], classes),)
    return Outcome(
        {n: v for n, v in measured.items() if n in claims}, tables(found), figures, reasons(claims, measured, missing)
    )


EXPERIMENT = Experiment.beside(__file__, run)
