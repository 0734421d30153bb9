"""What torch takes of the machine: threads and memory."""

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


def keep_memory() -> None:
    """Let the C library keep the memory of a step for the next one, where it is glibc.

    It gives freed blocks of some megabytes back to the system and takes them anew, page by page, at every step, which
    costs a tenth of a step. When one block of up to 32 MiB has been taken and freed, blocks up to that size stay.
    """
    torch.empty(2**25 - 2**14, dtype=torch.uint8)
