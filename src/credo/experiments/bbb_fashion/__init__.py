"""Bayes by Backprop on Fashion-MNIST: the three rows of the notebook of Koca and Dittmann, and better ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.bbb_fashion.rows import quick, rows
from credo.experiments.bbb_mnist.figures import errors
from credo.experiments.bbb_mnist.measure import numbers, tables
from credo.experiments.bbb_mnist.rows import PIXELS_OVER
from credo.experiments.classifiers import at_full_size, digits, images, trained
from credo.experiments.threads import one_thread


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, and measure the claims."""
    if size is Size.QUICK:
        with one_thread():
            found = trained(quick(), partial(digits, seed), folder, seed, progress)
        reasons = {row.name: "part of the full size" for row in rows()}
    else:
        found, reasons = at_full_size(rows(), partial(images, "fashion-mnist", PIXELS_OVER), folder, seed, progress)
        reasons |= {row.name: "part of the quick size" for row in quick()}
    measured, claims = numbers(found), {claim.id: claim for claim in EXPERIMENT.card.claims}
    compared = [result for name, result in found.items() if isinstance(claims[name].published, float)]
    figures = (errors(folder, compared, claims),) if compared else ()
    unmeasured = {name: reasons[name] for name in claims if name not in measured}
    return Outcome(measured, tables(found), figures, unmeasured)


EXPERIMENT = Experiment.beside(__file__, run)
