"""A mask of positions, written into the targets: what was not observed is no number and no class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from credo.core.arrays import tensor
from credo.likelihoods.positions import MASKED

NOTHING_OBSERVED = "{} is masked at all positions of all examples: there is nothing to compare with"


def any_observed(observed: Tensor | None) -> bool:
    """Whether anything was observed; None stands for everything."""
    return observed is None or bool(observed.any())


def masked(y: Any, mask: Any, prefix: str = "") -> Tensor:
    """Targets with NaN, or a number that is no class, where the mask says no.

    Args:
        y: targets (B, *positions), or with an axis of channels.
        mask: yes or no for each position, or 1 and 0, (B, *positions).
        prefix: of the names, for sentences.
    """
    if isinstance(y, Mapping):
        raise ValueError(
            "a mask is for one target, and there are several by name: write -100 (classes) or NaN (numbers) into them"
        )
    targets, kept = tensor(y, f"{prefix}y"), _yes_or_no(mask, prefix)
    if kept.ndim < 2:
        raise ValueError(
            f"the {prefix}mask has shape {tuple(kept.shape)}: it says which positions were observed, (B, positions); "
            "an example that does not count has the weight 0, fit(..., weights=...)"
        )
    fitting = _fitting(kept, targets.shape)
    if len(fitting) != 1:
        more = "more than one axis of y could be that of its channels: give it in the shape of y"
        raise ValueError(
            f"the {prefix}mask has shape {tuple(kept.shape)} and {prefix}y {tuple(targets.shape)}: "
            + (more if fitting else "it needs yes or no for each position of y")
        )
    if targets.is_floating_point():
        return torch.where(fitting[0], targets, torch.nan)
    return torch.where(fitting[0], targets.long(), MASKED)


def _yes_or_no(mask: Any, prefix: str) -> Tensor:
    kept = tensor(mask, f"the {prefix}mask")
    if not bool(((kept == 0) | (kept == 1)).all()):
        raise ValueError(f"the {prefix}mask holds other values than yes and no, or 1 and 0")
    return kept.bool()


def _fitting(kept: Tensor, shape: torch.Size) -> list[Tensor]:
    """The mask as it fits targets of this shape, once for each axis that could be that of channels."""
    if kept.ndim == len(shape) and all(m in (1, n) for m, n in zip(kept.shape[1:], shape[1:], strict=True)):
        return [kept] if kept.shape[0] == shape[0] else []
    if kept.ndim == len(shape) + 1:
        squeezed = [kept.squeeze(axis) for axis in range(1, kept.ndim) if kept.shape[axis] == 1]
        return [each for each in squeezed if each.shape == shape][:1]
    axes = [a for a in range(1, len(shape)) if (*shape[:a], *shape[a + 1 :]) == tuple(kept.shape)]
    return [kept.unsqueeze(axis) for axis in axes]
