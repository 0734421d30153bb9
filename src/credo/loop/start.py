"""Weights to begin with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from credo.core.trees import Params, Variables
from credo.model import OWN
from credo.posteriors import Posterior

Start = Posterior | nn.Module | Params


def start_tensors(start: Any, members: int) -> Params:
    """The given weights and buffers by name, with a member axis or without.

    Args:
        start: a posterior, whose members are dealt in turn; a module; or tensors by name.
        members: M, of the run that begins.
    """
    if isinstance(start, Posterior):
        point = start.point()
        dealt = point.take(torch.arange(members) % point.members)
        return {**dealt.params, **dealt.buffers}
    if isinstance(start, nn.Module):
        return start_tensors({**dict(start.named_parameters()), **dict(start.named_buffers())}, members)
    if not isinstance(start, dict) or not all(isinstance(value, Tensor) for value in start.values()):
        raise TypeError(f"start must be a posterior, a module or a dict of tensors by name, got {type(start).__name__}")
    return {name: value.detach() for name, value in start.items()}


def started(fresh: Variables, given: Params, module: nn.Module) -> Variables:
    """Fresh weights, overwritten by the given ones.

    Every parameter of the network must be given; buffers and the likelihood's own parameters may be missing. A tensor
    that the network does not have is refused.
    """
    known = {**fresh.params, **fresh.buffers}
    second_names = module.state_dict().keys()  # of tied weights
    wide = {name: _wide(name, value, known[name]) for name, value in given.items() if name in known}
    strangers = [n for n in given if n not in known and n not in second_names and not n.startswith(OWN)]
    missing = [n for n in fresh.params if n not in wide and not n.startswith(OWN)]
    if strangers or missing:
        which = f"the network has no {strangers[0]!r}" if strangers else f"parameter {missing[0]!r} is missing"
        raise ValueError(f"start does not fit the network: {which}")
    return Variables(
        {name: wide.get(name, value) for name, value in fresh.params.items()},
        {name: wide.get(name, value) for name, value in fresh.buffers.items()},
    )


def _wide(name: str, value: Tensor, like: Tensor) -> Tensor:
    if value.shape not in (like.shape, like.shape[1:]):
        raise ValueError(
            f"start does not fit the network: {name!r} has shape {tuple(value.shape)}, and the network needs "
            f"{tuple(like.shape[1:])}"
        )
    return value.to(like).expand(like.shape).clone()
