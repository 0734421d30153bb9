"""Methods on one problem, held against the judge."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from credo.core.optional import optional
from credo.core.record import CredoWarning
from credo.diagnostics.agreement import Agreement, agreement
from credo.diagnostics.convergence import Convergence, convergence
from credo.experiments.base import Progress, Size, uninterrupted
from credo.experiments.judge.methods import Entry
from credo.experiments.judge.problems import Contest
from credo.fit import fit
from credo.methods import HMC, ImportanceSampling, Method, Metropolis
from credo.posteriors import Chains, Posterior
from credo.predictive import ClassPredictive, NumericPredictive, Predictive, predictive

DRAWS = 1000
"""Of the judge in a prediction: more hardly change it, and all methods are compared with the same ones."""
JUDGED = 40
"""Inputs at which the judge's own chains are judged."""


@dataclass(frozen=True, eq=False)
class Result:
    """What one method said.

    Attributes:
        label: for people.
        colour: in figures.
        prediction: at the inputs of the contest.
        agreement: with the judge there.
        log_likelihood: mean log density of targets that it has not seen.
        hits: part of these that its 95 % intervals cover; for classes, that it gets right.
        seconds: of the fit.
        gradients: gradients of the full data that it took, over all members or chains; None if it takes none.
    """

    label: str
    colour: str
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
    judge: Result
    convergence: Convergence
    results: tuple[Result, ...]


def compare(
    contest: Contest,
    method: HMC,
    entries: Sequence[Entry],
    size: Size,
    seed: int,
    progress: Progress,
    checkpoint: Path | None = None,
) -> Comparison:
    """Run the judge, then the methods.

    Args:
        contest: the problem.
        method: the judge.
        entries: the methods.
        size: of their runs.
        seed: every stream of randomness derives from it.
        progress: is told how far the work is.
        checkpoint: folder of the judge's run, which goes on if it was interrupted, and is not repeated when it is done.
    """
    _check_arviz()
    data, told = (contest.x, contest.y), progress.of(f"{contest.name}: the judge, {type(method).__name__}")
    chains = fit(contest.model, data, method, seed=seed, progress=told, checkpoint=checkpoint, resume=bool(checkpoint))
    posterior = uninterrupted(chains)
    assert isinstance(posterior, Chains)
    few = torch.linspace(0, len(contest.inputs) - 1, min(JUDGED, len(contest.inputs))).long()
    judged = convergence(posterior, contest.inputs[few])
    reference = posterior.predict(contest.inputs, draws=min(DRAWS, posterior.variables.members))
    floor = agreement(*_halves(posterior, contest.inputs))
    own = _result("the judge: HMC", "", contest, method, posterior, reference, floor)
    results = [_of_entry(contest, entry, size, seed, progress, reference) for entry in entries]
    return Comparison(contest, own, judged, tuple(results))


def _check_arviz() -> None:
    """Say what is missing before the long run and not after it."""
    try:
        optional("arviz", "mcmc")
    except ImportError as error:
        raise ValueError(f"the judge's chains could not be judged: {error}") from None


def _of_entry(
    contest: Contest, entry: Entry, size: Size, seed: int, progress: Progress, reference: Predictive
) -> Result:
    method, told = entry.make(contest.name, size), progress.of(f"{contest.name}: {entry.label}")
    with warnings.catch_warnings():
        # that a method fails here is what the table shows
        warnings.simplefilter("ignore", CredoWarning)
        posterior = uninterrupted(fit(contest.model, (contest.x, contest.y), method, seed=seed, progress=told))
    prediction = posterior.predict(contest.inputs, draws=entry.draws, seed=seed)
    found = agreement(prediction, reference)
    return _result(entry.label, entry.colour, contest, method, posterior, prediction, found)


def _result(
    label: str,
    colour: str,
    contest: Contest,
    method: Method,
    posterior: Posterior,
    prediction: Predictive,
    found: Agreement,
) -> Result:
    x, y = contest.new
    new = posterior.predict(x, draws=min(DRAWS, len(prediction.log_weights)))
    return Result(
        label,
        colour,
        prediction,
        found,
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
        # trajectories of the warm-up are not kept; they are about as long
        return round(steps * float(posterior.statistics["n_steps"].double().mean()))
    return steps
