"""Numbers that say what the eye sees in the figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.experiments.sine.problem import EDGE, NOISE, Problem


@dataclass(frozen=True)
class Measures:
    """One run of one method, in the units of y.

    Attributes:
        rmse: of the mean to the true sine, among the data.
        inside: standard deviation of the drawn functions among the data, averaged over x.
        near: the same in 0.5 < |x| <= 1.0.
        far: the same in 1.0 < |x| <= 1.5.
        outward: share of the steps away from the data at which that standard deviation grows; 1 for a perfect cone.
    """

    rmse: float
    inside: float
    near: float
    far: float
    outward: float

    @property
    def growth(self) -> float:
        """The smaller of near / inside and far / near: above 1 the doubt grows in both steps outward."""
        return min(self.near / self.inside, self.far / self.near)


def measure(problem: Problem, draws: Tensor) -> Measures:
    """The measures of one run, from the outputs of its drawn functions at the grid, (S, 1500)."""
    spread = spread_of(draws)
    error = (draws.mean(0) - problem.truth)[problem.inside].square().mean().sqrt()
    inside, near, far = (float(spread[zone].mean()) for zone in (problem.inside, problem.near, problem.far))
    return Measures(float(error), inside, near, far, _outward(problem, spread))


def spread_of(draws: Tensor) -> Tensor:
    """Standard deviation over the draws, which are the first axis: (S, ...) to (...)."""
    return draws.std(0, correction=0)


def _outward(problem: Problem, spread: Tensor) -> float:
    x = problem.grid.squeeze(1)
    right, left = spread[x > EDGE], spread[x < -EDGE].flip(0)
    steps = torch.cat([right.diff(), left.diff()])
    return float((steps > 0).double().mean())


def coverage(problem: Problem, lower: Tensor, upper: Tensor) -> float:
    """Probability that a new y among the data falls between the ends, (1500,) each; exact, as the noise is known."""
    below_upper, below_lower = (torch.special.ndtr((end - problem.truth) / NOISE) for end in (upper, lower))
    return float((below_upper - below_lower)[problem.inside].mean())


def variation(values: Sequence[float]) -> float:
    """Standard deviation over mean."""
    return statistics.stdev(values) / statistics.fmean(values)
