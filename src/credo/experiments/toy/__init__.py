"""The six-point curve of the Bayes by Backprop tutorials: where a network doubts, and where it cannot."""

from __future__ import annotations

from pathlib import Path

from credo.core.threads import one_thread
from credo.experiments.base import Experiment, Outcome, Progress, Size
from credo.experiments.toy.figures import draw
from credo.experiments.toy.measure import RUNS, claims, drawn, measure, table
from credo.experiments.toy.problem import RELU, SIGMOID, ToyProblem


def run(size: Size, folder: Path, seed: int, progress: Progress) -> Outcome:
    """Fit both networks several times, draw the first run, measure the claims."""
    problem = ToyProblem.given()
    with one_thread():
        outputs = {setup: drawn(problem, setup, RUNS[size], seed, progress) for setup in (SIGMOID, RELU)}
    found = {setup.name: [measure(problem, one) for one in draws.unbind(1)] for setup, draws in outputs.items()}
    figure = draw(folder, problem, {setup: draws[:, 0] for setup, draws in outputs.items()})
    return Outcome(claims(found), (table(found),), (figure,))


EXPERIMENT = Experiment.beside(__file__, run)
