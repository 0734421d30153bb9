"""Trees of tensors side by side in memory, so that one operation reaches the weights of all layers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""Names and shapes, (M, *shape) each, in the order in which they lie in memory."""

BLOCK = 2**17
"""Random numbers that come from one stream on a CPU."""


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

    def chosen(self, names: tuple[str, ...]) -> Row:
        """Some of the tensors, in another order if need be; the row itself if they are all of them."""
        if names == tuple(name for name, _ in self.shapes):
            return self
        tree = self.tree()
        return Row.of({name: tree[name] for name in names})


@lru_cache(maxsize=256)
def sizes(shapes: Shapes) -> list[int]:
    """Entries of each tensor."""
    return [prod(shape) for _, shape in shapes]


@lru_cache(maxsize=256)
def runs(whole: Shapes, part: Shapes) -> list[tuple[slice, slice]]:
    """Where the tensors of one row lie in another, as slices of both; neighbours are joined."""
    places, start = {}, 0
    for (name, _), size in zip(whole, sizes(whole), strict=True):
        places[name], start = start, start + size
    found: list[tuple[slice, slice]] = []
    here = 0
    for (name, _), size in zip(part, sizes(part), strict=True):
        there = places[name]
        if found and found[-1][0].stop == there:
            found[-1] = (slice(found[-1][0].start, there + size), slice(found[-1][1].start, here + size))
        else:
            found.append((slice(there, there + size), slice(here, here + size)))
        here += size
    return found


def standard_normal(like: Tensor, noise: Stream) -> Tensor:
    """Standard normal numbers, as many as in another row.

    On a CPU every block has a stream of its own, so that threads can fill them side by side: one thread makes these
    numbers no faster than the network uses them. The numbers do not depend on how many threads there are.
    """
    if like.device.type != "cpu":
        return noise.normal(len(like), dtype=like.dtype, device=like.device)
    drawn = torch.empty_like(like, requires_grad=False)
    blocks = torch.split(drawn, BLOCK)

    def fill(i: int) -> None:
        blocks[i].normal_(generator=noise.child(i).generator())

    _side_by_side(fill, len(blocks))
    return drawn


def _side_by_side(task: Callable[[int], None], count: int) -> None:
    threads = min(torch.get_num_threads(), count)
    if threads < 2:
        for i in range(count):
            task(i)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(task, range(count)))
