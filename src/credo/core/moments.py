"""Means and standard deviations that are right wherever the numbers lie, of rows at once or part by part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

ROUNDING = 8
"""Units in the last place of the largest number: values no further apart than that differ by rounding alone."""
ENTRIES = 2**22
"""Numbers that are held in float64 at a time."""


@dataclass(frozen=True)
class ColumnMoments:
    """What is known of the columns of N rows, (F,) each, in float64.

    mean = x_1 + mean(x - x_1),   spread^2 = mean((x - mean)^2)

    computed around a value of the column itself, so that a clock that shows 1.7e18 nanoseconds and moves by a
    millisecond has a spread, and a constant column has none.
    """

    count: float  # N, or the total weight of all rows
    mean: Tensor
    spread: Tensor  # standard deviation, of all N
    lowest: Tensor
    highest: Tensor
    resolution: float  # distance of 1 from the next number that the data can hold

    @classmethod
    def of(cls, rows: Tensor, weights: Tensor | None = None) -> ColumnMoments:
        """Of rows (N, F) of real or whole numbers, N >= 1.

        Args:
            rows: the numbers.
            weights: how often each row counts, (N,), all above zero; None for once each.
        """
        resolution = torch.finfo(rows.dtype if rows.is_floating_point() else torch.float64).eps
        size = max(1, ENTRIES // max(1, rows.shape[1]))
        parts = [part.detach() for part in torch.split(rows, size)]
        shares = [None] * len(parts) if weights is None else torch.split(weights.detach(), size)
        return reduce(
            ColumnMoments.joined,
            (
                cls._of_part(part.double(), None if share is None else share.double(), resolution)
                for part, share in zip(parts, shares, strict=True)
            ),
        )

    @classmethod
    def _of_part(cls, x: Tensor, weights: Tensor | None, resolution: float) -> ColumnMoments:
        lowest, highest = x.amin(0), x.amax(0)
        unit = _unit(lowest, highest)
        first = x[0] / unit
        offset = x / unit - first
        if weights is None:
            center = offset.mean(0)
            spread = (offset - center).square().mean(0).sqrt() * unit
            return cls(len(x), (first + center) * unit, spread, lowest, highest, resolution)
        total = weights.sum()
        share = (weights / total).unsqueeze(1)
        center = (offset * share).sum(0)
        spread = ((offset - center).square() * share).sum(0).sqrt() * unit
        return cls(float(total), (first + center) * unit, spread, lowest, highest, resolution)

    def joined(self, other: ColumnMoments) -> ColumnMoments:
        """Of the rows of both.

        Reference: T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing
            sample variances", 1979, http://i.stanford.edu/pub/cstr/reports/cs/tr/79/773/CS-TR-79-773.pdf
        """
        count = self.count + other.count
        here, there = self.count / count, other.count / count
        lowest, highest = self.lowest.minimum(other.lowest), self.highest.maximum(other.highest)
        unit = _unit(lowest, highest)
        apart = other.mean / unit - self.mean / unit
        inside = here * (self.spread / unit).square() + there * (other.spread / unit).square()
        spread = (inside + here * there * apart.square()).sqrt() * unit
        mean = (self.mean / unit + there * apart) * unit
        return ColumnMoments(count, mean, spread, lowest, highest, max(self.resolution, other.resolution))

    @property
    def rounding(self) -> Tensor:
        """How far values may lie apart by rounding alone."""
        return ROUNDING * self.resolution * _unit(self.lowest, self.highest)

    @property
    def constant(self) -> Tensor:
        """Whether a column's values differ by no more than rounding."""
        unit = _unit(self.lowest, self.highest)  # the range may be beyond float64
        return (self.highest / unit - self.lowest / unit <= self.rounding / unit) | (self.spread == 0.0)

    @property
    def scale(self) -> Tensor:
        """What to divide by: the spread; of a constant column one, or its rounding where that is more than one."""
        return torch.where(self.constant, self.rounding.clamp_min(1.0), self.spread)

    @property
    def farthest(self) -> Tensor:
        """Distance of the value farthest from the mean, in standard deviations; zero in a constant column."""
        unit = _unit(self.lowest, self.highest)
        reach = (self.highest / unit - self.mean / unit).maximum(self.mean / unit - self.lowest / unit)
        return torch.where(self.constant, 0.0, reach / (self.scale / unit))


def _unit(lowest: Tensor, highest: Tensor) -> Tensor:
    """The power of two at or below the largest number of each column.

    Dividing by it changes no digit, and keeps squares of huge and tiny numbers within float64.
    """
    largest = lowest.abs().maximum(highest.abs()).cpu().numpy()
    return torch.from_numpy(np.ldexp(1.0, np.clip(np.frexp(largest)[1] - 1, -1000, 1000))).to(lowest.device)
