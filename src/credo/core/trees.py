"""Trees of tensors: `Params`, and the flat names under which a method's state goes to disk."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

Params = dict[str, Tensor]
"""Tensors by the names of `module.named_parameters()`. With M members every tensor has a leading axis of M."""

ValueT = TypeVar("ValueT")


@dataclasses.dataclass(frozen=True)
class ParameterInfo:
    """What a prior may know of one parameter: its shape without member axis, and how many inputs feed one output."""

    shape: tuple[int, ...]
    fan_in: int


Layout = Mapping[str, ParameterInfo]


@dataclasses.dataclass(frozen=True)
class Variables:
    """What a network computes with: the parameters, and the tensors that are not inferred.

    Attributes:
        params: inferred tensors, (M, *shape) each; learned noise of the likelihood under `likelihood.*`.
        buffers: running statistics of batch norm, frozen parameters and the like, (M, *shape) each.
    """

    params: Params
    buffers: Params = dataclasses.field(default_factory=dict)

    @property
    def members(self) -> int:
        """M, the length of the leading axis."""
        return members_of(self.params or self.buffers)

    @property
    def device(self) -> torch.device:
        return next(iter((self.params or self.buffers).values())).device

    def to(self, device: torch.device | str) -> Variables:
        return move(self, device)

    def take(self, index: Tensor | Sequence[int]) -> Variables:
        """The members with these numbers; a number may come several times."""
        return Variables(take(self.params, index), take(self.buffers, index))

    def repeat(self, members: int) -> Variables:
        """One member, `members` times."""
        return self.take([0] * members)

    @staticmethod
    def stack(items: Sequence[Variables]) -> Variables:
        """Members side by side along the leading axis."""
        return Variables(concatenate([v.params for v in items]), concatenate([v.buffers for v in items]))


def members_of(tree: Params) -> int:
    return int(next(iter(tree.values())).shape[0]) if tree else 1


def finite_members(tree: Params) -> Tensor:
    """Whether all numbers of a member are finite, (M,)."""
    return torch.stack([t.isfinite().unsqueeze(-1).flatten(1).all(1) for t in tree.values()]).all(0)


def take(tree: Params, index: Tensor | Sequence[int]) -> Params:
    chosen = torch.as_tensor(index)
    return {name: t[chosen.to(t.device)] for name, t in tree.items()}


def concatenate(trees: Sequence[Params]) -> Params:
    return {name: torch.cat([tree[name] for tree in trees]) for name in trees[0]}


def unbind(tree: Params, members: int) -> list[Params]:
    """One tree per member; cheap to differentiate through, since the backward of `unbind` is one `stack`."""
    columns = {name: t.unbind(0) for name, t in tree.items()}
    return [{name: column[m] for name, column in columns.items()} for m in range(members)]


def weighted_squares(tensors: Sequence[Tensor], coefficients: Sequence[float]) -> Tensor:
    """sum_t c_t sum_i t_i^2 for each member, (M,), of tensors (M, *shape)."""
    # one tensor after the other: backward comes to the end of one before it begins with the next
    flat = (t.unsqueeze(-1).flatten(1) for t in tensors)
    return torch.stack([_squares(t) * c for t, c in zip(flat, coefficients, strict=True)]).sum(0)


LARGE = 2**20
"""Entries of a tensor from which on memory counts for more than the time of a call."""


def _squares(t: Tensor) -> Tensor:
    """sum_i t_i^2 of each row of (M, P)."""
    found: Tensor = torch.linalg.vecdot(t, t) if t.numel() < LARGE else _Squares.apply(t)  # type: ignore[no-untyped-call]
    return found


class _Squares(torch.autograd.Function):
    """The same, whose gradient 2 t takes the memory of t and not twice as much on its way."""

    generate_vmap_rule = True

    @staticmethod
    def forward(t: Tensor) -> Tensor:
        return torch.linalg.vecdot(t, t)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        (t,) = inputs
        ctx.save_for_backward(t)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (t,) = ctx.saved_tensors
        return t * (2.0 * gradients[0]).unsqueeze(-1)


def ravel(tree: Params) -> Tensor:
    """All tensors side by side: (M, P)."""
    return torch.cat([t.unsqueeze(-1).flatten(1) for t in tree.values()], dim=1)


def unravel(flat: Tensor, layout: Layout) -> Params:
    """The inverse of `ravel`: (M, P) cut into (M, *shape) in the order of the layout."""
    parts = torch.split(flat, [math.prod(info.shape) for info in layout.values()], dim=1)
    return {n: part.reshape(len(flat), *info.shape) for (n, info), part in zip(layout.items(), parts, strict=True)}


def flatten(value: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every tensor inside nested dataclasses, dicts and lists, by a dotted path."""
    return dict(_walk(value, prefix))


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors among arguments and results: in lists, tuples and dicts, one in the other."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(tuple(value.values()))


def _walk(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
        return
    for name, item in _children(value):
        yield from _walk(item, f"{path}/{name}" if path else name)


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        yield from ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
    elif isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from ((str(i), item) for i, item in enumerate(value))


def map_tensors(transform: Callable[[str, Tensor], Tensor], value: ValueT, path: str = "") -> ValueT:
    """A value like `value`, with each tensor (given with its path) transformed."""
    if isinstance(value, Tensor):
        return transform(path, value)  # type: ignore[return-value]
    inner = {name: map_tensors(transform, item, f"{path}/{name}" if path else name) for name, item in _children(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **inner)
    if isinstance(value, dict):
        return inner  # type: ignore[return-value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*inner.values())
    if isinstance(value, list | tuple):
        return type(value)(inner.values())
    return value


def restore(template: ValueT, tensors: Mapping[str, Tensor]) -> ValueT:
    """A value like `template` with the tensors that `flatten` gave for another such value."""
    return map_tensors(lambda path, old: tensors[path].to(old.device), template)


def move(value: ValueT, device: torch.device | str) -> ValueT:
    """The same value on another device."""
    return map_tensors(lambda _, old: old.to(device), value)
