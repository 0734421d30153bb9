"""Whether kernels are in use: all of them, or none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_off = [os.environ.get("CREDO_KERNELS", "1") == "0"]


def enabled() -> bool:
    """Whether kernels may be used; `CREDO_KERNELS=0` in the environment switches them off from the start."""
    return not _off[-1]


@contextmanager
def disabled() -> Iterator[None]:
    """Plain autograd everywhere while the `with` block runs."""
    _off.append(True)
    try:
        yield
    finally:
        _off.pop()
