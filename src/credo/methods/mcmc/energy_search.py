"""The step of an unadjusted sampler, sought by the error of its energy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_MEMORY = 150.0
"""Steps that count for the estimate."""
_WIDTH = 1.5
"""How far, in factors e of the step, an estimate may be off and still count fully."""
_GROWTH = 1.5
"""The step grows by this factor at most, from one step to the next."""


@dataclass(frozen=True)
class EnergySearch:
    """The state of a search for the step at which the squared change of the energy per weight is as wished.

    The change of the energy in one step grows like step^3, so its square predicts the right step as a sixth root.

    Attributes:
        numbers: the step, the largest step allowed, the weighted sum of (change^2 / wished) / step^6, and the sum of
            the weights, (4,).

    Reference: J. Robnik, U. Seljak, "Fluctuation without dissipation: Microcanonical Langevin Monte Carlo", 2024,
        https://arxiv.org/abs/2303.18221
    """

    numbers: Tensor

    @staticmethod
    def around(step: float) -> EnergySearch:
        return EnergySearch(torch.tensor([step, math.inf, 0.0, 0.0]).double())

    @property
    def step(self) -> float:
        return float(self.numbers[0])

    def updated(self, change: float, wished: float) -> EnergySearch:
        """After a step in which the mean over chains of (change of energy)^2 / P was `change`.

        A change that is no number, or absurd, halves the step for good.
        """
        step, most, total, weights = self.numbers.tolist()
        ratio = change / wished + 1e-8
        if not ratio < 1e8:
            return EnergySearch(torch.tensor([0.5 * step, 0.8 * step, 0.0, 0.0]).double())
        weight = math.exp(-0.5 * (math.log(ratio) / (6.0 * _WIDTH)) ** 2)
        keep = (_MEMORY - 1.0) / (_MEMORY + 1.0)
        total, weights = keep * total + weight * ratio / step**6, keep * weights + weight
        step = min((total / weights) ** (-1.0 / 6.0), most, _GROWTH * step)
        return EnergySearch(torch.tensor([step, most, total, weights]).double())
