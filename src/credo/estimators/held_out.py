"""Rows that are kept away from training, and what they say about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.data.splits import folds, split
from credo.loop.batches import PerMember
from credo.model import Batch, Target
from credo.posteriors import Posterior

DOUBT = 0.01
"""Part of a prediction that knows nothing, which is mixed in where held-out rows are scored: without it, a single row
that a network is wrongly sure of outweighs all others."""
NAIVE_SCALE = 3.0
"""Standard deviation of that prediction for standardised numbers."""
LARGEST_COPY = 5 * 10**7
"""Entries of x that may be copied so that each member has its own rows; beyond, all share one held-out part."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows to train on and rows to look at.

    Attributes:
        data: to train on, for each network its own or for all the same.
        batch: to look at, likewise.
        naive: log density of the targets to look at for who knows nothing.
        rows: number of rows that each network trains on.
    """

    data: PerMember | tuple[Tensor, Tensor]
    batch: Batch
    naive: Tensor
    rows: int

    @torch.no_grad()
    def score(self, posterior: Posterior) -> float:
        """Mean of log((1 - DOUBT) p(y) + DOUBT naive(y)) over the rows that each network has not seen."""
        variables = posterior.point()
        moved = Batch(self.batch.x.to(variables.device), self.batch.y.to(variables.device), self.batch.own)
        each = Target(posterior.model, moved.examples).log_likelihood(variables, moved).double().cpu()
        return float(torch.logaddexp(each + math.log1p(-DOUBT), self.naive.double() + math.log(DOUBT)).mean())


def hold_out(x: Tensor, y: Tensor, lanes: int, seed: int) -> HeldOut:
    """A part of the rows for each network, so that every row has a say; of a large table, one tenth for all.

    Args:
        x: inputs, (N, F).
        y: standardised targets (N, D), or class numbers (N,), of which each part has its share.
        lanes: number of networks.
        seed: of the choice.
    """
    classes, naive = None if y.is_floating_point() else y.numpy(), _naive(y)
    if x.numel() * lanes <= LARGEST_COPY:
        parts = folds(len(x), lanes, seed=seed, classes=classes)
        kept, held = torch.from_numpy(parts.kept), torch.from_numpy(parts.held)
        return HeldOut(PerMember(x[kept], y[kept]), Batch(x[held], y[held], own=True), naive[held], kept.shape[1])
    part = split(len(x), test=0.1, seed=seed, classes=classes)
    kept, held = torch.from_numpy(part.train), torch.from_numpy(part.test)
    return HeldOut((x[kept], y[kept]), Batch(x[held], y[held]), naive[held], len(kept))


def _naive(y: Tensor) -> Tensor:
    """Log density of each target, (N,): a wide normal distribution, or every class alike."""
    if y.is_floating_point():
        return (-0.5 * (y / NAIVE_SCALE).square() - math.log(NAIVE_SCALE * math.sqrt(2 * math.pi))).sum(1)
    return torch.full((len(y),), -math.log(int(y.max()) + 1))
