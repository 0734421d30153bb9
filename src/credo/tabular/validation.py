"""Validation rows: kept away from training, they say when to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from credo.data.splits import Index, folds, split
from credo.likelihoods import Likelihood, LogNormal, NegativeBinomial, Standardized
from credo.loop.roles import PerMember
from credo.model import Batch, Target
from credo.posteriors import Posterior

NAIVE_SHARE = 0.01
"""Part of a prediction that ignores the inputs, mixed in where validation rows are scored: without it, a single row of
which a network is wrongly sure outweighs all others."""
NAIVE_SCALE = 3.0
"""Standard deviation of that prediction for standardized numbers."""
HELD_OUT = 0.2
"""Part of the rows that each network is not trained on, if there are five networks or more: ten networks then are two
for every row that have not seen it, which shows what an average of several is better by than one."""
LARGEST_COPY = 5 * 10**7
"""Entries of x that may be copied so that each member has its own rows; beyond, all share one validation part."""


@dataclass(frozen=True, eq=False)
class ValidationRows:
    """Rows to train on and rows to validate on.

    Attributes:
        data: to train on, for each network its own or for all the same.
        batch: to validate on, likewise.
        naive: log density of the validation targets for a prediction that ignores the inputs.
        rows: number of rows that each network trains on.
        unseen: which network is not trained on which row, (M, N); None where that is not known.
    """

    data: PerMember | tuple[Tensor, ...]
    batch: Batch
    naive: Tensor
    rows: int
    unseen: Tensor | None = None

    @torch.no_grad()
    def score(self, posterior: Posterior) -> float:
        """Mean of log((1 - NAIVE_SHARE) p(y) + NAIVE_SHARE naive(y)) over the rows that each network has not seen.

        By the weights of the rows, where they have some.
        """
        mixed = self.each(posterior)
        if self.batch.weight is None:
            return float(mixed.mean())
        weights = self.batch.weight.double().expand_as(mixed)
        return float((mixed * weights).sum() / weights.sum())

    @torch.no_grad()
    def each(self, posterior: Posterior) -> Tensor:
        """log((1 - NAIVE_SHARE) p(y) + NAIVE_SHARE naive(y)) of each row under each network, (M, H)."""
        variables = posterior.members()
        moved = Batch(self.batch.x.to(variables.device), self.batch.y.to(variables.device), self.batch.per_member)
        each = Target(posterior.model, moved.examples).log_likelihood(variables, moved).double().cpu()
        return torch.logaddexp(each + math.log1p(-NAIVE_SHARE), self.naive.double() + math.log(NAIVE_SHARE))

    @torch.no_grad()
    def by_row(self, posterior: Posterior) -> Tensor:
        """The same for each of the N rows, (N,), averaged over networks that are not trained on it; NaN without one."""
        each, unseen = self.each(posterior), self.unseen
        assert unseen is not None
        total = torch.zeros(unseen.shape, dtype=each.dtype)
        total[unseen] = each.expand(len(unseen), -1).flatten()  # rows lie in their order on either side
        return total.sum(0) / unseen.sum(0)


def hold_out(
    x: Tensor,
    y: Tensor,
    networks: int,
    seed: int,
    *,
    likelihood: Likelihood | None = None,
    weights: Tensor | None = None,
    groups: Index | None = None,
) -> ValidationRows:
    """A part of the rows for each network, so that every row has a say; of a large table, one tenth for all.

    The rows are cut into as many parts as there are networks, and each network lacks `HELD_OUT` of them, as nearly as
    that goes: those that begin with its own. Every row is so held out from the same number of networks.

    Args:
        x: inputs, (N, F).
        y: targets (N, D), standardized by the likelihood or before, or class numbers (N,), of which each part has its
            share.
        networks: number of networks.
        seed: of the choice.
        likelihood: of the targets.
        weights: how much each row counts, (N,), all above zero; None for one each.
        groups: number of the group of each row, (N,): no network validates on a group that it trains on.
    """
    classes, naive = None if y.is_floating_point() else y.numpy(), naive_log_prob(y, likelihood)
    if x.numel() * networks <= LARGEST_COPY:
        if groups is None:
            parts = folds(len(x), networks, seed=seed, classes=classes)
            train, held = _joined(torch.from_numpy(parts.held), held_out_parts(networks), len(x))
        else:
            parts = folds(len(x), networks, seed=seed, groups=groups, joined=held_out_parts(networks))
            train, held = torch.from_numpy(parts.kept), torch.from_numpy(parts.held)
        mine, others = (None, None) if weights is None else (weights[train], weights[held])
        return ValidationRows(
            PerMember(x[train], y[train], mine),
            Batch(x[held], y[held], per_member=True, weight=others),
            naive[held],
            train.shape[1],
            _unseen(held, networks, len(x)),
        )
    part = split(len(x), test=0.1, seed=seed, classes=classes, groups=groups)
    train, held = torch.from_numpy(part.train), torch.from_numpy(part.test)
    weight = None if weights is None else weights[held]
    data = tuple(values[train] for values in (x, y, weights) if values is not None)
    unseen = _unseen(held.expand(networks, -1), networks, len(x))
    return ValidationRows(data, Batch(x[held], y[held], weight=weight), naive[held], len(train), unseen)


def held_out_parts(networks: int) -> int:
    """How many of as many parts as there are networks each of them lacks."""
    return max(1, round(HELD_OUT * networks))


def _joined(parts: Tensor, count: int, rows: int) -> tuple[Tensor, Tensor]:
    """The rows that each network is trained on, and those that it is not: `count` of the parts (M, H), in a circle."""
    held = torch.cat([parts.roll(-shift, 0) for shift in range(count)], 1).sort(1).values
    unseen = _unseen(held, len(parts), rows)
    return (~unseen).nonzero()[:, 1].view(len(parts), -1), held


def _unseen(held: Tensor, networks: int, rows: int) -> Tensor:
    """Row numbers (M, H) as yes or no for each network and row, (M, N)."""
    return torch.zeros(networks, rows, dtype=torch.bool).scatter(1, held, True)


def naive_log_prob(y: Tensor, likelihood: Likelihood | None) -> Tensor:
    """Log density of each target, (N,), in its units: a wide distribution of its kind, or every class alike."""
    if isinstance(likelihood, Standardized):
        return _naive(likelihood.standardize(y, y)) - likelihood.log_volume
    if isinstance(likelihood, LogNormal):
        logs = y.double().log()
        each = _naive((logs - likelihood.loc) / likelihood.scale)
        return each - (logs + math.log(likelihood.scale)).sum(1)
    if isinstance(likelihood, NegativeBinomial):
        outputs = torch.tensor([0.0, NAIVE_SCALE], dtype=torch.float64).expand(len(y), 2)
        return likelihood.log_prob(outputs, y, {})
    return _naive(y)


def _naive(y: Tensor) -> Tensor:
    """Log density of each standardized target, (N,): a wide normal distribution, or every class alike."""
    if y.is_floating_point():
        return (-0.5 * (y / NAIVE_SCALE).square() - math.log(NAIVE_SCALE * math.sqrt(2 * math.pi))).sum(1)
    return torch.full((len(y),), -math.log(int(y.max()) + 1))
