"""The variational autoencoder of Lee's KAIST tutorial, and three bounds of log p(x)."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from credo.core.threads import one_thread
from credo.data import DataError
from credo.experiments.base import Experiment, Figure, Outcome, Progress, Size, Table
from credo.experiments.rows import results, results_of_size
from credo.experiments.vae_mnist.bounds import BoundResult, numbers, table, train
from credo.experiments.vae_mnist.figures import draw_trained, three_bounds, unknown
from credo.experiments.vae_mnist.measure import (
    train_small,
    train_tutorial,
    tutorial_numbers,
    tutorial_tables,
    unknown_numbers,
    unknown_scores,
)
from credo.experiments.vae_mnist.problem import (
    BoundRow,
    all_images,
    long,
    quick,
    short,
    small_images,
    tutorial_images,
)


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, draw the figures, measure the claims."""
    found, missing = _bounds(size, folder, seed, progress)
    measured, tables, figures, why = _gray(size, folder, seed, progress)
    measured |= numbers(found)
    if found:
        figures = (*figures, three_bounds(folder, found))
    claims = [claim.id for claim in EXPERIMENT.card.claims]
    unmeasured = {name: missing.get(_row_of(name), why) for name in claims if name not in measured}
    shown = {name: measured[name] for name in claims if name in measured}
    return Outcome(shown, (*tables, *table(found)), figures, unmeasured)


def _bounds(size: Size, folder: Path, seed: int, progress: Progress) -> tuple[dict[str, BoundResult], dict[str, str]]:
    """The rows of a size, the short ones wherever MNIST is at hand, and why others are missing."""
    data = cache(partial(small_images, seed) if size is Size.QUICK else partial(all_images, "mnist"))

    def result(row: BoundRow, device: str) -> BoundResult:
        return train(row, data(), folder, seed, progress, device)

    found, missing = results_of_size(size, quick(), long(), BoundResult, folder, seed, result)
    if size is Size.QUICK:
        return found, {**missing, **{row.name: "part of the full size" for row in short()}}
    try:
        with one_thread():
            return {**results(short(), BoundResult, folder, seed, lambda row: result(row, "cpu")), **found}, missing
    except DataError as error:
        return found, {**missing, **{row.name: str(error) for row in short()}}


def _gray(
    size: Size, folder: Path, seed: int, progress: Progress
) -> tuple[dict[str, float], tuple[Table, ...], tuple[Figure, ...], str]:
    """Numbers, tables and figures of the models of gray images, and why others are missing."""
    with one_thread():
        if size is Size.QUICK:
            small = train_small(small_images(seed), seed, progress)
            progress.say("drawing figures")
            return {}, (), draw_trained(folder, small, seed), "part of the full size"
        try:
            trained = train_tutorial(tutorial_images(), seed, progress)
            scores = unknown_scores(seed, progress)
        except DataError as error:
            return {}, (), (), str(error)
        progress.say("drawing figures")
        pictures = (*draw_trained(folder, trained, seed), unknown(folder, scores))
        return tutorial_numbers(trained, seed) | unknown_numbers(scores), tutorial_tables(trained, seed), pictures, ""


def _row_of(claim: str) -> str:
    """The name of the row that a claim about three bounds is about, or one of the three."""
    name = claim.split("/")[0]
    return name.replace("order", "vae") if name.startswith("order") else name


EXPERIMENT = Experiment.beside(__file__, run)
"""The experiment of the tutorial's autoencoder."""
