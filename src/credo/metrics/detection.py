"""Is the unknown found? Measures of a score that should be higher for unknown inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from credo.core.checks import check_between
from credo.metrics.inputs import ArrayLike, scores


def aupr(familiar: ArrayLike, unfamiliar: ArrayLike) -> float:
    """Average precision: the precision of the alarm at each unfamiliar input found, averaged over them.

    Inputs with equal scores are found together. Chance is the part of inputs that are unfamiliar.

    Args:
        familiar: scores of inputs like the training data, (B,).
        unfamiliar: scores of other inputs, (B',).

    Examples:
        >>> aupr([0.1, 0.2], [0.15, 0.3])
        0.8333333333333333
    """
    values, positive = _joined(familiar, unfamiliar)
    order = torch.argsort(values, descending=True)
    values, positive = values[order], positive[order]
    found, called = positive.cumsum(0), torch.arange(1, len(values) + 1, device=values.device).double()
    last = torch.ones_like(values, dtype=torch.bool)
    last[:-1] = values[1:] < values[:-1]
    found, called = found[last], called[last]
    new = torch.diff(found, prepend=found.new_zeros(1))
    return float((new * found / called).sum() / positive.sum())


def false_positive_rate(familiar: ArrayLike, unfamiliar: ArrayLike, found: float = 0.95) -> float:
    """The part of the familiar inputs that ring where (at least) this part of the unfamiliar ones does (FPR at 95 %).

    Args:
        familiar: scores of inputs like the training data, (B,).
        unfamiliar: scores of other inputs, (B',).
        found: part of the unfamiliar inputs.

    Examples:
        >>> false_positive_rate([0.1, 0.2, 0.3, 0.4], [0.35, 0.5], found=0.95)
        0.25
    """
    check_between("found", found)
    low, high = scores(familiar, "familiar"), scores(unfamiliar, "unfamiliar")
    needed = min(len(high), max(1, int(torch.ceil(torch.tensor(found * len(high) - 1e-9, dtype=torch.float64)))))
    threshold = high.sort(descending=True).values[needed - 1]
    return float((low >= threshold.to(low.device)).double().mean())


def _joined(familiar: ArrayLike, unfamiliar: ArrayLike) -> tuple[Tensor, Tensor]:
    """All scores, and 1 for those of unfamiliar inputs."""
    low, high = scores(familiar, "familiar"), scores(unfamiliar, "unfamiliar")
    high = high.to(low.device)
    return torch.cat([low, high]), torch.cat([torch.zeros_like(low), torch.ones_like(high)])
