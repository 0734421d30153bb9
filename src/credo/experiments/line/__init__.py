"""The line of the week-8 lecture: linear regression by a grid, in closed form, and by credo's methods."""

from credo.experiments.base import Experiment
from credo.experiments.line.measure import run

EXPERIMENT = Experiment.beside(__file__, run)
