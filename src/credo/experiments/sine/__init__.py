"""The sine of the TEK5040 assignment: what several methods believe where there are data, and where there are none."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from torch import Tensor

from credo.core.record import CredoWarning
from credo.experiments.base import Cell, Experiment, Outcome, Progress, Size, Table, uninterrupted
from credo.experiments.sine.entry import Entry
from credo.experiments.sine.measures import Measures, coverage, measure, spread_of, variation
from credo.experiments.sine.methods import (
    BAYES_BY_BACKPROP,
    CONCRETE_DROPOUT,
    DEEP_ENSEMBLE,
    MAXIMUM_LIKELIHOOD,
    MC_DROPOUT,
    VARIATIONAL_DROPOUT,
    entries,
)
from credo.experiments.sine.pictures import Picture, draw_all
from credo.experiments.sine.problem import Problem
from credo.experiments.sine.samplers import HAMILTONIAN, IMPORTANCE, NO_U_TURN
from credo.experiments.threads import one_thread
from credo.fit import fit
from credo.predictive import NumericPredictive

REPEATED = (MC_DROPOUT, BAYES_BY_BACKPROP)
"""The methods of which the assignment asks how they differ from run to run."""

RUNS = 10
"""Fewer tell too little: with 4 runs the claim about their variation fails for two seeds in eight."""


@dataclass(frozen=True)
class Fitted:
    """One method on the sine: outputs of its drawn functions at the grid (S, 1500), and what it is judged by."""

    draws: Tensor
    measures: Measures
    coverage: float
    seconds: float


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Fit all methods, repeat some, draw the figures, measure the claims."""
    with one_thread():
        return _run(size, folder, seed, progress)


def _run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    problem = Problem.of(seed)
    table = entries(size)
    fitted = {entry.name: _fit(problem, entry, seed, progress) for entry in table}
    repeated = {entry: _repeat(problem, entry, seed, progress) for entry in table if entry.name in REPEATED}
    progress.say("drawing figures")
    shown = [(entry, fitted[entry.name]) for entry in table]
    pictures = [Picture(entry, found.draws, found.measures) for entry, found in shown]
    spreads = {entry: spread_of(draws) for entry, draws in repeated.items()}
    figures = draw_all(folder, problem, pictures, spreads)
    again = {entry.name: _measures(problem, draws) for entry, draws in repeated.items()}
    tables = (_comparison(table, fitted), _runs(table, again))
    return Outcome(_claims(fitted, again), tables, figures)


def _fit(problem: Problem, entry: Entry, seed: int, progress: Progress) -> Fitted:
    begin = time.monotonic()
    prediction = _predict(problem, entry, seed, progress, entry.label)
    seconds = time.monotonic() - begin
    draws = _outputs(prediction)
    lower, upper = (end.double().squeeze(1) for end in prediction.interval(0.95))
    return Fitted(draws, measure(problem, draws), coverage(problem, lower, upper), seconds)


def _predict(problem: Problem, entry: Entry, seed: int, progress: Progress, text: str) -> NumericPredictive:
    told = progress.of(text)
    with warnings.catch_warnings():
        if entry.name == IMPORTANCE:  # that its weights miss the posterior is what the picture says
            warnings.simplefilter("ignore", CredoWarning)
        posterior = uninterrupted(fit(entry.model, (problem.x, problem.y), entry.method, seed=seed, progress=told))
    prediction = posterior.predict(problem.grid, draws=entry.draws, seed=seed)
    assert isinstance(prediction, NumericPredictive)
    return prediction


def _outputs(prediction: NumericPredictive) -> Tensor:
    return prediction.draws.squeeze(2).double()  # (S, 1500)


def _repeat(problem: Problem, entry: Entry, seed: int, progress: Progress) -> Tensor:
    """Outputs of the drawn functions of every run, (S, R, 1500)."""
    prediction = _predict(problem, entry.repeated(RUNS), seed, progress, f"{entry.label}, {RUNS} runs")
    # draws are dealt to the members in turn, so draw s belongs to run s modulo R
    outputs = _outputs(prediction)
    return outputs.reshape(-1, RUNS, outputs.shape[1])


