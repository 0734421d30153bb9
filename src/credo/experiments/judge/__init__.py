"""Which approximation is nearest to the posterior: a deep ensemble and mean-field VI before a judge, over data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from credo.experiments.base import Cell, Experiment, Outcome, Progress, Size, Table
from credo.experiments.judge.comparing import Comparison, compare
from credo.experiments.judge.methods import QUICK_DRAWS, chosen, the_judge
from credo.experiments.judge.pictures import draw
from credo.experiments.judge.problems import CONTESTS, MOONS, SINE
from credo.experiments.judge.tables import comparison_table
from credo.experiments.threads import one_thread

ENSEMBLE, VARIATIONAL = "ensemble", "vi"
NAMES = ("map", ENSEMBLE, VARIATIONAL)
SETS = {Size.QUICK: 1, Size.FULL: 4}
"""Data sets of each problem."""
DRAWS = {Size.QUICK: QUICK_DRAWS, Size.FULL: 300}
"""Of each of the judge's chains."""


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Compare on several data sets of each problem, draw the first ones, measure the claims."""
    seeds = range(seed, seed + SETS[size])
    with one_thread():
        found = {name: [_compared(name, size, folder, one, progress) for one in seeds] for name in CONTESTS}
    progress.say("drawing figures")
    figures = tuple(draw(folder, runs[0]) for runs in found.values())
    tables = (*(comparison_table(runs[0]) for runs in found.values()), _by_set(found, seeds))
    measured = _claims(found)
    if size is Size.FULL:
        return Outcome({**measured, **_convergence(found)}, tables, figures)
    excuse = "at this size the judge is short; the note below its table says how far it is"
    return Outcome(measured, tables, figures, dict.fromkeys(_convergence(found), excuse))


def _compared(name: str, size: Size, folder: Path, seed: int, progress: Progress) -> Comparison:
    checkpoint = folder / f"judge-{name}-{size.value}-{seed}"
    return compare(CONTESTS[name](seed), the_judge(DRAWS[size]), chosen(NAMES), size, seed, progress, checkpoint)


def distances(comparison: Comparison, measure: str) -> tuple[float, float]:
    """How far the ensemble and mean-field VI are from the judge, on average over all inputs."""
    by_name = dict(zip(NAMES, comparison.results, strict=True))
    ensemble, variational = (by_name[name].agreement.averages()[measure] for name in (ENSEMBLE, VARIATIONAL))
    return ensemble, variational


def _claims(found: Mapping[str, Sequence[Comparison]]) -> dict[str, float]:
    def ratio(name: str, measure: str) -> float:
        return median(variational / ensemble for ensemble, variational in _each(found[name], measure))

    same = [ensemble - variational for ensemble, variational in _each(found[MOONS], "agreement")]
    exact = [one.judge.agreement.averages()["total_variation"] for one in found[SINE]]
    off = [variational for _, variational in _each(found[SINE], "total_variation")]
    return {
        "mcmc-exact": median(far / floor for far, floor in zip(off, exact, strict=True)),
        "mcmc-expensive": median(_cost(one) for one in found[SINE]),
        "sine-wasserstein": ratio(SINE, "relative_wasserstein"),
        "sine-variation": ratio(SINE, "total_variation"),
        "moons-variation": ratio(MOONS, "total_variation"),
        "moons-agreement": median(same),
    }


def _cost(comparison: Comparison) -> float:
    """Gradients that the judge takes for each one that mean-field VI takes."""
    variational = dict(zip(NAMES, comparison.results, strict=True))[VARIATIONAL].gradients
    return (comparison.judge.gradients or 0) / (variational or 1)


def _each(runs: Sequence[Comparison], measure: str) -> list[tuple[float, float]]:
    return [distances(one, measure) for one in runs]


def _convergence(found: Mapping[str, Sequence[Comparison]]) -> dict[str, float]:
    """The worst R-hat of the judge over all data sets, by the id of the claim."""
    return {f"judge-{name}": max(one.convergence.worst_r_hat for one in runs) for name, runs in found.items()}


def _by_set(found: Mapping[str, Sequence[Comparison]], seeds: Sequence[int]) -> Table:
    columns = ("problem", "data set", "measure", "deep ensemble", "mean-field VI", "nearer", "judge's R-hat")
    rows: list[tuple[Cell, ...]] = []
    for name, runs in found.items():
        for measure in ("relative_wasserstein", "total_variation") if name == SINE else ("total_variation",):
            for seed, one in zip(seeds, runs, strict=True):
                ensemble, variational = distances(one, measure)
                nearer = "ensemble" if ensemble < variational else "VI"
                numbers = (round(ensemble, 3), round(variational, 3))
                label = measure.replace("relative_", "").replace("_", " ")
                rows.append((name, seed, label, *numbers, nearer, round(one.convergence.worst_r_hat, 3)))
    note = "Distance from the judge's predictive distribution, averaged over all inputs; Wasserstein in its units."
    return Table("Data set by data set", columns, tuple(rows), note)


EXPERIMENT = Experiment.beside(__file__, run)
