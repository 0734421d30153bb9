"""Standard normal numbers for many tensors at once, the same on any number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import prod

import torch
from torch import Tensor

from credo.core.rng import Stream
from credo.core.trees import Params

BLOCK = 2**16
"""Random numbers that make a stream of their own on a CPU worth while: it costs as much as some thousand of them."""


def standard_normal(shapes: Mapping[str, tuple[int, ...]], like: Tensor, rng: Stream) -> Params:
    """Standard normal numbers in these shapes: views of one vector, which is filled at once."""
    if not shapes:
        return {}
    sizes = [prod(shape) for shape in shapes.values()]
    parts = torch.split(_filled(sum(sizes), like, rng), sizes)
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def _filled(count: int, like: Tensor, rng: Stream) -> Tensor:
    """Many numbers on a CPU come in blocks with a stream each, so that threads can fill them side by side.

    One thread makes them no faster than a network uses them.
    """
    if like.device.type != "cpu":
        return rng.normal(count, dtype=like.dtype, device=like.device)
    drawn = torch.empty(count, dtype=like.dtype)
    if count < 4 * BLOCK:
        return drawn.normal_(generator=rng.generator())
    blocks = drawn.chunk(4)

    def fill(i: int) -> None:
        blocks[i].normal_(generator=rng.child(i).generator())

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
    """Threads that stay from step to step: to start one takes as long as to fill a block."""
    return ThreadPoolExecutor(count, "credo-noise")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # a fork has none of its parent's threads
