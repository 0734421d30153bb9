"""The UCI regression tables: nine sets on their standard splits, against the published columns."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from credo.data import DataError
from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.uci.figures import draw
from credo.experiments.uci.measure import METHODS, generalization, numbers, scored, tables
from credo.experiments.uci.problem import NAMES, QUICK, UciRow, splits_named
from credo.experiments.uci.scores import SplitScores


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Train every method on every set that is at hand, but for what the folder has already."""
    wanted = QUICK if size is Size.QUICK else NAMES
    found: dict[tuple[str, str], SplitScores] = {}
    reasons = {name: "not part of the quick size" for name in NAMES if name not in wanted}
    for name in wanted:
        splits = partial(splits_named, name)
        try:
            found |= {(name, m): scored(UciRow(name, m), splits, folder, seed, progress) for m in METHODS}
        except DataError as error:
            reasons[name] = str(error)
    known = {claim: value for key, scores in found.items() for claim, value in numbers(*key, scores).items()}
    claims = EXPERIMENT.card.claims
    ids = {claim.id for claim in claims}
    measured = {claim: value for claim, value in (known | generalization(found)).items() if claim in ids}
    unmeasured = {c.id: reasons.get(c.id.split(".")[0], "no set is at hand") for c in claims if c.id not in measured}
    figures = (draw(folder, found, claims),) if found else ()
    return Outcome(measured, tables(found), figures, unmeasured)


EXPERIMENT = Experiment.beside(__file__, run)
