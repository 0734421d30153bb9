"""A trained network's calibration before and after Laplace's method."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.laplace_calibration.figures import reliability
from credo.experiments.laplace_calibration.measure import CalibrationResult, numbers, tables, train
from credo.experiments.laplace_calibration.problem import CalibrationRow, digits, full, garments, quick
from credo.experiments.rows import results


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, draw the figures, measure the claims."""
    data = cache(digits if size is Size.QUICK else garments)

    def result(row: CalibrationRow) -> CalibrationResult:
        return train(row, data(seed), folder, seed, progress)

    found = results(quick() if size is Size.QUICK else full(), CalibrationResult, folder, seed, result)
    measured = numbers(found)
    missing = {claim.id: _reason(claim.id, size) for claim in EXPERIMENT.card.claims if claim.id not in measured}
    return Outcome(measured, tables(found), (reliability(folder, found),), missing)


def _reason(claim: str, size: Size) -> str:
    if claim.startswith("cifar10-"):
        return "no WideResNet-16-4 was trained on CIFAR-10: there was no GPU"
    return f"part of the {'full' if size is Size.QUICK else 'quick'} size"


EXPERIMENT = Experiment.beside(__file__, run)
