"""Methods on one problem, compared with the judge: a long run of Hamiltonian Monte Carlo that converges."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from credo.core.optional import optional
from credo.core.record import CredoWarning
from credo.core.storage import SCHEMA, environment
from credo.diagnostics.agreement import Agreement, ClassAgreement, agreement
from credo.diagnostics.convergence import Convergence, convergence
from credo.experiments.base import Figure, Progress, Size, uninterrupted
from credo.experiments.judge.problem import CONTESTS, MOONS, QUICK_DRAWS, SINE, Candidate, Contest, chosen, the_judge
from credo.fit import fit
from credo.methods import HMC, ImportanceSampling, Method, Metropolis
from credo.posteriors import Chains, Posterior
from credo.predictive import ClassPredictive, NumericPredictive, Predictive, predictive
from credo.reports.tables import Cell, Table

ENSEMBLE, VARIATIONAL = "ensemble", "vi"
NAMES = ("map", ENSEMBLE, VARIATIONAL)
SETS = {Size.QUICK: 1, Size.FULL: 4}
"""Data sets of each problem."""
DRAWS = {Size.QUICK: QUICK_DRAWS, Size.FULL: 300}
"""Of each of the judge's chains."""
PREDICTED = 1000
"""Of the judge in a prediction: more hardly change it, and all methods are compared with the same ones."""
JUDGED = 40
"""Inputs at which the judge's own chains are judged."""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What one method said.

    Attributes:
        label: for people.
        color: in figures.
        prediction: at the inputs of the contest.
        agreement: with the judge there.
        log_likelihood: mean log density of targets that it has not seen.
        hits: part of these that its 95 % intervals cover; for classes, that it gets right.
        seconds: of the fit.
        gradients: gradients of the full data that it took, over all members or chains; None if it takes none.
    """

    label: str
    color: str
    prediction: Predictive
    agreement: Agreement
    log_likelihood: float
    hits: float
    seconds: float
    gradients: int | None


@dataclass(frozen=True, eq=False)
class Comparison:
    """All methods on one problem.

    Attributes:
        contest: the problem.
        judge: what the judge says; its agreement is that of one half of its chains with the other, the floor below
            which no distance to it means anything.
        convergence: of the judge, at inputs of the contest.
        results: of the methods, in the order in which they were asked for.
    """

    contest: Contest
    judge: MethodResult
    convergence: Convergence
    results: tuple[MethodResult, ...]


def compare(
    contest: Contest,
    method: HMC,
    candidates: Sequence[Candidate],
    size: Size,
    seed: int,
    progress: Progress,
    checkpoint: Path | None = None,
) -> Comparison:
    """Run the judge, then the methods.

    Args:
        contest: the problem.
        method: the judge.
        candidates: the methods.
        size: of their runs.
        seed: every stream of randomness derives from it.
        progress: is notified how far the work is.
        checkpoint: folder of the judge's run, which is resumed if it was interrupted and not repeated when it is done.
    """
    _check_arviz()
    data, listener = (contest.x, contest.y), progress.of(f"{contest.name}: the judge, {type(method).__name__}")
    chains = fit(
        contest.model, data, method, seed=seed, progress=listener, checkpoint=checkpoint, resume=bool(checkpoint)
    )
    posterior = uninterrupted(chains)
    assert isinstance(posterior, Chains)
    few = torch.linspace(0, len(contest.inputs) - 1, min(JUDGED, len(contest.inputs))).long()
    judged = convergence(posterior, contest.inputs[few])
    reference = posterior.predict(contest.inputs, draws=min(PREDICTED, posterior.variables.members))
    floor = agreement(*_halves(posterior, contest.inputs))
    judge = _result("the judge: HMC", "", contest, method, posterior, reference, floor)
    results = [_of_candidate(contest, candidate, size, seed, progress, reference) for candidate in candidates]
    return Comparison(contest, judge, judged, tuple(results))


def _check_arviz() -> None:
    """Say what is missing before the long run and not after it."""
    try:
        optional("arviz", "mcmc")
    except ImportError as error:
        raise ValueError(f"the judge's chains could not be judged: {error}") from None


def _of_candidate(
    contest: Contest, candidate: Candidate, size: Size, seed: int, progress: Progress, reference: Predictive
) -> MethodResult:
    method, listener = candidate.make(contest.name, size), progress.of(f"{contest.name}: {candidate.label}")
    with warnings.catch_warnings():
        # that a method fails here is what the table shows
        warnings.simplefilter("ignore", CredoWarning)
        posterior = uninterrupted(fit(contest.model, (contest.x, contest.y), method, seed=seed, progress=listener))
    prediction = posterior.predict(contest.inputs, draws=candidate.draws, seed=seed)
    distance = agreement(prediction, reference)
    return _result(candidate.label, candidate.color, contest, method, posterior, prediction, distance)


def _result(
    label: str,
    color: str,
    contest: Contest,
    method: Method,
    posterior: Posterior,
    prediction: Predictive,
    distance: Agreement,
) -> MethodResult:
    x, y = contest.new
    new = posterior.predict(x, draws=min(PREDICTED, len(prediction.log_weights)))
    return MethodResult(
        label,
        color,
        prediction,
        distance,
        float(new.log_prob(y).double().mean()),
        _hits(new, y),
        posterior.record.seconds,
        gradient_evaluations(method, posterior),
    )


def _hits(new: Predictive, y: Tensor) -> float:
    if isinstance(new, NumericPredictive):
        lower, upper = new.interval(0.95)
        inside = (lower <= y) & (y <= upper)
    else:
        assert isinstance(new, ClassPredictive)
        inside = new.label == y
    return float(inside.double().mean())


def _halves(posterior: Chains, x: Tensor) -> tuple[Predictive, Predictive]:
    """What one half of the chains believes, and what the other does."""
    functions = posterior.draw()
    outputs, first = functions(posterior.inputs(x)), posterior.chain < (posterior.chains + 1) // 2

    def half(mask: Tensor) -> Predictive:
        params = {name: value[mask] for name, value in functions.likelihood_params.items()}
        return predictive(posterior.model.likelihood, outputs[mask], params, functions.log_weights[mask])

    return half(first), half(~first)


def gradient_evaluations(method: Method, posterior: Posterior) -> int | None:
    """Gradients of the whole data that a run took over all members, where each step sees all of them."""
    if isinstance(method, Metropolis | ImportanceSampling):
        return None
    steps = method.steps(1) * method.members
    if isinstance(posterior, Chains) and "n_steps" in posterior.statistics:
        # trajectories of the warm-up are not stored; they are about as long
        return round(steps * float(posterior.statistics["n_steps"].double().mean()))
    return steps


NUMBERS = ("W in", "W out", "TV in", "TV out", "sd out", "cover")
CLASSES = ("same in", "same out", "TV in", "TV out", "right", "log lik")


def comparison_table(comparison: Comparison) -> Table:
    """One row per method, the judge first."""
    classes = isinstance(comparison.judge.agreement, ClassAgreement)
    columns = ("method", *(CLASSES if classes else NUMBERS), "1000 grads", "secs")
    rows = tuple(_row(comparison, result) for result in (comparison.judge, *comparison.results))
    note = (
        f"The judge: {comparison.convergence.verdict}. Its own row holds one half of its chains against the other: "
        "smaller distances mean nothing. In: among the data; out: outside them. TV: total variation distance of the "
        "predictive distribution from the judge's, 0 to 1. "
    )
    return Table(comparison.contest.title, columns, rows, note + (_CLASSES if classes else _NUMBERS) + _COST)


_CLASSES = "Same: part of the inputs where the likeliest class is the judge's. Right, log lik: on new data. "
_NUMBERS = (
    "W: 1-Wasserstein distance in units of the judge's standard deviation. sd: standard deviation of the prediction "
    "over the judge's. Cover: part of new y among the data in the 95 % intervals. "
)
_COST = "1000 grads: gradients of all the data, over all members and chains."


def _row(comparison: Comparison, result: MethodResult) -> tuple[Cell, ...]:
    zones = [measures(comparison, result, inside) for inside in (True, False)]
    if isinstance(result.agreement, ClassAgreement):
        numbers = [zone[name] for name in ("agreement", "total_variation") for zone in zones]
    else:
        numbers = [zone[name] for name in ("relative_wasserstein", "total_variation") for zone in zones]
        numbers.append(zones[1]["stddev_ratio"])
    numbers.append(result.hits)
    if isinstance(result.agreement, ClassAgreement):
        numbers.append(result.log_likelihood)
    thousands = None if result.gradients is None else round(result.gradients / 1000, 1)
    return (result.label, *(round(number, 3) for number in numbers), thousands, round(result.seconds, 1))


def measures(comparison: Comparison, result: MethodResult, inside: bool) -> dict[str, float]:
    """How a method differs from the judge, averaged over the inputs inside or outside the data."""
    rows = comparison.contest.inside if inside else ~comparison.contest.inside
    return dict(result.agreement.at(rows).averages())


def compared(name: str, size: Size, folder: Path, seed: int, progress: Progress) -> Comparison:
    """The three methods of the claims on one data set of a problem."""
    checkpoint = folder / f"judge-{name}-{size.value}-{seed}"
    return compare(CONTESTS[name](seed), the_judge(DRAWS[size]), chosen(NAMES), size, seed, progress, checkpoint)


def distances(comparison: Comparison, measure: str) -> tuple[float, float]:
    """How far the ensemble and mean-field VI are from the judge, on average over all inputs."""
    by_name = dict(zip(NAMES, comparison.results, strict=True))
    ensemble, variational = (by_name[name].agreement.averages()[measure] for name in (ENSEMBLE, VARIATIONAL))
    return ensemble, variational


def claims(found: Mapping[str, Sequence[Comparison]]) -> dict[str, float]:
    """What claims may be about, but for the judge's own convergence."""

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


