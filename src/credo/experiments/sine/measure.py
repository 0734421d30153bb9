"""What every method believes about the sine, and the numbers that say what the eye sees in the figures."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import torch
from torch import Tensor

from credo.core.record import CredoWarning
from credo.experiments.base import Cell, Progress, Table, uninterrupted
from credo.experiments.sine.problem import (
    BAYES_BY_BACKPROP,
    CONCRETE_DROPOUT,
    DEEP_ENSEMBLE,
    EDGE,
    HAMILTONIAN,
    IMPORTANCE,
    MAXIMUM_LIKELIHOOD,
    MC_DROPOUT,
    NO_U_TURN,
    NOISE,
    VARIATIONAL_DROPOUT,
    SineProblem,
    SineSetup,
)
from credo.fit import fit
from credo.predictive import NumericPredictive

REPEATED = (MC_DROPOUT, BAYES_BY_BACKPROP)
"""The methods of which the assignment asks how they differ from run to run."""

RUNS = 10
"""Fewer are not enough: with 4 runs the claim about their variation fails for two seeds in eight."""


@dataclass(frozen=True)
class SineMeasures:
    """One run of one method, in the units of y.

    Attributes:
        rmse: of the mean to the true sine, among the data.
        inside: standard deviation of the drawn functions among the data, averaged over x.
        near: the same in 0.5 < |x| <= 1.0.
        far: the same in 1.0 < |x| <= 1.5.
        outward: share of the steps away from the data at which that standard deviation grows; 1 for a perfect cone.
    """

    rmse: float
    inside: float
    near: float
    far: float
    outward: float

    @property
    def growth(self) -> float:
        """The smaller of near / inside and far / near: above 1 the doubt grows in both steps outward."""
        return min(self.near / self.inside, self.far / self.near)


def measure(problem: SineProblem, draws: Tensor) -> SineMeasures:
    """The measures of one run, from the outputs of its drawn functions at the grid, (S, 1500)."""
    spread = spread_of(draws)
    error = (draws.mean(0) - problem.truth)[problem.inside].square().mean().sqrt()
    inside, near, far = (float(spread[zone].mean()) for zone in (problem.inside, problem.near, problem.far))
    return SineMeasures(float(error), inside, near, far, _outward(problem, spread))


def spread_of(draws: Tensor) -> Tensor:
    """Standard deviation over the draws, which are the first axis: (S, ...) to (...)."""
    return draws.std(0, correction=0)


def _outward(problem: SineProblem, spread: Tensor) -> float:
    x = problem.grid.squeeze(1)
    right, left = spread[x > EDGE], spread[x < -EDGE].flip(0)
    steps = torch.cat([right.diff(), left.diff()])
    return float((steps > 0).double().mean())


def coverage(problem: SineProblem, lower: Tensor, upper: Tensor) -> float:
    """Probability that a new y among the data falls between the ends, (1500,) each; exact, as the noise is known."""
    below_upper, below_lower = (torch.special.ndtr((end - problem.truth) / NOISE) for end in (upper, lower))
    return float((below_upper - below_lower)[problem.inside].mean())


def variation(values: Sequence[float]) -> float:
    """Standard deviation over mean."""
    return stdev(values) / fmean(values)


@dataclass(frozen=True)
class SineResult:
    """One method on the sine: outputs of its drawn functions at the grid (S, 1500), and what it is judged by."""

    setup: SineSetup
    draws: Tensor
    measures: SineMeasures
    coverage: float
    seconds: float


def fitted(problem: SineProblem, setup: SineSetup, seed: int, progress: Progress) -> SineResult:
    """One method on the data of the assignment."""
    begin = time.monotonic()
    prediction = _predict(problem, setup, seed, progress, setup.label)
    seconds = time.monotonic() - begin
    draws = _outputs(prediction)
    lower, upper = (end.double().squeeze(1) for end in prediction.interval(0.95))
    return SineResult(setup, draws, measure(problem, draws), coverage(problem, lower, upper), seconds)


def _predict(problem: SineProblem, setup: SineSetup, seed: int, progress: Progress, text: str) -> NumericPredictive:
    listener = progress.of(text)
    with warnings.catch_warnings():
        if setup.name == IMPORTANCE:  # that its weights miss the posterior is what the picture says
            warnings.simplefilter("ignore", CredoWarning)
        fitted = fit(setup.model, (problem.x, problem.y), setup.method, seed=seed, progress=listener)
    posterior = uninterrupted(fitted, setup.method.members)
    prediction = posterior.predict(problem.grid, draws=setup.draws, seed=seed)
    assert isinstance(prediction, NumericPredictive)
    return prediction


def _outputs(prediction: NumericPredictive) -> Tensor:
    return prediction.draws.squeeze(2).double()  # (S, 1500)


def repeated(problem: SineProblem, setup: SineSetup, seed: int, progress: Progress) -> Tensor:
    """Outputs of the drawn functions of every run, (S, R, 1500)."""
    prediction = _predict(problem, setup.repeated(RUNS), seed, progress, f"{setup.label}, {RUNS} runs")
    # draws are dealt to the members in turn, so draw s belongs to run s modulo R
    outputs = _outputs(prediction)
    return outputs.reshape(-1, RUNS, outputs.shape[1])


def measures_of_runs(problem: SineProblem, draws: Tensor) -> list[SineMeasures]:
    """The measures of every run, from outputs (S, R, 1500)."""
    return [measure(problem, one) for one in draws.unbind(1)]


def comparison_table(results: Mapping[str, SineResult]) -> Table:
    """One row per method."""
    columns = ("method", "draws", "RMSE inside", "sd inside", "sd near", "sd far", "coverage", "seconds")
    rows: list[tuple[Cell, ...]] = []
    for result in results.values():
        m = result.measures
        numbers = (m.rmse, m.inside, m.near, m.far, result.coverage)
        shown = (round(n, 3) for n in numbers)
        rows.append((result.setup.label, len(result.draws), *shown, round(result.seconds, 1)))
    note = (
        "RMSE of the mean to the true sine inside, that is among the data; sd: standard deviation of the drawn "
        "functions (epistemic) inside, in 0.5 < |x| <= 1.0 (near) and in 1.0 < |x| <= 1.5 (far); coverage of new "
        "y inside by the 95 % interval. Units of y; the sine has amplitude 10, the noise standard deviation 1. Maximum "
        "likelihood is one function: it has no epistemic part."
    )
    return Table("One run of each method", columns, tuple(rows), note)


def runs_table(runs: Mapping[SineSetup, Sequence[SineMeasures]]) -> Table:
    """How much each repeated method varies from run to run."""
    columns = ("method", "runs", "RMSE (worst)", "least sd far", "median sd far", "most sd far", "sd grows")
    rows: list[tuple[Cell, ...]] = []
    for setup, measures in runs.items():
        far = [m.far for m in measures]
        errors = [m.rmse for m in measures]
        grown = sum(m.far > m.inside for m in measures)
        error = f"{median(errors):.2f} ({max(errors):.2f})"
        spread = (round(value, 2) for value in (min(far), median(far), max(far)))
        rows.append((setup.label, len(measures), error, *spread, f"in {grown} of {len(measures)}"))
    note = (
        "The same data, other first weights and noise. RMSE: median (worst) of the runs. sd far: as above, in "
        "1.0 < |x| <= 1.5; it grows in a run where it is larger than inside."
    )
    return Table("From run to run", columns, tuple(rows), note)


def claims(results: Mapping[str, SineResult], runs: Mapping[SineSetup, Sequence[SineMeasures]]) -> dict[str, float]:
    """What claims may be about."""
    likelihood, ensemble = results[MAXIMUM_LIKELIHOOD].measures, results[DEEP_ENSEMBLE].measures
    repeats = {setup.name: measures for setup, measures in runs.items()}
    dropout, variational = repeats[MC_DROPOUT], repeats[BAYES_BY_BACKPROP]
    concrete, noisy = results[CONCRETE_DROPOUT].measures, results[VARIATIONAL_DROPOUT].measures
    return {
        **_sampled(results),
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


def _sampled(results: Mapping[str, SineResult]) -> dict[str, float]:
    hamiltonian, tree = results[HAMILTONIAN].measures, results[NO_U_TURN].measures
    return {
        "mean-hmc": hamiltonian.rmse,
        "inside-hmc": hamiltonian.inside,
        "outside-hmc": hamiltonian.growth,
        "far-nuts": tree.far / hamiltonian.far,
        "blind-importance": float(len(set(results[IMPORTANCE].draws[:, 0].tolist()))),
    }
