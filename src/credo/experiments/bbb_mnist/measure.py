"""What is measured of classifiers: their errors, what removing weights adds to these, and the time of one row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

from credo.experiments.base import Cell, Table
from credo.experiments.classifiers import EDGES, ClassifierResult

CLOCK, CLOCKED = "seconds-400", "gaussian-400"
"""A claim about time, and the row that it is about."""
LOGGED, LOGGED_EPOCHS = "notebook-400-228", (4, 10, 31, 49)
"""The row whose loss the notebook prints epoch by epoch, and the epochs that are compared."""
COMPARED: dict[str, tuple[str, ...]] = {
    **{f"notebook-loss-{epoch}": (LOGGED,) for epoch in LOGGED_EPOCHS},
    "wider": ("notebook-1200", "notebook-800"),
    "averaged": ("mixture-1200",),
    "like-dropout": ("mixture-1200", "dropout-1200"),
    "density": (LOGGED, "keras-sgd-400"),
    **{f"{row}-loss": (row,) for row in ("keras-sgd-400", "keras-dropout-400")},
}
"""Claims that are about other numbers than the error of one row, and their rows."""
IMAGES, BATCH = 60_000, 128
BATCHES = math.ceil(IMAGES / BATCH)


def numbers(found: Mapping[str, ClassifierResult]) -> dict[str, float]:
    """What claims may be about: a row's error, what removing weights adds to it, and the time of one row."""
    measured = {name: error_of(result) for name, result in found.items()}
    for name, result in found.items():
        whole = fmean(result.at_mean)
        measured |= {f"{name}/{part}": fmean(errors) - whole for part, errors in result.pruned.items()}
    if CLOCKED in found and found[CLOCKED].device != "cpu":
        measured[CLOCK] = found[CLOCKED].seconds
    return measured | {
        claim: _comparison(claim, *(found[name] for name in names))
        for claim, names in COMPARED.items()
        if found.keys() >= set(names)
    }


def _comparison(claim: str, first: ClassifierResult, second: ClassifierResult | None = None) -> float:
    """What a claim of `COMPARED` is about."""
    if claim == "averaged":
        return fmean(first.at_mean) - fmean(first.drawn)
    if claim.endswith("-loss"):
        return -fmean(first.log_likelihood)
    if second is None:
        return _printed_loss(first, int(claim.rsplit("-")[-1]))
    if claim == "density":
        return _density_near(first) / _density_near(second)
    return error_of(first) - error_of(second)


def _printed_loss(result: ClassifierResult, epoch: int) -> float:
    """The notebook's loss of a batch in this epoch: 128 negative log likelihoods, and KL / 469."""
    row = next(row for row in result.curve if row["epoch"] == epoch)
    return row["kl"] * IMAGES / BATCHES - row["log_likelihood"] * BATCH


def _density_near(result: ClassifierResult, place: float = 0.1) -> float:
    """Weights per unit of length in the two bins on either side of +place and -place, over all weights."""
    width = float(EDGES[1] - EDGES[0])
    centers = (EDGES[:-1] + EDGES[1:]) / 2
    near = ((centers.abs() - place).abs() < width).tolist()
    inside = [count for count, chosen in zip(result.counts, near, strict=True) if chosen]
    return sum(inside) / sum(result.counts) / width / len(inside)


def error_of(result: ClassifierResult) -> float:
    """In per cent, averaged over runs: at the mean for the notebook's rows, as there; by drawn networks for others."""
    return fmean(result.at_mean if result.name.startswith("notebook") else result.drawn)


def tables(found: Mapping[str, ClassifierResult]) -> tuple[Table, ...]:
    """All rows, and what removing weights does to some."""
    if not found:
        return ()
    columns = ("row", "weights", "runs", "error at mean, %", "by draws, %", "log likelihood", "seconds", "us / step")
    lines = tuple(_line(result) for result in found.values())
    note = (
        "Means over runs, with the least and the largest; errors on the test images. By draws: the probabilities of "
        "100 drawn networks are averaged (a plain network has one). Seconds: all runs of a row trained at once; where "
        "several rows share a GPU they are longer."
    )
    return Table("Rows", columns, lines, note), *_pruning(found)


def _line(result: ClassifierResult) -> tuple[Cell, ...]:
    if not result.finished:
        return (result.name, result.weights, len(result.at_mean), "diverged", "diverged", None, None, None)
    pace = round(1e6 * result.seconds / result.steps)
    fit = round(fmean(result.log_likelihood), 4)
    errors = (_spread(result.at_mean), _spread(result.drawn))
    return (result.name, result.weights, len(result.at_mean), *errors, fit, round(result.seconds, 1), pace)


def _spread(values: list[float]) -> str:
    return f"{fmean(values):.2f} ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else f"{values[0]:.2f}"


def _pruning(found: Mapping[str, ClassifierResult]) -> list[Table]:
    some = [result for result in found.values() if result.pruned]
    if not some:
        return []
    columns = ("row", "whole, %", *(f"{float(part):.0%} removed" for part in some[0].pruned))
    lines = [(r.name, _spread(r.at_mean), *(_spread(errors) for errors in r.pruned.values())) for r in some]
    note = "Test error of the network at its means, without the weights of lowest signal-to-noise ratio."
    return [Table("Without the weights that say little", columns, tuple(lines), note)]
