"""The methods that are compared: to add one, add a line to `entries`."""

from __future__ import annotations

import math
from typing import Any

from credo.experiments.base import Size
from credo.experiments.sine.entry import Entry
from credo.experiments.sine.problem import MIXTURE, keras_net, plain_net, variational_net
from credo.experiments.sine.samplers import samplers
from credo.methods import (
    BayesByBackprop,
    ConcreteDropout,
    Ensemble,
    MaximumLikelihood,
    MCDropout,
    VariationalDropout,
)
from credo.priors import Normal
from credo.reports.style import BLUE, GREEN, ORANGE, PURPLE, RED, SKY

FLAT = Normal(scale=1e6)
"""So wide that it does nothing: the assignment has no weight decay.

Adam divides a gradient by its own size, so where the data give none (a unit that is silent on all of them) even the
pull of a prior of scale 1000 moves weights at full speed, and a third of MC dropout's doubt far from the data is gone.
At 1e6 the pull is far below Adam's epsilon.
"""

MAXIMUM_LIKELIHOOD = "maximum-likelihood"
DEEP_ENSEMBLE = "deep-ensemble"
MC_DROPOUT = "mc-dropout"
BAYES_BY_BACKPROP = "bayes-by-backprop"
CONCRETE_DROPOUT = "concrete-dropout"
VARIATIONAL_DROPOUT = "variational-dropout"


def entries(size: Size) -> tuple[Entry, ...]:
    """The methods. Bayes by Backprop and MC dropout have the assignment's numbers at full size."""
    full = size is Size.FULL
    draws = 500
    dropout = MCDropout(epochs=5000 if full else 1500, learning_rate=0.08, batch_size=None, rate=0.1)
    variational = BayesByBackprop(epochs=1500, learning_rate=0.08, batch_size=None, initial_scale=math.log(2.0))
    likelihood = MaximumLikelihood(epochs=1500 if full else 600, learning_rate=0.01, batch_size=None)
    ensemble = Ensemble(likelihood, members=20 if full else 10)
    return (
        Entry(
            MAXIMUM_LIKELIHOOD,
            "Maximum likelihood",
            PURPLE,
            likelihood,
            plain_net,
            FLAT,
            None,
            "a plain network: the band is the noise alone, and as narrow far from the data as among them.",
            remark="One function: no epistemic part.\nThe band is the noise alone.",
        ),
        Entry(
            DEEP_ENSEMBLE,
            "Deep ensemble",
            GREEN,
            ensemble,
            plain_net,
            FLAT,
            None,
            "the members agree among the data and part ways at once outside.",
        ),
        Entry(
            MC_DROPOUT,
            "MC dropout",
            RED,
            dropout,
            keras_net,
            FLAT,
            draws,
            "one run; dropping units shakes the function everywhere, among the data too.",
        ),
        Entry(
            BAYES_BY_BACKPROP,
            "Bayes by Backprop",
            BLUE,
            variational,
            variational_net,
            MIXTURE,
            draws,
            "one run; doubt of the size of the noise among the data, and a smooth cone outside.",
        ),
        *learned_dropouts(size),
        *samplers(size),
    )


def learned_dropouts(size: Size) -> tuple[Entry, ...]:
    """Dropout whose noise is learned, with numbers of ours."""
    short: dict[str, Any] = {
        "epochs": 1500 if size is Size.FULL else 800,
        "learning_rate": 0.02,
        "batch_size": None,
    }
    return (
        Entry(
            CONCRETE_DROPOUT,
            "Concrete dropout",
            ORANGE,
            ConcreteDropout(**short),
            keras_net,
            Normal(3.0, fan_in=True),
            500,
            "one run; the learned rates fall to nothing, since each of 20 units matters too much to be dropped.",
            remark="The learned rates are nearly zero:\nthe draws are one function.",
        ),
        Entry(
            VARIATIONAL_DROPOUT,
            "Variational dropout",
            SKY,
            VariationalDropout(**short),
            keras_net,
            FLAT,
            500,
            "one run; noise in proportion to each weight, its size learned.",
        ),
    )
