"""A thousand images of digits: the dropout table of Lee's KAIST tutorial, its learned rates and its doubtful digits."""

from __future__ import annotations

from pathlib import Path

from credo.data import DataError
from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.dropout_mnist1k.beliefs import beliefs_of
from credo.experiments.dropout_mnist1k.figures import accuracies, doubtful, keeps, side_by_side
from credo.experiments.dropout_mnist1k.log import log_lines
from credo.experiments.dropout_mnist1k.log import numbers as log_numbers
from credo.experiments.dropout_mnist1k.measure import (
    TRAINING,
    accuracy_of,
    full_results,
    numbers,
    quick_results,
    size_of,
    tables,
)
from credo.experiments.dropout_mnist1k.problem import CONCRETE, LOG, MC, VARIATIONAL


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train the rows of a size, draw the figures, measure the claims."""
    full, others = size is Size.FULL, "part of the " + ("quick" if size is Size.FULL else "full") + " size"
    claims = {claim.id: claim for claim in EXPERIMENT.card.claims}
    try:
        found, data = full_results(folder / TRAINING, seed, progress) if full else quick_results(seed, progress)
    except DataError as error:
        return Outcome({}, unmeasured=dict.fromkeys(claims, str(error) if full else others))
    doubting = [found[name] for name in (MC, CONCRETE, VARIATIONAL) if name in found]
    beliefs = {each.row.name: beliefs_of(each.row.label, each.posterior, data, seed) for each in doubting}
    progress.say("drawing figures")
    published = claims if full else {}
    compared = [r for r in found.values() if r.row.per_class == data.per_class and r.row.name != LOG]
    figures = (
        accuracies(folder, [accuracy_of(result, published) for result in compared]),
        keeps(folder, {size_of(result.row): result.keeps for result in found.values() if result.keeps}),
        *doubtful(folder, beliefs[MC]),
        side_by_side(folder, list(beliefs.values())),
    )
    log = log_lines(found[LOG].row, data, seed, progress) if full else {}
    prefix, known = "" if full else "digits-", numbers(found, beliefs) | log_numbers(log)
    measured = {prefix + name: value for name, value in known.items() if prefix + name in claims}
    return Outcome(measured, tables(found), figures, {name: others for name in claims if name not in measured})


EXPERIMENT = Experiment.beside(__file__, run)
