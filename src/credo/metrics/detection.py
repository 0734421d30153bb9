"""Is the unknown found? Measures of a score that should be higher for unknown inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from credo.core.checks import check_between
from credo.metrics.inputs import ArrayLike, scores
from credo.metrics.weights import or_ones, weights_of_rows


def aupr(
    familiar: ArrayLike,
    unfamiliar: ArrayLike,
    *,
    familiar_weights: ArrayLike | None = None,
    unfamiliar_weights: ArrayLike | None = None,
) -> float:
    """Average precision: the precision of the alarm at each unfamiliar input found, averaged over them.

    Inputs with equal scores are found together. Chance is the part of inputs that are unfamiliar.

    Args:
        familiar: scores of inputs like the training data, (B,).
        unfamiliar: scores of other inputs, (B',).
        familiar_weights: how much each of the familiar ones counts, (B,); None for one each.
        unfamiliar_weights: likewise, (B',).

    Examples:
        >>> aupr([0.1, 0.2], [0.15, 0.3])
        0.8333333333333333
    """
    low, high = scores(familiar, "familiar"), scores(unfamiliar, "unfamiliar")
    values, few, many = (
        torch.cat([low, high.to(low.device)]),
        *_weights(low, high, familiar_weights, unfamiliar_weights),
    )
    order = torch.argsort(values, descending=True)
    values, positive = values[order], torch.cat([torch.zeros_like(few), many])[order]
    found, called = positive.cumsum(0), torch.cat([few, many])[order].cumsum(0)
    last = torch.ones_like(values, dtype=torch.bool)
    last[:-1] = values[1:] < values[:-1]
    found, called = found[last], called[last]
    new = torch.diff(found, prepend=found.new_zeros(1))
    # what weighs nothing finds nothing, and may come before all others
    return float((new * found / called.clamp_min(torch.finfo(called.dtype).tiny)).sum() / positive.sum())


def false_positive_rate(
    familiar: ArrayLike,
    unfamiliar: ArrayLike,
    found: float = 0.95,
    *,
    familiar_weights: ArrayLike | None = None,
    unfamiliar_weights: ArrayLike | None = None,
) -> float:
    """The part of the familiar inputs that ring where (at least) this part of the unfamiliar ones does (FPR at 95 %).

    Args:
        familiar: scores of inputs like the training data, (B,).
        unfamiliar: scores of other inputs, (B',).
        found: part of the unfamiliar inputs.
        familiar_weights: how much each of the familiar ones counts, (B,); None for one each.
        unfamiliar_weights: likewise, (B',).

    Examples:
        >>> false_positive_rate([0.1, 0.2, 0.3, 0.4], [0.35, 0.5], found=0.95)
        0.25
    """
    check_between("found", found)
    low, high = scores(familiar, "familiar"), scores(unfamiliar, "unfamiliar")
    few, many = _weights(low, high, familiar_weights, unfamiliar_weights)
    order = high.argsort(descending=True)
    share = many[order].cumsum(0) / many.sum()
    threshold = high[order[min(len(high) - 1, int((share < found - 1e-9).sum()))]]
    return float((few * (low >= threshold.to(low.device))).sum() / few.sum())


def _weights(low: Tensor, high: Tensor, familiar: ArrayLike | None, unfamiliar: ArrayLike | None) -> list[Tensor]:
    """Of familiar inputs and of others, one each where none are given."""
    names = ((low, familiar, "familiar_weights"), (high, unfamiliar, "unfamiliar_weights"))
    return [or_ones(weights_of_rows(given, rows, rows, name), rows).to(low.device) for rows, given, name in names]
