"""The coin of the week-8 lecture: prior, likelihood and posterior, by sums and in closed form."""

from credo.experiments.base import Experiment
from credo.experiments.coin.measure import run

EXPERIMENT = Experiment.beside(__file__, run)
