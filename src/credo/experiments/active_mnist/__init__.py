"""Which digits to label next: BALD and BatchBALD beside a random choice, on MNIST and on repeated MNIST."""

from __future__ import annotations

from pathlib import Path

from credo.experiments.active_mnist.figures import learning_curves
from credo.experiments.active_mnist.measure import LabelResult, numbers, table, train
from credo.experiments.active_mnist.problem import LabelRow, full, quick, smaller
from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.rows import results_of_size


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Compute the curves that the folder lacks, draw them, measure the claims."""

    def result(row: LabelRow, device: str) -> LabelResult:
        return train(row, seed, folder, progress, device)

    rows = [*smaller(), *full()]
    found, missing = results_of_size(size, quick(), rows, LabelResult, folder, seed, result)
    claims = [claim.id for claim in EXPERIMENT.card.claims]
    measured = {name: value for name, value in numbers(found).items() if name in claims}
    figures = (learning_curves(folder, found),) if found else ()
    unmeasured = {name: _reason(name, missing) for name in claims if name not in measured}
    return Outcome(measured, (table(found),) if found else (), figures, unmeasured)


def _reason(claim: str, missing: dict[str, str]) -> str:
    """Why a number is missing: as of the first row of its size."""
    quick = claim.startswith("digits-")
    return next((why for name, why in missing.items() if name.startswith("digits-") is quick), "its rows are not whole")


EXPERIMENT = Experiment.beside(__file__, run)
