"""Sparse variational dropout on MNIST: LeNets that lose nearly all of their weights."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch

from credo.data.errors import DataError
from credo.experiments.base import Cell, Experiment, Outcome, Progress, Size, Table
from credo.experiments.classifiers import digits, images
from credo.experiments.kept import FOLDER
from credo.experiments.sparse_lenet.figures import draw_all
from credo.experiments.sparse_lenet.measure import Result, kept, trained
from credo.experiments.sparse_lenet.rows import PIXELS_OVER, Row, full, quick
from credo.experiments.threads import one_thread


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, and measure the claims."""
    if size is Size.QUICK:
        with one_thread():
            found = trained(quick(), partial(digits, seed), folder, seed, progress)
        reasons = dict.fromkeys([row.name for row in full()], "part of the full size")
    else:
        found, reasons = _at_full_size(full(), folder, seed, progress)
        reasons |= dict.fromkeys([row.name for row in quick()], "part of the quick size")
    numbers = {
        claim: value
        for name, result in found.items()
        for claim, value in ((f"{name}/error", result.error), (f"{name}/compression", result.ratio))
    }
    claims = [claim.id for claim in EXPERIMENT.card.claims]
    measured = {name: numbers[name] for name in claims if name in numbers}
    unmeasured = {name: reasons[name.split("/")[0]] for name in claims if name not in numbers}
    return Outcome(measured, tables(found), draw_all(folder, list(found.values())), unmeasured)


def _at_full_size(
    rows: list[Row], folder: Path, seed: int, progress: Progress
) -> tuple[dict[str, Result], dict[str, str]]:
    """The rows, trained where there is a GPU, otherwise those that the folder has; and why others are missing."""
    why = f"there is no GPU here, and {folder / FOLDER} has no result of this row for seed {seed}"
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")  # ten bits of mantissa in a product are enough for these nets
        try:
            return trained(rows, partial(images, "mnist", PIXELS_OVER), folder, seed, progress, "cuda"), {}
        except DataError as error:
            why = str(error)
    found = {row.name: kept(row, folder, seed) for row in rows}
    present = {name: result for name, result in found.items() if result is not None}
    return present, {name: why for name, result in found.items() if result is None}


def tables(found: Mapping[str, Result]) -> tuple[Table, ...]:
    """All rows, and what the layers lose."""
    if not found:
        return ()
    columns = ("row", "left", "compression", "error, %", "by draws, %", "unpruned, %", "seconds")
    lines: list[tuple[Cell, ...]] = []
    for name, r in found.items():
        left = sum(n for *_, n in r.layers)
        lines.append((name, left, r.ratio, r.error, r.drawn, r.whole, r.seconds))
    layers = tuple(
        (name, layer, weights, left, 100.0 * (1.0 - left / weights))
        for name, r in found.items()
        if r.counts
        for layer, weights, left in r.layers
    )
    return (
        Table("Networks", columns, tuple(lines), "Weights of layers, without biases, as in the paper."),
        Table("Layers", ("row", "layer", "weights", "left", "removed, %"), layers),
    )


EXPERIMENT = Experiment.beside(__file__, run)
