"""The UCI regression tables: standard splits, standardized columns, and the settings of the two methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from credo.data.sets import DataSet, load

NAMES = ("boston", "concrete", "energy", "kin8nm", "naval", "power-plant", "protein", "wine-quality-red", "yacht")
"""The nine sets, as the literature lists them."""
QUICK = ("boston", "yacht")
"""The two sets of the quick size; with the settings of the full one."""

MEMBERS = 5
ENSEMBLE_EPOCHS = 40
RATE = 0.05
DRAWS = 1000
HELD_OUT = 0.2
"""Part of the training rows on which settings are chosen."""
ENSEMBLE_RATES = (0.003, 0.01, 0.03)
DROPOUT_RATES = (0.005, 0.02)
"""Learning rates to choose from."""
LEARNING_RATE, INITIAL_SCALE = 0.01, 0.02
"""Of Bayes by Backprop, which begins with weights known to this standard deviation, and the first of maximum
likelihood."""
PRIOR_SCALES, LIKELIHOOD_EPOCHS = (0.5, 2.0, 8.0), (20, 100, 400)
"""What these two choose from: the scale of a prior N(0, scale^2 / fan-in), and when to stop."""
NOISE_SCALES = torch.logspace(-2.5, 0.5, 61)
"""Candidates for the standard deviation of the noise, in standardized units, between 0.003 and 3."""


@dataclass(frozen=True)
class Splits:
    """All splits of a set at once, standardized by their own training rows.

    Attributes:
        x: training inputs, (M, N, F).
        y: training targets, (M, N).
        x_test: test inputs, (M, T, F).
        y_test: test targets, (M, T).
        unit: standard deviation of each split's training targets, (M,): scores times this are in the target's units.
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    unit: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def held_out(self, fraction: float) -> Splits:
        """The training rows alone, cut again: the last part of each split's (shuffled) rows for validation."""
        cut = round(self.x.shape[1] * (1 - fraction))
        return Splits(self.x[:, :cut], self.y[:, :cut], self.x[:, cut:], self.y[:, cut:], self.unit)


def splits_named(name: str) -> Splits:
    """The standard splits of a set.

    Raises:
        DataError: the set is not at hand.
    """
    return splits_of(load(f"uci-{name}"))


def splits_of(data: DataSet) -> Splits:
    """The set's own splits. A column that is constant in the training rows becomes zero."""
    x, y = torch.as_tensor(data.x, dtype=torch.float64), torch.as_tensor(data.y, dtype=torch.float64)
    parts = [_standardized(x, y, torch.as_tensor(s.train), torch.as_tensor(s.test)) for s in data.splits]
    x_train, y_train, x_test, y_test, unit = (torch.stack(column) for column in zip(*parts, strict=True))
    return Splits(x_train.float(), y_train.float(), x_test.float(), y_test.float(), unit)


def _standardized(x: Tensor, y: Tensor, train: Tensor, test: Tensor) -> tuple[Tensor, ...]:
    center, spread = x[train].mean(0), x[train].std(0, correction=0)
    spread = torch.where(spread > 0, spread, 1.0)
    middle, unit = y[train].mean(), y[train].std(correction=0)
    scaled = (x - center) / spread, (y - middle) / unit
    return scaled[0][train], scaled[1][train], scaled[0][test], scaled[1][test], unit


def hidden(name: str) -> tuple[int]:
    """One hidden layer of 50 units; 100 for protein."""
    return (100,) if name == "protein" else (50,)


def dropout_epochs(name: str) -> int:
    """Passes over the data: 400, and 200 for protein."""
    return 200 if name == "protein" else 400


@dataclass(frozen=True)
class UciRow:
    """A method on a set.

    Attributes:
        data: the set's name.
        method: `deep ensemble`, `MC dropout`, `Bayes by Backprop` or `maximum likelihood`.
    """

    data: str
    method: str

    @property
    def name(self) -> str:
        """As in the claims."""
        return f"{self.data}.{self.method.lower().replace(' ', '-')}"

    def settings(self, seed: int) -> dict[str, Any]:
        """All that the result depends on, beside the data."""
        numbers = {"held_out": HELD_OUT, "hidden": list(hidden(self.data)), "seed": seed}
        if self.method == "deep ensemble":
            return {**numbers, "members": MEMBERS, "learning_rates": list(ENSEMBLE_RATES), "epochs": ENSEMBLE_EPOCHS}
        if self.method == "maximum likelihood":
            return {**numbers, "learning_rate": LEARNING_RATE, "epochs": list(LIKELIHOOD_EPOCHS)}
        if self.method == "Bayes by Backprop":
            start = {
                "learning_rate": LEARNING_RATE,
                "initial_scale": INITIAL_SCALE,
                "epochs": dropout_epochs(self.data),
            }
            return {**numbers, **start, "draws": DRAWS, "prior_scales": list(PRIOR_SCALES)}
        return {
            **numbers,
            "rate": RATE,
            "draws": DRAWS,
            "learning_rates": list(DROPOUT_RATES),
            "epochs": dropout_epochs(self.data),
        }
