"""Order statistics that hold what they promise for one more example: the heart of conformal prediction."""

from __future__ import annotations

import torch
from torch import Tensor

MOST = 50_000
"""Scores that are kept: those of all pixels of all images would be larger than the network."""


def in_order(scores: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (n, D) sorted along n, with their weights (n,) in that order, (n, D); what weighs nothing is left out."""
    if bool(scores.isnan().any()):
        raise ValueError("the predictions hold NaN: there is no saying how wrong they were")
    counts = weights > 0
    ordered = scores[counts].sort(0)
    return ordered.values, weights[counts][ordered.indices]


def rounded(scores: Tensor, weights: Tensor, most: int = MOST) -> tuple[Tensor, Tensor]:
    """The same with fewer scores, each rounded up to one that is kept: no promise is lost by it.

    Of n sorted scores (n, D) the last of each of `most` runs stays, with the weight of its run.
    """
    if len(scores) <= most:
        return scores, weights
    ends = torch.linspace(0, len(scores), most + 1, dtype=torch.float64, device=scores.device).round().long()[1:] - 1
    return scores[ends], weights.cumsum(0)[ends].diff(dim=0, prepend=weights.new_zeros(1, weights.shape[1]))


def guaranteed(scores: Tensor, weights: Tensor, level: float) -> Tensor:
    """The score that one more exchangeable example exceeds with a probability of 1 - level at most, (D,).

    The k-th smallest of n, k = ceil((n + 1) level); infinite where k > n. A weight of two is a repeated example.

    Args:
        scores: sorted, (n, D).
        weights: in the same order, (n, D).
        level: between 0 and 1.
    """
    needed = (weights.sum(0) + 1.0) * level
    enough = weights.cumsum(0) >= needed - 1e-9
    place = torch.where(enough.any(0), enough.int().argmax(0), len(scores) - 1)
    return torch.where(enough.any(0), scores.gather(0, place.unsqueeze(0)).squeeze(0), torch.inf)


def check_scores(name: str, scores: Tensor, weights: Tensor) -> None:
    """Refuse scores and weights, from a file, that cannot be."""
    if scores.ndim != 2 or len(scores) == 0 or weights.shape != scores.shape:
        raise ValueError(f"{name} holds scores {tuple(scores.shape)} and weights {tuple(weights.shape)}, not (n, D)")
    if bool(scores.isnan().any()) or bool((scores.diff(dim=0) < 0).any()):
        raise ValueError(f"the scores of {name} are not in order")
    if not bool((weights.isfinite() & (weights > 0)).all()):
        raise ValueError(f"the weights of {name} are not positive numbers")
