"""Act or ask: how often rules for abstaining break the risk that they promise."""

from __future__ import annotations

from pathlib import Path

from credo.core.threads import one_thread
from credo.data import DataError
from credo.experiments.abstain.figures import draw
from credo.experiments.abstain.measure import AbstainResult, measured, numbers, table
from credo.experiments.abstain.problem import SETTINGS, AbstainRow, garments
from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.rows import results


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train what the folder lacks, and choose thresholds on repeated splits."""
    claims = [claim.id for claim in EXPERIMENT.card.claims]
    try:
        data = garments(SETTINGS[size])
    except DataError as error:
        return Outcome({}, unmeasured=dict.fromkeys(claims, str(error)))
    rows = [AbstainRow(kind, size) for kind in ("single", "ensemble")]
    with one_thread():
        found = results(rows, AbstainResult, folder, seed, lambda row: measured(row, data, seed, progress))
    judged = {name: value for name, value in numbers(found).items() if name in claims and size is Size.FULL}
    missing = {name: "takes the 50 splits of the full size" for name in claims if name not in judged}
    return Outcome(judged, (table(found),), (draw(folder, found),), missing)


EXPERIMENT = Experiment.beside(__file__, run)
"""Rules for abstaining."""
