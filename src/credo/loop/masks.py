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


def masked(y: Any, mask: Any, prefix: str = "") -> Any:
    """Targets with NaN, or a number that is no class, where the mask says no.

    Args:
        y: targets (B, *positions), or with an axis of channels; or several by name.
        mask: yes or no for each position, or 1 and 0, (B, *positions); of targets with names a dict, where (B,) says
            which examples have a target of that name.
        prefix: of the names, for sentences.
    """
    if isinstance(y, Mapping):
        return _masked_heads(y, mask, prefix)
    if isinstance(mask, Mapping):
        raise ValueError(f"the {prefix}mask has names, {', '.join(map(repr, mask))}, and {prefix}y has none")
    return _masked(tensor(y, f"{prefix}y"), _yes_or_no(mask, prefix), prefix)


def _masked_heads(y: Mapping[Any, Any], mask: Any, prefix: str) -> dict[Any, Any]:
    """Targets with names, each with a mask of its own or with none."""
    if not isinstance(mask, Mapping):
        raise ValueError(
            f"the {prefix}mask is for one target, and there are several by name: give a dict, such as "
            f"mask={{{next(iter(y))!r}: ...}}, or write -100 (classes) or NaN (numbers) into them"
        )
    for name in mask:
        if name not in y:
            raise ValueError(f"there is a {prefix}mask for {name!r}, and {prefix}y has {', '.join(map(repr, y))}")
    found = dict(y)
    for name in mask:
        targets, kept = tensor(y[name], f"{prefix}y[{name!r}]"), _yes_or_no(mask[name], prefix)
        of_examples = kept.ndim == 1 and kept.shape == targets.shape[:1]
        found[name] = only_where(targets, kept) if of_examples else _masked(targets, kept, prefix)
    return found


def only_where(targets: Tensor, kept: Tensor) -> Tensor:
    """Targets (B, ...), or (M, B, ...), without those of examples, (B,) or (M, B), that are not to be kept."""
    kept = kept.to(targets.device)
    return targets if bool(kept.all()) else _written(targets, kept.view(*kept.shape, *[1] * (targets.ndim - kept.ndim)))


def _masked(targets: Tensor, kept: Tensor, prefix: str) -> Tensor:
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
    return _written(targets, fitting[0])


def _written(targets: Tensor, kept: Tensor) -> Tensor:
    if targets.is_floating_point():
        return torch.where(kept, targets, torch.nan)
    return torch.where(kept, targets.long(), MASKED)


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
