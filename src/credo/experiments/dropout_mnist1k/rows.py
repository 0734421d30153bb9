"""The rows of the tutorial's table, with its settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from credo.core.optimizers import StepDecay
from credo.likelihoods import Categorical
from credo.methods import MAP, ConcreteDropout, MCDropout, Method, VariationalDropout
from credo.model import Model
from credo.nets import MLP
from credo.priors import Normal, Prior

BASE, MC, CONCRETE, VARIATIONAL = "base", "mc-dropout", "concrete-dropout", "variational-dropout"

RATE = 0.5
DECAY = 1e-4
"""The tutorial's weight decay: 1e-4 times half the sum of squared weights is added to the loss per example."""

CONCRETE_LENGTH_SCALE = 1e-2
"""l in the tutorial's concrete objective, (wd - ent) / N with the same weight decay: l^2 = 1e-4."""


@dataclass(frozen=True)
class Row:
    """A method on these images.

    Attributes:
        name: of its claims.
        label: for people.
        method: with its numbers.
        prior: of the weights.
        per_class: images of each class to learn from.
        hidden: units in each of the two hidden layers.
        members: repetitions, trained together.
    """

    name: str
    label: str
    method: Method
    prior: Prior
    per_class: int = 100
    hidden: int = 500
    members: int = 5

    def model(self, pixels: int) -> Model:
        return Model(lambda: glorot(pixels, self.hidden), Categorical(), self.prior)


def glorot(pixels: int, hidden: int) -> nn.Module:
    """pixels - hidden - hidden - 10 with ReLU, started as TensorFlow does; the decay in the tutorial's log says so."""
    net = MLP(pixels, 10, (hidden, hidden))
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return net


def rows() -> tuple[Row, ...]:
    """200 epochs, batches of 100, Adam at 0.001 and at a tenth of it in the second half.

    The tutorial prints no number of epochs. With 100, the number of its autoencoder, dropout is not at its end.
    """
    size = 1000
    numbers: dict[str, Any] = {"epochs": 200, "learning_rate": 1e-3, "batch_size": 100, "schedule": StepDecay((0.5,))}
    # decay = l^2 / N for a plain network and l^2 / (N keep) with dropout: the tutorial gives the decay, not the prior
    plain, kept = Normal(1.0 / math.sqrt(DECAY * size)), math.sqrt(DECAY * size * (1.0 - RATE))
    concrete = ConcreteDropout(
        **numbers, sharing="unit", initial_rate=RATE, length_scale=CONCRETE_LENGTH_SCALE, temperature=0.01
    )
    return (
        Row(BASE, "Base", MAP(**numbers), plain),
        Row(MC, "MC dropout", MCDropout(**numbers, rate=RATE, length_scale=kept), plain),
        Row(CONCRETE, "Concrete dropout", concrete, plain),
        Row(VARIATIONAL, "Variational dropout", VariationalDropout(**numbers, sharing="unit"), plain),
    )


def more_data(row: Row) -> Row:
    """Concrete dropout with ten times the images, for two runs and as many steps as before times three."""
    method = row.method
    assert isinstance(method, ConcreteDropout)
    return replace(
        row, name=f"{CONCRETE}-10000", method=replace(method, epochs=30), per_class=10 * row.per_class, members=2
    )


def quick() -> tuple[Row, ...]:
    """Small networks for scikit-learn's digits, 50 of each class."""
    numbers: dict[str, Any] = {"epochs": 30, "learning_rate": 3e-3, "batch_size": 50}
    smaller = [replace(row, per_class=50, hidden=100, members=2) for row in rows()]
    return tuple(replace(row, method=_with(row.method, numbers)) for row in smaller)


def _with(method: Method, numbers: dict[str, Any]) -> Method:
    changed: Method = replace(method, **numbers)  # type: ignore[type-var]
    return changed