def _measures(problem: Problem, draws: Tensor) -> list[Measures]:
    return [measure(problem, one) for one in draws.unbind(1)]


def _comparison(table: tuple[Entry, ...], fitted: dict[str, Fitted]) -> Table:
    columns = ("method", "draws", "RMSE inside", "sd inside", "sd near", "sd far", "coverage", "seconds")
    rows: list[tuple[Cell, ...]] = []
    for entry in table:
        found = fitted[entry.name]
        m = found.measures
        numbers = (m.rmse, m.inside, m.near, m.far, found.coverage)
        rows.append((entry.label, len(found.draws), *(round(n, 3) for n in numbers), round(found.seconds, 1)))
    note = (
        "RMSE of the mean to the true sine inside, that is among the data; sd: standard deviation of the drawn "
        "functions (epistemic) inside, in 0.5 < |x| <= 1.0 (near) and in 1.0 < |x| <= 1.5 (far); coverage of new "
        "y inside by the 95 % interval. Units of y; the sine has amplitude 10, the noise standard deviation 1. Maximum "
        "likelihood is one function: it has no epistemic part."
    )
    return Table("One run of each method", columns, tuple(rows), note)


def _runs(table: tuple[Entry, ...], again: dict[str, list[Measures]]) -> Table:
    columns = ("method", "runs", "RMSE (worst)", "least sd far", "median sd far", "most sd far", "sd grows")
    rows: list[tuple[Cell, ...]] = []
    for entry in table:
        if entry.name not in again:
            continue
        found = again[entry.name]
        far = [m.far for m in found]
        errors = [m.rmse for m in found]
        grown = sum(m.far > m.inside for m in found)
        error = f"{median(errors):.2f} ({max(errors):.2f})"
        spread = (round(value, 2) for value in (min(far), median(far), max(far)))
        rows.append((entry.label, len(found), error, *spread, f"in {grown} of {len(found)}"))
    note = (
        "The same data, other first weights and noise. RMSE: median (worst) of the runs. sd far: as above, in "
        "1.0 < |x| <= 1.5; it grows in a run where it is larger than inside."
    )
    return Table("From run to run", columns, tuple(rows), note)


def _claims(fitted: dict[str, Fitted], again: dict[str, list[Measures]]) -> dict[str, float]:
    likelihood, ensemble = fitted[MAXIMUM_LIKELIHOOD].measures, fitted[DEEP_ENSEMBLE].measures
    dropout, variational = again[MC_DROPOUT], again[BAYES_BY_BACKPROP]
    concrete, noisy = fitted[CONCRETE_DROPOUT].measures, fitted[VARIATIONAL_DROPOUT].measures
    return {
        **_sampled(fitted),
        "mean-likelihood": likelihood.rmse,
        "mean-ensemble": ensemble.rmse,
        "mean-dropout": median(m.rmse for m in dropout),
        "mean-variational": median(m.rmse for m in variational),
        "mean-concrete": concrete.rmse,
        "mean-noisy": noisy.rmse,
        "inside-concrete": concrete.inside,
        "inside-ensemble": ensemble.inside,
        "inside-dropout": median(m.inside for m in dropout),
        "inside-variational": median(m.inside for m in variational),
        "outside-ensemble": ensemble.growth,
        "outside-variational": median(m.growth for m in variational),
        "outside-dropout": fmean(m.far for m in dropout) / fmean(m.inside for m in dropout),
        "smooth-variational": median(m.outward for m in variational),
        "erratic-dropout": variation([m.far for m in dropout]) / variation([m.far for m in variational]),
    }


def _sampled(fitted: dict[str, Fitted]) -> dict[str, float]:
    hamiltonian, tree = fitted[HAMILTONIAN].measures, fitted[NO_U_TURN].measures
    return {
        "mean-hmc": hamiltonian.rmse,
        "inside-hmc": hamiltonian.inside,
        "outside-hmc": hamiltonian.growth,
        "far-nuts": tree.far / hamiltonian.far,
        "blind-importance": float(len(set(fitted[IMPORTANCE].draws[:, 0].tolist()))),
    }


EXPERIMENT = Experiment.beside(__file__, run)
