"""Which approximation is nearest to the posterior: a deep ensemble and mean-field VI against HMC, over data sets."""

from __future__ import annotations

from pathlib import Path

from credo.core.threads import one_thread
from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.judge.figures import draw
from credo.experiments.judge.measure import SETS, by_set_table, claims, compared, comparison_table, worst_r_hat
from credo.experiments.judge.problem import CONTESTS


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Compare on several data sets of each problem, draw the first ones, measure the claims."""
    seeds = range(seed, seed + SETS[size])
    with one_thread():
        found = {name: [compared(name, size, folder, one, progress) for one in seeds] for name in CONTESTS}
    progress.say("drawing figures")
    figures = tuple(draw(folder, runs[0]) for runs in found.values())
    tables = (*(comparison_table(runs[0]) for runs in found.values()), by_set_table(found, seeds))
    measured, converged = claims(found), worst_r_hat(found)
    if size is Size.FULL:
        return Outcome({**measured, **converged}, tables, figures)
    reason = "at this size the judge is short; the note below its table says how far it is"
    return Outcome(measured, tables, figures, dict.fromkeys(converged, reason))


EXPERIMENT = Experiment.beside(__file__, run)
