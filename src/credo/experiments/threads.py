"""How many threads an experiment takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread, and give back the others afterwards.

    For networks of a few hundred weights a second thread has nothing to do but wait; where another program wants the
    same cores, it makes every step wait with it (85 seconds instead of 1.2 for 600 steps of the sine, on two busy
    cores).
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
