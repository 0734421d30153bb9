"""Is a row of a table within what was learned from? Doubt, distance, and what no row had before, in one score."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.uncertainty.familiarity import RATE

KNOWN = 2000
"""Training rows that are kept to measure distances to, at most."""
JUDGES = 4000
"""Training rows that say what is usual, at most."""
SLICE = 2**21
"""Distances at a time."""
LEAST_BEYOND = 0.5
"""Standard deviations beyond all known numbers that are usual, at least."""
LEAST_NOVELTY = 1.0
"""Novelty that is usual, at least."""


@dataclass(frozen=True, eq=False)
class Support:
    """What was learned from, and how far from it ordinary rows lie.

    unfamiliarity = max(disagreement / u_1, distance / u_2, beyond / u_3, novelty / u_4) / threshold

    distance is that to the nearest known row, beyond how many standard deviations a number lies outside of all known
    ones, at most over columns, and novelty how improbable a category is that no row had. The units u are what one
    ordinary row in a hundred exceeds, and so is the threshold of their largest. Ordinary rows are training rows, each
    looked at as if it were new: by the networks that were not trained on it, and compared with the other rows.

    Attributes:
        known: inputs of some training rows, divided by `scale`, (n, F).
        scale: what inputs are divided by, (F,).
        lowest: of all training rows, (F,); minus infinity for features that are no numbers.
        highest: likewise; infinity for others.
        spread: standard deviation, (F,).
        units: of disagreement, distance, beyond and novelty, (4,); infinite for what says nothing here.
        threshold: above which a row is unfamiliar, ().
        judged: how many training rows say what is usual, ().
    """

    known: Tensor
    scale: Tensor
    lowest: Tensor
    highest: Tensor
    spread: Tensor
    units: Tensor
    threshold: Tensor
    judged: Tensor

    def __post_init__(self) -> None:
        columns = {len(t) for t in (self.scale, self.lowest, self.highest, self.spread)}
        if self.known.ndim != 2 or columns != {self.known.shape[1]} or self.units.shape != (4,):
            raise ValueError("the support of a table holds tensors of shapes that do not belong together")
        if bool((self.units <= 0).any()) or not float(self.threshold) > 0.0:
            raise ValueError("the units and the threshold of a support must be above zero")

    @staticmethod
    def of(
        x: Tensor,
        numeric: Tensor,
        scale: Tensor,
        rows: Tensor,
        disagreement: Tensor | None,
        novelty: Tensor,
        *,
        rate: float = RATE,
        seed: int = 0,
    ) -> Support:
        """From the training rows.

        Args:
            x: inputs of all of them, (N, F).
            numeric: which features are numbers, (F,), beyond whose range one can be.
            scale: what features are divided by for distances, (F,).
            rows: numbers of those that some networks have not seen, (n,).
            disagreement: of these networks there, (n,); None where it says nothing.
            novelty: of categories of all rows, each compared with the other rows, (N,).
            rate: of false alarms.
            seed: of the rows that are kept.
        """
        values = x.double()
        order = torch.randperm(len(values), generator=Stream(seed, ("support",)).generator())
        kept = torch.zeros(len(values), dtype=torch.bool).scatter(0, order[:KNOWN], True)
        ordered = values.sort(0).values
        low, high, infinity = ordered[0], ordered[-1], torch.full((), math.inf, dtype=torch.float64)
        support = Support(
            (values / scale)[kept].float(),
            scale.double(),
            torch.where(numeric, low, -infinity),
            torch.where(numeric, high, infinity),
            _positive(values.std(0)),
            torch.ones(4, dtype=torch.float64),
            torch.ones((), dtype=torch.float64),
            torch.tensor(len(rows)),
        )
        judges = rows if len(values) <= KNOWN else rows[~kept[rows]]
        chosen = torch.linspace(0, len(judges) - 1, min(len(judges), JUDGES)).round().long()
        judges = judges[chosen]
        own = torch.where(kept, kept.cumsum(0) - 1, -1)[judges]
        place = torch.full((len(values),), -1).scatter(0, rows, torch.arange(len(rows)))[judges]
        parts = torch.stack(
            [
                torch.zeros(len(judges), dtype=torch.float64) if disagreement is None else disagreement.double()[place],
                support._distance(values[judges], own),
                support._beyond(values[judges], ordered[1], ordered[-2]) if len(values) > 1 else novelty[judges] * 0.0,
                novelty.double()[judges],
            ]
        )
        return support._judged_by(parts, disagreement is not None, rate)

    def _judged_by(self, parts: Tensor, disagree: bool, rate: float) -> Support:
        place = min(parts.shape[1], math.ceil((parts.shape[1] + 1) * (1.0 - rate))) - 1
        units = parts.sort(1).values[:, place]
        least = torch.tensor([0.0, 0.0, LEAST_BEYOND, LEAST_NOVELTY], dtype=torch.float64)
        units = units.maximum(least)
        # networks that never disagree, or rows that all come twice, say nothing by it
        units = torch.where((units > 0.0) & torch.tensor([disagree, True, True, True]), units, math.inf)
        threshold = (parts / units.unsqueeze(1)).amax(0).sort().values[place]
        return Support(
            self.known,
            self.scale,
            self.lowest,
            self.highest,
            self.spread,
            units,
            threshold if threshold > 0.0 else torch.ones((), dtype=torch.float64),
            torch.tensor(parts.shape[1]),
        )

    def score(self, x: Tensor, disagreement: Tensor, novelty: Tensor) -> Tensor:
        """How unlike the training rows these are, (B,): above 1 a row is unfamiliar.

        Args:
            x: inputs, (B, F).
            disagreement: of the posterior there, (B,).
            novelty: of their categories, (B,).
        """
        values = x.double()
        nobody = torch.full((len(values),), -1)
        beyond = self._beyond(values, self.lowest, self.highest)
        parts = torch.stack([disagreement.double(), self._distance(values, nobody), beyond, novelty.double()])
        return (parts / self.units.unsqueeze(1)).amax(0) / self.threshold

    def _distance(self, x: Tensor, own: Tensor) -> Tensor:
        """To the nearest known row but the own one, whose number is -1 for rows that are none of them, (B,)."""
        known, found = self.known.double(), []
        size = max(1, SLICE // len(known))
        for part, mine in zip(*(torch.split(t, size) for t in (x / self.scale, own)), strict=True):
            apart = torch.cdist(part, known, compute_mode="donot_use_mm_for_euclid_dist")
            rows = (mine >= 0).nonzero()[:, 0]
            apart[rows, mine[rows]] = math.inf
            found.append(apart.amin(1))
        return torch.cat(found)

    def _beyond(self, x: Tensor, second_lowest: Tensor, second_highest: Tensor) -> Tensor:
        """Standard deviations outside of all numbers; of a row that is the end itself outside of the others, (B,)."""
        low = torch.where(x <= self.lowest, second_lowest, self.lowest)
        high = torch.where(x >= self.highest, second_highest, self.highest)
        apart = torch.maximum(low - x, x - high) / self.spread
        return torch.where(self.highest.isinf(), 0.0, apart).clamp_min(0.0).amax(1)


def _positive(spread: Tensor) -> Tensor:
    """A constant feature is as wide as one standard deviation of the others."""
    return torch.where(spread > 1e-9, spread, 1.0)