def worst_r_hat(found: Mapping[str, Sequence[Comparison]]) -> dict[str, float]:
    """The worst R-hat of the judge over all data sets, by the id of the claim."""
    return {f"judge-{name}": max(one.convergence.worst_r_hat for one in runs) for name, runs in found.items()}


def by_set_table(found: Mapping[str, Sequence[Comparison]], seeds: Sequence[int]) -> Table:
    """Distances from the judge, data set by data set."""
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


def as_data(comparison: Comparison, figure: Figure, seed: int) -> dict[str, Any]:
    """The comparison for a program: plain numbers by name."""
    judged = comparison.convergence
    return {
        "schema": SCHEMA,
        "problem": comparison.contest.name,
        "seed": seed,
        "judge": {
            "verdict": judged.verdict,
            "converged": judged.converged,
            "r_hat": judged.worst_r_hat,
            "effective_draws": judged.effective_draws,
            "chains": judged.chains,
            "draws": judged.length,
        },
        "methods": [
            {
                "method": result.label,
                "inside": measures(comparison, result, True),
                "outside": measures(comparison, result, False),
                "hits": result.hits,
                "log_likelihood": result.log_likelihood,
                "gradients": result.gradients,
                "seconds": result.seconds,
            }
            for result in (comparison.judge, *comparison.results)
        ],
        "figure": figure.path,
        "environment": environment(),
    }
