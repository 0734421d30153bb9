"""The size of a leapfrog step, learnt in the course of warm-up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

_STABILITY = 10.0
"""t_0: how much the first iterations are damped."""
_SHRINKAGE = 0.05
"""gamma: how strongly the step is drawn back to its centre."""
_FORGETTING = 0.75
"""kappa: how fast early steps lose their weight in the average."""


@dataclass(frozen=True)
class DualAveraging:
    """The state of a search for the step size at which trajectories are accepted as often as wished.

    Numbers are 64-bit scalars on the CPU, since only Python looks at them.

    Attributes:
        numbers: log step, its average, the average error, the centre mu and the count t, (5,).

    Reference: M. Hoffman, A. Gelman, "The No-U-Turn sampler", 2014, section 3.2, https://arxiv.org/abs/1111.4246
    """

    numbers: Tensor

    @staticmethod
    def around(step: float) -> DualAveraging:
        """A fresh search, which tries steps up to ten times as long as this one."""
        log_step = math.log(step)
        return DualAveraging(torch.tensor([log_step, log_step, 0.0, log_step + math.log(10.0), 0.0]).double())

    @property
    def step(self) -> float:
        """The step to try next."""
        return math.exp(self.numbers[0])

    @property
    def settled(self) -> float:
        """The averaged step, for when the search is over."""
        return math.exp(self.numbers[1])

    def updated(self, acceptance: float, wished: float) -> DualAveraging:
        """The search after one more iteration, eq. 6 of the paper.

        Args:
            acceptance: mean acceptance probability of the iteration, all chains together.
            wished: delta, the acceptance to be reached.
        """
        _, log_average, error, centre, count = self.numbers.tolist()
        count += 1.0
        weight = 1.0 / (count + _STABILITY)
        error = (1.0 - weight) * error + weight * (wished - acceptance)
        log_step = centre - math.sqrt(count) / _SHRINKAGE * error
        weight = count**-_FORGETTING
        log_average = weight * log_step + (1.0 - weight) * log_average
        return DualAveraging(torch.tensor([log_step, log_average, error, centre, count]).double())

    def ended(self) -> DualAveraging:
        """The search at rest: the step to try is the averaged one."""
        return DualAveraging(self.numbers[[1, 1, 2, 3, 4]])


def plausible_step(acceptance: Callable[[float], float], step: float, wished: float) -> float:
    """A first step: doubled or halved until the acceptance of one leapfrog step crosses what is wished.

    Args:
        acceptance: mean acceptance probability of a leapfrog step of this size.
        step: where to begin.
        wished: the acceptance to be reached.
    """
    longer = acceptance(step) > wished
    for _ in range(60):
        following = 2.0 * step if longer else 0.5 * step
        if (acceptance(following) > wished) is not longer:
            return step if longer else following
        step = following
    return step
