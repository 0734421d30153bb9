"""Trees of tensors side by side in memory, so that one operation reaches the weights of all layers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import accumulate, islice
from math import prod

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""Names and shapes, (M, *shape) each, in the order in which they lie in memory."""

BLOCK = 2**16
"""Random numbers that make a stream of their own on a CPU worth while: it costs as much as some thousand of them."""


@dataclass(frozen=True)
class Row:
    """Tensors (M, *shape), one after the other.

    Attributes:
        values: all entries, (total,).
        shapes: whose entries they are.

    Example:
        >>> row = Row.of({"a": torch.zeros(1, 2, 2), "b": torch.ones(1, 3)})
        >>> row.values
        tensor([0., 0., 0., 0., 1., 1., 1.])
        >>> row.tree()["a"].shape
        torch.Size([1, 2, 2])
    """

    values: Tensor
    shapes: Shapes

    @staticmethod
    def of(tree: Params) -> Row:
        """A copy of these tensors."""
        shapes = tuple((name, tuple(t.shape)) for name, t in tree.items())
        return Row(torch.cat([t.detach().flatten() for t in tree.values()]), shapes)

    def with_values(self, values: Tensor) -> Row:
        return Row(values, self.shapes)

    def tree(self) -> Params:
        """The tensors by name: views of the row, also for a graph."""
        parts = torch.split(self.values, sizes(self.shapes))
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes, parts, strict=True)}

    @cached_property
    def views(self) -> Params:
        """The same, made once; not for a graph."""
        return self.with_values(self.values.detach()).tree()

    @cached_property
    def single(self) -> Params:
        """The tensors of a row of one member, without the axis for members; not for a graph."""
        parts = torch.split(self.values.detach(), sizes(self.shapes))
        return {name: part.view(shape[1:]) for (name, shape), part in zip(self.shapes, parts, strict=True)}

    def spare(self, name: str) -> Row:
        """A row like this one that lives as long as it does, for what a step needs and the next one overwrites."""
        if name not in self._spares:
            self._spares[name] = self.with_values(torch.empty_like(self.values, requires_grad=False))
        return self._spares[name]

    @cached_property
    def _spares(self) -> dict[str, Row]:
        return {}

    def chosen(self, names: tuple[str, ...]) -> Row:
        """Some of the tensors, in another order if need be; the row itself if they are all of them."""
        if names == tuple(name for name, _ in self.shapes):
            return self
        tree = self.tree()
        return Row.of({name: tree[name] for name in names})


class Leaves:
    """A row as leaves of a graph: one for all of it on a GPU, where launches count, one for each tensor on a CPU.

    There are none before somebody asks for the tensors: a step has more rows than it uses.

    Args:
        row: whose values are copied nowhere.
    """

    def __init__(self, row: Row) -> None:
        self.row = row.with_values(row.values.detach()) if row.values.requires_grad else row
        self._leaves: list[Tensor] = []
        self._spans: list[slice] = []

    @cached_property
    def tree(self) -> Params:
        """The tensors by name, (M, *shape) each."""
        values = self.row.values.detach()
        if values.is_cuda:
            self._leaves, self._spans = [values.requires_grad_()], [slice(0, len(values))]
            return self.row.with_values(values).tree()
        tree = {name: part.requires_grad_() for name, part in self.row.with_values(values).tree().items()}
        self._leaves, self._spans = list(tree.values()), spans(self.row.shapes)
        return tree

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._leaves)

    def gradients(self, found: Iterator[Tensor | None]) -> list[tuple[slice, Tensor]]:
        """Takes as many gradients as there are leaves: where they lie in the row, and those that are not zero, flat."""
        pairs = zip(self._spans, islice(found, len(self._leaves)), strict=True)
        return [(span, g.reshape(-1)) for span, g in pairs if g is not None]


@lru_cache(maxsize=256)
def spans(shapes: Shapes) -> list[slice]:
    """Where each tensor lies."""
    ends = list(accumulate(sizes(shapes)))
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


@lru_cache(maxsize=256)
def sizes(shapes: Shapes) -> list[int]:
    """Entries of each tensor."""
    return [prod(shape) for _, shape in shapes]


@lru_cache(maxsize=256)
def runs(whole: Shapes, part: Shapes) -> list[tuple[slice, slice]]:
    """Where the tensors of one row lie in another, as slices of both; neighbours are joined."""
    places = {name: span for (name, _), span in zip(whole, spans(whole), strict=True)}
    found: list[tuple[slice, slice]] = []
    for (name, _), here in zip(part, spans(part), strict=True):
        there = places[name]
        if found and found[-1][0].stop == there.start:
            before = found.pop()
            there, here = slice(before[0].start, there.stop), slice(before[1].start, here.stop)
        found.append((there, here))
    return found


def standard_normal(like: Tensor, noise: Stream) -> Tensor:
    """Standard normal numbers, as many as in another row.

    Many numbers on a CPU come in blocks with a stream each, so that threads can fill them side by side: one thread
    makes them no faster than the network uses them. The numbers do not depend on how many threads there are.
    """
    if like.device.type != "cpu":
        return noise.normal(len(like), dtype=like.dtype, device=like.device)
    drawn = torch.empty_like(like, requires_grad=False)
    if len(like) < 4 * BLOCK:
        return drawn.normal_(generator=noise.generator())
    blocks = drawn.chunk(4)

    def fill(i: int) -> None:
        blocks[i].normal_(generator=noise.child(i).generator())

    _side_by_side(fill, len(blocks))
    return drawn


def _side_by_side(task: Callable[[int], None], count: int) -> None:
    helpers = min(torch.get_num_threads(), count) - 1
    remaining = iter(range(count))

    def work() -> None:
        for i in remaining:
            task(i)

    others = [_helpers(helpers).submit(work) for _ in range(helpers)]
    work()
    for other in others:
        other.result()


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    """Kept from step to step: to start a thread takes as long as to fill a block."""
    return ThreadPoolExecutor(count, "credo-noise")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # a fork has none of its parent's threads


def keep_memory() -> None:
    """Let the C library keep the memory of a step for the next one, where it is glibc.

    It gives freed blocks of some megabytes back to the system and takes them anew, page by page, at every step: as
    dear as the arithmetic. When one block of up to 32 MiB has been taken and freed, blocks up to that size are kept.
    """
    torch.empty(2**25 - 2**14, dtype=torch.uint8)
