"""Gradient checkpointing: parts of a forward pass that are computed a second time when gradients are asked for.

`torch.utils.checkpoint` calls a part of the module again during the backward pass, when the weights that a functional
call has put in are gone. So such a module is called as a copy that holds its weights for good, and its dropout reads
torch's generator, which torch puts back for the second time.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from enum import IntEnum
from itertools import chain
from types import CodeType, FrameType
from typing import Any

from torch import Tensor, nn
from torch.utils import checkpoint

_FILE = checkpoint.__file__
_REENTRANT = checkpoint.CheckpointFunction.forward.__code__


class Checkpointing(IntEnum):
    """How a forward pass is checkpointed."""

    NONE = 0
    REPEATED = 1
    REENTRANT = 2


def checkpointing_of(frame: FrameType | None, outermost: CodeType) -> Checkpointing:
    """Whether a function is called inside a part that is checkpointed, by the frames above it."""
    found = Checkpointing.NONE
    while frame is not None and frame.f_code is not outermost:
        if frame.f_code is _REENTRANT:
            return Checkpointing.REENTRANT
        if frame.f_code.co_filename == _FILE:
            found = Checkpointing.REPEATED
        frame = frame.f_back
    return found


def refuse_reentrant(found: Checkpointing) -> None:
    if found is Checkpointing.REENTRANT:
        raise ValueError(
            "the network is checkpointed with use_reentrant=True, which has gradients for a module's own weights only: "
            "call torch.utils.checkpoint.checkpoint(..., use_reentrant=False)"
        )


def refuse_changes(*, changed: bool) -> None:
    """The second pass knows nothing of what else the first was given."""
    if changed:
        raise ValueError(
            "the network has gradient checkpointing, whose second pass would drop at the module's own rates, or "
            "without what this method does to its layers: switch checkpointing off for it"
        )


def without_reentrant(module: nn.Module) -> None:
    """Have checkpoint functions that the parts of a module hold as attributes work without reentrance, in place."""
    for part in module.modules():
        for name, value in vars(part).items():
            if getattr(value, "func", None) is checkpoint.checkpoint:
                vars(part)[name] = type(value)(value.func, *value.args, **{**value.keywords, "use_reentrant": False})


def holding(skeleton: nn.Module, named: Mapping[str, Tensor]) -> nn.Module:
    """A copy of a module whose parameters and buffers are these very tensors."""
    parameters = skeleton.named_parameters(remove_duplicate=False)
    places = dict(chain(parameters, skeleton.named_buffers(remove_duplicate=False)))
    memo: dict[int, Any] = {id(places[name]): t for name, t in named.items()}
    return copy.deepcopy(skeleton, memo)
