"""How long trajectories should be: the length at which chains move farthest, learnt by gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_RATE, _FAST, _SLOW = 0.025, 0.9, 0.95
"""Adam's learning rate for the logarithm of the length, and its decays."""
_SETTLING = 0.5
"""Exponent of the weights with which iterates are averaged: late ones count more."""


@dataclass(frozen=True)
class LengthSearch:
    """Ascent on the change in the estimator of the expected square (ChEES).

    1/4 E[(|z' - m|^2 - |z - m|^2)^2],   z' = z after a trajectory of length t, m the mean

    Lengths are in units of the posterior's spread. The gradient needs one inner product per trajectory.

    Attributes:
        numbers: log length, its average, Adam's two memories and the count, (5,).

    Reference: M. Hoffman, A. Radul, P. Sountsov, "An adaptive-MCMC scheme for setting trajectory lengths in
        Hamiltonian Monte Carlo", 2021, https://proceedings.mlr.press/v130/hoffman21a.html
    """

    numbers: Tensor

    @staticmethod
    def around(length: float) -> LengthSearch:
        return LengthSearch(torch.tensor([math.log(length), math.log(length), 0.0, 0.0, 0.0]).double())

    @property
    def length(self) -> float:
        return math.exp(self.numbers[0])

    def updated(self, slope: float) -> LengthSearch:
        """After one iteration with this estimated slope of the criterion with respect to the log of the length."""
        log_length, average, first, second, count = self.numbers.tolist()
        if not math.isfinite(slope):
            return self
        count += 1.0
        first, second = _FAST * first + (1 - _FAST) * slope, _SLOW * second + (1 - _SLOW) * slope**2
        direction = first / (1 - _FAST**count) / (math.sqrt(second / (1 - _SLOW**count)) + 1e-30)
        log_length += _RATE * direction
        weight = count**-_SETTLING
        average = weight * log_length + (1 - weight) * average
        return LengthSearch(torch.tensor([log_length, average, first, second, count]).double())

    def ended(self) -> LengthSearch:
        """The search at rest, at the averaged length."""
        return LengthSearch(self.numbers[[1, 1, 2, 3, 4]])


def chees_slope(before: Tensor, after: Tensor, momentum: Tensor, acceptance: Tensor, length: float) -> float:
    """The slope of the criterion, averaged over chains by their acceptance.

    Args:
        before: z - m, (C, P), white.
        after: z' - m of the proposals.
        momentum: r' of the proposals: dz'/dt.
        acceptance: of the proposals, (C,).
        length: t of this iteration.
    """
    change = torch.linalg.vecdot(after, after) - torch.linalg.vecdot(before, before)
    slopes = length * change * torch.linalg.vecdot(after, momentum)
    weighted = torch.where(acceptance > 0, slopes * acceptance, 0.0).sum() / acceptance.sum().clamp_min(1e-30)
    return float(weighted)


def van_der_corput(index: int) -> float:
    """A number between 0 and 1 for every index, more evenly spread than random ones.

    Example:
        >>> [van_der_corput(i) for i in range(1, 6)]
        [0.5, 0.25, 0.75, 0.125, 0.625]
    """
    value, part = 0.0, 0.5
    while index:
        value += part * (index & 1)
        index, part = index >> 1, 0.5 * part
    return value
